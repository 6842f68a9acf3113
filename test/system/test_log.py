# SPDX-License-Identifier: BSD-3-Clause
"""Lines on stderr: what they say at -v and -vv; a full pipe blocks no worker."""

import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest
import server as servers
from wire import STORED, Wire, settles, storage


def test_full_pipe_blocks_no_worker(ucached_path):
    port = servers.free_port()
    process = subprocess.Popen(
        [ucached_path, "-p", str(port), "-t", "1", "-vv", "-u", "root", "-l", "127.0.0.1"],
        stderr=subprocess.PIPE,
    )
    try:
        # Reads the first lines, then nothing more.
        while b"listening" not in process.stderr.readline():
            pass
        for _ in range(2500):  # two lines of some 40 bytes each: more than a pipe of 64 KiB takes
            with socket.create_connection(("127.0.0.1", port), timeout=60):
                pass
        wire = Wire(socket.create_connection(("127.0.0.1", port), timeout=60))
        wire.say(storage(b"set", b"k", b"v"), STORED)
        assert int(wire.stats("sock")["log_lines_dropped"]) > 0
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def wait_for_line(server, pattern):
    """The log is written by a thread of its own."""
    end = time.monotonic() + 60
    while not (found := re.search(pattern, server.log())):
        assert time.monotonic() < end, server.log()
        time.sleep(0.02)
    return found


@pytest.mark.server_args("-vv", "-t", "1")
def test_commands_and_replies(server):
    """First lines in order, with the number of the connection, and no values."""
    with server.connect() as connection:
        for request, end in (
            (storage(b"set", b"key", b"secret"), STORED),
            (b"get key\r\n", b"END\r\n"),
            (b"get key none\r\n", b"END\r\n"),
            (b"ms key 6\r\nsecret\r\n", b"HD\r\n"),
            (b"nonsense\r\n", b"ERROR\r\n"),
            (b"set big 0 0 70000\r\n" + b"secret" * 11666 + b"abcd\r\n", STORED),
            (b"delete none\r\n", b"NOT_FOUND\r\n"),
            (b"verbosity 0\r\n", b"OK\r\n"),
            (b"get quiet\r\n", b"END\r\n"),
        ):
            connection.ask(request, end)
    number = wait_for_line(server, r"<(\d+) set key 0 0 6")[1]
    wait_for_line(server, f">{number} OK")
    lines = re.findall(rf"^([<>]){number} (.*)$", server.log(), re.MULTILINE)
    lines = lines[lines.index(("<", "set key 0 0 6")):]  # the first connection had the number too
    assert [f"{direction}{text}" for direction, text in lines] == [
        "<set key 0 0 6", ">STORED", "<get key", ">VALUE key 0 6", "<get key none",
        ">VALUE key 0 6", "<ms key 6", ">HD", "<nonsense", ">ERROR", "<set big 0 0 70000",
        ">STORED", "<delete none", ">NOT_FOUND", "<verbosity 0", ">OK",
    ]  # fmt: skip
    assert "secret" not in server.log()


@pytest.mark.server_args("-v", "-t", "1", "-c", "1")
def test_refusals_and_sighup(server_sock):
    with server_sock.connect() as connection:
        connection.ask(b"version\r\n")
        with server_sock.connect() as refused:
            refused.rest()
        wait_for_line(server_sock, r"127\.0\.0\.1 port \d+: refused, too many connections")
    server_sock.signal(signal.SIGHUP)
    wait_for_line(server_sock, "SIGHUP: nothing to read again")


@pytest.mark.server_args("-vv", "-t", "1", "--log-format=json", "-c", "2")
def test_json(server):
    """Each line is an object; its level is that of what happened."""
    with server.connect() as connection:
        connection.ask(b'get "a\\\x01\r\n', b"END\r\n")
        with server.connect(), server.connect() as refused:
            refused.rest()
        wait_for_line(server, "refused")
    server.signal(signal.SIGHUP)
    wait_for_line(server, "nothing to read again")
    lines = [json.loads(line) for line in server.log().splitlines()]
    levels = {line["message"].partition(" ")[0]: line["level"] for line in lines}
    assert levels["listening"] == "info" and levels["SIGHUP:"] == "info"
    assert [line["level"] for line in lines if line["message"].endswith(' get "a\\?')] == ["debug"]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
               for line in lines)  # fmt: skip


def test_json_errors(ucached_path, tmp_path):
    """Errors at the start too, with names that are not UTF-8, and long ones cut."""
    for name, shown in ((b"\xc3\xbc\"", "\u00fc\""), (b"\xff", "\u00ff"), (b"n" * 3000, "nnn")):
        command = [ucached_path, "--log-format=json", "-u", name]
        done = subprocess.run(command, capture_output=True, timeout=60)
        [line] = done.stderr.decode().splitlines()
        line = json.loads(line)
        assert line["level"] == "error" and shown in line["message"]
        assert len(line["message"]) <= 1000


@pytest.mark.server_args("-v", "-t", "1", "-c", "1")
def test_lines_of_clients_are_limited(server_sock):
    """At most 20 per second; a later line says how many were left out."""
    with server_sock.connect() as connection:
        connection.ask(b"version\r\n")
        for _ in range(100):
            with server_sock.connect() as refused:
                refused.rest()

        def one_more():
            with server_sock.connect() as refused:
                refused.rest()
            return re.search(r"\d+ lines like the next one were left out", server_sock.log())

        assert settles(one_more)
    assert server_sock.log().count("refused, too many") < 100
