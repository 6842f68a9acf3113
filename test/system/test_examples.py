# SPDX-License-Identifier: BSD-3-Clause
"""The example programs that need a network; docs/embedding.md."""

import pathlib
import socket
import subprocess
import threading

import netspace
import pytest
from server import IO_TIMEOUT


@pytest.fixture
def tap_client(ucached_path):
    """The program, which the same build has made."""
    program = pathlib.Path(ucached_path).parents[2] / "examples" / "tap_client"
    if not program.is_file():
        pytest.fail(f"{program} is not built")
    return program


@pytest.fixture
def tap(tap_obstacle):
    """A namespace with tap0, whose host's side is 10.7.0.1."""
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    space = netspace.NetSpace()
    for command in (
        "tuntap add dev tap0 mode tap",
        "addr add 10.7.0.1/24 dev tap0",
        "link set tap0 up",
    ):
        space.run(subprocess.run, ["ip", *command.split()], check=True, timeout=IO_TIMEOUT)
    yield space
    space.close()


def ask(program, space, port, text):
    command = [program, "tap0", "10.7.0.2", "10.7.0.1", str(port), text]
    return space.run(subprocess.run, command, capture_output=True, timeout=60, text=True)


def test_tap_client_gets_an_answer(tap_client, tap):
    """The kernel echoes 300 KB, more than a window."""
    listener = tap.run(socket.create_server, ("10.7.0.1", 7777))
    listener.settimeout(IO_TIMEOUT)
    asked = []

    def serve():
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(IO_TIMEOUT)
            while data := connection.recv(4096):
                asked.append(data)
            connection.sendall(b"answer\n" * 50_000)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    done = ask(tap_client, tap, 7777, "a question")
    thread.join(IO_TIMEOUT)
    listener.close()
    assert done.returncode == 0, done.stderr
    assert b"".join(asked) == b"a question"
    assert done.stdout == "answer\n" * 50_000


def test_tap_client_is_refused(tap_client, tap):
    done = ask(tap_client, tap, 7778, "a question")
    assert done.returncode == 1 and done.stdout == ""


def test_tap_client_prints_its_usage(tap_client):
    done = subprocess.run([tap_client], capture_output=True, timeout=60, text=True)
    assert done.returncode == 2 and "usage" in done.stderr


def test_tap_server_echoes(ucached_path, tap):
    """300 KB at once: many times what it can hold, so its window closes and opens again."""
    program = pathlib.Path(ucached_path).parents[2] / "examples" / "tap_server"
    server = tap.popen([str(program), "tap0", "10.7.0.2", "7"])
    try:
        for _ in range(3):
            sock = tap.run(socket.create_connection, ("10.7.0.2", 7), IO_TIMEOUT)
            sent = bytes(range(256)) * 1200
            sender = threading.Thread(target=sock.sendall, args=(sent,), daemon=True)
            sender.start()
            got = b""
            while len(got) < len(sent):
                data = sock.recv(65536)
                assert data, "it closed the connection"
                got += data
            sender.join(IO_TIMEOUT)
            sock.close()
            assert got == sent
        assert server.poll() is None
    finally:
        server.kill()
        server.wait()
