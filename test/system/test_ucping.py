# SPDX-License-Identifier: BSD-3-Clause
"""ucping: both roles over both transports, every byte checked by the other side."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import netspace
import pytest
from server import free_port


@pytest.fixture(scope="session")
def ucping_path(ucached_path):
    path = pathlib.Path(ucached_path).parent.parent / "ucping" / "ucping"
    assert os.access(path, os.X_OK), f"no program {path}: build it"
    return str(path)


@pytest.fixture
def peers(ucping_path, tap_obstacle):
    """Starts a server in a namespace; returns how to reach it and how to run a client."""
    started = []

    class Pair:
        def __init__(self, server_io, client_io):
            if tap_obstacle and "tap" in (server_io, client_io):
                pytest.skip(f"tap: {tap_obstacle}")
            self.space = netspace.NetSpace()
            self.run_in("ip", "link", "set", "lo", "up")
            self.client_io = client_io
            self.address = "10.100.0.20" if server_io == "tap" else "127.0.0.1"
            if client_io == "tap":
                self.address = "10.100.0.10"
            self.server = self.space.popen(
                [ucping_path, "--listen", f"--io={server_io}"], stderr=subprocess.PIPE, text=True)
            started.append(self)
            self.server.stderr.readline()
            time.sleep(0.1)

        def run_in(self, *command):
            return self.space.run(subprocess.run, command, check=True, capture_output=True)

        def ping(self, *args, status=0):
            command = [ucping_path, f"--io={self.client_io}", "--json", *args, self.address]
            done = self.space.run(subprocess.run, command, capture_output=True, text=True,
                                  timeout=60)
            assert done.returncode == status, done.stderr
            return json.loads(done.stdout) if status == 0 else done.stderr

        def close(self):
            self.server.send_signal(signal.SIGTERM)
            status = self.server.wait(20)
            self.server.stderr.close()
            self.space.close()
            return status

    yield Pair
    for pair in started:
        assert pair.close() == 0


WAYS = [("sock", "sock"), ("tap", "sock"), ("sock", "tap")]


@pytest.mark.parametrize("server_io, client_io", WAYS)
def test_ping(peers, server_io, client_io):
    pair = peers(server_io, client_io)
    result = pair.ping("-n", "200")
    assert result["rounds"] == 200 and 0 < result["round_trip_us"]["p50"] < 100_000
    assert pair.ping("-n", "50", "-c", "20", "-b", "3000")["rounds"] == 1000
    assert pair.ping("-n", "3", "-b", "65536")["rounds"] == 3
    assert pair.ping("-T", "0.2", "--poll")["rounds"] > 10


@pytest.mark.parametrize("server_io, client_io", WAYS)
@pytest.mark.parametrize("mode", ["send", "receive"])
def test_bulk(peers, server_io, client_io, mode):
    pair = peers(server_io, client_io)
    result = pair.ping("-m", mode, "-n", "20m", "-c", "2")
    assert result["moved_bytes"] == 40 << 20 and result["gbit_per_second"] > 0
    for switch in ("--zero-copy=off", "--tso=off", "--csum=off"):
        assert pair.ping("-m", mode, "-n", "3m", switch)["moved_bytes"] == 3 << 20
    assert pair.ping("-m", mode, "-T", "0.2")["moved_bytes"] > 100_000


def answer_once(listener, reply):
    sock, _ = listener.accept()
    with sock:
        sock.recv(64)
        sock.sendall(reply)
        time.sleep(0.2)


def test_a_wrong_byte_is_found(ucping_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        client = subprocess.Popen([ucping_path, f"127.0.0.1:{port}", "-n1"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        answer_once(listener, b"x" * 16)
        _, err = client.communicate(timeout=20)
    assert client.returncode == 1 and "wrong byte" in err


def test_the_server_drops_who_does_not_speak_its_language(peers):
    pair = peers("sock", "sock")

    def talk(data):
        with socket.create_connection(("127.0.0.1", 7007), 5) as sock:
            sock.sendall(data)
            try:
                return sock.recv(100)
            except ConnectionResetError:
                return b""

    assert pair.space.run(talk, b"GET / HTTP/1.1\r\n\r\n") == b""
    assert pair.space.run(talk, b"ucping1p" + bytes(8) + b"another text") == b""
    assert pair.ping("-n", "5")["rounds"] == 5


def test_nobody_there(ucping_path):
    done = subprocess.run([ucping_path, f"127.0.0.1:{free_port()}"], capture_output=True,
                          text=True, timeout=20)
    assert done.returncode == 69 and "Connection refused" in done.stderr


@pytest.mark.parametrize("args", [["-b0"], ["-b65537"], ["-mx"], ["--csum=maybe"], ["a", "b"],
                                  ["-T0"], ["--what"], ["-c"], ["--mtu=1", "--io=tap"]])
def test_wrong_options(ucping_path, args):
    done = subprocess.run([ucping_path, *args], capture_output=True, text=True, timeout=20)
    assert done.returncode == 64 and re.match(r"ucping: .+\nucping --help", done.stderr)


def test_help(ucping_path):
    done = subprocess.run([ucping_path, "--help"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and "--zero-copy" in done.stdout and "Examples:" in done.stdout
