# SPDX-License-Identifier: BSD-3-Clause
"""Pools of three servers and more, with the clients and proxies that memcached's users have.

A value names its key and a version, so that a value of another key or an old one is noticed.
"""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import threading

import pool
import pytest
from ketama import Ketama
from pymemcache.client.hash import HashClient
from pymemcache.client.rendezvous import RendezvousHash
from server import Connection
from wire import settles

OWN = ("uring", "xdp", "tap")  # a server of each kind
MEMCACHED = ("memcached",) * 3
MANY = [f"user:{number}:profile" for number in range(10_000)]
SOME = MANY[:1500]


def value(key, version=1):
    return f"{key}={version}".encode()


def values(keys, version=1):
    return {key: value(key, version) for key in keys}


@pytest.fixture
def start_pool(tap_obstacle, ucached_path, request, tmp_path):
    """A function that starts a pool: start_pool(kinds, *args of the servers) -> members."""
    if tap_obstacle:
        pytest.skip(f"namespaces: {tap_obstacle}")
    networks, members = [], []

    def start(kinds, *args):
        network = pool.Network()
        networks.append(network)
        started = []
        for index, io in enumerate(kinds):
            started.append(add(network, index, io, *args))
        return started

    def add(network, index, io, *args):
        path = request.getfixturevalue("memcached_path") if io == "memcached" else ucached_path
        logs = tmp_path / f"network-{networks.index(network)}"
        logs.mkdir(exist_ok=True)
        members.append(pool.Member(network, index, io, path, logs, args))
        return members[-1]

    start.add = add
    yield start
    for member in members:
        member.kill()
    for network in networks:
        network.close()


def hash_client(members, hasher=Ketama, **options):
    """pymemcache's client of several servers, in the namespace of the clients."""
    options = {"timeout": 5, "connect_timeout": 5, "no_delay": True, **options}
    return HashClient([(member.host, pool.PORT) for member in members], hasher=hasher,
                      socket_module=members[0].network.client.socket_module, **options)  # fmt: skip


@contextlib.contextmanager
def libmemcached(members, **options):
    if not pool.has_libmemcached():
        pytest.skip("libmemcached is not installed")
    client = pool.Libmemcached([member.host for member in members], **options)
    yield client
    client.close()


def check(found, keys, versions=(1,)):
    """How many keys were found; none with a value of another key, or of another version."""
    for key, got in found.items():
        assert got in [value(key, version) for version in versions], key
    return len([key for key in keys if key in found])


# ---- placement ----------------------------------------------------------------------------------


def shares(found):
    return [list(found.values()).count(index) for index in range(3)]


def test_placement(start_pool):
    """Each client finds the same server for each key, whichever server is there."""
    pools = [start_pool(OWN), start_pool(MEMCACHED)]
    placed = []
    for members in pools:
        with libmemcached(members) as client:
            inside = members[0].network.client
            wanted = {key: client.server_of(key) for key in MANY}
            assert inside.run(lambda c=client: all(c.set(key, value(key)) for key in MANY))
        by_libmemcached = pool.holders(members, MANY)
        assert by_libmemcached == wanted
        client = hash_client(members)
        assert check(client.get_many(MANY), MANY) == len(MANY)  # the same ring
        client.flush_all(noreply=False)
        client = hash_client(members, hasher=RendezvousHash)
        assert client.set_many(values(MANY), noreply=False) == []
        placed.append((by_libmemcached, pool.holders(members, MANY)))
    assert placed[0] == placed[1]
    for found in placed[0]:
        assert all(0.75 < share / (len(MANY) / 3) < 1.25 for share in shares(found)), shares(found)


# ---- failure ------------------------------------------------------------------------------------


def stall(member):
    member.server.signal(signal.SIGSTOP)
    assert settles(member.is_stopped)


def kill(member):
    member.server.signal(signal.SIGKILL)
    member.server.wait()


def heal(member, fault):
    """The server is back, and empty: what it missed while clients did without it is unknown."""
    if fault == "SIGKILL":
        member.start()
    elif fault == "SIGSTOP":
        member.server.signal(signal.SIGCONT)
    else:
        member.link("up")

    def flushed():
        try:
            with member.server.connect(timeout=1.0) as connection:
                return connection.ask(b"flush_all\r\n") == b"OK\r\n"
        except (OSError, EOFError):
            return False

    assert settles(flushed, seconds=60)


