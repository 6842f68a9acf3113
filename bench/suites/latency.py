# SPDX-License-Identifier: BSD-3-Clause
"""
Latency in an open loop at shares of each server's peak rate, and the highest rate within a goal.

A host that stops a virtual machine for milliseconds makes the p99 of every server on it. So each
row is the median of the rounds' percentiles, with the time for which the cores stood still. At half
load each round is measured in parts, so short that the machine stands still in some of them only:
the value is that of the half that was disturbed least; rows *_all have all parts.

The limit of requests in flight is so high that each request is sent when it is due, also after a
stop.
"""

import statistics

import harness
from harness import stopped

SUITE = "latency"

SHARES = (0.1, 0.25, 0.5, 0.7, 0.85)

HALF = 0.5

HALF_PARTS = 6  # of each round at half load, a quarter of SECONDS each

DEPTH = "-d64"

PEAK_ROUNDS, GOAL_ROUNDS = 3, 3
GOAL_TRIES = 20  # about, of a quarter of SECONDS each; some of them a second time


def expected():
    whole = harness.seconds_of(3 * len(SHARES))
    parts = harness.seconds_of(3 * (HALF_PARTS - 1), 1 / 4)
    search = harness.seconds_of(3, GOAL_TRIES / 4, GOAL_ROUNDS)
    return harness.seconds_of(3, rounds=PEAK_ROUNDS) + whole + parts + search


def servers(bench):
    kinds = {"memcached": lambda: bench.sock_server("memcached"),
             "sock": lambda: bench.sock_server("ucached"),
             "vhost": lambda: bench.link_server("vhost")}
    if bench.other:
        kinds["other"] = lambda: bench.sock_server("other")
    return kinds


def both_cores(bench):
    """The cores whose hiccups affect a measurement."""
    return f"--watch-cores={bench.server_cpus[0]},{bench.client_cpus[0]}"


def at_rate(bench, open_server, rate, parts):
    """The results of the parts."""
    with open_server() as server:
        return [bench.load(server, f"--rate={rate:.0f}", DEPTH, both_cores(bench),
                           seconds=harness.SECONDS / 4 if parts > 1 else None)
                for _ in range(parts)]


def least_stopped(results):
    """The half of the results with the shortest stops of the machine."""
    in_order = sorted(results, key=lambda r: stopped([r])["stopped_share"])
    return in_order[:(len(results) + 1) // 2]


def curve(bench, kinds, peaks, share):
    parts = HALF_PARTS if share == HALF else 1
    cases = {kind: (lambda k=kind: at_rate(bench, kinds[k], share * peaks[k], parts))
             for kind in peaks}
    percent = round(share * 100)
    found = {kind: [part for parts_of_round in results for part in parts_of_round]
             for kind, results in bench.rounds(SUITE, cases).items()}
    for kind, results in found.items():
        if share == HALF:
            add_quantiles(bench, f"{kind}_{{}}_at_{percent}_all", results)
            found[kind] = results = least_stopped(results)
        add_quantiles(bench, f"{kind}_{{}}_at_{percent}", results)
    return found


def add_quantiles(bench, case, results):
    for quantile in ("p50", "p99", "p99.9"):
        bench.rows.add(SUITE, case.format(quantile), [r["latency_us"][quantile] for r in results],
                       "us", results[-1]["command"], stopped=stopped(results))


def half_load(bench, found):
    """The p99 at half load beside memcached's median at its half load."""
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
            return bench.load(server, "--slo=mean<1ms", DEPTH, both_cores(bench),
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
