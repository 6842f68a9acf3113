# SPDX-License-Identifier: BSD-3-Clause
"""Runs of ucload, and what they print."""

import json
import signal
import subprocess
import time

import pytest
from wire import settles


@pytest.fixture
def load(ucload_path):
    """Runs ucload against a server of the fixtures; returns the CompletedProcess."""

    def load(server, *args, timeout=60):
        host, port = server.address
        command = [ucload_path, f"--server={host}:{port}", *map(str, args)]
        return server.run(command, timeout=timeout, capture_output=True, text=True)

    return load


def result_of(done, status=0):
    """
    The result of a run, whose exit status agrees with it: a busy machine may not reach the rate of
    an open loop, and only then is the status 75 instead of 0.
    """
    assert done.returncode in (status, 75), done.stderr
    result = json.loads(done.stdout)
    one_rate = "slo" not in result and "scan" not in result
    behind = one_rate and result["requests_per_second"] < 0.9 * result["offered_per_second"]
    assert done.returncode == (75 if behind and status == 0 else status), done.stderr
    return result


def requests_arrive(server, count=100):
    """Waits until a server has answered more requests than the preload of a client."""
    before = int(server.stats()["cmd_get"])
    assert settles(lambda: int(server.stats()["cmd_get"]) >= before + count, pause=0.01)


def stop_for(server, seconds):
    requests_arrive(server)
    server.signal(signal.SIGSTOP)
    time.sleep(seconds)
    server.signal(signal.SIGCONT)


def seconds_of(ucload_path, server, count, *args):
    """Runs ucload until it has reported so many seconds, then interrupts it; returns its JSON."""
    host, port = server.address
    command = [ucload_path, f"-s{host}:{port}", "-T300", "--json", "--progress", *map(str, args)]
    client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = [client.stderr.readline()]
    try:
        while sum("requests/s  p50 " in line for line in lines) < count and lines[-1]:
            lines.append(client.stderr.readline())
        client.send_signal(signal.SIGINT)
        out, err = client.communicate(timeout=60)
    finally:
        client.kill()
        client.wait()
    return json.loads(out), "".join(lines) + err
