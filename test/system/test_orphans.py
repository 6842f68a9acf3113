# SPDX-License-Identifier: BSD-3-Clause
"""Orphans (closed connections whose peer does not answer) do not exclude other clients.

The server closes a connection at `quit`, and the client never acknowledges the FIN, or a reply and
the FIN, or its window is closed. Several times -c of these, and other clients are still served.
"""

import pytest
import rawnet
import rawpeer
from conform import lan, target  # noqa: F401

pytestmark = pytest.mark.long

SERVER_ARGS = ("-t", "1", "-m", "100")  # and the default -c of 1024
LEFT_BEHIND = 3 * 1024
BATCH = 64

QUIT = b"quit\r\n"
REPLY = b"get none\r\nquit\r\n"

KINDS = {
    "fin": {"request": QUIT, "window": 65535},
    "reply": {"request": REPLY, "window": 65535},
    "window": {"request": REPLY, "window": 0},
}


def leave_behind(lan, hosts, numbers, request, window):  # noqa: F811
    """Connections with these numbers that are closed by the server and then silent."""
    peers = []
    for number in numbers:
        peer = lan.peer(host=hosts[number % len(hosts)])
        peer.sport = 1024 + number
        peer.send("S", opts=rawnet.options(mss=1400))
        peers.append(peer)
    for peer in peers:
        answer = peer.expect("SA")
        peer.rcv = answer.seq + 1
        peer.send("PA", request, window=window)
    lan.settle(0.002)
    for peer in peers:
        lan.tcp.pop((peer.src, peer.sport), None)


def await_address(lan, version):  # noqa: F811
    """Waits for duplicate address detection of the IPv6 address, a second or two."""
    for _ in range(300):
        probe = lan.peer(version)
        probe.send("S")
        try:
            probe.expect("SA", timeout=0.2)
        except rawpeer.Silent:
            continue
        probe.reset()
        return
    raise AssertionError(f"no answer over IPv{version}")


@pytest.mark.parametrize("version, kind", [(4, "fin"), (6, "fin"), (4, "reply"), (6, "window")])
def test_orphans_do_not_exclude_clients(target, lan, version, kind):  # noqa: F811
    await_address(lan, version)
    hosts = [lan.host(version) for _ in range(16)]
    for first in range(0, LEFT_BEHIND, BATCH):
        leave_behind(lan, hosts, range(first, first + BATCH), **KINDS[kind])
        if first % 512 == 0:
            lan.serves(version)
    lan.serves(version)
    if target.kind == "tap":
        counters = target.stats("ustack")
        assert int(counters["orphans_dropped"]) > 0
        assert int(counters["pool_empty_conns"]) == 0
