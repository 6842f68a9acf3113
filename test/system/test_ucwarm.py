# SPDX-License-Identifier: BSD-3-Clause
"""ucwarm: copies between running servers, interrupted ones, and servers that misbehave."""

import contextlib
import json
import os
import pathlib
import pty
import signal
import socket
import subprocess
import threading
import time

import pytest
from wire import hit, settles, storage, wire_to

MONTH_S = 60 * 60 * 24 * 30
TIMEOUT_S = 60


@pytest.fixture
def ucwarm(ucached_path):
    return str(pathlib.Path(ucached_path).parents[1] / "ucwarm" / "ucwarm")


def name(server):
    host, port = server.address
    return f"{host}:{port}"


def run(ucwarm, *words, status=0):
    """The counts of a copy, which ends with this status."""
    done = subprocess.run([ucwarm, "--json", *map(str, words)], capture_output=True, text=True,
                          check=False, timeout=TIMEOUT_S)  # fmt: skip
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def fails(ucwarm, *words, status):
    """The message of a copy that cannot be."""
    done = subprocess.run([ucwarm, *map(str, words)], capture_output=True, text=True, check=False,
                          timeout=TIMEOUT_S)  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stderr.startswith("ucwarm: ")
    return done.stderr


def store(server, items):
    """items: (key, value, flags, exptime)."""
    with wire_to(server) as wire:
        for key, value, flags, exptime in items:
            wire.send(storage(b"set", key, value, flags, exptime, b" noreply"))
        wire.say(b"", b"")


def numbered(count):
    return [(b"key-%d" % i, b"value-%d" % i * (i % 9 + 1), i, 0) for i in range(count)]


def stored(server, items):
    """How many of the items a server has, none with another value or other flags."""
    found = 0
    with wire_to(server) as wire:
        for key, value, flags, _ in items:
            got = wire.replies(b"get %s\r\n" % key)
            assert got in (b"END\r\n", hit(key, value, flags) + b"END\r\n")
            found += got != b"END\r\n"
    return found


KINDS = [("memcached", "sock"), ("sock", "memcached"), ("sock", "sock"), ("memcached", "memcached")]


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_all_of_an_item(start_server, ucwarm, kinds):
    source, target = (start_server(kind) for kind in kinds)
    items = [(b"plain", b"value", 0, 0), (b"flags", b"", 4294967295, 0), (b"ttl", b"x", 1, 5000),
             (b"far", b"x", 2, MONTH_S), (b"%20", b"percent", 3, 0), (b"\xff\xfe", b"\0\r\n", 4, 0),
             (b"k" * 250, b"long key", 5, 0), (b"large", b"v" * 1_000_000, 6, 77_000)]  # fmt: skip
    store(source, items)
    with wire_to(source) as wire:
        wire.say(b"ms YSBiCXo= 2 b T300\r\nhi\r\n", b"HD\r\n")  # a key with a blank
        wire.say(b"touch far %d\r\n" % MONTH_S, b"TOUCHED\r\n")
    counts = run(ucwarm, "--verify", name(source), name(target))
    assert counts["copied"] == counts["equal"] == counts["scanned"] == len(items) + 1
    assert counts["bytes"] == sum(len(value) for _, value, _, _ in items) + 2
    assert stored(target, items) == len(items)
    with wire_to(target) as wire:
        assert wire.replies(b"mg plain t\r\n") == b"HD t-1\r\n"
        assert wire.replies(b"mg YSBiCXo= b v\r\n") == b"VA 2\r\nhi\r\n"
        lives = {b"ttl": 5000, b"far": MONTH_S, b"large": 77_000, b"YSBiCXo= b": 300}
        for key, ttl in lives.items():
            left = int(wire.replies(b"mg %s t\r\n" % key).split(b" t")[1].split()[0])
            assert ttl - 60 <= left <= ttl


def test_expired_items_stay_away(start_server, ucwarm):
    """A time to live of less than a second must not become none at all."""
    source, target = start_server("sock"), start_server("sock")
    store(source, [(b"k%d" % i, b"x", 0, 1) for i in range(100)])
    run(ucwarm, name(source), name(target))
    with wire_to(target) as wire:
        assert settles(lambda: wire.replies(b"get k0 k50 k99\r\n") == b"END\r\n")


def test_newer_items_stay(start_server, ucwarm):
    source, target = start_server("memcached"), start_server("sock")
    store(source, numbered(300))
    store(target, [(b"key-7", b"newer", 1, 0)])
    counts = run(ucwarm, "--verify", name(source), name(target), status=1)
    assert (counts["copied"], counts["present"]) == (299, 1)
    assert (counts["equal"], counts["missing"], counts["different"]) == (299, 0, 1)
    with wire_to(target) as wire:
        wire.say(b"get key-7\r\n", hit(b"key-7", b"newer", 1) + b"END\r\n")
    counts = run(ucwarm, "--verify", "--overwrite", name(source), name(target))
    assert (counts["copied"], counts["equal"]) == (300, 300)


