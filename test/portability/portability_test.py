# SPDX-License-Identifier: BSD-3-Clause
"""The portability that the libraries promise, shown by compiling them.

base, ustack and mcproto are C89 and C++98, for 32 and 64 bits, hosted or without any header or
library of the system, one file at a time or amalgamated. A compiler or a target that this machine
lacks is skipped by name.
"""

import concurrent.futures
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LIBRARIES = ("ustack", "mcproto")
INCLUDE = ROOT / "include"
PUBLIC_HEADERS = sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*.h"))

# What even a freestanding environment has to provide, since compilers call it by themselves.
ALLOWED_UNDEFINED = {"memcpy", "memmove", "memset", "memcmp"}
# On a hosted system clang writes memcmp() == 0 as this; without one it does not.
HOSTED_UNDEFINED = ALLOWED_UNDEFINED | {"bcmp"}

STRICT = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-Wundef", "-Wcast-qual", "-Wpointer-arith"]
# Without these the compiler of some distributions refers to helpers of its own libraries.
PLAIN_OBJECTS = ["-O1", "-fno-pie", "-fno-stack-protector", "-fno-exceptions"]
NO_SYSTEM = ["-ffreestanding", "-nostdinc"]

COMPILERS = {"gcc": ("gcc",), "clang": ("clang",)}
DIALECTS = {
    "c89": ["-x", "c", "-std=c89", "-Wdeclaration-after-statement", "-Wc++-compat"],
    "c++98": ["-x", "c++", "-std=c++98"],
    "c11": ["-x", "c", "-std=c11"],
}
WIDTHS = {"64": ["-m64"], "32": ["-m32"]}


def run(command: list, cwd: Path) -> subprocess.CompletedProcess:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)


def check(command: list, cwd: Path) -> None:
    """Runs a command that must succeed without a word."""
    result = run(command, cwd)
    output = result.stdout + result.stderr
    if result.returncode != 0 or output.strip():
        pytest.fail(f"{' '.join(map(str, command))}\n{output}", pytrace=False)


@functools.cache
def why_unusable(compiler: str, flags: tuple[str, ...]) -> str | None:
    """Why this machine can't compile an empty file so, or None if it can."""
    command = [compiler, *flags, "-nostdinc", "-S", "-o", os.devnull, "-"]
    result = subprocess.run(command, input="int nothing;\n", capture_output=True, text=True)
    return None if result.returncode == 0 else result.stderr.strip().split("\n")[0]


def compiler_for(name: str, *flags: str) -> str:
    """The compiler's command; skips the test, with the reason, where there is none."""
    program = next(filter(shutil.which, COMPILERS[name]), None)
    if program is None:
        pytest.skip(f"{name} is not installed")
    reason = why_unusable(program, flags)
    if reason:
        pytest.skip(f"{program} {' '.join(flags)} does not work here: {reason}")
    return program


def library_sources() -> list[Path]:
    return [
        source
        for piece in ("base", *LIBRARIES)
        for source in sorted((ROOT / "src" / piece).rglob("*.c"))
    ]


def undefined_symbols(objects: list[Path]) -> set[str]:
    """What a set of objects needs and does not bring along."""
    defined, undefined = set(), set()
    listing = subprocess.run(
        ["nm", "--format=posix", *objects], capture_output=True, text=True, check=True
    ).stdout
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) >= 2:
            (undefined if fields[1] in "Uvw" else defined).add(fields[0])
    return undefined - defined


def compile_library(command: list, folder: Path) -> list[Path]:
    """Compiles every source of the libraries by itself; returns the objects."""
    jobs = [
        (source, folder / f"{source.parent.name}_{source.stem}.o") for source in library_sources()
    ]
    include = ["-I", INCLUDE, "-I", ROOT / "src"]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in [
            pool.submit(check, [*command, *include, "-c", source, "-o", target], ROOT)
            for source, target in jobs
        ]:
            done.result()
    return [target for _, target in jobs]


