# SPDX-License-Identifier: BSD-3-Clause
"""A memif client in Python: control messages, rings and buffers.

It connects to a server's socket within milliseconds, fills the ring towards the server with frames
and closes its socket without a DISCONNECT, as the kernel does for a client that is killed.
"""

import array
import fcntl
import mmap
import os
import socket
import struct
import time

VERSION = 0x200
COOKIE = 0x3E31F20
ACK, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED, DISCONNECT = range(1, 9)
MESSAGE_BYTES = 128
RING_TO_SERVER, RING_TO_CLIENT = 1, 0  # flags of ADD_RING

RING_LOG2 = 10
RING_SLOTS = 1 << RING_LOG2
RING_HEADER_BYTES = 128
HEAD_AT, TAIL_AT = 6, 64
DESCRIPTOR = struct.Struct("=HHIII")  # flags, region, length, offset, metadata
RING_BYTES = RING_HEADER_BYTES + DESCRIPTOR.size * RING_SLOTS
NEXT = 1  # flag of a descriptor whose frame continues in the next one
BUFFER_BYTES = 2048
REGION_BYTES = 2 * RING_BYTES + 2 * RING_SLOTS * BUFFER_BYTES


class Refused(Exception):
    """The server sent DISCONNECT, or closed the connection."""


class MemifPeer:
    """Connects when it is made. `steps`: how many messages it sends after INIT, by default all.

    Has send(), recv() and close() like the links of rawpeer.
    """

    def __init__(self, path, interface=1, steps=4):
        self.descriptors = []
        self.memory = None
        self.sent = self.received = 0
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(60)
        try:
            self.sock.connect(path)
            self._handshake(interface, steps)
        except BaseException:
            self.close()
            raise

    def _handshake(self, interface, steps):
        self._receive(HELLO)
        self._send(INIT, struct.pack("=HIB24s32s", VERSION, interface, 0, b"", b"test"))
        self._receive(ACK)
        region = self._keep(os.memfd_create("memif_region_0", os.MFD_ALLOW_SEALING))
        os.ftruncate(region, REGION_BYTES)
        fcntl.fcntl(region, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        self.memory = mmap.mmap(region, REGION_BYTES)
        for ring in range(2):
            struct.pack_into("=I", self.memory, ring * RING_BYTES, COOKIE)
        for slot in range(2 * RING_SLOTS):
            self._describe(slot, BUFFER_BYTES)
        messages = [(ADD_REGION, struct.pack("=HQ", 0, REGION_BYTES), region)]
        for ring, flags in enumerate((RING_TO_SERVER, RING_TO_CLIENT)):
            body = struct.pack("=HHHIBH", flags, 0, 0, ring * RING_BYTES, RING_LOG2, 0)
            messages.append((ADD_RING, body, self._keep(os.eventfd(0, os.EFD_NONBLOCK))))
        messages.append((CONNECT, b"test", None))
        for kind, body, fd in messages[:steps]:
            self._send(kind, body, fd)
            self._receive(CONNECTED if kind == CONNECT else ACK)
        if steps == len(messages):
            # All buffers of the ring towards the client are free for frames of the server.
            self._set(1, HEAD_AT, RING_SLOTS)

    def _keep(self, fd):
        self.descriptors.append(fd)
        return fd

    def _send(self, kind, body, fd=None):
        ancillary = []
        if fd is not None:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        message = struct.pack("=H", kind) + body
        self.sock.sendmsg([message.ljust(MESSAGE_BYTES, b"\0")], ancillary)

    def _receive(self, kind):
        message = self.sock.recv(MESSAGE_BYTES)
        if len(message) < MESSAGE_BYTES or struct.unpack_from("=H", message)[0] != kind:
            raise Refused(message[:64])

    def _describe(self, slot, length, flags=0):
        ring, index = divmod(slot, RING_SLOTS)
        at = ring * RING_BYTES + RING_HEADER_BYTES + index * DESCRIPTOR.size
        DESCRIPTOR.pack_into(
            self.memory, at, flags, 0, length, 2 * RING_BYTES + slot * BUFFER_BYTES, 0
        )

    def _get(self, ring, at):
        return struct.unpack_from("=H", self.memory, ring * RING_BYTES + at)[0]

    def _set(self, ring, at, value):
        struct.pack_into("=H", self.memory, ring * RING_BYTES + at, value & 0xFFFF)

    def _write(self, slot, frame, length, flags=0):
        at = 2 * RING_BYTES + slot * BUFFER_BYTES
        self.memory[at : at + len(frame)] = frame
        self._describe(slot, length, flags)

    def flood(self, frame, buffers_per_frame=1):
        """Fills the ring with copies of a frame; with several buffers each it is padded."""
        for slot in range(RING_SLOTS):
            goes_on = (slot + 1) % buffers_per_frame != 0
            length = BUFFER_BYTES if buffers_per_frame > 1 else len(frame)
            self._write(slot, frame, length, NEXT if goes_on else 0)
        self.sent += RING_SLOTS
        self._set(0, HEAD_AT, self.sent)

    def send(self, frame):
        self._write(self.sent % RING_SLOTS, frame, len(frame))
        self.sent += 1
        self._set(0, HEAD_AT, self.sent)

    def recv(self, timeout):
        """The next frame from the server, None if there is none in time."""
        end = time.monotonic() + timeout
        while self._get(1, TAIL_AT) == self.received & 0xFFFF:
            if time.monotonic() > end:
                return None
            time.sleep(0.0005)
        slot = self.received % RING_SLOTS
        at = RING_BYTES + RING_HEADER_BYTES + slot * DESCRIPTOR.size
        length, offset = DESCRIPTOR.unpack_from(self.memory, at)[2:4]
        frame = self.memory[offset : offset + length]
        self._describe(RING_SLOTS + slot, BUFFER_BYTES)
        self.received += 1
        self._set(1, HEAD_AT, self.received + RING_SLOTS)
        return frame

    def close(self):
        self.sock.close()
        if self.memory is not None:
            self.memory.close()
        for fd in self.descriptors:
            os.close(fd)
        self.descriptors = []
