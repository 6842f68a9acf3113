# SPDX-License-Identifier: BSD-3-Clause
"""The prefault thread: how much memory it touches ahead, and that it sleeps when idle."""

import os
import pathlib
import re
import time

import pytest
from server import on_one_core
from wire import STORED, rss_kib, settles, storage, wire_to

MIB = 1 << 20
VALUE = b"v" * 10000
AHEAD_MAX = 16 * MIB
AHEAD_IDLE = 4 * MIB  # of a server without data
HUGE_PAGE = 2 * MIB


@pytest.fixture(autouse=True)
def room(ucached_path):
    if b"__asan_init" in pathlib.Path(ucached_path).read_bytes():
        pytest.skip("the address sanitizer has memory of its own")


def threads(server):
    """Number of each thread that touches memory."""
    tasks = pathlib.Path(f"/proc/{server.pid}/task")
    return [int(task.name) for task in tasks.iterdir()
            if (task / "comm").read_text() == "kv-touch\n"]


def rss_bytes(server):
    return rss_kib(server.pid) * 1024


def turns(server, thread):
    """Context switches of the thread."""
    status = pathlib.Path(f"/proc/{server.pid}/task/{thread}/status").read_text()
    return sum(map(int, re.findall(r"voluntary_ctxt_switches:\s+(\d+)", status)))


def kv_stats(wire):
    return {name: int(value) for name, value in wire.stats("kv").items()}


def sleeps(server, thread):
    """Whether the thread neither runs nor waits for a processor or a page."""
    stat = pathlib.Path(f"/proc/{server.pid}/task/{thread}/stat").read_text(encoding="ascii")
    return stat.rpartition(")")[2].split()[0] == "S"


def quiet(server, wire):
    """The statistics once the thread has stopped touching memory."""
    seen = [{}]

    def stands_still():
        seen.append(kv_stats(wire))
        return seen[-1] == seen[-2] and all(sleeps(server, thread) for thread in threads(server))

    assert settles(stands_still, pause=0.1)
    return seen[-1]


def fill(wire, first, count):
    for start in range(first, first + count, 50):
        wire.send(b"".join(storage(b"set", b"key%d" % n, VALUE) for n in range(start, start + 50)))
        wire.expect(STORED * 50)


@pytest.fixture
def cores():
    """At least two, as for the thread to be there."""
    count = len(os.sched_getaffinity(0))
    if count < 2:
        pytest.skip("one core only")
    return count


@pytest.mark.server_args("-m", "1024", "-t", "2")
def test_an_idle_server(cores, server_sock):
    """The thread touches a little memory, then sleeps until items are stored."""
    (thread,) = settles(lambda: threads(server_sock))
    with wire_to(server_sock) as wire:
        stats = quiet(server_sock, wire)
        assert stats["touch_thread"] == 1
        assert stats["touched_free_bytes"] == AHEAD_IDLE
        before = turns(server_sock, thread)
        time.sleep(1)
        assert turns(server_sock, thread) == before


def test_one_core(start_server, cores):
    """There is no thread on one core, where it would only take time from the workers."""
    args = ("-m", "1024", "-t", "1")
    with on_one_core():
        alone = start_server("sock", *args)
    assert threads(alone) == []
    other = start_server("sock", *args)
    with wire_to(alone) as alone_wire, wire_to(other) as wire:
        assert quiet(other, wire)["touch_thread"] == 1
        stats = quiet(alone, alone_wire)
        assert stats["touch_thread"] == 0
        assert rss_bytes(other) - rss_bytes(alone) < AHEAD_IDLE + 2 * HUGE_PAGE
        fill(alone_wire, 0, 2000)
        stats = quiet(alone, alone_wire)
        assert stats["touched_ahead"] == stats["touched_late"] == 0


@pytest.mark.server_args("-m", "128", "-t", "2")
def test_a_server_at_work(cores, server_sock):
    """It touches at most as much ahead as is in use, at most AHEAD_MAX, and each page once."""
    with wire_to(server_sock) as wire:
        empty = rss_bytes(server_sock)
        for part in range(8):
            fill(wire, part * 1000, 1000)
            stats = quiet(server_sock, wire)
            assert stats["touched_free_bytes"] <= AHEAD_MAX
            assert stats["touched_free_bytes"] <= max(AHEAD_IDLE, stats["memory_used_bytes"])
            assert (rss_bytes(server_sock) - empty
                    < stats["memory_used_bytes"] + AHEAD_MAX + 4 * HUGE_PAGE)
        assert stats["touched_ahead"] > 0
        fill(wire, 8000, 8000)
        assert int(wire.stats()["evictions"]) > 0
        assert rss_bytes(server_sock) - empty < 128 * MIB + 4 * HUGE_PAGE
        (thread,) = threads(server_sock)
        stats = quiet(server_sock, wire)
        before = turns(server_sock, thread)
        fill(wire, 20000, 3000)
        assert turns(server_sock, thread) == before
        assert quiet(server_sock, wire)["touched_ahead"] == stats["touched_ahead"]


@pytest.mark.server_args("-m", "128", "-t", "2")
def test_a_limit_that_falls_and_rises(cores, server_sock):
    with wire_to(server_sock) as wire:
        fill(wire, 0, 12000)
        wire.say(b"cache_memlimit 16\r\n", b"OK\r\n")
        assert settles(lambda: rss_bytes(server_sock) <= 64 * MIB)
        before = quiet(server_sock, wire)
        wire.say(b"cache_memlimit 128\r\n", b"OK\r\n")
        after = quiet(server_sock, wire)
        assert after["touched_free_bytes"] <= AHEAD_MAX
        fill(wire, 20000, 9000)
        after = quiet(server_sock, wire)
        assert after["touched_ahead"] > before["touched_ahead"]
        assert after["memory_used_bytes"] <= 128 * MIB
