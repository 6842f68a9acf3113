# SPDX-License-Identifier: BSD-3-Clause
"""The same random requests to ucached and to the memcached of the distribution.

The distribution's version (1.6.18 in Debian 12) is older than the one whose behaviour ucached has
(1.6.45). The generator avoids requests for which the two differ: arguments after the key of a
delete, noreply on unknown commands, a line that begins with a space, numbers with a plus or too
large, data blocks behind a refused line, keys over 250 bytes, NUL in a line. It also avoids that a
counter gets shorter, since memcached pads it or not depending on whether a reply with the old value
is on its way. Two differences are masked: the numbers of cas, and that a command with too few
arguments is ERROR in the older version.
"""

import re

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from wire import short, storage, wire_to

EXAMPLES = 200

TEXT_KEYS = [b"a", b"b", b"key" * 20, b"k" * 250, b"\xff\xc3", b"a\tb"]
COUNTER_KEYS = [b"n", b"number"]
KEYS = TEXT_KEYS + COUNTER_KEYS

REFUSED = [
    b"foo",
    b"get",
    b"gets",
    b"set",
    b"set a",
    b"set a 0",
    b"set a 0 0",
    b"add a 0 0 -1",
    b"cas a 0 0 1x 1",
    b"incr n",
    b"incr",
    b"incr n x",
    b"decr n 1x",
    b"touch a",
    b"touch a x",
    b"gat x a",
    b"delete",
    b"verbosity",
    b"flush_all x",
    b"stats foo",
    b"GET a",
    b"gett a",
    b"set\ta\t0\t0\t1",
    b"",
    b"x",
    b"version1",
    b"quitx",
    b"incr b 1",
    b"decr key 1 noreply",
    b"incr n -1",
    b"verbosity x",
]

values = st.one_of(
    st.just(b""),
    st.binary(max_size=40).map(lambda data: b"v" + data),
    st.integers(0, 6000).map(lambda size: b"v" * size),
    st.sampled_from([b"v\r\n", b"vEND\r\n", b"v\0\0", b"v\r", b"v" * 1448, b"v" * 20_000]),
)
# Ten digits: an incr or a decr by a little never changes their number.
counters = st.integers(1_500_000_000, 8_500_000_000).map(lambda number: b"%d" % number)
flags = st.sampled_from([0, 1, 42, 65535, 2**32 - 1])
exptimes = st.sampled_from([0, 0, 0, 0, 100, 2592000, -1, 2592001, 2_000_000_000])
noreply = st.sampled_from([b"", b"", b"", b" noreply"])
line_ends = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n"])
verbs = st.sampled_from([b"set", b"set", b"add", b"replace", b"append", b"prepend"])
counter_verbs = st.sampled_from([b"set", b"add", b"replace"])


def line(*parts):
    """A request line from strategies and constants, with spaces between and some line end."""
    fixed = [st.just(part) if isinstance(part, bytes) else part for part in parts]
    return st.builds(lambda end, *words: b" ".join(words) + end, line_ends, *fixed)


text_keys, counter_keys, keys = map(st.sampled_from, (TEXT_KEYS, COUNTER_KEYS, KEYS))
digits = st.integers(0, 1000).map(lambda number: b"%d" % number)
times = exptimes.map(lambda number: b"%d" % number)
some_keys = st.lists(keys, min_size=1, max_size=30).map(b" ".join)
get_verbs = st.sampled_from([b"get", b"get", b"gets"])
spaces = st.integers(1, 3).map(lambda count: b" " * count)

requests = st.one_of(
    st.builds(storage, verbs, text_keys, values, flags, exptimes, noreply),
    st.builds(storage, counter_verbs, counter_keys, counters, flags, exptimes, noreply),
    # A cas that never matches; one that does is part of no random dialogue.
    st.builds(
        lambda *args: storage(b"cas", *args),
        keys,
        values,
        flags,
        exptimes,
        noreply.map(lambda tail: b" 18446744073709551615" + tail),
    ),
    line(get_verbs, some_keys),
    line(get_verbs, some_keys),
    st.builds(
        lambda verb, gap, key, end: verb + gap + key + gap + end, get_verbs, spaces, keys, line_ends
    ),
    line(st.sampled_from([b"gat", b"gats"]), times, some_keys),
    st.builds(
        lambda verb, key, delta, tail: b"%s %s %s%s\r\n" % (verb, key, delta, tail),
        st.sampled_from([b"incr", b"decr"]),
        keys,
        digits,
        noreply,
    ),
    st.builds(
        lambda key, time, tail: b"touch %s %s%s\r\n" % (key, time, tail), keys, times, noreply
    ),
    st.builds(lambda key, tail: b"delete %s%s\r\n" % (key, tail), keys, noreply),
    line(st.sampled_from(REFUSED)),
    # More data than announced: the rest is a line of its own.
    st.builds(
        lambda key, extra: b"set %s 0 0 2\r\nxy%s\r\n" % (key, b"z" * extra),
        text_keys,
        st.integers(1, 30),
    ),
    st.sampled_from(
        [
            b"flush_all\r\n",
            b"flush_all 0 noreply\r\n",
            b"verbosity 0\r\n",
            b"verbosity 0 noreply\r\n",
            b"stats reset\r\n",
            b"touch a 0 noreply\r\n",
        ]
    ),
)
dialogues = st.lists(requests, min_size=1, max_size=25)
cuts = st.lists(st.floats(0, 1), max_size=12)


def masked(reply):
    reply = re.sub(rb"(?m)^(VALUE [^\n ]+ \d+ \d+) \d+\r$", rb"\1 CAS\r", reply)
    return re.sub(rb"(?m)^(ERROR|CLIENT_ERROR bad command line format)\r$", b"REFUSED", reply)


def converse(wire, pieces):
    wire.say(b"flush_all\r\n", b"OK\r\n")
    for piece in pieces:
        wire.send(piece)
    return wire.replies(b"")


def test_random_dialogues(server, memcached):
    ours, theirs = wire_to(server), wire_to(memcached)

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )
    @given(dialogues, cuts)
    def answers_are_the_same(dialogue, where):
        data = b"".join(dialogue)
        bounds = sorted({0, len(data), *(int(fraction * len(data)) for fraction in where)})
        pieces = [data[begin:end] for begin, end in zip(bounds, bounds[1:])]
        got, expected = masked(converse(ours, pieces)), masked(converse(theirs, pieces))
        assert got == expected, f"{short(got, 2000)}\ninstead of\n{short(expected, 2000)}"

    with ours, theirs:
        answers_are_the_same()
