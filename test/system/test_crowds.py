# SPDX-License-Identifier: BSD-3-Clause
"""All clients of crowd.py that misbehave, and clients that behave well at the same time.

The crowd may delay the replies to the well-behaved clients, and nothing else: no reset, no
connection that is refused or not accepted, no error, no wrong value, and no miss unless the crowd
flushes. How long their replies take, with and without the crowd, is printed as a line of JSON for
each run, and appended to the file that UCACHED_CROWD_REPORT names.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
from server import TAP_PORT, free_port
from test_ucload import result_of

pytestmark = pytest.mark.long

SECONDS = 30 if os.environ.get("UCACHED_LONG") else 8
CROWD = str(pathlib.Path(__file__).with_name("crowd.py"))
ONLY = os.environ.get("UCACHED_CROWD")  # class names of crowd.py, by commas; without it all
NETWORK = ("--ip=10.100.0.20/16", "--host-ip=10.100.0.10/16")  # room for thousands of neighbours

# An open loop: late requests are sent, and their delay counts.
CLIENTS = {
    "established": ("-c16", "-r800", "-m", "get:9,set:1"),
    "newcomers": ("-c4", "-r100", "--reconnect=5", "-m", "get"),
}
COMMON = ("-V", "--json", "-k2000", "--value-size=0-4000", "--timeout=60")


@pytest.fixture
def ucload(ucload_path):
    """A function that starts the well-behaved clients; each is ended with the test."""
    with contextlib.ExitStack() as started:

        def ucload(server, *args):
            process = server.popen(
                [ucload_path, "--server=%s:%d" % server.address, *COMMON, *args],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            started.callback(process.wait)
            started.callback(process.kill)
            return process

        yield ucload


def finished(process):
    out, err = process.communicate(timeout=SECONDS + 100)
    result = result_of(subprocess.CompletedProcess(process.args, process.returncode, out, err))
    assert result["error"] == "" and result["wrong"] == result["refused"] == 0, result
    return result


def latency_of(result):
    """In microseconds, from when each request was due."""
    return {key: result["corrected_us"][key] for key in ("count", "p50", "p99", "p99.9")}


def crowd_beside(server, udp_port, clients, flushes):
    """Runs the crowd; returns what it has done and the results of the clients."""
    command = [sys.executable, CROWD, *map(str, server.address), f"--seconds={SECONDS}"]
    command += [f"--udp-port={udp_port}"] + ["--raw=ucached0"] * (server.kind == "tap")
    command += ["--flush"] * flushes + [f"--kinds={ONLY}"] * bool(ONLY)
    crowd = server.run(command, timeout=SECONDS + 60, capture_output=True, text=True)
    results = {name: finished(process) for name, process in clients.items()}
    assert crowd.returncode == 0, crowd.stderr
    return json.loads(crowd.stdout), results


def tell(capsys, line):
    with capsys.disabled():
        print("\n" + json.dumps(line), flush=True)
    if path := os.environ.get("UCACHED_CROWD_REPORT"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def syns_again(server):
    """SYNs that the clients' kernel has sent more than once: connections that were kept waiting."""

    def read():
        text = pathlib.Path("/proc/thread-self/net/netstat").read_text(encoding="ascii")
        names, values = (line.split() for line in text.splitlines()[:2])
        return int(dict(zip(names, values))["TCPSynRetrans"])

    return server.space.run(read)


def hold(server, count):
    """Connections that are open before the crowd comes, and a key for each of them."""
    held = [server.connect() for _ in range(count)]
    for number, connection in enumerate(held):
        assert connection.ask(b"set held%d 0 0 4\r\nabcd\r\n" % number) == b"STORED\r\n"
    return held


@pytest.mark.parametrize(
    "kind, threads, flushes",
    [("sock", 1, True), ("sock", 4, False), ("tap", 1, False), ("tap", 4, True)],
    ids=["sock-1-flush", "sock-4", "tap-1", "tap-4-flush"],
)
def test_well_behaved_clients_are_served(start_server, ucload, capsys, kind, threads, flushes):
    udp_port = TAP_PORT if kind == "tap" else free_port()
    network = NETWORK if kind == "tap" else ()
    server = start_server(kind, f"-t{threads}", "-U", udp_port, *network)
    finished(ucload(server, "--preload-only"))
    more = ("--no-preload", *["--fill"] * flushes)
    alone = {name: ucload(server, *args, *more, "-T2") for name, args in CLIENTS.items()}
    alone = {name: finished(process) for name, process in alone.items()}
    held = hold(server, 30)
    clients = {
        name: ucload(server, *args, *more, f"-T{SECONDS + 2}") for name, args in CLIENTS.items()
    }
    syns_before = syns_again(server)
    time.sleep(1)  # they are connected before the crowd comes
    crowd, crowded = crowd_beside(server, udp_port, clients, flushes)
    tell(capsys, {
        "kind": kind, "threads": threads, "flushes": flushes, "crowd": crowd,
        "syns_again": syns_again(server) - syns_before,
        "alone": {name: latency_of(result) for name, result in alone.items()},
        "crowded": {name: latency_of(result) for name, result in crowded.items()},
    })  # fmt: skip
    for number, connection in enumerate(held):
        reply = connection.ask(b"get held%d\r\n" % number, b"END\r\n")
        miss = b"END\r\n" if flushes else None
        assert reply in (b"VALUE held%d 0 4\r\nabcd\r\nEND\r\n" % number, miss)
        connection.close()
    assert flushes or crowded["established"]["misses"] == crowded["newcomers"]["misses"] == 0
    assert crowded["newcomers"]["connects"] > 0
    if kind == "tap":  # no complete handshake has waited for a place
        assert server.stats("ustack")["tcp_listen_overflows"] == "0"