FAULTS = {"SIGKILL": kill, "SIGSTOP": stall, "link": lambda member: member.link("down")}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("victim", range(3), ids=OWN)
def test_one_server_fails(start_pool, fault, victim):
    """Its keys miss, and no other; none gets the value of another key, or an old one afterwards."""
    members = start_pool(OWN)
    with libmemcached(members) as checker:
        owner = {key: checker.server_of(key) for key in SOME}
    theirs = [key for key in SOME if owner[key] == victim]
    others = [key for key in SOME if owner[key] != victim]
    client = hash_client(members, timeout=2, connect_timeout=2, ignore_exc=True,
                         retry_attempts=1, retry_timeout=0, dead_timeout=3)  # fmt: skip
    assert client.set_many(values(SOME), noreply=False) == []
    FAULTS[fault](members[victim])
    # Single gets, as those of a batch share the fate of their connection.
    for key in (*theirs[:20], *others):
        got = client.get(key)
        assert got == value(key) if owner[key] != victim else got is None, (key, got)
    # The client continues without the server, and writes to the others what belongs to it.
    assert settles(lambda: client.set(theirs[0], value(theirs[0], 2), noreply=False))
    client.set_many(values(SOME, 2), noreply=False)
    heal(members[victim], fault)

    def all_back():
        client.set_many(values(SOME, 3), noreply=False)
        found = client.get_many(SOME)
        check(found, SOME, versions=(2, 3))
        return len(client.hasher.nodes) == 3 and len(found) == len(SOME)

    assert settles(all_back, seconds=60)
    for member in members:  # what is on a server is of the key, and of a known version
        check(pool.values(member.server, SOME), SOME, versions=(1, 2, 3))
    assert pool.values(members[victim].server, theirs) == values(theirs, 3)


def test_a_server_behind_a_lossy_link(start_pool):
    """Frames are lost, reordered and doubled on one server's link: every answer is right."""
    members = start_pool(("uring", "uring"))
    members.append(start_pool.add(members[0].network, 2, "xdp",
                                  "--fault=loss=3%,reorder=5%,dup=2%,seed=7"))  # fmt: skip
    with libmemcached(members) as client:
        inside = members[0].network.client

        def work():
            assert all(client.set(key, value(key)) for key in SOME[:300])
            return {key: client.get(key) for key in SOME[:300]}

        assert inside.run(work) == values(SOME[:300])


# ---- growth -------------------------------------------------------------------------------------


def test_growth(start_pool):
    """A fourth server takes about a quarter of the keys, from all others, and no key moves else."""
    members = start_pool(OWN)
    keys = MANY[:4000]
    client = hash_client(members)
    assert client.set_many(values(keys), noreply=False) == []
    before = pool.holders(members, keys)
    members.append(start_pool.add(members[0].network, 3, "uring"))
    with libmemcached(members) as grown:
        inside = members[0].network.client
        moved = [key for key in keys if grown.server_of(key) != before[key]]
        assert all(grown.server_of(key) == 3 for key in moved)
        assert 0.2 < len(moved) / len(keys) < 0.3
        assert {before[key] for key in moved} == {0, 1, 2}
        found = inside.run(lambda: {key: grown.get(key) for key in keys})
    assert all(got is None for key, got in found.items() if key in set(moved))
    assert all(got == value(key) for key, got in found.items() if key not in set(moved))


# ---- warm restarts ------------------------------------------------------------------------------


def test_rolling_restart_keeps_the_items(start_pool, tmp_path):
    """Each server in turn is restarted with -e under load: nothing is lost, nothing is wrong."""
    members = start_pool(("uring", "uring", "tap"))
    for member in members:
        member.stop()
        member.args = ("-e", f"/dev/shm/{tmp_path.name}-{os.getpid()}-{member.index}")
        member.start()
    try:
        client = hash_client(members)
        assert client.set_many(values(SOME), noreply=False) == []
        stop = threading.Event()
        seen = {"hits": 0, "misses": 0}

        def load():
            reader = hash_client(members, ignore_exc=True, timeout=2, connect_timeout=2,
                                 retry_attempts=1000, retry_timeout=0)  # fmt: skip
            draws = random.Random(1)
            while not stop.is_set():
                key = draws.choice(SOME)
                got = reader.get(key)
                assert got in (None, value(key)), (key, got)
                seen["hits" if got else "misses"] += 1

        thread = threading.Thread(target=load, daemon=True)
        thread.start()
        for member in members:
            hits = seen["hits"]
            assert settles(lambda hits=hits: seen["hits"] > hits + 100)
            member.server.signal(signal.SIGTERM)
            assert member.server.wait() == 0
            member.start()
            assert member.server.stats()["curr_items"] != "0"
        stop.set()
        thread.join(20)
        assert not thread.is_alive()
        client = hash_client(members)
        assert check(client.get_many(SOME), SOME) == len(SOME)
    finally:
        for member in members:
            pathlib.Path(member.args[1]).unlink(missing_ok=True)


