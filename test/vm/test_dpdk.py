# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's poll-mode drivers of PCI NICs behind vfio and an IOMMU."""

import signal

import nics
import pytest
from wire import settles
from workload import check_sleeps, check_values


@pytest.mark.parametrize("threads, idle", [(1, "poll"), (2, "adaptive"), (2, "interrupt")])
def test_values(nic, note, threads, idle):
    server = nic.start(f"-t{threads}", f"--idle={idle}")
    check_values(server)
    check_sleeps(server)
    stats = server.stats("nic")
    note(f"-t {threads} --idle={idle}", "yes")
    if threads == 2:
        note("flows to two threads", "by RSS" if int(stats["rss_verified"]) else "forwarded")
    if idle == "interrupt":
        note("interrupts", "yes" if int(stats["dpdk_interrupts"]) else "none come: naps")
    note("left out", " ".join(nics.LEFT_OUT.get(nic.model, ["nothing"])))


def test_ip6_and_a_link_that_goes_down(nic, note):
    """Neighbour solicitations, which are multicast, arrive; a connection survives a down link."""
    server = nic.start("-t2")
    server.address = (nics.ADDRESS6, nics.PORT)
    check_values(server, [1, 2900, 100000])
    note("IPv6", "yes")
    with server.connect() as connection:
        assert connection.ask(b"get a\r\n") == b"END\r\n"
        nic.set_link(False)
        connection.send(b"get b\r\n")
        assert connection.silent()
        nic.set_link(True)
        assert connection.line() == b"END\r\n"
    note("link down and up", "yes")


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
    server = nic.start()
    check_values(server, [1, 100000])
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


def test_taken_away(nic, note):  # the last one: the device does not come back
    """The server closes a device that the kernel wants back, and ends with a message."""
    server = nic.start("-t2")
    check_values(server, [1, 100000])
    nic.guest.qmp("device_del", id="nic")
    assert server.wait() > 0
    assert "No such device" in server.log(), server.log()

    def is_gone():
        left = nic.guest.qmp("qom-list", path="/machine/peripheral")
        return "nic" not in [device["name"] for device in left]

    assert settles(is_gone, 20)
    note("taken away", "ends")