def test_growth_moves_what_ketama_moves(start_server, ucwarm):
    """From three servers to four of which three are the same: the fourth gets its share only."""
    servers = [start_server("sock") for _ in range(4)]
    names = [name(server) for server in servers]
    items = numbered(3000)
    first = start_server("sock")
    store(first, items)
    run(ucwarm, name(first), "to", *names[:3])
    before = [stored(server, items) for server in servers]
    assert sum(before) == len(items) and before[3] == 0
    counts = run(ucwarm, "--verify", *names[:3], "to", *names)
    assert counts["copied"] + counts["staying"] == len(items) and counts["misplaced"] == 0
    assert stored(servers[3], items) == counts["copied"]
    assert 0.15 * len(items) < counts["copied"] < 0.35 * len(items)
    # Clients of four servers look for those keys on the fourth; their remains do not return.
    counts = run(ucwarm, *names, "to", name(first))
    assert counts["misplaced"] == stored(servers[3], items)
    counts = run(ucwarm, "--all-keys", *names, "to", name(first))
    assert counts["misplaced"] == 0 and counts["present"] == counts["scanned"]


def test_names_decide_the_place(start_server, ucwarm):
    """NAME=ADDRESS: a new server takes the place of an old one on the ring."""
    servers = [start_server("sock") for _ in range(4)]
    items = numbered(500)
    store(servers[3], items)
    names = ("a.example", "b.example:11212", "c.example")
    run(ucwarm, name(servers[3]), "to",
        *(f"{n}={name(s)}" for n, s in zip(names, servers, strict=False)))  # fmt: skip
    before = [stored(server, items) for server in servers[:3]]
    again = [start_server("sock") for _ in range(3)]
    run(ucwarm, name(servers[3]), "to",
        *(f"{n}={name(s)}" for n, s in zip(names, again, strict=False)))  # fmt: skip
    assert [stored(server, items) for server in again] == before and min(before) > 0


def test_pairs(start_server, ucwarm):
    servers = [start_server("sock") for _ in range(4)]
    items = numbered(100)
    store(servers[0], items[:30])
    store(servers[1], items[30:])
    run(ucwarm, "-d", "pair", *map(name, servers[:2]), "to", *map(name, servers[2:]))
    assert stored(servers[2], items[:30]) == 30 and stored(servers[3], items[30:]) == 70
    assert stored(servers[2], items) == 30


def deleted(wire, key):
    return wire.replies(b"delete %s\r\n" % key) == b"DELETED\r\n"


def test_interrupted_and_continued(start_server, ucwarm, tmp_path):
    source, target = start_server("sock"), start_server("memcached")
    items = numbered(2000)
    store(source, items)
    state = tmp_path / "state"
    words = [name(source), name(target)]
    process = subprocess.Popen([ucwarm, "-r", "400", "-s", state, *words], stdout=subprocess.PIPE)
    assert settles(lambda: int(target.stats()["curr_items"]) > 100)
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 130
    process.stdout.close()
    copied = int(target.stats()["curr_items"])
    assert 100 < copied < len(items)
    assert f"at {copied}" in state.read_text()
    assert "another copy" in fails(ucwarm, "-s", state, *reversed(words), status=73)
    with wire_to(target) as wire:  # what is missing since then is copied again
        key = next(key for key, *_ in items if deleted(wire, key))
    counts = run(ucwarm, "--verify", "-s", state, *words)
    assert counts["present"] == copied - 1 and counts["equal"] == len(items)
    assert stored(target, [item for item in items if item[0] == key]) == 1
    assert not state.exists()


def test_progress_on_a_terminal(start_server, ucwarm):
    source, target = start_server("sock"), start_server("sock")
    store(source, numbered(600))
    main, side = pty.openpty()
    process = subprocess.Popen([ucwarm, "-r", "1000", name(source), name(target)], stderr=side,
                               stdout=subprocess.PIPE)  # fmt: skip
    os.close(side)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while data := os.read(main, 4096):
            shown += data
    os.close(main)
    assert process.wait(TIMEOUT_S) == 0
    assert b"600 of 600 items copied" in process.stdout.read()
    process.stdout.close()
    assert b"of 600 items" in shown and b"%" in shown and shown.endswith(b"\n")


# ---- errors -------------------------------------------------------------------------------------


