# SPDX-License-Identifier: BSD-3-Clause
"""docs/cluster.md: its configurations are read from the page and run; its simulation, too."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

import netspace
import pool
import pytest
from test_scale_out import hash_client, start_pool, values  # noqa: F401
from wire import settles

ROOT = pathlib.Path(__file__).resolve().parents[2]
OWN = ("uring", "xdp", "tap")
KEYS = [f"key-{number}" for number in range(300)]


def run_python(members, tmp_path, name):
    """Runs a script of the page where the clients are. Returns what it prints."""
    script = tmp_path / name
    script.write_text(pool.block(name))
    done = members[0].network.client.run(subprocess.run, [sys.executable, script], text=True,
                                         capture_output=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_clients_that_hash(start_pool, tmp_path):  # noqa: F811
    members = start_pool(OWN)
    assert run_python(members, tmp_path, "hash.py") == "b'world'\n"
    assert len(pool.holders(members, ["hello"])) == 1


def test_auto_discovery(start_pool, tmp_path):  # noqa: F811
    path = tmp_path / "servers"
    path.write_text(pool.block("/etc/ucached/servers"))
    members = start_pool(OWN, "-o", f"cluster_file={path}")
    assert run_python(members, tmp_path, "discovery.py") == "b'world'\n"
    assert len(pool.holders(members, ["hello"])) == 1


def test_mcrouter_is_well_formed():
    (text,) = [block for block in pool.blocks() if block.startswith("{")]
    config = json.loads(text)
    servers = config["pools"]["ucached"]["servers"]
    assert servers == [f"{pool.address(index)}:{pool.PORT}" for index in range(3)]
    assert config["route"] == "PoolRoute|ucached"


SSH = """#!/bin/sh
# Stands in for ssh: asks the test to restart the server, and waits.
[ "$2 $3 $4" = "systemctl restart ucached" ] || exit 1
: >"$REQUESTS/$1"
while [ -e "$REQUESTS/$1" ]; do sleep 0.05; done
"""


def test_rolling_upgrade(start_pool, tmp_path):  # noqa: F811
    """The script of the page restarts each server, and all items are there afterwards."""
    members = start_pool(("uring", "uring", "uring"))
    files = [f"/dev/shm/{tmp_path.name}-{os.getpid()}-{member.index}" for member in members]
    for member, file in zip(members, files, strict=True):
        member.stop()
        member.args = ("-e", file)
        member.start()
    hash_client(members).set_many(values(KEYS), noreply=False)
    requests = tmp_path / "requests"
    requests.mkdir()
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    (tmp_path / "roll.sh").write_text(pool.block("roll.sh"))
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "REQUESTS": str(requests)}
    process = members[0].network.client.popen(["sh", "-e", tmp_path / "roll.sh"], env=env)
    restarted = []
    try:
        while process.poll() is None:
            for member in members:
                if (requests / member.host).exists():
                    member.server.signal(signal.SIGTERM)
                    assert member.server.wait() == 0
                    member.start()
                    restarted.append(member.host)
                    (requests / member.host).unlink()
        assert process.returncode == 0 and restarted == [member.host for member in members]
        assert hash_client(members).get_many(KEYS) == values(KEYS)
    finally:
        process.kill()
        process.wait()
        for file in files:
            pathlib.Path(file).unlink(missing_ok=True)


# ---- make cluster -------------------------------------------------------------------------------


def test_make_cluster(ucached_path, tap_obstacle, tmp_path):
    """tools/cluster starts all, its line works when pasted, and it leaves nothing behind."""
    if tap_obstacle:
        pytest.skip(f"namespaces: {tap_obstacle}")
    space = netspace.NetSpace()
    space.run(subprocess.run, ["ip", "link", "set", "lo", "up"], check=True, timeout=60)
    words = [ROOT / "tools" / "cluster", ucached_path, "-m", "64"]
    process = space.popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    errors = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True)
    reader.start()
    try:
        line = None
        while (text := process.stdout.readline()) and "Ctrl-C" not in text:
            line = text if "nc -w" in text else line
        assert line, errors
        done = space.run(subprocess.run, ["sh", "-c", line], capture_output=True, timeout=60)
        assert done.stdout == b"STORED\r\nVALUE hello 0 5\r\nworld\r\nEND\r\n"
        again = space.run(subprocess.run, words, capture_output=True, text=True, timeout=60)
        assert again.returncode == 1 and "another one runs" in again.stderr
    finally:
        process.terminate()
        process.stdout.close()
        assert process.wait(20) == 0
        reader.join(20)

    def links():
        return space.run(subprocess.run, ["ip", "-br", "link"], capture_output=True, text=True,
                         check=True, timeout=60).stdout  # fmt: skip

    assert settles(lambda: "ucached" not in links())
    space.close()


# ---- the simulation -----------------------------------------------------------------------------


@pytest.mark.long
def test_simulation_is_repeated(tmp_path):
    """The table of the page is what the program prints."""
    plot = tmp_path / "plot.svg"
    done = subprocess.run([sys.executable, ROOT / "sim" / "pool.py", "--plot", plot], check=True,
                          capture_output=True, text=True, timeout=280)  # fmt: skip
    page = (ROOT / "docs" / "cluster.md").read_text()
    for line in done.stdout.splitlines():
        assert line in page
    assert plot.read_text().count("<polyline") == 4
    assert (ROOT / "docs" / "cluster.svg").read_text().count("<polyline") == 4


def test_simulation_in_small():
    """Warming takes away the misses of a new server; modulo moves most keys, ketama a share."""
    spec = importlib.util.spec_from_file_location("sim_pool", ROOT / "sim" / "pool.py")
    sim = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sim)
    results = {title: sim.run(2000, 60_000, ring(), change)
               for title, (ring, change) in sim.SCENARIOS.items()}  # fmt: skip
    moved = {title: result.moved for title, result in results.items()}
    assert 0.15 < moved["a fourth joins"] < 0.35 < moved["a fourth joins, modulo"]
    middle = sim.WINDOWS // 2
    cold, warm = (sum(results[title].misses[middle : middle + 5])
                  for title in ("a fourth joins", "a fourth joins, warmed"))  # fmt: skip
    assert warm < cold
