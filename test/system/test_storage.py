# SPDX-License-Identifier: BSD-3-Clause
"""set, add, replace, append, prepend, cas: replies and stored values."""

import time

import pytest
from shared import shared_server, wire  # noqa: F401
from wire import BAD_CHUNK, BAD_FORMAT, MISS, STORED, TOO_LARGE, VALUE_MAX, hit, settles, storage

ALL_BYTES = bytes(range(256))


def value_of(wire, key: bytes) -> bytes:
    """The reply to a get without its END."""
    reply = wire.replies(b"get %s\r\n" % key)
    assert reply.endswith(MISS)
    return reply[: -len(MISS)]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"x",
        b"hello",
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b"END\r\n",
        b"get k\r\n",
        b"\0",
        b"\0" * 100,
        ALL_BYTES,
        ALL_BYTES * 40,
        b"x" * 1447,
        b"x" * 1448,
        b"x" * 4096,
        b"x" * 65536,
    ],
    ids=lambda v: f"{len(v)}:{v[:8]!r}",
)
def test_value_comes_back_as_it_was(wire, value):
    wire.say(storage(b"set", b"k", value), STORED)
    wire.say(b"get k\r\n", hit(b"k", value) + MISS)


@pytest.mark.parametrize(
    "key",
    [
        b"k",
        b"k" * 250,
        b"a\tb",
        b"a\0b",
        b"\x01\x02\x03",
        b"\x7f",
        b"\xff\xfe",
        "gr\u00fc\u00df".encode(),
        b"get",
        b"0",
        b"-1",
        b"a\rb",
        b"*" * 249,
    ],
    ids=lambda k: repr(k[:12]),
)
def test_any_bytes_but_space_and_line_feed_make_a_key(wire, key):
    wire.say(storage(b"set", key, b"odd"), STORED)
    wire.say(b"get %s\r\n" % key, hit(key, b"odd") + MISS)
    wire.say(b"delete %s\r\n" % key, b"DELETED\r\n")
    wire.say(b"get %s\r\n" % key, MISS)


@pytest.mark.parametrize(
    "written,stored",
    [
        (b"0", 0),
        (b"1", 1),
        (b"65536", 65536),
        (b"4294967295", 4294967295),
        (b"4294967296", 0),
        (b"007", 7),
        (b"+7", 7),
    ],
)
def test_flags(wire, written, stored):
    wire.say(b"set k %s 0 1\r\nx\r\n" % written, STORED)
    wire.say(b"get k\r\n", hit(b"k", b"x", stored) + MISS)


# verb, value and reply where the key is missing, value and reply where it holds "old".
@pytest.mark.parametrize(
    "verb,missing,missing_reply,present,present_reply",
    [
        (b"set", b"new", b"STORED", b"new", b"STORED"),
        (b"add", b"new", b"STORED", b"old", b"NOT_STORED"),
        (b"replace", None, b"NOT_STORED", b"new", b"STORED"),
        (b"append", None, b"NOT_STORED", b"oldnew", b"STORED"),
        (b"prepend", None, b"NOT_STORED", b"newold", b"STORED"),
    ],
)
def test_verb_with_and_without_the_key(wire, verb, missing, missing_reply, present, present_reply):
    wire.say(storage(verb, b"none", b"new"), missing_reply + b"\r\n")
    assert value_of(wire, b"none") == (b"" if missing is None else hit(b"none", missing))
    wire.say(storage(b"set", b"some", b"old"), STORED)
    wire.say(storage(verb, b"some", b"new"), present_reply + b"\r\n")
    assert value_of(wire, b"some") == hit(b"some", present)


@pytest.mark.parametrize(
    "verb,expected",
    [
        (b"set", (b"new", 2)),
        (b"add", (b"old", 1)),
        (b"replace", (b"new", 2)),
        (b"append", (b"oldnew", 1)),
        (b"prepend", (b"newold", 1)),
    ],
)
def test_noreply_has_effect_without_reply(wire, verb, expected):
    wire.say(storage(b"set", b"k", b"old", flags=1), STORED)
    wire.say(storage(verb, b"k", b"new", flags=2, tail=b" noreply"), b"")
    assert value_of(wire, b"k") == hit(b"k", *expected)


def test_append_and_prepend_keep_flags_and_grow(wire):
    wire.say(storage(b"set", b"k", b"", flags=42), STORED)
    expected = b""
    for step in range(60):
        part = bytes([step]) * (step * 7 % 211)
        verb = (b"append", b"prepend")[step % 2]
        expected = expected + part if verb == b"append" else part + expected
        wire.say(storage(verb, b"k", part, flags=7), STORED)
    assert value_of(wire, b"k") == hit(b"k", expected, 42)


# ---- cas --------------------------------------------------------------------------------------


def cas_of(wire, key: bytes) -> int:
    reply = wire.replies(b"gets %s\r\n" % key)
    return int(reply.split(b"\r\n")[0].split(b" ")[4])


