# SPDX-License-Identifier: BSD-3-Clause
"""Builds and parses packets of the binary protocol."""

import struct
from typing import NamedTuple

HEADER = struct.Struct(">BBHBBHIIQ")
REQUEST, REPLY = 0x80, 0x81

# fmt: off
OPCODES = {
    name: code for code, name in enumerate((
        "get", "set", "add", "replace", "delete", "incr", "decr", "quit", "flush", "getq", "noop",
        "version", "getk", "getkq", "append", "prepend", "stat", "setq", "addq", "replaceq",
        "deleteq", "incrq", "decrq", "quitq", "flushq", "appendq", "prependq", "verbosity",
        "touch", "gat", "gatq",
    ))
} | {"sasl_list": 0x20, "sasl_auth": 0x21, "sasl_step": 0x22, "gatk": 0x23, "gatkq": 0x24}
# fmt: on


class Packet(NamedTuple):
    opcode: int
    status: int
    extras: bytes
    key: bytes
    value: bytes
    opaque: int
    cas: int


def request(name, key=b"", value=b"", extras=b"", cas=0, opaque=0):
    body = extras + key + value
    return (
        HEADER.pack(
            REQUEST, OPCODES[name], len(key), len(extras), 0, 0, len(body), opaque, cas
        )
        + body
    )


def store(name, key, value, flags=0, exptime=0, cas=0, opaque=0):
    return request(name, key, value, struct.pack(">II", flags, exptime), cas, opaque)


def count(name, key, delta, initial=0, exptime=0, cas=0, opaque=0):
    return request(name, key, b"", struct.pack(">QQI", delta, initial, exptime), cas, opaque)


def touch(name, key, exptime, opaque=0):
    return request(name, key, b"", struct.pack(">I", exptime), 0, opaque)


def packets(data):
    """The replies in these bytes, which must be complete packets."""
    found = []
    at = 0
    while at < len(data):
        fields = HEADER.unpack_from(data, at)
        magic, opcode, key_len, extras_len, kind, status, body_len, opaque, cas = fields
        assert magic == REPLY and kind == 0, data[at : at + 24].hex()
        body = data[at + HEADER.size : at + HEADER.size + body_len]
        assert len(body) == body_len, "a packet is cut short"
        value_at = extras_len + key_len
        found.append(
            Packet(
                opcode, status, body[:extras_len], body[extras_len:value_at], body[value_at:],
                opaque, cas,
            )
        )
        at += HEADER.size + body_len
    return found


def read_packet(wire):
    header = wire.exactly(HEADER.size)
    return packets(header + wire.exactly(HEADER.unpack(header)[6]))[0]


def read_until(wire, opaque):
    """All packets before the one with this opaque."""
    found = []
    while (packet := read_packet(wire)).opaque != opaque:
        found.append(packet)
    return found
