# SPDX-License-Identifier: BSD-3-Clause
"""Cost of idle connections and of many busy ones, and rate of short connections.

stack_idle_N: the stack alone, echoing, beside N idle connections. idle_100k: GETs over vhost beside
100,000. busy_N: GETs over vhost on N connections with one request in flight on each.
KIND_N_open: GETs on kernel sockets beside N idle connections; _bytes: memory of the server for each
idle connection. churn: a connection for each request.
"""

import pathlib
import re
import resource
import statistics

import harness

SUITE = "connections"

IDLE = (0, 1, 1000, 10_000, 100_000)
OPENING_SECONDS = 5
OPEN = (1000, 10_000, 100_000)
BUSY = (32, 1000, 10_000)
BUSY_SHARE = 0.5  # of the time of a measurement

FILES_SPARE = 1024  # beyond those of connections
WARM_SECONDS = 0.1
CONN_KERNEL_BYTES = 16 << 10  # about, of both ends of a connection within one machine


def expected():
    possible = [count for count in OPEN if not files_obstacle(count)]
    many = 1 + 2 * (IDLE[-1] in possible)
    opening = harness.ROUNDS * OPENING_SECONDS * many
    return (harness.seconds_of(len(IDLE) + 2 + 2 * len(possible) + 3) + opening +
            harness.seconds_of(len(BUSY), BUSY_SHARE))


def idle_on_the_stack(bench):
    """Two stacks in one process: 32 connections echo, the other ones are idle."""
    program = bench.build / "bench" / "idle_conns"

    def measure(count):
        out = bench.run([program, str(count), "300000"])
        found = re.search(r"(\d+) bytes per idle", out)
        return {"ticks": int(re.search(r"(\d+) ticks per request", out)[1]),
                "bytes": int(found[1]) if found else 0,
                "command": f"bench/idle_conns {count} 300000"}

    results = bench.rounds(SUITE, {f"stack_idle_{n}": (lambda n=n: measure(n)) for n in IDLE})
    alone = None
    for name, found in results.items():
        ticks = bench.rows.add(SUITE, name, [r["ticks"] for r in found], "ticks per echo",
                               found[-1]["command"], {"stack_idle_0": alone}, lower_is_better=True)
        alone = alone or ticks
        if name == f"stack_idle_{IDLE[-1]}":
            bench.rows.add(SUITE, "stack_idle_conn_bytes", [r["bytes"] for r in found], "bytes",
                           found[-1]["command"])


def resident_bytes(server, most=False):
    """Resident memory of a server now, or its maximum."""
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(rf"{'VmHWM' if most else 'VmRSS'}:\s+(\d+) kB", status)[1]) * 1024


def idle_on_a_link(bench):
    """GETs over vhost beside idle connections, and the memory of the server for each of these."""
    addresses = [f"10.100.0.{20 + i}" for i in range(2)]  # a client has 64,000 ports for each

    def measure(count):
        more = [f"-c{count + 1000}", *(f"--ip={address}/24" for address in addresses)]
        with bench.link_server("vhost", more=more) as server:
            result = bench.load(server, f"--idle={count}" if count else "--depth=1",
                                "--server=" + ",".join(addresses), "--server-cycles")
            memory = resident_bytes(server, most=True)
        return {"rate": result["requests_per_second"], "command": result["command"],
                "memory": memory, "cycles": result["server_cycles_per_request"]}

    count = IDLE[-1]
    found = bench.rounds(SUITE, {"get_vhost": lambda: measure(0), "idle_100k":
                                 lambda: measure(count)})
    if not found.get("idle_100k") or not found.get("get_vhost"):
        return
    alone, among = found["get_vhost"], found["idle_100k"]
    command = among[-1]["command"]
    bench.rows.add(SUITE, "idle_100k", [r["rate"] for r in among], "1/s", command,
                   {"get_vhost": statistics.median(r["rate"] for r in alone)})
    bench.rows.add(SUITE, "cycles_per_get_idle_100k", [r["cycles"] for r in among], "cycles",
                   command, {"get_vhost": statistics.median(r["cycles"] for r in alone)}, True)
    bench.rows.add(SUITE, "idle_conn_bytes", [(m["memory"] - n["memory"]) / count
                                              for m, n in zip(among, alone)], "bytes", command)


