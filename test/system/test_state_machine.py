# SPDX-License-Identifier: BSD-3-Clause
"""A state machine sends the same random requests to ucached and to the distribution's memcached.

Two connections to each, one for text (classic and meta commands), one for the binary protocol,
share the items. Requests are pipelined and cut at random bytes. The answers are compared byte
by byte, and so are the statistics. Compare-and-swap uses the numbers that each server has given.

Differences between memcached 1.6.18 (Debian 12) and 1.6.45 are avoided or masked: numbers of cas,
lines that are too short for a command, later flags of the meta commands (E, x, C of mg, s of ms, N
of appends), q with N of ma, the sign of exp in `me`. Times in seconds are masked, since the two
clocks do not tick together. Counters keep their number of digits, and requests that count come
first in a pipeline: whether memcached changes a number in place depends on its unsent replies, and
so on how much of a pipeline it reads at a time.
"""

import re

import binary_wire as binary
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from wire import short, storage, wire_to

EXAMPLES = 60
STEPS = 30

LAST = 0xFFFFFFFF  # opaque of the packet that ends a pipeline

TEXT_KEYS = [b"a", b"b", b"foo", b"k" * 250, b"\xff\xc3"]
BASE64_KEYS = {b"foo": b"Zm9v", b"\xff\xc3": b"/8M="}
COUNTER_KEYS = [b"n", b"number"]
KEYS = TEXT_KEYS + COUNTER_KEYS

COMPARED = """cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses delete_misses
    delete_hits incr_misses incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval
    touch_hits touch_misses store_too_large curr_items""".split()

text_keys, counter_keys, keys = map(st.sampled_from, (TEXT_KEYS, COUNTER_KEYS, KEYS))
texts = st.one_of(
    st.sampled_from([b"", b"v", b"v\r\n", b"v" * 300, b"vEND\r\n", b"v" * 5000, b"v" * 30_000]),
    # What ends a reply (wire.replies) must not stand in a value.
    st.binary(max_size=30)
    .filter(lambda data: b"VERSION" not in data)
    .map(lambda data: b"v" + data),
)
numbers = st.integers(1_500_000_000, 8_500_000_000)
flags = st.sampled_from([0, 1, 77, 2**32 - 1])
exptimes = st.sampled_from([0, 0, 0, 0, 1000, 2592000, -1])
deltas = st.integers(0, 1000)
noreply = st.sampled_from([b"", b"", b" noreply"])
opaques = st.sampled_from([b" Oabc", b" O", b" O" + b"7" * 31])


def sequences(parts, least=0):
    """Some of these, each at most once, in any order."""
    return st.lists(st.sampled_from(parts), unique=True, min_size=least).map(b"".join)


def in_base64(key):
    """Half of the keys with a base64 form in that form, with the flag b."""
    if key not in BASE64_KEYS:
        return st.just((key, b""))
    return st.sampled_from([(key, b""), (BASE64_KEYS[key], b" b")])


meta_keys = keys.flatmap(in_base64)
meta_text_keys = text_keys.flatmap(in_base64)
mg_flags = sequences(
    [b" v", b" s", b" t", b" c", b" f", b" k", b" Oxy", b" h", b" l", b" q", b" u", b" P1", b" Lx"]
)
mg_acts = st.sampled_from([b"", b"", b"", b" T5000", b" T0", b" N600", b" R30", b" R9999", b" T-1"])

classic = st.one_of(
    st.builds(
        storage,
        st.sampled_from([b"set", b"set", b"add", b"replace", b"append", b"prepend"]),
        text_keys,
        texts,
        flags,
        exptimes,
        noreply,
    ),
    st.builds(
        lambda verb, key, number, tail: storage(verb, key, b"%d" % number, 0, 0, tail),
        st.sampled_from([b"set", b"add", b"replace"]),
        counter_keys,
        numbers,
        noreply,
    ),
    st.builds(
        lambda verb, some: verb + b" " + b" ".join(some) + b"\r\n",
        st.sampled_from([b"get", b"gets", b"gat 1000", b"gats 0"]),
        st.lists(keys, min_size=1, max_size=6),
    ),
    st.builds(
        lambda verb, key, delta, tail: b"%s %s %d%s\r\n" % (verb, key, delta, tail),
        st.sampled_from([b"incr", b"decr"]),
        keys,
        deltas,
        noreply,
    ),
    st.builds(lambda key, tail: b"delete %s%s\r\n" % (key, tail), keys, noreply),
    st.builds(
        lambda key, time, tail: b"touch %s %d%s\r\n" % (key, time, tail), keys, exptimes, noreply
    ),
)

