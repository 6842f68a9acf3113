#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compiles ns3_fairness with sanitizers and compares its output with that of the plain program.

    asan.py BUILD PLAIN TARGET CASE...

TARGET is what ninja makes in BUILD. The output has a hash of all frames and their times, so equal
output means equal runs, bit for bit.
"""

import os
import subprocess
import sys
from pathlib import Path

UNFAIR = 1
SEED, MBPS, SECONDS = 1, 20, 10


def output(program: Path, case: str) -> str:
    """The output of a run, which may be too short to be fair; what a sanitizer finds ends it."""
    environment = {
        **os.environ,
        "ASAN_OPTIONS": "detect_leaks=0:exitcode=99",  # ns-3 frees some of its singletons only at exit
        "UBSAN_OPTIONS": "halt_on_error=1:exitcode=99:print_stacktrace=1",
    }
    command = [program, case, str(SEED), str(SEED), str(MBPS), str(SECONDS)]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if run.returncode not in (0, UNFAIR):
        sys.exit(f"{program} {case}: exit status {run.returncode}\n{run.stdout}")
    return run.stdout


def main() -> None:
    build, plain, target, *cases = sys.argv[1:]
    subprocess.run(["ninja", "-C", build, target], check=True)
    different = False
    for case in cases:
        expected, found = output(Path(plain), case), output(Path(build) / target, case)
        print(f"{'same' if found == expected else 'DIFFERENT'}: {expected.strip()}")
        if found != expected:
            print(f"     sanitized: {found.strip()}")
            different = True
    sys.exit(different)


if __name__ == "__main__":
    main()
