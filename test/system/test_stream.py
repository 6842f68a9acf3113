# SPDX-License-Identifier: BSD-3-Clause
"""Requests as a stream of bytes: segmentation, ends of connections, slow readers."""

import random
import socket
import threading
import time

import pytest
from shared import shared_server, wire  # noqa: F401
from wire import BAD_FORMAT, MISS, STORED, hit, rss_kib, settles, storage, wire_to

# Requests of many kinds; none depends on time.
EXCHANGES = (
    (storage(b"set", b"k", b"x\r\ny"), STORED),
    (b"get k\r\n", hit(b"k", b"x\r\ny") + MISS),
    (storage(b"add", b"k", b"z"), b"NOT_STORED\r\n"),
    (b"get k none k\n", hit(b"k", b"x\r\ny") * 2 + MISS),
    (storage(b"append", b"k", b"tail" * 20), STORED),
    (b"get k\r\n", hit(b"k", b"x\r\ny" + b"tail" * 20) + MISS),
    (storage(b"set", b"n", b"41", tail=b" noreply"), b""),
    (b"incr n 1\r\n", b"42\r\n"),
    (b"foo\r\n", b"ERROR\r\n"),
    (b"\r\n", BAD_FORMAT),
    (b"set k 0 0 x\r\n", BAD_FORMAT),
    (b"set " + b"k" * 251 + b" 0 0 4\r\nquit\r\n", BAD_FORMAT),
    (storage(b"set", b"empty", b""), STORED),
    (b"get empty\r\n", hit(b"empty", b"") + MISS),
    (b"touch k 0\r\n", b"TOUCHED\r\n"),
    (b"gat 0 n\r\n", hit(b"n", b"42") + MISS),
    (b"delete k\r\ndelete k noreply\r\ndelete k\r\n", b"DELETED\r\nNOT_FOUND\r\n"),
    (b"verbosity 0\r\n", b"OK\r\n"),
)
REQUESTS = b"".join(request for request, _ in EXCHANGES)
REPLIES = b"".join(reply for _, reply in EXCHANGES)


# ---- cuts -------------------------------------------------------------------------------------


def test_one_byte_per_segment(wire):
    for offset in range(len(REQUESTS)):
        wire.send(REQUESTS[offset : offset + 1])
    wire.expect(REPLIES)
    wire.say(b"", b"")


def test_one_byte_per_segment_with_pauses(wire):
    request = storage(b"set", b"k", b"ab") + b"get k none\r\n"
    for offset in range(len(request)):
        wire.send(request[offset : offset + 1])
        time.sleep(0.003)
    wire.say(b"", STORED + hit(b"k", b"ab") + MISS)


def test_every_cut_in_two(wire):
    for cut in range(1, len(REQUESTS)):
        wire.send(REQUESTS[:cut])
        wire.send(REQUESTS[cut:])
        wire.expect(REPLIES)
        wire.say(b"delete n\r\nflush_all\r\n", b"DELETED\r\nOK\r\n")


@pytest.mark.parametrize("seed", range(8))
def test_random_cuts(wire, seed):
    rng = random.Random(seed)
    requests, replies = REQUESTS * 20, REPLIES * 20
    offset = 0
    while offset < len(requests):
        size = rng.choice((1, 2, 3, 7, 20, 100, 536, 1447, 1448, 1449, 3000))
        wire.send(requests[offset : offset + size])
        offset += size
        if rng.random() < 0.02:
            time.sleep(0.002)
    wire.expect(replies)
    wire.say(b"", b"")


def test_random_cuts_of_a_large_value(wire):
    rng = random.Random(1)
    value = rng.randbytes(300_000)
    request = storage(b"set", b"k", value) + b"get k\r\n"
    offset = 0
    while offset < len(request):
        size = rng.randint(1, 20_000)
        wire.send(request[offset : offset + size])
        offset += size
    wire.say(b"", STORED + hit(b"k", value) + MISS)


@pytest.mark.parametrize("count", [2, 16, 64, 500, 5000])
def test_pipelined_requests_in_one_send(wire, count):
    wire.say(storage(b"set", b"k", b"v" * 10), STORED)
    wire.say(b"get k\r\n" * count, (hit(b"k", b"v" * 10) + MISS) * count)