# ---- moving to other servers --------------------------------------------------------------------


class Reader(threading.Thread):
    """A client that reads keys, the popular ones more often, and stores those that miss."""

    def __init__(self, members, seed):
        super().__init__(daemon=True)
        self.members = members
        self.draws = random.Random(seed)
        self.stopped = threading.Event()
        self.failed = None
        self.hits = self.requests = 0

    def one(self, client):
        key = MANY[int(len(MANY) * self.draws.random() ** 2)]
        got = client.get(key)
        assert got in (None, value(key)), (key, got)
        self.requests += 1
        self.hits += got is not None
        if got is None:
            client.set(key, value(key), noreply=False)

    def run(self):
        client = hash_client(self.members)
        try:
            while not self.stopped.is_set():
                self.one(client)
        except Exception as error:  # shown by the test
            self.failed = error

    def ratio(self, requests):
        """The share of hits of the next requests, without storing."""
        client = hash_client(self.members)
        hits = 0
        for _ in range(requests):
            key = MANY[int(len(MANY) * self.draws.random() ** 2)]
            hits += client.get(key) is not None
        return hits / requests


@pytest.mark.long
def test_moved_to_other_servers_under_load(start_pool, ucached_path):
    """Three memcached to three ucached: a client that switches over has its hits."""
    ucwarm = pathlib.Path(ucached_path).parents[1] / "ucwarm" / "ucwarm"
    old = start_pool(MEMCACHED)
    network = old[0].network
    new = [start_pool.add(network, 3 + index, io) for index, io in enumerate(OWN)]
    hash_client(old).set_many(values(MANY[:7000]), noreply=False)
    readers = [Reader(old, seed) for seed in (1, 2)]
    before = readers[0].ratio(5000)
    for reader in readers:
        reader.start()
    words = [str(ucwarm), "--rate=4000", *(m.host for m in old), "to", *(m.host for m in new)]
    done = network.client.run(subprocess.run, words, capture_output=True, text=True, timeout=120)
    for reader in readers:
        reader.stopped.set()
    for reader in readers:
        reader.join(20)
        assert reader.failed is None and reader.requests > 0
    assert done.returncode == 0, done.stderr
    after = Reader(new, 3).ratio(5000)
    assert 0.5 < before < 1 and after >= 0.99 * before, (before, after)
    with libmemcached(new) as client:
        found = pool.holders([_numbered(m, i) for i, m in enumerate(new)], MANY)
        assert all(client.server_of(key) == index for key, index in found.items())


def _numbered(member, index):
    member.index = index
    return member


@pytest.mark.parametrize("fault", [(), ("--fault=loss=2%,reorder=5%,dup=2%,seed=3",)],
                         ids=["clean", "faults"])  # fmt: skip
def test_moved_over_the_own_stack(start_pool, ucached_path, fault):
    """ucwarm by AF_XDP, with a dump that is longer than what it takes ahead, and a large value."""
    ucwarm = pathlib.Path(ucached_path).parents[1] / "ucwarm" / "ucwarm"
    old = start_pool(("memcached", "uring"))
    network = old[0].network
    new = [start_pool.add(network, 2 + index, io) for index, io in enumerate(OWN)]
    count = 800 if fault else 6000
    client = hash_client(old)
    client.set_many(values(MANY[:count]), noreply=False)
    client.set("large", b"x" * 900_000, noreply=False)
    words = [str(ucwarm), "--json", "--verify", "--io=xdp", "--dev=eth0", "--ip=10.77.0.3/24",
             *fault, *(m.host for m in old), "to", *(m.host for m in new)]  # fmt: skip
    done = network.attach("warm").run(subprocess.run, words, capture_output=True, text=True,
                                      timeout=100)  # fmt: skip
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["copied"] == counts["equal"] == count + 1
    client = hash_client(new)
    assert check(client.get_many(MANY[:count]), MANY[:count]) == count


