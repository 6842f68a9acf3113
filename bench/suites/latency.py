# SPDX-License-Identifier: BSD-3-Clause
"""
Latency in an open loop: at shares of what each server can do, and the rate that keeps a goal.

A host that stops a virtual machine for milliseconds makes the p99 of every server on it. So each
row is the median of the rounds' percentiles, and says for how long the cores stood still meanwhile;
at half load there are twice as many rounds, of which the half counts that was disturbed least.
"""

import statistics

import harness
from harness import stopped

SUITE = "latency"

SHARES = (0.1, 0.25, 0.5, 0.7, 0.85)

HALF = 0.5

PEAK_ROUNDS, GOAL_ROUNDS = 3, 3
GOAL_TRIES = 20  # about, of a quarter of SECONDS each; some of them a second time


def expected():
    return (harness.seconds_of(3, rounds=PEAK_ROUNDS) + harness.seconds_of(3 * (len(SHARES) + 1)) +
            harness.seconds_of(3, GOAL_TRIES / 4, GOAL_ROUNDS))


def servers(bench):
    kinds = {"memcached": lambda: bench.sock_server("memcached"),
             "sock": lambda: bench.sock_server("ucached"),
             "vhost": lambda: bench.link_server("vhost")}
    if bench.other:
        kinds["other"] = lambda: bench.sock_server("other")
    return kinds


def both_cores(bench):
    """Whose hiccups concern a measurement."""
    return f"--watch-cores={bench.server_cpus[0]},{bench.client_cpus[0]}"


def at_rate(bench, open_server, rate):
    with open_server() as server:
        return bench.load(server, f"--rate={rate:.0f}", "-d4", both_cores(bench))


def least_stopped(results):
    """The rounds that count: chosen by what the machine did, not by what came out."""
    return sorted(results, key=lambda r: stopped([r])["stopped_share"])[:harness.ROUNDS]


def curve(bench, kinds, peaks, share):
    cases = {kind: (lambda k=kind: at_rate(bench, kinds[k], share * peaks[k])) for kind in peaks}
    percent = round(share * 100)
    found = bench.rounds(SUITE, cases, harness.ROUNDS * (2 if share == HALF else 1))
    for kind, results in found.items():
        found[kind] = results = least_stopped(results)
        for quantile in ("p50", "p99", "p99.9"):
            bench.rows.add(SUITE, f"{kind}_{quantile}_at_{percent}",
                           [r["latency_us"][quantile] for r in results], "us",
                           results[-1]["command"], stopped=stopped(results))
    return found


def half_load(bench, found):
    """Our p99 at half load beside memcached's median at its half load."""
    values = {kind: [r["latency_us"] for r in results] for kind, results in found.items()}
    own = values.get("vhost") or values.get("sock")
    if not own or not values.get("memcached"):
        return
    results = found["vhost" if values.get("vhost") else "sock"]
    bench.rows.add(SUITE, "latency_half_load", [v["p99"] for v in own], "us",
                   results[-1]["command"],
                   {"memcached_p50": statistics.median(v["p50"] for v in values["memcached"]),
                    "memcached_p99": statistics.median(v["p99"] for v in values["memcached"])},
                   lower_is_better=True, stopped=stopped(results))


def goal(bench, kinds):
    """The highest rate with a mean below 1 ms. Each measurement is a search: fewer rounds do."""

    def search(open_server):
        with open_server() as server:
            return bench.load(server, "--slo=mean<1ms", "-d4", both_cores(bench),
                              seconds=harness.SECONDS / 4)

    cases = {kind: (lambda k=kind: search(kinds[k])) for kind in kinds}
    base = None
    for kind, results in bench.rounds(SUITE, cases, GOAL_ROUNDS).items():
        value = bench.rows.add(SUITE, f"{kind}_rate_mean_1ms", [r["slo_rate"] for r in results],
                               "1/s", results[-1]["command"], {"memcached": base},
                               stopped=stopped(results))
        base = base or value


def run(bench):
    kinds = servers(bench)
    peaks = {}

    def peak(open_server):
        with open_server() as server:
            return bench.load(server)

    for kind, results in bench.rounds(
            SUITE, {k: (lambda s=s: peak(s)) for k, s in kinds.items()}, PEAK_ROUNDS).items():
        peaks[kind] = sorted(r["requests_per_second"] for r in results)[len(results) // 2]
    for share in SHARES:
        found = curve(bench, {k: kinds[k] for k in peaks}, peaks, share)
        if share == HALF:
            half_load(bench, found)
    goal(bench, {k: kinds[k] for k in peaks})
