# SPDX-License-Identifier: BSD-3-Clause
"""Raw dialogues with a server: exact bytes out, exact bytes in, every wait bounded."""

import socket
import struct
import time

from server import Connection

CRLF = b"\r\n"
STORED = b"STORED\r\n"
MISS = b"END\r\n"
BAD_FORMAT = b"CLIENT_ERROR bad command line format\r\n"
BAD_CHUNK = b"CLIENT_ERROR bad data chunk\r\n"
TOO_LARGE = b"SERVER_ERROR object too large for cache\r\n"

# Longest value of a key of one byte with flags 0 where items may have 1 MiB, which is the default.
VALUE_MAX = 1048516


def short(data, limit=300):
    """What is worth showing of a long reply."""
    if len(data) <= limit:
        return repr(data)
    return f"{data[: limit // 2]!r}..{len(data)} bytes..{data[-limit // 2 :]!r}"


class Wire(Connection):
    """A Connection that compares."""

    def exactly(self, count):
        """The next `count` bytes, in time proportional to them."""
        parts = [self._take(count)]
        have = len(parts[0])
        while have < count:
            part = self.sock.recv(min(count - have, 1 << 20))
            if not part:
                raise EOFError(f"closed after {have} of {count} bytes: {short(b''.join(parts))}")
            parts.append(part)
            have += len(part)
        return b"".join(parts)

    def expect(self, reply):
        """The next bytes must be these."""
        got = self.exactly(len(reply))
        assert got == reply, f"got {short(got)}, expected {short(reply)}"

    def replies(self, request):
        """All that is answered to complete requests. Their end is found by a `version` behind."""
        self.send(request + b"version\r\n")
        got = self.until(b"VERSION ")
        self.line()
        return got.removesuffix(b"VERSION ")

    def say(self, request, reply):
        """Sends complete requests that must be answered with exactly these bytes."""
        got = self.replies(request)
        assert got == reply, f"{short(request)}: got {short(got)}, expected {short(reply)}"

    def ends_with(self, reply):
        """Exactly these bytes are still to come, then the end of the stream."""
        got = self.rest()
        assert got == reply, f"got {short(got)}, expected {short(reply)}, then the end"

    def stats(self, *args):
        """One list of statistics, in the order of its lines."""
        self.send(" ".join(("stats", *args)).encode() + CRLF)
        values = {}
        while (line := self.line()) != b"END\r\n":
            word, name, value = line.removesuffix(CRLF).split(b" ", 2)
            assert word == b"STAT", short(line)
            values[name.decode()] = value.decode()
        return values

    def reset(self):
        """Closes with a RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


def wire_to(server, timeout=60):
    """A new Wire to a server."""
    return Wire(server.connect(timeout).sock)


def wire_with_options(server, options, timeout=60, source_port=0):
    """The same with socket options (level, name, value) that are set before connecting."""

    def connect():
        sock = socket.socket()
        try:
            sock.settimeout(timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for option in options:
                sock.setsockopt(*option)
            if source_port:
                sock.bind(("", source_port))
            sock.connect(server.address)
        except BaseException:
            sock.close()
            raise
        return sock

    return Wire(server.secure(server.space.run(connect)))


def storage(verb, key, value, flags=0, exptime=0, tail=b""):
    """A storage request; tail stands behind <bytes>, for instance b" noreply"."""
    return b"%s %s %d %d %d%s\r\n%s\r\n" % (verb, key, flags, exptime, len(value), tail, value)


def hit(key, value, flags=0):
    """One value of a reply to get."""
    return b"VALUE %s %d %d\r\n%s\r\n" % (key, flags, len(value), value)


def rss_kib(pid):
    """Resident memory of a process, exactly: /proc/PID/status sums counters that lag behind."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as pages:
        for line in pages:
            if line.startswith("Rss:"):
                return int(line.split()[1])
    raise AssertionError(f"process {pid} has no Rss")


def settles(check, seconds=60, pause=0.05):
    """Repeats check() until it returns something true; its last answer after `seconds`."""
    end = time.monotonic() + seconds
    while not (answer := check()) and time.monotonic() < end:
        time.sleep(pause)
    return answer
