# SPDX-License-Identifier: BSD-3-Clause
"""Builds the example programs as a user of libustack would, and runs what runs anywhere."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.c"))
LINES_MAX = 120  # with the licence and the comments


def run(*command, **options):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=60, **options
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def says_its_line(program, **options):
    assert run(program, **options) == "A sans-I/O TCP/IP stack\n"


def test_each_is_short():
    assert len(EXAMPLES) >= 2
    for path in EXAMPLES:
        assert len(path.read_text().splitlines()) < LINES_MAX, path.name


@pytest.mark.parametrize("source", EXAMPLES, ids=lambda path: path.stem)
def test_built_with_pkg_config(source, tmp_path):
    """Installed into an empty folder, found there by pkg-config alone."""
    if not shutil.which("pkg-config"):
        pytest.skip("pkg-config is not installed")
    build = os.environ.get("BUILD", ROOT / "build" / "check")
    run("meson", "install", "-C", build, "--no-rebuild", env={**os.environ, "DESTDIR": tmp_path})
    (found,) = tmp_path.rglob("ustack.pc")
    env = {
        **os.environ,
        "PKG_CONFIG_LIBDIR": str(found.parent),
        "PKG_CONFIG_SYSROOT_DIR": str(tmp_path),
    }
    flags = run("pkg-config", "--cflags", "--libs", "ustack", env=env).split()
    program = tmp_path / source.stem
    run("cc", "-Wall", "-Wextra", "-Werror", "-o", program, source, *flags)
    linked = run("ldd", program, env={**env, "LD_LIBRARY_PATH": str(found.parent.parent)})
    assert "libustack.so.0 => /" in linked
    if source.stem == "echo_loop":
        says_its_line(program, env={**env, "LD_LIBRARY_PATH": str(found.parent.parent)})
    static = [str(found.parent.parent / "libustack.a") if flag == "-lustack" else flag
              for flag in flags]  # fmt: skip
    run("cc", "-Wall", "-Wextra", "-Werror", "-o", program, source, *static)
    if source.stem == "echo_loop":
        says_its_line(program)


@pytest.mark.parametrize("source", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("options", [["-O2"], ["-O0", "-fsanitize=undefined"]], ids=" ".join)
def test_built_from_one_file(source, options, tmp_path):
    """With the two files that tools/amalgamate.py makes, and nothing else of this project."""
    folder = tmp_path / "ustack"
    folder.mkdir()
    run("python3", ROOT / "tools" / "amalgamate.py", "ustack", folder)
    program = tmp_path / source.stem
    run("cc", *options, "-I", tmp_path, "-o", program, source, folder / "ustack.c")
    if source.stem == "echo_loop":
        says_its_line(program)
