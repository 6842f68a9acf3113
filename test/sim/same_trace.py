#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The same seeds give the same frames at the same times, whatever compiler built the stack.

    test/sim/same_trace.py SOURCE_ROOT COMPILER...

Builds the simulator with each compiler, not optimised and optimised, and compares the hashes of
all frames. A difference is a use of something that the language leaves open: memory that was never
written, an overflow, an order of evaluation.
"""

import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile

SEEDS = "1..60"
LEVELS = ("-O0", "-O2", "-O3")
SIMULATOR = ("sim", "link", "host", "app", "sim_test")


def sources(root: pathlib.Path) -> list[pathlib.Path]:
    files = sorted((root / "src/base").glob("*.c")) + sorted((root / "src/ustack").rglob("*.c"))
    files += [root / "test/sim" / f"{name}.c" for name in SIMULATOR]
    return [*files, root / "test/packet/frame.c"]


def build(root: pathlib.Path, compiler: str, level: str, folder: pathlib.Path) -> pathlib.Path:
    program = folder / f"sim-{compiler}{level}"
    flags = [level, "-std=gnu11", f"-I{root}/include", f"-I{root}/src"]
    subprocess.run([compiler, *flags, *sources(root), "-o", program], check=True)
    return program


def trace(program: pathlib.Path) -> str:
    command = [program, "--seeds", SEEDS]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> int:
    root = pathlib.Path(sys.argv[1]).resolve()
    cases = [(compiler, level) for compiler in sys.argv[2:] for level in LEVELS]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            programs = pool.map(lambda case: build(root, *case, folder), cases)
            results = list(pool.map(trace, list(programs)))
    for case, result in zip(cases, results, strict=True):
        print(*case, result.strip())
    return len(set(results)) != 1


if __name__ == "__main__":
    sys.exit(main())
