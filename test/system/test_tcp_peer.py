# SPDX-License-Identifier: BSD-3-Clause
"""The own TCP with the Linux kernel as the peer, whose behaviour socket options change."""

import errno
import random
import socket
import struct
import threading
import time

import pytest
from server import TAP_ADDRESS, TAP_PORT
from wire import MISS, STORED, hit, settles, storage, wire_to, wire_with_options

LINGER_RESET = (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
MEGABYTE = random.Random(11).randbytes(1_000_000)


@pytest.fixture
def big(server_tap):
    """The server with a value of 1 MB under "big"."""
    with wire_to(server_tap) as wire:
        wire.say(storage(b"set", b"big", MEGABYTE), STORED)
    return server_tap


def sysctl(space, name, value):
    def write():
        with open(f"/proc/sys/net/ipv4/{name}", "w", encoding="ascii") as file:
            file.write(str(value))

    space.run(write)


def serves(server):
    with wire_to(server) as wire:
        wire.say(storage(b"set", b"k", b"x") + b"get k\r\n", STORED + hit(b"k", b"x") + MISS)


# ---- opening and closing ----------------------------------------------------------------------


def test_closed_port_refuses(server_tap):
    for port in (1, 80, TAP_PORT - 1, TAP_PORT + 1, 65535):
        with pytest.raises(ConnectionRefusedError):
            server_tap.space.run(socket.create_connection, (TAP_ADDRESS, port), 20)
    serves(server_tap)


def test_storm_of_resets(server_tap):
    for number in range(2000):
        wire = wire_with_options(server_tap, [LINGER_RESET])
        if number % 3 == 0:
            wire.send(b"get k\r\n" * (number % 7))
        wire.sock.close()
    with wire_to(server_tap) as wire:
        assert settles(lambda: wire.stats()["curr_connections"] == "1")
        assert settles(lambda: wire.stats("ustack")["conns_open"] == "1")


def test_connecting_without_waiting(server_tap):
    """300 handshakes at once, half of them given up before they are complete."""

    def start(count):
        sockets = []
        for _ in range(count):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex((TAP_ADDRESS, TAP_PORT))
            sockets.append(sock)
        return sockets

    sockets = server_tap.space.run(start, 300)
    for sock in sockets[::2]:
        sock.setsockopt(*LINGER_RESET)
        sock.close()
    for sock in sockets[1::2]:
        sock.settimeout(60)
        sock.sendall(b"get k\r\nquit\r\n")
    for sock in sockets[1::2]:
        assert sock.recv(100) == MISS
        assert sock.recv(100) == b""
        sock.close()
    serves(server_tap)


def test_same_source_port_again_after_the_server_closed_first(server_tap):
    """The server is in TIME-WAIT; a SYN with a later sequence number opens anew (RFC 6191)."""
    options = [(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)]

    def connect():
        try:
            return wire_with_options(server_tap, options, source_port=40001, timeout=60)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            return None  # the FIN of the client has not been acknowledged yet

    for number in range(20):
        with settles(connect, pause=0.002) as wire:
            wire.send(b"incr none %d\r\nquit\r\n" % number)
            wire.ends_with(b"NOT_FOUND\r\n")


def test_same_source_port_again_after_a_reset(server_tap):
    for _ in range(50):
        options = [(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1), LINGER_RESET]
        with wire_with_options(server_tap, options, source_port=40002, timeout=60) as wire:
            wire.send(b"get k\r\n")
            wire.expect(MISS)


def test_client_closes_while_replies_are_on_their_way(big):
    for number in range(30):
        with wire_to(big) as wire:
            wire.send(b"get big\r\n" * 4)
            wire.exactly(1 + number * 30_000)
    with wire_to(big) as wire:
        assert settles(lambda: wire.stats()["curr_connections"] == "1")
        assert settles(lambda: int(wire.stats("ustack")["buffer_bytes_used"]) < 100_000)


# ---- windows and segments ---------------------------------------------------------------------


@pytest.mark.parametrize("size", [2048, 8192, 65536, 1 << 20, 4 << 20])
def test_receive_buffers(big, size):
    options = [(socket.SOL_SOCKET, socket.SO_RCVBUF, size)]
    times = 2 if size < 8192 else 5
    with wire_with_options(big, options) as wire:
        wire.send(b"get big\r\n" * times)
        for _ in range(times):
            wire.expect(hit(b"big", MEGABYTE) + MISS)


def test_zero_windows(big):
    """A tiny buffer that is read in pieces with pauses: the window closes again and again."""
    options = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)]
    with wire_with_options(big, options) as wire:
        wire.send(b"get big\r\n")
        expected = hit(b"big", MEGABYTE) + MISS
        for number, offset in enumerate(range(0, len(expected), 20_000)):
            if number < 8:
                time.sleep(0.25)
            wire.expect(expected[offset : offset + 20_000])


