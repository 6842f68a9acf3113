# SPDX-License-Identifier: BSD-3-Clause
"""Clients that misbehave in different ways, at bounded rates.

    crowd.py [--seconds=20] [--udp-port=PORT] [--raw=DEVICE] [--flush] [--kinds=A,B] HOST PORT

A misbehaviour is a class with `act()`, one small step, and its highest number of steps per second.
The classes with sockets (`KINDS`) work with any server; those with crafted packets (`RAW_KINDS`)
need the host's side of ucached's TAP device. run() calls all of them in turns in one thread for the
given time, and the program prints the number of steps of each as one line of JSON.
"""

import argparse
import collections
import contextlib
import errno
import json
import random
import socket
import struct
import sys
import time

import rawnet
from rawnet import ACK, FIN, IP_TCP, IP_UDP, RST, SYN

BIG = b"crowd_big"
BIG_BYTES = 100_000


class Misbehaviour:
    """One kind of client. rate: steps per second, at most."""

    rate = 50

    def __init__(self, target):
        self.target = target
        self.rng = random.Random(type(self).__name__)
        self.done = collections.Counter()

    def act(self):
        """One small step; a connection that the server closes or refuses is not an error."""
        raise NotImplementedError

    def close(self):
        """Closes all connections."""


class Target:
    """The server, for the classes with sockets."""

    def __init__(self, host, port, udp_port):
        self.address = (host, port)
        self.udp_address = (host, udp_port)

    def connect(self, **options):
        """A non-blocking socket; the handshake may not be complete."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        for option, value in options.items():
            sock.setsockopt(socket.SOL_SOCKET, getattr(socket, option), value)
        with contextlib.suppress(BlockingIOError):
            sock.connect(self.address)
        return sock


# ---- clients with sockets ---------------------------------------------------------------------


class Held(Misbehaviour):
    """Clients that keep `count` connections and call step() for each of them in turns."""

    count = 100
    options = {}

    def __init__(self, target):
        super().__init__(target)
        self.socks = collections.deque()
        self.number = 0

    def act(self):
        if len(self.socks) < self.count:
            self.socks.append(self.target.connect(**self.options))
            self.done["connections"] += 1
            return
        sock = self.socks[0]
        self.socks.rotate(-1)
        self.number += 1
        try:
            self.step(sock)
            self.done["steps"] += 1
        except BlockingIOError:
            self.done["blocked"] += 1
        except OSError:
            self.done["closed"] += 1
            self.socks.remove(sock)
            sock.close()

    def step(self, sock):
        sock.send(self.request())

    def request(self):
        raise NotImplementedError

    def close(self):
        for sock in self.socks:
            sock.close()


class NeverReads(Held):
    """Requests 100 KB at a time and reads no reply."""

    count, rate = 200, 150
    options = {"SO_RCVBUF": 4096}

    def request(self):
        if self.number % 20 == 1:
            return b"set %s 0 0 %d\r\n%s\r\n" % (BIG, BIG_BYTES, bytes(BIG_BYTES))
        return b"get %s\r\n" % BIG * 8


class SlowSender(Held):
    """A request byte by byte, at most one byte in 5 s on each connection."""

    count, rate = 150, 50

    def __init__(self, target):
        super().__init__(target)
        self.line = b"get " + b"k" * 200 + b"\r\n"

    def request(self):
        at = self.number // self.count % len(self.line)
        return self.line[at : at + 1]


class UnfinishedUpload(Held):
    """The command line of a SET of 1 MB, and two bytes of its value."""

    count, rate = 150, 100

    def request(self):
        if self.number > self.count:
            return b""
        return b"set upload%d 0 0 1000000\r\nxx" % self.number


class Watcher(Held):
    """Watchers of all events that read nothing; more than the server allows."""

    count, rate = 30, 20
    options = {"SO_RCVBUF": 4096}

    def request(self):
        if self.number > self.count:
            return b""
        return b"watch fetchers mutations evictions connevents deletions\r\n"


class Admin(Held):
    """Administrative commands whose replies are not read."""

    count, rate = 10, 5
    lines = [
        b"stats detail on\r\n",
        b"stats detail dump\r\n",
        b"lru_crawler crawl all\r\n",
        b"lru_crawler metadump all\r\n",
        b"stats conns\r\n",
        b"stats items\r\nstats slabs\r\nstats sizes\r\nstats settings\r\n",
        b"stats cachedump 3 0\r\n",
        b"stats reset\r\n",
        b"stats detail off\r\n",
    ]

    def request(self):
        return self.lines[self.number % len(self.lines)]


class Prefixes(Held):
    """Requests with new prefixes of keys, for `stats detail`."""

    count, rate = 2, 20

    def request(self):
        return b"".join(
            b"get p%d:k\r\n" % self.rng.randrange(1_000_000) for _ in range(20)
        )


class Flush(Held):
    """Bursts of flush_all that fill the receive buffer of a connection."""

    count, rate = 1, 2

    def request(self):
        return b"flush_all noreply\r\n" * 900


class ConnectAndReset(Misbehaviour):
    """Connections that are reset after a request."""

    rate = 50

    def __init__(self, target):
        super().__init__(target)
        self.socks = collections.deque()

    def act(self):
        self.socks.append(self.target.connect())
        self.done["connections"] += 1
        if len(self.socks) > 20:
            sock = self.socks.popleft()
            with contextlib.suppress(OSError):
                sock.send(b"get %s\r\n" % BIG)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()

    def close(self):
        for sock in self.socks:
            sock.close()


class Udp(Misbehaviour):
    """Requests by UDP for a large value, whose replies are not read."""

    rate = 200

    def __init__(self, target):
        super().__init__(target)
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setblocking(False)
        self.sock.connect(target.udp_address)

    def act(self):
        with contextlib.suppress(OSError):
            self.sock.send(b"\0\1\0\0\0\1\0\0get %s\r\n" % self.rng.choice((BIG, b"none")))
            self.done["requests"] += 1

    def close(self):
        self.sock.close()


KINDS = (
    NeverReads, SlowSender, UnfinishedUpload, Watcher, Admin, Prefixes, Flush, ConnectAndReset, Udp
)  # fmt: skip


# ---- crafted packets ------------------------------------------------------------------------

OUR_MACS = "02:00:5e:00"  # all begin so
ATTACH_FILTER = 26  # SO_ATTACH_FILTER


class Wire:
    """The host's side of the link: sends frames of many hosts, which answer only through the
    classes."""

    def __init__(self, device, dst, port, udp_port):
        self.dst, self.port, self.udp_port = dst, port, udp_port
        self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._only_ours()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.sock.bind((device, 0))
        self.sock.setblocking(False)
        self.conns = {}
        self.mac = self._ask_mac()

    def _only_ours(self):
        """Attaches a filter for frames to OUR_MACS."""
        first = struct.unpack("!I", bytes.fromhex(OUR_MACS.replace(":", "")))[0]
        code = [(0x20, 0, 0, 0), (0x15, 0, 1, first), (6, 0, 0, 65535), (6, 0, 0, 0)]
        self.code = b"".join(struct.pack("HBBI", *step) for step in code)
        import ctypes  # the kernel wants a pointer

        self.buffer = ctypes.create_string_buffer(self.code)
        program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(self.buffer))
        self.sock.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, program)

    def _ask_mac(self):
        asker, mac = "10.100.250.1", f"{OUR_MACS}:ff:ff"
        question = rawnet.arp(1, mac, asker, "00:00:00:00:00:00", self.dst)
        for _ in range(100):
            self.send(rawnet.ethernet("ff:ff:ff:ff:ff:ff", mac, rawnet.ETH_ARP, question))
            time.sleep(0.05)
            with contextlib.suppress(BlockingIOError):
                while True:
                    frame = self.sock.recv(65536)
                    if frame[12:14] == b"\x08\x06":
                        return frame[6:12].hex(":")
        raise SystemExit("no ARP reply for " + self.dst)

    def send(self, frame):
        """Sends a frame. Returns False if the queue of the device is full."""
        try:
            self.sock.send(frame)
            return True
        except OSError as error:
            if error.errno not in (errno.ENOBUFS, errno.EAGAIN, errno.EIO):
                raise
            return False

    def host(self, rng):
        """An unused address of the link, and its MAC."""
        a, b = rng.randrange(1, 200), rng.randrange(1, 255)
        return f"10.100.{a}.{b}", f"{OUR_MACS}:{a:02x}:{b:02x}"

    def ip(self, src, mac, protocol, payload, **wrong):
        packet = rawnet.ip4(src, self.dst, protocol, payload, **wrong)
        return self.send(rawnet.ethernet(self.mac, mac, rawnet.ETH_IP4, packet))

    def tcp(self, conn, letters, data=b"", seq=None):
        flags = rawnet.flags_of(letters)
        segment = rawnet.tcp(
            *(conn.src, self.dst, conn.sport, self.port),
            *(conn.snd if seq is None else seq, conn.rcv if flags & ACK else 0, flags, data),
            opts=rawnet.options(mss=1460, sack_ok=True) if flags & SYN else b"",
        )
        self.ip(conn.src, conn.mac, IP_TCP, segment)
        if seq is None:
            conn.snd = (conn.snd + len(data) + bool(flags & SYN) + bool(flags & FIN)) & 0xFFFFFFFF

    def receive(self, frames=50):
        """Passes received segments to the class that has the connection."""
        for _ in range(frames):
            try:
                packet = rawnet.parse_ip(self.sock.recv(65536))
            except BlockingIOError:
                return
            if packet and packet.protocol == IP_TCP and not packet.fragment:
                segment = rawnet.parse_tcp(packet.src, packet.dst, packet.payload, packet.tos)
                conn = self.conns.get((segment.dst, segment.dport))
                if conn:
                    conn.kind.received(conn, segment)


class RawConn:
    def __init__(self, kind, src, mac, sport, iss):
        self.kind, self.src, self.mac, self.sport = kind, src, mac, sport
        self.snd, self.rcv = iss, 0
        self.open = False


class Raw(Misbehaviour):
    """A connection of crafted segments; `count` of them exist at a time."""

    count = 150

    def __init__(self, target):
        super().__init__(target)
        self.conns = []

    def begin(self):
        src, mac = self.target.host(self.rng)
        sport = self.rng.randrange(1024, 65536)
        conn = RawConn(self, src, mac, sport, self.rng.getrandbits(32))
        self.target.conns[src, sport] = conn
        self.conns.append(conn)
        self.target.tcp(conn, "S")
        self.done["syns"] += 1
        return conn

    def received(self, conn, segment):
        if segment.flags & RST:
            self.done["resets"] += 1
        elif segment.flags & SYN and not conn.open:
            conn.open, conn.rcv = True, (segment.seq + 1) & 0xFFFFFFFF
            self.done["opened"] += 1
            self.opened(conn)

    def opened(self, conn):
        """Sends the last segment of the handshake and the data of this class."""

    def act(self):
        if len(self.conns) < self.count:
            self.begin()


class HalfOpen(Raw):
    """SYNs from thousands of hosts that never answer."""

    rate = 700

    def act(self):
        conn = self.begin()
        del self.target.conns[conn.src, conn.sport]
        self.conns.clear()


class NeverAcks(Raw):
    """Requests a large value and acknowledges none of it."""

    rate = 50

    def opened(self, conn):
        self.target.tcp(conn, "PA", b"get %s\r\n" % BIG * 4)


class OutOfOrder(Raw):
    """Single bytes far apart, beyond a gap that is never filled."""

    rate = 300

    def opened(self, conn):
        self.target.tcp(conn, "A")

    def act(self):
        if len(self.conns) < self.count:
            self.begin()
            return
        conn = self.rng.choice(self.conns)
        if conn.open:
            seq = (conn.snd + 1 + 2 * self.rng.randrange(20000)) & 0xFFFFFFFF
            self.target.tcp(conn, "A", b"x", seq=seq)
            self.done["bytes"] += 1


class Orphan(Raw):
    """Sends quit, and never acknowledges the FIN."""

    rate, count = 150, 100_000

    def opened(self, conn):
        self.target.tcp(conn, "PA", b"quit\r\n")


class SpoofedUdp(Misbehaviour):
    """Requests by UDP from hosts that answer no ARP."""

    rate = 200

    def act(self):
        src, mac = self.target.host(self.rng)
        request = b"\0\1\0\0\0\1\0\0get %s\r\n" % self.rng.choice((BIG, b"none"))
        datagram = rawnet.udp(src, self.target.dst, 5000, self.target.udp_port, request)
        self.target.ip(src, mac, IP_UDP, datagram)
        self.done["requests"] += 1


class Fragments(Misbehaviour):
    """First fragments of datagrams whose other fragments are never sent."""

    rate = 100

    def act(self):
        src, mac = self.target.host(self.rng)
        datagram = rawnet.udp(src, self.target.dst, 5000, self.target.udp_port, bytes(1400))
        self.target.ip(
            src, mac, IP_UDP, datagram[:800], ident=self.rng.getrandbits(16), fragment=0x2000
        )
        self.done["fragments"] += 1


RAW_KINDS = (HalfOpen, NeverAcks, OutOfOrder, Orphan, SpoofedUdp, Fragments)


# ---- all of them ------------------------------------------------------------------------------


def run(members, seconds, wire=None):
    """Calls act() of each member at its rate for this many seconds."""
    begin = time.monotonic()
    taken = dict.fromkeys(members, 0)
    while (passed := time.monotonic() - begin) < seconds:
        busy = False
        for member in members:
            due = int(passed * member.rate) - taken[member]
            if due > 0:
                # Steps that are late because the machine is busy are left out.
                taken[member] += max(due - 20, 0) + 1
                member.act()
                busy = True
            if wire:
                wire.receive()
        if not busy:
            time.sleep(0.002)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--udp-port", type=int, help="the same as of TCP unless given")
    parser.add_argument("--raw", metavar="DEVICE", help="crafted packets, too, over this device")
    parser.add_argument("--kinds", help="class names, by commas; without it all")
    parser.add_argument("--flush", action="store_true", help="flush all items twice a second")
    args = parser.parse_args()
    chosen = args.kinds.split(",") if args.kinds else None
    ports = (args.port, args.udp_port or args.port)
    target = Target(args.host, *ports)
    wire = Wire(args.raw, args.host, *ports) if args.raw else None
    kinds = [kind for kind in KINDS if kind is not Flush or args.flush]
    members = [kind(target) for kind in kinds if not chosen or kind.__name__ in chosen]
    if wire:
        members += [kind(wire) for kind in RAW_KINDS if not chosen or kind.__name__ in chosen]
    run(members, args.seconds, wire)
    for member in members:
        member.close()
    print(json.dumps({type(member).__name__: dict(member.done) for member in members}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
