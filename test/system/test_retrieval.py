# SPDX-License-Identifier: BSD-3-Clause
"""get, gets, gat, gats, touch, delete."""

import re

import pytest
from shared import shared_server, wire  # noqa: F401
from wire import BAD_FORMAT, MISS, STORED, hit, storage

BAD_EXPTIME = b"CLIENT_ERROR invalid exptime argument\r\n"
LONG = b"k" * 251


@pytest.fixture
def filled(wire):
    """a..e hold A..E with flags 1..5."""
    for number, key in enumerate(b"abcde", 1):
        wire.say(storage(b"set", bytes([key]), bytes([key - 32]), number), STORED)
    return wire


def hits(names: bytes) -> bytes:
    return b"".join(hit(bytes([n]), bytes([n - 32]), n - 96) for n in names)


@pytest.mark.parametrize(
    "request_,names",
    [
        (b"get a\r\n", b"a"),
        (b"get a\n", b"a"),
        (b"get  a  \r\n", b"a"),
        (b"get z\r\n", b""),
        (b"get a b c d e\r\n", b"abcde"),
        (b"get e d c b a\r\n", b"edcba"),
        (b"get a z b zz c\r\n", b"abc"),
        (b"get a a a\r\n", b"aaa"),
        (b"get z z\r\n", b""),
        (b"get" + b" a" * 100 + b"\r\n", b"a" * 100),
        (b"get" + b" z a" * 500 + b"\r\n", b"a" * 500),
        (b"get   a     b  \r\n", b"ab"),
        (b"get a\tb\r\n", b""),
        (b"get A\r\n", b""),
        (b"get noreply\r\n", b""),
        (b"get a noreply\r\n", b"a"),
        (b"gat 0 a b\r\n", b"ab"),
        (b"gat 0 z\r\n", b""),
        (b"gat  100  a   z e \r\n", b"ae"),
        (b"gat 0" + b" c" * 60 + b"\n", b"c" * 60),
        (b"get " + b"z" * 250 + b" a\r\n", b"a"),
    ],
    ids=lambda v: repr(v[:24]),
)
def test_hits_in_the_order_of_the_keys(filled, request_, names):
    filled.say(request_, hits(names) + MISS)


@pytest.mark.parametrize("command", [b"gets", b"gats 0"])
def test_with_cas_unique(filled, command):
    reply = filled.replies(command + b" a z b a\r\n")
    form = rb"VALUE a 1 1 (\d+)\r\nA\r\nVALUE b 2 1 (\d+)\r\nB\r\nVALUE a 1 1 (\d+)\r\nA\r\nEND\r\n"
    match = re.fullmatch(form, reply)
    assert match, reply
    first, second, third = (int(text) for text in match.groups())
    assert first == third and 0 < first < second


@pytest.mark.parametrize(
    "line", [b"get", b"gets", b"gat", b"gats", b"gat 0", b"gats 0", b"get ", b"gets  "]
)
def test_without_a_key(wire, line):
    wire.say(line + b"\r\n", BAD_FORMAT)


@pytest.mark.parametrize(
    "exptime", [b"x", b"1x", b"+1", b"99999999999", b"4294967296", b"1.5", b"-"]
)
@pytest.mark.parametrize("command", [b"gat %s a", b"gats %s a b", b"touch a %s"])
def test_bad_exptime(filled, command, exptime):
    filled.say(command % exptime + b"\r\nget a\r\n", BAD_EXPTIME + hits(b"a") + MISS)


@pytest.mark.parametrize(
    "line",
    [
        b"get " + LONG,
        b"gets " + LONG,
        b"gat 0 " + LONG,
        b"gats 0 " + LONG,
        b"get a " + LONG,
        b"get " + LONG + b" a",
        b"get a b " + LONG + b" c d",
        b"get " + b"k" * 1000,
    ],
    ids=lambda v: f"{v[:12].decode()}..{len(v)}",
)
def test_key_too_long_is_one_error(filled, line):
    filled.say(
        b"get b\r\n" + line + b"\r\nget c\r\n", hits(b"b") + MISS + BAD_FORMAT + hits(b"c") + MISS
    )


def test_gat_in_the_past_returns_the_value_once(filled):
    filled.say(b"gat -1 a\r\nget a\r\n", hits(b"a") + MISS + MISS)


