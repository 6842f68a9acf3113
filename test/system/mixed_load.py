# SPDX-License-Identifier: BSD-3-Clause
"""Many clients at once, mixed operations, every reply checked.

Each client has its own keys and a model of the replies; it writes batches of pipelined requests and
compares the reply stream byte for byte. The memory limit of the server must be so large that
nothing is evicted. Runs clients as threads of a few processes, so it needs no event library.
"""

import multiprocessing
import random
import socket
import threading
import time
import traceback
import zlib

CRLF = b"\r\n"


def value_of(seed: int, size: int) -> bytes:
    """size bytes that depend on seed and differ at every offset of a page."""
    block = random.Random(seed).randbytes(min(size, 4096))
    return (block * (size // max(len(block), 1) + 1))[:size]


class Model:
    """The model of one client: values of its keys, and the exact reply to each request."""

    def __init__(self, prefix: str, rng: random.Random, value_max: int):
        self.prefix, self.rng, self.value_max = prefix, rng, value_max
        self.items: dict[bytes, tuple[int, bytes]] = {}
        self.serial = 0

    def size(self) -> int:
        """A size: mostly small, sometimes up to the largest; also 0 and powers of two."""
        kind = self.rng.random()
        if kind < 0.80:
            return self.rng.randint(0, 100)
        if kind < 0.97:
            return self.rng.randint(0, 5000)
        if kind < 0.998:
            return self.rng.choice([8190, 8191, 8192, 8193, 16384, 65536])
        return self.rng.randint(0, self.value_max)

    def key(self) -> bytes:
        return f"{self.prefix}:{self.rng.randint(0, 49)}".encode()

    def value(self) -> bytes:
        self.serial += 1
        return value_of(zlib.crc32(b"%s %d" % (self.prefix.encode(), self.serial)), self.size())

    def step(self) -> tuple[bytes, bytes]:
        """One request and its reply."""
        pick = self.rng.random()
        key = self.key()
        if pick < 0.45:
            return b"get %s\r\n" % key, self.reply_get([key])
        if pick < 0.55:
            keys = [self.key() for _ in range(self.rng.randint(2, 20))]
            return b"get %s\r\n" % b" ".join(keys), self.reply_get(keys)
        if pick < 0.80:
            return self.store(b"set", key)
        if pick < 0.84:
            return self.store(b"add", key)
        if pick < 0.88:
            return self.store(b"replace", key)
        if pick < 0.91:
            return self.extend(key)
        if pick < 0.95:
            return self.count(key)
        if pick < 0.97:
            return (
                b"touch %s 0\r\n" % key,
                b"TOUCHED\r\n" if key in self.items else b"NOT_FOUND\r\n",
            )
        found = self.items.pop(key, None)
        return b"delete %s\r\n" % key, b"DELETED\r\n" if found else b"NOT_FOUND\r\n"

    def reply_get(self, keys: list[bytes]) -> bytes:
        out = []
        for key in keys:
            if key in self.items:
                flags, value = self.items[key]
                out += [b"VALUE %s %d %d\r\n" % (key, flags, len(value)), value, CRLF]
        return b"".join(out) + b"END\r\n"

    def store(self, verb: bytes, key: bytes) -> tuple[bytes, bytes]:
        flags, value = self.rng.randint(0, 2**32 - 1), self.value()
        stored = verb == b"set" or (verb == b"add") == (key not in self.items)
        noreply = self.rng.random() < 0.1
        line = b"%s %s %d 0 %d%s\r\n" % (verb, key, flags, len(value), b" noreply" * noreply)
        if stored:
            self.items[key] = (flags, value)
        reply = b"STORED\r\n" if stored else b"NOT_STORED\r\n"
        return line + value + CRLF, b"" if noreply else reply

    def extend(self, key: bytes) -> tuple[bytes, bytes]:
        verb, part = self.rng.choice([b"append", b"prepend"]), self.value()[:200]
        request = b"%s %s 0 0 %d\r\n%s\r\n" % (verb, key, len(part), part)
        if key not in self.items or len(self.items[key][1]) + 200 > self.value_max:
            if key in self.items:
                return self.store(b"set", key)
            return request, b"NOT_STORED\r\n"
        flags, value = self.items[key]
        self.items[key] = (flags, value + part if verb == b"append" else part + value)
        return request, b"STORED\r\n"

    def count(self, key: bytes) -> tuple[bytes, bytes]:
        number = self.rng.randint(0, 10**9)
        self.items[key] = (0, b"%d" % (number + 10**9))
        set_line = b"set %s 0 0 10\r\n%d\r\n" % (key, number + 10**9)
        delta = self.rng.randint(0, 10**6)
        total = number + 10**9 + delta
        self.items[key] = (0, b"%d" % total)
        return set_line + b"incr %s %d\r\n" % (key, delta), b"STORED\r\n%d\r\n" % total


def read_exactly(sock: socket.socket, size: int) -> bytes:
    parts, have = [], 0
    while have < size:
        part = sock.recv(min(size - have, 1 << 20))
        if not part:
            raise ConnectionError(f"closed after {have} of {size} bytes")
        parts.append(part)
        have += len(part)
    return b"".join(parts)


def difference(got: bytes, expected: bytes) -> str:
    """Where two replies of the same length differ."""
    at = next(i for i, (a, b) in enumerate(zip(got, expected)) if a != b)
    part = slice(max(0, at - 40), at + 40)
    return f"reply differs at byte {at}: got {got[part]!r}, expected {expected[part]!r}"


def run_client(address, seed: int, operations: int, value_max: int, connect) -> None:
    rng = random.Random(seed)
    model = Model(f"c{seed}", rng, value_max)
    with connect(address) as sock:
        sock.settimeout(120)
        done = 0
        while done < operations:
            batch = [
                model.step() for _ in range(min(rng.choice([1, 1, 4, 16, 64]), operations - done))
            ]
            request, expected = b"".join(b[0] for b in batch), b"".join(b[1] for b in batch)
            # A writer thread is needed only where both directions could fill up.
            writer = None
            if len(request) > 32768 and len(expected) > 32768:
                writer = threading.Thread(target=sock.sendall, args=(request,))
                writer.start()
            else:
                sock.sendall(request)
            got = read_exactly(sock, len(expected))
            if writer:
                writer.join()
            if got != expected:
                raise AssertionError(f"client {seed}: {difference(got, expected)}")
            done += len(batch)


def plain_connect(address):
    sock = socket.create_connection(address, timeout=60)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _process(address, seeds, operations, value_max, connect, failures):
    def guarded(seed):
        try:
            run_client(address, seed, operations, value_max, connect)
        except Exception:  # noqa: BLE001 - reported to the parent, whatever it is
            failures.put(f"client {seed}: {traceback.format_exc(limit=3)}")

    threads = [threading.Thread(target=guarded, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run(
    address,
    clients: int,
    operations: int,
    value_max: int = 1_000_000,
    processes: int = 2,
    connect=plain_connect,
    seed: int = 1,
) -> float:
    """Runs `operations` in all over `clients` connections; returns the seconds it took.

    Raises AssertionError with the first few failures. Forks, so that sockets are made in the
    network namespace of the caller.
    """
    context = multiprocessing.get_context("fork")
    failures = context.SimpleQueue()
    seeds = list(range(seed, seed + clients))
    begin = time.monotonic()
    workers = [
        context.Process(
            target=_process,
            args=(
                address,
                seeds[i::processes],
                operations // clients,
                value_max,
                connect,
                failures,
            ),
        )
        for i in range(processes)
    ]
    for worker in workers:
        worker.start()
    texts = []
    while any(worker.is_alive() for worker in workers):
        while not failures.empty():
            texts.append(failures.get())
        time.sleep(0.05)
    while not failures.empty():
        texts.append(failures.get())
    bad_exits = [worker.exitcode for worker in workers if worker.exitcode != 0]
    assert not texts and not bad_exits, (
        f"{len(texts)} clients failed; exits {bad_exits}\n" + "\n".join(texts[:5])
    )
    return time.monotonic() - begin


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("host")
    parser.add_argument("port", type=int, nargs="?", default=11211)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--value-max", type=int, default=1_000_000)
    arguments = parser.parse_args()
    seconds = run(
        (arguments.host, arguments.port),
        arguments.clients,
        arguments.operations,
        arguments.value_max,
    )
    done = f"{arguments.operations} operations over {arguments.clients} clients"
    print(f"{done} in {seconds:.1f} s, no error")