def test_wrong_command_lines(ucwarm):
    many = [f"h{n}" for n in range(65)]
    for words, text in [
        ([], "SRC... to DST..."),
        (["a"], "SRC... to DST..."),
        (["a", "b", "c"], "SRC... to DST..."),
        (["to", "a", "b"], "SRC... to DST..."),
        (["a", "to"], "SRC... to DST..."),
        (["to", "a"], "SRC... to DST..."),
        (["a:0", "b"], '"a:0" is not HOST:PORT'),
        (["a", "=b:1"], '"=b:1" is not HOST:PORT'),
        (["a=", "b"], '"a=" is not HOST:PORT'),
        ([*many, "to", "b"], "more than 64 servers"),
        (["-d", "pair", "a", "b", "to", "c"], "as many DST as SRC, not 1 and 2"),
        (["n" * 160 + "=a", "b"], "is too long"),
        (["-d", "pair", "a", "to", "b", "c"], "as many DST as SRC, not 2 and 1"),
        (["-r", "0", "a", "b"], '-r: "0" is not a number greater than 0'),
        (["-b", "x", "a", "b"], '"x" is not a number of bytes'),
    ]:
        assert text in fails(ucwarm, *words, status=64)


def test_servers_that_refuse(start_server, ucwarm, tmp_path):
    server, closed = start_server("sock"), start_server("sock", "-X")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        assert "Connection refused" in fails(ucwarm, name(server), f"127.0.0.1:{port}", status=69)
    assert "metadump not allowed" in fails(ucwarm, name(closed), name(server), status=69)
    full = start_server("sock", "-I", "1k")
    store(server, [(b"small", b"x", 0, 0), (b"large", b"x" * 2000, 0, 0)])
    done = subprocess.run([ucwarm, name(server), name(full)], capture_output=True, text=True,
                          check=False, timeout=TIMEOUT_S)  # fmt: skip
    assert done.returncode == 1 and "1 of 2 items copied" in done.stdout
    assert "too large" in done.stderr and name(full) in done.stderr
    state = tmp_path / "none" / "state"
    assert str(state) in fails(ucwarm, "-s", state, name(server), name(full), status=73)


class Fake:
    """A server that answers each line by a function; None ends the connection, b"" is silence."""

    def __init__(self, answer):
        self.answer = answer
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.address = self.sock.getsockname()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.sock.accept()[0]
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client, contextlib.suppress(OSError), client.makefile("rb") as lines:
            for line in lines:
                reply = b"END\r\n" if line.startswith(b"stats") else self.answer(line)
                if reply is None:
                    return
                client.sendall(reply)


DUMP = b"key=a exp=-1 la=1 cas=1 fetch=no cls=1 size=60\nEND\r\n"


@pytest.mark.parametrize("answer, text", [
    (lambda line: b"", "no answer for 1 s"),
    (lambda line: None, "closed the connection"),
    (lambda line: b"ERROR\r\n", 'it answers "ERROR" to lru_crawler metadump'),
    (lambda line: b"BUSY currently processing crawler request\r\n", "has been running for 1 s"),
    (lambda line: b"x" * 5000, "a line of more than"),
    (lambda line: DUMP if b"dump" in line else b"", "no answer for 1 s"),
    (lambda line: DUMP if b"dump" in line else b"ERROR\r\n", "memcached 1.6 or ucached is needed"),
    (lambda line: DUMP if b"dump" in line else b"VA 2000000000 f0\r\n", "a value of 2000000000"),
    (lambda line: DUMP if b"dump" in line else b"VA 1 f0 t-1\r\nabc", "longer than it says"),
    (lambda line: DUMP if b"dump" in line else b"VA 9 f0 t-1\r\nabc", "no answer for 1 s"),
], ids=lambda value: value.split()[-1] if isinstance(value, str) else "")  # fmt: skip
def test_hostile_sources(start_server, ucwarm, answer, text):
    fake = Fake(answer)
    message = fails(ucwarm, "-t", 1, name(fake), name(start_server("sock")), status=69)
    assert text in message and name(fake) in message
    fake.sock.close()


def test_a_target_that_dies(start_server, ucwarm, tmp_path):
    """The copy ends with the server's name, and is continued once the server is back."""
    source = start_server("sock")
    items = numbered(600)
    store(source, items)
    replies = iter([b"HD\r\n"] * 100)
    fake = Fake(lambda line: next(replies, None) if line.startswith(b"ms") else b"")
    state = tmp_path / "state"
    message = fails(ucwarm, "-s", state, "-r", 10000, name(source), f"pool={name(fake)}", status=69)
    assert name(fake) in message and state.exists()
    fake.sock.close()
    target = start_server("sock")
    state.write_text(state.read_text().replace(name(fake), name(target)))
    run(ucwarm, "-s", state, name(source), f"pool={name(target)}")
    assert stored(target, items) == len(items)


