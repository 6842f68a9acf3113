# SPDX-License-Identifier: BSD-3-Clause
"""The portable libraries on machines of another byte order and word size, by Debian's qemu-user.

s390x is big-endian with 64 bits, powerpc big-endian with 32; i386 (little-endian, 32 bits) runs as
it is. On each: the unit tests of base, ustack and mcproto, all packet scripts, and simulator seeds.
Those must go as on this machine where pointers are as wide: the same number of frames and the same
times. (Numbers that are hashes of addresses depend on the byte order, and how much fits into a
block on the width of pointers.) A target whose compiler or emulator is missing is skipped by name.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SEEDS = range(1, 13)
LONG = bool(os.environ.get("UCACHED_LONG"))

# Minutes on an emulator: only with UCACHED_LONG.
SLOW = {"exhaustive_test"}

# name -> (compiler, emulator)
TARGETS = {
    "s390x": (["s390x-linux-gnu-gcc", "-static", "-O1"], ["qemu-s390x"]),
    "powerpc": (["powerpc-linux-gnu-gcc", "-static", "-O1"], ["qemu-ppc"]),
    "i386": (["gcc", "-m32", "-O1", "-idirafter", "/usr/include/x86_64-linux-gnu"], []),
}
NARROW = {"powerpc", "i386"}
OPTIONS = ["-std=gnu11", "-Wall", "-Werror"]
FOLDERS = ("include", "src", "test/foreign/include", "test/unit/mcproto",
           "test/unit/ustack")
INCLUDE = [word for folder in FOLDERS for word in ("-I", ROOT / folder)]


def run(command, **options):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=600, **options
    )
    assert done.returncode == 0, f"{command[:4]}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def sources(*patterns):
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def in_parallel(function, items):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))


class Target:
    """A compiler, an emulator, and the library built for it."""

    def __init__(self, name, compiler, emulator, folder):
        self.emulator, self.folder = emulator, folder
        self.wide = name not in NARROW
        self.command = [*compiler, *OPTIONS, *INCLUDE]
        self.libraries = in_parallel(
            self.compile, sources("src/base/*.c", "src/ustack/**/*.c", "src/mcproto/*.c")
        )

    def compile(self, source):
        target = self.folder / (str(source.relative_to(ROOT)).replace("/", "_") + ".o")
        run([*self.command, "-c", source, "-o", target])
        return target

    def program(self, name, files):
        objects = in_parallel(self.compile, files)
        path = self.folder / name
        run([*self.command, *objects, *self.libraries, "-lm", "-o", path])
        return [*self.emulator, path]


def why_not(compiler, emulator):
    for program in (compiler[0], *emulator):
        if not shutil.which(program):
            return f"{program} is not installed"
    done = subprocess.run(
        [*compiler, "-x", "c", "-o", os.devnull, "-"],
        input="#include <stdio.h>\nint main(void) { return 0; }\n",
        capture_output=True,
        text=True,
    )
    return None if done.returncode == 0 else f"{compiler} links nothing here"


@pytest.fixture(scope="module", params=TARGETS)
def foreign(request, tmp_path_factory):
    compiler, emulator = TARGETS[request.param]
    if reason := why_not(compiler, emulator):
        pytest.skip(f"{request.param}: {reason}")
    return Target(request.param, compiler, emulator, tmp_path_factory.mktemp(request.param))


def unit_tests(piece):
    return sources(f"test/unit/{piece}/**/*_test.c")


def helpers(folder):
    return [
        path
        for path in sources(f"{folder}/*.c")
        if not path.stem.endswith("_test") and not path.stem.startswith("run")
    ]


@pytest.mark.parametrize("piece", ["base", "ustack", "mcproto"])
def test_unit(foreign, piece):
    guard = ROOT / "test/unit/mcproto/guard.c"
    rig = in_parallel(foreign.compile, {guard, *helpers(f"test/unit/{piece}")})
    tests = [path for path in unit_tests(piece) if LONG or path.stem not in SLOW]
    assert len(tests) > 5

    def one(source):
        path = foreign.folder / source.stem
        found = [foreign.compile(source), *rig, *foreign.libraries]
        run([*foreign.command, "-I", source.parent, *found, "-lm", "-o", path])
        assert "passed" in run([*foreign.emulator, path])

    in_parallel(one, tests)


def test_golden_files(foreign):
    """The protocol's requests and what they come to are the same everywhere."""
    files = [*sources("test/golden/*.c"), ROOT / "test/unit/mcproto/show.c"]
    dialogues = sources("test/golden/*.txt")
    assert len(dialogues) > 5
    run([*foreign.program("golden_test", files), *dialogues])


def test_packet_scripts(foreign):
    program = foreign.program("pkt_run", sources("test/packet/run*.c") + helpers("test/packet"))
    scripts = sources("test/packet/*.pkt")
    assert len(scripts) > 150
    in_parallel(lambda script: run([*program, script]), scripts)


def traces(program):
    return run([*program, "--seeds", f"{SEEDS[0]}..{SEEDS[-1]}", "--hashes"])


def build_sim(target):
    parts = sources("test/sim/*.c", "test/packet/frame.c")
    programs = [part for part in parts if part.stem.endswith("_test") and part.stem != "sim_test"]
    return target.program("sim_test", [part for part in parts if part not in programs])


@pytest.fixture(scope="module")
def expected_traces(tmp_path_factory):
    """Of this machine, by its gcc with -O1."""
    found = traces(build_sim(Target("gcc", ["gcc", "-O1"], [], tmp_path_factory.mktemp("native"))))
    assert len(found.splitlines()) == len(SEEDS) + 1
    return found


def without_hashes(lines):
    return re.sub(r", trace [0-9a-f]+", "", lines).rstrip()


def test_simulator_goes_the_same_way(foreign, expected_traces):
    got = without_hashes(traces(build_sim(foreign)))
    assert got.endswith("all well")
    if foreign.wide:
        assert got == without_hashes(expected_traces)
