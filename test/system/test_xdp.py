# SPDX-License-Identifier: BSD-3-Clause
"""AF_XDP on an interface of the kernel: ucached serves its address and port, other traffic is the
kernel's.

A veth pair leads from the server's namespace, which is the host here, to the clients'. The protocol
suites run over AF_XDP as well: UCACHED_STACK=xdp in front of any test.
"""

import contextlib
import random
import signal
import socket
import struct
import subprocess
import threading
import time

import netspace
import pytest
import server as servers
import veth
from server import IO_TIMEOUT, TAP_PORT, Server
from wire import MISS, STORED, Wire, hit, settles, storage, wire_to

HOST = "10.100.0.20"
OWN = "10.100.0.30"
CLIENT = "10.100.0.10"
HOST6 = "fd00:100::20"
OWN6 = "fd00:100::30"
HOST_ADDRESSES = [f"{HOST}/24", f"{HOST6}/64"]
CLIENT_ADDRESSES = [f"{CLIENT}/24", "fd00:100::10/64"]
SERVICE_PORT = 22
MEGABYTE = random.Random(5).randbytes(1_000_000)


@pytest.fixture(scope="module", autouse=True)
def possible(ucached_path, tap_obstacle):
    """Skips where AF_XDP cannot run: no privilege, or not in this build."""
    if tap_obstacle:
        pytest.skip(f"xdp: {tap_obstacle}")
    if reason := servers.missing(ucached_path, "xdp"):
        pytest.skip(f"xdp: {reason}")


class Host:
    """Starts one or more servers on a link and inspects it."""

    def __init__(self, path, log_folder, **options):
        self.path = path
        self.log_folder = log_folder
        self.link = veth.Link(HOST_ADDRESSES, CLIENT_ADDRESSES, **options)
        self.servers = []

    def command(self, *args):
        device = f"--dev={veth.SERVER_DEVICE}"
        return [self.path, "--io=xdp", device, "-p", str(TAP_PORT), *map(str, args)]

    def start(self, *args, address=HOST):
        """A server that clients reach at the address."""
        log = self.log_folder / f"xdp-{len(self.servers)}.log"
        where = (address, TAP_PORT)
        server = Server("xdp", self.command(*args), where, self.link.client, log, self.link.server)
        self.servers.append(server)
        return server

    def fails(self, *args, **options):
        """The message of a server that cannot start."""
        done = self.link.server.run(
            subprocess.run,
            self.command(*args),
            **{"capture_output": True, "text": True, "timeout": 30, **options},
        )
        assert done.returncode > 0, done
        return done.stderr

    def has_program(self):
        return "xdp" in veth.ip(self.link.server, "link", "show", veth.SERVER_DEVICE)

    def set_link(self, *words):
        veth.ip(self.link.server, "link", "set", veth.SERVER_DEVICE, *words)

    def dial(self, address, port, timeout=IO_TIMEOUT):
        return self.link.client.run(socket.create_connection, (address, port), timeout)

    def close(self):
        for server in self.servers:
            server.kill()
        self.link.close()


@pytest.fixture
def make_host(ucached_path, tmp_path):
    """A function that makes a Host; all of them end with the test."""
    hosts = []

    def make(**options):
        hosts.append(Host(ucached_path, tmp_path, **options))
        return hosts[-1]

    yield make
    for host in hosts:
        host.close()


@pytest.fixture
def host(make_host):
    return make_host()


def serves(server, value=b"x"):
    with wire_to(server) as wire:
        wire.say(storage(b"set", b"k", value), STORED)
        wire.say(b"get k\r\n", hit(b"k", value) + MISS)


# ---- the host's own services ------------------------------------------------------------------


@contextlib.contextmanager
def echo_service(space, port=SERVICE_PORT):
    """A service of the kernel's TCP on all addresses of a namespace: it echoes."""
    listener = space.run(socket.create_server, ("::", port), family=socket.AF_INET6,
                         dualstack_ipv6=True)  # fmt: skip

    def echo(sock):
        with sock:
            while data := sock.recv(65536):
                sock.sendall(data)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        acceptor.join(IO_TIMEOUT)
        listener.close()


