# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the fixtures themselves: that they start, isolate, observe and stop as they say."""

import os
import signal
import socket
import sys
import threading
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netspace
from server import ServerError


def names(space):
    return {name for _, name in space.run(socket.if_nameindex)}


@pytest.fixture
def space(tap_obstacle):
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    space = netspace.NetSpace()
    yield space
    space.close()


def test_the_server_answers_a_raw_connection(server):
    with server.connect() as connection:
        assert connection.ask(b"set key 5 0 3\r\nabc\r\n") == b"STORED\r\n"
        assert connection.ask(b"get key\r\n", end=b"END\r\n") == b"VALUE key 5 3\r\nabc\r\nEND\r\n"
        assert connection.silent(0.05)
        connection.send(b"quit\r\n")
        assert connection.rest() == b""


def test_the_server_answers_a_client_library(server):
    with closing(server.client()) as client:
        assert client.set("key", b"value", noreply=False)
        assert client.get("key") == b"value"


@pytest.mark.server_args("-m", "8")
def test_the_server_takes_further_arguments(server):
    assert server.stats()["limit_maxbytes"] == str(8 * 1024 * 1024)


def test_the_server_can_be_reached_by_a_program(server):
    script = (
        "import socket, sys\n"
        "s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)\n"
        "s.sendall(b'version\\r\\n')\n"
        "print(s.recv(100).decode())\n"
    )
    host, port = server.address
    done = server.run(
        [sys.executable, "-c", script, host, str(port)], capture_output=True, text=True
    )
    assert done.stdout.startswith("VERSION "), done.stderr


def test_two_tap_servers_do_not_meet(start_server):
    first = start_server("tap")
    second = start_server("tap")
    assert first.address == second.address
    with closing(first.client()) as one, closing(second.client()) as two:
        one.set("key", b"first", noreply=False)
        assert two.get("key") is None
    assert "ucached0" in names(first.space) & names(second.space) - names(netspace.HostSpace())


def test_memcached_is_an_oracle(memcached):
    with closing(memcached.client()) as client:
        client.set("key", b"value", noreply=False)
        assert client.get("key") == b"value"
    assert memcached.stats()["pid"] == str(memcached.pid)


def test_a_server_lasts_for_all_examples_of_hypothesis(start_server):
    server = start_server("memcached")
    with closing(server.client()) as client:

        @settings(max_examples=20, deadline=None)
        @given(st.binary(max_size=100))
        def returns_what_was_stored(value):
            client.set("key", value, noreply=False)
            assert client.get("key") == value

        returns_what_was_stored()


def test_a_server_that_died_is_reported(memcached):
    memcached.signal(signal.SIGKILL)
    os.waitid(os.P_PID, memcached.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ServerError, match="it died during the test, status -9"):
        memcached.stop()


def test_a_server_that_does_not_start_shows_its_log(start_server):
    with pytest.raises(ServerError, match="(?s)status [1-9].*log:\n.+"):
        start_server("memcached", "--no-such-option")


def test_a_socket_stays_in_the_space(space):
    with socket.socket() as outside, space.run(socket.socket) as inside:
        outside.bind(("127.0.0.1", 0))
        outside.listen()
        with pytest.raises(OSError):
            inside.connect(outside.getsockname())


def test_a_space_leaves_the_other_threads_where_they_are(space):
    def current():
        return os.readlink("/proc/thread-self/ns/net")

    before = current()
    assert space.run(current) != before
    assert current() == before
    seen = []
    thread = threading.Thread(target=lambda: seen.append(current()))
    thread.start()
    thread.join()
    assert seen == [before]


def test_an_error_inside_a_space_comes_out(space):
    with pytest.raises(ZeroDivisionError):
        space.run(lambda: 1 / 0)
