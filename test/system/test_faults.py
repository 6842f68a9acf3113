# SPDX-License-Identifier: BSD-3-Clause
"""The own stack and the kernel's TCP at the ends of a link with losses: every byte must come."""

import os
import random

import pytest
from wire import MISS, STORED, hit, storage, wire_to

LONG = bool(os.environ.get("UCACHED_LONG"))
MEGABYTES = 100 if LONG else 10

# A clean link does this in a second; a transfer that stands still fails here.
TRANSFER_LIMIT_S = 300 * (6 if LONG else 1)

BAD = "--fault=loss=5%,reorder=5%,dup=2%,seed=1"
# Only for bulk: of a small frame much is address, and no checksum covers those on a TAP device.
CORRUPT = "--fault=corrupt=1%,seed=2"


@pytest.mark.limit(TRANSFER_LIMIT_S)
@pytest.mark.server_args(BAD, "-m", "256")
def test_large_transfers_both_ways(server_tap):
    values = [random.Random(number).randbytes(1_000_000) for number in range(MEGABYTES)]
    with wire_to(server_tap, timeout=60) as wire:
        for number, value in enumerate(values):
            wire.send(storage(b"set", b"k%d" % number, value))
        for _ in values:
            wire.expect(STORED)
        wire.send(b"get " + b" ".join(b"k%d" % number for number in range(MEGABYTES)) + b"\r\n")
        for number, value in enumerate(values):
            wire.expect(hit(b"k%d" % number, value))
        wire.expect(MISS)


@pytest.mark.server_args(BAD)
def test_small_requests(server_tap):
    rng = random.Random(1)
    with wire_to(server_tap, timeout=60) as wire:
        for _ in range(300):
            value = rng.randbytes(rng.randint(0, 300))
            wire.send(storage(b"set", b"k", value) + b"get k\r\n")
            wire.expect(STORED + hit(b"k", value) + MISS)
        wire.send(b"quit\r\n")
        wire.ends_with(b"")


@pytest.mark.server_args(CORRUPT)
def test_corruption_is_caught_by_the_checksum(server_tap):
    value = random.Random(7).randbytes(1_000_000)
    with wire_to(server_tap, timeout=60) as wire:
        for _ in range(3):
            wire.send(storage(b"set", b"k", value) + b"get k\r\n")
            wire.expect(STORED + hit(b"k", value) + MISS)


@pytest.mark.server_args(BAD)
def test_connections_come_and_go(server_tap):
    for number in range(60):
        with wire_to(server_tap, timeout=60) as wire:
            wire.send(storage(b"set", b"k", b"%d" % number) + b"get k\r\nquit\r\n")
            wire.ends_with(STORED + hit(b"k", b"%d" % number) + MISS)


@pytest.mark.server_args(BAD)
def test_pipelines_of_several_clients(server_tap):
    wires = [wire_to(server_tap, timeout=60) for _ in range(10)]
    expected = []
    for number, wire in enumerate(wires):
        value = random.Random(number).randbytes(2000)
        wire.send(
            b"".join(
                storage(b"set", b"k%d" % number, value) + b"get k%d\r\n" % number for _ in range(50)
            )
        )
        expected.append((STORED + hit(b"k%d" % number, value) + MISS) * 50)
    for wire, reply in zip(wires, expected):
        wire.expect(reply)
        wire.close()
