# SPDX-License-Identifier: BSD-3-Clause
"""A new process takes over sockets, connections and items from a running one: --takeover."""

import contextlib
import os
import pwd
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

import netspace
import pytest
import tls
import veth
from server import (
    IO_TIMEOUT,
    STACK,
    START_TIMEOUT,
    STOP_TIMEOUT,
    TAP_ADDRESS,
    TAP_HOST_ADDRESS,
    TAP_PORT,
    Connection,
    free_port,
)
from test_start import dial
from wire import settles

KINDS = [("--io=sock", "-t", "2"), ("--io=uring", "-t", "2"), ("--io=tap", "-t", "2")]
CONNECTIONS = 200
LOADERS = 4
ITEMS = 2000
LONG = os.environ.get("UCACHED_LONG") == "1"

# The messages of apps/ucached/takeover.h.
MAGIC = 0x4F544355
HELLO, REFUSE, MEMORY, STATE, END, COMMIT, CLOSE, CLOSED = range(1, 9)
VERSIONS = (1, 3, 1, 1)  # of messages, handover, connections, memory


class Line:
    """A succession of servers, each of which takes over from the one before.

    On kernel sockets, or with --io=tap on the own stack in a namespace of its own, over AF_XDP
    with UCACHED_STACK=xdp. With -Z connections have TLS.
    """

    def __init__(self, path, directory, *args):
        self.socket_path = str(directory / "takeover")
        self.log_path = directory / "log"
        if "--io=tap" not in args:
            self.space = self.home = netspace.HostSpace()
            self.address = ("127.0.0.1", free_port())
            where = ["-l", "127.0.0.1", "-p", str(self.address[1])]
        else:
            self.address = (TAP_ADDRESS, TAP_PORT)
            where = ["-p", str(TAP_PORT), "-t", "1"]
        if "--io=tap" in args and STACK == "xdp":
            link = veth.Link([], [f"{TAP_HOST_ADDRESS}/24"], queues=2)
            self.space, self.home = link.client, link.server
            where += [f"--dev={veth.SERVER_DEVICE}", f"--ip={TAP_ADDRESS}/24"]
            args = [arg.replace("=tap", "=xdp") for arg in args]
        elif "--io=tap" in args:
            self.space = self.home = netspace.NetSpace()
        self.tls = tls.context() if "-Z" in args else None
        self.command = [path, *where, "-m", "64", f"--takeover={self.socket_path}"]
        self.args = args
        self.processes = [self.start()]
        self._wait_for_answer()

    def start(self, *args):
        with open(self.log_path, "ab") as log:
            return self.home.popen(
                [*self.command, *self.args, *args], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _wait_for_answer(self):
        end = time.monotonic() + START_TIMEOUT
        while True:
            try:
                with self.connect() as connection:
                    assert connection.ask(b"version\r\n").startswith(b"VERSION")
                    return
            except OSError:
                assert time.monotonic() < end and self.current.poll() is None, self.log()
                time.sleep(0.01)

    @property
    def current(self):
        return self.processes[-1]

    def dial(self):
        return self.space.run(socket.create_connection, self.address, IO_TIMEOUT)

    def connect(self, context=None):
        context = context or self.tls
        return Connection(tls.Socket(self.dial(), context) if context else self.dial())

    def succeed(self, *args):
        """The next server takes over; returns the seconds until the old one has ended."""
        began = time.monotonic()
        old = self.current
        self.processes.append(self.start(*args))
        assert old.wait(STOP_TIMEOUT) == 0, self.log()
        return time.monotonic() - began

    def fail(self, *args):
        """A process that must not take over ends; returns the log."""
        assert self.start(*args).wait(STOP_TIMEOUT) != 0, self.log()
        assert self.current.poll() is None
        return self.log()

    def descriptors(self):
        """How many the running server has."""
        return len(os.listdir(f"/proc/{self.current.pid}/fd"))

    def pollers(self):
        """How many descriptors of epoll and io_uring the running server has."""
        found = 0
        for descriptor in os.scandir(f"/proc/{self.current.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found += os.readlink(descriptor.path).endswith(("[eventpoll]", "[io_uring]"))
        return found

    def log(self):
        return self.log_path.read_text(errors="replace")

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            process.wait(STOP_TIMEOUT)
        self.space.close()
        self.home.close()


@pytest.fixture
def line(ucached_path, tap_obstacle, tmp_path):
    made = []

    def make(*args):
        if "--io=tap" in args and tap_obstacle:
            pytest.skip(f"tap: {tap_obstacle}")
        made.append(Line(ucached_path, tmp_path, *args))
        return made[-1]

    yield make
    for one in made:
        one.close()


# ---- load ---------------------------------------------------------------------------------------


def value_of(name, round_):
    """Values of many lengths; one in eight takes several segments."""
    text = f"{name}:{round_};".encode()
    return text * (1 + (round_ * 7 % 3000 if round_ % 8 == 0 else round_ % 5))


class Loader(threading.Thread):
    """Stores and reads through its connections in turns, and checks each byte of the replies."""

    def __init__(self, line, number, count):
        super().__init__(daemon=True)
        self.connections = [line.connect() for _ in range(count)]
        self.number = number
        self.ending = False
        self.stall = 0.0
        self.requests = 0
        self.stored = {}
        self.error = None

    def run(self):
        try:
            round_ = 0
            while not self.ending:
                round_ += 1
                for index, connection in enumerate(self.connections):
                    self.exchange(connection, f"load-{self.number}-{index}", round_)
        except (OSError, EOFError, AssertionError) as error:
            self.error = f"loader {self.number}, request {self.requests}: {error!r}"

    def exchange(self, connection, key, round_):
        value = value_of(key, round_)
        request = f"set {key} 5 0 {len(value)}\r\n".encode() + value + b"\r\n"
        request += f"get {key}\r\n".encode()
        began = time.monotonic()
        if self.requests % 10 == 0:  # in two pieces, cut anywhere
            cut = self.requests * 31 % len(request)
            connection.send(request[:cut])
            connection.send(request[cut:])
        else:
            connection.send(request)
        reply = b"STORED\r\n" + f"VALUE {key} 5 {len(value)}\r\n".encode() + value + b"\r\nEND\r\n"
        assert connection.exactly(len(reply)) == reply
        self.stored[key] = value
        self.stall = max(self.stall, time.monotonic() - began)
        self.requests += 1


def store_items(connection):
    """Returns the times before and after."""
    before = time.monotonic()
    for number in range(ITEMS):
        connection.send(b"set item-%d 0 3600 9 noreply\r\nvalue%04d\r\n" % (number, number))
    assert connection.ask(b"version\r\n").startswith(b"VERSION")
    return before, time.monotonic()


def check_items(connection, stored):
    """All are there, and their times to live have run on: seconds are cut at both ends."""
    for number in range(ITEMS):
        value = connection.ask(b"get item-%d\r\n" % number, b"END\r\n")
        assert value == b"VALUE item-%d 0 9\r\nvalue%04d\r\nEND\r\n" % (number, number)
    before = time.monotonic()
    passed = 3600 - int(connection.ask(b"mg item-0 t\r\n")[4:])
    assert before - stored[1] - 1 <= passed <= time.monotonic() - stored[0] + 1


def check_load(line, loaders, takeovers, seconds_between, capsys):
    with line.connect() as connection:
        stored = store_items(connection)
        for loader in loaders:
            loader.start()
        for _ in range(takeovers):
            time.sleep(seconds_between)
            line.succeed()
        time.sleep(0.2)
        for loader in loaders:
            loader.ending = True
        for loader in loaders:
            loader.join(IO_TIMEOUT)
        assert [loader.error for loader in loaders] == [None] * len(loaders), line.log()
        check_items(connection, stored)
        for loader in loaders:
            for key, value in loader.stored.items():
                reply = connection.ask(f"get {key}\r\n".encode(), b"\r\nEND\r\n")
                assert reply.endswith(b"\r\n" + value + b"\r\nEND\r\n")
    with capsys.disabled():
        print(
            f" [{takeovers} takeovers, {sum(loader.requests for loader in loaders)} requests, "
            f"longest stall {max(loader.stall for loader in loaders) * 1000:.0f} ms]",
            end="",
        )


def loaders_of(line):
    return [Loader(line, number, CONNECTIONS // LOADERS) for number in range(LOADERS)]


@pytest.mark.parametrize("args", KINDS, ids=" ".join)
def test_repeated_takeovers_under_load(line, args, capsys):
    servers = line(*args)
    check_load(servers, loaders_of(servers), 5, 0.3, capsys)


@pytest.mark.long
@pytest.mark.limit(480)
@pytest.mark.parametrize("args", KINDS, ids=" ".join)
def test_takeovers_for_minutes(line, args, capsys):
    """Five minutes with UCACHED_LONG, a quarter of one without."""
    servers = line(*args)
    check_load(servers, loaders_of(servers), 30 if LONG else 5, 10 if LONG else 3, capsys)


# ---- what moves ---------------------------------------------------------------------------------


@pytest.mark.parametrize("io", ["sock", "tap"])
def test_sessions_continue_where_they_were(line, io):
    """Between two requests, in a line, in a pipeline, in the binary protocol, in an upload."""
    servers = line(f"--io={io}")
    names = ("idle", "in_line", "pipeline", "binary", "upload")
    of = {name: servers.connect() for name in names}
    assert of["idle"].ask(b"set a 0 0 1\r\nx\r\n") == b"STORED\r\n"
    of["in_line"].send(b"set b 0 0 ")
    of["pipeline"].send(b"get a\r\nget")
    assert of["pipeline"].until(b"END\r\n") == b"VALUE a 0 1\r\nx\r\nEND\r\n"
    noop = b"\x80\x0a" + bytes(22)
    of["binary"].send(noop + noop[:5])
    assert of["binary"].exactly(24)[:2] == b"\x81\x0a"
    of["upload"].send(b"set c 0 0 5\r\nhe")
    rest = threading.Timer(0.3, of["upload"].send, [b"llo\r\n"])
    rest.start()  # while the server waits for it
    servers.succeed()
    rest.join()
    assert of["upload"].line() == b"STORED\r\n"
    assert of["idle"].ask(b"get a\r\n", b"END\r\n") == b"VALUE a 0 1\r\nx\r\nEND\r\n"
    assert of["in_line"].ask(b"2\r\nyz\r\n") == b"STORED\r\n"
    assert of["pipeline"].ask(b" c\r\n", b"END\r\n") == b"VALUE c 0 5\r\nhello\r\nEND\r\n"
    of["binary"].send(noop[5:])
    assert of["binary"].exactly(24)[:2] == b"\x81\x0a"
    for connection in of.values():
        connection.close()


@pytest.mark.parametrize("io", ["sock", "uring", "tap"])
def test_clients_that_do_not_come_to_rest_are_closed(line, io):
    servers = line(f"--io={io}")
    with servers.connect() as slow, servers.connect() as watcher, servers.connect() as other:
        slow.send(b"set a 0 0 5\r\nhe")  # unread it would be left to the next server
        assert settles(lambda: b"conn_nread" in other.ask(b"stats conns\r\n", b"END\r\n"))
        assert watcher.ask(b"watch fetchers\r\n") == b"OK\r\n"
        servers.succeed()
        assert slow.rest() == b""
        assert watcher.rest() == b""
        assert other.ask(b"get a\r\n") == b"END\r\n"


def test_clients_that_connect_meanwhile_are_served(line):
    servers = line("--io=sock", "-t", "2")
    stop = threading.Event()
    errors = []

    def connect_again_and_again():
        try:
            while not stop.is_set():
                with servers.connect() as connection:
                    assert connection.ask(b"version\r\n").startswith(b"VERSION")
        except (OSError, EOFError, AssertionError) as error:
            errors.append(repr(error))

    thread = threading.Thread(target=connect_again_and_again)
    thread.start()
    for _ in range(3):
        servers.succeed()
    stop.set()
    thread.join(IO_TIMEOUT)
    assert errors == []


@pytest.mark.parametrize("io", ["sock", "tap"])
def test_number_of_threads_changes(line, io):
    """TAP: to fewer threads than queues, then to more, of which some have none."""
    servers = line(f"--io={io}", "-t", "2")
    connections = [servers.connect() for _ in range(8)]
    for threads in (1, 3, 2):
        servers.succeed("-t", str(threads))
        connections.append(servers.connect())
        for connection in connections:
            assert connection.ask(b"get a\r\n") == b"END\r\n"
    for connection in connections:
        connection.close()


def test_other_interface_of_the_kernel(line):
    """From epoll to io_uring and back: sockets that block, and that do not."""
    servers = line()
    connections = [servers.connect()]
    for args in (["--io=sock"], ["--io=uring"], ["-o", "no_maxconns_fast"], ["--io=sock"]):
        servers.succeed(*args)
        connections += [servers.connect() for _ in range(4)]
        for connection in connections:
            assert connection.ask(b"get a\r\n") == b"END\r\n"
    for connection in connections:
        connection.close()


def test_file_of_items(line, tmp_path):
    servers = line("--io=sock", "-e", str(tmp_path / "items"))
    with servers.connect() as connection:
        stored = store_items(connection)
        servers.succeed()
        check_items(connection, stored)
        assert "is not that of the running server" in servers.fail("-e", str(tmp_path / "log"))


def test_file_of_items_after_a_refusal(line, tmp_path):
    """The running server keeps its items; the file that it saved for its successor is invalid."""
    servers = line("--io=sock", "-e", str(tmp_path / "items"))
    with servers.connect() as connection:
        assert connection.ask(b"set old 0 0 1\r\nx\r\n") == b"STORED\r\n"
        servers.fail("-C")
        assert connection.ask(b"set new 0 0 1\r\nx\r\n") == b"STORED\r\n"
        servers.current.kill()
        servers.current.wait(STOP_TIMEOUT)
    servers.processes.append(servers.start())
    servers._wait_for_answer()
    with servers.connect() as connection:
        assert connection.ask(b"get old\r\n") == b"END\r\n"
    assert "has not saved it" in servers.log()


def test_unix_socket(ucached_path, tmp_path):
    path = str(tmp_path / "socket")
    command = [ucached_path, "--io=sock", "-s", path, f"--takeover={tmp_path}/takeover"]
    old = subprocess.Popen(command)
    with dial(path, socket.AF_UNIX) as served, dial(path, socket.AF_UNIX) as waiting:
        served.say(b"get a\r\n", b"END\r\n")  # the takeover socket listens before any reply
        new = subprocess.Popen(command)
        assert old.wait(STOP_TIMEOUT) == 0
        for wire in (served, waiting):
            wire.say(b"get a\r\n", b"END\r\n")
    new.terminate()
    assert new.wait(STOP_TIMEOUT) == 0


# ---- TLS ----------------------------------------------------------------------------------------

TLS_IO = ["sock", "uring", "tap"]


@pytest.mark.parametrize("io", TLS_IO)
def test_tls_takeovers_under_load(line, io, capsys):
    servers = line(f"--io={io}", "-t", "2", *tls.server_args())
    check_load(servers, loaders_of(servers), 3, 0.3, capsys)
    with servers.connect() as connection:
        connection.send(b"stats tls\r\n")
        stats = dict(row.split()[1:] for row in connection.until(b"END\r\n").splitlines()[:-1])
    assert int(stats[b"taken_over"]) > CONNECTIONS
    assert int(stats[b"takeover_closed"]) == 0


@pytest.mark.parametrize("io", TLS_IO)
def test_tls_sessions_continue_where_they_were(line, io):
    """Between two requests, in a line, in a record, in an upload."""
    servers = line(f"--io={io}", *tls.server_args())
    idle, in_line, in_record, upload = (servers.connect() for _ in range(4))
    assert idle.ask(b"set a 0 0 1\r\nx\r\n") == b"STORED\r\n"
    reply = b"VALUE a 0 1\r\nx\r\nEND\r\n"
    for round_ in range(3):
        in_line.send(b"set b 0 0 ")
        record = in_record.sock.seal(b"get a\r\n")
        in_record.sock.raw.sendall(record[: 1 + round_ * 9])
        upload.send(b"set c 0 0 5\r\nhe")
        rest = threading.Timer(0.3, upload.send, [b"llo\r\n"])
        rest.start()  # while the server waits for it
        servers.succeed()
        rest.join()
        assert upload.line() == b"STORED\r\n"
        assert idle.ask(b"get a\r\n", b"END\r\n") == reply
        assert in_line.ask(b"2\r\nyz\r\n") == b"STORED\r\n"
        in_record.sock.raw.sendall(record[1 + round_ * 9 :])
        assert in_record.until(b"END\r\n") == reply
        assert in_record.ask(b"get a\r\n", b"END\r\n") == reply
    for connection in (idle, in_line, in_record, upload):
        connection.close()


class OpenSSLClient:
    """`openssl s_client`, which can change its keys."""

    def __init__(self, servers):
        command = ["openssl", "s_client", "-CAfile", tls.shared().path("ca.pem"),
                   "-connect", "%s:%d" % servers.address]  # fmt: skip
        self.process = servers.space.popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.output = b""

    def ask(self, line, end):
        """Sends a line, and returns what is printed up to and with `end`."""
        self.process.stdin.write(line)
        self.process.stdin.flush()
        deadline = time.monotonic() + START_TIMEOUT
        while end not in self.output:
            ready = select.select([self.process.stdout], [], [], deadline - time.monotonic())[0]
            data = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            assert data != b"", self.output
            self.output += data
        found, self.output = self.output.split(end, 1)
        return found + end

    def close(self):
        self.process.kill()
        self.process.communicate()


@pytest.mark.parametrize("io", TLS_IO)
def test_tls_keys_change_after_a_takeover(line, io):
    """The client's key update, which requests the server's, before and after."""
    servers = line(f"--io={io}", *tls.server_args())
    client = OpenSSLClient(servers)
    try:
        assert client.ask(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n")
        for _ in range(2):
            for _ in range(2):
                client.ask(b"K\n", b"KEYUPDATE\n")
                assert client.ask(b"get a\r\n", b"END\r\n").endswith(b"x\r\nEND\r\n")
            servers.succeed()
    finally:
        client.close()


@pytest.mark.parametrize("io", TLS_IO)
def test_tls_that_cannot_move_is_closed(line, io):
    """TLS 1.2, a handshake that has begun: closed; all others continue."""
    servers = line(f"--io={io}", *tls.server_args())
    old = servers.connect(tls.context(version=ssl.TLSVersion.TLSv1_2))
    assert old.ask(b"get a\r\n") == b"END\r\n"
    begun = Connection(servers.dial())
    begun.send(b"\x16\x03\x01")
    with servers.connect() as connection:
        assert connection.ask(b"get a\r\n") == b"END\r\n"
        servers.succeed()
        assert connection.ask(b"get a\r\n") == b"END\r\n"
        assert old.rest() == b""
        assert begun.rest() == b""
    assert "2 connections cannot move to another process" in servers.log()
    old.close()
    begun.close()


def test_tls_options_that_do_not_fit(line):
    """Without -Z a server cannot take over; other certificates are shown to new clients only."""
    servers = line("--io=sock", *tls.server_args())
    with servers.connect() as connection:
        assert connection.ask(b"set kept 0 0 2\r\nok\r\n") == b"STORED\r\n"
        servers.args = ("--io=sock",)
        assert "the running server has TLS: add -Z" in servers.fail()
        servers.args = ("--io=sock", *tls.server_args(name="client"))
        servers.succeed()
        check_that_it_serves_on(servers, connection)
        with servers.connect() as new:
            subject = dict(pair[0] for pair in new.sock.tls.getpeercert()["subject"])
            assert subject["commonName"] == "client"


# ---- what fails ---------------------------------------------------------------------------------


class Successor:
    """The messages of a new process, as far as a test wants them."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(IO_TIMEOUT)
        self.socket.connect(path)
        self.fds = []

    def hello(self, versions=VERSIONS, own_stack=0):
        self.socket.send(struct.pack("=7I", MAGIC, HELLO, *versions, own_stack))

    def send(self, kind):
        self.socket.send(struct.pack("=2I", MAGIC, kind))

    def receive(self):
        data, fds, _, _ = socket.recv_fds(self.socket, 65536, 64)
        self.fds += fds
        magic, kind = struct.unpack_from("=2I", data)
        assert magic == MAGIC
        return kind, data[8:]

    def until(self, wanted):
        while True:
            kind, body = self.receive()
            if kind == wanted:
                return body

    def close(self):
        self.socket.close()
        for fd in self.fds:
            os.close(fd)


def check_that_it_serves_on(servers, connection):
    assert connection.ask(b"get kept\r\n", b"END\r\n") == b"VALUE kept 0 2\r\nok\r\nEND\r\n"
    with servers.connect() as new:
        assert new.ask(b"set more 0 0 1\r\n1\r\n") == b"STORED\r\n"
    servers.succeed()
    assert connection.ask(b"get kept\r\n", b"END\r\n") == b"VALUE kept 0 2\r\nok\r\nEND\r\n"


def wait_for_descriptors(servers, count):
    """The server closes what an attempt has taken, soon after it continues."""
    end = time.monotonic() + STOP_TIMEOUT
    while servers.descriptors() > count:
        assert time.monotonic() < end, (servers.descriptors(), count)
        time.sleep(0.01)


@pytest.mark.parametrize("args", KINDS, ids=" ".join)
@pytest.mark.parametrize("dies_after", [HELLO, MEMORY, STATE, END])
def test_new_process_dies(line, args, dies_after):
    servers = line(*args)
    with servers.connect() as connection:
        assert connection.ask(b"set kept 0 0 2\r\nok\r\n") == b"STORED\r\n"
        if "--io=tap" not in args:  # each of the two workers opens its own when it starts
            assert settles(lambda: servers.pollers() == 2)
        descriptors = servers.descriptors()
        successor = Successor(servers.socket_path)
        successor.hello(own_stack=int("--io=tap" in args))
        if dies_after != HELLO:
            successor.until(dies_after)
        successor.close()
        wait_for_descriptors(servers, descriptors)
        check_that_it_serves_on(servers, connection)


@pytest.mark.parametrize("args", KINDS, ids=" ".join)
def test_new_process_dies_after_it_has_committed(line, args):
    """It waits for the end of the old one, which sees the message late, and its end as well."""
    servers = line(*args)
    with servers.connect() as connection:
        assert connection.ask(b"set kept 0 0 2\r\nok\r\n") == b"STORED\r\n"
        successor = Successor(servers.socket_path)
        successor.hello(own_stack=int("--io=tap" in args))
        successor.until(END)
        servers.current.send_signal(signal.SIGSTOP)
        successor.send(COMMIT)
        successor.close()
        servers.current.send_signal(signal.SIGCONT)
        check_that_it_serves_on(servers, connection)


@pytest.mark.parametrize("number", range(4))
def test_other_version_is_refused(line, number):
    servers = line("--io=sock")
    with servers.connect() as connection:
        assert connection.ask(b"set kept 0 0 2\r\nok\r\n") == b"STORED\r\n"
        successor = Successor(servers.socket_path)
        versions = list(VERSIONS)
        versions[number] += 1
        successor.hello(versions)
        assert b"restart instead" in successor.until(REFUSE)
        successor.close()
        check_that_it_serves_on(servers, connection)


@pytest.mark.parametrize(
    "message", [b"", b"x" * 100, struct.pack("=7I", MAGIC, END, *VERSIONS, 0)]
)
def test_other_messages_are_refused(line, message):
    servers = line("--io=sock")
    with servers.connect() as connection:
        assert connection.ask(b"set kept 0 0 2\r\nok\r\n") == b"STORED\r\n"
        successor = Successor(servers.socket_path)
        if message:
            successor.socket.send(message)
        assert b"no request" in successor.until(REFUSE)
        successor.close()
        check_that_it_serves_on(servers, connection)


def test_other_settings_are_refused(line):
    servers = line("--io=sock")
    with servers.connect() as connection:
        assert connection.ask(b"set kept 0 0 2\r\nok\r\n") == b"STORED\r\n"
        assert "it was saved with another setting of cas" in servers.fail("-C")
        successor = Successor(servers.socket_path)
        successor.hello(own_stack=1)
        assert b"its own TCP/IP stack" in successor.until(REFUSE)
        successor.close()
        check_that_it_serves_on(servers, connection)


def test_two_at_once(line):
    """The second one takes over from the first."""
    servers = line("--io=sock")
    with servers.connect() as connection:
        assert connection.ask(b"set kept 0 0 2\r\nok\r\n") == b"STORED\r\n"
        old = servers.current
        both = [servers.start(), servers.start()]
        servers.processes += both
        assert old.wait(STOP_TIMEOUT) == 0
        end = time.monotonic() + STOP_TIMEOUT
        while all(process.poll() is None for process in both):
            assert time.monotonic() < end
            time.sleep(0.01)
        assert sorted(process.poll() is None for process in both) == [False, True]
        assert {0, None} == {process.poll() for process in both}
        servers.processes.sort(key=lambda process: process.poll() is None)
        check_that_it_serves_on(servers, connection)


AS_ANOTHER_USER = """
import os, socket, sys
os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
sock.settimeout(60)
try:
    sock.connect(sys.argv[1])
    print(sock.recv(1000))
except PermissionError:
    print("no permission")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root")
def test_other_user_is_refused(ucached_path, make_open_folder):
    servers = Line(ucached_path, make_open_folder(), "--io=sock")
    other = str(pwd.getpwnam("daemon").pw_uid)

    def ask():
        command = [sys.executable, "-c", AS_ANOTHER_USER, servers.socket_path, other]
        return subprocess.check_output(command, text=True, timeout=60)

    with contextlib.closing(servers):
        assert os.stat(servers.socket_path).st_mode & 0o777 == 0o600
        assert "no permission" in ask()
        os.chmod(servers.socket_path, 0o666)
        assert "neither root nor that of the server" in ask()


@pytest.mark.parametrize(
    "args, reason",
    [
        (("--io=tap", "--threading=split"), "needs --threading=unified"),
        (("--io=tap", "--threading=merge"), "needs --threading=unified"),
        (("--io=tap", "--trace=/dev/null"), "with --trace or --fault"),
        (("--io=tap", "--fault=loss=1%"), "with --trace or --fault"),
        (("--io=xdp", "--dev=lo"), "needs --ip"),
        (("--io=dpdk", "--dev=net_tap0"), "use --io=tap"),
    ],
    ids=str,
)
def test_own_stack_that_cannot_be_taken_over(ucached_path, tmp_path, args, reason):
    command = [ucached_path, *args, f"--takeover={tmp_path}/takeover"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT)
    assert done.returncode != 0 and reason in done.stderr


def test_path_in_the_way(line, ucached_path, tmp_path):
    (tmp_path / "file").write_text("text")
    command = [ucached_path, "-l", "127.0.0.1", "-p", str(free_port()),
               f"--takeover={tmp_path}/file"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT)
    assert done.returncode != 0 and "--takeover" in done.stderr
    assert (tmp_path / "file").read_text() == "text"