def test_pipelined_requests_see_each_other(wire):
    request, reply = b"", b""
    for number in range(300):
        request += storage(b"set", b"k", b"%d" % number) + b"get k\r\n"
        reply += STORED + hit(b"k", b"%d" % number) + MISS
    wire.say(request, reply)


@pytest.mark.parametrize("keys", [1000, 3000])
def test_line_of_many_keys(wire, keys):
    names = [b"key:%06d:%s" % (number, b"x" * (number % 200)) for number in range(keys)]
    stored = names[::2]
    wire.say(b"".join(storage(b"set", name, name, tail=b" noreply") for name in stored), b"")
    wire.say(b"get " + b" ".join(names) + b"\r\n", b"".join(hit(n, n) for n in stored) + MISS)


@pytest.mark.parametrize("command", [b"get", b"gat 0"])
def test_line_of_many_keys_in_small_segments(wire, command):
    """Such a line may be longer than others, of which 2048 bytes without an end are too many."""
    names = [b"key:%04d" % number for number in range(1000)]
    wire.say(b"".join(storage(b"set", name, name, tail=b" noreply") for name in names[:500]), b"")
    line = command + b" " + b" ".join(names) + b"\r\n"
    for offset in range(0, len(line), 97):
        wire.send(line[offset : offset + 97])
    wire.say(b"", b"".join(hit(name, name) for name in names[:500]) + MISS)


# ---- ends -------------------------------------------------------------------------------------


def test_half_close_gets_all_replies(wire, shared_server):
    with wire_to(shared_server) as other:
        other.send(REQUESTS * 50)
        other.sock.shutdown(socket.SHUT_WR)
        other.ends_with(REPLIES * 50)


def test_half_close_gets_a_large_reply(wire, shared_server):
    value = b"0123456789" * 100_000
    wire.say(storage(b"set", b"k", value), STORED)
    with wire_to(shared_server) as other:
        other.send(b"get k\r\n" * 8)
        other.sock.shutdown(socket.SHUT_WR)
        other.ends_with((hit(b"k", value) + MISS) * 8)


def test_half_close_before_the_first_byte(wire, shared_server):
    with wire_to(shared_server) as other:
        other.sock.shutdown(socket.SHUT_WR)
        other.ends_with(b"")
    wire.say(b"", b"")


@pytest.mark.parametrize(
    "data",
    [
        b"get",
        b"get k",
        b"get k\r",
        b"set k 0 0 10\r\n",
        b"set k 0 0 10\r\nabc",
        b"set k 0 0 3\r\nabc\r",
        b"set k 0 0 9999999\r\nabc",
        b"foo",
        b"\r",
    ],
    ids=repr,
)
@pytest.mark.parametrize("end", ["close", "half_close", "reset"])
def test_partial_request_and_end(wire, shared_server, data, end):
    before = int(wire.stats()["curr_connections"])
    with wire_to(shared_server) as other:
        other.send(b"get none\r\n" + data)
        other.expect(MISS)
        if end == "reset":
            other.reset()
        elif end == "half_close":
            other.sock.shutdown(socket.SHUT_WR)
            other.ends_with(b"")
    # Fewer if one of an earlier test was closed late.
    assert settles(lambda: int(wire.stats()["curr_connections"]) <= before)
    wire.say(b"get k\r\n", MISS)


def test_resets_in_the_middle_of_uploads(wire, shared_server):
    wire.say(storage(b"set", b"k", b"old"), STORED)
    before = int(wire.stats()["curr_connections"])
    for size in (1, 1000, 10_000, 100_000, 400_000) * 4:
        other = wire_to(shared_server)
        other.send(b"set k 0 0 500000\r\n" + b"x" * size)
        other.reset()
    assert settles(lambda: int(wire.stats()["curr_connections"]) <= before)
    wire.say(b"get k\r\n", hit(b"k", b"old") + MISS)