def echoes(host, address, text=b"hello"):
    with host.dial(address, SERVICE_PORT) as sock:
        sock.sendall(text)
        received = b""
        while len(received) < len(text):
            received += sock.recv(65536)
        return received == text


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def pings(host, address, timeout=60.0):
    """Whether an echo request is answered."""
    six = ":" in address
    family = socket.AF_INET6 if six else socket.AF_INET
    protocol = socket.IPPROTO_ICMPV6 if six else socket.IPPROTO_ICMP
    request = struct.pack("!BBHHH", 128 if six else 8, 0, 0, 77, 1) + b"payload!"
    if not six:
        request = request[:2] + struct.pack("!H", checksum(request)) + request[4:]
    with host.link.client.run(socket.socket, family, socket.SOCK_RAW, protocol) as sock:
        sock.sendto(request, (address, 0))
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            sock.settimeout(left)
            try:
                data = sock.recv(2048)
            except TimeoutError:
                return False
            answer = data if six else data[20:]
            if answer[0] == (129 if six else 0) and answer[4:] == request[4:]:
                return True
        return False


@pytest.mark.parametrize("mode", ["native", "generic", "copy", "busy-poll"])
def test_other_traffic_stays_with_the_kernel(host, mode):
    server = host.start(f"--xdp={mode}")
    with echo_service(host.link.server):
        for _ in range(3):
            for address in (HOST, HOST6):
                server.address = (address, TAP_PORT)
                serves(server)
                assert echoes(host, address)
                assert pings(host, address)
    assert settles(lambda: server.stats("nic")["xdp_rx_frames"] != "0")
    stats = server.stats("nic")
    assert stats["xdp_native"] == ("0" if mode == "generic" else "1")
    assert stats["xdp_rx_invalid"] == stats["xdp_tx_invalid"] == "0"
    # Nothing but TCP to our port has come to us.
    ustack = server.stats("ustack")
    for name in ("arp_rx", "nd_rx", "icmp_rx_echo", "arp_tx_requests", "nd_tx"):
        assert ustack[name] == "0", name


def test_a_bulk_transfer_beside_one_of_the_host(host):
    server = host.start()
    with echo_service(host.link.server):
        beside = threading.Thread(target=echoes, args=(host, HOST, MEGABYTE))
        beside.start()
        for _ in range(5):
            serves(server, MEGABYTE)
        beside.join(30)
        assert not beside.is_alive()


def test_a_client_beyond_a_router(host):
    """Replies go to the MAC address that requests come from, without a route or ARP."""
    server = host.start()
    beyond = netspace.NetSpace()
    router = host.link.client
    try:
        veth.ip(router, "link", "add", "far0", "type", "veth", "peer", "name", "far1", "netns",
                beyond.path)  # fmt: skip
        veth.ip(router, "addr", "add", "10.200.0.1/24", "dev", "far0")
        veth.ip(router, "link", "set", "far0", "up")
        veth.ip(beyond, "addr", "add", "10.200.0.2/24", "dev", "far1")
        veth.ip(beyond, "link", "set", "far1", "up")
        veth.ip(beyond, "route", "add", "default", "via", "10.200.0.1")

        def forward():
            with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as switch:
                switch.write("1")

        router.run(forward)
        with Wire(beyond.run(socket.create_connection, (HOST, TAP_PORT), IO_TIMEOUT)) as wire:
            wire.say(storage(b"set", b"k", MEGABYTE), STORED)
            wire.say(b"get k\r\n", hit(b"k", MEGABYTE) + MISS)
        assert server.stats("ustack")["arp_tx_requests"] == "0"
    finally:
        beyond.close()


