# SPDX-License-Identifier: BSD-3-Clause
"""The threading models of the own stack: threads and cores, service, idle time and end."""

import os
import subprocess

import pytest
from test_workers import runs_on, sleeps_while_idle, threads
from wire import settles


KINDS = ("ucached-", "sessions-")  # names of threads that serve


@pytest.fixture(params=["split", "merge", "split -t 3", "merge -t 2"])
def server(request, start_server):
    return start_server("tap", *("--threading=" + request.param).split())


def test_every_worker_has_two_threads(server):
    workers = int(server.stats()["threads"])
    names = [f"{half}-{n}" for half in ("sessions", "ucached") for n in range(workers)]
    # The first worker answers before the last thread has started.
    assert settles(lambda: sorted(threads(server, KINDS)) == names), names
    assert server.stats("ustack")["threading"] in " ".join(server.command)


def test_clients_are_served(server):
    value = os.urandom(300_000)
    connections = [server.connect() for _ in range(32)]
    for number, connection in enumerate(connections):
        connection.send(b"set k%d 0 0 %d\r\n" % (number, len(value)) + value + b"\r\n")
    for number, connection in enumerate(connections):
        assert connection.line() == b"STORED\r\n"
        connection.send(b"get k%d\r\nmn\r\n" % number)
    for number, connection in enumerate(connections):
        assert connection.line() == b"VALUE k%d 0 %d\r\n" % (number, len(value))
        assert connection.exactly(len(value) + 2) == value + b"\r\n"
        assert connection.line() == b"END\r\n"
        assert connection.line() == b"MN\r\n"
    passed = server.stats("ustack")
    assert int(passed["split_events"]) > 32 and int(passed["split_commands"]) > 32
    assert int(passed["split_links_none"]) == 0


def test_the_end_is_clean_with_clients_in_the_middle(server):
    connections = [server.connect() for _ in range(8)]
    connections[0].ask(b"set big 0 0 200000\r\n" + b"v" * 200_000 + b"\r\n")
    for connection in connections:
        connection.send(b"get big\r\n" * 100)
    server.stop()


def test_idle_server_sleeps(server):
    with server.connect() as connection:
        assert connection.ask(b"mn\r\n") == b"MN\r\n"
        assert settles(lambda: sleeps_while_idle(server))
        assert connection.ask(b"mn\r\n") == b"MN\r\n"


def test_split_takes_two_cores_for_a_worker(start_server):
    allowed = sorted(os.sched_getaffinity(0))[:2]
    if len(allowed) < 2:
        pytest.skip("there is one core")
    server = start_server("tap", "--threading=split", "--cores=%d,%d" % tuple(allowed))
    assert runs_on(server, {"ucached-0": {allowed[0]}, "sessions-0": {allowed[1]}}, KINDS)
    assert server.stats()["threads"] == "1"


def test_merge_takes_one(start_server):
    core = max(os.sched_getaffinity(0))
    server = start_server("tap", "--threading=merge", f"--cores={core}")
    assert runs_on(server, {"ucached-0": {core}, "sessions-0": {core}}, KINDS)


@pytest.mark.parametrize(
    "args, words",
    [
        ("--threading=both", "not one of unified, split, merge"),
        ("--threading=split --io=sock", "--io=tap"),
        ("--threading=split --io=tap --cores=0", "--threading=merge runs both threads on one core"),
    ],
)
def test_invalid_combinations_are_refused(ucached_path, args, words):
    ended = subprocess.run(
        [ucached_path, *args.split()], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 64
    assert words in ended.stderr
