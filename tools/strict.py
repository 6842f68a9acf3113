#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Turns skipped tests into failures if CHECK_STRICT=1, which continuous integration sets.

    tools/strict.py COMMAND...    runs a test program (the wrapper of `meson test --wrap`)

It fails if the program ends with status 77, or reports a skipped test in the format of cmocka,
pytest -rs or the project's programs. pytest_plugin() does the same for tests and modules of pytest.
test/allowed_skips.txt lists the permitted skips with the reason for each.
"""

import fnmatch
import os
import pathlib
import re
import subprocess
import sys

ALLOWED = pathlib.Path(
    os.environ.get("CHECK_STRICT_ALLOWED")
    or pathlib.Path(__file__).resolve().parents[1] / "test" / "allowed_skips.txt"
)

# Meson's exit status for a skipped test.
SKIPPED_STATUS = 77

# Lines of output: of cmocka, of the summary of pytest, of the programs of the project.
SKIPS = [
    re.compile(r"^\[  SKIPPED \] (?P<what>[A-Za-z_]\w*)$"),
    re.compile(r"^SKIPPED \[\d+\] (?P<what>.*)$"),
    re.compile(r"^(?P<what>(?:[\w-]+: )?skipp(?:ed|ing)(?: [\w ]+)?: .*)$"),
]


def wanted():
    return os.environ.get("CHECK_STRICT", "") not in ("", "0")


def allowed_patterns():
    """The patterns of the list: the lines that neither are empty nor begin with # or a blank."""
    lines = ALLOWED.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and line[0] not in "# "]


def is_allowed(what, patterns=None):
    """`what`: the test and, after ": ", the reason that it gives."""
    patterns = allowed_patterns() if patterns is None else patterns
    return any(fnmatch.fnmatchcase(what, pattern) for pattern in patterns)


def skips_in(output):
    """The skipped tests in the output of a test program, in order and once each."""
    found = {}
    for line in output.splitlines():
        for skip in SKIPS:
            if match := skip.match(line.strip()):
                found[match["what"]] = None
                break
    return list(found)


# ---- a wrapper of test programs -----------------------------------------------------------------


def name_of(command):
    """The test program's name, behind valgrind and its options if there are any."""
    words = [word for word in command if not word.startswith("-")]
    if pathlib.Path(words[0]).name == "valgrind":
        words = words[1:]
    return pathlib.Path(words[0]).name


def main(command):
    if not wanted():
        os.execvp(command[0], command)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    sys.stdout.buffer.write(done.stdout)
    name = name_of(command)
    skips = [f"{name}: {what}" for what in skips_in(done.stdout.decode(errors="replace"))]
    if done.returncode == SKIPPED_STATUS and not skips:
        skips.append(f"{name}: status {SKIPPED_STATUS}")
    patterns = allowed_patterns()
    refused = [what for what in skips if not is_allowed(what, patterns)]
    for what in refused:
        print(f"CHECK_STRICT: skipped and not in {ALLOWED.name}: {what}")
    if refused:
        return 1
    if done.returncode == SKIPPED_STATUS:
        return 0
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


# ---- a plugin of pytest -------------------------------------------------------------------------


def _refuse(report, name, as_text=str):
    """Turns the report of a skip into a failure, unless the list permits the skip."""
    if not wanted() or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    what = f"{name}: {reason.removeprefix('Skipped: ')}"
    if is_allowed(what):
        return
    report.outcome = "failed"
    report.longrepr = as_text(f"CHECK_STRICT: skipped and not in {ALLOWED.name}: {what}")


def pytest_plugin():
    """To be registered in pytest_configure()."""
    import pytest
    from _pytest.reports import CollectErrorRepr

    class Strict:
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item):
            _refuse((yield).get_result(), item.nodeid)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_make_collect_report(self, collector):
            _refuse((yield).get_result(), collector.nodeid, CollectErrorRepr)

    return Strict()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