def test_the_own_stack_names_a_server_that_does_not_answer(start_pool, ucached_path):
    ucwarm = pathlib.Path(ucached_path).parents[1] / "ucwarm" / "ucwarm"
    members = start_pool(("uring", "uring"))
    hash_client(members[:1]).set("key", "value", noreply=False)
    stall(members[1])
    space = members[0].network.attach("warm")
    link = [str(ucwarm), "--io=xdp", "--dev=eth0", "--ip=10.77.0.3/24"]
    # members[0] answers a busy machine in less than the seconds of the first three.
    for seconds, words, text in [
        (20, [members[0].host, f"{members[0].host}:9"], ":9: cannot connect: refused"),
        (20, [members[0].host, "10.77.0.99"], "10.77.0.99: cannot connect"),
        (10, [members[0].host, members[1].host], f"{members[1].host}: no answer for 10 s"),
        (1, [members[1].host, members[0].host], f"{members[1].host}: no answer for 1 s"),
    ]:
        done = space.run(subprocess.run, [*link, "-t", str(seconds), *words], capture_output=True,
                         text=True, check=False, timeout=60)  # fmt: skip
        assert done.returncode == 69 and text in done.stderr, done.stderr


# ---- nutcracker ---------------------------------------------------------------------------------

NUTCRACKER_PORT = 22121


@contextlib.contextmanager
def nutcracker(members, tmp_path):
    """Debian's nutcracker in front of the servers: a function that connects to it."""
    program = shutil.which("nutcracker") or shutil.which("nutcracker", path="/usr/sbin")
    if not program:
        pytest.skip("nutcracker is not installed")
    network = members[0].network
    config = tmp_path / "nutcracker.yml"
    # A server of a busy machine that takes 0.4 s for an answer has not failed.
    config.write_text(pool.block("nutcracker.yml").replace("timeout: 400\n", "timeout: 5000\n"))
    log = (tmp_path / "nutcracker.log").open("wb")
    process = network.proxy.popen([program, "-c", config, "-m", "16384"], stdout=log, stderr=log)

    def connect():
        sock = network.client.run(socket.create_connection, (pool.PROXY, NUTCRACKER_PORT), 10)
        return Connection(sock)

    def up():
        with contextlib.suppress(OSError):
            connect().close()
            return True

    try:
        assert settles(up), (tmp_path / "nutcracker.log").read_text()
        yield connect
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(20)
        log.close()


def test_behind_nutcracker(start_pool, tmp_path):
    members = start_pool(OWN)
    with nutcracker(members, tmp_path) as connect, connect() as client:
        for key in SOME:
            text = value(key)
            client.send(b"set %s 5 0 %d\r\n%s\r\n" % (key.encode(), len(text), text))
            assert client.line() == b"STORED\r\n"
        for at in range(0, len(SOME), 100):  # fragments from all servers are put together
            client.send(b"get %s\r\n" % " ".join(SOME[at : at + 100]).encode())
            got = {}
            while (line := client.line()) != b"END\r\n":
                _, key, flags, size = line.split()
                assert flags == b"5"
                got[key.decode()] = client.exactly(int(size) + 2)[:-2]
            assert got == values(SOME[at : at + 100])
        assert client.ask(b"set n 0 0 1\r\n5\r\n") == b"STORED\r\n"
        assert client.ask(b"incr n 3\r\n") == b"8\r\n"
        assert client.ask(b"touch n 100\r\n") == b"TOUCHED\r\n"
        assert client.ask(b"append n 0 0 1\r\n0\r\n") == b"STORED\r\n"
        line = client.ask(b"gets n\r\n", b"END\r\n").split(b"\r\n")
        assert line[0].startswith(b"VALUE n 0 2 ") and line[1] == b"80"
        cas = line[0].split()[4]
        assert client.ask(b"cas n 0 0 1 %s\r\n7\r\n" % cas) == b"STORED\r\n"
        assert client.ask(b"delete n\r\n") == b"DELETED\r\n"
        assert client.ask(b"get n\r\n") == b"END\r\n"
        found = pool.holders(members, SOME)
        with libmemcached(members) as ring:  # the same servers as with clients that hash
            assert found == {key: ring.server_of(key) for key in SOME}
        for line in (b"mg n v\r\n", b"gat 0 n\r\n", b"stats\r\n", b"flush_all\r\n"):
            with connect() as other:
                other.send(line)
                assert other.rest() == b""  # nutcracker closes what it does not know


