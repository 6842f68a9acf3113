# SPDX-License-Identifier: BSD-3-Clause
"""watch: streams of what happens, over kernel sockets with several workers and over TAP."""

import re
import time

import pytest
from wire import MISS, STORED, hit, storage, wire_to

OK = b"OK\r\n"
STAMP = re.compile(rb"ts=\d+\.\d{6} gid=\d+ ")


def watch(server, *kinds):
    wire = wire_to(server)
    wire.send(b" ".join((b"watch", *kinds)) + b"\r\n")
    assert wire.line() == OK
    return wire


def next_line(wire):
    """A line of the stream without what differs from run to run."""
    line = wire.until(b"\n")
    assert STAMP.match(line), line
    return re.sub(rb"cfd=\d+", b"cfd=N", STAMP.sub(b"", line, count=1))


@pytest.mark.server_args("-t", "4")
def test_events_of_all_workers(server):
    with watch(server, b"fetchers", b"mutations") as watcher:
        for number in range(12):  # connections are spread over the workers
            with wire_to(server) as wire:
                wire.say(storage(b"set", b"k%d" % number, b"abc", exptime=100), STORED)
                wire.say(b"get k%d\r\n" % number, hit(b"k%d" % number, b"abc") + MISS)
            assert next_line(watcher) == (
                b"type=item_get key=k%d status=not_found clsid=0 cfd=N size=0\n" % number
            )
            assert next_line(watcher) == (
                b"type=item_store key=k%d status=stored cmd=set ttl=100 clsid=1 cfd=N size=3\n"
                % number
            )
            assert next_line(watcher) == (
                b"type=item_get key=k%d status=found clsid=1 cfd=N size=3\n" % number
            )


def test_connections_and_deletions(server):
    with watch(server, b"connevents", b"deletions") as watcher:
        with wire_to(server) as wire:
            host, port = wire.sock.getsockname()
            wire.say(storage(b"set", b"k", b"abc") + b"delete k\r\n", STORED + b"DELETED\r\n")
            wire.send(b"quit\r\n")
            wire.ends_with(b"")
        who = f"rip={host} rport={port} transport=tcp".encode()

        def line():
            """The next one, but for those of connections that were closed before, noticed late."""
            found = next_line(watcher)
            return found if b" rport=" not in found or who in found else line()

        assert line() == b"type=conn_new " + who + b" cfd=N\n"
        assert line() == b"type=deleted key=k cmd=delete clsid=1 size=3\n"
        assert line() == b"type=conn_close " + who + b" reason=normal cfd=N\n"


@pytest.mark.server_args("-m", "8")
def test_evictions(server):
    with watch(server, b"evictions") as watcher, wire_to(server) as wire:
        for number in range(3000):
            wire.send(storage(b"set", b"key%d" % number, b"v" * 8000, tail=b" noreply"))
        wire.say(b"", b"")
        line = next_line(watcher)
        assert re.fullmatch(
            rb"type=eviction key=key\d+ fetch=no ttl=-1 la=\d+ clsid=21 size=8000\n", line
        ), line


def test_replies(server):
    with wire_to(server) as wire:
        wire.say(b"watch foo\r\n", b"ERROR\r\n")
        wire.say(
            b"mn\r\nwatch\r\n",
            b"MN\r\nERROR cannot pipeline other commands before watch\r\n",
        )
        others = [watch(server) for _ in range(20)]
        wire.say(b"watch\r\n", b"WATCHER_TOO_MANY log watcher limit reached\r\n")
        assert wire.stats()["log_watchers"] == "20"
        for other in others:
            other.close()
        end = time.monotonic() + 60
        while wire.stats()["log_watchers"] != "0":
            assert time.monotonic() < end
            time.sleep(0.02)
        watch(server).close()


@pytest.mark.server_args("-W")
def test_not_allowed(server_sock):
    with wire_to(server_sock) as wire:
        wire.say(b"watch\r\n", b"CLIENT_ERROR watch commands not allowed\r\n")


def test_input_of_a_watcher_is_thrown_away(server):
    with watch(server) as watcher, wire_to(server) as wire:
        watcher.send(b"version\r\n" * 1000)
        wire.say(b"get x\r\n", MISS)
        assert b"key=x" in next_line(watcher)


@pytest.mark.server_args("-t", "4")
def test_slow_watcher_gets_count_of_skipped_lines(server):
    """A slow watcher does not slow down the workers, and its queue is bounded."""
    with watch(server) as watcher, wire_to(server) as wire:
        for _ in range(400):
            wire.send(b"".join(b"get k%d%s\r\n" % (n, b"X" * 150) for n in range(100)))
            wire.expect(MISS * 100)
        skipped = 0
        lines = 0
        while lines + skipped < 40000:
            line = watcher.until(b"\n")
            if line.startswith(b"skipped="):
                skipped += int(line[8:])
            else:
                assert STAMP.match(line), line
                lines += 1
        values = wire.stats()
        assert lines > 0
        assert int(values["log_watcher_skipped"]) == skipped
        assert int(values["log_worker_dropped"]) == skipped
        assert int(values["log_watcher_sent"]) == lines
        wire.say(b"get last\r\n", MISS)
        assert b"key=last" in next_line(watcher)


def test_watchers_that_vanish(server):
    with wire_to(server) as wire:
        for _ in range(30):
            other = watch(server, b"fetchers", b"connevents")
            wire.say(b"get x\r\n", MISS)
            other.reset()
        wire.say(b"get x\r\n", MISS)
