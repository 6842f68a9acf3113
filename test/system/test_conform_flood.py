# SPDX-License-Identifier: BSD-3-Clause
"""Floods from unreachable and forged addresses against ucached with its default options: open
connections stay open, and complete handshakes open new ones.

The sources of a flood have addresses on the link for which ARP requests and neighbour solicitations
get no reply. The tests assert replies and counters, not times.
"""

import collections
import ipaddress
import random
import socket
import struct
import time

import pytest
import rawnet
import rawpeer
import server as servers
from rawnet import IP_TCP
from wire import MISS

# A /16, so that there are more addresses on the link than any table has entries.
HOST = {4: "10.100.0.10", 6: "fd00:100::10"}
TARGET = {4: rawpeer.TARGET4, 6: rawpeer.TARGET6}
OPTIONS = (
    f"--ip={TARGET[4]}/16",
    f"--ip={TARGET[6]}/64",
    f"--host-ip={HOST[4]}/16",
    f"--host-ip={HOST[6]}/64",
)
REQUEST = b"get none\r\n"


class Flood:
    """A running server, clients of the kernel on its link, and forged SYNs."""

    def __init__(self, server, version):
        self.server, self.version = server, version
        self.link = rawpeer.UcachedLink(server)
        self.lan = rawpeer.Lan(self.link)
        self.rng = random.Random(version)
        self._number = 0

    def source(self):
        """One more unreachable address on the link."""
        self._number += 1
        base = "10.100.128.0" if self.version == 4 else "fd00:100::dead:0"
        return str(ipaddress.ip_address(base) + self._number)

    def syn(self, src, sport):
        target = TARGET[self.version]
        opts = rawnet.options(mss=1460, scale=7, sack_ok=True, ts=(1, 0))
        seq = self.rng.getrandbits(32)
        segment = rawnet.tcp(src, target, sport, rawpeer.PORT, seq, 0, rawnet.SYN, opts=opts)
        kind = rawnet.ETH_IP4 if self.version == 4 else rawnet.ETH_IP6
        packet = rawnet.ip(src, target, IP_TCP, segment)
        self.link.send(rawnet.ethernet(self.lan.target_mac(), "02:00:5e:00:00:01", kind, packet))

    def drain(self):
        """Takes what the server has sent, so that the packet socket does not fill up. Returns the
        addresses that it has asked for."""
        asked = set()
        while (frame := self.link.recv(0)) is not None:
            kind = struct.unpack("!H", frame[12:14])[0]
            if kind == rawnet.ETH_ARP and frame[20:22] == b"\0\1":
                asked.add(socket.inet_ntop(socket.AF_INET, frame[38:42]))
            elif kind == rawnet.ETH_IP6 and frame[20] == rawnet.IP_ICMP6 and frame[54] == 135:
                asked.add(socket.inet_ntop(socket.AF_INET6, frame[62:78]))
        return asked

    def connect(self):
        family = socket.AF_INET if self.version == 4 else socket.AF_INET6
        client = self.server.space.run(socket.socket, family, socket.SOCK_STREAM)
        client.settimeout(60)
        client.connect((TARGET[self.version], rawpeer.PORT))
        return client

    def counters(self):
        with self.server.connect() as wire:
            reply = wire.ask(b"stats ustack\r\n", b"END\r\n").decode()
        rows = (line.split() for line in reply.splitlines()[:-1])
        return collections.Counter({name: int(value) for _, name, value in rows if value.isdigit()})


def ask(client):
    client.sendall(REQUEST)
    answer(client)


def answer(client):
    data = b""
    while len(data) < len(MISS):
        part = client.recv(len(MISS) - len(data))
        assert part, "closed instead of answered"
        data += part
    assert data == MISS


@pytest.fixture
def flood(request, tmp_path, ucached_path, tap_obstacle):
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    args = getattr(request.node.get_closest_marker("server_args"), "args", ())
    server = servers.start_tap(ucached_path, tmp_path / "log", [*OPTIONS, *args])
    flood = Flood(server, request.param)
    with flood.connect() as client:  # an IPv6 address is used after duplicate address detection
        ask(client)
    yield flood
    flood.link.close()
    server.stop()


both = pytest.mark.parametrize("flood", [4, 6], indirect=True, ids=["ip4", "ip6"])


@both
def test_open_and_new_connections_during_a_flood(flood):
    """Hundreds of SYNs a second from unreachable addresses while 325 connections are open."""
    clients = [flood.connect() for _ in range(325)]
    sources = [flood.source() for _ in range(50)]
    for turn in range(6):
        for number in range(300):
            flood.syn(sources[number % 50], 1024 + turn * 300 + number)
        flood.drain()
        for client in clients[turn::6]:
            ask(client)
        for _ in range(5):
            with flood.connect() as client:
                ask(client)
        time.sleep(0.1)
    counters = flood.counters()
    assert counters["pool_empty_conns"] == 0
    assert counters["half_open"] + counters["syn_cookies_sent"] >= 1500  # of 1800 SYNs
    for client in clients:
        ask(client)
        client.close()


@pytest.mark.long
@both
def test_many_clients_after_half_open_handshakes(flood):
    """20,000 incomplete handshakes, then 900 complete ones."""
    sources = [flood.source() for _ in range(100)]
    asked = set()
    for number in range(20_000):
        flood.syn(sources[number % 100], 1024 + number)
        if number % 50 == 0:
            asked |= flood.drain()
    clients = [flood.connect() for _ in range(900)]
    for client in clients:
        client.sendall(REQUEST)
    for client in clients:
        answer(client)
        client.close()
    asked |= flood.drain()
    assert not asked & set(sources), "asked for the address of a peer that has only sent a SYN"
    assert flood.counters()["tcp_listen_overflows"] == 0


@both
@pytest.mark.server_args("-c", "256")
def test_small_server_after_a_burst_of_syns(flood):
    for number in range(400):
        flood.syn(flood.source(), 1024 + number)
    with flood.connect() as client:
        ask(client)
    counters = flood.counters()
    assert counters["conns_open"] <= 3
    assert 0 < counters["half_open"] <= 400


@both
def test_forged_neighbours_do_not_disturb_connections(flood):
    """SYNs of 3000 addresses on the link: no next hop of an established connection is lost."""
    clients = [flood.connect() for _ in range(50)]
    for client in clients:
        ask(client)
    before = flood.counters()
    sources = [flood.source() for _ in range(3000)]
    asked = set()
    for number, source in enumerate(sources):
        flood.syn(source, 1024)
        if number % 60 == 0:
            asked |= flood.drain()
            for client in clients:
                client.sendall(REQUEST)
            for client in clients:
                answer(client)
    asked |= flood.drain()
    counters = flood.counters()
    assert not asked & set(sources)
    assert counters["neighbours"] < before["neighbours"] + len(sources) // 100
    for name in ("arp_evictions", "arp_evictions_in_use", "arp_timeouts"):
        assert counters[name] == 0, name
    for client in clients:
        client.close()
