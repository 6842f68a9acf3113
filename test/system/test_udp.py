# SPDX-License-Identifier: BSD-3-Clause
"""memcached's UDP over kernel sockets and over the own stack."""

import contextlib
import pathlib
import random
import select
import socket
import struct
import time

import pytest
import rawnet
import rawpeer
from server import TAP_PORT, free_port
from test_start import dial, ends, launch  # noqa: F401
from wire import hit, settles, storage, wire_to

HEADER = struct.Struct("!HHHH")


class Datagrams:
    """A UDP client: one request datagram, one reply put together from its datagrams."""

    def __init__(self, sock):
        self.sock = sock
        self.number = random.randrange(65536)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, request, total=1, sequence=0):
        self.number = (self.number + 1) % 65536
        self.sock.send(HEADER.pack(self.number, sequence, total, 0) + request)

    def receive(self):
        parts = {}
        while True:
            datagram = self.sock.recv(65536)
            assert 8 < len(datagram) <= 1400
            number, sequence, total, reserved = HEADER.unpack_from(datagram)
            assert number == self.number and reserved == 0 and sequence < total
            assert sequence not in parts
            parts[sequence] = datagram[8:]
            if len(parts) == total:
                assert all(len(parts[i]) == 1392 for i in range(total - 1))
                return b"".join(parts[i] for i in range(total))

    def ask(self, request):
        self.send(request)
        return self.receive()

    def insist(self, request):
        """The reply to a request that is sent each second: the first ones may be lost behind a
        burst of others, whose replies are skipped."""
        numbers = set()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            self.send(request)
            numbers.add(self.number)
            again = time.monotonic() + 1
            while select.select([self.sock], [], [], max(0, again - time.monotonic()))[0]:
                datagram = self.sock.recv(65536)
                if HEADER.unpack_from(datagram)[0] in numbers:
                    return datagram[HEADER.size :]
        raise AssertionError(f"no reply to {request!r}")

    def silent(self, seconds=0.3):
        self.sock.settimeout(seconds)
        try:
            self.sock.recv(65536)
            return False
        except TimeoutError:
            return True
        finally:
            self.sock.settimeout(60)


def datagrams_to(server, port):
    def make():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.settimeout(60)
        sock.connect((server.address[0], port))
        return Datagrams(sock)

    return server.space.run(make)


UNLIMITED = ("--udp-reply=1088k", "--udp-rate=0")


def stack_stats(server):
    return server.stats("ustack" if server.kind == "tap" else "sock")


@pytest.fixture(params=["sock", "tap"])
def both(request, start_server):
    """A server with UDP, and a UDP client of it."""
    port = TAP_PORT if request.param == "tap" else free_port()
    args = getattr(request.node.get_closest_marker("udp_args"), "args", ())
    server = start_server(request.param, "-U", port, *args)
    with datagrams_to(server, port) as udp:
        yield server, udp


def test_text(both):
    server, udp = both
    assert udp.ask(b"set k 5 0 3\r\nabc\r\n") == b"STORED\r\n"
    assert udp.ask(b"get k\r\n") == b"VALUE k 5 3\r\nabc\r\nEND\r\n"
    assert udp.ask(b"get none\r\n") == b"END\r\n"
    assert udp.ask(b"version\r\n").startswith(b"VERSION ")
    assert udp.ask(b"nonsense\r\n") == b"ERROR\r\n"
    assert udp.ask(b"incr k 1\r\n").startswith(b"CLIENT_ERROR ")
    assert udp.ask(b"delete k\r\n") == b"DELETED\r\n"
    assert b"STAT pid " in udp.ask(b"stats\r\n")


def test_meta(both):
    _, udp = both
    assert udp.ask(b"ms k 2\r\nhi\r\n") == b"HD\r\n"
    assert udp.ask(b"mg k v\r\n") == b"VA 2\r\nhi\r\n"
    assert udp.ask(b"mn\r\n") == b"MN\r\n"


def test_binary_and_text_by_turns(both):
    _, udp = both
    noop = struct.pack("!BBHBBHIIQ", 0x80, 0x0A, 0, 0, 0, 0, 0, 77, 0)
    assert udp.ask(noop) == struct.pack("!BBHBBHIIQ", 0x81, 0x0A, 0, 0, 0, 0, 0, 77, 0)
    assert udp.ask(b"get k\r\n") == b"END\r\n"
    quiet_miss = struct.pack("!BBHBBHIIQ", 0x80, 0x09, 1, 0, 0, 0, 1, 0, 0) + b"k"
    udp.send(quiet_miss)
    assert udp.silent()
    assert udp.ask(noop)[:2] == b"\x81\x0a"


def test_one_message_for_all_requests_of_a_datagram(both):
    _, udp = both
    request = storage(b"set", b"u", b"x" * 700) + b"get u nope u\r\nget nope\r\n" * 30
    once = hit(b"u", b"x" * 700) * 2 + b"END\r\n" + b"END\r\n"
    assert udp.ask(request) == b"STORED\r\n" + once * 30


