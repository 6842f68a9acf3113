# SPDX-License-Identifier: BSD-3-Clause
"""
How cores are given to the work: stack and cache in one loop, in two threads on one core, or in
two threads with a core each.

Throughput and latency at 32 connections. `merge` stands beside `unified` on one core, and `split`,
which takes two, beside two workers of `unified`: only where servers have two cores, for with both
of its threads on one they would show how two loops get in each other's way, and nothing else.
"""

import os

from harness import Skip, seconds_of

SUITE = "threading"

LINKS = ("tap", "vhost")


def expected():
    return seconds_of(len(LINKS) * (4 if len(os.sched_getaffinity(0)) > 3 else 2))


def measure(bench, link, cores, *args):
    more = ("--cores=" + ",".join(map(str, cores)), *args)
    if link == "tap":
        opened = bench.tap_server(more=more, cpus=cores)
    else:
        opened = bench.link_server(link, more=more, cpus=cores)
    with opened as server:
        return bench.load(server)


def compare(bench, link, cores, models):
    """Rows of these models (name -> arguments) on these cores, beside the first of them."""
    cases = {f"{name}_{link}": (lambda args=args: measure(bench, link, cores, *args))
             for name, args in models.items()}
    first, base = next(iter(models)), None
    for name, results in bench.rounds(SUITE, cases).items():
        command = results[-1]["command"]
        value = bench.rows.add(SUITE, name, [r["requests_per_second"] for r in results], "1/s",
                               command, {first: base})
        base = base or value
        for quantile in ("p50", "p99"):
            bench.rows.add(SUITE, f"{name}_{quantile}",
                           [r["latency_us"][quantile] for r in results], "us", command)


def split(bench, link):
    if len(bench.server_cpus) < 2:
        raise Skip("it takes two cores, and servers have one here, for a client needs the other; "
                   "its two loops on one core would only show how they get in each other's way")
    compare(bench, link, bench.server_cpus[:2],
            {"unified_2_workers": ("-t2",), "split": ("--threading=split",)})


def run(bench):
    for link in LINKS:
        compare(bench, link, bench.server_cpus[:1],
                {"unified": ("--threading=unified",), "merge": ("--threading=merge",)})
    for link in LINKS:
        try:
            split(bench, link)
        except Skip as why:
            bench.rows.skip(SUITE, f"split_{link}", why)