def test_cas(wire):
    wire.say(b"cas k 0 0 1 1\r\nx\r\n", b"NOT_FOUND\r\n")
    wire.say(storage(b"set", b"k", b"one"), STORED)
    unique = cas_of(wire, b"k")
    wire.say(b"cas k 0 0 1 %d\r\nx\r\n" % (unique + 1), b"EXISTS\r\n")
    wire.say(b"cas k 0 0 1 0\r\nx\r\n", b"EXISTS\r\n")
    assert value_of(wire, b"k") == hit(b"k", b"one")
    wire.say(b"cas k 9 0 3 %d\r\ntwo\r\n" % unique, STORED)
    assert value_of(wire, b"k") == hit(b"k", b"two", 9)
    wire.say(b"cas k 0 0 3 %d\r\nten\r\n" % unique, b"EXISTS\r\n")
    wire.say(b"cas k 0 0 5 %d noreply\r\nthree\r\n" % cas_of(wire, b"k"), b"")
    wire.say(b"cas k 0 0 5 %d noreply\r\nseven\r\n" % unique, b"")
    wire.say(b"get k\r\n", hit(b"k", b"three") + MISS)


@pytest.mark.parametrize(
    "request_,changes",
    [
        (storage(b"set", b"k", b"5"), True),
        (storage(b"replace", b"k", b"5"), True),
        (storage(b"append", b"k", b"5"), True),
        (storage(b"prepend", b"k", b"5"), True),
        (b"incr k 1\r\n", True),
        (b"decr k 1\r\n", True),
        (b"touch k 0\r\n", False),
        (b"gat 0 k\r\n", False),
        (b"get k\r\n", False),
        (storage(b"add", b"k", b"5"), False),
    ],
    ids=lambda v: v[:8].decode() if isinstance(v, bytes) else str(v),
)
def test_operations_that_change_the_cas_unique(wire, request_, changes):
    wire.say(storage(b"set", b"k", b"7"), STORED)
    before = cas_of(wire, b"k")
    wire.replies(request_)
    after = cas_of(wire, b"k")
    assert after > before if changes else after == before


def test_cas_uniques_differ_between_keys(wire):
    for number in range(50):
        wire.say(storage(b"set", b"k%d" % number, b"x"), STORED)
    uniques = [cas_of(wire, b"k%d" % number) for number in range(50)]
    assert len(set(uniques)) == 50 and 0 not in uniques


# ---- sizes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key,flags,largest",
    [
        (b"k", 0, VALUE_MAX),
        (b"k", 1, VALUE_MAX - 4),
        (b"k" * 250, 0, VALUE_MAX - 249),
    ],
    ids=["plain", "flags", "long_key"],
)
def test_largest_value(wire, key, flags, largest):
    value = ALL_BYTES * 4096
    wire.say(storage(b"set", key, value[:largest], flags), STORED)
    wire.say(b"get %s\r\n" % key, hit(key, value[:largest], flags) + MISS)
    wire.say(storage(b"set", key, value[: largest + 1], flags), TOO_LARGE)


@pytest.mark.parametrize(
    "verb,survives",
    [
        (b"set", False),
        (b"add", True),
        (b"replace", True),
        (b"append", True),
        (b"prepend", True),
    ],
)
def test_too_large_value_is_discarded(wire, verb, survives):
    wire.say(storage(b"set", b"k", b"old"), STORED)
    value = b"get k\r\n" * ((VALUE_MAX + 7) // 7)
    wire.say(
        storage(verb, b"k", value) + b"get k\r\n",
        TOO_LARGE + (hit(b"k", b"old") if survives else b"") + MISS,
    )


def test_too_large_cas_is_swallowed_and_keeps_the_value(wire):
    wire.say(storage(b"set", b"k", b"old"), STORED)
    wire.say(storage(b"cas", b"k", b"y" * (VALUE_MAX + 1), tail=b" 1"), TOO_LARGE)
    assert value_of(wire, b"k") == hit(b"k", b"old")


def test_too_large_with_noreply_has_no_reply(wire):
    wire.say(storage(b"set", b"k", b"old"), STORED)
    wire.say(storage(b"set", b"k", b"y" * (VALUE_MAX + 1), tail=b" noreply"), b"")
    assert value_of(wire, b"k") == b""


def test_append_over_the_limit_keeps_the_value(wire):
    half = b"h" * 600_000
    wire.say(storage(b"set", b"k", half), STORED)
    wire.say(storage(b"append", b"k", half), b"NOT_STORED\r\n")
    wire.say(b"get k\r\n", hit(b"k", half) + MISS)


# ---- what is wrong with a request -------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"set k 0 0 -1",
        b"set k 0 0 x",
        b"set k 0 0 2147483646",
        b"set k 0 0 4294967297",
        b"set k 0 0 +3",
        b"set k 0 0 3x",
        b"set k 0 0",
        b"set k 0",
        b"set k",
        b"set",
        b"add k 0 0",
        b"cas k 0 0 -3 1",
        b"set k 0 0 -1 noreply",
        b"replace k 0 0 99999999999",
        b"append k",
    ],
)
def test_unknown_length_is_refused_without_discarding(wire, line):
    wire.say(line + b"\r\nget k\r\n", BAD_FORMAT + MISS)