@pytest.mark.udp_args(*UNLIMITED)
@pytest.mark.parametrize("size", [0, 1, 1360, 1361, 1362, 1363, 5000, 200_000, 1_000_000])
def test_sizes(both, size):
    server, udp = both
    value = bytes(random.randbytes(size))
    with wire_to(server) as wire:
        wire.say(storage(b"set", b"k", value), b"STORED\r\n")
    for _ in range(20):  # on a slow machine the kernel may drop some of many
        udp.send(b"get k\r\n")
        udp.sock.settimeout(1)
        with contextlib.suppress(TimeoutError):
            assert udp.receive() == hit(b"k", value) + b"END\r\n"
            return
    pytest.fail("no complete reply")


TOO_LARGE = b"SERVER_ERROR the reply is too large for UDP\r\n"


def test_reply_is_bounded(both):
    """64 KiB by default: a value of 65,000 bytes passes, two of 40,000 do not."""
    server, udp = both
    with wire_to(server) as wire:
        wire.say(storage(b"set", b"k", b"x" * 40_000), b"STORED\r\n")
        wire.say(storage(b"set", b"l", b"x" * 65_000), b"STORED\r\n")
    assert udp.ask(b"get k k\r\n") == TOO_LARGE
    assert udp.ask(b"get l\r\n") == hit(b"l", b"x" * 65_000) + b"END\r\n"
    assert stack_stats(server)["udp_too_large"] == "1"


@pytest.mark.udp_args("--udp-reply=1088k")
def test_longest_reply_there_is(both):
    server, udp = both
    with wire_to(server) as wire:
        wire.say(storage(b"set", b"k", b"x" * 900_000), b"STORED\r\n")
    assert udp.ask(b"get k k k k\r\n") == TOO_LARGE
    assert udp.ask(b"get none\r\n") == b"END\r\n"


@pytest.mark.udp_args("--udp-rate=1")
def test_rate_of_a_source_is_bounded(both):
    """The bucket holds one longest reply, 64 KiB; then the rate limits replies to the source."""
    server, udp = both
    with wire_to(server) as wire:
        wire.say(storage(b"set", b"k", b"x" * 10_000), b"STORED\r\n")
    for _ in range(6):
        assert udp.ask(b"get k\r\n") == hit(b"k", b"x" * 10_000) + b"END\r\n"
    udp.send(b"get k\r\n")
    assert udp.silent()
    assert udp.ask(b"get none_such_and_long\r\n") == b"END\r\n"
    assert udp.ask(storage(b"set", b"l", b"x" * 10)) == b"STORED\r\n"
    assert stack_stats(server)["udp_rate_limited"] == "1"


def test_start_warns_of_reflection(both):
    server, _ = both
    lines = [line for line in server.log().splitlines() if "UDP is on" in line]
    assert len(lines) == 1 and "forged" in lines[0] and "65536 bytes" in lines[0]


SILENT_HOSTS = [f"10.100.0.{number}" for number in range(40, 240)]


def asked_by_ip6(server):
    """Whether a connection over IPv6 is accepted."""
    try:
        address = (rawpeer.TARGET6, TAP_PORT)
        server.space.run(socket.create_connection, address, 2).close()
        return True
    except OSError:
        return False


@pytest.mark.parametrize("version", [4, 6])
def test_unreachable_sources_delay_no_reply(start_server, version):
    """1,200 requests from 200 addresses that answer no ARP or neighbour solicitation."""
    addresses = ("--ip=10.100.0.20/24", "--host-ip=10.100.0.10/24",
                 "--ip=fd00:100::20/64", "--host-ip=fd00:100::10/64")  # fmt: skip
    server = start_server("tap", "-U", TAP_PORT, *addresses)
    link = rawpeer.UcachedLink(server)
    lan = rawpeer.Lan(link)
    assert settles(lambda: asked_by_ip6(server))  # its duplicate address detection is over
    target = rawpeer.TARGET4 if version == 4 else rawpeer.TARGET6
    make = rawnet.ip4 if version == 4 else rawnet.ip6
    for number in range(1200):
        host = SILENT_HOSTS[number % 200]
        host = host if version == 4 else f"fd00:100::1:{host[9:]}"
        lan.macs[host] = "02:00:5e:00:00:01"
        lan.mute.add(host)
        request = HEADER.pack(1, 0, 1, 0) + b"get none\r\n"
        request = rawnet.udp(host, target, 5000, TAP_PORT, request)
        lan.send_ip(make(host, target, rawnet.IP_UDP, request), host)
        if number % 20 == 0:
            lan.settle(0.001)
    with datagrams_to(server, TAP_PORT) as udp:
        assert udp.ask(b"get none\r\n") == b"END\r\n"
    stats = server.stats("ustack")
    assert stats["datagrams_waiting"] == stats["udp_unsent"] == "0"
    assert stats["drop_datagram_queue"] == "0"
    assert int(stats["udp_sent"]) >= 1000  # of 1,201, less what the device may have dropped
    link.close()


