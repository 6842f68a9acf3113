# SPDX-License-Identifier: BSD-3-Clause
"""A client at the other end of a memif or vhost link is killed while frames are in flight: the
server frees its resources and serves the next client.

Simulated clients (memifpeer.py) end in the middle of a burst each time. Real ones are killed under
load, the server's threads sharing one core with DPDK's interrupt thread, or not.
"""

import collections
import itertools
import os
import pathlib
import random

import memifpeer
import pytest
import rawnet
import rawpeer
from dpdkpair import (  # noqa: F401
    SMALL,
    memif,
    pair,
    possible,
    sockets,
    ucload_path,
    vhost,
)
from server import TAP_ADDRESS, TAP_HOST_ADDRESS
from wire import settles

pytestmark = pytest.mark.long

LONG = bool(os.environ.get("UCACHED_LONG"))
KILLS = {"one core": 200, "all cores": 200 if LONG else 40}  # one core is the harder case
VANISHINGS = 5000 if LONG else 200
CORES = ["one core", "all cores"]

# Connections of a client that was killed keep their places until keepalives notice (two minutes).
PLACES = ("-c", "8192")
LOAD = ("-T600", "-c16", "-d4", "-m", "get:4,set:1", "--value-size=0-3000")
BURST_MAX = 64  # packets that a burst may hold
PEER_MAC = "02:00:00:00:00:01"
ANY_MAC = "02:00:00:00:00:02"
EXPERIMENTAL = 0x88B5  # an EtherType that the stack drops


def share(server, cores):
    """With "one core" all threads of the server run there, DPDK's own included."""
    if cores == "one core":
        cpu = min(os.sched_getaffinity(0))
        for thread in os.listdir(f"/proc/{server.pid}/task"):
            os.sched_setaffinity(int(thread), {cpu})


def holds(process):
    """Resources of a process for its peers: descriptors by kind, mappings of shared memory."""
    kinds = collections.Counter()
    folder = pathlib.Path(f"/proc/{process.pid}/fd")
    for name in os.listdir(folder):
        try:
            target = os.readlink(folder / name)
        except FileNotFoundError:  # closed in the meantime
            continue
        kinds[target.partition(":[")[0]] += 1
    maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text(encoding="ascii")
    kinds["mappings"] = sum("/memfd:" in line or "huge" in line for line in maps.splitlines())
    return kinds


def settled(server):
    """Resources of the server after its last client has ended."""
    seen = []

    def same_twice():
        seen.append(holds(server))
        return seen[-2:] == seen[-1:] * 2

    assert settles(same_twice, pause=0.3)
    return seen[-1]


SEEDS = itertools.count(1)  # of ports: the RST of an earlier client may not have been read


def ask(link, request, end):
    """What the server answers over a connection of a simulated client on this link."""
    connection = rawpeer.Lan(link, seed=next(SEEDS)).peer()
    connection.open()
    connection.send("PA", request)
    reply = b""
    while end not in reply:
        reply += connection.expect().data
        connection.send("A")
    connection.reset()
    return reply


def stats(path):
    """`stats nic` by a simulated client, which disconnects in order."""
    peer = memifpeer.MemifPeer(path)
    try:
        lines = ask(peer, b"stats nic\r\n", b"END\r\n").decode().splitlines()
    finally:
        peer.close()
    return {name: value for _, name, value in (line.split(" ", 2) for line in lines[:-1])}


def floods():
    """Frames that a server is busy with: some to drop, some to answer."""
    long = rawnet.ethernet(ANY_MAC, PEER_MAC, EXPERIMENTAL, bytes(1400))
    question = rawnet.arp(1, PEER_MAC, TAP_HOST_ADDRESS, "00:00:00:00:00:00", TAP_ADDRESS)
    asks = rawnet.ethernet("ff:ff:ff:ff:ff:ff", PEER_MAC, rawnet.ETH_ARP, question).ljust(60, b"\0")
    return [(long, 1), (long, 8), (asks, 1)]


@pytest.mark.parametrize("cores", CORES)
@pytest.mark.limit(600)
def test_memif_client_that_vanishes_in_a_burst(pair, sockets, cores):
    server_device, client_device = memif(sockets)
    server = pair.serve(server_device)
    share(server, cores)
    path = f"{sockets}/m"
    in_use = int(stats(path)["dpdk_pool_in_use"])
    before = settled(server)
    for number in range(VANISHINGS):
        frame, buffers = floods()[number % 3]
        peer = memifpeer.MemifPeer(path)
        peer.flood(frame, buffers)
        peer.close()
        assert server.poll() is None, f"ended by client {number + 1}"
    assert settles(lambda: holds(server) == before), (before, holds(server))
    after = stats(path)
    assert int(after["dpdk_pool_in_use"]) < in_use + BURST_MAX
    assert int(after["dpdk_intr_handled"]) >= 2 * VANISHINGS  # each came, and went
    pair.result(pair.load(client_device, *SMALL))


@pytest.mark.parametrize("steps", range(4))
def test_memif_client_that_vanishes_while_it_connects(pair, sockets, steps):
    server_device, client_device = memif(sockets)
    server = pair.serve(server_device)
    path = f"{sockets}/m"
    stats(path)
    before = settled(server)
    for _ in range(20):
        memifpeer.MemifPeer(path, steps=steps).close()
    assert settles(lambda: holds(server) == before), (before, holds(server))
    pair.result(pair.load(client_device, *SMALL))


@pytest.mark.parametrize("cores", CORES)
@pytest.mark.parametrize("link", [memif, vhost])
@pytest.mark.limit(1200)
def test_clients_killed_under_load(pair, sockets, link, cores):
    server_device, client_device = link(sockets)
    server = pair.serve(server_device, *PLACES)
    share(server, cores)
    pair.result(pair.load(client_device, *SMALL))  # the first one allocates what all share
    rng = random.Random(link.__name__ + cores)
    before = settled(server)
    for number in range(KILLS[cores]):
        load = pair.load(client_device, *LOAD)
        connected = settles(lambda: holds(server)["mappings"] > before["mappings"], 60, 0.005)
        said = pathlib.Path(f"{load.log}.err").read_text()
        assert connected, f"client {number + 1} is not served; status {load.poll()}: {said}"
        settles(lambda: False, rng.uniform(0, 0.05), 0.01)
        load.kill()
        load.wait()
        assert settles(lambda: holds(server) == before or server.poll() is not None, 60, 0.005)
        assert server.poll() is None, f"ended by client {number + 1}"
    pair.result(pair.load(client_device, *SMALL))
