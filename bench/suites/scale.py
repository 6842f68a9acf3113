# SPDX-License-Identifier: BSD-3-Clause
"""
Several workers of one cache, each on a core of its own with a link in memory and clients of its
own, so that neither a device nor a client is the bound. scale_N: GETs of 10,000 keys that N
workers' loops serve in 1,000 ticks; scale_N_set10: with 10 % SETs. N is 1, 2, 4 ... and the number
of cores of the machine. Ratios are to one core in the same rounds.
"""

import os
import re
import statistics

import harness

SUITE = "scale"

REQUESTS_PER_SECOND = 1_500_000  # about, of each worker with its clients
MIXES = {"": "get", "_set10": "mixed"}


def core_counts():
    """1, 2, 4 ... and the number of cores here."""
    most = len(os.sched_getaffinity(0))
    return sorted({most, *(2 ** power for power in range(most.bit_length()))})


def expected():
    return harness.seconds_of(len(MIXES) * len(core_counts()))


def measure(bench, count, mix):
    program = bench.build / "bench" / "get_path"
    requests = max(1000, int(REQUESTS_PER_SECOND * harness.SECONDS))
    command = [program, str(requests), str(harness.CONNECTIONS), mix, str(count)]
    cpus = sorted({*bench.server_cpus, *bench.client_cpus})
    out = bench.run(command, cpus=cpus)
    ticks = float(re.search(r"([\d.]+) ticks per request", out)[1])
    return {"rate": 1000 * count / ticks, "command": harness.typed(command, cpus)}


def run(bench):
    for suffix, mix in MIXES.items():
        found = bench.rounds(SUITE, {f"scale_{n}{suffix}": (lambda n=n: measure(bench, n, mix))
                                     for n in core_counts()})
        one = None
        for case, results in found.items():
            rates = [result["rate"] for result in results]
            bench.rows.add(SUITE, case, rates, "requests per 1000 ticks", results[-1]["command"],
                           {"1 core": one})
            one = one or statistics.median(rates)
