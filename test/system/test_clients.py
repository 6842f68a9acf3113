# SPDX-License-Identifier: BSD-3-Clause
"""Clients that others wrote: pymemcache and the tools of libmemcached."""

import shutil
import subprocess
import threading
from contextlib import closing

import pytest
from pymemcache.client.base import PooledClient
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError
from pymemcache.serde import pickle_serde

# ---- pymemcache -------------------------------------------------------------------------------


@pytest.fixture
def client(server):
    with closing(server.client(default_noreply=False)) as client:
        yield client


def test_storage_commands(client):
    assert client.set("k", b"one") is True
    assert client.get("k") == b"one"
    assert client.add("k", b"two") is False
    assert client.add("new", b"two") is True
    assert client.replace("none", b"x") is False
    assert client.replace("k", b"three") is True
    assert client.append("k", b"!") is True and client.prepend("k", b"?") is True
    assert client.get("k") == b"?three!"
    assert client.append("none", b"x") is False


def test_many(client):
    values = {f"key{number}": b"v" * number for number in range(300)}
    assert client.set_many(values) == []
    assert client.get_many(list(values) + ["none"]) == values
    assert client.delete_many(list(values)[:100]) is True
    assert len(client.get_many(list(values))) == 200
    tagged = client.gets_many(["key200", "key201", "none"])
    assert tagged["key200"][0] == b"v" * 200 and len(tagged) == 2


def test_cas(client):
    client.set("k", b"one")
    value, unique = client.gets("k")
    assert value == b"one"
    assert client.cas("k", b"two", unique) is True
    assert client.cas("k", b"three", unique) is False
    assert client.cas("none", b"x", unique) is None
    assert client.get("k") == b"two"


def test_counters(client):
    client.set("n", b"10")
    assert client.incr("n", 5) == 15 and client.decr("n", 20) == 0
    assert client.incr("none", 1) is None
    client.set("s", b"text")
    with pytest.raises(MemcacheClientError):
        client.incr("s", 1)


def test_touch_delete_flush(client):
    client.set("k", b"x")
    assert client.touch("k", 100) is True and client.touch("none", 100) is False
    assert client.delete("k") is True and client.delete("k") is False
    client.set("k", b"x")
    assert client.flush_all() is True
    assert client.get("k") is None


def test_noreply_by_default(server):
    with closing(server.client()) as client:
        for number in range(1000):
            client.set("k", b"%d" % number)
        assert client.get("k") == b"999"
        client.delete("k")
        assert client.get("k") is None


def test_stats_and_version(client):
    client.set("k", b"x")
    stats = client.stats()
    assert stats[b"curr_items"] == 1 and stats[b"version"] == client.version()
    assert client.stats("settings")[b"evictions"] == b"on"
    assert client.stats("items") and client.stats("slabs")


def test_values_of_all_kinds(server):
    values = [
        "text",
        "\u00fcml\u00e4ut",
        17,
        2**80,
        1.5,
        None,
        True,
        [1, "a"],
        {"k": (1, 2)},
        b"\r\n\0",
        b"",
        "x" * 500_000,
    ]
    with closing(server.client(serde=pickle_serde, default_noreply=False)) as client:
        for number, value in enumerate(values):
            client.set(f"k{number}", value)
        assert [client.get(f"k{number}") for number in range(len(values))] == values


def test_default_serializer_makes_text(client):
    client.set("k", 17)
    assert client.get("k") == b"17"
    client.set("k", "text")
    assert client.get("k") == b"text"


def test_too_large_value(client):
    client.set("k", b"old")
    with pytest.raises(MemcacheServerError, match="object too large for cache"):
        client.set("k", b"x" * 2_000_000)
    assert client.get("k") is None
    client.set("k", b"new")
    assert client.get("k") == b"new"


def test_pool_of_many_threads(server):
    pool = PooledClient(
        server.address,
        max_pool_size=20,
        connect_timeout=60,
        timeout=60,
        socket_module=server.space.socket_module,
        default_noreply=False,
    )
    failures = []

    def work(number):
        try:
            for step in range(100):
                key = f"t{number}:{step % 7}"
                value = b"%d/%d" % (number, step) * (step + 1)
                assert pool.set(key, value) is True
                assert pool.get(key) == value
            pool.incr("sum", number)
        except Exception as error:  # shown by the main thread, whatever it is
            failures.append(repr(error))

    pool.set("sum", b"0")
    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and pool.get("sum").strip() == b"%d" % sum(range(20))
    pool.close()


# ---- libmemcached -----------------------------------------------------------------------------


def tool(name):
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} (Debian: libmemcached-tools) is not installed")
    return path


def run_tool(server, name, *args):
    return server.run([tool(name), *args], timeout=100, capture_output=True, text=True)


def servers_option(server):
    return "--servers=%s:%d" % server.address


def test_libmemcached_tools(server, tmp_path):
    option = servers_option(server)
    file = tmp_path / "memo"
    file.write_bytes(bytes(range(256)) * 100)
    assert run_tool(server, "memcping", option).returncode == 0
    assert run_tool(server, "memccp", option, str(file)).returncode == 0
    assert run_tool(server, "memcexist", option, "memo").returncode == 0
    copy = tmp_path / "copy"
    assert run_tool(server, "memccat", option, f"--file={copy}", "memo").returncode == 0
    assert copy.read_bytes().removesuffix(b"\n") == file.read_bytes()
    assert run_tool(server, "memctouch", option, "memo").returncode == 0
    assert run_tool(server, "memcrm", option, "memo").returncode == 0
    assert run_tool(server, "memcexist", option, "memo").returncode != 0
    listing = run_tool(server, "memcstat", option)
    assert listing.returncode == 0 and f"pid: {server.pid}" in listing.stdout


def test_memcaslap_finds_no_error(server):
    """It checks what it gets: -V a part of the keys, -e expiry."""
    host, port = server.address
    done = run_tool(
        server, "memcaslap", "-s", f"{host}:{port}", "-T", "1", "-c", "16", "-x", "20000", "-v", "1"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert lines["verify_misses"] == "0" and lines["verify_failed"] == "0", done.stdout


# ---- by hand ----------------------------------------------------------------------------------


def test_shell_pipe_into_netcat(server):
    """What the instructions print, without options for the end of input."""
    host, port = server.address
    if shutil.which("nc") is None:
        pytest.skip("nc (Debian: netcat-openbsd) is not installed")
    line = rf"printf 'set hello 0 0 5\r\nworld\r\nget hello\r\nquit\r\n' | nc -w 5 {host} {port}"
    done = server.run(["sh", "-c", line], timeout=60, stdout=subprocess.PIPE)
    assert done.stdout == b"STORED\r\nVALUE hello 0 5\r\nworld\r\nEND\r\n"
