# SPDX-License-Identifier: BSD-3-Clause
"""Builds and parses frames: Ethernet, ARP, IPv4, IPv6, ICMP, UDP and TCP.

Everything that a builder computes (lengths, checksums) can be overridden, because most tests are
about invalid frames. This module uses no clock and no sockets.
"""

import dataclasses
import ipaddress
import struct

ETH_IP4, ETH_ARP, ETH_IP6, ETH_VLAN = 0x0800, 0x0806, 0x86DD, 0x8100
IP_ICMP, IP_TCP, IP_UDP, IP_ICMP6 = 1, 6, 17, 58

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << bit for bit in range(8))
FLAG_LETTERS = "FSRPAUEW"

MSS, SCALE, SACK_PERMITTED, SACK, TIMESTAMPS = 2, 3, 4, 5, 8


def flags_of(letters):
    """"SA" -> SYN | ACK."""
    return sum(1 << FLAG_LETTERS.index(letter) for letter in letters)


def letters_of(flags):
    return "".join(letter for bit, letter in enumerate(FLAG_LETTERS) if flags >> bit & 1)


def checksum(data):
    """The checksum of RFC 1071 for a header whose checksum field is zero."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def packed(address):
    return ipaddress.ip_address(address).packed


def pseudo_header(src, dst, protocol, length):
    if len(packed(src)) == 4:
        return packed(src) + packed(dst) + struct.pack("!BBH", 0, protocol, length)
    return packed(src) + packed(dst) + struct.pack("!IBBBB", length, 0, 0, 0, protocol)


# ---- building ---------------------------------------------------------------------------------


def mac_bytes(mac):
    return bytes.fromhex(mac.replace(":", ""))


def ethernet(dst, src, kind, payload):
    return mac_bytes(dst) + mac_bytes(src) + struct.pack("!H", kind) + payload


def arp(operation, sender_mac, sender_ip, target_mac, target_ip):
    return (
        struct.pack("!HHBBH", 1, ETH_IP4, 6, 4, operation)
        + mac_bytes(sender_mac)
        + packed(sender_ip)
        + mac_bytes(target_mac)
        + packed(target_ip)
    )


def ip4(src, dst, protocol, payload, **wrong):
    """An IPv4 packet. wrong: ttl, ident, fragment (flags and offset/8), options, version, ihl,
    total, csum, tos."""
    options = wrong.get("options", b"")
    options += b"\0" * (-len(options) % 4)
    ihl = wrong.get("ihl", 5 + len(options) // 4)
    total = wrong.get("total", 20 + len(options) + len(payload))
    header = struct.pack(
        "!BBHHHBBH4s4s",
        wrong.get("version", 4) << 4 | ihl,
        wrong.get("tos", 0),
        total,
        wrong.get("ident", 0),
        wrong.get("fragment", 0),
        wrong.get("ttl", 64),
        protocol,
        0,
        packed(src),
        packed(dst),
    )
    csum = wrong.get("csum", checksum(header + options))
    return header[:10] + struct.pack("!H", csum) + header[12:] + options + payload


def ip6(src, dst, protocol, payload, **wrong):
    """An IPv6 packet. wrong: ttl, version, total (payload length), tos (traffic class)."""
    first = wrong.get("version", 6) << 28 | wrong.get("tos", 0) << 20
    total = wrong.get("total", len(payload))
    header = struct.pack("!IHBB", first, total, protocol, wrong.get("ttl", 64))
    return header + packed(src) + packed(dst) + payload


def ip(src, dst, protocol, payload, **wrong):
    build = ip4 if ipaddress.ip_address(src).version == 4 else ip6
    return build(src, dst, protocol, payload, **wrong)


def fragments(src, dst, protocol, payload, cuts, ident):
    """IPv4 fragments of a payload: cuts are (first, last) byte ranges; first divisible by 8."""
    for first, last in cuts:
        more = 0x2000 if last < len(payload) else 0
        yield ip4(
            src, dst, protocol, payload[first:last], ident=ident, fragment=more | first // 8
        )


def fragments6(src, dst, protocol, payload, cuts, ident):
    """The same for IPv6 (RFC 8200 4.5)."""
    for first, last in cuts:
        more = 1 if last < len(payload) else 0
        header = struct.pack("!BBHI", protocol, 0, first | more, ident)
        yield ip6(src, dst, 44, header + payload[first:last])


def options(mss=None, scale=None, sack_ok=False, ts=None, sack=()):
    """TCP options, not padded."""
    data = b""
    if mss is not None:
        data += struct.pack("!BBH", MSS, 4, mss)
    if sack_ok:
        data += struct.pack("!BB", SACK_PERMITTED, 2)
    if ts is not None:
        data += struct.pack("!BBII", TIMESTAMPS, 10, ts[0] & 0xFFFFFFFF, ts[1] & 0xFFFFFFFF)
    if scale is not None:
        data += struct.pack("!BBB", SCALE, 3, scale)
    if sack:
        data += struct.pack("!BB", SACK, 2 + 8 * len(sack))
        for first, last in sack:
            data += struct.pack("!II", first & 0xFFFFFFFF, last & 0xFFFFFFFF)
    return data


def tcp(src, dst, sport, dport, seq, ack, flags, data=b"", window=65535, opts=b"", **wrong):
    """A TCP segment. wrong: doff, csum, urgent, csum_xor."""
    opts += b"\1" * (-len(opts) % 4)
    doff = wrong.get("doff", 5 + len(opts) // 4)
    segment = struct.pack(
        "!HHIIBBHHH",
        sport,
        dport,
        seq & 0xFFFFFFFF,
        ack & 0xFFFFFFFF,
        (doff & 15) << 4,
        flags,
        window,
        0,
        wrong.get("urgent", 0),
    )
    segment += opts + data
    csum = checksum(pseudo_header(src, dst, IP_TCP, len(segment)) + segment)
    csum = wrong.get("csum", csum) ^ wrong.get("csum_xor", 0)
    return segment[:16] + struct.pack("!H", csum) + segment[18:]


def udp(src, dst, sport, dport, data, csum=None):
    segment = struct.pack("!HHHH", sport, dport, 8 + len(data), 0) + data
    if csum is None:
        csum = checksum(pseudo_header(src, dst, IP_UDP, len(segment)) + segment) or 0xFFFF
    return segment[:6] + struct.pack("!H", csum) + segment[8:]


def icmp(kind, code, rest, data=b"", src=None, dst=None, csum=None):
    """ICMP, or ICMPv6 if src and dst are given; rest: the second word of the header."""
    message = struct.pack("!BBHI", kind, code, 0, rest) + data
    if csum is None:
        pseudo = pseudo_header(src, dst, IP_ICMP6, len(message)) if src else b""
        csum = checksum(pseudo + message)
    return message[:2] + struct.pack("!H", csum) + message[4:]


# ---- taking apart -----------------------------------------------------------------------------


@dataclasses.dataclass
class Segment:
    """A received TCP segment; `bad` is a description of its error, or empty."""

    src: str
    dst: str
    sport: int
    dport: int
    seq: int
    ack: int
    flags: int
    window: int
    data: bytes
    mss: int | None = None
    scale: int | None = None
    sack_ok: bool = False
    ts: tuple | None = None
    sack: tuple = ()
    kinds: tuple = ()
    tos: int = 0
    dst_mac: str = ""
    bad: str = ""
    at: float = 0.0

    @property
    def letters(self):
        return letters_of(self.flags)

    @property
    def space(self):
        return len(self.data) + (1 if self.flags & SYN else 0) + (1 if self.flags & FIN else 0)


def _parse_options(segment, data):
    kinds = []
    at = 0
    while at < len(data) and data[at] != 0:
        if data[at] == 1:
            at += 1
            continue
        length = data[at + 1]
        value = data[at + 2 : at + length]
        kinds.append(data[at])
        if data[at] == MSS:
            segment.mss = struct.unpack("!H", value)[0]
        elif data[at] == SCALE:
            segment.scale = value[0]
        elif data[at] == SACK_PERMITTED:
            segment.sack_ok = True
        elif data[at] == TIMESTAMPS:
            segment.ts = struct.unpack("!II", value)
        elif data[at] == SACK:
            words = struct.unpack(f"!{len(value) // 4}I", value)
            segment.sack = tuple(zip(words[::2], words[1::2]))
        at += length
    segment.kinds = tuple(kinds)


def parse_tcp(src, dst, payload, tos=0):
    sport, dport, seq, ack, offset, flags, window = struct.unpack("!HHIIBBH", payload[:16])
    header = (offset >> 4) * 4
    segment = Segment(src, dst, sport, dport, seq, ack, flags, window, payload[header:], tos=tos)
    if checksum(pseudo_header(src, dst, IP_TCP, len(payload)) + payload) != 0:
        segment.bad = "TCP checksum"
    _parse_options(segment, payload[20:header])
    return segment


@dataclasses.dataclass
class Packet:
    """A received IP packet."""

    version: int
    src: str
    dst: str
    protocol: int
    payload: bytes
    ttl: int
    tos: int
    src_mac: str
    bad: str = ""
    fragment: int = 0


def _parse_ip4(frame, src_mac):
    header = (frame[0] & 15) * 4
    total = struct.unpack("!H", frame[2:4])[0]
    src, dst = (str(ipaddress.ip_address(frame[at : at + 4])) for at in (12, 16))
    packet = Packet(4, src, dst, frame[9], frame[header:total], frame[8], frame[1], src_mac)
    packet.fragment = struct.unpack("!H", frame[6:8])[0] & 0x3FFF
    if checksum(frame[:header]) != 0:
        packet.bad = "IP checksum"
    if total > len(frame):
        packet.bad = "IP length"
    return packet


def _parse_ip6(frame, src_mac):
    total, protocol, ttl = struct.unpack("!HBB", frame[4:8])
    src, dst = (str(ipaddress.ip_address(frame[at : at + 16])) for at in (8, 24))
    tos = struct.unpack("!H", frame[:2])[0] >> 4 & 0xFF
    packet = Packet(6, src, dst, protocol, frame[40 : 40 + total], ttl, tos, src_mac)
    if 40 + total > len(frame):
        packet.bad = "IP length"
    return packet


def parse_ip(frame):
    """The IP packet of an Ethernet frame, None if there is none."""
    kind = struct.unpack("!H", frame[12:14])[0]
    src_mac = frame[6:12].hex(":")
    if kind == ETH_IP4:
        return _parse_ip4(frame[14:], src_mac)
    if kind == ETH_IP6:
        return _parse_ip6(frame[14:], src_mac)
    return None
