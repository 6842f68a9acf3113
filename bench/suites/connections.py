# SPDX-License-Identifier: BSD-3-Clause
"""What connections cost that do nothing, and how fast they come and go."""

import pathlib
import re
import resource
import socket
import time

import harness

SUITE = "connections"

IDLE = (0, 1000, 10_000, 100_000)
OPEN = (1000, 10_000)


def expected():
    opening = 2 * harness.ROUNDS * sum(OPEN) / 5000  # connections of a client in Python
    return harness.seconds_of(len(IDLE) + 2 * len(OPEN) + 2) + opening


def idle_on_the_stack(bench):
    """Two stacks in one process: 32 connections echo, the others are silent."""
    program = bench.build / "bench" / "idle_conns"

    def measure(count):
        out = bench.run([program, str(count), "300000"])
        found = re.search(r"(\d+) bytes per idle", out)
        return {"ticks": int(re.search(r"(\d+) ticks per request", out)[1]),
                "bytes": int(found[1]) if found else 0,
                "command": f"bench/idle_conns {count} 300000"}

    results = bench.rounds(SUITE, {f"idle_{n}": (lambda n=n: measure(n)) for n in IDLE})
    alone = None
    for count in IDLE:
        found = results.get(f"idle_{count}")
        if not found:
            continue
        name = "idle_100k" if count == 100_000 else f"idle_{count}"
        ticks = bench.rows.add(SUITE, name, [r["ticks"] for r in found], "ticks per echo",
                               found[-1]["command"], {"idle_0": alone}, lower_is_better=True)
        alone = alone or ticks
    if results.get("idle_100000"):
        bench.rows.add(SUITE, "idle_conn_bytes", [r["bytes"] for r in results["idle_100000"]],
                       "bytes", "bench/idle_conns 100000 300000")


def resident_bytes(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def with_open(bench, kind, count):
    """GETs on 32 connections and the server's memory while `count` others are open and silent."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 512:
        raise harness.Skip(f"{count} connections need a limit of open files above {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 512), hard))
    with bench.sock_server(kind, more=("-c", str(count + 128))) as server:
        host, port = server.address.split(":")
        before = resident_bytes(server.process.pid)
        socks = [socket.create_connection((host, int(port)), 5) for _ in range(count)]
        try:
            result = bench.load(server)
            grown = resident_bytes(server.process.pid) - before
        finally:
            for sock in socks:
                sock.close()
    return {"rate": result["requests_per_second"], "bytes": grown / count,
            "command": result["command"]}


def churn(bench, kind):
    """Connect, ask, close, one after the other: the client in Python is a part of the figure."""
    with bench.sock_server(kind) as server:
        host, port = server.address.split(":")
        end, count = time.monotonic() + harness.SECONDS, 0
        while time.monotonic() < end:
            with socket.create_connection((host, int(port)), 5) as sock:
                sock.sendall(b"get k\r\n")
                if sock.recv(64) != b"END\r\n":
                    raise RuntimeError("a reply is wrong")
            count += 1
    return {"rate": count / harness.SECONDS, "command": "socket.create_connection(), get k, close"}


def beside(bench, cases, key, unit, lower=False, suffix=""):
    medians = {}
    for name, results in bench.rounds(SUITE, cases).items():
        base = medians.get(name.replace("ucached", "memcached"))
        medians[name] = bench.rows.add(SUITE, name + suffix, [r[key] for r in results], unit,
                                       results[-1]["command"],
                                       {"memcached": base} if "ucached" in name else None, lower)


def run(bench):
    idle_on_the_stack(bench)
    for count in OPEN:
        cases = {f"{kind}_{count}_open": (lambda k=kind, n=count: with_open(bench, k, n))
                 for kind in ("memcached", "ucached")}
        beside(bench, cases, "rate", "1/s")
        beside(bench, cases, "bytes", "bytes per connection", True, "_bytes")
    beside(bench, {f"{kind}_churn": (lambda k=kind: churn(bench, k))
                   for kind in ("memcached", "ucached")}, "rate", "1/s")
