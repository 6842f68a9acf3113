# SPDX-License-Identifier: BSD-3-Clause
"""Pools of servers on a bridge of network namespaces, and the clients that distribute keys.

    client (10.77.0.1) and proxy (10.77.0.2) -- bridge -- servers (10.77.0.11 and on)

Each network has its own bridge, so two pools can have the same addresses.
"""

import ctypes
import pathlib
import subprocess

import netspace
import server as servers
import veth

PORT = 11211
CLIENT = "10.77.0.1"
PROXY = "10.77.0.2"
LIBMEMCACHED = "libmemcached.so.11"


PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "cluster.md"


def blocks():
    """The indented blocks of the page."""
    found, lines = [], []
    for line in [*PAGE.read_text(encoding="utf-8").splitlines(), "end"]:
        if line.startswith("    ") or (lines and not line):
            lines.append(line[4:])
        elif lines:
            found.append("\n".join(lines).strip("\n") + "\n")
            lines = []
    return found


def block(name):
    """The one that begins with this name in a comment."""
    (found,) = [text for text in blocks() if text.split("\n")[0] in (f"# {name}", f"-- {name}")]
    return found


def address(index):
    return f"10.77.0.{11 + index}"


class Network:
    """The bridge and what is attached to it."""

    def __init__(self):
        self.bridge = netspace.NetSpace()
        self.spaces = []
        veth.ip(self.bridge, "link", "set", "lo", "up")
        veth.ip(self.bridge, "link", "add", "br0", "type", "bridge")
        veth.ip(self.bridge, "link", "set", "br0", "up")
        self.client = netspace.Shared(self.attach("client", CLIENT))
        self.proxy = netspace.Shared(self.attach("proxy", PROXY))

    def attach(self, port, host=None):
        """A namespace with the interface eth0 on the bridge, with an address or without."""
        space = netspace.NetSpace()
        self.spaces.append(space)
        veth.ip(self.bridge, "link", "add", port, "type", "veth",
                "peer", "name", "eth0", "netns", space.path)  # fmt: skip
        veth.ip(self.bridge, "link", "set", port, "master", "br0", "up")
        veth.ip(space, "link", "set", "lo", "up")
        if host:
            veth.add_address(space, "eth0", f"{host}/24")
        veth.ip(space, "link", "set", "eth0", "up")
        return space

    def close(self):
        for space in (*self.spaces, self.bridge):
            space.close()


class Member:
    """One server of a pool, which can be started again at its address.

    io: "uring", "xdp", "tap", or "memcached".
    """

    def __init__(self, network, index, io, binary, logs, args=()):
        self.network, self.index, self.io = network, index, io
        self.binary, self.logs, self.args = binary, logs, args
        self.host = address(index)
        self.port_name = f"s{index}"
        self.starts = 0
        if io == "tap":  # the device of the server is itself on the bridge
            self.home = netspace.Shared(network.bridge)
        else:
            own = None if io == "xdp" else self.host
            self.home = netspace.Shared(network.attach(self.port_name, own))
        self.server = None
        self.start()

    def command(self):
        if self.io == "memcached":
            return [self.binary, "-u", "root", "-U", "0", "-l", self.host, *self.args]
        link = {
            "uring": ["--io=uring", "-l", self.host],
            "xdp": ["--io=xdp", "--dev=eth0", f"--ip={self.host}/24"],
            "tap": ["--io=tap", f"--dev={self.port_name}", f"--ip={self.host}/24",
                    "--host-ip=none", f"--mac=02:00:00:00:00:{16 + self.index}"],
        }[self.io]  # fmt: skip
        return [self.binary, *link, *self.args]

    def start(self):
        log = self.logs / f"{self.io}-{self.index}-{self.starts}.log"
        self.starts += 1
        self.server = servers.Server(
            "memcached" if self.io == "memcached" else "sock", list(map(str, self.command())),
            (self.host, PORT), self.network.client, log, self.home,
            self.join_bridge if self.io == "tap" else None,
        )  # fmt: skip

    def join_bridge(self):
        try:
            veth.ip(self.network.bridge, "link", "set", self.port_name, "master", "br0", "up")
        except subprocess.CalledProcessError as error:
            raise OSError(error.stderr) from None

    def link(self, state):
        """Takes the cable out ("down") or in ("up")."""
        veth.ip(self.network.bridge, "link", "set", self.port_name, state)

    def is_stopped(self):
        """Whether SIGSTOP has reached all threads."""
        tasks = pathlib.Path(f"/proc/{self.server.pid}/task").iterdir()
        return all((task / "stat").read_text().rpartition(")")[2].split()[0] == "T"
                   for task in tasks)  # fmt: skip

    def stop(self):
        self.server.stop()

    def kill(self):
        self.server.kill()


