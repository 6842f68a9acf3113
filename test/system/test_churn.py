# SPDX-License-Identifier: BSD-3-Clause
"""Thousands of connections, closed in every way that a client can close them."""

import os

import pytest
from wire import MISS, STORED, hit, rss_kib, settles, storage, wire_to

pytestmark = pytest.mark.long

CONNECTIONS = 10_000
AT_ONCE = 50
VALUE = b"v" * 20_000

# What must be as it was, of the stack's list; a name that is missing is a failure.
STACK_GAUGES = ("conns_open", "half_open", "buffer_bytes_used")


def leave_by_quit(wire):
    wire.send(b"get small\r\nquit\r\n")
    wire.ends_with(hit(b"small", b"x") + MISS)
    wire.close()


def leave_by_close(wire):
    wire.send(b"get small\r\n")
    wire.expect(hit(b"small", b"x") + MISS)
    wire.close()


def leave_silently(wire):
    wire.close()


def leave_by_reset(wire):
    wire.send(b"get small\r\n")
    wire.reset()


def leave_with_unread_replies(wire):
    wire.send(b"get big\r\nget big\r\n")
    wire.exactly(10)
    wire.close()


def leave_in_an_upload(wire):
    wire.send(b"set other 0 0 100000\r\n" + b"x" * 3000)
    wire.close()


WAYS = (
    leave_by_quit,
    leave_by_close,
    leave_silently,
    leave_by_reset,
    leave_with_unread_replies,
    leave_in_an_upload,
)


def churn(server, connections):
    for begin in range(0, connections, AT_ONCE):
        wires = [wire_to(server) for _ in range(AT_ONCE)]
        for number, wire in enumerate(wires, begin):
            WAYS[number % len(WAYS)](wire)


def test_closed_connections_free_their_memory(server):
    with wire_to(server) as wire:
        wire.say(storage(b"set", b"small", b"x") + storage(b"set", b"big", VALUE), STORED * 2)
        gauges = {}
        if server.kind == "tap":
            gauges = {name: wire.stats("ustack")[name] for name in STACK_GAUGES}
        churn(server, 600)  # touches all memory once
        assert settles(lambda: wire.stats()["curr_connections"] == "1")
        rss_before, files_before = rss_kib(server.pid), open_files(server)
        before = wire.stats()

        churn(server, CONNECTIONS)

        assert settles(lambda: wire.stats()["curr_connections"] == "1")
        after = wire.stats()
        assert int(after["total_connections"]) - int(before["total_connections"]) == CONNECTIONS
        assert after["rejected_connections"] == "0"
        assert rss_kib(server.pid) - rss_before < 16 * 1024
        assert open_files(server) == files_before

        def settled():
            now = wire.stats("ustack")
            return all(now[name] == gauges[name] for name in gauges)

        if gauges:
            settles(settled, seconds=60)
            now = wire.stats("ustack")
            assert {name: now[name] for name in gauges} == gauges
        wire.say(b"get small\r\n", hit(b"small", b"x") + MISS)


def open_files(server):
    return len(os.listdir(f"/proc/{server.pid}/fd"))
