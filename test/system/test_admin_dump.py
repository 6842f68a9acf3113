# SPDX-License-Identifier: BSD-3-Clause
"""lru_crawler metadump, mgdump, crawl; stats cachedump, detail, sizes, conns."""

import re
import time

import pytest
from wire import MISS, STORED, hit, storage, wire_to

OK = b"OK\r\n"
LINE = re.compile(
    rb"key=(\S+) exp=(-1|\d+) la=(\d+) cas=(\d+) fetch=(yes|no) cls=(\d+) size=(\d+) flags=(\d+) \n"
)


def fill(wire, count, value=b"x"):
    """key0, key1, ... with flags of their number."""
    for start in range(0, count, 500):
        numbers = range(start, min(start + 500, count))
        wire.send(b"".join(storage(b"set", b"key%d" % n, value, flags=n) for n in numbers))
        wire.expect(STORED * len(numbers))


def metadump(wire, what=b"all"):
    """{key: match of its line}; each key once."""
    assert wire.ask(b"lru_crawler metadump %s\r\n" % what) == OK
    items = {}
    while (line := wire.until(b"\n")) != b"END\r\n":
        match = LINE.fullmatch(line)
        assert match, line
        assert match.group(1) not in items, "twice"
        items[match.group(1)] = match
    return items


@pytest.mark.server_args("-t", "4")
@pytest.mark.parametrize("what", [b"all", b"hash"])
def test_metadump_has_each_item_once(server, what):
    with wire_to(server) as wire:
        fill(wire, 20000)
        items = metadump(wire, what)
        assert items.keys() == {b"key%d" % n for n in range(20000)}
        assert items[b"key77"].group(8) == b"77" and items[b"key77"].group(2) == b"-1"
        wire.say(b"get key5\r\n", hit(b"key5", b"x", flags=5) + MISS)


def test_metadump_tells_times_and_encodes_keys(server):
    with wire_to(server) as wire:
        now = int(time.time())
        wire.say(storage(b"set", b"a/b#\x01", b"abc", exptime=100), STORED)
        wire.say(b"get a/b#\x01\r\n", hit(b"a/b#\x01", b"abc") + MISS)
        match = metadump(wire)[b"a%2Fb%23%01"]
        assert abs(int(match.group(2)) - now - 100) <= 2
        assert abs(int(match.group(3)) - now) <= 2
        assert match.group(5) == b"yes" and match.group(7) == b"67"


def test_mgdump_can_be_played_back(server):
    with wire_to(server) as wire:
        fill(wire, 3000)
        wire.say(b"ms AAEC 1 b\r\nx\r\n", b"HD\r\n")
        assert wire.ask(b"lru_crawler mgdump all\r\n") == OK
        lines = []
        while (line := wire.line()) != b"EN\r\n":
            lines.append(line.removesuffix(b"\r\n"))
        assert len(lines) == len(set(lines)) == 3001 and b"mg AAEC b" in lines
        wire.send(b"".join(line + b" v\r\n" for line in lines))
        wire.expect(b"VA 1\r\nx\r\n" * 3001)


@pytest.mark.server_args("-m", "256")
def test_unread_dump_blocks_no_other_client(server):
    with wire_to(server) as slow, wire_to(server) as wire:
        fill(wire, 50000)
        slow.send(b"lru_crawler metadump all\r\n" * 3 + b"version\r\n")
        for _ in range(200):
            wire.say(b"get key1\r\n", hit(b"key1", b"x", flags=1) + MISS)
        for _ in range(3):
            assert slow.line() == OK
            count = 0
            while slow.until(b"\n") != b"END\r\n":
                count += 1
            assert count == 50000
        assert slow.line() == b"VERSION 1.6.45\r\n"


def test_dumps_that_are_left(server):
    """Connections that end in the middle of a dump."""
    with wire_to(server) as wire:
        fill(wire, 20000)
        for _ in range(20):
            other = wire_to(server)
            other.send(b"lru_crawler metadump all\r\n")
            other.line()
            other.reset()
        assert len(metadump(wire)) == 20000


