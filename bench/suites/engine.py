# SPDX-License-Identifier: BSD-3-Clause
"""The key-value engine without any network: kvbench measures, its rows are taken over."""

import json
import os
import re

import harness

SUITE = "engine"


def run(bench):
    program = bench.program("kvbench")
    runs = (["speed", "--threads=1,2"], ["ratio", "--workload=zipf,keys=1e5", "--memory=1%,10%",
                                         "--requests=1e6"])
    for args in runs:
        command = [program, *args, "--json"]
        if args[0] == "speed":
            command.append(f"--rounds={harness.ROUNDS}")
        try:
            out = bench.run(command, cpus=sorted(os.sched_getaffinity(0)), timeout=600)
        except RuntimeError as failure:
            bench.rows.skip(SUITE, " ".join(args), f"failed: {failure}")
            continue
        found = json.loads(out)
        for row in found["rows"] if isinstance(found, dict) else found:
            row["command"] = f"kvbench {' '.join(args)}"
            row["suite"] = SUITE
            bench.rows.rows.append(row)
            print(f"  {re.sub(' ', '_', row['case']):34} {row['value']:14.6g} {row['unit']}",
                  flush=True)
