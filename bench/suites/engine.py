# SPDX-License-Identifier: BSD-3-Clause
"""
The engine alone: kvbench beside other tables, memcached and libCacheSim.

A short run (BENCH_SECONDS, BENCH_ROUNDS) measures the same cases on a hundredth of the data, to see
that everything runs.
"""

import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Callable, NamedTuple

import harness
import plot_engine

SUITE = "engine"
ROUNDS = harness.ROUNDS
BENCH = harness.ROOT / "bench"
VENV_PYTHON = BENCH.parent / ".venv" / "bin" / "python"
# Theory for independent requests by Zipf's law (0.99, a million keys): miss ratios of a cache of 1
# % and 10 % of the keys.
THEORY = {"lru": (0.4338, 0.2337), "fifo": (0.4690, 0.2652), "clock": (0.4240, 0.2263)}


class Late(Exception):
    """The time of the suite is used up."""


class Step(NamedTuple):
    """
    A part of the suite, and the seconds that it takes on two cores at rest: once, and for each of
    its rounds.
    """
    what: str
    once: float
    each: float
    run: Callable[[int], None]
    most: int = ROUNDS  # rounds that it has at most

    def seconds(self, rounds):
        return self.once + self.each * min(rounds, self.most)


class Suite:
    """Runs kvbench and gathers its rows."""

    def __init__(self, kvbench, quick, time_left=lambda: math.inf, now=time.monotonic):
        self.kvbench = kvbench
        self.quick = quick
        self.time_left, self.now = time_left, now  # in seconds
        self.memcached = ["--memcached"] if shutil.which("memcached") else []
        self.rows = []
        self.commands = []
        self.skipped = []  # (what, why)
        if not self.memcached:
            print("engine: memcached is not installed: left out")

    def call(self, command, **how):
        """Runs a program; ends it and raises Late when the time of the suite is used up."""
        left = self.time_left()
        if left <= 0:
            raise Late
        try:
            return subprocess.run(command, check=False, timeout=None if left == math.inf else left,
                                  **how)
        except subprocess.TimeoutExpired:
            raise Late from None

    def rounds_for(self, step, pace, pending):
        """
        The number of rounds for this step: its share of the time left divided by the time of a
        round at the speed measured so far (pace: seconds for a planned one); 0: not even one.
        """
        left = self.time_left()
        share = left * step.seconds(ROUNDS) / pending
        for rounds in range(ROUNDS, 0, -1):
            if pace * step.seconds(rounds) <= share:
                return rounds
        return 1 if pace * step.seconds(1) <= left else 0

    def run_all(self):
        steps = self.steps()
        pending = sum(step.seconds(ROUNDS) for step in steps)
        planned = spent = 0.0
        for step in steps:
            rounds = self.rounds_for(step, max(1.0, spent / planned) if planned else 1.0, pending)
            pending -= step.seconds(ROUNDS)
            begun = self.now()
            try:
                if rounds == 0:
                    raise Late
                step.run(rounds)
            except Late:
                self.skipped.append((step.what, "this machine is slower than planned for"))
            if 0 < rounds < step.most and step.each:
                self.skipped.append((f"rounds after {rounds} of {step.what}",
                                     "this machine is slower than planned for"))
            planned += step.seconds(rounds) if rounds else 0
            spent += self.now() - begun

    def scaled(self, number):
        return f"{number / 100 if self.quick else number:g}"

    def run(self, *words):
        """Rows of one run, by case."""
        command = [str(self.kvbench), *words]
        self.commands.append(" ".join(["kvbench", *words]))
        print("engine:", self.commands[-1], flush=True)
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            done = self.call([*command, f"--json={file.name}"])
            if done.returncode != 0:
                sys.exit(f"engine: {' '.join(command)} has failed")
            rows = json.load(file)
        for row in rows:
            row["command"] = self.commands[-1]
        self.rows += rows
        return {row["case"]: row for row in rows}

    # Seconds of one round: its cases (the engine with and without batches, and each other table),
    # a fifth of a second each.
    CASES = 5 * 0.25

    def steps(self):
        threads = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= (os.cpu_count() or 1)]
        many = len(threads) * self.CASES
        small = "uniform,keys=1000,key=8,value=8"
        large = "key=20,value=200"
        keys, seen = self.scaled(1e6), self.scaled(4e6)

        def speed(name, workload, *words):
            return lambda rounds: self.speed(rounds, f"--workload={workload}", f"--name={name}",
                                             *words)

        at = "--threads=" + ",".join(map(str, threads))
        return [
            Step("engine_get", 1, many,
                 speed("engine_get", small, at, "--latency")),
            Step("engine_half_set", 1, many,
                 speed("engine_half_set", f"{small},get=50,set=50", at)),
            Step("engine_zipf", 8, many + 1,
                 speed("engine_zipf", f"zipf,keys={keys},get=90,set=10", at, "--latency")),
            Step("engine_large", 8, 1.4,
                 speed("engine_large", f"uniform,keys={self.scaled(1e7)},{large}",
                       "--tables=engine", "--batch=1,4,8,32,16")),
            Step("engine_large_beside", 12, 2,
                 speed("engine_large_beside", f"uniform,keys={self.scaled(2e6)},{large}",
                       "--batch=1,16")),
            # Each round fills every table anew, and asks the kernel about each SET.
            Step("growth", 0, 14, lambda rounds: self.run(
                "growth", f"--items={self.scaled(1e6)}", f"--rounds={min(rounds, 3)}"), most=3),
            Step("memory", 13, 0, lambda rounds: self.run(
                "memory", f"--memory={16 if self.quick else 128}", *self.memcached)),
            Step("verify_*", 28, 0, lambda rounds: self.verify()),
            Step("miss_zipf_*", 50, 0, lambda rounds: self.ratio(
                "miss_zipf", f"zipf,keys={keys},value=1000",
                "1%,10%" if self.quick else "1%,3%,10%", self.scaled(3e6))),
            # memcached takes a page of 1 MiB for each of its size classes, whatever -m says: with
            # ETC's sizes, only a limit of some hundred MiB is the same for both.
            Step("miss_etc_*", 55, 0, lambda rounds: self.contract(
                "miss_etc", f"etc,keys={self.scaled(1e7)}", seen)),
            Step("miss_scan_*", 35, 0, lambda rounds: self.contract(
                "miss_scan", f"scan,keys={keys},scan-keys={seen},scan-length=1e4,value=1000",
                self.scaled(3e6))),
            Step("miss_drift_*", 35, 0, lambda rounds: self.ratio(
                "miss_drift", f"drift,keys={keys},value=1000", "1%,10%", self.scaled(3e6))),
            Step("miss_ttl_*", 12, 0, lambda rounds: self.ratio(
                "miss_ttl", f"ttl,keys={keys},value=1000,rate={self.scaled(1e5)}", "10%,40%",
                self.scaled(3e6), expires=True)),
            Step("miss_twitter_12_*", 8, 0, lambda rounds: self.ratio(
                "miss_twitter_12", f"twitter-12,keys={keys},rate={self.scaled(1e4)}", "10%",
                self.scaled(3e6), expires=True)),
        ]

    def speed(self, rounds, *words):
        how = ["--rounds=2", "--seconds=0.02"] if self.quick else \
            [f"--rounds={rounds}", "--seconds=0.2"]
        self.run("speed", *words, *how)

    def contract(self, name, workload, requests):
        """The name of the performance contract: at a tenth of the footprint."""
        got = self.ratio(name, workload, "1%,10%", requests)
        self.rows.append(got[f"{name}_10pct"] | {"case": name})

    def ratio(self, name, workload, sizes, requests, expires=False):
        """Miss ratios of a workload, with libCacheSim at the engine's number of objects."""
        got = self.run("ratio", f"--workload={workload}", f"--requests={requests}",
                       f"--memory={sizes}", f"--name={name}", *self.memcached)
        if not expires:
            self.simulate(name, workload, requests, got)
        return got

    def simulate(self, name, workload, requests, got):
        """Adds libCacheSim's ratios to rows, at as many objects as the engine has held."""
        objects = {row["case"].removesuffix("_items"): max(1, round(row["value"]))
                   for row in got.values() if row["case"].endswith("_items")}
        with tempfile.TemporaryDirectory() as folder:
            trace = f"{folder}/{name}.bin"
            self.trace(workload, requests, trace)
            ratios = self.simulated(trace, int(float(requests)) // 4, objects.values())
        for case, count in objects.items():
            row = got[case]
            for policy, ratio in (ratios or {}).get(str(count), {}).items():
                row["compared_to"][f"libcachesim_{policy}"] = ratio
                row["ratio"][f"libcachesim_{policy}"] = \
                    ratio / row["value"] if row["value"] else None

    def verify(self):
        """The generator compared with theory by libCacheSim, and the engine at equal objects."""
        if self.quick:
            return
        requests, sizes = "4e6", (10_000, 100_000)
        with tempfile.TemporaryDirectory() as folder:
            trace = f"{folder}/zipf.bin"
            self.trace("zipf", requests, trace)
            ratios = self.simulated(trace, 1_000_000, sizes)
        for policy, expected in THEORY.items():
            for size, theory in zip(sizes, expected):
                if not ratios:
                    break
                value = ratios[str(size)][policy]
                self.rows.append({"suite": "engine", "case": f"verify_libcachesim_{policy}_{size}",
                                  "value": value, "unit": "share", "median_of": 1,
                                  "compared_to": {"theory": theory},
                                  "command": "bench/libcachesim_oracle.py",
                                  "ratio": {"theory": value / theory}})
        self.run("ratio", "--workload=zipf", f"--requests={requests}", "--name=verify_engine",
                 "--memory=" + ",".join(f"{size}obj" for size in sizes))

    def trace(self, workload, requests, path):
        done = self.call([str(self.kvbench), "trace", f"--workload={workload}",
                          f"--requests={requests}", f"--out={path}"], stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(f"engine: no trace of {workload}")

    def simulated(self, trace, warm, sizes):
        """The result of libCacheSim, or {} where the package is missing."""
        python = VENV_PYTHON if VENV_PYTHON.exists() else sys.executable
        done = self.call([str(python), str(BENCH / "libcachesim_oracle.py"), trace, str(warm),
                          *map(str, sizes)], capture_output=True, text=True)
        if done.returncode == 0:
            return json.loads(done.stdout)
        print("engine: libCacheSim is left out:", done.stderr.strip().splitlines()[-1])
        return None


def is_quick():
    return harness.SECONDS * harness.ROUNDS < 2.5


def expected():
    if is_quick():
        return 15
    return sum(step.seconds(ROUNDS) for step in Suite(None, False).steps())


def run(bench):
    suite = Suite(bench.program("kvbench"), is_quick(), bench.progress.time_left)
    suite.run_all()
    for path in plot_engine.write(suite.rows, BENCH / "results" / "engine"):
        print("engine: written", path)
    bench.rows.rows += suite.rows
    for what, why in suite.skipped:
        bench.rows.skip(SUITE, what, why)
