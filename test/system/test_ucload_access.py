# SPDX-License-Identifier: BSD-3-Clause
"""How ucload reaches servers that ask for a password, and servers on unix sockets."""

import json
import pathlib
import subprocess

import pytest

MIX = "get:5,set:3,delete:1,incr:1,touch:1"


@pytest.fixture
def ucload(ucached_path):
    """Runs the ucload beside the ucached under test: ucload(server, *args)."""
    path = pathlib.Path(ucached_path).parent.parent / "ucload" / "ucload"

    def ucload(server, *args):
        address = server.address
        where = address if server.kind == "unix" else f"{address[0]}:{address[1]}"
        command = [path, f"--server={where}", "--json", "-n3000", "-c6", "-V", *map(str, args)]
        return server.run(command, timeout=60, capture_output=True, text=True)

    return ucload


def fully_answered(done):
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    return result["requests"] == 3000 and result["wrong"] == result["refused"] == 0


@pytest.mark.parametrize("kind", ["sock", "tap"])
@pytest.mark.parametrize("protocol", ["text", "meta", "binary"])
def test_login(ucload, start_server, tmp_path, kind, protocol):
    """Every connection logs in, again after each reconnect; a wrong password is reported."""
    users, right, wrong = (tmp_path / name for name in ("users", "right", "wrong"))
    users.write_text("bob:x\nalice:sec:ret\n")
    right.write_text("alice:sec:ret\n")
    wrong.write_text("alice:secret")
    more = ["-S"] if protocol == "binary" else []
    server = start_server(kind, "-Y", users, *more)
    load = ("-P", protocol, "-m", MIX)
    assert fully_answered(ucload(server, f"--auth={right}", *load))
    assert fully_answered(ucload(server, f"--auth={right}", "--reconnect=50", "-t2", *load))
    done = ucload(server, f"--auth={wrong}", *load)
    assert done.returncode == 69 and "refuses user and password" in done.stderr
    assert ucload(server, *load).returncode != 0


def test_files_without_a_login(ucload, server_sock, tmp_path):
    path = tmp_path / "login"
    for text, words in (("", "empty"), ("alice\n", "USER:PASSWORD"), (":x\n", "USER:PASSWORD"),
                        ("a:" + "x" * 500, "at most 400 bytes")):  # fmt: skip
        path.write_text(text)
        done = ucload(server_sock, f"--auth={path}")
        assert done.returncode == 64 and "--auth" in done.stderr and words in done.stderr
    done = ucload(server_sock, "--auth=/nonexistent")
    assert done.returncode == 64 and "No such file" in done.stderr


def test_unix_socket(ucload, start_server):
    server = start_server("unix")
    assert fully_answered(ucload(server, "-d4", "-m", MIX))
    assert fully_answered(ucload(server, "--reconnect=3", "-t2"))
    done = ucload(server, "--io=tap")
    assert done.returncode == 64 and "a unix socket needs --io=sock" in done.stderr


def test_no_unix_socket(ucload, start_server):
    server = start_server("unix")
    done = ucload(server, "--server=/nonexistent/socket")
    assert done.returncode == 69 and "cannot connect to /nonexistent/socket" in done.stderr
    done = ucload(server, f"--server=/{'x' * 200}")
    assert done.returncode == 64 and "too long" in done.stderr