def busy_on_a_link(bench):
    """GETs over vhost on more and more connections, each with one request in flight."""

    def measure(count):
        with bench.link_server("vhost", more=[f"-c{count + 1000}"]) as server:
            result = bench.load(server, f"--connections={count}", "--server-cycles", "--warmup=0.3",
                                seconds=BUSY_SHARE * harness.SECONDS)
        return {"rate": result["requests_per_second"], "command": result["command"],
                "cycles": result["server_cycles_per_request"]}

    found = bench.rounds(SUITE, {f"busy_{n}": (lambda n=n: measure(n)) for n in BUSY})
    few = f"busy_{BUSY[0]}"
    for key, unit, prefix in (("rate", "1/s", ""), ("cycles", "cycles", "cycles_per_get_")):
        medians = {}
        for name, results in found.items():
            medians[name] = bench.rows.add(SUITE, prefix + name, [r[key] for r in results], unit,
                                           results[-1]["command"], {few: medians.get(few)},
                                           key == "cycles")


def files_obstacle(count):
    """Why this number of connections cannot be open, or None."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard >= count + FILES_SPARE:
        return None
    try:  # those that are started here would do the same
        resource.setrlimit(resource.RLIMIT_NOFILE, (count + FILES_SPARE,) * 2)
    except (OSError, ValueError):
        return (f"{count} connections need {count + FILES_SPARE} open files, and the limit is "
                f"{hard} (ulimit -Hn)")
    return None


def need_room_for(count):
    """Skips if the limit of open files or the memory is too small for this many connections."""
    if why := files_obstacle(count):
        raise harness.Skip(why)
    free = harness.free_bytes()
    if free < 2 * count * CONN_KERNEL_BYTES:
        raise harness.Skip(f"{count} connections take {count * CONN_KERNEL_BYTES >> 20} MiB of "
                           f"the kernel, and {free >> 20} MiB are free")


def with_open(bench, kind, count):
    """
    GETs on 32 connections beside `count` idle ones, and the memory that the idle ones add to what
    the server uses under the same load without them.
    """
    need_room_for(count)
    with bench.sock_server(kind, more=("-c", str(count + 128))) as server:
        bench.load(server, seconds=WARM_SECONDS)
        before = resident_bytes(server, most=True)
        result = bench.load(server, f"--idle={count}")
        grown = resident_bytes(server, most=True) - before
    return {"rate": result["requests_per_second"], "bytes": grown / count,
            "command": result["command"]}


def churn(bench, open_server):
    """A connection for each request."""
    with open_server() as server:
        result = bench.load(server, "--reconnect=1")
    return {"rate": result["connects_per_second"], "command": result["command"]}


def beside(bench, cases, columns):
    """Rows of these columns (key, unit, lower is better, suffix), compared to memcached."""
    found = bench.rounds(SUITE, cases)
    for key, unit, lower, suffix in columns:
        medians = {}
        for name, results in found.items():
            base = medians.get("memcached" + name.removeprefix("ucached").removesuffix("_vhost"))
            medians[name] = bench.rows.add(SUITE, name + suffix, [r[key] for r in results], unit,
                                           results[-1]["command"], {"memcached": base}, lower)


def run(bench):
    idle_on_the_stack(bench)
    idle_on_a_link(bench)
    busy_on_a_link(bench)
    for count in OPEN:
        cases = {f"{kind}_{count}_open": (lambda k=kind, n=count: with_open(bench, k, n))
                 for kind in ("memcached", "ucached")}
        beside(bench, cases, (("rate", "1/s", False, ""),
                              ("bytes", "bytes per connection", True, "_bytes")))
    servers = {"memcached_churn": lambda: bench.sock_server("memcached"),
               "ucached_churn": lambda: bench.sock_server("ucached"),
               "ucached_churn_vhost": lambda: bench.link_server("vhost")}
    beside(bench, {name: (lambda s=server: churn(bench, s)) for name, server in servers.items()},
           (("rate", "connects/s", False, ""),))
