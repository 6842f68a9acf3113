# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's TCP as the peer beyond a router: client -- veth -- router -- TAP -- own stack.

Packets to other networks go to the MAC address of the gateway.
"""

import contextlib
import random
import socket
import subprocess

import netspace
import pytest
from server import TAP_ADDRESS, TAP_PORT
from wire import MISS, STORED, Wire, hit, storage

BAD = "--fault=loss=2%,reorder=5%,dup=2%,seed=3"
ROUTES = {
    socket.AF_INET: (TAP_ADDRESS, "10.200.0.1/24", "10.200.0.2/24", "ipv4/ip_forward"),
    socket.AF_INET6: (
        "fd00:100::20",
        "fd00:200::1/64",
        "fd00:200::2/64",
        "ipv6/conf/all/forwarding",
    ),
}
ADDRESSES = (
    f"--ip={TAP_ADDRESS}/24",
    "--ip=fd00:100::20/64",
    "--host-ip=10.100.0.10/24",
    "--host-ip=fd00:100::10/64",
    "--gw=10.100.0.10",
    "--gw=fd00:100::10",
)


def ip(space, *words):
    space.run(subprocess.run, ["ip", *words], check=True, timeout=60)


def forward(path):
    with open(f"/proc/sys/net/{path}", "w", encoding="ascii") as switch:
        switch.write("1")


@contextlib.contextmanager
def client_beyond(router):
    """A namespace that reaches the router's networks by a veth pair only."""
    client = netspace.NetSpace()
    held = client.popen(["sleep", "60"])  # a process, so that the interface can be moved to it
    try:
        ip(router, "link", "add", "veth0", "type", "veth", "peer", "name", "veth1")
        ip(router, "link", "set", "veth1", "netns", str(held.pid))
        ip(router, "link", "set", "veth0", "up")
        ip(client, "link", "set", "veth1", "up")
        for family, (_, near, far, switch) in ROUTES.items():
            flags = ["nodad"] if family == socket.AF_INET6 else []
            version = "-6" if flags else "-4"
            ip(router, "addr", "add", near, "dev", "veth0", *flags)
            ip(client, "addr", "add", far, "dev", "veth1", *flags)
            ip(client, version, "route", "add", "default", "via", near.partition("/")[0])
            router.run(forward, switch)
        yield client
    finally:
        held.kill()
        held.wait()
        client.close()


@pytest.mark.parametrize("family", ROUTES, ids=["ipv4", "ipv6"])
@pytest.mark.server_args(*ADDRESSES, BAD)
def test_client_beyond_a_router(server_tap, family):
    value = random.Random(9).randbytes(1_000_000)
    with client_beyond(server_tap.space) as client:
        for number in range(3):
            address = (ROUTES[family][0], TAP_PORT)
            with Wire(client.run(socket.create_connection, address, 30)) as wire:
                key = b"k%d" % number
                wire.send(storage(b"set", key, value) + b"get " + key + b"\r\n")
                wire.expect(STORED + hit(key, value) + MISS)