@pytest.mark.parametrize(
    "line",
    [
        b"set k -1 0 7",
        b"set k x 0 7",
        b"set k 1x 0 7",
        b"set k 0 x 7",
        b"set k 0 1x 7",
        b"cas k 0 0 7",
        b"cas k 0 0 7 x",
        b"cas k 0 0 7 -1",
        b"cas k 0 0 7 18446744073709551616",
        b"set " + b"k" * 251 + b" 0 0 7",
        b"add " + b"k" * 1000 + b" 0 0 7",
    ],
    ids=lambda v: v[:24].decode(),
)
def test_refused_request_discards_its_data(wire, line):
    wire.say(line + b"\r\nquit 12\r\nget k\r\n", BAD_FORMAT + MISS)
    wire.say(line + b" noreply\r\nquit 12\r\nget k\r\n", MISS)


# "x" where more was announced: the rest is read as a line of its own.
@pytest.mark.parametrize(
    "request_,reply",
    [
        (b"set k 0 0 3\r\nabcde\r\n", BAD_CHUNK + BAD_FORMAT),
        (b"set k 0 0 3\r\nabcdefghi\r\n", BAD_CHUNK + b"ERROR\r\n"),
        (b"set k 0 0 3\r\nabc\r\r\n", BAD_CHUNK + BAD_FORMAT),
        (b"set k 0 0 5\r\nabc\r\n\r\n", STORED),
        (b"set k 0 0 0\r\nx\r\n", BAD_CHUNK + BAD_FORMAT),
        (b"set k 0 0 3\r\nabc\n\n", BAD_CHUNK),
        (b"set k 0 0 3\r\nabc\r\n" + b"add k 0 0 1\r\nxyz\r\n", STORED + BAD_CHUNK + BAD_FORMAT),
    ],
)
def test_bad_data_chunk(wire, request_, reply):
    wire.say(storage(b"set", b"other", b"stays"), STORED)
    wire.say(request_, reply)
    assert value_of(wire, b"other") == hit(b"other", b"stays")


def test_bad_data_chunk_keeps_the_old_value(wire):
    wire.say(storage(b"set", b"k", b"old"), STORED)
    wire.say(b"set k 0 0 2\r\nabc\n", BAD_CHUNK)
    wire.say(b"get k\r\n", hit(b"k", b"old") + MISS)


# ---- time -------------------------------------------------------------------------------------


@pytest.mark.parametrize("exptime", [-1, -100, 2592001, 1000000000, 99999999999])
def test_born_expired(wire, exptime):
    wire.say(storage(b"set", b"k", b"x", exptime=exptime), STORED)
    wire.say(b"get k\r\n", MISS)
    wire.say(storage(b"add", b"k", b"y"), STORED)
    assert value_of(wire, b"k") == hit(b"k", b"y")


def test_expiry(wire):
    """All expiry tests that need a second to pass, in one sleep. It begins with a second of the
    server, in which nothing expires."""
    uptime = wire.stats()["uptime"]
    assert settles(lambda: wire.stats()["uptime"] != uptime, pause=0.005)
    now = int(time.time())
    survivors = {b"never": 0, b"minute": 60, b"month": 2592000, b"absolute": now + 3600}
    requests = [(storage(b"set", key, b"x", exptime=t), STORED) for key, t in survivors.items()]
    for key in (b"second", b"unreplaced", b"kept"):
        requests.append((storage(b"set", key, b"x", exptime=1), STORED))
    for key in (b"touched", b"gat"):
        requests.append((storage(b"set", key, b"x"), STORED))
    requests.append((b"touch touched 1\r\n", b"TOUCHED\r\n"))
    requests.append((b"gat 1 gat\r\n", hit(b"gat", b"x") + MISS))
    requests.append((b"touch kept 100\r\n", b"TOUCHED\r\n"))
    requests.append((storage(b"append", b"second", b"y", exptime=100), STORED))
    # All at once, so that no pause of the client lasts for a second of the server.
    wire.say(b"".join(request for request, _ in requests), b"".join(reply for _, reply in requests))
    assert settles(lambda: value_of(wire, b"second") == b"")
    for key in survivors:
        assert value_of(wire, key) == hit(key, b"x"), f"{key} should still be there"
    assert value_of(wire, b"kept") == hit(b"kept", b"x")
    for key in (b"second", b"touched", b"gat"):
        assert value_of(wire, key) == b"", f"{key} should have expired"
    wire.say(
        b"touch second 10\r\n" + b"incr second 1\r\n" + b"delete touched\r\n", b"NOT_FOUND\r\n" * 3
    )
    wire.say(storage(b"replace", b"unreplaced", b"y"), b"NOT_STORED\r\n")
    wire.say(storage(b"add", b"gat", b"new"), STORED)
