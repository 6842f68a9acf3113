# SPDX-License-Identifier: BSD-3-Clause
"""ucached as a service of systemd: sockets, memory and notifications, with the test as systemd."""

import array
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from server import IO_TIMEOUT, START_TIMEOUT, STOP_TIMEOUT, Connection, free_port

# Executes a command with descriptors from 3 on and the variables that say so, as systemd does.
LAUNCHER = """
import os, sys
fds = [int(fd) for fd in sys.argv[1].split(",") if fd]
free = max([2, *fds]) + len(fds) + 1
for number, fd in enumerate(fds):
    os.dup2(fd, free + number)
for number in range(len(fds)):
    os.dup2(free + number, 3 + number)
os.closerange(3 + len(fds), free + len(fds))
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)))
if "WATCHDOG_USEC" in os.environ:
    os.environ["WATCHDOG_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


class Manager:
    """The side of systemd: a socket for notifications, a store of memory, listening sockets."""

    def __init__(self, command, directory):
        self.command = command
        self.path = str(directory / "notify")
        self.log_path = directory / "log"
        self.store = {}
        self.sockets = {}
        self.messages = []
        self.process = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(STOP_TIMEOUT)
        for fd in self.store.values():
            os.close(fd)
        for listener in self.sockets.values():
            listener.close()
        self._socket.close()

    def listen(self, name):
        listener = socket.create_server(("127.0.0.1", 0))
        self.sockets[name] = listener
        return listener.getsockname()

    def start(self, *args, **variables):
        given = {name: listener.fileno() for name, listener in self.sockets.items()} | self.store
        fds = list(given.values())
        env = os.environ | variables
        env["NOTIFY_SOCKET"] = self.path
        env["LISTEN_FDNAMES"] = ":".join(given)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", LAUNCHER, ",".join(map(str, fds)), *self.command, *args],
                env=env, pass_fds=fds, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self.wait_for("READY=1")

    def receive(self, timeout):
        self._socket.settimeout(timeout)
        data, ancillary, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(16))
        fds = array.array("i")
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(content)
        lines = data.decode().splitlines()
        fields = dict(line.split("=", 1) for line in lines)
        if "FDSTORE" in fields:
            (fd,) = fds
            if fields["FDNAME"] in self.store:
                os.close(self.store[fields["FDNAME"]])
            self.store[fields["FDNAME"]] = fd
        if "FDSTOREREMOVE" in fields:
            os.close(self.store.pop(fields["FDNAME"]))
        self.messages += lines
        return lines

    def wait_for(self, line):
        end = time.monotonic() + START_TIMEOUT
        while line not in self.receive(max(0.1, end - time.monotonic())):
            assert time.monotonic() < end, self.messages

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        if number == signal.SIGTERM:
            self.wait_for("STOPPING=1")
        assert self.process.wait(STOP_TIMEOUT) == (0 if number == signal.SIGTERM else -number)

    def log(self):
        return self.log_path.read_text(errors="replace")


def connect(address):
    return Connection(socket.create_connection(address, IO_TIMEOUT))


@pytest.fixture
def manager(ucached_path, tmp_path):
    made = Manager([ucached_path, "--io=sock"], tmp_path)
    yield made
    made.close()


def test_memory_is_kept_over_a_restart(manager):
    port = free_port()
    args = ("--fd-store", "-l", "127.0.0.1", "-p", str(port))
    value = os.urandom(300000)
    manager.start(*args)
    assert list(manager.store) == ["ucached-memory"]
    with connect(("127.0.0.1", port)) as connection:
        command = f"set key 7 0 {len(value)}\r\n".encode()
        assert connection.ask(command + value + b"\r\n") == b"STORED\r\n"
    for _ in range(2):
        manager.stop()
        manager.start(*args)
        with connect(("127.0.0.1", port)) as connection:
            assert connection.ask(b"get key\r\n") == f"VALUE key 7 {len(value)}\r\n".encode()
            assert connection.exactly(len(value)) == value
    assert manager.log().count("restored 1 items") == 2
    manager.stop(signal.SIGKILL)
    manager.start(*args)
    with connect(("127.0.0.1", port)) as connection:
        assert connection.ask(b"get key\r\n") == b"END\r\n"
    assert "has not saved it" in manager.log()
    manager.stop()
    manager.start("-l", "127.0.0.1", "-p", str(port))
    manager.stop()
    assert manager.store == {}


def test_clients_wait_during_a_restart(manager):
    address = manager.listen("ucached.socket")
    with connect(address) as first:
        first.send(b"set key 0 0 1\r\nx\r\n")
        manager.start("--fd-store")
        assert first.line() == b"STORED\r\n"
        manager.stop()
    with connect(address) as second:
        second.send(b"stats settings\r\nget key\r\n")
        manager.start("--fd-store")
        assert b"STAT tcpport %d\r\n" % address[1] in second.until(b"END\r\n")
        assert second.until(b"END\r\n") == b"VALUE key 0 1\r\nx\r\nEND\r\n"
        assert second.ask(b"version\r\n").startswith(b"VERSION")
    manager.stop()


def test_watchdog(manager):
    manager.listen("ucached.socket")
    manager.start(WATCHDOG_USEC="200000")
    manager.wait_for("WATCHDOG=1")
    manager.wait_for("WATCHDOG=1")
    manager.stop()


def test_wrong_descriptor_is_refused(manager):
    manager.sockets["wrong"] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fd = manager.sockets["wrong"].fileno()
    done = subprocess.run(
        [sys.executable, "-c", LAUNCHER, str(fd), *manager.command],
        env=os.environ | {"LISTEN_FDNAMES": "wrong"}, pass_fds=[fd], timeout=START_TIMEOUT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "not a listening stream socket" in done.stderr
