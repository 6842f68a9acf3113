# SPDX-License-Identifier: BSD-3-Clause
"""The man pages of the build: each option of --help is there, and they are well-formed."""

import pathlib
import re
import shutil
import subprocess

import pytest

PROGRAMS = ("ucached", "ucload", "ucping", "ucwarm", "kvbench")


@pytest.fixture
def build(ucached_path):
    return pathlib.Path(ucached_path).resolve().parents[2]


def shown(page):
    """A page as a reader sees it, on one line."""
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    done = subprocess.run(["mandoc", "-Tutf8", "-Owidth=500", page], check=True, text=True,
                          capture_output=True, timeout=60)  # fmt: skip
    return re.sub(".\b", "", done.stdout)


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_options_are_there(build, program):
    text = shown(build / "packaging" / f"{program}.1")
    binary = build / "apps" / program / program
    help_text = subprocess.run([binary, "--help"], check=True, text=True,
                               capture_output=True, timeout=60).stdout  # fmt: skip
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", help_text))
    assert len(options) > 10
    assert {option for option in options if option not in text} == set()


@pytest.mark.parametrize("page", [*(f"{name}.1" for name in PROGRAMS), "ucached-backends.7"])
def test_they_are_well_formed(build, page):
    path = build / "packaging" / page
    shown(path)
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", path], check=False, text=True,
                          capture_output=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_back_ends_have_their_headings(build):
    text = shown(build / "packaging" / "ucached-backends.7")
    for heading in ("KERNEL SOCKETS", "TAP", "AF_XDP", "DPDK"):
        assert re.search(rf"^{heading}", text, re.MULTILINE), heading