@pytest.mark.server_args("-t", "4")
def test_dump_while_keys_change(server):
    """Items that exist all the time are in the dump exactly once, while other items change."""
    with wire_to(server) as wire, wire_to(server) as other:
        fill(wire, 5000)
        wire.send(b"lru_crawler metadump all\r\n")
        for n in range(3000):
            other.send(storage(b"set", b"key%d" % (n % 100), b"y" * (n % 700)))
            other.expect(STORED)
        assert wire.line() == OK
        seen = []
        while (line := wire.until(b"\n")) != b"END\r\n":
            seen.append(LINE.fullmatch(line).group(1))
        assert len(seen) == len(set(seen)) and {b"key%d" % n for n in range(5000)} == set(seen)


@pytest.mark.server_args("-X")
def test_not_allowed(server_sock):
    with wire_to(server_sock) as wire:
        wire.say(b"lru_crawler metadump all\r\n", b"ERROR metadump not allowed\r\n")
        wire.say(b"lru_crawler mgdump all\r\n", b"ERROR key dump not allowed\r\n")
        wire.say(b"stats cachedump 1 1\r\n", b"CLIENT_ERROR stats cachedump not allowed\r\n")
        wire.say(b"stats detail on\r\n", b"CLIENT_ERROR stats detail not allowed\r\n")


def test_crawl_reclaims(server):
    with wire_to(server) as wire:
        fill(wire, 60)
        wire.say(
            b"".join(storage(b"set", b"short%d" % n, b"ok", exptime=1) for n in range(30)),
            STORED * 30,
        )
        time.sleep(2.2)
        wire.say(b"lru_crawler crawl 1\r\n", OK)
        end = time.monotonic() + 60
        while wire.stats()["lru_crawler_running"] != "0":
            assert time.monotonic() < end
        assert wire.stats("slabs")["1:used_chunks"] == "60"
        values = wire.stats()
        assert int(values["crawler_reclaimed"]) + int(values["reclaimed"]) == 30
        assert len(metadump(wire)) == 60


def test_cachedump(server):
    with wire_to(server) as wire:
        fill(wire, 100)
        wire.send(b"stats cachedump 1 10\r\n")
        lines = [wire.line() for _ in range(11)]
        assert lines[-1] == MISS
        assert all(re.fullmatch(rb"ITEM key\d+ \[1 b; 0 s\]\r\n", line) for line in lines[:-1])


@pytest.mark.server_args("-t", "4", "-D", "/", "-o", "track_sizes")
def test_detail_and_sizes(server_sock):
    with wire_to(server_sock) as wire:
        wire.say(storage(b"set", b"u/1", b"x") + b"get u/1 u/2\r\ndelete u/3\r\n",
                 STORED + hit(b"u/1", b"x") + MISS + b"NOT_FOUND\r\n")
        wire.say(b"stats detail dump\r\n", b"PREFIX u get 2 hit 1 set 1 del 1\r\nEND\r\n")
        wire.say(b"stats sizes\r\n", b"STAT 64 1\r\nEND\r\n")


@pytest.mark.server_args("-t", "4")
def test_conns_of_all_workers(server_sock):
    with wire_to(server_sock) as wire:
        others = [wire_to(server_sock) for _ in range(20)]
        for other in others:
            other.say(b"", b"")
        shown = set(wire.stats("conns").values())
        for other in others:
            host, port = other.sock.getsockname()
            assert f"tcp:{host}:{port}" in shown
            other.close()
        host, port = server_sock.address
        assert f"tcp:{host}:{port}" in shown


@pytest.mark.server_args("-c", "4000")
def test_conns_longer_than_any_buffer(server):
    with wire_to(server) as wire:
        others = [wire_to(server) for _ in range(1000)]
        for other in others:
            other.say(b"", b"")  # it has been accepted
        addresses = [name for name in wire.stats("conns") if name.endswith(":addr")]
        assert len(addresses) >= 1001
        for other in others:
            other.close()
