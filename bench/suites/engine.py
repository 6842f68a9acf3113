#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The suite `engine`: kvbench beside other tables, memcached and libCacheSim.

usage: bench/suites/engine.py KVBENCH [--quick] [--json=FILE] [--plots=FOLDER]

--quick measures the same cases on a hundredth of the data, to see that everything runs.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))
import harness  # noqa: E402
import plot_engine  # noqa: E402

SUITE = "engine"
VENV_PYTHON = BENCH.parent / ".venv" / "bin" / "python"
# What theory says of independent requests by Zipf's law (0.99, a million keys): the share of misses
# of a cache of 1 % and 10 % of the keys.
THEORY = {"lru": (0.4338, 0.2337), "fifo": (0.4690, 0.2652), "clock": (0.4240, 0.2263)}


class Suite:
    """Runs kvbench and gathers its rows."""

    def __init__(self, kvbench, quick):
        self.kvbench = kvbench
        self.quick = quick
        self.memcached = ["--memcached"] if shutil.which("memcached") else []
        self.rows = []
        self.commands = []
        if not self.memcached:
            print("engine: memcached is not installed: left out")

    def scaled(self, number):
        return f"{number / 100 if self.quick else number:g}"

    def run(self, *words):
        """Rows of one run, by case."""
        command = [str(self.kvbench), *words]
        self.commands.append(" ".join(["kvbench", *words]))
        print("engine:", self.commands[-1], flush=True)
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            done = subprocess.run([*command, f"--json={file.name}"], check=False, timeout=3000)
            if done.returncode != 0:
                sys.exit(f"engine: {' '.join(command)} has failed")
            rows = json.load(file)
        for row in rows:
            row["command"] = self.commands[-1]
        self.rows += rows
        return {row["case"]: row for row in rows}

    def speed(self):
        threads = "--threads=" + ",".join(str(n) for n in (1, 2, 4, 8, 16, 32, 64)
                                          if n <= (os.cpu_count() or 1))
        how = ["--rounds=2", "--seconds=0.02"] if self.quick else ["--rounds=5", "--seconds=0.2"]
        small = "uniform,keys=1000,key=8,value=8"
        large = f"keys={self.scaled(1e7)},key=20,value=200"
        self.run("speed", f"--workload={small}", threads, "--latency", "--name=engine_get", *how)
        self.run("speed", f"--workload={small},get=50,set=50", threads, "--name=engine_half_set",
                 *how)
        self.run("speed", f"--workload=zipf,keys={self.scaled(1e6)},get=90,set=10", threads,
                 "--latency", "--name=engine_zipf", *how)
        self.run("speed", f"--workload=uniform,{large}", "--tables=engine", "--batch=1,4,8,32,16",
                 "--name=engine_large", *how)
        self.run("speed", f"--workload=uniform,{large}", "--batch=1,16",
                 "--name=engine_large_beside", *how)

    def growth_and_memory(self):
        self.run("growth", f"--items={self.scaled(1e7)}", f"--rounds={1 if self.quick else 3}")
        self.run("memory", f"--memory={16 if self.quick else 512}", *self.memcached)

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
            subprocess.run([str(self.kvbench), "trace", f"--workload={workload}",
                            f"--requests={requests}", f"--out={trace}"], check=True,
                           stdout=subprocess.DEVNULL, timeout=600)
            ratios = simulated(trace, int(float(requests)) // 4, objects.values())
        for case, count in objects.items():
            row = got[case]
            for policy, ratio in (ratios or {}).get(str(count), {}).items():
                row["compared_to"][f"libcachesim_{policy}"] = ratio
                row["ratio"][f"libcachesim_{policy}"] = \
                    ratio / row["value"] if row["value"] else None

    def verify(self):
        """The generator against theory, through libCacheSim; and the engine at equal objects."""
        if self.quick:
            return
        requests, sizes = "4e6", (10_000, 100_000)
        with tempfile.TemporaryDirectory() as folder:
            trace = f"{folder}/zipf.bin"
            subprocess.run([str(self.kvbench), "trace", "--workload=zipf", f"--out={trace}",
                            f"--requests={requests}"], check=True, stdout=subprocess.DEVNULL,
                           timeout=600)
            ratios = simulated(trace, 1_000_000, sizes)
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

    def ratios(self):
        keys, many = self.scaled(1e6), self.scaled(4e6)
        curve = "1%,10%" if self.quick else "1%,2%,5%,10%,20%"
        self.ratio("miss_zipf", f"zipf,keys={keys},value=1000", curve, self.scaled(3e6))
        # memcached takes a page of 1 MiB for each of its size classes, whatever -m says: with ETC's
        # sizes, only a limit of some hundred MiB is the same for both.
        etc = self.ratio("miss_etc", f"etc,keys={self.scaled(1e7)}", "1%,10%", self.scaled(8e6))
        scan = self.ratio("miss_scan", f"scan,keys={keys},scan-keys={many},scan-length=1e4,"
                          "value=1000", "1%,10%", self.scaled(3e6))
        self.ratio("miss_drift", f"drift,keys={keys},value=1000", "1%,10%", self.scaled(3e6))
        self.ratio("miss_ttl", f"ttl,keys={keys},value=1000,rate={self.scaled(1e5)}", "10%,40%",
                   self.scaled(3e6), expires=True)
        self.ratio("miss_twitter_12", f"twitter-12,keys={keys},rate={self.scaled(1e4)}", "10%",
                   self.scaled(3e6), expires=True)
        # The names of the performance contract: these two at a tenth of the footprint.
        for name, got in (("miss_etc", etc), ("miss_scan", scan)):
            self.rows.append(got[f"{name}_10pct"] | {"case": name})


def simulated(trace, warm, sizes):
    """libCacheSim's answer, or nothing where the package is missing."""
    python = VENV_PYTHON if VENV_PYTHON.exists() else sys.executable
    done = subprocess.run([str(python), str(BENCH / "libcachesim_oracle.py"), trace, str(warm),
                           *map(str, sizes)], capture_output=True, text=True, check=False,
                          timeout=3000)
    if done.returncode == 0:
        return json.loads(done.stdout)
    print("engine: libCacheSim is left out:", done.stderr.strip().splitlines()[-1])
    return None


def measure(kvbench, quick=False, plots=None):
    """(rows, commands) of the suite; draws plots into a folder if one is given."""
    suite = Suite(kvbench, quick)
    suite.speed()
    suite.growth_and_memory()
    suite.verify()
    suite.ratios()
    if plots:
        for path in plot_engine.write(suite.rows, plots):
            print("engine: written", path)
    return suite.rows, suite.commands


def is_quick():
    return harness.SECONDS * harness.ROUNDS < 2.5


def expected():
    return 15 if is_quick() else 420


def run(bench):
    """The suite as `make bench SUITE=engine` calls it."""
    rows, _ = measure(bench.program("kvbench"), is_quick(), plots=BENCH / "results" / "engine")
    bench.rows.rows += rows


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("kvbench", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--plots", type=pathlib.Path)
    args = parser.parse_args()
    if not args.kvbench.is_file():
        parser.error(f"{args.kvbench} is not there")
    rows, _ = measure(args.kvbench.resolve(), args.quick, args.plots)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
