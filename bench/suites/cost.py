# SPDX-License-Identifier: BSD-3-Clause
"""What a request costs without a network: ticks, and instructions, which no other load changes."""

import re
import shutil
import subprocess

import harness

SUITE = "cost"

COUNTED = 20_000
CALLGRIND_SECONDS = 30
PARSED = ("get", "gets", "set", "mg", "ms", "binary_get")


def expected():
    return harness.seconds_of(1 + len(PARSED), 0) + CALLGRIND_SECONDS


def instructions(program, functions, *counts_of):
    """Collected instructions of each run with these arguments."""
    counts = []
    for args in counts_of:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", *[f"--toggle-collect={f}*" for f in functions],
             "--callgrind-out-file=/dev/null", program, *args],
            capture_output=True, text=True, timeout=600, check=True)
        counts.append(int(re.search(r"Collected : (\d+)", done.stderr)[1]))
    return counts


def per_request(program, functions, *args):
    """A run with requests less one without."""
    none, some = instructions(program, functions, [*args, "0"], [*args, str(COUNTED)])
    return (some - none) / COUNTED


def ticks(bench):
    program = bench.build / "bench"
    cases = {"ticks_per_get": ([program / "get_path", "500000"], r"(\d+) ticks per GET")}
    for case in PARSED:
        cases[f"parse_ticks_{case}"] = ([program / "mcproto_cost", case, "500000"],
                                        r"([\d.]+) ticks per request")

    def measure(command, pattern):
        return {"ticks": float(re.search(pattern, bench.run(command))[1])}

    results = bench.rounds(SUITE, {name: (lambda c=c: measure(*c)) for name, c in cases.items()})
    for name, found in results.items():
        bench.rows.add(SUITE, name, [r["ticks"] for r in found], "ticks",
                       " ".join(str(word) for word in ["bench/" + cases[name][0][0].name,
                                                       *cases[name][0][1:]]))


def run(bench):
    ticks(bench)
    if not shutil.which("valgrind"):
        bench.rows.skip(SUITE, "instructions", "valgrind is not installed")
        return
    program = bench.build / "bench"
    server = per_request(program / "get_path", ["net_stack_turn"])
    client = per_request(program / "client_path", ["measured", "respond"])
    bench.rows.add(SUITE, "instructions_per_get", [server], "instructions", "bench/get_path 20000")
    bench.rows.add(SUITE, "ucload_instructions_per_get", [client], "instructions",
                   "bench/client_path 20000", {"ucached": server}, lower_is_better=True)
    for case in PARSED:
        count, = instructions(program / "mcproto_cost", ["serve"], [case, "1000"])
        bench.rows.add(SUITE, f"parse_instructions_{case}", [count / 1000], "instructions",
                       f"bench/mcproto_cost {case} 1000")
