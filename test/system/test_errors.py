# SPDX-License-Identifier: BSD-3-Clause
"""Invalid lines: the exact reply, and whether the connection stays open."""

import contextlib

import pytest
from shared import shared_server, wire  # noqa: F401
from wire import BAD_FORMAT, MISS, STORED, hit, storage, wire_to

ERROR = b"ERROR\r\n"


@pytest.mark.parametrize(
    "line,reply",
    [
        (b"\r\n", BAD_FORMAT),
        (b"\n", BAD_FORMAT),
        (b"a\r\n", BAD_FORMAT),
        (b"ab\n", BAD_FORMAT),
        (b"   \r\n", ERROR),
        (b"ab\r\n", ERROR),
        (b"foo\r\n", ERROR),
        (b"foo bar baz\r\n", ERROR),
        (b" get a\r\n", ERROR),
        (b"GET a\r\n", ERROR),
        (b"Get a\r\n", ERROR),
        (b"gett a\r\n", ERROR),
        (b"get\ta\r\n", ERROR),
        (b"\0\0\0\0\r\n", ERROR),
        (b"\xff\xfe\xfd\r\n", ERROR),
        (b"foo noreply\r\n", b""),
        (b"foo bar noreply\r\n", b""),
        (b"foo noreply bar\r\n", ERROR),
        (b"foo Noreply\r\n", ERROR),
        (b"setx k 0 0 1\r\n", ERROR),
        (b"incrdecr\r\n", ERROR),
        (b"flush_al\r\n", ERROR),
        (b"flush_allx\r\n", ERROR),
        (b"verbosityverbosity 1\r\n", ERROR),
        (b"x" * 2000 + b"\r\n", ERROR),
        (b"foo " + b"a " * 500 + b"\r\n", ERROR),
        (b"get a\r\r\n", MISS),
        (b"\r\r\r\r\n", ERROR),
    ],
    ids=lambda v: repr(v[:24]),
)
def test_bad_line_is_answered_and_the_next_one_works(wire, line, reply):
    wire.say(storage(b"set", b"k", b"x"), STORED)
    wire.say(line + b"get k\r\n", reply + hit(b"k", b"x") + MISS)


def test_many_errors_in_one_segment(wire):
    wire.say(b"foo\r\n\r\n" * 1000, (ERROR + BAD_FORMAT) * 1000)


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /x HTTP/1.0\r\nget k\r\n",
        b"foo HTTP/2\r\n",
    ],
    ids=lambda v: repr(v[:16]),
)
def test_browsers_are_hung_up_on(wire, shared_server, line):
    with wire_to(shared_server) as browser:
        browser.send(b"get none\r\n" + line)
        browser.ends_with(MISS)
    wire.say(b"get none\r\n", MISS)


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 3000,
        b"set " + b"k" * 3000,
        b"incr " + b"1" * 3000,
        b"get " + b"k " * 17_000_000,
        b"\0" * 5000,
        b" " * 3000,
        b"getx " + b"k " * 2000,
        b"geta" * 1000,
    ],
    ids=lambda v: repr(v[:12]),
)
def test_endless_line_ends_the_connection(wire, shared_server, data):
    with wire_to(shared_server) as other:
        with contextlib.suppress(BrokenPipeError):  # it may close while we still send
            other.send(b"get none\r\n" + data)
        other.ends_with(MISS)
    wire.say(b"get none\r\n", MISS)


def test_line_just_below_the_limit_waits_for_its_end(wire):
    wire.send(b"x" * 2048)
    assert wire.silent(0.1)
    wire.say(b"\r\n", ERROR)


def test_error_affects_one_connection_only(wire, shared_server):
    with wire_to(shared_server) as other:
        other.send(b"set k 0 0 100\r\nhalf of it")
        wire.say(b"foo\r\nget k\r\n", ERROR + MISS)
        other.send(b"." * 90)
        other.send(b"\r\n")
        other.expect(STORED)
    wire.say(b"get k\r\n", hit(b"k", b"half of it" + b"." * 90) + MISS)
