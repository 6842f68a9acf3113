# SPDX-License-Identifier: BSD-3-Clause
"""A skipped dummy becomes a failure with CHECK_STRICT=1, unless the list permits it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent
STRICT = TOOLS / "strict.py"

CONFTEST = """
import sys
sys.path.insert(0, {tools!r})
import strict
def pytest_configure(config):
    config.pluginmanager.register(strict.pytest_plugin())
"""
TESTS = """
import pytest
@pytest.fixture
def device():
    pytest.skip("no device")
def test_setup(device): pass
def test_call(): pytest.skip("no tool")
def test_passes(): pass
@pytest.mark.xfail(reason="known")
def test_xfail(): assert False
@pytest.mark.skipif(True, reason="not root")
def test_mark(): pass
"""
MODULE = 'import pytest\npytest.skip("no kernel", allow_module_level=True)\n'


def run(tmp_path, command, strict, allowed=""):
    (tmp_path / "allowed").write_text(allowed, encoding="utf-8")
    env = {**os.environ, "CHECK_STRICT": strict, "CHECK_STRICT_ALLOWED": str(tmp_path / "allowed")}
    return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)


def run_pytest(tmp_path, strict, allowed="", module=False):
    (tmp_path / "conftest.py").write_text(CONFTEST.format(tools=str(TOOLS)), encoding="utf-8")
    (tmp_path / "test_dummy.py").write_text(TESTS, encoding="utf-8")
    if module:
        (tmp_path / "test_module.py").write_text(MODULE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    return run(tmp_path, command, strict, allowed)


@pytest.mark.parametrize("strict", ["", "0"])
def test_skips_are_fine_by_default(tmp_path, strict):
    done = run_pytest(tmp_path, strict, module=True)
    assert done.returncode == 0 and "1 passed, 4 skipped, 1 xfailed" in done.stdout


def test_a_skip_of_pytest_fails(tmp_path):
    done = run_pytest(tmp_path, "1")
    assert done.returncode != 0
    for what in ("test_dummy.py::test_setup: no device", "test_dummy.py::test_call: no tool",
                 "test_dummy.py::test_mark: not root"):  # fmt: skip
        assert f"CHECK_STRICT: skipped and not in allowed: {what}" in done.stdout, done.stdout
    assert " skipped" not in done.stdout.splitlines()[-1]


def test_a_skipped_module_fails(tmp_path):
    done = run_pytest(tmp_path, "1", module=True)
    assert done.returncode != 0
    assert "CHECK_STRICT: skipped and not in allowed: test_module.py: no kernel" in done.stdout


def test_a_skip_that_the_list_permits(tmp_path):
    allowed = "# why\ntest_dummy.py::*: no *\n  indented lines are reasons\ntest_module.py: *\n"
    done = run_pytest(tmp_path, "1", allowed, module=True)
    assert "1 passed, 3 skipped, 1 xfailed, 1 error" in done.stdout, done.stdout
    assert "not in allowed: test_dummy.py::test_mark: not root" in done.stdout


def wrapped(tmp_path, script, strict="1", allowed=""):
    program = tmp_path / "some_test"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    program.chmod(0o755)
    return run(tmp_path, [STRICT, program], strict, allowed)


@pytest.mark.parametrize(
    "script,what",
    [
        ("exit 77", "some_test: status 77"),
        ("echo '[  SKIPPED ] needs_tap'", "some_test: needs_tap"),
        ("echo 'skipped: no io_uring'", "some_test: skipped: no io_uring"),
        ("echo 'skipping the tests: no device'", "some_test: skipping the tests: no device"),
        ("echo 'SKIPPED [2] a_test.py:7: no gcc'", "some_test: a_test.py:7: no gcc"),
    ],
)
def test_a_skip_of_a_test_program_fails(tmp_path, script, what):
    done = wrapped(tmp_path, script)
    assert done.returncode == 1
    assert f"CHECK_STRICT: skipped and not in allowed: {what}\n" in done.stdout
    assert wrapped(tmp_path, script, allowed=f"{what}\n").returncode == 0
    assert wrapped(tmp_path, script, strict="").returncode == (77 if "77" in script else 0)


@pytest.mark.parametrize("script,status", [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", -9)])
def test_other_results_stay(tmp_path, script, status):
    text = "echo '[       OK ] padding_and_options_are_skipped'"
    assert wrapped(tmp_path, f"{text}; {script}").returncode in (status, 128 - status)


def test_valgrind_is_not_the_name_of_a_test():
    sys.path.insert(0, str(TOOLS))
    import strict

    assert strict.name_of(["valgrind", "-q", "--x=y", "/b/tap_test", "-v"]) == "tap_test"
    assert strict.name_of(["/b/tap_test", "arg"]) == "tap_test"
