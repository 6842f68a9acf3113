# SPDX-License-Identifier: BSD-3-Clause
"""Kernel sockets by io_uring. All tests of kernel sockets run over it with UCACHED_SOCK=uring."""

import contextlib
import ctypes
import random
import signal
import socket
import struct
import subprocess

import pytest
import server as servers
from wire import MISS, STORED, Wire, hit, settles, storage, wire_to

BY_URING = "kernel sockets by io_uring"
VALUE = random.Random(3).randbytes(300_000)


@pytest.fixture(scope="module", autouse=True)
def possible(ucached_path):
    """Skips where the kernel, or this build, has no io_uring for us."""
    command = [ucached_path, "--io=uring", "-l", "127.0.0.1", "-p", str(servers.free_port())]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        lines = iter(process.stderr.readline, "")
        line = next(text for text in lines if "warning" not in text)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    if "no io_uring" in line:
        pytest.skip(f"uring: {line.strip()}")
    assert BY_URING in line


@pytest.fixture
def start(ucached_path, tmp_path):
    """A function that starts a server on kernel sockets: start(io, *args, **options of Popen)."""
    started = []

    def start_io(io, *args, limits=None, port=None):
        port = port or servers.free_port()
        command = [ucached_path, "-l", "127.0.0.1", "-p", str(port), *args]
        if io:
            command.append(f"--io={io}")
        space = servers.netspace.HostSpace()
        if limits:
            space.popen = lambda *words, **options: subprocess.Popen(
                *words, preexec_fn=limits, **options
            )
        log = tmp_path / f"{len(started)}.log"
        started.append(servers.Server("sock", command, ("127.0.0.1", port), space, log))
        return started[-1]

    yield start_io
    for server in started:
        server.stop()


def serves(server):
    with wire_to(server) as wire:
        wire.say(storage(b"set", b"k", VALUE), STORED)
        wire.say(b"get k\r\n", hit(b"k", VALUE) + MISS)


def is_free(address):
    with socket.socket() as listener, contextlib.suppress(OSError):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        return True
    return False


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=lambda end: end.name)
def test_the_port_is_free_at_the_end(start, end):
    """Also while clients are connected, whose requests the kernel ends after the process.

    A server that is killed leaves it to the kernel when: the next one waits for a second only.
    """
    before = start("uring", "-t", "2")
    for _ in range(8):
        clients = [wire_to(before) for _ in range(16)]
        for wire in clients:
            wire.__enter__().say(storage(b"set", b"k", VALUE), STORED)
        before.signal(end)
        before.wait()
        if end == signal.SIGKILL:
            assert settles(lambda address=before.address: is_free(address))
        before = start("uring", "-t", "2", port=before.address[1])
        serves(before)


def test_it_is_what_auto_means(start, monkeypatch):
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")  # the filter forbids what that needs
    assert BY_URING in start(None).log()
    assert BY_URING in start("uring").log()
    assert BY_URING not in start("sock").log()
    assert BY_URING in start(None, "-o", "drop_privileges").log()


def forbid_io_uring():
    """A filter of system calls as containers have it: io_uring_setup() (425) gives EPERM."""
    load, jump_if_equal, give = 0x20, 0x15, 0x06
    code = [(load, 0, 0, 0), (jump_if_equal, 0, 1, 425), (give, 0, 0, 0x00050001),
            (give, 0, 0, 0x7FFF0000)]  # fmt: skip
    packed = b"".join(struct.pack("HBBI", *step) for step in code)
    buffer = ctypes.create_string_buffer(packed)
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


@pytest.mark.parametrize("io", ["uring", None])
def test_a_filter_forbids_it(start, io):
    server = start(io, limits=forbid_io_uring)
    serves(server)
    log = server.log()
    assert BY_URING not in log and "kernel sockets" in log
    assert ("forbidden here" in log) == (io == "uring")


def test_replies_to_many_at_once(start):
    """More connections, and more of each reply, than one round of the rings takes."""
    server = start("uring", "-t", "1", "-c", "2000")
    serves(server)
    wires = [wire_to(server) for _ in range(600)]
    for wire in wires:
        wire.send(b"get k\r\n" * 3)
    for wire in wires:
        wire.expect((hit(b"k", VALUE) + MISS) * 3)
        wire.close()
    assert settles(lambda: server.stats()["curr_connections"] == "1")


def test_clients_that_do_not_read(start):
    """Their sessions stop, their requests wait in the kernel, and other clients are served."""
    server = start("uring", "-t", "1")
    serves(server)
    blocked = [wire_to(server) for _ in range(8)]
    for wire in blocked:
        wire.sock.setblocking(False)
        try:
            while True:
                wire.sock.send(b"get k\r\n" * 1000)
        except BlockingIOError:
            pass
    for _ in range(5):
        serves(server)
    assert int(server.stats("sock")["sessions_blocked"]) >= 8
    assert server.stats()["curr_connections"] == "9"
    for wire in blocked:
        wire.sock.settimeout(60)
        wire.expect((hit(b"k", VALUE) + MISS) * 20)
        wire.close()
    assert settles(lambda: server.stats()["curr_connections"] == "1")


def test_an_upload_while_blocked(start):
    """Data received while a session is stopped is kept in order."""
    server = start("uring", "-t", "1", "-R", "1")
    serves(server)
    with Wire(servers.socket.create_connection(server.address, 10)) as wire:
        sets = b"".join(storage(b"set", b"n%d" % i, b"v" * 5000) for i in range(300))
        wire.send(b"get k\r\n" * 4 + sets + b"get n299\r\n")
        wire.expect((hit(b"k", VALUE) + MISS) * 4 + STORED * 300)
        wire.expect(hit(b"n299", b"v" * 5000) + MISS)
