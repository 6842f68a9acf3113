# SPDX-License-Identifier: BSD-3-Clause
"""incr and decr: numbers of 64 bits in text."""

import pytest
from shared import shared_server, wire  # noqa: F401
from wire import BAD_FORMAT, MISS, STORED, hit, storage

MAX = 2**64 - 1
BAD_DELTA = b"CLIENT_ERROR invalid numeric delta argument\r\n"
NON_NUMERIC = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"


@pytest.mark.parametrize(
    "stored,request_,reply,value",
    [
        (b"0", b"incr k 1", b"1", b"1"),
        (b"9", b"incr k 1", b"10", b"10"),
        (b"99", b"incr k 901", b"1000", b"1000"),
        (b"5", b"incr k 0", b"5", b"5"),
        (b"5", b"incr k 007", b"12", b"12"),
        (b"10", b"decr k 1", b"9", b"9 "),
        (b"1000", b"decr k 999", b"1", b"1   "),
        (b"5", b"decr k 6", b"0", b"0"),
        (b"500", b"decr k 18446744073709551615", b"0", b"0  "),
        (b"%d" % MAX, b"incr k 1", b"0", b"0" + b" " * 19),
        (b"%d" % MAX, b"incr k 2", b"1", b"1" + b" " * 19),
        (b"1", b"incr k %d" % MAX, b"0", b"0"),
        (b"%d" % (MAX - 1), b"incr k 1", b"%d" % MAX, b"%d" % MAX),
        (b"%d" % MAX, b"decr k %d" % MAX, b"0", b"0" + b" " * 19),
        (b"9223372036854775807", b"incr k 1", b"9223372036854775808", b"9223372036854775808"),
        (b" 1", b"incr k 1", b"2", b"2 "),
        (b"1 ", b"incr k 1", b"2", b"2 "),
        (b"007", b"incr k 1", b"8", b"8  "),
        (b"12", b"incr  k  1  ", b"13", b"13"),
        (b"12", b"incr k 1 foo", b"13", b"13"),
    ],
)
def test_result_and_stored_value(wire, stored, request_, reply, value):
    wire.say(storage(b"set", b"k", stored, flags=3), STORED)
    wire.say(request_ + b"\r\n", reply + b"\r\n")
    wire.say(b"get k\r\n", hit(b"k", value, 3) + MISS)


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"x",
        b"1x",
        b"-1",
        b"18446744073709551616",
        b"99999999999999999999999",
        b"0x10",
        b"1.5",
        b"\0",
        b"\xff",
        b"\xc2\xb2",
    ],
    ids=repr,
)
@pytest.mark.parametrize("verb", [b"incr", b"decr"])
def test_non_numeric_value(wire, verb, stored):
    wire.say(storage(b"set", b"k", stored), STORED)
    wire.say(verb + b" k 1\r\nget k\r\n", NON_NUMERIC + hit(b"k", stored) + MISS)


@pytest.mark.parametrize("delta", [b"x", b"-1", b"1x", b"+1", b"18446744073709551616", b"1.5"])
@pytest.mark.parametrize("key", [b"k", b"none"])
def test_bad_delta_comes_before_the_lookup(wire, key, delta):
    wire.say(storage(b"set", b"k", b"x"), STORED)
    wire.say(b"incr %s %s\r\ndecr %s %s\r\n" % (key, delta, key, delta), BAD_DELTA * 2)


@pytest.mark.parametrize(
    "line,reply",
    [
        (b"incr none 1", b"NOT_FOUND\r\n"),
        (b"decr none 1", b"NOT_FOUND\r\n"),
        (b"incr k", BAD_FORMAT),
        (b"incr", BAD_FORMAT),
        (b"decr", BAD_FORMAT),
        (b"incr " + b"k" * 251 + b" 1", BAD_FORMAT),
        (b"incr none 1 noreply", b""),
        (b"incr k x noreply", b""),
        (b"decr k noreply", b""),
        (b"incr " + b"k" * 251 + b" 1 noreply", b""),
    ],
    ids=lambda v: repr(v[:20]),
)
def test_refused(wire, line, reply):
    wire.say(line + b"\r\n", reply)


def test_noreply_counts(wire):
    wire.say(storage(b"set", b"k", b"1"), STORED)
    wire.say(b"incr k 5 noreply\r\nincr k 5 noreply\r\ndecr k 1 noreply\r\n", b"")
    wire.say(b"incr k 0\r\n", b"10\r\n")


def test_pipelined_sum(wire):
    wire.say(storage(b"set", b"k", b"0"), STORED)
    expected = b"".join(b"%d\r\n" % (3 * n) for n in range(1, 501))
    wire.say(b"incr k 3\r\n" * 500, expected)