# ---- servers that answer as a test wants --------------------------------------------------------


def source_of(*replies):
    """A server with one item; the replies are to its dumps and reads, the last one to the rest."""
    left = list(replies)
    return Fake(lambda line: left.pop(0) if len(left) > 1 else left[0])


def target_of(there=b"EN\r\n"):
    """A server that takes items, and that says it has this one; and the requests to store."""
    stored = []

    def answer(line):
        if not line.startswith(b"ms "):
            return there if line.startswith(b"mg ") else b""  # of a value
        stored.append(line)
        return b"HD\r\n"

    return Fake(answer), stored


def test_verify_compares_all_of_an_item(ucwarm):
    """Value, flags and time to live, of which the copy may have taken two seconds."""
    item = b"VA 3 f7 t100\r\nabc\r\n"
    for there, outcome in [
        (item, "equal"),
        (b"VA 3 f7 t98\r\nabc\r\n", "equal"),
        (b"VA 3 f7 t97\r\nabc\r\n", "different"),
        (b"VA 3 f7 t103\r\nabc\r\n", "different"),
        (b"VA 3 f7 t-1\r\nabc\r\n", "different"),
        (b"VA 3 f8 t100\r\nabc\r\n", "different"),
        (b"VA 3 f7 t100\r\nabd\r\n", "different"),
        (b"VA 2 f7 t100\r\nab\r\n", "different"),
        (b"EN\r\n", "missing"),
    ]:
        target, _ = target_of(there)
        counts = run(ucwarm, "--verify", name(source_of(DUMP, item, DUMP, item)), name(target),
                     status=int(outcome != "equal"))  # fmt: skip
        found = {key: counts[key] for key in ("equal", "different", "missing")}
        assert found == {"equal": 0, "different": 0, "missing": 0, outcome: 1}, there


def test_times_to_live_as_they_are_sent(ucwarm):
    """None, seconds up to a month, and beyond that a date, as memcached reads them."""
    for seconds, sent in [(-1, None), (1, 1), (MONTH_S, MONTH_S), (MONTH_S + 60, "date")]:
        target, stored = target_of()
        before = int(time.time())
        item = b"VA 1 f0 t%d\r\nx\r\n" % seconds
        assert run(ucwarm, name(source_of(DUMP, item)), name(target))["copied"] == 1
        times = [int(word[1:]) for word in stored[0].split() if word.startswith(b"T")]
        if sent == "date":
            assert before + seconds <= times[0] <= int(time.time()) + seconds
        else:
            assert times == ([] if sent is None else [sent])


def test_items_that_are_gone_stay_away(ucwarm):
    """Deleted since the dump, in their last second, or invalidated."""
    for item in (b"EN\r\n", b"VA 1 f0 t0\r\nx\r\n", b"VA 1 f0 t9 X\r\nx\r\n"):
        target, stored = target_of()
        counts = run(ucwarm, name(source_of(DUMP, item)), name(target))
        assert (counts["gone"], counts["copied"], stored) == (1, 0, [])


def test_items_that_are_too_large(ucwarm):
    """More than 64 MB: it is not even read."""
    dump = b"key=a exp=-1 la=1 cas=1 fetch=no cls=1 size=%d\nEND\r\n"
    for size, large in ((64 << 20, 0), ((64 << 20) + 1, 1)):
        target, stored = target_of()
        source = source_of(dump % size, b"VA 1 f0 t-1\r\nx\r\n")
        counts = run(ucwarm, name(source), name(target))
        assert (counts["too_large"], counts["copied"], len(stored)) == (large, 1 - large, 1 - large)


def test_waits_for_another_dump(ucwarm):
    target, stored = target_of()
    busy = b"BUSY currently processing crawler request\r\n"
    source = source_of(busy, busy, DUMP, b"VA 1 f0 t-1\r\nx\r\n")
    assert run(ucwarm, name(source), name(target))["copied"] == len(stored) == 1


def test_continued_behind_a_complete_source(start_server, ucwarm, tmp_path):
    """A source that was read to its end is not read again."""
    first, second, target = (start_server("sock") for _ in range(3))
    state = tmp_path / "state"
    store(first, numbered(40))
    store(second, numbered(60)[40:])
    broken = Fake(lambda line: None)
    words = ["--all-keys", "-s", state, name(first), f"pool={name(broken)}", "to", name(target)]
    assert name(broken) in fails(ucwarm, *words, status=69)
    assert "done 40\nat 0\n" in state.read_text()
    state.write_text(state.read_text().replace(name(broken), name(second)))
    words[4] = f"pool={name(second)}"
    counts = run(ucwarm, *words)
    assert counts["scanned"] == counts["copied"] == 20
    assert stored(target, numbered(60)) == 60
