# SPDX-License-Identifier: BSD-3-Clause
"""A plugin of pytest with which the system tests of the own stack run on a NIC of a guest.

    PYTHONPATH=test/vm UCACHED_STACK=guest UCACHED_NIC=igb pytest -p guest_stack test/system/...

All servers run one after the other in one guest, on its NIC by DPDK; test programs and their frames
are in the namespace of the TAP device at the other end.
"""

import contextlib
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "test/system"), str(ROOT / "tools")]

import netspace  # noqa: E402
import nics  # noqa: E402
import pytest  # noqa: E402
import report as vm_report  # noqa: E402
import server as servers  # noqa: E402
import veth  # noqa: E402
from guest import Guest  # noqa: E402

MODEL = os.environ["UCACHED_NIC"]

# What a NIC makes impossible: test, its first parameters, the reason.
IMPOSSIBLE = [("test_packet_that_is_cut_off", "[ucached-39]", "the NIC pads a short frame")]

_resources = contextlib.ExitStack()
_guest = []


def the_guest():
    """The one guest and the namespace of its network."""
    if not _guest:
        space = _resources.enter_context(contextlib.closing(netspace.NetSpace()))
        folder = _resources.enter_context(tempfile.TemporaryDirectory())
        nics.make_tap(space, False, nics.queues_of(MODEL))
        guest = Guest(folder, nics.devices(MODEL, False), space)
        _resources.callback(guest.stop)
        _guest.extend((guest, space))
    return _guest


def start_in_guest(binary, log_path, args):
    guest, space = the_guest()
    rest, host = servers._with_addresses(args)
    veth.ip(space, "addr", "flush", "dev", nics.TAP)
    veth.ip(space, "neigh", "flush", "dev", nics.TAP)
    veth.quiet_ip6(space, nics.TAP, host)
    for address in host:
        veth.add_address(space, nics.TAP, address)
    nic = nics.Nic(guest, MODEL, space, binary, log_path.parent)
    nic.prepare_dpdk()
    return nic.run([binary, "--io=dpdk", f"--dev={nics.PCI}", *rest])


servers.STACKS["guest"] = start_in_guest


def pytest_collection_modifyitems(items):
    for item in items:
        for name, parameters, reason in IMPOSSIBLE:
            if item.name == name + parameters:
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter):
    kinds = ("passed", "failed", "skipped")
    count = {kind: len(terminalreporter.getreports(kind)) for kind in kinds}
    text = f"{count['passed']} passed"
    text += "".join(f", {count[kind]} {kind}" for kind in kinds[1:] if count[kind])
    vm_report.Report().note(MODEL, "conformance", text)


def pytest_unconfigure():
    _resources.close()
