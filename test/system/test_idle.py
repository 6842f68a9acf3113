# SPDX-License-Identifier: BSD-3-Clause
"""A frame wakes a sleeping server, by an interrupt or after a nap, depending on the back end.

The test compares counters, since times depend on the load of the machine: `sleeps_overslept` are
sleeps that ended by their timeout (0.1 s at most) while a frame was there. Where a
frame's interrupt is lost or comes before the frame, that is every request. Otherwise it takes a
frame that comes in the moment between the end of a sleep and the next look at the queue.
"""

import pathlib

import pytest
import server as servers
from wire import MISS, settles, wire_to

REQUESTS = 40
PARTS = [  # back end, arguments of the server
    ("tap", "--idle=adaptive"),
    ("tap", "--idle=adaptive -t 2"),
    ("tap", "--idle=interrupt"),
    ("xdp", "--idle=adaptive"),
    ("xdp", "--idle=adaptive -t 2"),
    ("xdp", "--idle=interrupt"),
    ("dpdk-tap", "--idle=adaptive"),
    ("dpdk-tap", "--idle=adaptive -t 2"),
    ("dpdk-tap", "--idle=interrupt"),
    ("dpdk", "--idle=adaptive"),
]


@pytest.fixture
def start(request, ucached_path, tmp_path):
    """start(kind, *args): a server on the own stack, over the back end of this name."""
    started = []

    def start(kind, *args):
        if reason := request.getfixturevalue("tap_obstacle"):
            pytest.skip(f"{kind}: {reason}")
        if reason := servers.missing(ucached_path, kind.partition("-")[0]):
            pytest.skip(f"{kind}: {reason}")
        log = tmp_path / f"{kind}.log"
        started.append(servers.STACKS[kind](ucached_path, log, list(args)))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def sleeps(server):
    """Whether no thread of the server runs or waits for a processor."""
    for thread in pathlib.Path(f"/proc/{server.pid}/task").iterdir():
        stat = (thread / "stat").read_text(encoding="ascii")
        if stat.rpartition(")")[2].split()[0] != "S":
            return False
    return True


@pytest.mark.parametrize("kind, args", PARTS)
def test_a_frame_wakes_a_server_that_sleeps(start, kind, args):
    server = start(kind, *args.split())
    with wire_to(server) as wire:
        wire.say(b"get none\r\n", MISS)
        before = server.stats("ustack")
        for _ in range(REQUESTS):
            assert settles(lambda: sleeps(server), pause=0.001)
            wire.say(b"get none\r\n", MISS)
    after = server.stats("ustack")

    def grown(name):
        return int(after[name]) - int(before[name])

    assert grown("sleeps") >= REQUESTS / 2, (before, after)
    assert grown("sleeps_overslept") < REQUESTS / 2, (before, after)
