# SPDX-License-Identifier: BSD-3-Clause
"""How soon a server answers that sleeps, on the back ends that have an interrupt.

Measured by ucload with one request at a time and pauses between them, over the kernel's sockets:
its own waking is part of it, as a client's would be.
"""

import json
import os
import pathlib

import pytest
import server as servers

ROUNDS = 5  # others may use the machine: the best counts
FIRST_REPLY_US = 200
WHICH = "p50" if os.environ.get("UCACHED_LONG") else "min"  # medians want a machine alone
SLOW_BUILD_US = 600  # with the address sanitizer
STALL_US = 40_000  # what was overslept takes longer: until a timer of the server is due


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


def first_replies(server, ucached_path):
    """Latencies of requests that come 50 ms after each other, by percentile."""
    ucload = pathlib.Path(ucached_path).parent.parent / "ucload" / "ucload"
    assert os.access(ucload, os.X_OK), f"no program {ucload}: build it"
    host, port = server.address
    done = server.run(
        [str(ucload), "--io=sock", f"--server={host}:{port}", "-c1", "-k1", "--rate=20",
         "--arrivals=constant", "-T1.5", "--json"],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    result = json.loads(done.stdout)
    assert result["hits"] > 20
    return result["latency_us"]


@pytest.mark.parametrize("args", ["--idle=adaptive", "--idle=adaptive -t 2", "--idle=interrupt"])
@pytest.mark.parametrize("kind", ["tap", "xdp", "dpdk-tap"])
def test_the_first_reply_after_idling_is_quick(start, ucached_path, kind, args):
    server = start(kind, *args.split())
    slow_build = b"__asan_init" in pathlib.Path(ucached_path).read_bytes()
    rounds = []
    for _ in range(ROUNDS):
        rounds.append(first_replies(server, ucached_path))
        if rounds[-1][WHICH] < FIRST_REPLY_US and rounds[-1]["p90"] < STALL_US:
            break
    assert min(times[WHICH] for times in rounds) < (
        SLOW_BUILD_US if slow_build else FIRST_REPLY_US
    ), rounds
    assert min(times["p90"] for times in rounds) < STALL_US, rounds
    assert int(server.stats("ustack")["sleeps"]) > 20