meta = st.one_of(
    st.builds(
        lambda key, act, asked: b"mg " + key[0] + key[1] + act + asked + b"\r\n",
        meta_text_keys,
        mg_acts,
        mg_flags,
    ),
    st.builds(
        lambda key, value, mode, asked: b"ms %s %d%s%s%s\r\n%s\r\n"
        % (key[0], len(value), key[1], mode, asked, value),
        meta_text_keys,
        texts,
        st.sampled_from([b"", b" MS", b" ME", b" MA", b" MP", b" MR", b" Mx", b" C1", b" I C1"]),
        sequences([b" T900", b" F5", b" k", b" Oq", b" c", b" q"]),
    ),
    st.builds(
        lambda key, asked: b"md " + key[0] + key[1] + asked + b"\r\n",
        meta_keys,
        sequences([b" I", b" T500", b" k", b" O1", b" q", b" C1"]),
    ),
    st.builds(
        lambda key, asked, either: b"ma " + key + asked + either + b"\r\n",
        keys,
        sequences([b" D7", b" MI", b" T800", b" t", b" c", b" v", b" k", b" O", b" C3"]),
        st.sampled_from([b"", b" q", b" N300", b" N0 J3000000000"]),
    ),
    st.builds(lambda key: b"me " + key + b"\r\n", keys),
    st.just(b"mn\r\n"),
    # Refused.
    st.sampled_from(
        [
            b"mg a k k\r\n",
            b"mg a S\r\n",
            b"mg a Tx\r\n",
            b"mg a Rx Nx\r\n",
            b"mg " + b"k" * 251 + b" v\r\n",
            b"ms a x\r\n",
            b"ms a -1\r\n",
            b"ms a\r\n",
            b"ms a 1 k k\r\nx\r\n",
            b"ms a 1 Tx\r\nx\r\n",
            b"ms a 2\r\nxyz\r\n"[:-1],
            b"ma a z\r\n",
            b"ma n Dx\r\n",
            b"ma n Jx\r\n",
            b"ma n MX\r\n",
            b"mg !!! b v\r\n",
            b"me\r\n",
        ]
    ),
)

opaque_numbers = st.integers(0, LAST - 1)
packets = st.one_of(
    st.builds(
        lambda name, key, value, flag, time: binary.store(name, key, value, flag, time),
        st.sampled_from(["set", "add", "replace", "setq", "addq", "replaceq"]),
        text_keys,
        texts,
        flags,
        st.sampled_from([0, 0, 1000, 2592001, 2**32 - 1, 2**31]),
    ),
    st.builds(
        lambda name, key, value, opaque: binary.request(name, key, value, opaque=opaque),
        st.sampled_from(["append", "prepend", "appendq", "prependq"]),
        text_keys,
        texts,
        opaque_numbers,
    ),
    st.builds(
        lambda name, key, number: binary.store(name, key, b"%d" % number),
        st.sampled_from(["set", "setq"]),
        counter_keys,
        numbers,
    ),
    st.builds(
        lambda name, key, opaque: binary.request(name, key, opaque=opaque),
        st.sampled_from(["get", "getq", "getk", "getkq", "delete", "deleteq"]),
        keys,
        opaque_numbers,
    ),
    st.builds(
        binary.count,
        st.sampled_from(["incr", "decr", "incrq", "decrq"]),
        keys,
        deltas,
        numbers,
        st.sampled_from([0, 1000, 2**32 - 1]),
    ),
    st.builds(
        binary.touch,
        st.sampled_from(["touch", "gat", "gatq", "gatk", "gatkq"]),
        keys,
        st.sampled_from([0, 1000, 2**32 - 1]),
        opaque_numbers,
    ),
    st.sampled_from(
        [
            binary.request("noop"),
            binary.request("stat", b"reset"),
            binary.request("stat", b"no such list"),
            binary.request("sasl_list"),
            binary.store("set", b"a", b"x", cas=2**63),
            binary.store("add", b"b", b"x", cas=2**63),
            binary.request("append", b"a", b"x", cas=2**63),
            binary.request("delete", b"b", cas=2**63),
            binary.count("incr", b"n", 1, cas=2**63),
        ]
    ),
)

cuts = st.lists(st.floats(0, 1), max_size=6)

MASKS = [
    (rb"(?m)^(VALUE [^\n ]+ \d+ \d+) \d+\r$", rb"\1 CAS\r"),
    (rb"(?m)^((?:HD|VA \d+|EX|NF|NS)[^\r\n]*?) c\d+", rb"\1 cN"),
    (rb"(?m)^((?:HD|VA \d+)[^\r\n]*?) t\d+", rb"\1 tN"),
    (rb"(?m)^((?:HD|VA \d+)[^\r\n]*?) l\d+", rb"\1 lN"),
    (rb"(?m)^(ME [^\r\n]*?) exp=(?:-1|-?\d+) la=\d+ cas=\d+", rb"\1 TIMES"),
    (rb"(?m)^(?:ERROR|CLIENT_ERROR bad command line format)\r$", b"REFUSED\r"),
]


COUNTING = re.compile(rb"incr |decr |ma |\x80[\x05\x06\x15\x16]")


def pipelines(requests):
    """The requests in order, as pipelines in which only the first one may count."""
    parts = []
    for request in requests:
        if not parts or COUNTING.match(request):
            parts.append(b"")
        parts[-1] += request
    return parts


