# SPDX-License-Identifier: BSD-3-Clause
"""A TCP peer with crafted packets, and links to the two stacks that it tests.

`UcachedLink` joins the TAP device of a running `ucached --io=tap`, `KernelLink` is a TAP device
whose other end is the Linux kernel with `ucached --io=sock` on top: the same server, so a test of
the own TCP can run against the kernel's TCP. The peer has an address that no kernel owns, so no
kernel interferes; a Lan answers ARP and neighbour solicitations for it.
"""

import collections
import fcntl
import os
import random
import select
import socket
import struct
import subprocess
import time

import rawnet
from rawnet import ACK, FIN, IP_ICMP, IP_ICMP6, IP_TCP, RST, SYN

TARGET4, TARGET6, PORT = "10.100.0.20", "fd00:100::20", 11211

# A passing test never waits for it.
TIMEOUT_S = 60.0
# How long to wait for a segment that must not come. A stack that sends it does so immediately.
SILENCE_S = 0.15

ETH_P_ALL = 3
PACKET_OUTGOING = 4
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000


class Silent(AssertionError):
    """The expected packet did not come."""


# ---- links ------------------------------------------------------------------------------------


class UcachedLink:
    """Frames on the host's side of ucached's TAP device, by a packet socket."""

    def __init__(self, server, device="ucached0"):
        kind = socket.SOCK_RAW
        self._sock = server.space.run(
            socket.socket, socket.AF_PACKET, kind, socket.htons(ETH_P_ALL)
        )
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
        self._sock.bind((device, 0))
        self._sock.setblocking(False)

    def send(self, frame):
        end = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self._sock.send(frame)
                return
            except (BlockingIOError, OSError) as error:  # the device's queue is full
                if time.monotonic() > end:
                    raise Silent(f"the device takes no frames: {error}") from None
                time.sleep(0.001)

    def recv(self, timeout):
        """The next frame from the target, None after the timeout."""
        end = time.monotonic() + timeout
        while True:
            try:
                frame, address = self._sock.recvfrom(65536)
                if address[2] != PACKET_OUTGOING:
                    return frame
            except BlockingIOError:
                left = end - time.monotonic()
                if left <= 0 or not select.select([self._sock], [], [], left)[0]:
                    return None

    def close(self):
        self._sock.close()


class KernelLink:
    """A TAP device; the kernel in the namespace is at its other end."""

    def __init__(self, space, device="kernel0"):
        def make():
            fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
            request = struct.pack("16sH", device.encode(), IFF_TAP | IFF_NO_PI)
            fcntl.ioctl(fd, TUNSETIFF, request + bytes(22))
            for command in (
                "link set lo up",
                f"link set {device} up txqueuelen 10000",
                f"addr add {TARGET4}/24 dev {device}",
                f"addr add {TARGET6}/64 dev {device} nodad",
            ):
                subprocess.run(["ip", *command.split()], check=True, timeout=TIMEOUT_S)
            # The kernel answers each of several wrong segments within half a second.
            with open("/proc/sys/net/ipv4/tcp_invalid_ratelimit", "w", encoding="ascii") as file:
                file.write("0")
            return fd

        self._fd = space.run(make)

    def send(self, frame):
        os.write(self._fd, frame)

    def recv(self, timeout):
        end = time.monotonic() + timeout
        while True:
            try:
                return os.read(self._fd, 65536)
            except BlockingIOError:
                left = end - time.monotonic()
                if left <= 0 or not select.select([self._fd], [], [], left)[0]:
                    return None

    def close(self):
        os.close(self._fd)


# ---- the neighbourhood ------------------------------------------------------------------------


def solicited_node(address):
    """The multicast MAC that neighbour solicitations for an IPv6 address go to."""
    return "33:33:ff:" + rawnet.packed(address)[-3:].hex(":")


