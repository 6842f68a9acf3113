# SPDX-License-Identifier: BSD-3-Clause
"""Servers under test as processes, and raw connections to them. Every wait has a bound."""

import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import time

import binary_wire
import hugepages
import netspace
import tls
import veth

# Seconds. Generous, because a loaded machine and sanitizers make everything slow; a test that
# passes never waits for them.
START_TIMEOUT = 60.0
STOP_TIMEOUT = 60.0
IO_TIMEOUT = 60.0

# Replies to `version`: the version, or that the client has to authenticate first.
ANSWERS = (b"VERSION ", b"CLIENT_ERROR unauthenticated")

CLIENT_PORTS = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")

TAP_ADDRESS = "10.100.0.20"
TAP_HOST_ADDRESS = "10.100.0.10"
TAP_PORT = 11211


# The API of kernel sockets, and the back end of the own stack.
SOCK = os.environ.get("UCACHED_SOCK", "sock")
STACK = os.environ.get("UCACHED_STACK", "tap")


class ServerError(Exception):
    """A server did not start, did not stop or died. The message ends with its log."""


def free_port():
    """A port of TCP and UDP that is free at this moment.

    It is below those that the kernel gives to clients: none of theirs, of whatever test, can take
    it before the server listens.
    """
    end = int(CLIENT_PORTS.read_text(encoding="ascii").split()[0])
    while True:
        port = random.SystemRandom().randrange(end // 3, end)
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            with contextlib.suppress(OSError):
                tcp.bind(("", port))
                udp.bind(("", port))
                return port


@contextlib.contextmanager
def on_one_core():
    """Pins the caller, and processes that it starts, to one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Connection:
    """One TCP connection, byte by byte under the test's control."""

    def __init__(self, sock):
        self.sock = sock
        self._buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def _more(self):
        data = self.sock.recv(65536)
        if data == b"":
            raise EOFError(f"the server closed the connection after {self._buffer[-200:]!r}")
        self._buffer += data

    def _take(self, count):
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

    def exactly(self, count):
        """The next `count` bytes."""
        while len(self._buffer) < count:
            self._more()
        return self._take(count)

    def until(self, end):
        """The bytes up to and with the next `end`."""
        searched = 0
        while (found := self._buffer.find(end, searched)) < 0:
            searched = max(0, len(self._buffer) - len(end) + 1)
            self._more()
        return self._take(found + len(end))

    def line(self):
        """The next line, with its line end."""
        return self.until(b"\r\n")

    def ask(self, data, end=b"\r\n"):
        """Sends, and returns the reply up to and with `end`."""
        self.send(data)
        return self.until(end)

    def silent(self, seconds=0.2):
        """Whether nothing arrives, and the connection stays open, for a while."""
        if self._buffer != b"":
            return False
        before = self.sock.gettimeout()
        self.sock.settimeout(seconds)
        try:
            self._buffer += self.sock.recv(65536)
            return False
        except TimeoutError:
            return True
        finally:
            self.sock.settimeout(before)

    def rest(self):
        """All bytes until the server closes the connection. A reset counts as an end."""
        try:
            while data := self.sock.recv(65536):
                self._buffer += data
        except ConnectionResetError:
            pass
        return self._take(len(self._buffer))


class Server:
    """A running memcached-compatible server. Made by the fixtures of conftest.py.

    kind       "sock", "tap", "unix" or "memcached"
    tls        the context of clients if it was started with -Z (tls.py), else None
    address    (host, port) or path to connect to, inside .space
    pid        of the process; it is a child of ours
    space      where clients must run: netspace.NetSpace or netspace.HostSpace
    home       where the server runs: the same, or a namespace that a link leads to
    """

    def __init__(self, kind, command, address, space, log_path, home=None, prepare=None):
        self.kind = kind
        self._prepare = prepare
        self.home = home or space
        self.command = command
        self.tls = tls.context(client="client") if "-Z" in command and kind != "unix" else None
        self.address = address
        self.space = space
        self.log_path = log_path
        with hugepages.unreserved() if "--io=dpdk" in command else contextlib.nullcontext():
            self._start()

    def _start(self):
        with open(self.log_path, "wb") as log:
            self._process = self.home.popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        self.pid = self._process.pid
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.kill()
            raise

    # ---- the process -----------------------------------------------------------------------

    def log(self):
        """The last 64 KiB of its stdout and stderr."""
        with open(self.log_path, "rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - 65536))
            return log.read().decode(errors="replace")

    def error(self, what):
        command = " ".join(self.command)
        return ServerError(f"{what}\ncommand: {command}\nlog:\n{self.log()}")

    def _wait_until_it_answers(self):
        end = time.monotonic() + START_TIMEOUT
        while True:
            if self._process.poll() is not None:
                raise self.error(f"it ended with status {self._process.returncode} at its start")
            try:
                if self._prepare:  # needs the device of the server
                    self._prepare()
                    self._prepare = None
                with self.connect(timeout=1.0) as connection:
                    if self._answers(connection):
                        return
                    raise self.error("it answers, but not as memcached does")
            except (OSError, EOFError) as failure:
                if time.monotonic() > end:
                    raise self.error(f"no answer after {START_TIMEOUT} s: {failure}") from None
            time.sleep(0.01)

    def _answers(self, connection):
        if "-S" not in self.command or "-Y" in self.command:
            return connection.ask(b"version\r\n").startswith(ANSWERS)
        connection.send(binary_wire.request("version"))
        return binary_wire.read_packet(connection).status == 0

    def running(self):
        return self._process.poll() is None

    def signal(self, number):
        self._process.send_signal(number)

    def wait(self, timeout=STOP_TIMEOUT):
        """Waits for its end. Returns the exit status, negative for a signal."""
        return self._process.wait(timeout)

    def kill(self):
        """Kills it and closes its namespace."""
        if self.running():
            self._process.kill()
            self._process.wait(STOP_TIMEOUT)
        self._leave()

    def _leave(self):
        self.space.close()
        self.home.close()

    def stop(self):
        """Sends SIGTERM; raises ServerError unless it was running and ends in order.

        Does nothing for a server that a test has already seen to the end with wait().
        """
        if self._process.returncode is not None:
            self._leave()
            return
        try:
            if not self.running():
                raise self.error(f"it died during the test, status {self._process.returncode}")
            self.signal(signal.SIGTERM)
            try:
                status = self.wait()
            except subprocess.TimeoutExpired:
                raise self.error(f"it did not end {STOP_TIMEOUT} s after SIGTERM") from None
            if status not in (0, -signal.SIGTERM):
                raise self.error(f"it ended with status {status} after SIGTERM")
        finally:
            self.kill()

    # ---- clients ---------------------------------------------------------------------------

    def _dial(self, timeout):
        if self.kind != "unix":
            sock = socket.create_connection(self.address, timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.settimeout(timeout)
            sock.connect(self.address)
        except BaseException:
            sock.close()
            raise
        return sock

    def connect(self, timeout=IO_TIMEOUT):
        """A new Connection; each of its operations takes `timeout` seconds at most."""
        return Connection(self.secure(self.space.run(self._dial, timeout)))

    def secure(self, sock):
        """The connected socket, with TLS if the server has it."""
        return tls.Socket(sock, self.tls) if self.tls else sock

    def client(self, **options):
        """A pymemcache Client. Bytes in, bytes out, unless options say otherwise."""
        from pymemcache.client.base import Client

        options.setdefault("connect_timeout", IO_TIMEOUT)
        options.setdefault("timeout", IO_TIMEOUT)
        options.setdefault("no_delay", True)
        options.setdefault("tls_context", self.tls)
        return Client(self.address, socket_module=self.space.socket_module, **options)

    def run(self, command, timeout=60, **options):
        """Runs a program where it can reach the server. Returns its CompletedProcess."""
        return self.space.run(subprocess.run, command, timeout=timeout, **options)

    def popen(self, command, **options):
        """Starts a program where it can reach the server; ending it is the caller's task."""
        return self.space.popen(command, **options)

    def stats(self, *args):
        """The lines of `stats` as a dictionary of strings."""
        values = {}
        with self.connect() as connection:
            connection.send(" ".join(("stats",) + args).encode() + b"\r\n")
            while (line := connection.line()) != b"END\r\n":
                word, name, value = line.rstrip(b"\r\n").split(b" ", 2)
                assert word == b"STAT", line
                values[name.decode()] = value.decode()
        return values


def start_sock(binary, log_path, args):
    """ucached on kernel sockets, on a free port of 127.0.0.1."""
    port = free_port()
    command = [binary, f"--io={SOCK}", "-l", "127.0.0.1", "-p", str(port), *args, *tls_args()]
    return Server("sock", command, ("127.0.0.1", port), netspace.HostSpace(), log_path)


def start_tap(binary, log_path, args):
    """ucached on its own stack: over a TAP device, or over what $UCACHED_STACK names."""
    return STACKS[STACK](binary, log_path, stack_args() + args + tls_args())


def tls_args():
    """Options that every server on TCP gets with $UCACHED_TLS."""
    return tls.server_args() if tls.ALL else []


def stack_args():
    """Options that every server on the own stack gets: $UCACHED_STACK_ARGS, for instance "-t 4"."""
    return os.environ.get("UCACHED_STACK_ARGS", "").split()


def start_on_tap(binary, log_path, args):
    """ucached on its own stack, with a TAP device in a new namespace."""
    command = [binary, "--io=tap", "-p", str(TAP_PORT), *args]
    space = netspace.NetSpace()
    return Server("tap", command, (TAP_ADDRESS, TAP_PORT), space, log_path)


def start_on_xdp(binary, log_path, args):
    """The same over AF_XDP: clients see no difference to a TAP device.

    Its interface is one end of a veth pair, whose other end belongs to the clients.
    """
    rest, host = _with_addresses(args)
    link = veth.Link([], host)
    command = [binary, "--io=xdp", "--dev=" + veth.SERVER_DEVICE, "-p", str(TAP_PORT), *rest]
    address = (TAP_ADDRESS, TAP_PORT)
    return Server("tap", command, address, link.client, log_path, link.server)


def finish_checksums(space, device):
    """Lets the kernel finish checksums and cut segments before a frame reaches the device."""
    space.run(
        subprocess.run, ["ethtool", "-K", device, "tx", "off"],
        check=True, timeout=60, capture_output=True,
    )  # fmt: skip


def _with_addresses(args):
    """The arguments with an address of the server, and the host's addresses apart."""
    addresses = [arg for arg in args if arg.startswith("--ip=")]
    host = [arg.partition("=")[2] for arg in args if arg.startswith("--host-ip=")]
    rest = [arg for arg in args if not arg.startswith("--host-ip=")]
    if not addresses:
        rest.append(f"--ip={TAP_ADDRESS}/24")
    if not host and not (addresses and all(":" in address for address in addresses)):
        host = [f"{TAP_HOST_ADDRESS}/24"]
    return rest, [address for address in host if address != "none"]


def start_on_dpdk(binary, log_path, args):
    """The same by DPDK, with a packet socket on a veth pair (net_af_packet)."""
    rest, host = _with_addresses(args)
    link = veth.Link([], host)
    finish_checksums(link.client, veth.CLIENT_DEVICE)
    device = f"--dev=net_af_packet0,iface={veth.SERVER_DEVICE}"
    command = [binary, "--io=dpdk", device, "-p", str(TAP_PORT), *rest]
    return Server("tap", command, (TAP_ADDRESS, TAP_PORT), link.client, log_path, link.server)


def start_on_dpdk_tap(binary, log_path, args):
    """The same by DPDK on a TAP device that it makes (net_tap)."""
    rest, host = _with_addresses(args)
    space = netspace.NetSpace()
    device = f"--dev=net_tap0,iface={veth.CLIENT_DEVICE}"
    command = [binary, "--io=dpdk", device, "-p", str(TAP_PORT), *rest]

    veth.quiet_ip6(space, "default", host)

    def configure():
        try:
            for one in host:
                veth.add_address(space, veth.CLIENT_DEVICE, one)
        except subprocess.CalledProcessError as error:
            raise OSError(error.stderr) from None

    address = (TAP_ADDRESS, TAP_PORT)
    return Server("tap", command, address, space, log_path, prepare=configure)


def missing(binary, io):
    """Why the program has no such way in, or None if it has."""
    if io == "tap":
        return None
    done = subprocess.run(  # which ends at once in any case: there is no such device
        [binary, f"--io={io}", "--dev=nosuch0"],
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT,
    )
    return done.stderr.strip() if "this build has no" in done.stderr else None


STACKS = {
    "tap": start_on_tap,
    "xdp": start_on_xdp,
    "dpdk": start_on_dpdk,
    "dpdk-tap": start_on_dpdk_tap,
}


def start_unix(binary, log_path, args):
    """ucached on a unix socket beside its log."""
    path = f"{log_path}.socket"
    command = [binary, f"--io={SOCK}", "-s", path, *args]
    return Server("unix", command, path, netspace.HostSpace(), log_path)


def start_memcached(binary, log_path, args):
    """The distribution's memcached on a free port of 127.0.0.1, without UDP."""
    port = free_port()
    command = [binary, "-l", "127.0.0.1", "-p", str(port), "-U", "0", *args, *tls_args()]
    if os.geteuid() == 0:
        command += ["-u", "root"]
    return Server("memcached", command, ("127.0.0.1", port), netspace.HostSpace(), log_path)
