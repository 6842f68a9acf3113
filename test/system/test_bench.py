# SPDX-License-Identifier: BSD-3-Clause
"""`make bench` in small: it runs through, cleans up, and writes rows and a report."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import report  # noqa: E402

ROW = {"suite", "case", "value", "unit", "median_of", "compared_to", "ratio"}


@pytest.fixture(scope="module")
def build(ucached_path):
    build = pathlib.Path(ucached_path).parents[2]
    if build.name == "asan":
        pytest.skip("nobody measures with sanitizers")
    return build


def bench(build, *suites, **env):
    """Runs suites, each measurement as short as can be."""
    command = [sys.executable, ROOT / "tools" / "bench", build, *suites]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False,
                          env={**os.environ, "BENCH_SECONDS": "0.05", "BENCH_ROUNDS": "1", **env})


def test_one_suite(build, memcached_path, tmp_path):
    done = bench(build, "protocol", BENCH_RESULTS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "latest.json").read_text())
    assert {row["suite"] for row in rows} == {"protocol"}
    assert all(ROW <= set(row) and row["value"] > 0 for row in rows)
    by_case = {row["case"]: row for row in rows}
    row = by_case["ucached_get_text_2"]
    base = by_case["memcached_get_text_2"]
    assert row["compared_to"] == {"memcached": base["value"]}
    assert row["ratio"]["memcached"] == pytest.approx(row["value"] / base["value"])
    assert "ucload --server=" in row["command"]
    assert "| ucached_get_text_2 |" in (tmp_path / "latest.md").read_text()
    page = (tmp_path / "latest.html").read_text()
    assert "<svg" in page and "ucached_get_text_2" in page
    assert os.uname().nodename not in (tmp_path / "latest.json").read_text()
    assert list(tmp_path.glob("20*-*cpu.json"))


def test_no_such_suite(build, tmp_path):
    done = bench(build, "nonsense", BENCH_RESULTS=str(tmp_path))
    assert done.returncode != 0 and "there is no suite nonsense" in done.stderr


def test_another_server(build, memcached_path, tmp_path):
    command = f"{memcached_path} -u root -l 127.0.0.1 -U 0 -p {{port}} -t {{threads}}"
    done = bench(build, "stack", BENCH_RESULTS=str(tmp_path), SERVER_CMD=command)
    assert done.returncode == 0, done.stderr
    rows = {row["case"]: row for row in json.loads((tmp_path / "latest.json").read_text())}
    assert rows["other"]["value"] > 0
    if len(os.sched_getaffinity(0)) < 4:
        assert "cores: skipped: " in done.stdout
        assert "Not measured" in (tmp_path / "latest.md").read_text()
    assert set(rows["sock_depth1"]["ratio"]) >= {"memcached", "other", "pingpong"}


def test_numbers():
    assert [report.number(n) for n in (0, 0.5, 123, 12345, 1.234e6)] == [
        "0", "0.5", "123", "12.3 k", "1.23 M"]
