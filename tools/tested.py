#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that test/README.md says of every .c file of src and apps where it is tested.

    tools/tested.py [--root DIR]

src/X/Y.c is tested by test/unit/X/Y_test.c, and apps/X/Y.c by test/unit/apps/X/Y_test.c. All other
files are in the table of test/README.md: a row has a pattern of paths and names tests, which are
files or folders below test/. Rows without a file and tests that do not exist are errors.
"""

import argparse
import fnmatch
import re
import sys
from pathlib import Path

TABLE = "test/README.md"
ROW = re.compile(r"^\| `((?:src|apps)/[^`]+\.c)` \| (.*) \|$")
NAME = re.compile(r"`([^`]+)`")


def unit_test_of(source: str) -> str:
    """The path of the unit test that mirrors a source file."""
    inner = source.removeprefix("src/").removesuffix(".c")
    return f"test/unit/{inner}_test.c"


def rows(root: Path) -> list[tuple[int, str, list[str]]]:
    """The table: line, pattern of source files, and the tests that the row names."""
    path = root / TABLE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    matches = [(number, ROW.match(line)) for number, line in enumerate(lines, 1)]
    return [(number, m[1], NAME.findall(m[2])) for number, m in matches if m]


def problems(root: Path) -> list[str]:
    sources = {
        path.relative_to(root).as_posix()
        for folder in ("src", "apps")
        for path in (root / folder).rglob("*.c")
    }
    left = {source for source in sources if not (root / unit_test_of(source)).exists()}
    found, listed = [], set()
    for line, pattern, tests in rows(root):
        matching = set(fnmatch.filter(left, pattern))
        listed |= matching
        if not matching:
            found.append(f"{TABLE}:{line}: no file without a unit test matches {pattern}")
        if not tests:
            found.append(f"{TABLE}:{line}: no test is named for {pattern}")
        found += [f"{TABLE}:{line}: no test test/{test}" for test in tests
                  if not (root / "test" / test).exists()]  # fmt: skip
    for source in sorted(left - listed):
        found.append(f"{source}:1: neither {unit_test_of(source)} nor a row in {TABLE}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    found = problems(parser.parse_args().root)
    for problem in found:
        print(problem)
    print(f"tested: {len(found)} errors")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
