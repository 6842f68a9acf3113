# SPDX-License-Identifier: BSD-3-Clause
"""Below TCP, from crafted packets: Ethernet, ARP, IPv4 headers, ICMP, UDP."""

import struct

import pytest
import rawnet
from conform import lan, peer, target  # noqa: F401
from rawnet import IP_ICMP, IP_TCP, IP_UDP
from rawpeer import TARGET4
from wire import MISS, STORED, hit, storage, wire_to

REQUEST = b"get none\r\n"


def syn_with(lan, raw=None, **ip):  # noqa: F811
    """Sends a SYN in an IP packet made like this; returns the peer."""
    peer = lan.peer()  # noqa: F811
    packet = rawnet.ip4(peer.src, TARGET4, IP_TCP, peer.segment("S"), **ip)
    lan.send_ip(raw(packet) if raw else packet, peer.src)
    peer.snd += 1
    return peer


# ---- IPv4 headers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 0},
        {"version": 5},
        {"version": 6},
        {"version": 15},
        {"ihl": 0},
        {"ihl": 4},
        {"ihl": 15},
        {"csum": 0},
        {"csum": 0xFFFF},
        {"csum": 0x1234},
        {"total": 0},
        {"total": 19},
        {"total": 39},
        {"total": 41},
        {"total": 65535},
    ],
    ids=str,
)
def test_bad_header_is_dropped(lan, wrong):  # noqa: F811
    syn_with(lan, **wrong).none(0.1)


@pytest.mark.parametrize("length", [0, 1, 10, 19, 20, 30, 39])
def test_packet_that_is_cut_off(lan, length):  # noqa: F811
    host = lan.host()
    packet = rawnet.ip4(host, TARGET4, IP_TCP, rawnet.tcp(host, TARGET4, 5, 11211, 1, 0, 2))
    frame = rawnet.ethernet(lan.target_mac(), lan.macs[host], rawnet.ETH_IP4, packet[:length])
    lan.link.send(frame)
    lan.settle(0.05)
    assert not lan.tcp[host, 5]


@pytest.mark.parametrize("length", [14, 15, 20, 33])
def test_frame_that_is_hardly_one(lan, length):  # noqa: F811
    for kind in (rawnet.ETH_IP4, rawnet.ETH_ARP, rawnet.ETH_IP6, rawnet.ETH_VLAN, 0x0001, 0xFFFF):
        frame = rawnet.ethernet(lan.target_mac(), lan.macs[lan.host()], kind, b"\x45" * 30)
        lan.link.send(frame[:length])


@pytest.mark.parametrize(
    "options",
    ["01010101", "00000000", "07070400000000", "94040000", "440c0500" + "0" * 16, "01" * 40],
)
def test_ip_options_are_accepted(lan, options):  # noqa: F811
    syn_with(lan, options=bytes.fromhex(options)).expect("SA")


@pytest.mark.parametrize("options", ["0700", "07ff04", "4401", "8801", "0101010102"])
def test_malformed_ip_options(lan, options):  # noqa: F811
    """Whether it is answered or not, the server still serves."""
    syn_with(lan, options=bytes.fromhex(options)).forget(0.05)


@pytest.mark.parametrize("ttl", [0, 1, 255])
def test_time_to_live_is_for_routers(lan, ttl):  # noqa: F811
    syn_with(lan, ttl=ttl).expect("SA")


@pytest.mark.parametrize("tos", [0, 1, 3, 0xB8, 0xFF])
def test_type_of_service(lan, tos):  # noqa: F811
    syn_with(lan, tos=tos).expect("SA")


@pytest.mark.parametrize("bits", [0x4000, 0x8000, 0xC000])
def test_dont_fragment_and_the_reserved_bit(lan, bits):  # noqa: F811
    syn_with(lan, fragment=bits).expect("SA")


