# SPDX-License-Identifier: BSD-3-Clause
"""Huge pages that are set aside for a test."""

import contextlib
import pathlib

import pytest

PAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")
MIB_EACH = 2


def number(name):
    """A number of /proc/meminfo, as "HugePages_Free"; 0 if the kernel doesn't know it."""
    for line in pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0


def nobody_has():
    """How many are free, and not promised to anybody."""
    return number("HugePages_Free") - number("HugePages_Rsvd")


@contextlib.contextmanager
def set_aside(count):
    """So many more for the time being, as many as before afterwards. Skips where it can't be."""
    try:
        before = int(PAGES.read_text(encoding="ascii"))
        PAGES.write_text(str(before + count), encoding="ascii")
    except OSError as error:
        pytest.skip(f"no huge pages can be reserved: {error}")
    try:
        if number("Hugepagesize") != MIB_EACH << 10:
            pytest.skip("the huge pages of this machine have another size")
        if nobody_has() < count:
            pytest.skip("the machine has no memory for huge pages")
        yield
    finally:
        PAGES.write_text(str(before), encoding="ascii")