def test_window_that_stays_closed_for_seconds(big):
    """Long enough for several probes; then everything flows."""
    with wire_with_options(big, [(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)]) as wire:
        wire.send(b"get big\r\n")
        time.sleep(3)
        wire.expect(hit(b"big", MEGABYTE) + MISS)
        wire.say(b"get none\r\n", MISS)


@pytest.mark.parametrize("mss", [88, 216, 536, 1000, 1459])
def test_small_segments(big, mss):
    with wire_with_options(big, [(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss)]) as wire:
        wire.send(b"get big\r\n")
        wire.expect(hit(b"big", MEGABYTE) + MISS)
        wire.say(storage(b"set", b"again", MEGABYTE[:300_000]), STORED)
        wire.say(b"get again\r\n", hit(b"again", MEGABYTE[:300_000]) + MISS)


@pytest.mark.parametrize(
    "name,value",
    [
        ("tcp_timestamps", 0),
        ("tcp_sack", 0),
        ("tcp_window_scaling", 0),
        ("tcp_ecn", 1),
        ("tcp_dsack", 0),
        ("tcp_adv_win_scale", -2),
        ("tcp_congestion_control", "reno"),
    ],
)
def test_options_of_the_kernels_tcp(big, name, value):
    sysctl(big.space, name, value)
    with wire_to(big) as wire:
        wire.send(b"get big\r\n" * 3)
        for _ in range(3):
            wire.expect(hit(b"big", MEGABYTE) + MISS)
        wire.say(
            storage(b"set", b"k", MEGABYTE) + b"get k\r\n", STORED + hit(b"k", MEGABYTE) + MISS
        )


def test_all_options_off(big):
    for name in ("tcp_timestamps", "tcp_sack", "tcp_window_scaling"):
        sysctl(big.space, name, 0)
    with wire_to(big) as wire:
        wire.say(
            storage(b"set", b"k", MEGABYTE) + b"get k\r\n", STORED + hit(b"k", MEGABYTE) + MISS
        )


def test_large_uploads(server_tap):
    """40 MB in, acknowledged and checked."""
    with wire_to(server_tap) as wire:
        for number in range(40):
            wire.send(storage(b"set", b"k%d" % (number % 10), MEGABYTE[number:]))
        for _ in range(40):
            wire.expect(STORED)
        wire.say(b"get k9\r\n", hit(b"k9", MEGABYTE[39:]) + MISS)


def test_many_large_gets_at_once(big):
    """60 clients want 3 MB each at the same time."""
    expected = (hit(b"big", MEGABYTE) + MISS) * 3
    failures = []

    def fetch():
        try:
            with wire_to(big, timeout=60) as wire:
                wire.send(b"get big\r\n" * 3)
                if wire.exactly(len(expected)) != expected:
                    failures.append("wrong bytes")
        except Exception as error:  # shown by the main thread, whatever it is
            failures.append(repr(error))

    threads = [threading.Thread(target=fetch) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert not failures
    with wire_to(big) as wire:
        assert settles(lambda: wire.stats()["curr_connections"] == "1")


# ---- idle connections ------------------------------------------------------------------------


def test_keepalive_probes_are_answered(server_tap):
    options = [
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 1),
    ]
    with wire_with_options(server_tap, options) as wire:
        wire.say(b"get k\r\n", MISS)
        acks_before = segments_in(wire)
        assert wire.silent(3.5)  # an unanswered probe would have ended the connection
        assert segments_in(wire) > acks_before, "no probe was answered, or none was sent"
        wire.say(b"get k\r\n", MISS)


def segments_in(wire):
    """tcpi_segs_in of struct tcp_info: segments that the kernel has received."""
    info = wire.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
    return struct.unpack_from("=I", info, 140)[0]


def test_silence_does_not_end_a_connection(server_tap):
    with wire_to(server_tap) as wire:
        wire.say(b"get k\r\n", MISS)
        assert wire.silent(2)
        wire.say(b"get k\r\n", MISS)


def test_urgent_data_stays_in_the_stream(server_tap):
    """The urgent byte stays in the stream (RFC 6093); here it makes a line that is refused."""
    with wire_to(server_tap) as wire:
        wire.sock.send(b"!", socket.MSG_OOB)
        wire.say(b"foo\r\nget k\r\n", b"ERROR\r\n" + MISS)


def test_fast_round_trips(server_tap):
    """A reply carries the acknowledgement of its request: no timer delays either."""
    with wire_to(server_tap) as wire:
        wire.say(b"get k\r\n", MISS)
        before = wire.stats("ustack")
        for _ in range(1000):
            wire.send(b"get k\r\n")
            wire.expect(MISS)
        after = wire.stats("ustack")
    for name in ("tcp_delayed_acks", "tcp_tx_pure_acks"):
        assert after[name] == before[name], name