@pytest.mark.parametrize("ident", [0, 1, 0xFFFF])
def test_identification_of_whole_packets_is_ignored(lan, ident):  # noqa: F811
    for _ in range(3):
        syn_with(lan, ident=ident).expect("SA")


@pytest.mark.parametrize("padding", [1, 6, 20, 100])
def test_padding_behind_the_packet_is_no_data(lan, padding):  # noqa: F811
    peer = lan.peer()  # noqa: F811
    peer.open()
    packet = rawnet.ip4(peer.src, TARGET4, IP_TCP, peer.segment("PA", REQUEST))
    lan.send_ip(packet + b"\xa5" * padding, peer.src)
    peer.snd += len(REQUEST)
    assert peer.read(len(MISS)) == MISS
    peer.alive()
    peer.reset()


def test_our_packets_are_in_order(lan):  # noqa: F811
    """TTL, version, no fragments; checksums are looked at for every frame anyway."""
    host = lan.host()
    echo = rawnet.icmp(8, 0, 0x00010001, b"ping")
    lan.send_ip(rawnet.ip4(host, TARGET4, IP_ICMP, echo), host)
    reply = lan.packet(host, IP_ICMP)
    assert reply.ttl >= 32 and not reply.bad and not reply.fragment
    assert reply.src_mac == lan.target_mac()


# ---- ICMP -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 2, 3, 55, 56, 1000, 1471, 1472])
def test_echo(lan, size):  # noqa: F811
    host = lan.host()
    echo = rawnet.icmp(8, 0, 0xABCD0007, bytes(at & 0xFF for at in range(size)))
    lan.send_ip(rawnet.ip4(host, TARGET4, IP_ICMP, echo), host)
    reply = lan.packet(host, IP_ICMP)
    assert reply.payload[:2] == b"\0\0" and reply.payload[4:] == echo[4:]
    assert rawnet.checksum(reply.payload) == 0


def test_echo_with_a_wrong_checksum(lan):  # noqa: F811
    host = lan.host()
    lan.send_ip(
        rawnet.ip4(host, TARGET4, IP_ICMP, rawnet.icmp(8, 0, 1, b"x", csum=0x1234)), host
    )
    assert lan.packet(host, IP_ICMP, 0.1) is None


@pytest.mark.parametrize("dst", ["10.100.0.255", "255.255.255.255", "224.0.0.1"])
def test_echo_to_many_is_not_answered(lan, dst):  # noqa: F811
    host = lan.host()
    lan.send_ip(rawnet.ip4(host, dst, IP_ICMP, rawnet.icmp(8, 0, 1, b"x")), host)
    assert lan.packet(host, IP_ICMP, 0.1) is None


@pytest.mark.parametrize("kind", [0, 1, 4, 5, 9, 10, 13, 15, 17, 30, 255])
def test_other_icmp_messages_are_ignored(lan, kind):  # noqa: F811
    host = lan.host()
    lan.send_ip(rawnet.ip4(host, TARGET4, IP_ICMP, rawnet.icmp(kind, 0, 1, bytes(28))), host)
    lan.settle(0.02)


@pytest.mark.parametrize("length", range(8))
def test_short_icmp_messages(lan, length):  # noqa: F811
    host = lan.host()
    lan.send_ip(rawnet.ip4(host, TARGET4, IP_ICMP, rawnet.icmp(8, 0, 1)[:length]), host)
    assert lan.packet(host, IP_ICMP, 0.05) is None


def icmp_error(peer, kind, code, rest=0, seq=None, quote=8, **fields):
    """An ICMP error about a segment that the target has sent to the peer."""
    sent = rawnet.tcp(
        TARGET4,
        peer.src,
        fields.get("sport", peer.dport),
        fields.get("dport", peer.sport),
        peer.rcv if seq is None else seq,
        peer.snd,
        rawnet.ACK,
    )
    quoted = rawnet.ip4(TARGET4, peer.src, IP_TCP, sent)[: 20 + quote]
    message = rawnet.icmp(kind, code, rest, quoted)
    peer.lan.send_ip(rawnet.ip4(peer.src, TARGET4, IP_ICMP, message), peer.src)


