# SPDX-License-Identifier: BSD-3-Clause
"""Uploads that stall: they do not empty the cache, and other clients can store."""

import time

import pytest
from wire import MISS, STORED, hit, settles, storage, wire_to

ITEMS = 20_000
VALUE = b"v" * 2500  # with its key and header 20,000 of them fill most of 64 MB
UPLOAD = bytes(range(256)) * 3906  # just below 1 MB


def fill(wire):
    for first in range(0, ITEMS, 500):
        wire.send(
            b"".join(
                storage(b"set", b"fill-%d" % n, VALUE, tail=b" noreply")
                for n in range(first, first + 500)
            )
        )
    wire.say(b"", b"")
    return int(wire.stats()["curr_items"])


@pytest.mark.parametrize("count", [64, 200])
def test_stalled_uploads_leave_the_items(server, count):
    with wire_to(server) as wire:
        before = fill(wire)
        assert before > ITEMS * 0.9
        stalled = []
        try:
            for _ in range(count):
                stalled.append(wire_to(server))
                stalled[-1].send(b"set u 0 0 1000000\r\nxx")
            for number in range(200):
                wire.say(storage(b"set", b"small-%d" % number, b"s" * 100), STORED)
            # A client that uploads beside them, in pieces.
            for _ in range(3):
                whole = storage(b"set", b"big", UPLOAD)
                for at in range(0, len(whole), 200_000):
                    wire.send(whole[at : at + 200_000])
                wire.expect(STORED)
            wire.say(b"get big\r\n", hit(b"big", UPLOAD) + MISS)
            assert settles(lambda: int(wire.stats("kv")["uploads_open"]) == count)
            kv = wire.stats("kv")
            assert int(kv["upload_item_bytes"]) <= 8 << 20
            assert int(kv["upload_staged_bytes"]) <= 8 << 20
            assert int(wire.stats()["curr_items"]) > before * 0.7
            assert wire.stats()["store_no_memory"] == "0"
        finally:
            for connection in stalled:
                connection.sock.close()
        deadline = time.monotonic() + 60
        while wire.stats("kv")["uploads_open"] != "0":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        kv = wire.stats("kv")
        assert kv["upload_item_bytes"] == kv["upload_staged_bytes"] == "0"


@pytest.mark.server_args("-o", "upload_timeout=1", "-t", "1")
def test_stalled_upload_is_given_up(server):
    with wire_to(server) as wire, wire_to(server) as stalled:
        stalled.send(b"set u 0 0 1000000\r\nxx")
        assert stalled.rest() == b""
        kv = wire.stats("kv")
        assert (kv["uploads_timed_out"], kv["uploads_open"]) == ("1", "0")
        wire.say(storage(b"set", b"k", b"v"), STORED)
