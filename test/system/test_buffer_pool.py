# SPDX-License-Identifier: BSD-3-Clause
"""Hostile clients that fill the buffers of the own stack: other clients are still served.

Each hostile client asks for replies that it never acknowledges and sends single bytes far apart
beyond a gap. The server has its own default sizes. Meanwhile other clients, of the kernel, work.
"""

import time

import pytest
import rawnet
import rawpeer
from conform import start_target
from wire import MISS, STORED, hit, settles, storage

HOSTILE = 190
CONNS = 200
FAR_APART = 280  # single bytes per client: more than blocks fit into a receive window
VALUE = b"v" * 7000  # replies are copied into the buffers up to 8 KiB, referenced beyond
REPLIES = 30  # per client: its session has not to stop for them


@pytest.fixture
def start_pool(tmp_path, ucached_path, tap_obstacle):
    """A function: starts ucached with these arguments, returns the server with .lan."""
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    started = []

    def start(*args):
        server, link = start_target("ucached", ucached_path, tmp_path / "pool.log", args)
        started.append((server, link))
        server.lan = rawpeer.Lan(link)
        return server

    yield start
    for server, link in started:
        link.close()
        server.stop()


def frames_far_apart(peer, size):
    """Segments of so many bytes with gaps between them, behind the next byte in order."""
    frame = rawnet.ip(peer.src, peer.dst, rawnet.IP_TCP, peer.segment("A", b"x" * size, seq=0))
    at = len(frame) - 20 - size  # of the TCP header
    base = int.from_bytes(frame[at + 16 : at + 18], "big") ^ 0xFFFF
    for number in range(FAR_APART):
        seq = (peer.snd + 1000 + (size + 1) * number) & 0xFFFFFFFF
        total = base + (seq >> 16) + (seq & 0xFFFF)
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        yield b"".join(
            (
                frame[: at + 4],
                seq.to_bytes(4, "big"),
                frame[at + 8 : at + 16],
                (total ^ 0xFFFF).to_bytes(2, "big"),
                frame[at + 18 :],
            )
        )


def answers(lan, version):
    """Whether the address is in use: an IPv6 address is looked for first (RFC 4862 5.4)."""
    peer = lan.peer(version)
    try:
        peer.send("S")
        return peer.expect("SA", timeout=0.3)
    except rawpeer.Silent:
        return None
    finally:
        peer.reset()


def occupy(lan, version, ports, size=1, replies=REPLIES):
    """Opens hostile clients and has each of them hold what it can. Returns them."""
    host, asker = lan.host(version), lan.host()
    peers = []
    for port in ports:
        peer = lan.peer(version, host=host)
        peer.sport = port
        peer.open(scale=7, sack_ok=True)
        peer.send("PA", b"get v\r\n" * replies)
        peers.append(peer)
    for peer in peers:
        for frame in frames_far_apart(peer, size):
            lan.send_ip(frame, host)
        lan.catch_up(asker)  # the link's queue does not hold the frames of all
        lan.tcp.clear()
    return peers


def colliding_ports(count):
    """Ports that Toeplitz's hash by a public key of 16 bits, repeated, puts on one lane of four."""

    def low_bits(port):
        window = 0xE34BE34B
        total = 0
        for bit in range(15, -1, -1):
            total ^= window if port >> bit & 1 else 0
            window = (window << 1 | window >> 31) & 0xFFFFFFFF
        return total & 3

    return [port for port in range(20000, 30000) if low_bits(port) == 0][:count]


def work(connections, rounds):
    """Every client is answered, each time and with the right bytes. Returns the longest wait."""
    longest = 0
    for number in range(rounds):
        for name, connection in enumerate(connections):
            key = b"k%d" % name
            begin = time.monotonic()
            value = b"%d " % number * 20
            assert connection.ask(storage(b"set", key, value), b"\r\n") == STORED
            assert connection.ask(b"get %s\r\n" % key, MISS) == hit(key, value) + MISS
            assert connection.ask(b"get v\r\n", MISS) == hit(b"v", VALUE) + MISS
            longest = max(longest, time.monotonic() - begin)
    return longest


def counters(server):
    with server.connect() as connection:
        text = connection.ask(b"stats ustack\r\n", MISS).decode()
    return {
        words[1]: int(words[2])
        for words in (line.split() for line in text.splitlines())
        if len(words) == 3 and words[2].isdigit()
    }


CASES = {
    "ip4": (4, ["-t", "1"], range(20000, 20000 + HOSTILE)),
    "ip6": (6, ["-t", "1"], range(20000, 20000 + HOSTILE)),
    "lanes": (4, ["-t", "4"], colliding_ports(HOSTILE)),
    "split": (4, ["-t", "1", "--threading=split"], range(20000, 20000 + HOSTILE)),
    "merge": (4, ["-t", "1", "--threading=merge"], range(20000, 20000 + HOSTILE)),
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_clients_are_served_while_hostile_clients_fill_the_buffers(start_pool, case):
    version, args, ports = CASES[case]
    server = start_pool("-c", str(CONNS), *args)
    connections = [server.connect() for _ in range(8)]
    assert connections[0].ask(storage(b"set", b"v", VALUE), b"\r\n") == STORED
    assert settles(lambda: answers(server.lan, version))
    occupy(server.lan, version, ports)
    longest = work(connections, 10)
    found = counters(server)
    print(f"{case}: longest wait {longest * 1000:.1f} ms, {found['buffer_bytes_used']} bytes used")
    assert found["tcp_no_memory"] == 0
    assert found["pool_empty_buffers"] == 0
    assert found["drop_tcp_ooo_memory"] > 0
    late = server.connect()  # who comes now is served, too
    work([late, *connections], 1)


@pytest.mark.parametrize("threading", ["unified", "split"])
def test_clients_are_served_from_the_reserve(start_pool, threading):
    """Blocks filled well enough to be stored, then replies for which they are dropped again."""
    server = start_pool("-c", str(CONNS), "-t", "1", f"--threading={threading}")
    connections = [server.connect() for _ in range(8)]
    assert connections[0].ask(storage(b"set", b"v", VALUE), b"\r\n") == STORED
    more = CONNS - len(connections) - 10
    peers = occupy(server.lan, 4, range(20000, 20000 + more), size=600, replies=1)
    work(connections, 1)
    for peer in peers:
        peer.send("PA", b"get v\r\n" * REPLIES)
    longest = work(connections, 10)
    assert settles(lambda: counters(server)["pool_low_buffers"] > 0)
    found = counters(server)
    print(f"{threading}: longest wait {longest * 1000:.1f} ms, {found['tcp_ooo_pruned']} pruned")
    if threading == "unified":  # two threads leave more of the pool free, by their timing
        assert found["tcp_ooo_pruned"] > 0
    assert found["tcp_no_memory"] == 0
    assert found["pool_empty_buffers"] == 0
