# SPDX-License-Identifier: BSD-3-Clause
"""DPDK: every virtual device that can be had without hardware, with the Linux kernel as the peer
(net_tap, net_af_packet) and with our own stack (ucload over memif and over vhost with virtio-user).

The protocol suites run over DPDK as well: UCACHED_STACK=dpdk (net_af_packet on a veth pair) or
UCACHED_STACK=dpdk-tap (net_tap) in front of any test.
"""

import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import time

import netspace
import pytest
import server as servers
import veth
from dpdkpair import (  # noqa: F401
    SMALL,
    START_SECONDS,
    huge_pages,
    memif,
    pair,
    possible,
    sockets,
    ucload_path,
    vhost,
)
from server import TAP_ADDRESS, TAP_HOST_ADDRESS, TAP_PORT
from wire import MISS, STORED, hit, settles, storage, wire_to

MEGABYTE = random.Random(7).randbytes(1_000_000)


def serves(server, value=b"x"):
    with wire_to(server) as wire:
        wire.say(storage(b"set", b"k", value), STORED)
        wire.say(b"get k\r\n", hit(b"k", value) + MISS)


def fails(path, *args, space=None):
    """The message of a server that cannot start."""
    done = (space or netspace.HostSpace()).run(
        subprocess.run,
        [path, "--io=dpdk", *args],
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
    )
    assert done.returncode > 0, done
    assert done.stdout == "", "DPDK's manual got through"
    return done.stderr


# ---- the kernel's TCP as the peer -------------------------------------------------------------


@pytest.fixture
def start(ucached_path, tmp_path):
    """start(kind, *args): a server on net_tap ("dpdk-tap") or net_af_packet ("dpdk")."""
    started = []

    def start(kind, *args):
        log = tmp_path / f"{kind}-{len(started)}.log"
        started.append(servers.STACKS[kind](ucached_path, log, list(map(str, args))))
        return started[-1]

    yield start
    for server in started:
        server.stop()


KERNEL_LINKS = ["dpdk-tap", "dpdk"]


@pytest.mark.parametrize("without", ["", "csum", "sg", "zerocopy", "csum,tso,sg,zerocopy,rss"])
@pytest.mark.parametrize("kind", KERNEL_LINKS)
def test_megabyte_with_offloads_on_and_off(start, kind, without):
    server = start(kind, *([f"--without={without}"] if without else []))
    serves(server, MEGABYTE)
    stats = server.stats("nic")
    assert stats["backend"] == "dpdk" and stats["dpdk_link_up"] == "1"
    assert int(stats["dpdk_rx_bytes"]) > 1_000_000 and int(stats["dpdk_tx_bytes"]) > 1_000_000
    copied = "zerocopy" in without or "sg" in without
    assert (int(stats["dpdk_tx_zero_copy"]) == 0) == copied
    assert int(stats["dpdk_tx_refused"]) == int(stats["dpdk_rx_errors"]) == 0


@pytest.mark.parametrize("kind", KERNEL_LINKS)
def test_many_connections(start, kind):
    server = start(kind)
    wires = [wire_to(server) for _ in range(100)]
    for number, wire in enumerate(wires):
        wire.send(storage(b"set", b"k%d" % number, b"v%d" % number) + b"get k%d\r\n" % number)
    for number, wire in enumerate(wires):
        wire.expect(STORED + hit(b"k%d" % number, b"v%d" % number) + MISS)
        wire.close()


@pytest.mark.parametrize("kind", KERNEL_LINKS)
def test_udp_and_ip6(start, kind):
    server = start(
        kind,
        *("-U", TAP_PORT, f"--ip={TAP_ADDRESS}/24", "--ip=fd00:100::20/64"),
        *(f"--host-ip={TAP_HOST_ADDRESS}/24", "--host-ip=fd00:100::10/64"),
    )
    serves(server)
    packet = struct.pack(">HHHH", 1, 0, 1, 0) + b"get k\r\n"
    for family, address in [(socket.AF_INET, TAP_ADDRESS), (socket.AF_INET6, "fd00:100::20")]:
        with server.space.run(socket.socket, family, socket.SOCK_DGRAM) as sock:
            sock.settimeout(0.5)

            def asks(sock=sock, address=address):
                sock.sendto(packet, (address, TAP_PORT))
                try:
                    return sock.recv(2000)
                except (TimeoutError, OSError):
                    return b""

            assert settles(asks).endswith(hit(b"k", b"x") + MISS)


