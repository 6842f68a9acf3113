# SPDX-License-Identifier: BSD-3-Clause
"""-L: items in reserved huge pages, and the message where there are too few."""

import pathlib
import re

import hugepages
import pytest
from wire import MISS, STORED, hit, storage, wire_to

OK = b"OK\r\n"
VALUE = b"v" * 20000
ENOUGH = 32  # for -m 64


def fill(wire, first, count):
    for start in range(first, first + count, 50):
        wire.send(b"".join(storage(b"set", b"key%d" % n, VALUE) for n in range(start, start + 50)))
        wire.expect(STORED * 50)


def fetch(wire, number):
    wire.say(b"get key%d\r\n" % number, hit(b"key%d" % number, VALUE) + MISS)


def bytes_on_huge_pages(pid):
    """Memory of the process in reserved pages of 2 MiB."""
    found = 0
    smaps = pathlib.Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8")
    for part in smaps.split("VmFlags")[:-1]:
        if re.search(r"KernelPageSize: +2048 kB", part):
            found += int(re.search(r"Private_Hugetlb: +(\d+) kB", part)[1]) << 10
    return found


def say_of(log):
    lines = [line for line in log.splitlines() if "-L: " in line]
    assert len(lines) == 1, log
    return lines[0]


@pytest.fixture
def pages():
    with hugepages.set_aside(ENOUGH):
        yield


@pytest.mark.server_args("-L", "-m", "64", "-t", "2")
def test_items_in_reserved_pages(pages, server_sock):
    """They stay reserved when the limit falls; a higher limit uses other pages."""
    count = int(re.fullmatch(r"ucached: -L: items in (\d+) reserved huge pages of 2 MiB",
                             say_of(server_sock.log()))[1])
    assert 28 <= count <= ENOUGH
    assert bytes_on_huge_pages(server_sock.pid) == count * hugepages.MIB_EACH << 20
    with wire_to(server_sock) as wire:
        fill(wire, 0, 4000)
        assert int(wire.stats()["evictions"]) > 0
        fetch(wire, 3999)
        for limit in (16, 64, 128):
            wire.say(b"cache_memlimit %d\r\n" % limit, OK)
            fill(wire, 10000 * limit, 7000)
            fetch(wire, 10000 * limit + 6999)
        assert int(wire.stats()["curr_items"]) > 5000
        wire.say(b"cache_memlimit 16\r\n", OK)
        fill(wire, 5000000, 1000)
        fetch(wire, 5000999)
    assert bytes_on_huge_pages(server_sock.pid) == count * hugepages.MIB_EACH << 20


@pytest.mark.server_args("-L", "-m", "64")
def test_too_few_reserved_pages(huge_page_lock, server_sock):
    said = say_of(server_sock.log())
    if " items in " in said:
        pytest.skip("there are huge pages")
    figures = re.search(r"(\d+) huge pages of 2 MiB wanted, (\d+) free", said)
    wanted, free = map(int, figures.groups())
    assert free < wanted <= ENOUGH
    assert int(re.search(r"sysctl vm\.nr_hugepages=(\d+)$", said)[1]) >= wanted
    assert bytes_on_huge_pages(server_sock.pid) == 0
    with wire_to(server_sock) as wire:
        fill(wire, 0, 100)
        fetch(wire, 99)


@pytest.mark.server_args("-m", "64")
def test_no_message_without_the_option(pages, server_sock):
    assert "huge" not in server_sock.log()
    assert bytes_on_huge_pages(server_sock.pid) == 0
