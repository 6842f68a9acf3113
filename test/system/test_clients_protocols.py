# SPDX-License-Identifier: BSD-3-Clause
"""Clients that others wrote, of the protocols besides the classic one: python-binary-memcached
speaks binary, meta-memcache nothing but meta commands, memccapable tests text and binary.

What opens sockets runs as a whole where it can reach the server.
"""

import re
import shutil

import bmemcached
import pytest
from meta_memcache import CacheClient, Key, ServerAddress, SetMode, connection_pool_factory_builder
from meta_memcache.configuration import LeasePolicy, StalePolicy
from wire import settles

# They expect an error for a delete with extra arguments, which memcached 1.6.45 accepts.
MEMCCAPABLE_FAILS = {"ascii delete", "ascii delete noreply"}
MEMCCAPABLE_TESTS = 54


def test_binary_client(server):
    def check():
        client = bmemcached.Client([f"{server.address[0]}:{server.address[1]}"], socket_timeout=60)
        assert client.get("k") is None and client.get("k", "none") == "none"
        assert client.set("k", "one") and client.get("k") == "one"
        assert not client.add("k", "two") and client.add("new", "two")
        assert not client.replace("none", "x") and client.replace("k", "three")
        value, cas = client.gets("k")
        assert value == "three" and cas
        assert client.cas("k", "four", cas) and not client.cas("k", "five", cas)
        assert client.get("k") == "four"
        values = {f"key{number}": "v" * number for number in range(300)}
        assert client.set_multi(values) == []
        assert client.get_multi(list(values) + ["none"]) == values
        assert client.incr("n", 5, default=10) == 10 and client.incr("n", 5) == 15
        assert client.decr("n", 100) == 0
        for value in (b"\0\r\n\xff", 17, 2**70, ["list", {"of": "things"}], "x" * 500_000, ""):
            assert client.set("kinds", value) and client.get("kinds") == value
        with pytest.raises(bmemcached.exceptions.MemcachedException, match="Too large."):
            client.set("kinds", "x" * 1_100_000, compress_level=0)
        assert client.get("kinds") is None
        assert client.delete("k") and client.delete("k") and client.get("k") is None
        assert client.delete_multi(["key1", "key2"]) and client.get("key1") is None
        [stats] = client.stats().values()
        assert int(stats["pid"]) == server.pid and int(stats["curr_items"]) > 200
        [settings] = client.stats("settings").values()
        assert settings["evictions"] == b"on"
        assert client.flush_all() and client.get("new") is None
        client.disconnect_all()

    server.space.run(check)


@pytest.fixture
def meta_client(server):
    """Calls a function with the client, where it can reach the server."""

    def call(check):
        factory = connection_pool_factory_builder(connection_timeout=60, recv_timeout=60)
        server.space.run(
            lambda: check(
                CacheClient.cache_client_from_servers([ServerAddress(*server.address)], factory)
            )
        )

    return call


def test_meta_client(meta_client):
    def check(client):
        assert client.get("k") is None
        assert client.set("k", "one", ttl=100) and client.get("k") == "one"
        assert not client.set("k", "two", ttl=100, set_mode=SetMode.ADD)
        assert client.set("k", "!", ttl=100, set_mode=SetMode.APPEND)
        assert client.get("k") == "one!"
        value, cas = client.get_cas("k")
        assert value == "one!"
        assert client.set("k", "new", ttl=100, cas_token=cas)
        assert not client.set("k", "newer", ttl=100, cas_token=cas)
        assert client.touch("k", ttl=1000) and not client.touch("none", ttl=1000)
        assert client.delete("k") and not client.delete("k")
        values = {f"key{number}": f"v{number}" for number in range(200)}
        for key, value in values.items():
            assert client.set(key, value, ttl=0, no_reply=True)
        found = client.multi_get([Key(key) for key in values] + [Key("none")])
        assert {key.key: value for key, value in found.items()} == {**values, "none": None}
        for value in (b"\0\r\n\xff", 17, ["list", {"of": "things"}], "x" * 500_000, None):
            assert client.set("kinds", value, ttl=50) and client.get("kinds") == value
        for key in ("ünïcödé", "k" * 300, "with spaces"):
            assert client.set(key, key, ttl=50) and client.get(key) == key

    meta_client(check)


def test_meta_client_counts(meta_client):
    def check(client):
        assert client.delta_and_get("n", 1) is None
        assert client.delta_initialize_and_get("n", delta=5, initial_value=10, initial_ttl=0) == 10
        assert client.delta_and_get("n", 5) == 15 and client.delta_and_get("n", -20) == 0
        assert client.delta("n", 1, no_reply=True) and client.delta_and_get("n", 1) == 2

    meta_client(check)


def test_meta_client_leases_and_stale_values(meta_client):
    def check(client):
        lease = LeasePolicy(ttl=30, miss_retries=2, wait_backoff_factor=0.01)
        value, cas = client.get_or_lease_cas("k", lease)
        assert value is None and cas
        assert client.get_or_lease("k", lease) is None  # another has the lease: times out
        assert client.set("k", "fresh", ttl=100, cas_token=cas)
        assert client.get_or_lease("k", lease) == "fresh"
        stale = StalePolicy(mark_stale_on_deletion_ttl=30, mark_stale_on_cas_mismatch=True)
        assert client.delete("k", stale_policy=stale)
        assert client.get("k") is None  # it won, and is to renew the value
        assert client.get("k") == "fresh"  # the others do with the stale one meanwhile
        assert client.set("k", "renewed", ttl=100) and client.get("k") == "renewed"
        assert settles(lambda: client.get("k") == "renewed")

    meta_client(check)


def test_memccapable(server):
    path = shutil.which("memccapable")
    if path is None:
        pytest.skip("memccapable (Debian: libmemcached-tools) is not installed")
    host, port = server.address
    done = server.run(
        [path, "-h", host, "-p", str(port), "-t", "10"], timeout=100, capture_output=True, text=True
    )
    # stderr has the failures in detail; stdout has their names without a "[pass]".
    results = re.findall(r"((?:ascii|binary) \w+(?: noreply)?) +(\[pass\])?", done.stdout)
    assert len(results) == MEMCCAPABLE_TESTS, done.stdout + done.stderr
    failed = {name for name, passed in results if not passed}
    assert failed == MEMCCAPABLE_FAILS, done.stdout + done.stderr
