# SPDX-License-Identifier: BSD-3-Clause
"""Several clients on the same keys at once: their replies must be linearizable.

The clients record each request, its outcome and both times. test/history decides whether there is
an order of all operations that fits the times and explains every outcome.
"""

import dataclasses
import os
import pathlib
import random
import subprocess
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENTS = 4
OPS = 4000 if os.environ.get("UCACHED_LONG") == "1" else 1200  # of each client
OPS_PER_KEY = 40  # of each client, then another key's turn comes
TTL_STEP = 10_000  # seconds: the remaining TTL identifies the original one

ACTIONS = """get set add replace append prepend cas incr decr touch delete""".split()
MODES = {"set": b"S", "add": b"E", "replace": b"R", "append": b"A", "prepend": b"P", "cas": b"S"}
DONE, ABSENT, REFUSED = 0, 1, 2


@dataclasses.dataclass
class Op:
    action: str
    value: str = "-"
    delta: int = 0
    expected: int = 0
    exptime: int = 0
    result: int = DONE
    seen: str = "-"
    cas: int = 0
    seen_exptime: int = 0
    begin: int = 0
    end: int = 0

    def line(self, key: str) -> str:
        return (
            f"{key} {ACTIONS.index(self.action)} {self.value} {self.delta} {self.expected} "
            f"{self.exptime} {self.result} {self.seen} {self.cas} {self.seen_exptime} "
            f"{self.begin} {self.end}"
        )


def request_of(op: Op, key: bytes) -> bytes:
    """The operation in the meta protocol, which returns the CAS uniques of items."""
    if op.action == "get":
        return b"mg %s v c t\r\n" % key
    if op.action == "touch":
        return b"mg %s T%d\r\n" % (key, op.exptime)
    if op.action == "delete":
        return b"md %s\r\n" % key
    if op.action in ("incr", "decr"):
        return b"ma %s M%s D%d v c\r\n" % (key, op.action[:1].upper().encode(), op.delta)
    value = op.value.encode()
    compare = b" C%d" % op.expected if op.action == "cas" else b""
    flags = b"c M%s T%d%s" % (MODES[op.action], op.exptime, compare)
    return b"ms %s %d %s\r\n%s\r\n" % (key, len(value), flags, value)


def understand(op: Op, status: bytes, flags: list[bytes], value: bytes) -> None:
    """Records the outcome."""
    op.result = {b"HD": DONE, b"VA": DONE, b"EX": REFUSED}.get(status, ABSENT)
    if status == b"NS" and op.action == "add":
        op.result = REFUSED
    assert status in (b"HD", b"VA", b"EN", b"NF", b"NS", b"EX"), status
    if status == b"VA":
        op.seen = value.decode().rstrip() or "-"  # a number keeps its length
    for flag in flags:
        if flag.startswith(b"c") and op.action != "touch":
            op.cas = int(flag[1:])
        elif flag.startswith(b"t") and op.action == "get":
            op.seen_exptime = -(-int(flag[1:]) // TTL_STEP) * TTL_STEP


def apply(connection, op: Op, key: bytes) -> None:
    op.begin = time.monotonic_ns()
    connection.send(request_of(op, key))
    words = connection.line().split()
    value = b""
    if words[0] == b"VA":
        value = connection.exactly(int(words[1]) + 2)[:-2]
    op.end = time.monotonic_ns()
    understand(op, words[0], words[1:], value)


def random_op(rng: random.Random, key_number: int, cas_seen: int) -> Op:
    """Keys are counted with or appended to, not both, so that numbers stay numbers."""
    others = ("incr", "decr") if key_number % 2 else ("append", "prepend")
    action = rng.choice(("get", "get", "set", "add", "replace", "cas", "touch", "delete", *others))
    op = Op(action, delta=rng.randint(1, 9), expected=cas_seen)
    if action in MODES:
        op.value = str(rng.randint(1, 9))
    if action in MODES or action == "touch":
        op.exptime = rng.randint(1, 20) * TTL_STEP
    return op


class Client(threading.Thread):
    def __init__(self, server, seed: int):
        super().__init__()
        self.connection = server.connect()
        self.rng = random.Random(seed)
        self.history: list[tuple[str, Op]] = []
        self.error: BaseException | None = None

    def run(self):
        try:
            with self.connection:
                self.converse()
        except BaseException as error:  # reported by the main thread
            self.error = error

    def converse(self):
        cas_seen = 0
        for number in range(OPS):
            turn = number // OPS_PER_KEY
            key = f"key{turn * 2 + self.rng.randint(0, 1)}"
            op = random_op(self.rng, int(key[3:]), cas_seen)
            apply(self.connection, op, key.encode())
            cas_seen = op.cas or cas_seen
            self.history.append((key, op))


@pytest.fixture(scope="module")
def checker(tmp_path_factory):
    """A function: the checker's exit code and output for a history in text."""
    program = tmp_path_factory.mktemp("history") / "history"
    sources = [ROOT / "test/history" / name for name in ("history.c", "history_main.c")]
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-O2", "-std=gnu11", "-o", program, *sources], check=True)

    def check(text: str) -> tuple[int, str]:
        result = subprocess.run([program], input=text, capture_output=True, text=True, timeout=60)
        return result.returncode, result.stdout

    return check


def recorded(server) -> list[str]:
    """The history of several clients as lines, grouped by key."""
    clients = [Client(server, seed) for seed in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    for client in clients:
        if client.error:
            raise client.error
    by_key: dict[str, list[str]] = {}
    for client in clients:
        for key, op in client.history:
            by_key.setdefault(key, []).append(op.line(key))
    return [line for lines in by_key.values() for line in lines]


@pytest.mark.parametrize("kind, threads", [("sock", 2), ("sock", 4), ("tap", 2)])
def test_histories_are_linearizable(start_server, checker, kind, threads):
    server = start_server(kind, "-m", "64", "-t", threads)
    status, output = checker("\n".join(recorded(server)))
    assert status == 0, output
    assert int(output.split()[0]) >= OPS // OPS_PER_KEY


def test_a_wrong_history_is_refused(start_server, checker):
    """The checker refuses a history in which one value is replaced by one that was never stored."""
    lines = recorded(start_server("sock", "-m", "64", "-t", 2))
    splits = [line.split() for line in lines]
    read = next(i for i, words in enumerate(splits) if words[1] == "0" and words[7] != "-")
    words = splits[read]
    words[7] = "x"
    lines[read] = " ".join(words)
    status, output = checker("\n".join(lines))
    assert status == 1
    assert f"{words[0]}: not linearizable" in output
    assert output.endswith(" keys, 1 wrong\n")