@pytest.mark.parametrize(
    "dialect, width, system",
    [
        ("c89", "64", "hosted"),
        ("c89", "64", "freestanding"),
        ("c89", "32", "hosted"),
        ("c++98", "64", "hosted"),
        ("c++98", "32", "hosted"),
    ],
)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_sources_compile_and_need_no_library(compiler, dialect, width, system, tmp_path):
    flags = [*DIALECTS[dialect], *WIDTHS[width]]
    command = [compiler_for(compiler, *flags), *flags, *STRICT, *PLAIN_OBJECTS]
    if system == "freestanding":
        command += NO_SYSTEM
    objects = compile_library(command, tmp_path)
    allowed = ALLOWED_UNDEFINED if system == "freestanding" else HOSTED_UNDEFINED
    assert undefined_symbols(objects) - allowed == set()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("header", PUBLIC_HEADERS)
def test_public_header_compiles_alone(compiler, dialect, header, tmp_path):
    flags = DIALECTS[dialect]
    program = compiler_for(compiler, *flags)
    user = tmp_path / "user.c"
    user.write_text(f'#include "{header}"\n#include "{header}"\n')
    command = [program, *flags, *STRICT, *NO_SYSTEM, "-fsyntax-only", "-I", INCLUDE, user]
    check(command, tmp_path)


@pytest.mark.parametrize("dialect", ["c89", "c++98"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_private_headers_compile_alone(compiler, dialect, tmp_path):
    flags = DIALECTS[dialect]
    command = [compiler_for(compiler, *flags), *flags, *STRICT, *NO_SYSTEM, "-fsyntax-only"]
    command += ["-I", INCLUDE, "-I", ROOT / "src"]
    users = []
    for piece in ("base", *LIBRARIES):
        for header in sorted((ROOT / "src" / piece).rglob("*.h")):
            users.append(tmp_path / f"{piece}_{header.stem}.c")
            users[-1].write_text(f'#include "{header.relative_to(ROOT / "src")}"\n' * 2)
    check([*command, *users], tmp_path)


@pytest.fixture(scope="module")
def amalgamated(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("amalgamated")
    for library in LIBRARIES:
        check([sys.executable, ROOT / "tools" / "amalgamate.py", library, folder], ROOT)
    return folder


@pytest.mark.parametrize("library", LIBRARIES)
def test_amalgamated_library_compiles_plainly(amalgamated, library, tmp_path):
    target = tmp_path / "library.o"
    check(["cc", "-c", f"{library}.c", "-o", target], amalgamated)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dialect", ["c89", "c++98"])
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_amalgamated_library_is_portable(amalgamated, library, compiler, dialect, width, tmp_path):
    flags = [*DIALECTS[dialect], *WIDTHS[width]]
    target = tmp_path / "library.o"
    command = [compiler_for(compiler, *flags), *flags, *STRICT, *PLAIN_OBJECTS, *NO_SYSTEM]
    # clang warns of unused inline functions once they don't come from a header
    check([*command, "-Wno-unused-function", "-c", f"{library}.c", "-o", target], amalgamated)
    assert undefined_symbols([target]) - ALLOWED_UNDEFINED == set()


@pytest.mark.parametrize("dialect", ["c89", "c++98"])
def test_both_amalgamated_libraries_fit_into_one_program(amalgamated, dialect, tmp_path):
    flags = DIALECTS[dialect]
    compiler = compiler_for("gcc", *flags)
    program = tmp_path / "both"
    sources = [amalgamated / f"{library}.c" for library in LIBRARIES]
    sources.append(ROOT / "test" / "portability" / "both.c")
    check([compiler, *flags, *STRICT, "-I", amalgamated, *sources, "-o", program], tmp_path)
    check([program], tmp_path)


def test_the_symbol_check_can_fail(tmp_path):
    """A planted call of the C library is seen."""
    declaration = "void *malloc(unsigned long);\n"
    (tmp_path / "bad.c").write_text(declaration + "void *f(void) { return malloc(1); }\n")
    check(["cc", "-c", "bad.c"], tmp_path)
    assert undefined_symbols([tmp_path / "bad.o"]) == {"malloc"}