# ---- touch and delete -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_,reply",
    [
        (b"touch a 0\r\n", b"TOUCHED\r\n"),
        (b"touch z 0\r\n", b"NOT_FOUND\r\n"),
        (b"touch a 100 noreply\r\n", b""),
        (b"touch z 100 noreply\r\n", b""),
        (b"touch a -1\r\nget a\r\n", b"TOUCHED\r\n" + MISS),
        (b"touch a\r\n", BAD_FORMAT),
        (b"touch\r\n", BAD_FORMAT),
        (b"touch " + LONG + b" 0\r\n", BAD_FORMAT),
        (b"touch " + LONG + b" 0 noreply\r\n", b""),
        (b"touch a x noreply\r\n", b""),
        (b"touch a noreply\r\n", b""),
        (b"touch a 0 foo\r\n", b"TOUCHED\r\n"),
        (b"touch  a  0\n", b"TOUCHED\r\n"),
    ],
)
def test_touch(filled, request_, reply):
    filled.say(request_, reply)


@pytest.mark.parametrize(
    "request_,reply",
    [
        (b"delete a\r\n", b"DELETED\r\n"),
        (b"delete z\r\n", b"NOT_FOUND\r\n"),
        (b"delete a\r\ndelete a\r\n", b"DELETED\r\nNOT_FOUND\r\n"),
        (b"delete a noreply\r\nget a\r\n", MISS),
        (b"delete z noreply\r\n", b""),
        (b"delete a 0\r\nget a\r\n", b"DELETED\r\n" + MISS),
        (b"delete a 10\r\n", b"DELETED\r\n"),
        (b"delete a b c\r\nget b\r\n", b"DELETED\r\n" + hits(b"b") + MISS),
        (b"delete a 0 noreply\r\nget a\r\n", MISS),
        (b"delete\r\n", BAD_FORMAT),
        (b"delete " + LONG + b"\r\n", BAD_FORMAT),
        (b"delete " + LONG + b" noreply\r\n", b""),
        (b"delete noreply\r\n", b""),
    ],
)
def test_delete(filled, request_, reply):
    filled.say(request_, reply)


# ---- counting ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_,counted",
    [
        (b"get a\r\n", {"cmd_get": 1, "get_hits": 1}),
        (b"get z\r\n", {"cmd_get": 1, "get_misses": 1}),
        (b"get a b z\r\n", {"cmd_get": 3, "get_hits": 2, "get_misses": 1}),
        (b"gets a\r\n", {"cmd_get": 1, "get_hits": 1}),
        (b"gat 0 a z\r\n", {"cmd_touch": 2, "touch_hits": 1, "touch_misses": 1}),
        (b"touch a 0\r\n", {"cmd_touch": 1, "touch_hits": 1}),
        (b"touch z 0\r\n", {"cmd_touch": 1, "touch_misses": 1}),
        (b"delete a\r\n", {"delete_hits": 1}),
        (b"delete z\r\n", {"delete_misses": 1}),
        (b"incr z 1\r\n", {"incr_misses": 1}),
        (b"decr z 1\r\n", {"decr_misses": 1}),
        (
            storage(b"set", b"n", b"5") + b"incr n 1\r\ndecr n 1\r\n",
            {"cmd_set": 1, "incr_hits": 1, "decr_hits": 1},
        ),
        (storage(b"add", b"a", b"5") + storage(b"replace", b"z", b"5"), {"cmd_set": 2}),
        (storage(b"cas", b"a", b"5", tail=b" 0"), {"cmd_set": 1, "cas_badval": 1}),
        (storage(b"cas", b"z", b"5", tail=b" 0"), {"cmd_set": 1, "cas_misses": 1}),
        (b"flush_all\r\n", {"cmd_flush": 1}),
    ],
    ids=lambda v: repr(v[:20]) if isinstance(v, bytes) else "",
)
def test_counted_exactly(filled, request_, counted):
    names = (
        "cmd_get",
        "cmd_set",
        "cmd_touch",
        "cmd_flush",
        "get_hits",
        "get_misses",
        "touch_hits",
        "touch_misses",
        "delete_hits",
        "delete_misses",
        "incr_hits",
        "incr_misses",
        "decr_hits",
        "decr_misses",
        "cas_hits",
        "cas_misses",
        "cas_badval",
    )
    before = filled.stats()
    filled.replies(request_)
    after = filled.stats()
    difference = {name: int(after[name]) - int(before[name]) for name in names}
    assert {name: n for name, n in difference.items() if n} == counted
