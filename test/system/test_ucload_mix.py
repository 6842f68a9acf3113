# SPDX-License-Identifier: BSD-3-Clause
"""ucload with mixes of all operations: what it counts is what the server counts."""

import json
import subprocess

import pytest

MIX = "get=30,set=8,delete=2,incr=6,decr=6,touch=8,append=8,prepend=8,gat=12,cas=12"
OPS = ("get", "set", "delete", "incr", "decr", "touch", "append", "prepend", "gat", "gets", "cas")


@pytest.fixture
def load(ucload_path):
    def load(server, *args):
        host, port = server.address
        command = [ucload_path, f"--server={host}:{port}", "--json", "-V", *map(str, args)]
        return server.run(command, timeout=60, capture_output=True, text=True)

    return load


def result_of(done):
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["wrong"] == result["refused"] == 0
    return result


@pytest.mark.parametrize("protocol", ["text", "meta", "binary"])
@pytest.mark.parametrize("kind", ["sock", "tap", "memcached"])
def test_every_operation(load, start_server, kind, protocol):
    """Few keys, so that values change between a gets and its cas."""
    server = start_server(kind)
    done = load(server, "-n20000", "-c8", "-d8", "-k40", "-P", protocol, "-m", MIX,
                "--value-size=0-60", "--key-size=8-40")
    result = result_of(done)
    assert result["requests"] == 20000 == sum(result[op] for op in OPS)
    assert all(result[op] > 200 for op in OPS)
    assert all(result[f"{op}_latency_us"]["count"] == result[op] for op in OPS)
    stats = {name: int(server.stats()[name]) for name in ("cas_hits", "cas_badval", "cas_misses")}
    assert stats["cas_badval"] == result["exists"] > 0
    assert sum(stats.values()) == result["cas"] <= result["gets"]


@pytest.mark.parametrize("op", ["append", "prepend", "cas", "decr", "gat"])
def test_one_operation_alone(load, server_sock, op):
    result = result_of(load(server_sock, "-n3000", "-m", op, "-t2"))
    assert result[op] > 1000 and result["requests"] == 3000


def test_several_servers(ucload_path, start_server):
    """The cas goes to the server that has answered its gets."""
    servers = [start_server("sock") for _ in range(2)]
    names = ",".join(f"{host}:{port}" for host, port in (server.address for server in servers))
    done = subprocess.run([ucload_path, f"-s{names}", "-n4000", "--json", "-V", "-m", MIX],
                          capture_output=True, text=True, timeout=60)
    result = result_of(done)
    counted = [int(server.stats()[name]) for server in servers
               for name in ("cas_hits", "cas_badval", "cas_misses")]
    assert sum(counted) == result["cas"] > 100


def test_a_report_names_the_operations(ucload_path, server_sock):
    host, port = server_sock.address
    done = subprocess.run([ucload_path, f"-s{host}:{port}", "-n2000", "-m", "get:5,cas:5,gat:5"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = [line.split()[0] for line in done.stdout.splitlines()]
    assert {"get", "gat", "gets", "cas"} <= set(lines) and "append" not in done.stdout
    assert "changed before their cas" in done.stdout


@pytest.mark.parametrize(
    "args, words",
    [
        (["-m", "get=9,frob=1"], "is no mix: give operations of get, set"),
        (["-m", "gets"], "is no mix"),
        (["-m", "get=x"], "is no mix"),
        (["-m", "append", "--value-size=5000"], "values of at most 4096 bytes"),
    ],
)
def test_wrong_mixes(load, server_sock, args, words):
    done = load(server_sock, *args)
    assert done.returncode == 64 and words in done.stderr, done.stderr
