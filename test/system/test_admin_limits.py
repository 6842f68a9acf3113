# SPDX-License-Identifier: BSD-3-Clause
"""cache_memlimit, shutdown, the debug commands, and the tools that come with memcached."""

import os
import re
import shutil
import signal
import subprocess
import time

import pytest
import server as servers
from wire import MISS, STORED, hit, storage, wire_to

OK = b"OK\r\n"
NO_MEMORY = b"SERVER_ERROR out of memory storing object\r\n"
MEMCACHED_TOOL = "/usr/share/memcached/scripts/memcached-tool"


def fill(wire, start, count, value):
    for number in range(start, start + count, 50):
        wire.send(
            b"".join(storage(b"set", b"key%d" % n, value) for n in range(number, number + 50))
        )
        wire.expect(STORED * 50)


def settled(wire, limit):
    """Whether the memory in use comes down to a limit, within some seconds."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if int(wire.stats("slabs")["total_malloced"]) <= limit:
            return True
        time.sleep(0.05)
    return False


def settled_evictions(wire):
    """The counter when it stands still: a segment that is being emptied is emptied to its end."""
    end = time.monotonic() + 60
    before, now = None, wire.stats()["evictions"]
    while now != before and time.monotonic() < end:
        time.sleep(0.3)
        before, now = now, wire.stats()["evictions"]
    return now


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.server_args("-m", "64", "-t", "2")
def test_memlimit_down_and_up(server):
    value = b"v" * 20000
    with wire_to(server) as wire:
        fill(wire, 0, 2500, value)
        full = int(wire.stats()["curr_items"])
        before = resident_bytes(server.pid)
        assert full == 2500
        wire.say(b"cache_memlimit 16\r\n", OK)
        assert settled(wire, 16 << 20)
        assert wire.stats()["limit_maxbytes"] == str(16 << 20)
        assert 300 < int(wire.stats()["curr_items"]) < (16 << 20) // 20000
        assert resident_bytes(server.pid) < before - (25 << 20)
        fill(wire, 5000, 2000, value)
        assert int(wire.stats("slabs")["total_malloced"]) <= 16 << 20
        wire.say(b"cache_memlimit 200\r\n", OK)
        evictions = settled_evictions(wire)
        fill(wire, 10000, 6000, value)
        assert wire.stats()["evictions"] == evictions
        assert int(wire.stats()["curr_items"]) > 6000
        wire.say(b"get key15999\r\n", hit(b"key15999", value) + MISS)


@pytest.mark.server_args("-A")
@pytest.mark.parametrize("command", [b"shutdown\r\n", b"shutdown graceful\r\n"])
def test_shutdown(server, command):
    with wire_to(server) as wire:
        wire.say(b"shutdown foo\r\n", b"CLIENT_ERROR invalid shutdown mode\r\n")
        wire.send(command)
        wire.ends_with(b"")
    assert server.wait() == 0


def test_shutdown_is_off_by_default(server_sock):
    with wire_to(server_sock) as wire:
        wire.say(b"shutdown\r\n", b"SERVER_ERROR: shutdown not enabled\r\n")


def test_debug_commands_need_the_name(server_sock):
    with wire_to(server_sock) as wire:
        wire.say(b"debugtime p\r\nmisbehave\r\n", b"ERROR\r\nERROR\r\n")


def test_debug_program(tmp_path, ucached_path):
    """A program whose name ends in -debug can move its clock."""
    link = tmp_path / "ucached-debug"
    link.symlink_to(ucached_path)
    started = servers.start_sock(str(link), tmp_path / "debug.log", ["-t", "4"])
    try:
        with wire_to(started) as wire:
            wire.say(storage(b"set", b"k", b"x", exptime=1000), STORED)
            wire.say(b"debugtime 999\r\nget k\r\n", OK + hit(b"k", b"x") + MISS)
            wire.say(b"debugtime 2\r\nget k\r\n", OK + MISS)
            for _ in range(8):
                with wire_to(started) as other:
                    other.say(b"get k\r\n", MISS)
            wire.say(b"debugtime x\r\n", b"ERROR\r\n")
    finally:
        started.stop()


# ---- tools --------------------------------------------------------------------------------


@pytest.fixture
def filled(server):
    with wire_to(server) as wire:
        for number in range(50):
            wire.say(storage(b"set", b"key%d" % number, b"x" * number * 40), STORED)
    return server


def run_tool(server, *command):
    if not os.access(command[0], os.X_OK) and shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = server.run(list(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout.decode()


def test_memcached_tool(filled):
    address = "%s:%d" % filled.address
    display = run_tool(filled, MEMCACHED_TOOL, address, "display")
    counts = [int(line.split()[4]) for line in display.splitlines()[1:] if line.strip()]
    assert sum(counts) == 50
    assert re.search(r"curr_items\s+50\s", run_tool(filled, MEMCACHED_TOOL, address, "stats"))
    settings = run_tool(filled, MEMCACHED_TOOL, address, "settings")
    assert re.search(r"maxbytes\s+67108864\s", settings)
    assert "disabled" in run_tool(filled, MEMCACHED_TOOL, address, "sizes")
    dump = run_tool(filled, MEMCACHED_TOOL, address, "dump")
    assert len(re.findall(r"^add key\d+ 0 ", dump, re.MULTILINE)) == 50


def test_libmemcached_tools(filled):
    where = "--servers=%s:%d" % filled.address
    run_tool(filled, "memcping", where)
    assert re.search(r"curr_items: 50\b", run_tool(filled, "memcstat", where))
    dump = run_tool(filled, "memcdump", where)
    assert sorted(dump.split()) == sorted(f"key{n}" for n in range(50))


# ---- all together -------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.server_args("-t", "4", "-m", "32")
def test_administration_under_load(server):
    """Mixed load while dumps run, watchers connect and disconnect and the memory limit changes."""
    loads = [wire_to(server) for _ in range(6)]
    watchers = []
    dumps = refused = 0
    with wire_to(server) as wire:
        end = time.monotonic() + 5
        turn = 0
        while time.monotonic() < end:
            turn += 1
            for number, load in enumerate(loads):
                load.send(
                    b"".join(
                        storage(b"set", b"l%d:%d" % (number, (turn * 7 + n) % 900), b"v" * (n * 37))
                        + b"get l%d:%d\r\n" % (number, n)
                        for n in range(40)
                    )
                )
            if turn % 3 == 0:
                wire.say(b"cache_memlimit %d\r\n" % (16 << (turn % 3)), OK)
            if turn % 4 == 0:
                watchers.append(wire_to(server))
                watchers[-1].send(b"watch fetchers mutations evictions connevents deletions\r\n")
            if len(watchers) > 5:
                watchers.pop(0).reset()
            wire.send(b"lru_crawler metadump all\r\nlru_crawler crawl all\r\nstats items\r\n")
            assert wire.line() == OK
            while (line := wire.until(b"\n")) != b"END\r\n":
                assert line.startswith(b"key=l"), line
            dumps += 1
            wire.line()
            wire.until(b"END\r\n")
            for load in loads:
                for _ in range(40):
                    refused += load.line() == NO_MEMORY
                    if (line := load.line()) != MISS:
                        load.exactly(int(line.split()[3]) + 2)
                        assert load.line() == MISS
        assert dumps > 3
        # Where memory is short it can't be had while another worker is not given the processor.
        assert refused < turn * 240 // 50
        for other in loads + watchers:
            other.close()
        wire.say(b"cache_memlimit 32\r\nflush_all\r\n", OK + OK)
        values = wire.stats()
        assert values["malloc_fails"] == "0"
    assert server.running()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