def test_many_clients_share_nutcracker_s_connections(start_pool, tmp_path):
    members = start_pool(OWN)
    before = [int(m.server.stats()["curr_connections"]) for m in members]
    with nutcracker(members, tmp_path) as connect, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect()) for _ in range(100)]
        for number, client in enumerate(clients):
            key = SOME[number]
            client.send(b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), len(value(key)), value(key)))
        assert all(client.line() == b"STORED\r\n" for client in clients)
        for number, client in enumerate(clients):
            client.send(b"get %s\r\n" % SOME[number].encode())
        for number, client in enumerate(clients):
            assert client.until(b"END\r\n").split(b"\r\n")[1] == value(SOME[number])
        after = [int(m.server.stats()["curr_connections"]) for m in members]
    assert all(now - then <= 1 for now, then in zip(after, before, strict=True)), (before, after)


@pytest.mark.parametrize("fault", ["SIGKILL", "SIGSTOP"])
def test_a_server_fails_behind_nutcracker(start_pool, tmp_path, fault):
    """nutcracker leaves it out: errors at first, then misses; no wrong value, and it returns."""
    members = start_pool(OWN)
    with libmemcached(members) as ring:
        owner = {key: ring.server_of(key) for key in SOME}

    def get(client, key):
        """The value, None for a miss, False for an error."""
        line = client.ask(b"get %s\r\n" % key.encode())
        if line == b"END\r\n":
            return None
        if not line.startswith(b"VALUE"):
            assert line.startswith(b"SERVER_ERROR"), line
            return False
        _, got_key, _, size = line.split()
        assert got_key == key.encode()
        got = client.exactly(int(size) + 2)[:-2]
        client.until(b"END\r\n")
        return got

    def put(client, key, version):
        text = value(key, version)
        client.send(b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), len(text), text))
        return client.line() == b"STORED\r\n"

    with nutcracker(members, tmp_path) as connect, connect() as client:
        assert all(put(client, key, 1) for key in SOME)
        FAULTS[fault](members[1])
        theirs = [key for key in SOME if owner[key] == 1]
        assert settles(lambda: get(client, theirs[0]) is None, seconds=60)
        for key in SOME:  # an error is for one who comes when nutcracker tries the server again
            got = get(client, key)
            assert got in (value(key) if owner[key] != 1 else None, False), (key, got)
        heal(members[1], fault)

        def back():
            return put(client, theirs[0], 2) and pool.values(members[1].server, theirs[:1])

        assert settles(back, seconds=60)
        for key in SOME:
            assert get(client, key) in (None, False, value(key), value(key, 2))


# ---- memcached's proxy --------------------------------------------------------------------------

def test_behind_the_proxy_of_memcached(start_pool, tmp_path):
    """$MEMCACHED_PROXY: a memcached that was built with its proxy."""
    program = os.environ.get("MEMCACHED_PROXY")
    if not program:
        pytest.skip("no memcached with a proxy")
    members = start_pool(OWN)
    config = tmp_path / "proxy.lua"
    config.write_text(pool.block("proxy.lua"))
    network = members[0].network
    words = [program, "-u", "root", "-U", "0", "-l", pool.PROXY, "-p", str(NUTCRACKER_PORT), "-o",
             f"proxy_config={config}"]  # fmt: skip
    process = network.proxy.popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def connected():
            with contextlib.suppress(OSError):
                return Connection(network.client.run(
                    socket.create_connection, (pool.PROXY, NUTCRACKER_PORT), 10))  # fmt: skip

        with settles(connected) as client:
            for key in SOME:
                text = value(key)
                client.send(b"ms %s %d F5\r\n%s\r\n" % (key.encode(), len(text), text))
                assert client.line() == b"HD\r\n"
            for key in SOME:
                client.send(b"mg %s f v\r\n" % key.encode())
                assert client.line() == b"VA %d f5\r\n" % len(value(key))
                assert client.exactly(len(value(key)) + 2)[:-2] == value(key)
            found = pool.holders(members, SOME)
            with libmemcached(members) as ring:
                assert found == {key: ring.server_of(key) for key in SOME}
            kill(members[1])
            theirs = [key for key in SOME if found[key] == 1]
            for key in (*theirs[:5], *(key for key in SOME if found[key] != 1)):
                line = client.ask(b"mg %s v\r\n" % key.encode())
                if found[key] == 1:
                    assert line.startswith(b"SERVER_ERROR"), line
                else:
                    assert line == b"VA %d\r\n" % len(value(key))
                    assert client.exactly(len(value(key)) + 2)[:-2] == value(key)
    finally:
        process.kill()
        process.wait(20)
