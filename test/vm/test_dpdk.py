# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's poll-mode drivers of PCI NICs behind vfio and an IOMMU."""

import signal

import nics
import pytest
from wire import settles
from workload import check_sleeps, check_values


def note_idle(note, server, threads, idle):
    check_values(server)
    check_sleeps(server)
    note(f"-t {threads} --idle={idle}", "yes")


def test_interrupts(nic, note):
    server = nic.start("-t2", "--idle=interrupt")
    note_idle(note, server, 2, "interrupt")
    came = int(server.stats("nic")["dpdk_interrupts"])
    note("interrupts", "yes" if came else "none come: naps")
    note("left out", " ".join(nics.LEFT_OUT.get(nic.model, ["nothing"])))


def test_started_with_link_down_without_offloads(nic, note):
    nic.bind("vfio-pci")
    nic.set_link(False)

    def raise_link():
        if "listening on" not in nic.guest.sh("cat /run/program.log")[1]:
            raise OSError("the server does not listen yet")
        nic.set_link(True)

    without = "--without=csum,tso,sg,rss"
    try:
        server = nic.start("-t2", without, prepare=raise_link)
    finally:
        nic.set_link(True)
    note("started with link down", "yes")
    check_values(server)
    assert int(server.stats("nic")["dpdk_tx_offloads"]) == 0
    note(without, "yes")


def test_killed_and_started_again(nic, note):
    server = nic.start("-t1", "--idle=poll")
    note_idle(note, server, 1, "poll")
    server.signal(signal.SIGKILL)
    server.wait()
    note("started after kill -9", "yes")
    check_values(nic.start("--without=tso"))
    note("--without=tso", "yes")


@pytest.mark.models("igb")
def test_more_queues_than_interrupt_vectors(nic, note):
    """DPDK then sets up no interrupt and does not say so; frames end sleeps nevertheless."""
    server = nic.start("-t10", "--idle=interrupt")
    check_values(server)
    check_sleeps(server)
    assert int(server.stats("nic")["dpdk_interrupts"]) == 0
    note("-t 10: fewer vectors than queues", "yes")


def check_ip6(server):
    """Neighbour solicitations, which are multicast, arrive."""
    server.address = (nics.ADDRESS6, nics.PORT)
    check_values(server, [1, 2900, 100000])


def check_link_goes_down(nic, server):
    """A connection survives it."""
    with server.connect() as connection:
        assert connection.ask(b"get a\r\n") == b"END\r\n"
        nic.set_link(False)
        connection.send(b"get b\r\n")
        assert connection.silent()
        nic.set_link(True)
        assert connection.line() == b"END\r\n"


def check_taken_away(nic, server):
    """The server closes a device that the kernel wants back, and ends with a message."""
    nic.guest.qmp("device_del", id="nic")
    assert server.wait() > 0
    assert "No such device" in server.log(), server.log()

    def is_gone():
        left = nic.guest.qmp("qom-list", path="/machine/peripheral")
        return "nic" not in [device["name"] for device in left]

    assert settles(is_gone, 20)


def test_from_values_to_its_end(nic, note):  # the last one: the device does not come back
    server = nic.start("-t2", "--idle=adaptive")
    note_idle(note, server, 2, "adaptive")
    by_rss = int(server.stats("nic")["rss_verified"])
    note("flows to two threads", "by RSS" if by_rss else "forwarded")
    check_ip6(server)
    note("IPv6", "yes")
    check_link_goes_down(nic, server)
    note("link down and up", "yes")
    check_taken_away(nic, server)
    note("taken away", "ends")