@pytest.mark.parametrize("code", range(16))
def test_unreachable_does_not_end_a_connection(peer, code):
    """RFC 5927 5.2: hard errors are soft in a synchronised state."""
    if code != 4:
        peer.alive()
        peer.send("PA", REQUEST)
        segment = peer.data()
        icmp_error(peer, 3, code, seq=segment.seq)
        peer.send("A")
        peer.alive()


@pytest.mark.parametrize("kind, code", [(4, 0), (11, 0), (11, 1), (12, 0), (5, 1)])
def test_other_errors_do_not_end_a_connection(peer, kind, code):
    peer.send("PA", REQUEST)
    segment = peer.data()
    icmp_error(peer, kind, code, seq=segment.seq)
    peer.send("A")
    peer.alive()


@pytest.mark.parametrize("quote", range(0, 8, 2))
def test_errors_that_quote_too_little(peer, quote):
    icmp_error(peer, 3, 4, 576, quote=quote)
    icmp_error(peer, 3, 1, quote=quote)
    peer.alive()


def test_error_within_an_error(lan):  # noqa: F811
    """Errors that quote a packet that the target has not sent."""
    host = lan.host()
    for quoted in (b"\x45" * 28, bytes(28), rawnet.ip4(host, TARGET4, 99, bytes(8))):
        message = rawnet.icmp(3, 4, 1000, quoted)
        lan.send_ip(rawnet.ip4(host, TARGET4, IP_ICMP, message), host)
    lan.settle(0.02)


# ---- ARP --------------------------------------------------------------------------------------


def arp_answer(lan, host, frame_payload, dst=None, seconds=0.15):  # noqa: F811
    """Sends an ARP frame, returns the answer's sender fields or None."""
    mac = lan.macs[host]
    lan.link.send(
        rawnet.ethernet(dst or "ff:ff:ff:ff:ff:ff", mac, rawnet.ETH_ARP, frame_payload)
    )
    while (frame := lan.link.recv(seconds)) is not None:
        if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\2":
            if frame[:6] == rawnet.mac_bytes(mac):
                return frame[22:32]
    return None


def test_arp_request_is_answered(lan):  # noqa: F811
    host = lan.host()
    request = rawnet.arp(1, lan.macs[host], host, "00:00:00:00:00:00", TARGET4)
    expected = rawnet.mac_bytes(lan.target_mac()) + rawnet.packed(TARGET4)
    assert arp_answer(lan, host, request, seconds=60) == expected


def test_arp_request_for_another_address(lan):  # noqa: F811
    host = lan.host()
    request = rawnet.arp(1, lan.macs[host], host, "00:00:00:00:00:00", "10.100.0.21")
    assert arp_answer(lan, host, request) is None


@pytest.mark.parametrize("field", ["hardware", "protocol", "hlen", "plen", "operation", "short"])
def test_malformed_arp(lan, field):  # noqa: F811
    host = lan.host()
    request = bytearray(rawnet.arp(1, lan.macs[host], host, "00:00:00:00:00:00", TARGET4))
    where = {"hardware": 1, "protocol": 2, "hlen": 4, "plen": 5, "operation": 7}
    if field == "short":
        request = request[:27]
    else:
        request[where[field]] ^= 0x11
    assert arp_answer(lan, host, bytes(request), seconds=0.1) is None


def test_arp_probe_is_answered(lan):  # noqa: F811
    """RFC 5227: from 0.0.0.0, to find out whether the address is taken."""
    host = lan.host()
    request = rawnet.arp(1, lan.macs[host], "0.0.0.0", "00:00:00:00:00:00", TARGET4)
    assert arp_answer(lan, host, request, seconds=60) is not None


