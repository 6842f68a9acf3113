# SPDX-License-Identifier: BSD-3-Clause
"""What a request costs without a network: ticks, and instructions, which no other load changes."""

import collections
import pathlib
import re
import shutil
import tempfile

import harness

SUITE = "cost"

COUNTED = 20_000
CALLGRIND_SECONDS = 20
PARSED = ("get", "gets", "set", "mg", "ms", "binary_get")


def expected():
    return harness.seconds_of(1 + len(PARSED), 0) + CALLGRIND_SECONDS


def counted(bench, program, functions, *args, out="/dev/null"):
    """Runs a program under callgrind; returns the instructions within these functions."""
    errors = bench.run(["valgrind", "--tool=callgrind",
                        *[f"--toggle-collect={f}*" for f in functions],
                        f"--callgrind-out-file={out}", program, *args], timeout=600, which="stderr")
    return int(re.search(r"Collected : (\d+)", errors)[1])


def per_request(bench, program, functions):
    """A run with requests less one without."""
    none, some = (counted(bench, program, functions, n) for n in (0, COUNTED))
    return (some - none) / COUNTED


def piece_of(path):
    """The piece of the project that a source file belongs to; all else is the C library's."""
    found = re.search(r"\bsrc/(\w+)/|\binclude/(\w+)/", path)
    piece = found and (found[1] or found[2])
    return {"ubase": "base", None: "libc"}.get(piece, piece)


def read_pieces(text):
    """Instructions by piece, from callgrind's file: each line counts for the file it is from."""
    names, pieces, piece = {}, collections.Counter(), "libc"
    called = False
    for line in text.splitlines():
        found = re.match(r"(fl|fi|fe)=\((\d+)\)(?: (.*))?", line)
        if found:
            if found[3]:
                names[found[2]] = piece_of(found[3])
            piece = names.get(found[2], "libc")
        elif line.startswith("calls="):
            called = True  # the next line is what the call has cost, which is counted there
        elif re.match(r"[-+*\d]", line):
            if not called:
                pieces[piece] += int(line.split()[1])
            called = False
        elif name := re.match(r"c(?:fi|fl)=\((\d+)\) (.*)", line):
            names[name[1]] = piece_of(name[2])
    return pieces


def pieces(bench, program, functions):
    """Instructions per request by piece; nothing without debugging information in the program."""
    found = []
    for count in (0, COUNTED):
        with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
            out = pathlib.Path(folder) / "callgrind"
            counted(bench, program, functions, count, out=out)
            found.append(read_pieces(out.read_text()))
    none, some = found
    if not set(some) - {"libc"}:
        raise harness.Skip("the build has no debugging information; `make clean` and again")
    return {name: (some[name] - none[name]) / COUNTED for name in some}


def ticks(bench):
    program = bench.build / "bench"
    cases = {"ticks_per_get": ([program / "get_path", "500000"], r"(\d+) ticks per GET")}
    for case in PARSED:
        cases[f"parse_ticks_{case}"] = ([program / "mcproto_cost", case, "500000"],
                                        r"([\d.]+) ticks per request")

    def measure(command, pattern):
        return {"ticks": float(re.search(pattern, bench.run(command))[1])}

    results = bench.rounds(SUITE, {name: (lambda c=c: measure(*c)) for name, c in cases.items()})
    for name, found in results.items():
        bench.rows.add(SUITE, name, [r["ticks"] for r in found], "ticks",
                       " ".join(str(word) for word in ["bench/" + cases[name][0][0].name,
                                                       *cases[name][0][1:]]))


def run(bench):
    ticks(bench)
    if not shutil.which("valgrind"):
        bench.rows.skip(SUITE, "instructions", "valgrind is not installed")
        return
    program = bench.build / "bench"
    server = per_request(bench, program / "get_path", ["net_stack_turn"])
    client = per_request(bench, program / "client_path", ["measured", "respond"])
    bench.rows.add(SUITE, "instructions_per_get", [server], "instructions", "bench/get_path 20000")
    bench.rows.add(SUITE, "ucload_instructions_per_get", [client], "instructions",
                   "bench/client_path 20000", {"ucached": server}, lower_is_better=True)
    try:
        for name, value in pieces(bench, program / "get_path", ["net_stack_turn"]).items():
            bench.rows.add(SUITE, f"instructions_in_{name}", [value], "instructions",
                           "bench/get_path 20000")
    except harness.Skip as why:
        bench.rows.skip(SUITE, "instructions by piece", why)
    for case in PARSED:
        count = counted(bench, program / "mcproto_cost", ["serve"], case, 1000)
        bench.rows.add(SUITE, f"parse_instructions_{case}", [count / 1000], "instructions",
                       f"bench/mcproto_cost {case} 1000")