def test_udp_of_the_host(host):
    host.start("-U", "11212")
    with host.link.client.run(socket.socket, socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(IO_TIMEOUT)
        sock.connect((HOST, 11212))
        sock.send(bytes([0, 7, 0, 0, 0, 1, 0, 0]) + b"set k 0 0 1\r\nu\r\n")
        assert sock.recv(2048) == bytes([0, 7, 0, 0, 0, 1, 0, 0]) + b"STORED\r\n"
    # A port that is not ours is the kernel's to refuse.
    with host.link.client.run(socket.socket, socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(IO_TIMEOUT)
        sock.connect((HOST, 11213))
        sock.send(b"x")
        with pytest.raises(ConnectionRefusedError):
            sock.recv(2048)


def test_the_port_is_claimed(host):
    with echo_service(host.link.server, TAP_PORT):
        message = host.fails()
        assert f"TCP port {TAP_PORT}" in message and "in use" in message
    server = host.start()
    with pytest.raises(OSError, match="in use"):
        host.link.server.run(socket.create_server, ("", TAP_PORT))
    serves(server)


# ---- an address of our own --------------------------------------------------------------------


@pytest.mark.parametrize("own, hosts", [(OWN, HOST), (OWN6, HOST6)], ids=["ipv4", "ipv6"])
def test_an_own_address_beside_the_hosts(host, own, hosts):
    server = host.start(f"--ip={own}/{64 if ':' in own else 24}", address=own)
    serves(server, MEGABYTE)
    assert pings(host, own) and pings(host, hosts)
    with echo_service(host.link.server):
        assert echoes(host, hosts)
    with pytest.raises(ConnectionRefusedError):  # our port of the host's address is the host's
        host.dial(hosts, TAP_PORT)
    with pytest.raises(ConnectionRefusedError):  # and all ports of ours are ours
        host.dial(own, SERVICE_PORT)
    veth.ip(host.link.client, "neigh", "flush", "dev", veth.CLIENT_DEVICE)
    serves(server)  # after asking for us
    counter = "nd_rx" if ":" in own else "arp_rx"
    assert settles(lambda: server.stats("ustack")[counter] != "0")


def test_an_own_hardware_address(host):
    server = host.start(f"--ip={OWN}/24", "--mac=02:00:00:12:34:56", address=OWN)
    serves(server)
    shown = veth.ip(host.link.client, "neigh", "show", OWN)
    assert "02:00:00:12:34:56" in shown


# ---- queues and sizes -------------------------------------------------------------------------


def test_one_thread_serves_all_queues(make_host):
    host = make_host(queues=2)
    server = host.start("-t", "1")
    for _ in range(40):  # the sender spreads them over its queues
        serves(server)
    assert server.stats("nic")["xdp_sockets"] == "2"
    with echo_service(host.link.server):
        assert echoes(host, HOST)


@pytest.mark.parametrize("queues", [1, 2])
def test_more_threads_than_queues(make_host, queues):
    """By default all queues of the interface are used, and their number is printed."""
    server = make_host(queues=queues).start("-t", "3")
    assert f"3 threads on {queues} queue" in server.log()
    wires = [wire_to(server) for _ in range(24)]
    for number, wire in enumerate(wires):
        wire.say(storage(b"set", b"k%d" % number, MEGABYTE[: 4000 * number]), STORED)
    for number, wire in enumerate(wires):
        wire.say(b"get k%d\r\n" % (23 - number),
                 hit(b"k%d" % (23 - number), MEGABYTE[: 4000 * (23 - number)]) + MISS)
        wire.close()
    stats = server.stats("nic")
    assert stats["xdp_sockets"] == str(queues)
    assert int(stats["lane_forwarded"]) > 0 and int(stats["lane_sent_for_others"]) > 0


def test_a_large_mtu(make_host):
    host = make_host(mtu=3400)
    server = host.start()
    serves(server, MEGABYTE)
    assert server.stats("nic")["xdp_native"] == "1"
    server.stop()


def test_an_mtu_that_is_too_large(make_host):
    message = make_host(mtu=9000).fails()
    assert "9000" in message and "mtu 3822" in message


PCAP_HEADER_BYTES = 24
ETHERNET_BYTES = 14


def frame_sizes(path, begin):
    """Of the frames in a pcap file, from this byte of it on."""
    data = path.read_bytes()
    at, sizes = max(begin, PCAP_HEADER_BYTES), []
    while at + 16 <= len(data):
        captured, size = struct.unpack_from("=II", data, at + 8)
        sizes.append(size)
        at += 16 + captured
    return sizes


def written(path):
    """The size of a trace, once it grows no more."""
    sizes = []

    def stays():
        sizes.append(path.stat().st_size)
        return sizes[-2:] == sizes[-1:] * 2

    assert settles(stays, pause=0.3)
    return sizes[-1]


@pytest.mark.long
@pytest.mark.parametrize("args", [(), ("-t", "2"), ("--threading=split",)], ids=str)
def test_the_mtu_changes_while_it_runs(host, tmp_path, args):
    """A smaller one counts for open connections too, one above that of the start is not used."""
    trace = tmp_path / "trace.pcap"
    server = host.start(f"--trace={trace}", *args)

    def follows(mtu, used):
        host.set_link("mtu", str(mtu))
        shown = {"xdp_mtu": str(used), "xdp_mtu_interface": str(mtu)}
        assert settles(lambda: server.stats("nic").items() >= shown.items()), server.stats("nic")

    with wire_to(server) as wire:
        wire.say(storage(b"set", b"k", MEGABYTE), STORED)
        wire.say(b"get k\r\n", hit(b"k", MEGABYTE) + MISS)
        for mtu in (1200, 600):
            follows(mtu, mtu)
            begin = written(trace)
            wire.say(b"get k\r\n", hit(b"k", MEGABYTE) + MISS)
            serves(server, MEGABYTE)  # what a new connection sends us fits, too: the MSS tells it
            written(trace)
            sizes = frame_sizes(trace, begin)
            assert sum(sizes) > 3 * len(MEGABYTE)
            assert max(sizes) == mtu + ETHERNET_BYTES
        follows(3000, 1500)
        begin = written(trace)
        wire.say(b"get k\r\n", hit(b"k", MEGABYTE) + MISS)
        serves(server, MEGABYTE)
        written(trace)
        assert max(frame_sizes(trace, begin)) == 1500 + ETHERNET_BYTES
    ustack = server.stats("ustack")
    assert int(ustack["tcp_pmtu_lowered"]) > 0 and ustack["tcp_pmtu_black_holes"] == "0"


# ---- operation --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(host, number):
    for _ in range(3):
        server = host.start()
        serves(server)
        assert host.has_program()
        server.signal(number)
        server.wait()
        assert settles(lambda: not host.has_program())
        with pytest.raises(ConnectionRefusedError):  # by the kernel, which has the port again
            host.dial(HOST, TAP_PORT)
        server.home, server.space = netspace.HostSpace(), netspace.HostSpace()  # they stay


def test_a_daemon_without_root(host):
    """The frames' memory is shared with the kernel also after a fork."""
    pidfile = host.log_folder / "pid"
    host.log_folder.chmod(0o777)
    command = host.command("-d", "-u", "nobody", "-P", pidfile)
    done = host.link.server.run(subprocess.run, command, timeout=60, capture_output=True)
    assert done.returncode == 0, done.stderr

    def asks():
        with Wire(host.dial(HOST, TAP_PORT)) as wire:
            wire.say(storage(b"set", b"k", MEGABYTE), STORED)
            wire.say(b"get k\r\n", hit(b"k", MEGABYTE) + MISS)
            return int(wire.stats()["pid"])

    pid = asks()
    subprocess.run(["kill", str(pid)], check=True, timeout=5)
    assert settles(lambda: not host.has_program())


def test_the_link_goes_down_and_up(host):
    server = host.start()
    with wire_to(server) as wire:
        for _ in range(2):
            wire.say(storage(b"set", b"k", b"1"), STORED)
            host.set_link("down")
            time.sleep(0.2)
            host.set_link("up")
            wire.say(b"get k\r\n", hit(b"k", b"1") + MISS)
    veth.ip(host.link.client, "link", "set", veth.CLIENT_DEVICE, "down")
    veth.ip(host.link.client, "link", "set", veth.CLIENT_DEVICE, "up")
    serves(server)


def test_the_interface_is_removed(host):
    server = host.start()
    serves(server)
    veth.ip(host.link.server, "link", "del", veth.SERVER_DEVICE)
    assert server.wait() > 0
    assert "No such device" in server.log()


def test_trace_and_faults(host, tmp_path):
    path = tmp_path / "trace.pcap"
    server = host.start(f"--trace={path}", "--fault=loss=3%,reorder=3%,dup=2%,seed=9")
    for _ in range(3):
        serves(server, MEGABYTE)
    assert settles(lambda: server.stats("nic")["fault_rx_lost"] != "0")
    server.stop()
    data = path.read_bytes()
    assert struct.unpack_from("=I", data)[0] == 0xA1B2C3D4 and len(data) > 6 * len(MEGABYTE)


# ---- messages ---------------------------------------------------------------------------------


def test_messages(host):
    def says(*args, **options):
        return host.fails(*args, **options)

    assert says("--dev=nosuch0").rstrip().endswith("no such interface: see ip link")
    assert "no such interface" in says("--dev=nosuch0", "--ip=10.0.0.1/8")
    assert "not an Ethernet interface" in says("--dev=lo")
    assert "needs root, or CAP_BPF" in says(user=65534, group=65534, extra_groups=[])
    assert "MTU 9000: between" in says("--mtu=9000")
    host.set_link("down")
    assert f"ip link set dev {veth.SERVER_DEVICE} up" in says()
    host.set_link("up")
    veth.ip(host.link.server, "addr", "flush", "dev", veth.SERVER_DEVICE)
    assert "has no address" in says()


def test_a_second_server_on_the_interface(host):
    first = host.start()
    message = host.fails("-p", TAP_PORT + 1)
    assert "another XDP program is attached" in message
    serves(first)