def test_claim_of_the_servers_address(lan):  # noqa: F811
    host = lan.host()
    for operation in (1, 2):
        claim = rawnet.arp(operation, lan.macs[host], TARGET4, lan.macs[host], TARGET4)
        arp_answer(lan, host, claim, seconds=0.05)


def test_moved_neighbour_is_followed(peer):
    """The peer announces another MAC address during the connection (RFC 826)."""
    peer.alive()
    lan = peer.lan  # noqa: F811
    lan.macs[peer.src] = "02:00:5e:77:77:77"
    mac = lan.macs[peer.src]
    announcement = rawnet.arp(1, mac, peer.src, "00:00:00:00:00:00", peer.src)
    lan.link.send(rawnet.ethernet("ff:ff:ff:ff:ff:ff", mac, rawnet.ETH_ARP, announcement))
    peer.send("PA", REQUEST)
    segment = peer.data()
    assert segment.dst_mac == mac
    peer.send("A")


# ---- other protocols --------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 7, 9, 65535])
def test_udp_with_a_wrong_length(lan, length):  # noqa: F811
    host = lan.host()
    segment = struct.pack("!HHHH", 5000, 9, length, 0)
    lan.send_ip(rawnet.ip4(host, TARGET4, IP_UDP, segment), host)
    assert lan.packet(host, IP_ICMP, 0.1) is None


@pytest.mark.parametrize("protocol", [0, 2, 4, 41, 47, 50, 51, 58, 99, 132, 255])
def test_other_protocols_are_ignored(lan, protocol):  # noqa: F811
    host = lan.host()
    lan.send_ip(rawnet.ip4(host, TARGET4, protocol, bytes(40)), host)
    lan.settle(0.02)
    lan.other.clear()

# ---- the path MTU -----------------------------------------------------------------------------

LARGE = bytes(range(33, 123)) * 333


@pytest.fixture(scope="module", autouse=True)
def large_value(target):  # noqa: F811
    with wire_to(target) as wire:
        wire.say(storage(b"set", b"large", LARGE), STORED)


def sizes_after(peer, mtu, offset=0):
    """Asks for 30 KB, says "too big" to the first segment, takes all; sizes of what came then."""
    peer.send("PA", b"get large\r\n")
    first = peer.recv()
    while not first.data:
        first = peer.recv()
    icmp_error(peer, 3, 4, mtu, seq=first.seq + offset)
    peer.forget(0.02)
    peer.rcv = first.seq
    expected = hit(b"large", LARGE) + MISS
    data, sizes = b"", []
    while len(data) < len(expected):
        segment = peer.recv()
        if segment.data and segment.seq == peer.rcv:
            sizes.append(len(segment.data))
            data += peer.take(segment)
        peer.send("A")
    assert data == expected
    return sizes


@pytest.mark.parametrize("mtu", [1400, 1000, 600])
def test_smaller_path_mtu_is_used(peer, mtu):
    assert max(sizes_after(peer, mtu)) == mtu - 40


@pytest.mark.parametrize("mtu", [0, 1, 20, 68, 300, 551])
def test_path_mtu_has_a_floor(peer, mtu):
    """The path MTU is at least 552 bytes, as in the kernel, so that segments are not tiny."""
    sizes = sizes_after(peer, mtu)
    assert sorted(sizes)[len(sizes) // 2] >= 512


@pytest.mark.parametrize("mtu", [1500, 1501, 9000, 65535])
def test_larger_path_mtu_is_ignored(peer, mtu):
    assert max(sizes_after(peer, mtu)) == 1460


@pytest.mark.parametrize("offset", [-1, -100_000, 1 << 20, 1 << 30, 1 << 31])
def test_path_mtu_for_data_not_in_flight(peer, offset):
    """RFC 5927: the sequence number in the error is a guess."""
    assert max(sizes_after(peer, 600, offset)) == 1460
