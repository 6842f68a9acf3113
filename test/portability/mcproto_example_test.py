# SPDX-License-Identifier: BSD-3-Clause
"""The example server of libmcproto: built as its user would, and a client talks to it."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "examples" / "mcproto" / "server.c"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """A running example, made of its source and the amalgamated library alone."""
    folder = tmp_path_factory.mktemp("example")
    library = folder / "mcproto"
    library.mkdir()
    program = folder / "server"
    number = free_port()
    subprocess.run(
        [sys.executable, ROOT / "tools" / "amalgamate.py", "mcproto", library], check=True
    )
    subprocess.run(
        ["cc", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-I", folder, SOURCE,
         library / "mcproto.c", "-pthread", "-o", program],
        check=True,
    )  # fmt: skip
    server = subprocess.Popen([program, str(number)])
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", number)) == 0:
                break
        time.sleep(0.05)
    yield number
    assert server.poll() is None, "the server has died"
    server.kill()
    server.wait()


def test_it_is_short():
    assert len(SOURCE.read_text().splitlines()) < 150


def test_a_client_can_use_it(port):
    pymemcache = pytest.importorskip("pymemcache")
    client = pymemcache.Client(("127.0.0.1", port), timeout=5, default_noreply=False)
    other = pymemcache.Client(("127.0.0.1", port), timeout=5)
    assert client.version() == b"1.6.45"
    assert client.get("none") is None
    assert client.set("key", b"value\r\nof two lines", flags=7)
    assert other.get("key") == b"value\r\nof two lines"
    assert client.set("empty", b"")
    assert client.get_many(["key", "none", "empty"]) == {
        "key": b"value\r\nof two lines",
        "empty": b"",
    }
    other.set("key", b"x" * 8192, noreply=True)
    assert other.get("key") == b"x" * 8192
    with pytest.raises(pymemcache.exceptions.MemcacheUnknownCommandError):
        client.incr("key", 1)
    assert client.get("empty") == b""


@pytest.mark.parametrize("step", [1, 5, 1000])
def test_the_replies_are_memcacheds(port, step):
    request = (
        b"set m 5 0 3\r\nabc\r\nget m x\r\nmg m s v k Oq\r\nmg Zm9v b k O1\r\nmn\r\n"
        b"set m x 0 1\r\ny\r\nset m 0 0 1\r\nxyz\r\nmg m !\r\nfoo\r\nset m 0 0 1 noreply\r\nx\r\n"
        b"mg m v\r\nquit\r\nget m\r\n"
    )
    reply = (
        b"STORED\r\nVALUE m 5 3\r\nabc\r\nEND\r\nVA 3 s3 km Oq\r\nabc\r\nEN kZm9v b O1\r\nMN\r\n"
        b"CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad data chunk\r\n"
        b"CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\n"
        b"ERROR\r\nVA 1\r\nx\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        for at in range(0, len(request), step):
            connection.sendall(request[at : at + step])
            if at > request.index(b"quit") + 5:
                break
        got = b""
        while part := connection.recv(65536):
            got += part
    assert got == reply


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1\r\n", b"set k 0 0 8193\r\n", b"x" * 20000])
def test_it_hangs_up(port, line):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(line)
        try:
            assert connection.recv(1) == b""
        except ConnectionResetError:
            pass
