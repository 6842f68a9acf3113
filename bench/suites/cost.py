# SPDX-License-Identifier: BSD-3-Clause
"""Cost of a request without a network: ticks and instructions."""

import collections
import functools
import pathlib
import re
import shutil
import tempfile

import callgrind
import harness

SUITE = "cost"

COUNTED = 20_000
CALLGRIND_SECONDS = 20
PARSED = ("get", "gets", "set", "mg", "ms", "binary_get")


# Under callgrind a server is fifty times slower, and so overloaded.
LINKS = ("vhost", "memif")
LINK_SECONDS = 12

# Called once for each input, and each is one request in this load.
ONCE_PER_REQUEST = "cache_session_prefetch_bucket"


def expected():
    return (harness.seconds_of(1 + len(PARSED), 0) + CALLGRIND_SECONDS +
            len(LINKS) * LINK_SECONDS)


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


@functools.cache
def piece_of(path):
    """
    The module of the project that a source file belongs to; "driver" for files of DPDK, libraries
    and headers, and "libc" for all other files.
    """
    found = re.search(r"\bsrc/(\w+)/|\binclude/(ucached|ubase|ustack|mcproto)/", path)
    piece = found and (found[1] or found[2])
    if piece is None:
        return "driver" if re.search(r"/dpdk/|/librte_", path) else "libc"
    return {"ubase": "base"}.get(piece, piece)


def read_pieces(text):
    """Instructions by piece, from callgrind's file: each line counts for the file it is from."""
    pieces = collections.Counter()
    for of_object, file, instructions in callgrind.self_costs(text):
        pieces[piece_of(file or of_object or "")] += instructions
    return pieces


def read_calls(text, function):
    """Number of calls, according to callgrind."""
    number = re.search(rf"^c?fn=\((\d+)\) {function}$", text, re.MULTILINE)
    if not number:
        return 0
    calls = re.findall(rf"^cfn=\({number[1]}\).*\ncalls=(\d+)", text, re.MULTILINE)
    return sum(map(int, calls))


def pieces(bench, program, functions):
    """Instructions per request by module; empty without debug information in the program."""
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


def over_link(bench, kind):
    """The same for ucached over a link with a DPDK driver, while it is never idle."""
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        out = pathlib.Path(folder) / "callgrind"
        server_end, client_end = bench.link(kind)
        # Valgrind does not support memfd files on huge pages.
        server_end = [word + " --no-huge -m 512" if word.startswith("--eal=") else word
                      for word in server_end]
        command = ["valgrind", "--tool=callgrind", "--toggle-collect=net_stack_turn*",
                   f"--callgrind-out-file={out}", bench.program("ucached"), "-m", "64",
                   *server_end]
        with bench.running(command, ("10.100.0.20", 11211), link=[*client_end, "--poll"]) as server:
            bench.load(server, seconds=2)
        text = out.read_text()
    requests = read_calls(text, ONCE_PER_REQUEST)
    if requests == 0:
        raise harness.Skip("the build has no names of functions; `make clean` and again")
    return {name: count / requests for name, count in read_pieces(text).items()}


def over_links(bench):
    for kind in LINKS:
        try:
            found = over_link(bench, kind)
        except harness.Skip as why:
            bench.rows.skip(SUITE, f"instructions over {kind}", why)
            continue
        command = f"a GET over {kind}, ucached under callgrind"
        bench.rows.add(SUITE, f"instructions_per_get_{kind}", [sum(found.values())],
                       "instructions", command)
        for name, value in found.items():
            bench.rows.add(SUITE, f"instructions_{kind}_in_{name}", [value], "instructions",
                           command)


def ticks(bench):
    program = bench.build / "bench"
    cases = {"ticks_per_get": ([program / "get_path", "500000"], r"(\d+) ticks per request")}
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
    over_links(bench)
    for case in PARSED:
        count = counted(bench, program / "mcproto_cost", ["serve"], case, 1000)
        bench.rows.add(SUITE, f"parse_instructions_{case}", [count / 1000], "instructions",
                       f"bench/mcproto_cost {case} 1000")
