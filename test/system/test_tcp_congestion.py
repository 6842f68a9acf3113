# SPDX-License-Identifier: BSD-3-Clause
"""Loss recovery and congestion control with the Linux kernel as the peer, by counters."""

import random
import time

from wire import STORED, hit, storage, wire_to

MEGABYTE = random.Random(12).randbytes(1_000_000)


def test_no_needless_retransmissions_with_delayed_acks(server_tap):
    """The kernel delays the ACK of a reply by 40 ms if the client pauses: no retransmission
    timeout."""
    with wire_to(server_tap) as wire:
        wire.say(storage(b"set", b"k", b"x" * 100), STORED)
        for _ in range(20):
            wire.say(b"get k\r\n", hit(b"k", b"x" * 100) + b"END\r\n")
            time.sleep(0.1)
        stats = wire.stats("ustack")
    assert int(stats["tcp_timeouts"]) == 0
    assert int(stats["tcp_retransmits"]) <= 1
    assert int(stats["tcp_rx_dsacks"]) <= 1


def test_no_needless_retransmissions_in_transfers(server_tap):
    """Without losses almost nothing is retransmitted."""
    with wire_to(server_tap) as wire:
        wire.say(storage(b"set", b"big", MEGABYTE), STORED)
        for _ in range(30):
            wire.say(b"get big\r\n", hit(b"big", MEGABYTE) + b"END\r\n")
        stats = wire.stats("ustack")
    sent = int(stats["tcp_tx_segments"])
    assert int(stats["tcp_retransmits"]) <= 5 + sent // 500


def request_ecn(server):
    """Connections of the kernel ask for ECN from now on."""

    def ask():
        with open("/proc/sys/net/ipv4/tcp_ecn", "w", encoding="ascii") as file:
            file.write("1")

    server.space.run(ask)


def test_the_kernel_requests_ecn(server_tap):
    """Two ECN-capable sides agree, and data flows both ways."""
    request_ecn(server_tap)
    with wire_to(server_tap) as wire:
        wire.say(storage(b"set", b"big", MEGABYTE), STORED)
        wire.say(b"get big\r\n", hit(b"big", MEGABYTE) + b"END\r\n")
        stats = wire.stats("ustack")
    assert int(stats["tcp_ecn_conns"]) == 1
    assert int(stats["tcp_ecn_rx_ece"]) == 0


def test_ecn_and_the_fast_path_can_be_off(start_server):
    server = start_server("tap", "--ecn=off", "--no-fast-path")
    request_ecn(server)
    with wire_to(server) as wire:
        wire.say(storage(b"set", b"k", b"x"), STORED)
        for _ in range(100):
            wire.say(b"get k\r\n", hit(b"k", b"x") + b"END\r\n")
        stats = wire.stats("ustack")
    assert int(stats["tcp_ecn_conns"]) == int(stats["tcp_fast_sent"]) == 0
    assert int(stats["tcp_tx_segments"]) >= 101