def test_trace_and_faults_above_dpdk(start, tmp_path):
    trace = tmp_path / "trace.pcap"
    server = start("dpdk-tap", "--fault=loss=3%,dup=3%,reorder=3%,seed=5", f"--trace={trace}")
    serves(server, MEGABYTE)
    stats = server.stats("nic")
    assert int(stats["fault_lost"] if "fault_lost" in stats else stats["fault_rx_lost"]) > 0
    server.signal(signal.SIGTERM)
    server.wait()
    data = trace.read_bytes()
    assert data[:4] == struct.pack("=I", 0xA1B2C3D4) and len(data) > 2_000_000


def test_jumbo_frames(ucached_path, tmp_path):
    """9000 bytes over net_af_packet, whose ring has to have frames as large."""
    link = veth.Link([], [f"{TAP_HOST_ADDRESS}/24"], mtu=9000)
    servers.finish_checksums(link.client, veth.CLIENT_DEVICE)
    device = f"--dev=net_af_packet0,iface={veth.SERVER_DEVICE}"
    command = [ucached_path, "--io=dpdk", device, "--mtu=9000", f"--ip={TAP_ADDRESS}/24"]
    where = (TAP_ADDRESS, TAP_PORT)
    server = servers.Server("dpdk", command, where, link.client, tmp_path / "log", link.server)
    try:
        serves(server, MEGABYTE)
        stats = server.stats("nic")
        frames = int(stats["dpdk_rx_frames"]) + int(stats["dpdk_tx_frames"])
        assert int(stats["dpdk_tx_bytes"]) / int(stats["dpdk_tx_frames"]) > 4000, stats
        assert frames < 1200
    finally:
        server.stop()


def test_link_down_and_up(start):
    server = start("dpdk-tap")
    serves(server)
    with wire_to(server) as wire:
        wire.say(storage(b"set", b"a", b"1"), STORED)
        veth.ip(server.space, "link", "set", veth.CLIENT_DEVICE, "down")
        time.sleep(0.5)
        veth.ip(server.space, "link", "set", veth.CLIENT_DEVICE, "up")
        veth.ip(server.space, "addr", "replace", f"{TAP_HOST_ADDRESS}/24", "dev",
                veth.CLIENT_DEVICE)
        wire.say(b"get a\r\n", hit(b"a", b"1") + MISS)
    serves(server)


@pytest.mark.parametrize("kind", KERNEL_LINKS)
def test_killed_and_started_again(start, kind, ucached_path, tmp_path):
    server = start(kind)
    serves(server)
    server.signal(signal.SIGKILL)
    server.wait()
    again = start(kind)
    serves(again)


