# SPDX-License-Identifier: BSD-3-Clause
"""Huge pages that are reserved for a test."""

import contextlib
import fcntl
import pathlib
import signal
import time

import pytest

PAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")
MIB_EACH = 2
LOCK = pathlib.Path("/tmp/ucached-test-hugepages.lock")
RESERVE_S = 60

_own: list[bool] = []  # one element while this process is exclusive()


def number(name):
    """A number of /proc/meminfo, as "HugePages_Free"; 0 if the kernel doesn't know it."""
    for line in pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0


def available():
    """How many are free and not promised to a mapping."""
    return number("HugePages_Free") - number("HugePages_Rsvd")


@contextlib.contextmanager
def _lock(how):
    """The time that a test waits for the lock does not count towards its limit."""
    with open(LOCK, "w", encoding="ascii") as lock:
        left_s = signal.alarm(0)
        fcntl.flock(lock, how)
        signal.alarm(left_s)
        yield


@contextlib.contextmanager
def exclusive():
    """One test at a time, of all test runs on this machine, counts or reserves huge pages."""
    with _lock(fcntl.LOCK_EX):
        _own.append(True)
        try:
            yield
        finally:
            _own.pop()


@contextlib.contextmanager
def unreserved():
    """No other test has huge pages: a program of DPDK that starts meanwhile would take them.

    Nothing in a test that is exclusive().
    """
    with contextlib.nullcontext() if _own else _lock(fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def set_aside(count):
    """Reserves this many more, and restores the number afterwards. Skips if that is impossible."""
    with exclusive():
        yield from _set_aside(count)


def _set_aside(count):
    try:
        before = int(PAGES.read_text(encoding="ascii"))
        PAGES.write_text(str(before + count), encoding="ascii")
    except OSError as error:
        pytest.skip(f"no huge pages can be reserved: {error}")
    try:
        if number("Hugepagesize") != MIB_EACH << 10:
            pytest.skip("the huge pages of this machine have another size")
        end = time.monotonic() + RESERVE_S
        while available() < count:  # other programs use the memory now, or a part of each page
            if time.monotonic() > end:
                pytest.skip("the machine has no memory for huge pages")
            time.sleep(0.5)
            PAGES.write_text(str(before + count), encoding="ascii")
        yield
    finally:
        PAGES.write_text(str(before), encoding="ascii")
