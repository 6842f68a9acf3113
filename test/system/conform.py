# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the conformance tests: both targets, and the tests that the kernel fails.

    from conform import lan, peer, target  # noqa: F401

Each test of `lan` or `peer` runs twice: against ucached's own stack, and against the kernel with
the same server on its sockets. The second run tests the test. KERNEL_DIFFERS lists the tests that
the kernel fails, with the reason; these must fail against it, so that the list stays true.
"""

import netspace
import pytest
import rawpeer
import server as servers

# Arguments for the own stack; KernelLink sets up the kernel likewise.
ADDRESSES = (f"--ip={rawpeer.TARGET4}/24", f"--ip={rawpeer.TARGET6}/64")

# Test -> reason for which the kernel fails it, although the expectation is right.
KERNEL_DIFFERS = {
    "test_urgent_data_stays_in_line": "without SO_OOBINLINE it takes the urgent byte out",
}


def start_target(kind, path, log_path, args=()):
    """A server and the link to it: kind is "ucached" or "kernel"."""
    if kind == "ucached":
        server = servers.start_tap(path, log_path, [*ADDRESSES, *args])
        return server, rawpeer.UcachedLink(server)
    space = netspace.NetSpace()
    link = rawpeer.KernelLink(space)
    command = [path, "--io=sock", "-p", str(rawpeer.PORT), *args]
    address = (rawpeer.TARGET4, rawpeer.PORT)
    return servers.Server("sock", command, address, space, log_path), link


@pytest.fixture(scope="module", params=["ucached", "kernel"])
def target(request, tmp_path_factory, ucached_path, tap_obstacle):
    """The server under test, with .lan: the simulated hosts on its link."""
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    args = getattr(request.module, "SERVER_ARGS", ())
    log_path = tmp_path_factory.mktemp("conform") / f"{request.param}.log"
    server, link = start_target(request.param, ucached_path, log_path, args)
    server.lan = rawpeer.Lan(link)
    yield server
    link.close()
    server.stop()


@pytest.fixture
def lan(request, target):
    """The simulated hosts on the target's link; it must still serve after the test."""
    name = request.node.originalname
    if target.kind == "sock" and name in KERNEL_DIFFERS:
        request.applymarker(pytest.mark.xfail(reason=KERNEL_DIFFERS[name], strict=True))
    target.lan.tcp.clear()
    target.lan.other.clear()
    yield target.lan
    target.lan.serves()


@pytest.fixture
def peer(lan):
    """An open connection without options but the MSS."""
    connection = lan.peer()
    connection.open()
    yield connection
    connection.reset()