def test_noreply_and_quit_have_no_reply(both):
    _, udp = both
    udp.send(b"set k 0 0 1 noreply\r\nx\r\n")
    udp.send(b"quit\r\n")
    assert udp.silent()
    assert udp.ask(b"get k\r\n") == b"VALUE k 0 1\r\nx\r\nEND\r\n"


def test_incomplete_requests_are_forgotten(both):
    _, udp = both
    udp.send(b"set k 0 0 10\r\n12345")
    udp.send(b"get k")
    assert udp.silent()
    assert udp.ask(b"get k\r\n") == b"END\r\n"


def test_malformed_datagrams_are_dropped(both):
    server, udp = both
    for datagram in (b"", b"\0", b"\0" * 7, b"\0\1\0\0\0\1\0\0", b"\0\1\0\0\0\2\0\0get k\r\n"):
        udp.sock.send(datagram)
    udp.sock.send(b"\0\1\0\0\0\0\0\0get k\r\n")
    assert udp.silent()
    assert udp.ask(b"get k\r\n") == b"END\r\n"
    stats = server.stats("ustack" if server.kind == "tap" else "sock")
    assert int(stats["udp_malformed"]) >= 4 and stats["udp_requests"] == "1"


def test_random_datagrams_are_ignored(both):
    server, udp = both
    rng = random.Random(7)
    words = [b"get ", b"set ", b"k", b" ", b"0", b"\r\n", b"10", b"\x80", b"\0", b"mg ", b"quit"]
    for _ in range(2000):
        body = b"".join(rng.choices(words, k=rng.randrange(20)))
        udp.sock.send(HEADER.pack(udp.number, 0, rng.choice((1, 1, 1, 2)), 0) + body)
    assert udp.insist(b"version\r\n").startswith(b"VERSION ")
    assert server.running()


def test_udp_is_no_connection(both):
    server, udp = both
    assert udp.ask(b"get k\r\n") == b"END\r\n"
    # The connection of this request; workers may not have seen the end of earlier ones.
    assert settles(lambda: server.stats()["curr_connections"] == "1")


def test_off_by_default(server_sock):
    with datagrams_to(server_sock, server_sock.address[1]) as udp:
        udp.send(b"version\r\n")
        with pytest.raises(ConnectionRefusedError):
            udp.receive()


def test_udp_alone_gives_tcp_the_same_port(launch, tmp_path):  # noqa: F811
    port, path = free_port(), tmp_path / "ports"
    process = launch("-U", port, "-l", "127.0.0.1", env={"MEMCACHED_PORT_FILENAME": str(path)})
    with dial(("127.0.0.1", port)) as wire:
        wire.say(b"get k\r\n", b"END\r\n")
        assert wire.stats("settings")["tcpport"] == str(port)
    assert path.read_text() == f"TCP INET: {port}\nUDP INET: {port}\n"
    assert ends(process) == 0


def test_any_free_port(launch, tmp_path):  # noqa: F811
    path = tmp_path / "ports"
    process = launch(
        *("-U", "-1", "-p", "-1", "-l", "127.0.0.1,127.0.0.2"),
        env={"MEMCACHED_PORT_FILENAME": str(path)},
    )
    line = process.stderr.readline()
    while "UDP 127.0.0.2" not in line:
        line = process.stderr.readline()
    assert settles(path.exists)
    kinds = [row.rpartition(": ") for row in path.read_text().splitlines()]
    assert [kind for kind, _, _ in kinds] == ["TCP INET"] * 2 + ["UDP INET"] * 2
    assert kinds[0][2] == kinds[1][2] and kinds[2][2] == kinds[3][2] != "0"
    assert ends(process) == 0


def ask_first(process, port, family, address):
    """The reply to the first request at a server's UDP port, once it listens."""
    while "listening on UDP" not in process.stderr.readline():
        assert process.poll() is None
    with contextlib.closing(socket.socket(family, socket.SOCK_DGRAM)) as sock:
        sock.settimeout(60)
        sock.connect((address, port))
        return Datagrams(sock).ask(b"get k\r\n")


def test_without_tcp(launch):  # noqa: F811
    port = free_port()
    process = launch("-p", "0", "-U", port, "-l", "127.0.0.1")
    assert ask_first(process, port, socket.AF_INET, "127.0.0.1") == b"END\r\n"
    assert ends(process) == 0


def test_ipv6(launch):  # noqa: F811
    if not pathlib.Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 on this machine")
    port = free_port()
    process = launch("-U", port, "-l", "::1")
    assert ask_first(process, port, socket.AF_INET6, "::1") == b"END\r\n"
    assert ends(process) == 0
