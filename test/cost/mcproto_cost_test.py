#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Parsing a short request and writing its reply stays within its bound of instructions.

usage: mcproto_cost_test.py BENCH/mcproto_cost

The bounds hold for -O2 on x86-64, with a tenth to spare for other compilers; `make bench` tells
what a release build takes. Exits with 77 (skipped) where valgrind or that machine is missing.
"""

import platform
import re
import shutil
import subprocess
import sys

REQUESTS = 200

BOUNDS = {"get": 300, "gets": 700, "set": 680, "mg": 950, "ms": 830, "binary_get": 300}


def instructions(program, case):
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--toggle-collect=serve", "--callgrind-out-file=/dev/null",
         program, case, str(REQUESTS)],
        capture_output=True, text=True, timeout=60, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1]) / REQUESTS


def main():
    if platform.machine() != "x86_64" or not shutil.which("valgrind"):
        print("skipped: needs valgrind on x86-64")
        return 77
    failed = False
    for case, bound in BOUNDS.items():
        count = instructions(sys.argv[1], case)
        verdict = "ok" if count <= bound else "TOO MANY"
        print(f"{case}: {count:.0f} instructions, at most {bound}: {verdict}")
        failed |= count > bound
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
