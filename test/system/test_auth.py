# SPDX-License-Identifier: BSD-3-Clause
"""Authentication (-Y): who may speak, and that SIGHUP reads the file again."""

import signal

import pytest
from wire import settles, wire_to

UNAUTHENTICATED = b"CLIENT_ERROR unauthenticated\r\n"
FAILURE = b"CLIENT_ERROR authentication failure\r\n"
BINARY_VERSION = bytes.fromhex("800b0000000000000000000000000000" + "0000000000000000")


def token(text):
    return b"set any 0 0 %d\r\n%s\r\n" % (len(text), text)


@pytest.fixture
def users(tmp_path):
    path = tmp_path / "users"
    path.write_text("foo:bar\nother:two words:x\n")
    return path


@pytest.fixture(params=["sock", "tap"])
def server(request, start_server, users):
    return start_server(request.param, "-Y", users)


def test_nothing_before_the_token(server):
    with wire_to(server) as wire:
        wire.send(b"get foo\r\nversion\r\n" + token(b"foo baz") + token(b"foo bar"))
        wire.expect(UNAUTHENTICATED * 2 + FAILURE + b"STORED\r\n")
        wire.say(b"set a 0 0 1\r\nx\r\nget a\r\n", b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n")
        assert wire.stats()["auth_cmds"] == "2"
        assert wire.stats()["auth_errors"] == "1"


def test_each_connection_for_itself(server):
    with wire_to(server) as first, wire_to(server) as second:
        first.send(token(b"other two words:x"))
        first.expect(b"STORED\r\n")
        second.send(b"version\r\n")
        second.expect(UNAUTHENTICATED)
        first.say(b"", b"")


def test_the_binary_protocol_is_refused(server):
    with wire_to(server) as wire:
        wire.send(BINARY_VERSION + b"\r\n")
        wire.expect(UNAUTHENTICATED)


def test_short_lines_close(server):
    for line in (b"quit\r\n", b"mn\r\n", b"\r\n"):
        with wire_to(server) as wire:
            wire.send(line)
            wire.ends_with(b"")


def test_reload(server, users):

    def answer(text):
        with wire_to(server) as wire:
            wire.send(token(text))
            return wire.line()

    users.write_text("foo:new\n")
    server.signal(signal.SIGHUP)
    assert settles(lambda: answer(b"foo new") == b"STORED\r\n")
    assert answer(b"foo bar") == FAILURE
    users.write_text("this is no user\n")
    server.signal(signal.SIGHUP)
    assert not settles(lambda: answer(b"foo new") != b"STORED\r\n", seconds=0.5)
