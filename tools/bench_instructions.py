#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The regression gate: instructions per request, compared with bench/baseline.json.

usage: tools/bench_instructions.py BUILD_FOLDER [--renew]

A recorded trace of frames (bench/requests.pcap) is replayed through stack, protocol and engine
under callgrind; the protocol library and the client of ucload are counted as well. A GET over TLS
is counted without libraries, whose code for AES depends on the processor and their version; a build
without TLS leaves that row out. A count more than 2 % above its baseline fails; one more than 2 %
below needs a new baseline, so that the gain is kept. Counts do not depend on the speed or load of
the machine, but on the compiler: the baseline names its compiler, and with another one nothing is
compared.

--renew writes a new baseline. A commit with a new baseline gives the reason in its message.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import callgrind  # noqa: E402

BASELINE = ROOT / "bench" / "baseline.json"
TRACE = ROOT / "bench" / "requests.pcap"
TOLERANCE = 0.02

COUNTED = 5000
PROGRAMS = ("replay_path", "get_path", "client_path", "mcproto_cost")
LOADS = ("zipf", "set", "etc")
PARSED = ("get", "set", "mg", "ms", "binary_get")
CONNECTIONS = 32
TLS_ABSENT = 77  # PATH_TLS_ABSENT of bench/path_tls.h

# The C library chooses its copies by the processor: one choice for all of them.
SAME_EVERYWHERE = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-AVX,-ERMS,-FSRM"}


def collected(program, functions, *args, out="/dev/null"):
    """Instructions within these functions, and the output of the program."""
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", *[f"--toggle-collect={f}*" for f in functions],
         f"--callgrind-out-file={out}", program, *map(str, args)],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, **SAME_EVERYWHERE})
    if done.returncode != 0:
        sys.exit(f"{program.name} failed: {done.stderr.strip()[-400:]}")
    count = int(re.search(r"Collected : (\d+)", done.stderr)[1])
    if count == 0:
        sys.exit(f"{program.name}: no instructions in {', '.join(functions)}: inlined?")
    return count, done.stdout


def collected_own(program, functions, *args):
    """The same without the code of libraries, whatever it was called for."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind"
        _, said = collected(program, functions, *args, out=out)
        costs = callgrind.self_costs(out.read_text())
        return sum(n for of_object, _, n in costs if of_object == str(program)), said


def replayed(program):
    """Instructions per request of the trace, without its setup; all replies have to come."""
    setup, _ = collected(program, ["net_stack_turn"], TRACE, "setup")
    whole, said = collected(program, ["net_stack_turn"], TRACE)
    requests, reply_bytes = map(int, re.match(r"(\d+) requests, (\d+) bytes", said).groups())
    return (whole - setup) / requests, reply_bytes


def per_request(program, *functions, more=(), count=collected):
    none, some = (count(program, functions, n, *more)[0] for n in (0, COUNTED))
    return (some - none) / COUNTED


def has_tls(program):
    return subprocess.run([program, "0", "1", "tls"], capture_output=True,
                          check=False).returncode != TLS_ABSENT


def measure(folder):
    """Name -> instructions per request, and how many bytes the replies of the trace have."""
    counts = {}
    counts["replayed_request"], reply_bytes = replayed(folder / "replay_path")
    counts["get"] = per_request(folder / "get_path", "net_stack_turn")
    counts["get_alone"] = per_request(folder / "get_path", "net_stack_turn", more=[1])
    counts["set"] = per_request(folder / "get_path", "net_stack_turn", more=[CONNECTIONS, "set"])
    if has_tls(folder / "get_path"):
        counts["get_tls"] = per_request(folder / "get_path", "net_stack_turn",
                                        more=[CONNECTIONS, "tls"], count=collected_own)
    else:
        print("get_tls: left out: this build has no TLS")
    counts["ucload_get"] = per_request(folder / "client_path", "measured", "respond")
    for case in LOADS:
        counts[f"ucload_{case}"] = per_request(folder / "client_path", "measured", "respond",
                                               more=[case])
    for case in PARSED:
        total, _ = collected(folder / "mcproto_cost", ["serve"], case, 1000)
        counts[f"parse_{case}"] = total / 1000
    return {name: round(count, 1) for name, count in counts.items()}, reply_bytes


def compiler():
    out = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout
    return out.splitlines()[0]


def renew(counts, reply_bytes):
    BASELINE.write_text(json.dumps({"compiler": compiler(), "reply_bytes": reply_bytes,
                                    "instructions": counts}, indent=1) + "\n")
    print(f"written: {BASELINE.relative_to(ROOT)}")


def compare(counts, reply_bytes, baseline):
    """The findings as words; prints a line for each count."""
    findings = []
    if reply_bytes != baseline["reply_bytes"]:
        findings.append(f"{reply_bytes} bytes of replies to the trace, "
                        f"not {baseline['reply_bytes']}")
    for name, count in counts.items():
        before = baseline["instructions"].get(name)
        change = count / before - 1 if before else 0
        verdict = "ok"
        if before is None:
            verdict = "NOT IN THE BASELINE"
        elif change > TOLERANCE:
            verdict = "TOO MANY"
        elif change < -TOLERANCE:
            verdict = "fewer: renew the baseline"
        if verdict.isupper():
            findings.append(f"{name} {change:+.2%} {verdict.lower()}")
        print(f"{name:18} {count:9.1f}  baseline {before or 0:9.1f}  {change:+7.2%}  {verdict}")
    return findings


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--renew"]):
        sys.exit(__doc__)
    if not shutil.which("valgrind"):
        print("bench-instructions: skipped: valgrind is not installed")
        return 0
    build = pathlib.Path(sys.argv[1]).resolve()
    subprocess.run(["ninja", "-C", build, *[f"bench/{name}" for name in PROGRAMS]], check=True,
                   stdout=subprocess.DEVNULL)
    counts, reply_bytes = measure(build / "bench")
    if sys.argv[2:]:
        renew(counts, reply_bytes)
        return 0
    baseline = json.loads(BASELINE.read_text())
    if baseline["compiler"] != compiler():
        print("bench-instructions: nothing is compared: the baseline is of "
              f"{baseline['compiler']}, this is {compiler()}")
        return 0
    findings = compare(counts, reply_bytes, baseline)
    if findings:
        print(f"bench-instructions: {'; '.join(findings)}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
