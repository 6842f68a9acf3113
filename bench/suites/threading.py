# SPDX-License-Identifier: BSD-3-Clause
"""
Threading models: stack and application in one loop (unified), in two threads on one core (merge),
or in two threads with a core each (split).

Throughput and latency at 32 connections: GETs from ucached, and messages of 16 B of ucping, whose
application only compares bytes, so that the cost of passing data between threads dominates. `merge`
is compared to `unified` on one core, and `split`, which takes two cores, to two workers of
`unified` (ucping: to its only one). `split` needs two cores for the server.
"""

import os

import harness
from harness import Skip, seconds_of

SUITE = "threading"

LINKS = ("tap", "vhost")


MODELS = {"unified": ("--threading=unified",), "merge": ("--threading=merge",)}
# On two cores, by program.
SPLIT = {"ucached": {"unified_2_workers": ("-t2",), "split": ("--threading=split",)},
         "ucping": {"unified_for_split": ("--threading=unified",),
                    "split": ("--threading=split",)}}


def expected():
    models = len(MODELS) + (2 if len(os.sched_getaffinity(0)) > 3 else 0)
    return seconds_of(len(LINKS) * len(SPLIT) * models)


def measure(bench, program, link, cores, *args):
    """Rate and latency of a server with these arguments, whichever of the two it is."""
    more = args if program == "ucping" else ("--cores=" + ",".join(map(str, cores)), *args)
    if link == "tap":
        opened = bench.tap_server(program, more=more, cpus=cores)
    else:
        opened = bench.link_server(link, program, more=more, cpus=cores)
    with opened as server:
        if program == "ucached":
            result = bench.load(server)
            return {"rate": result["requests_per_second"], "us": result["latency_us"], **result}
        result = bench.ping(server, "-c", harness.CONNECTIONS)
        return {"rate": result["rounds_per_second"], "us": result["round_trip_us"], **result}


def compare(bench, program, link, cores, models):
    """Rows of these models (name -> arguments) on these cores, beside the first of them."""
    prefix = "ping_" if program == "ucping" else ""
    cases = {f"{prefix}{name}_{link}":
             (lambda args=args: measure(bench, program, link, cores, *args))
             for name, args in models.items()}
    first, base = next(iter(models)), None
    for name, results in bench.rounds(SUITE, cases).items():
        command = results[-1]["command"]
        value = bench.rows.add(SUITE, name, [r["rate"] for r in results], "1/s", command,
                               {first: base})
        base = base or value
        for quantile in ("p50", "p99"):
            bench.rows.add(SUITE, f"{name}_{quantile}", [r["us"][quantile] for r in results], "us",
                           command)


def split(bench, program, link):
    if len(bench.server_cpus) < 2:
        raise Skip("it takes two cores, and servers have one here, for a client needs the other; "
                   "its two loops on one core would only show how they get in each other's way")
    compare(bench, program, link, bench.server_cpus[:2], SPLIT[program])


def run(bench):
    for program in SPLIT:
        for link in LINKS:
            compare(bench, program, link, bench.server_cpus[:1], MODELS)
    for program in SPLIT:
        for link in LINKS:
            try:
                split(bench, program, link)
            except Skip as why:
                bench.rows.skip(SUITE, f"split_{program}_{link}", why)
