# SPDX-License-Identifier: BSD-3-Clause
"""
What --metrics costs, and whether the server's latencies agree with the client's.

metrics_on_vhost: GETs as in the suite stack with --metrics, read each half second, beside
metrics_off_vhost without. The histograms of `stats latency` count in both: they have no switch.

latency_server_p50, latency_server_p99: microseconds of `stats latency` for gets of values of 5 MB,
and 8 MB for one key in 25, on one connection over kernel sockets, beside what a ucload that polls
measured. The server writes such a value for most of the client's waiting time; for small requests
the network, wake-ups and queueing dominate. The two sizes give p50 and p99 a value each, whatever
else delays single requests.
"""

import contextlib
import socket
import threading
import urllib.request

import harness

SUITE = "metrics"

READ_EVERY_S = 0.5
LARGE_GETS = ("--connections=1", "--poll", "--keys=100", "--value-size=5000000@96/8000000@4")
PERCENTILES = ("p50", "p99")


def expected():
    return harness.seconds_of(3)


@contextlib.contextmanager
def reader(port):
    """Reads the metrics every READ_EVERY_S; RuntimeError if no read succeeds."""
    end, seen = threading.Event(), []

    def read():
        while not end.wait(READ_EVERY_S):
            with contextlib.suppress(OSError), \
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
                seen.append(page.read())

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
    if not seen:
        raise RuntimeError("the metrics could not be read")


def get(bench, measured):
    if not measured:
        with bench.link_server("vhost") as server:
            return bench.load(server)
    port = bench.free_port()
    with bench.link_server("vhost", more=[f"--metrics=127.0.0.1:{port}"]) as server, reader(port):
        return bench.load(server, seconds=max(harness.SECONDS, 2 * READ_EVERY_S))


def server_latencies(server):
    """The lines of `stats latency`: name -> nanoseconds."""
    host, port = server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 5) as sock, sock.makefile("rwb") as stream:
        stream.write(b"stats latency\r\n")
        stream.flush()
        lines = [line.split() for line in iter(stream.readline, b"END\r\n")]
    return {line[1].decode(): int(line[2]) for line in lines}


def agreement(bench):
    with bench.sock_server("ucached") as server:
        result = bench.load(server, *LARGE_GETS)
        inside = server_latencies(server)
    return {"command": result["command"], "client": result["latency_us"],
            "server": {name: inside[f"get:{name}_ns"] / 1e3 for name in PERCENTILES}}


def run(bench):
    base = None
    cases = {"metrics_off_vhost": lambda: get(bench, False),
             "metrics_on_vhost": lambda: get(bench, True)}
    for name, results in bench.rounds(SUITE, cases).items():
        value = bench.rows.add(SUITE, name, [r["requests_per_second"] for r in results], "1/s",
                               results[-1]["command"], {"metrics_off_vhost": base},
                               stopped=harness.stopped(results))
        base = base or value
    for results in bench.rounds(SUITE, {"latency_server": lambda: agreement(bench)}).values():
        for name in PERCENTILES if results else ():
            client = harness.statistics.median(r["client"][name] for r in results)
            bench.rows.add(SUITE, f"latency_server_{name}", [r["server"][name] for r in results],
                           "us", results[-1]["command"], {"ucload": client})
