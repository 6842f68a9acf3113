#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A GET costs ucload on its own stack fewer instructions than it costs ucached.

usage: ucload_cost_test.py BENCH/client_path BENCH/get_path

So one core of ucload keeps one core of any server on the same stack busy. Both are counted from
frame to frame over a link in memory. Exits with 77 (skipped) where valgrind is missing.
"""

import re
import shutil
import subprocess
import sys

REQUESTS = 5000


def instructions(program, *functions):
    """Per request, within these functions: a run with requests less one without."""
    counts = []
    for requests in (0, REQUESTS):
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", *[f"--toggle-collect={f}*" for f in functions],
             "--callgrind-out-file=/dev/null", program, str(requests)],
            capture_output=True, text=True, timeout=120, check=True)
        counts.append(int(re.search(r"Collected : (\d+)", done.stderr)[1]))
    return (counts[1] - counts[0]) / REQUESTS


def main():
    if not shutil.which("valgrind"):
        print("skipped: needs valgrind")
        return 77
    client = instructions(sys.argv[1], "measured", "respond")
    server = instructions(sys.argv[2], "net_stack_turn")
    print(f"instructions per GET: {client:.0f} of ucload, {server:.0f} of ucached")
    return int(not 0 < client < server)


if __name__ == "__main__":
    sys.exit(main())
