# SPDX-License-Identifier: BSD-3-Clause
"""AF_XDP over the kernel's drivers of NICs: port 11211 is ours, everything else the kernel's."""

import nics
import pytest
from guest import GuestProcess
from workload import check_sleeps, check_values

CONNECTIONS = 24  # enough for each of four receive queues to get some
ECHO_PORT = 22
ECHO = f"""python3 -c '
import socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("", {ECHO_PORT}), Echo).serve_forever()'"""


@pytest.fixture
def echo(nic):
    """A service of the kernel's TCP in the guest, in place of ssh."""
    process = GuestProcess(nic.guest, ECHO, "/run/echo.log")
    yield
    process.kill()


def check_all_queues(nic, server):
    """Whatever receive queue a connection comes to, it is served, ours as well as the kernel's."""
    for _ in range(CONNECTIONS):
        with server.connect() as connection:
            assert connection.ask(b"version\r\n").startswith(b"VERSION ")
        with nic.dial(ECHO_PORT) as connection:
            assert connection.ask(b"hello\r\n") == b"hello\r\n"


def test_beside_the_kernel(nic, note, echo):
    modes = []
    numbers = sorted({1, nic.up()})
    for queues in numbers:
        nic.set_queues(queues)
        server = nic.start_xdp(f"-t{min(queues, 2)}", "--idle=interrupt")
        check_all_queues(nic, server)
        check_values(server)
        check_sleeps(server)
        modes.append("native" if server.stats("nic")["xdp_native"] != "0" else "generic")
        nic.stop_servers()
    assert len(set(modes)) == 1
    queues = " and ".join(map(str, numbers))
    note(f"AF_XDP beside port {ECHO_PORT}", f"{modes[0]}, queues: {queues}")


@pytest.mark.models("virtio-net")
def test_dpdk_names_the_kernels_driver(nic):
    """The message about a device that DPDK cannot use says what to do."""
    nic.bind("kernel")
    status, output = nic.guest.sh(" ".join(nic.command()))
    assert status != 0
    assert f"dpdk-devbind.py -b vfio-pci {nics.PCI}" in output, output
    assert f"driver {nics.MODELS[nic.model][1]}" in output
