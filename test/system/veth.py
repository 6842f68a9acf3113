# SPDX-License-Identifier: BSD-3-Clause
"""A cable between two network namespaces: one for a server, one for its clients.

The clients' end has the name of the TAP device that ucached makes, so that what looks at frames
there need not care which of the two it is.
"""

import subprocess

import netspace

SERVER_DEVICE = "eth0"
CLIENT_DEVICE = "ucached0"


def ip(space, *words):
    """Runs `ip` inside; returns what it prints."""
    result = space.run(
        subprocess.run, ["ip", *words], check=True, timeout=60, capture_output=True, text=True
    )
    return result.stdout


def _set_ipv6(space, device, name, value):
    def write():
        with open(f"/proc/sys/net/ipv6/conf/{device}/{name}", "w", encoding="ascii") as file:
            file.write(value)

    space.run(write)


def quiet_ip6(space, device, addresses):
    """No IPv6 without an address of it, else an address that is good at once."""
    if not any(":" in address for address in addresses):
        _set_ipv6(space, device, "disable_ipv6", "1")
    else:
        _set_ipv6(space, device, "disable_ipv6", "0")
        _set_ipv6(space, device, "accept_dad", "0")
        _set_ipv6(space, device, "router_solicitations", "0")


def add_address(space, device, address):
    nodad = ["nodad"] if ":" in address else []
    ip(space, "addr", "replace", address, "dev", device, *nodad)


class Link:
    """The two namespaces, .server and .client, and the veth pair between them, which is up.

    Addresses are like "10.0.0.1/24", IPv4 or IPv6. queues: of each end.
    """

    def __init__(self, server_addresses, client_addresses, queues=1, mtu=1500):
        self.server = netspace.NetSpace()
        self.client = netspace.NetSpace()
        ends = [
            (self.server, SERVER_DEVICE, server_addresses),
            (self.client, CLIENT_DEVICE, client_addresses),
        ]
        count = ["numtxqueues", str(queues), "numrxqueues", str(queues)]
        ip(
            self.server,
            *("link", "add", SERVER_DEVICE, *count, "type", "veth"),
            *("peer", "name", CLIENT_DEVICE, *count, "netns", self.client.path),
        )
        for space, device, addresses in ends:
            ip(space, "link", "set", "lo", "up")
            quiet_ip6(space, device, addresses)
            for address in addresses:
                add_address(space, device, address)
            ip(space, "link", "set", device, "mtu", str(mtu), "up")

    def close(self):
        self.server.close()
        self.client.close()