def cpu_seconds(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("kind, share", [("dpdk-tap", 0.1), ("dpdk", 0.5)])
def test_idle_server_sleeps(start, kind, share):
    """By the interrupt of the driver, or by naps where it has none; test_idle.py: and wakes."""
    server = start(kind)

    def is_idle(seconds=2):
        serves(server)  # interrupts count as coming once one has announced frames
        before = cpu_seconds(server.pid)
        time.sleep(seconds)
        return cpu_seconds(server.pid) - before < seconds * share

    assert settles(is_idle)
    stats = server.stats("nic")
    assert int(stats["dpdk_interrupt_waits" if kind == "dpdk-tap" else "dpdk_timed_waits"]) > 0


# ---- our own stack as the peer ----------------------------------------------------------------


BULK = ("-n300", "-c4", "-k10", "-m", "get:3,set:1", "--value-size=900000-1000000")


@pytest.mark.parametrize("what", [SMALL, BULK], ids=["small", "bulk"])
@pytest.mark.parametrize("link", [memif, vhost])
def test_own_stack_as_the_peer(pair, sockets, link, what):
    server_device, client_device = link(sockets)
    server = pair.serve(server_device)
    pair.result(pair.load(client_device, *what))
    server.terminate()
    assert server.wait(20) == 0


OFFLOADS = ["csum", "sg", "zerocopy", "tso", "csum,tso,sg,zerocopy"]


@pytest.mark.long
@pytest.mark.parametrize("without", OFFLOADS)
def test_vhost_offloads_off(pair, sockets, without):
    """Offloads are disabled at one end, then at the other: both have to agree."""
    server_device, client_device = vhost(sockets)
    pair.serve(server_device, f"--without={without}")
    pair.result(pair.load(client_device, *BULK))
    pair.result(pair.load(client_device, f"--without={without}", *BULK))


PCAP_HEADER_BYTES = 24


def frame_sizes(path, begin=0):
    """Of the frames in a pcap file, from this byte of it on."""
    data = path.read_bytes()
    at, sizes = max(begin, PCAP_HEADER_BYTES), []
    while at + 16 <= len(data):
        captured, size = struct.unpack_from("=II", data, at + 8)
        sizes.append(size)
        at += 16 + captured
    return sizes


@pytest.mark.parametrize("tso", [True, False])
def test_large_segments_over_virtio(pair, sockets, tmp_path, tso):
    """The server's end is virtio-user, which lets the link have segments of up to 64 KiB."""
    trace = tmp_path / "trace.pcap"
    client_device, server_device = vhost(sockets, ",tso=1")
    load = pair.load(client_device, *BULK)
    assert settles(lambda: os.path.exists(f"{sockets}/v"), START_SECONDS)
    server = pair.serve(
        server_device, f"--trace={trace}", *([] if tso else ["--without=tso"])
    )
    pair.result(load)
    server.terminate()
    server.wait(20)
    sizes = frame_sizes(trace)
    assert sum(sizes) > 50_000_000
    assert (max(sizes) > 40_000) if tso else (max(sizes) <= 1514)


def test_large_segments_to_guests_that_take_them(pair, sockets, tmp_path):
    """One server, and three clients one after the other, each with other offloads."""
    server_device, takes = vhost(sockets)
    trace = tmp_path / "trace.pcap"
    server = pair.serve(server_device, f"--trace={trace}")
    largest = []

    def written():
        """The size of the trace, once the server has no more to write."""
        before = -1
        while before != (now := os.path.getsize(trace)):
            before = now
            time.sleep(0.3)
        return now

    for device, *more in ((takes, "--without=tso"), (takes,), (vhost_vectorized(sockets)[1],)):
        before = written()
        pair.result(pair.load(device, "-n60", "-c4", "-k10", "--value-size=900000-1000000", *more))
        written()
        sizes = frame_sizes(trace, before)
        assert sum(sizes) > 50_000_000
        largest.append(max(sizes))
    server.terminate()
    assert server.wait(20) == 0
    assert [size > 40_000 for size in largest] == [False, True, False], largest


@pytest.mark.parametrize("link", [memif, vhost])
def test_jumbo_frames_between_our_own(pair, sockets, link):
    server_device, client_device = link(sockets)
    pair.serve(server_device, "--mtu=9000")
    pair.result(pair.load(client_device, "--mtu=9000", *BULK))


@pytest.mark.long
@pytest.mark.parametrize("link", [memif, vhost])
def test_server_killed_and_started_again(pair, sockets, link):
    """Files of a killed server, such as the socket of the link, do not stop the next one."""
    server_device, client_device = link(sockets)
    server = pair.serve(server_device)
    pair.result(pair.load(client_device, *SMALL))
    server.kill()
    server.wait()
    assert os.listdir(sockets), "the socket is not there: nothing is tested"
    pair.serve(server_device)
    pair.result(pair.load(client_device, *SMALL))


def vhost_vectorized(sockets):
    """As `make bench` has it: the fastest that virtio's driver can do, and the most delicate."""
    return (f"net_vhost0,iface={sockets}/v",
            f"net_virtio_user0,path={sockets}/v,mrg_rxbuf=0,in_order=1,vectorized=1")


# Each phase of a run has a new thread; --slo has twenty and more.
SHORT_RUNS = [
    ("--slo=mean<1ms", "-T0.5", "-d4"),
    ("--rate=50000", "-n15000", "-c100", "--idle=300", "--value-size=0-3000"),
    ("--reconnect=3", "-n10000", "-c100", "-m", "get:5,set:3,delete:1,incr:1,touch:1"),
    ("-n50000", "-d64", "-c500", "-P", "binary", "--value-size=0-1400", "-m", "get,set"),
    ("-n50000", "-d16", "-c500", "-P", "meta", "--poll"),
    ("-n3000", "-c500", "-t2", "--queues=1", "--value-size=5000-70000", "-m", "get:9,set:1"),
]


@pytest.mark.long
@pytest.mark.parametrize("link", [memif, vhost, vhost_vectorized])
def test_short_runs_one_after_the_other(pair, sockets, link):
    """Threads, phases and clients that end free all their resources."""
    server_device, client_device = link(sockets)
    without = ["--without=csum"] if link is vhost_vectorized else []
    server = pair.serve(server_device, *without)
    for args in SHORT_RUNS:
        # A busy machine does not reach the rate.
        statuses = (0, os.EX_TEMPFAIL) if args[0].startswith("--rate") else (0,)
        pair.result(pair.load(client_device, *without, *args), statuses)
    server.terminate()
    assert server.wait(20) == 0


@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("link", [memif, vhost])
def test_on_huge_pages(pair, sockets, huge_pages, link, mtu):
    """The larger MTU needs more pages than virtio can announce to the other end one by one."""
    server_device, client_device = link(sockets)
    server = pair.serve(server_device, f"--mtu={mtu}")
    pair.result(pair.load(client_device, f"--mtu={mtu}", *BULK))
    assert "huge pages" not in pathlib.Path(f"{server.log}.err").read_text()


# ---- what cannot be ---------------------------------------------------------------------------

MISTAKES = [
    (["--dev=7"], "no port 7"),
    ([], "no device"),
    (["--dev=net_bogus0"], "net_bogus0"),
    (["--dev=net_af_packet0,iface=nosuch0"], "No such device"),
    (["--dev=net_virtio_user0,path=/nosuch"], "No such file or directory"),
    (["--dev=net_vhost0,iface=/nosuch/v"], "No such file or directory"),
    (["--dev=0000:ff:1f.7"], "no PCI device 0000:ff:1f.7"),
    (["--dev=net_tap0,iface=t0", "--mtu=9000"], "MTU 9000: the driver allows up to"),
    (["--eal=--nosuch"], "--nosuch"),
    (["--eal=--help"], "--help is no argument for a server"),
    (["--eal=--vdev='net_null0"], "not closed"),
    (["--eal=--no-huge --vdev=net_null0 --vdev=net_null1"], "choose one with --dev"),
    (["--eal=--socket-mem=1048576 --vdev=net_null0"], "huge pages"),
]


@pytest.mark.parametrize("args, word", MISTAKES, ids=lambda value: str(value)[:40])
def test_mistakes(huge_page_lock, ucached_path, args, word):
    space = netspace.NetSpace()
    message = fails(ucached_path, *args, space=space)
    space.close()
    assert word in message, message
    assert message.startswith("ucached: ") and "EAL: FATAL" not in message


def test_without_permission(ucached_path):
    def run():
        os.setgid(65534)
        os.setuid(65534)

    done = subprocess.run([ucached_path, "--io=dpdk", "--dev=net_tap0,iface=t0"], preexec_fn=run,
                          capture_output=True, text=True, timeout=START_SECONDS)
    assert done.returncode > 0
    assert "Operation not permitted" in done.stderr, done.stderr


# ---- as a daemon ------------------------------------------------------------------------------


def test_in_the_background(pair, sockets, tmp_path):
    """DPDK is set up after the fork, so that its threads run in the daemon and accept clients."""
    server_device, client_device = vhost(sockets)
    pidfile = tmp_path / "pid"
    front = pair.spawn("ucached", server_device, "-d", "-P", str(pidfile))
    assert front.wait(START_SECONDS) == 0
    assert settles(pidfile.exists)
    pid = int(pidfile.read_text())
    try:
        pair.result(pair.load(client_device, *SMALL))
    finally:
        os.kill(pid, signal.SIGTERM)
    assert settles(lambda: not pidfile.exists())


def test_failure_in_the_background_is_seen(ucached_path):
    assert "No such file or directory" in fails(ucached_path, "-d", "--dev=net_vhost0,iface=/no/v")


# ---- two queues -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KERNEL_LINKS)
def test_two_queues_and_the_kernel(start, kind):
    server = start(kind, "-t", "2")
    wires = [wire_to(server) for _ in range(40)]
    for number, wire in enumerate(wires):
        wire.send(storage(b"set", b"k%d" % number, MEGABYTE[: 1000 * number]))
    for number, wire in enumerate(wires):
        wire.expect(STORED)
    for number, wire in enumerate(wires):
        wire.say(b"get k%d\r\n" % (39 - number),
                 hit(b"k%d" % (39 - number), MEGABYTE[: 1000 * (39 - number)]) + MISS)
        wire.close()
    stats = server.stats("nic")
    assert int(stats["lane_received"]) == 0 or int(stats["lane_forwarded"]) > 0


@pytest.mark.long
@pytest.mark.parametrize("link", [memif, vhost])
def test_two_threads_on_one_queue(pair, sockets, link):
    """Links of one queue serve two workers, which pass frames to each other."""
    server_device, client_device = link(sockets)
    server = pair.serve(server_device, "-t", "2")
    assert "2 threads on 1 queue)" in pathlib.Path(f"{server.log}.err").read_text()
    pair.result(pair.load(client_device, *SMALL))
    pair.result(pair.load(client_device, *BULK))