def test_closed_uploads_free_their_memory(wire, shared_server):
    """400 uploads of 1 MB, none of them complete, through 64 MiB of memory."""
    before = int(wire.stats()["curr_connections"])
    for _ in range(20):
        others = [wire_to(shared_server) for _ in range(20)]
        for other in others:
            other.send(b"set k 0 0 1000000\r\n" + b"x" * 1000)
        for other in others:
            other.close()
        assert settles(lambda: int(wire.stats()["curr_connections"]) <= before)
    value = b"v" * 1_000_000
    for number in range(20):
        wire.say(storage(b"set", b"k%d" % number, value), STORED)
    wire.say(b"get k19\r\n", hit(b"k19", value) + MISS)


# ---- slow readers -----------------------------------------------------------------------------


def test_client_that_never_reads_blocks_no_other(wire, shared_server):
    """Its replies would be 400 MB; the server does not keep them in memory and serves other
    clients."""
    value = b"v" * 1_000_000
    wire.say(storage(b"set", b"big", value) + storage(b"set", b"k", b"x"), STORED * 2)
    wire.say(b"get big\r\n", hit(b"big", value) + MISS)
    rss_before = rss_kib(shared_server.pid)
    others = [wire_to(shared_server) for _ in range(4)]
    try:
        for other in others:
            other.send(b"get big\r\n" * 100)
        limit = time.monotonic() + 1.5
        while time.monotonic() < limit:
            wire.say(b"get k\r\n", hit(b"k", b"x") + MISS)
        assert rss_kib(shared_server.pid) - rss_before < 64 * 1024
        # A client that reads late gets all replies.
        for _ in range(100):
            others[0].expect(hit(b"big", value) + MISS)
    finally:
        for other in others:
            other.close()
    wire.say(b"get k\r\n", hit(b"k", b"x") + MISS)
    assert settles(lambda: wire.stats()["curr_connections"] == "1")


def test_client_that_never_reads_small_replies(wire, shared_server):
    """It pipelines until send() blocks; the memory of the server stays bounded."""
    wire.say(storage(b"set", b"k", b"v" * 100), STORED)
    rss_before = rss_kib(shared_server.pid)
    other = wire_to(shared_server, timeout=1)
    sent = 0
    try:
        while sent < 64 << 20:
            sent += other.sock.send(b"get k\r\n" * 10_000)
    except TimeoutError:
        pass
    wire.say(b"get k\r\n", hit(b"k", b"v" * 100) + MISS)
    assert rss_kib(shared_server.pid) - rss_before < 64 * 1024
    assert sent < 64 << 20, "the server reads requests of a client that never reads"
    other.reset()
    assert settles(lambda: wire.stats()["curr_connections"] == "1")


def test_slow_reader_gets_every_byte(wire, shared_server):
    value = random.Random(3).randbytes(1_000_000)
    wire.say(storage(b"set", b"k", value), STORED)
    with wire_to(shared_server) as other:
        other.send(b"get k\r\n" * 3)
        for _ in range(3):
            expected = hit(b"k", value) + MISS
            for offset in range(0, len(expected), 65536):
                other.expect(expected[offset : offset + 65536])
                time.sleep(0.002)


def test_idle_connections_beside_a_busy_one(wire, shared_server):
    idle = [wire_to(shared_server) for _ in range(200)]
    try:
        for connection in idle[::2]:
            connection.say(b"get none\r\n", MISS)
        assert wire.stats()["curr_connections"] == "201"
        wire.say(storage(b"set", b"k", b"x"), STORED)
        for _ in range(500):
            wire.send(b"get k\r\n")
            wire.expect(hit(b"k", b"x") + MISS)
        for connection in idle:
            connection.say(b"get k\r\n", hit(b"k", b"x") + MISS)
    finally:
        for connection in idle:
            connection.close()
    assert settles(lambda: wire.stats()["curr_connections"] == "1")


def test_large_transfers_both_ways_at_once(wire):
    """The client writes 30 MB while it reads 30 MB."""
    value = random.Random(5).randbytes(500_000)
    request = storage(b"set", b"k", value) + b"get k\r\n"
    writer = threading.Thread(target=wire.send, args=(request * 60,), daemon=True)
    writer.start()
    for _ in range(60):
        wire.expect(STORED + hit(b"k", value) + MISS)
    writer.join(10)
    assert not writer.is_alive()
