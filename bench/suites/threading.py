# SPDX-License-Identifier: BSD-3-Clause
"""
How cores are given to the work: stack and cache in one loop, on two cores, in two threads on one.

Throughput and latency of the three at 32 connections. Where servers have one core, split has two
threads on it that want one each: a row says so.
"""

import subprocess

from harness import Skip, seconds_of

SUITE = "threading"

MODELS = ("unified", "split", "merge")


def expected():
    return seconds_of(2 * len(MODELS))


def cores(bench, model):
    """One core, and two for split where servers have them: else it has to share."""
    wanted = bench.server_cpus[:2 if model == "split" else 1]
    if model == "split" and len(wanted) < 2:
        return ()
    return ("--cores=" + ",".join(map(str, wanted)),)


def measure(bench, model, link):
    probe = subprocess.run([bench.program("ucached"), f"--threading={model}", "--io=nonsense"],
                           capture_output=True, text=True, check=False)
    if "--threading" in probe.stderr or "threading" in probe.stderr.split("\n")[0]:
        raise Skip(f"this ucached has no --threading={model}: {probe.stderr.strip()}")
    more = (f"--threading={model}", *cores(bench, model))
    opened = bench.tap_server(more=more) if link == "tap" else bench.link_server(link, more=more)
    with opened as server:
        return bench.load(server)


def run(bench):
    if len(bench.server_cpus) < 2:
        bench.rows.skip(SUITE, "split on two cores",
                        "servers have one core here: split shares it between its two threads")
    for link in ("tap", "vhost"):
        cases = {f"{model}_{link}": (lambda m=model, k=link: measure(bench, m, k))
                 for model in MODELS}
        base = None
        for name, results in bench.rounds(SUITE, cases).items():
            value = bench.rows.add(SUITE, name, [r["requests_per_second"] for r in results], "1/s",
                                   results[-1]["command"], {"unified": base})
            base = base or value
            for quantile in ("p50", "p99"):
                bench.rows.add(SUITE, f"{name}_{quantile}",
                               [r["latency_us"][quantile] for r in results], "us",
                               results[-1]["command"])