def masked(reply):
    for pattern, instead in MASKS:
        reply = re.sub(pattern, instead, reply)
    return reply


def pieces(data, where):
    bounds = sorted({0, len(data), *(int(fraction * len(data)) for fraction in where)})
    return [data[begin:end] for begin, end in zip(bounds, bounds[1:])]


class BothServers(RuleBasedStateMachine):
    """Sends the same requests to both servers."""

    servers = ()  # ours, theirs

    def __init__(self):
        super().__init__()
        self.texts = [wire_to(server) for server in self.servers]
        self.binaries = [wire_to(server) for server in self.servers]
        self.sent = []

    def teardown(self):
        for wire in self.texts + self.binaries:
            wire.close()

    def compare(self, answers):
        ours, theirs = answers
        story = "\n".join(self.sent[-12:])
        what = f"{story}\n\n{short(ours, 2000)}\ninstead of\n{short(theirs, 2000)}"
        if ours != theirs:
            print(what)  # Hypothesis does not show it if it cannot repeat it
        assert ours == theirs, what

    def ask_text(self, requests, where=()):
        """requests: the same for both, or one of each."""
        if isinstance(requests, bytes):
            requests = [requests, requests]
        self.sent.append(short(requests[0], 400))
        answers = []
        for wire, request in zip(self.texts, requests):
            for piece in pieces(request, where):
                wire.send(piece)
            answers.append(wire.replies(b""))
        return answers

    def ask_binary(self, requests, where=()):
        if isinstance(requests, bytes):
            requests = [requests, requests]
        self.sent.append(short(requests[0], 400))
        answers = []
        for wire, request in zip(self.binaries, requests):
            for piece in pieces(request + binary.request("noop", opaque=LAST), where):
                wire.send(piece)
            answers.append(
                [packet._replace(cas=packet.cas != 0) for packet in binary.read_until(wire, LAST)]
            )
        return answers

    @initialize()
    def begin(self):
        for wire in self.texts:
            wire.say(b"flush_all\r\nstats reset\r\n", b"OK\r\nRESET\r\n")

    @rule(requests=st.lists(st.one_of(classic, meta), min_size=1, max_size=8), where=cuts)
    def text(self, requests, where):
        for pipeline in pipelines(requests):
            self.compare([masked(reply) for reply in self.ask_text(pipeline, where)])

    @rule(requests=st.lists(packets, min_size=1, max_size=8), where=cuts)
    def packets(self, requests, where):
        for pipeline in pipelines(requests):
            self.compare(self.ask_binary(pipeline, where))

    def cas_of(self, key):
        found = []
        for reply in self.ask_text(b"gets %s\r\n" % key):
            match = re.match(rb"VALUE [^\n]* (\d+)\r\n", reply)
            found.append(int(match[1]) if match else 1)
        return found

    @rule(key=keys, value=texts, flag=flags, off=st.sampled_from([0, 0, 1]))
    def cas(self, key, value, flag, off):
        tails = [b" %d" % (number + off) for number in self.cas_of(key)]
        self.compare(self.ask_text([storage(b"cas", key, value, flag, 0, t) for t in tails]))
        self.text([b"delete %s\r\n" % key if key in COUNTER_KEYS else b"mn\r\n"], [])

    @rule(
        key=text_keys,
        form=st.sampled_from(
            [b"ms %s 2 C%d k\r\nxy\r\n", b"ms %s 2 MA C%d\r\nxy\r\n", b"ms %s 2 MP C%d q\r\nxy\r\n",
             b"ms %s 2 I T70 C%d\r\nxy\r\n", b"md %s C%d q\r\n", b"md %s I C%d T100\r\n"]
        ),
        off=st.sampled_from([0, 0, -1, 1]),
    )  # fmt: skip
    def meta_cas(self, key, form, off):
        self.compare(self.ask_text([form % (key, number + off) for number in self.cas_of(key)]))
        self.text([b"mg %s h v t\r\nmg %s v\r\n" % (key, key)], [])

    @rule(
        key=text_keys,
        name=st.sampled_from(["set", "add", "replaceq", "append", "delete"]),
        off=st.sampled_from([0, 0, 1]),
    )
    def binary_cas(self, key, name, off):
        def request(number):
            if name in ("append", "delete"):
                return binary.request(name, key, b"xy" if name == "append" else b"", cas=number)
            return binary.store(name, key, b"xy", cas=number)

        self.compare(self.ask_binary([request(number + off) for number in self.cas_of(key)]))

    @rule(when=st.sampled_from([b"", b"", b" 0", b" -1", b" noreply"]))
    def flush(self, when):
        self.compare(self.ask_text(b"flush_all%s\r\n" % when))

    @rule()
    def statistics(self):
        counted = []
        for wire in self.texts:
            stats = wire.stats()
            counted.append({name: stats[name] for name in COMPARED if name != "curr_items"})
        self.compare(counted)


def test_state_machine(server, memcached):
    class Machine(BothServers):
        servers = (server, memcached)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