# ---- who has which key --------------------------------------------------------------------------


def values(server, keys, batch=100):
    """{key: value} of those keys that a server has, asked directly."""
    found = {}
    with server.connect() as connection:
        for at in range(0, len(keys), batch):
            connection.send(f"get {' '.join(keys[at : at + batch])}\r\n".encode())
            while (line := connection.line()) != b"END\r\n":
                _, key, _, count = line.split()
                found[key.decode()] = connection.exactly(int(count) + 2)[:-2]
    return found


def holders(members, keys):
    """{key: index of the one server that has it}."""
    found = {}
    for member in members:
        for key in values(member.server, keys):
            assert key not in found, f"{key} is on two servers"
            found[key] = member.index
    return found


# ---- clients ------------------------------------------------------------------------------------


def has_libmemcached():
    try:
        ctypes.CDLL(LIBMEMCACHED)
    except OSError:
        return False
    return True


class Libmemcached:
    """libmemcached with weighted ketama. Its calls must run in the namespace of the clients."""

    # enum memcached_behavior_t
    TCP_NODELAY, POLL_TIMEOUT, CONNECT_TIMEOUT, RETRY_TIMEOUT, KETAMA_WEIGHTED = 1, 8, 14, 15, 16

    def __init__(self, hosts, timeout_ms=2000):
        lib = self.lib = ctypes.CDLL(LIBMEMCACHED)
        lib.memcached_create.restype = ctypes.c_void_p
        lib.memcached_get.restype = ctypes.c_void_p
        size = ctypes.c_size_t
        lib.memcached_create.argtypes = [ctypes.c_void_p]
        lib.memcached_free.argtypes = [ctypes.c_void_p]
        lib.memcached_server_add.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint16]
        lib.memcached_behavior_set.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64]
        lib.memcached_generate_hash.argtypes = [ctypes.c_void_p, ctypes.c_char_p, size]
        lib.memcached_generate_hash.restype = ctypes.c_uint32
        lib.memcached_set.argtypes = [ctypes.c_void_p, ctypes.c_char_p, size, ctypes.c_char_p, size,
                                      ctypes.c_long, ctypes.c_uint32]  # fmt: skip
        lib.memcached_get.argtypes = [ctypes.c_void_p, ctypes.c_char_p, size,
                                      ctypes.POINTER(size), ctypes.POINTER(ctypes.c_uint32),
                                      ctypes.POINTER(ctypes.c_int)]  # fmt: skip
        self.free = ctypes.CDLL(None).free
        self.free.argtypes = [ctypes.c_void_p]
        self.handle = lib.memcached_create(None)
        self._set(self.KETAMA_WEIGHTED, 1)
        self._set(self.TCP_NODELAY, 1)
        self._set(self.POLL_TIMEOUT, timeout_ms)
        self._set(self.CONNECT_TIMEOUT, timeout_ms)
        self._set(self.RETRY_TIMEOUT, 1)
        for host in hosts:
            lib.memcached_server_add(self.handle, host.encode(), PORT)

    def _set(self, behavior, value):
        assert self.lib.memcached_behavior_set(self.handle, behavior, value) == 0

    def server_of(self, key):
        return self.lib.memcached_generate_hash(self.handle, key.encode(), len(key))

    def set(self, key, value):
        """Whether it was stored."""
        name = key.encode()
        return self.lib.memcached_set(self.handle, name, len(name), value, len(value), 0, 0) == 0

    def get(self, key):
        """The value, or None for a miss or an error."""
        size, flags, error = ctypes.c_size_t(), ctypes.c_uint32(), ctypes.c_int()
        at = self.lib.memcached_get(self.handle, key.encode(), len(key), ctypes.byref(size),
                                    ctypes.byref(flags), ctypes.byref(error))  # fmt: skip
        if not at:
            return b"" if error.value == 0 else None
        try:
            return ctypes.string_at(at, size.value)
        finally:
            self.free(at)

    def close(self):
        self.lib.memcached_free(self.handle)
