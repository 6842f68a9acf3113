# SPDX-License-Identifier: BSD-3-Clause
"""Bursts of flush_all: the cost of a flush does not depend on the number of items."""

import threading

import pytest
from wire import MISS, STORED, hit, storage, wire_to

ITEMS = 400_000
FLUSHES = 1000
# Processor time of the server for all flushes of a test. One that walks the table takes 2 ms.
CPU_S_MAX = 2.0


def fill(wire):
    """Small items, many of them."""
    step = 20_000
    for first in range(0, ITEMS, step):
        wire.send(
            b"".join(b"set fill-%d 0 0 1 noreply\r\nx\r\n" % n for n in range(first, first + step))
        )
    wire.say(b"", b"")
    assert int(wire.stats()["curr_items"]) > ITEMS * 0.9


def cpu_s(wire):
    stats = wire.stats()
    return float(stats["rusage_user"]) + float(stats["rusage_system"])


class Neighbour(threading.Thread):
    """A client that stores an item repeatedly, the last time after it was stopped."""

    def __init__(self, server):
        super().__init__()
        self.server = server
        self.served = threading.Event()
        self.over = threading.Event()
        self.rounds = 0
        self.trouble = None

    def run(self):
        try:
            with wire_to(self.server) as wire:
                last = False
                while not last:
                    last = self.over.is_set()
                    wire.say(storage(b"set", b"neighbour", b"v" * 1000), STORED)
                    self.rounds += 1
                    self.served.set()
        except (AssertionError, EOFError, OSError) as error:
            self.trouble = error


@pytest.mark.server_args("-t", "2")
@pytest.mark.parametrize(
    "burst",
    [
        b"flush_all noreply\r\n" * FLUSHES,
        b"".join(
            b"set k-%d 0 0 1 noreply\r\nx\r\nflush_all noreply\r\n" % n for n in range(FLUSHES)
        ),
    ],
    ids=["alone", "with-sets"],
)
def test_burst_of_flushes(server, burst):
    with wire_to(server) as wire, wire_to(server) as other:
        fill(wire)
        neighbour = Neighbour(server)
        neighbour.start()
        try:
            assert neighbour.served.wait(60)
            before = cpu_s(wire)
            wire.send(burst)
            other.send(burst)
            wire.say(b"get k-1 fill-1\r\n", MISS)
            other.say(b"get k-1 fill-2\r\n", MISS)
            assert cpu_s(wire) - before < CPU_S_MAX
        finally:
            neighbour.over.set()
            neighbour.join()
        assert neighbour.trouble is None and neighbour.rounds > 1
        wire.say(storage(b"set", b"k", b"v") + b"get k\r\n", STORED + hit(b"k", b"v") + MISS)
        stats = wire.stats()
        assert stats["cmd_flush"] == str(2 * FLUSHES)
        assert stats["store_no_memory"] == "0"


def test_flushed_items_stay_invisible(server):
    """Though the 8 bits of the number of flushes that an item carries come round four times."""
    with wire_to(server) as wire:
        for number in range(FLUSHES):
            wire.send(b"set k-%d 0 0 1 noreply\r\nx\r\nflush_all noreply\r\n" % number)
        keys = [b"k-%d" % number for number in range(FLUSHES)]
        for at in range(0, FLUSHES, 100):
            wire.say(b"get " + b" ".join(keys[at : at + 100]) + b"\r\n", MISS)


def test_upload_across_many_flushes(server):
    value = bytes(range(256)) * 1000
    with wire_to(server) as wire, wire_to(server) as other:
        wire.send(storage(b"set", b"k", value)[:-2])
        other.say(b"flush_all noreply\r\nset a 0 0 1 noreply\r\nx\r\n" * FLUSHES, b"")
        wire.say(b"\r\nget k\r\n", STORED + hit(b"k", value) + MISS)