class Lan:
    """The addresses of simulated hosts on a link, and the packets received for each of them."""

    def __init__(self, link, seed=1):
        self.link = link
        self.rng = random.Random(seed)
        self.macs = {}
        self.mute = set()
        self.tcp = collections.defaultdict(collections.deque)
        self.other = collections.deque()
        self._target_mac = None
        self._number = self._echoes = 0
        self._port = self.rng.randrange(10000)

    # ---- addresses

    def host(self, version=4):
        """A new neighbour: its address."""
        self._number += 1
        number = self._number % 180 + 60
        address = f"10.100.0.{number}" if version == 4 else f"fd00:100::1:{self._number:x}"
        self.macs[address] = f"02:00:5e:00:{self._number >> 8 & 255:02x}:{self._number & 255:02x}"
        return address

    def target_mac(self):
        """The MAC address of the target, found by ARP once."""
        if self._target_mac is None:
            asker = self.host()
            mac = self.macs[asker]
            question = rawnet.arp(1, mac, asker, "00:00:00:00:00:00", TARGET4)
            end = time.monotonic() + TIMEOUT_S
            while self._target_mac is None:
                if time.monotonic() > end:
                    raise Silent("no ARP reply for " + TARGET4)
                self.link.send(
                    rawnet.ethernet("ff:ff:ff:ff:ff:ff", mac, rawnet.ETH_ARP, question)
                )
                while self._target_mac is None and self.pump(0.2):
                    pass
        return self._target_mac

    # ---- frames

    def send_ip(self, packet, src):
        """Sends an IP packet in a frame of the neighbour `src`."""
        kind = rawnet.ETH_IP4 if packet[0] >> 4 != 6 else rawnet.ETH_IP6
        self.link.send(rawnet.ethernet(self.target_mac(), self.macs[src], kind, packet))

    def pump(self, timeout):
        """Receives one frame, and stores or answers it. False after the timeout."""
        frame = self.link.recv(timeout)
        if frame is None:
            return False
        kind = struct.unpack("!H", frame[12:14])[0]
        if kind == rawnet.ETH_ARP:
            self._arp(frame)
        elif packet := rawnet.parse_ip(frame):
            if packet.protocol == IP_TCP and not packet.fragment:
                segment = rawnet.parse_tcp(packet.src, packet.dst, packet.payload, packet.tos)
                segment.bad = packet.bad or segment.bad
                segment.dst_mac = frame[:6].hex(":")
                segment.at = time.monotonic()
                assert not segment.bad, f"{segment.bad} is wrong in {segment}"
                self.tcp[segment.dst, segment.dport].append(segment)
            elif packet.protocol == IP_ICMP6 and packet.payload[0] == 135:
                self._solicited(packet)
            else:
                self.other.append(packet)
        return True

    def _arp(self, frame):
        operation = struct.unpack("!H", frame[20:22])[0]
        sender = ".".join(map(str, frame[28:32]))
        wanted = ".".join(map(str, frame[38:42]))
        if sender == TARGET4:
            self._target_mac = frame[22:28].hex(":")
        if operation == 1 and wanted in self.macs and wanted not in self.mute:
            mac = self.macs[wanted]
            asker = frame[22:28].hex(":")
            reply = rawnet.arp(2, mac, wanted, asker, sender)
            self.link.send(rawnet.ethernet(asker, mac, rawnet.ETH_ARP, reply))

    def _solicited(self, packet):
        wanted = socket.inet_ntop(socket.AF_INET6, packet.payload[8:24])
        if wanted not in self.macs or wanted in self.mute:
            return
        mac = self.macs[wanted]
        body = packet.payload[8:24] + b"\2\1" + rawnet.mac_bytes(mac)
        reply = rawnet.icmp(136, 0, 0x60000000, body, src=wanted, dst=packet.src)
        frame = rawnet.ip6(wanted, packet.src, IP_ICMP6, reply, ttl=255)
        self.link.send(rawnet.ethernet(packet.src_mac, mac, rawnet.ETH_IP6, frame))

    def settle(self, seconds):
        """Receives all frames for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.pump(left)

    def packet(self, src, protocol=None, timeout=TIMEOUT_S):
        """The next packet to `src` that is not TCP; None if none comes."""
        end = time.monotonic() + timeout
        while True:
            for packet in list(self.other):
                if packet.dst == src and protocol in (None, packet.protocol):
                    self.other.remove(packet)
                    return packet
            left = end - time.monotonic()
            if left <= 0:
                return None
            self.pump(left)

    def peer(self, version=4, port=PORT, host=None):
        """A connection that is not open yet, from a new neighbour and a port that no other uses."""
        self._port = (self._port + 1) % 10000
        return Peer(self, host or self.host(version), 20000 + self._port, port)

    def catch_up(self, host=None):
        """Sends an echo request behind all earlier frames and waits for its reply: the target has
        processed them. The request comes from `host`, or from a new neighbour, and is sent again
        each second, since a link drops frames while its queue is full."""
        host = host or self.host()
        self._echoes += 1
        request = rawnet.icmp(8, 0, self._echoes)
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            self.send_ip(rawnet.ip4(host, TARGET4, IP_ICMP, request), host)
            while reply := self.packet(host, IP_ICMP, 1):
                if reply.payload[4:8] == request[4:8]:
                    return
        raise Silent("no echo reply from " + TARGET4)

    def serves(self, version=4):
        """A new peer connects and is served."""
        self.catch_up()
        peer = self.peer(version)
        peer.open()
        peer.alive()
        peer.reset()


# ---- one connection ---------------------------------------------------------------------------


class Peer:
    """The test's end of one TCP connection.

    snd is the sequence number of the next byte to send, rcv the one that the target's next byte
    should have, una the number that the target has acknowledged up to. The peer sends segments only
    when the test calls one of its methods.
    """

    def __init__(self, lan, src, sport, dport):
        self.lan = lan
        self.src, self.sport = src, sport
        self.dst, self.dport = TARGET6 if ":" in src else TARGET4, dport
        self.iss = self.snd = self.una = lan.rng.getrandbits(32)
        self.irs = self.rcv = 0
        self.window = 65535
        self.scale = 0
        self.ts = None
        self.syn_ack = None
        self.tos = 0

    # ---- sending

    def segment(self, letters, data=b"", seq=None, ack=None, window=None, opts=None, **wrong):
        """The bytes of a segment. Its timestamps are added if they were negotiated."""
        flags = rawnet.flags_of(letters)
        if opts is None:
            opts = self.ts_option()
        return rawnet.tcp(
            self.src,
            self.dst,
            self.sport,
            self.dport,
            self.snd if seq is None else seq,
            (self.rcv if ack is None else ack) if flags & ACK else ack or 0,
            flags,
            data,
            self.window if window is None else window,
            opts,
            **wrong,
        )

    def send(self, letters, data=b"", **fields):
        """Sends a segment whose numbers are the next ones unless they are given."""
        ip_wrong = fields.pop("ip", {})
        ip_wrong.setdefault("tos", self.tos)
        packet = self.segment(letters, data, **fields)
        self.lan.send_ip(
            rawnet.ip(self.src, self.dst, IP_TCP, packet, **ip_wrong), self.src
        )
        if "seq" not in fields:
            flags = rawnet.flags_of(letters)
            self.snd += len(data) + (1 if flags & SYN else 0) + (1 if flags & FIN else 0)
            self.snd &= 0xFFFFFFFF

    def ts_option(self, value=None, echo=None):
        if self.ts is None:
            return b""
        now = self.ts_now() if value is None else value
        return rawnet.options(ts=(now, self.ts[1] if echo is None else echo))

    def ts_now(self):
        """The timestamp clock of the peer: milliseconds from an arbitrary start."""
        return (self.ts[0] + int(time.monotonic() * 1000)) & 0xFFFFFFFF

    # ---- receiving

    def recv(self, timeout=TIMEOUT_S):
        """The next segment; raises Silent if none comes."""
        queue = self.lan.tcp[self.src, self.sport]
        end = time.monotonic() + timeout
        while not queue:
            left = end - time.monotonic()
            if left <= 0:
                raise Silent(f"no segment within {timeout} s")
            self.lan.pump(left)
        segment = queue.popleft()
        if segment.ts and self.ts:
            self.ts = (self.ts[0], segment.ts[0])
        return segment

    def expect(self, letters=None, timeout=TIMEOUT_S, **fields):
        """The next segment, which must have these flags (PSH does not matter) and fields."""
        segment = self.recv(timeout)
        if letters is not None:
            got = segment.letters.replace("P", "")
            assert got in letters.split("|"), f"expected {letters}, got {segment}"
        for name, value in fields.items():
            got = getattr(segment, name)
            assert got == value, f"{name} should be {value}, but is {got} in {segment}"
        return segment

    def none(self, seconds=SILENCE_S):
        """Fails if a segment comes within a while."""
        try:
            segment = self.recv(seconds)
        except Silent:
            return
        raise AssertionError(f"nothing was due, but {segment} came")

    def forget(self, seconds=0.0):
        """Drops all segments that came, or come within this time."""
        self.lan.settle(seconds)
        while self.lan.pump(0):
            pass
        self.lan.tcp[self.src, self.sport].clear()

    def burst(self, least):
        """How many bytes the stream advances without an ACK: `least` must come, more may."""
        furthest = 0
        while furthest < least:
            furthest = max(furthest, self._end_of(self.recv()))
        self.lan.settle(SILENCE_S)
        queue = self.lan.tcp[self.src, self.sport]
        while queue:
            furthest = max(furthest, self._end_of(queue.popleft()))
        return furthest

    def _end_of(self, segment):
        return (segment.seq + len(segment.data) - self.rcv) & 0xFFFFFFFF

    def data(self):
        """The next segment with data or a FIN, in order; ACKs before it do not matter."""
        while True:
            segment = self.recv()
            assert not segment.flags & RST, f"a reset instead of data: {segment}"
            if segment.space:
                self.take(segment)
                return segment

    # ---- whole steps

    def open(self, mss=1460, scale=None, sack_ok=False, ts=False, ack_with=b"", **fields):
        """A handshake. Returns the SYN-ACK."""
        if ts:
            self.ts = (self.lan.rng.getrandbits(32), 0)
        stamp = (self.ts_now(), 0) if ts else None
        opts = rawnet.options(mss=mss, scale=scale, sack_ok=sack_ok, ts=stamp)
        self.send("S", opts=opts, **fields)
        answer = self.expect("SA", ack=self.snd)
        self.syn_ack = answer
        self.irs, self.rcv = answer.seq, (answer.seq + 1) & 0xFFFFFFFF
        self.una = self.snd
        if answer.scale is not None and scale is not None:
            self.scale = scale
        if answer.ts is None:
            self.ts = None
        self.send("A" if not ack_with else "PA", ack_with)
        return answer

    def take(self, segment):
        """Advances rcv by a segment of the target that is next in order. Returns its bytes."""
        assert segment.seq == self.rcv, f"expected sequence number {self.rcv}, got {segment}"
        self.rcv = (self.rcv + segment.space) & 0xFFFFFFFF
        if segment.flags & ACK:
            self.una = segment.ack
        return segment.data

    def read(self, count, timeout=TIMEOUT_S):
        """`count` bytes of the stream, each segment acknowledged at once; repeats are skipped."""
        data = b""
        end = time.monotonic() + timeout
        while len(data) < count:
            left = end - time.monotonic()
            if left <= 0:
                raise Silent(f"{len(data)} of {count} bytes came: {data[:200]!r}")
            segment = self.recv(left)
            assert not segment.flags & RST, f"reset after {data[:200]!r}: {segment}"
            if segment.seq == self.rcv:
                data += self.take(segment)
                if segment.space:
                    self.send("A")
            elif segment.data:
                self.send("A")
        return data

    def ask(self, request, reply, timeout=TIMEOUT_S):
        """Sends a request in one segment; exactly these bytes must come back."""
        self.send("PA", request)
        got = self.read(len(reply), timeout)
        assert got == reply, f"{request!r}: got {got!r}, expected {reply!r}"

    def alive(self):
        """The connection must still work: a request goes in, its reply comes out."""
        self.forget()
        self.ask(b"get none\r\n", b"END\r\n")

    def dead(self):
        """The target must not know the connection any more: it answers a segment by RST."""
        self.forget()
        self.send("A")
        while not self.recv().flags & RST:
            pass

    def reset(self):
        """Ends the connection."""
        self.send("R")
