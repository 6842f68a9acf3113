# SPDX-License-Identifier: BSD-3-Clause
"""tools/bootstrap beside another apt: it waits for apt's lock, and says what to do if it fails."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)"


@pytest.fixture
def bootstrap(tmp_path):
    """Runs it with an apt-get whose calls end as listed: "locked", "broken", then success."""

    def script(name, text):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
        path.chmod(0o755)

    def run(*outcomes, wait_s):
        (tmp_path / "outcomes").write_text("".join(f"{one}\n" for one in outcomes))
        script("dpkg-query", "echo not-installed")
        script("id", "echo 0")
        script("tee", "cat >/dev/null")
        script("chmod", "exit 0")
        script("rm", "exit 0")
        script(
            "apt-get",
            f"cd {tmp_path}; echo \"$@\" >>calls; read outcome <outcomes; sed -i 1d outcomes\n"
            f'case $outcome in locked) echo "{LOCKED}" >&2; exit 100 ;;\n'
            'broken) echo "E: no such mirror" >&2; exit 100 ;; esac',
        )
        env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}",
               "BOOTSTRAP_LOCK_WAIT": str(wait_s)}  # fmt: skip
        done = subprocess.run(
            [ROOT / "tools" / "bootstrap"], env=env, capture_output=True, text=True, timeout=60
        )
        return done, (tmp_path / "calls").read_text().splitlines()

    return run


def test_it_waits_for_the_lock(bootstrap):
    done, calls = bootstrap("locked", "ok", "locked", "ok", wait_s=30)
    assert done.returncode == 0, done.stderr
    assert [call.split()[2] for call in calls] == ["update", "update", "install", "install"]
    assert all("DPkg::Lock::Timeout=30" in call for call in calls)
    assert "another program holds apt's lock" in done.stderr


def test_lock_that_is_never_released(bootstrap):
    done, calls = bootstrap(*["locked"] * 9, wait_s=1)
    assert done.returncode == 1 and len(calls) == 2
    assert LOCKED in done.stderr and "still holds the lock" in done.stderr
    assert "apt-get update && apt-get install" in done.stderr


def test_another_failure_is_not_tried_again(bootstrap):
    done, calls = bootstrap("broken", wait_s=30)
    assert done.returncode == 1 and len(calls) == 1
    assert "no such mirror" in done.stderr and "still holds" not in done.stderr
    assert "apt-get update && apt-get install" in done.stderr
