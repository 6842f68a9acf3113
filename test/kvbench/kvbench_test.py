#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""kvbench as a program: output, rows, exit codes, trace files.

usage: kvbench_test.py KVBENCH
"""
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

KVBENCH = sys.argv.pop(1)
QUICK = ("--rounds=2", "--seconds=0.01")


def kvbench(*words, status=0):
    """Standard output of a run that must end with a status."""
    done = subprocess.run([KVBENCH, *words], capture_output=True, text=True, timeout=100,
                          check=False)
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    if status != 0:
        assert done.stderr.startswith("kvbench: "), done.stderr
        return done.stderr
    return done.stdout


def rows(*words):
    return {row["case"]: row for row in json.loads(kvbench(*words, "--json"))}


def section(name):
    """The names under a heading of `kvbench list`."""
    lines = kvbench("list").splitlines()
    names = []
    for line in lines[lines.index(name) + 1:]:
        if not line.startswith(" "):
            break
        if not line.startswith("   ") and "built without" not in line:
            names.append(line.split()[0])
    return names


class Speed(unittest.TestCase):
    def test_every_table(self):
        tables = section("tables")
        self.assertEqual(tables[:2], ["engine", "mutexes"])
        got = rows("speed", *QUICK, "--threads=1,2", "--name=engine_get")
        self.assertEqual(sorted(got), ["engine_get_1t", "engine_get_2t"])
        for row in got.values():
            self.assertEqual(row["suite"], "engine")
            self.assertEqual(row["unit"], "Mops/s")
            self.assertEqual(row["median_of"], 2)
            self.assertGreater(row["value"], 0.01)
            self.assertLessEqual(set(tables[1:]) | {"batch_1"}, set(row["compared_to"]))
            for name, ratio in row["ratio"].items():
                self.assertAlmostEqual(ratio, row["value"] / row["compared_to"][name],
                                       delta=1e-3 * ratio)
        self.assertIn("1t", got["engine_get_2t"]["compared_to"])

    def test_every_workload(self):
        for name in section("workloads"):
            with self.subTest(name):
                out = kvbench("speed", *QUICK, "--tables=engine", f"--workload={name},keys=2000")
                self.assertIn("M ops/s", out)

    def test_latency(self):
        got = rows("speed", *QUICK, "--tables=engine,mutexes", "--latency")
        self.assertLessEqual(got["engine_speed_latency_p50"]["value"],
                             got["engine_speed_latency_max"]["value"])
        self.assertIn("mutexes", got["engine_speed_latency_p99"]["compared_to"])

    def test_hits(self):
        """Without deletions every key is there."""
        for line in kvbench("speed", *QUICK, "--workload=zipf,keys=3000").splitlines()[4:]:
            self.assertEqual(line.split()[-1], "1.0000", line)


class Growth(unittest.TestCase):
    def test_rows(self):
        row = rows("growth", "--items=20000", "--rounds=2")["growth_worst_set_us"]
        self.assertGreater(row["value"], 0)
        self.assertEqual(set(row["compared_to"]), set(section("tables")[1:]))


class Memory(unittest.TestCase):
    def test_rows(self):
        words = ["--memcached"] if shutil.which("memcached") else []
        got = rows("memory", "--memory=8", *words)
        self.assertTrue(20 < got["item_overhead_bytes"]["value"] < 200)
        items = got["items_at_limit"]
        self.assertTrue(10000 < items["value"] < (8 << 20) / 220)
        self.assertEqual(list(items["compared_to"]), ["memcached"] if words else [])


class Ratio(unittest.TestCase):
    def test_every_policy(self):
        """A tenth of equally popular keys fits: nine tenths of the GETs miss."""
        words = ["--memcached"] if shutil.which("memcached") else []
        got = rows("ratio", "--workload=uniform,keys=40000,value=1000", "--requests=200000",
                   "--memory=4,4000obj", *words)
        self.assertEqual(sorted(got), ["miss_4000obj", "miss_4000obj_items", "miss_4mib",
                                       "miss_4mib_items"])
        policies = section("policies")
        self.assertEqual(set(got["miss_4mib"]["compared_to"]),
                         set(policies) | ({"memcached"} if words else set()))
        miss = got["miss_4000obj"]
        for value in (miss["value"], *(miss["compared_to"][name] for name in policies)):
            self.assertAlmostEqual(value, 0.9, delta=0.01)

    def test_traces_as_the_workload(self):
        """A workload replayed from its trace files misses as often as drawn."""
        workload = "--workload=zipf,keys=20000,key=16,value=500"
        with tempfile.TemporaryDirectory() as folder:
            missed = set()
            drawn = rows("ratio", workload, "--requests=100000", "--memory=2")
            missed.add(drawn["miss_2mib"]["value"])
            for name in ("t.csv", "t.oracleGeneral.bin"):
                path = pathlib.Path(folder, name)
                kvbench("trace", workload, "--requests=100000", f"--out={path}")
                got = rows("ratio", f"--trace={path}", "--memory=2")
                missed.add(got["miss_2mib"]["value"])
            self.assertEqual(len(missed), 1, missed)

    def test_expiring_keys(self):
        out = kvbench("ratio", "--workload=ttl,keys=5000", "--requests=100000", "--memory=2,16")
        self.assertIn("16mib", out)

    def test_damaged_traces(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "t.bin")
            path.write_bytes(b"")
            self.assertIn("cut off", kvbench("ratio", f"--trace={path}", status=1))
            path.write_bytes(struct.pack("<IQIq", 0, 1, 100, 0))
            self.assertIn("request 0 is damaged", kvbench("ratio", f"--trace={path}", status=1))
            path = path.with_suffix(".csv")
            path.write_text("time,id,size\n1,2,3\n1,2\n")
            self.assertIn("line 3", kvbench("ratio", f"--trace={path}", status=1))


class CommandLine(unittest.TestCase):
    def test_help(self):
        self.assertIn("Examples", kvbench("--help"))
        self.assertEqual(kvbench("--help"), kvbench("ratio", "--help"))

    def test_wrong_options(self):
        for words in ([], ["fast"], ["speed", "--what"], ["speed", "--rounds=0"],
                      ["speed", "--tables=unknown"], ["speed", "--workload=nothing"], ["trace"],
                      ["ratio", "--memory=prng"]):
            with self.subTest(words):
                kvbench(*words, status=64)

    def test_failures(self):
        for words in (["ratio", "--trace=/nonexistent"], ["trace", "--out=/nonexistent/t"],
                      ["memory", "--memory=4", "--memcached=/nonexistent"],
                      ["speed", "--workload=uniform,keys=1e10"]):
            with self.subTest(words):
                kvbench(*words, status=1)

    def test_json_into_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "rows.json")
            out = kvbench("speed", *QUICK, "--tables=engine", f"--json={path}")
            self.assertIn("M ops/s", out)
            self.assertEqual(len(json.loads(path.read_text())), 1)

    def test_full_disk(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([KVBENCH, "list"], stdout=full, stderr=subprocess.PIPE,
                                  timeout=60, check=False)
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
