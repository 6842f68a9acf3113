# SPDX-License-Identifier: BSD-3-Clause
"""IPv4 fragments and UDP, from crafted packets."""

import pytest
import rawnet
from conform import lan, peer, target  # noqa: F401
from rawnet import IP_ICMP, IP_TCP, IP_UDP
from rawpeer import TARGET4
from wire import MISS


# ---- fragments --------------------------------------------------------------------------------


def send_fragments(lan, peer, payload, cuts, ident):  # noqa: F811
    for packet in rawnet.fragments(peer.src, TARGET4, IP_TCP, payload, cuts, ident):
        lan.send_ip(packet, peer.src)


FRAGMENT_REQUEST = b"get " + b"x" * 100 + b"\r\n"
LENGTH = 20 + len(FRAGMENT_REQUEST)  # 126 bytes of TCP

WHOLE = {
    "in order": [(0, 48), (48, 96), (96, LENGTH)],
    "backwards": [(96, LENGTH), (48, 96), (0, 48)],
    "the same twice": [(0, 48), (48, 96), (0, 48), (48, 96), (96, LENGTH)],
    "middle last": [(0, 48), (96, LENGTH), (48, 96)],
    "eight bytes each": [(at, min(at + 8, LENGTH)) for at in range(0, LENGTH, 8)],
    "header in three": [(0, 8), (8, 16), (16, LENGTH)],
}


@pytest.mark.parametrize("cuts", WHOLE.values(), ids=WHOLE.keys())
def test_fragments_are_put_together(peer, cuts):
    send_fragments(peer.lan, peer, peer.segment("PA", FRAGMENT_REQUEST), cuts, 77)
    peer.snd += len(FRAGMENT_REQUEST)
    assert peer.read(len(MISS)) == MISS


def test_fragments_of_two_packets_mixed(peer):
    """The identification separates them."""
    first = peer.segment("PA", FRAGMENT_REQUEST)
    peer.snd += len(FRAGMENT_REQUEST)
    second = peer.segment("PA", FRAGMENT_REQUEST)
    peer.snd += len(FRAGMENT_REQUEST)
    packets = [
        list(rawnet.fragments(peer.src, TARGET4, IP_TCP, data, WHOLE["in order"], ident))
        for data, ident in ((first, 1), (second, 2))
    ]
    for pair in zip(*packets):
        for packet in pair:
            peer.lan.send_ip(packet, peer.src)
    assert peer.read(2 * len(MISS)) == MISS * 2


def test_fragment_within_another(peer):
    """A duplicate or an attack: it is dropped, alone or with its packet."""
    payload = peer.segment("PA", b"incr " + b"x" * 100 + b" 1\r\n")
    evil = payload[:24] + b"y" * 8 + payload[32:]
    packets = list(rawnet.fragments(peer.src, TARGET4, IP_TCP, payload, WHOLE["in order"], 84))
    packets[1:1] = rawnet.fragments(peer.src, TARGET4, IP_TCP, evil, [(24, 32)], 84)
    for packet in packets:
        peer.lan.send_ip(packet, peer.src)
    peer.send("A", seq=peer.snd - 1)  # answered by an ACK, as a probe of keep-alive is
    answer = peer.recv()
    if answer.ack != peer.snd:
        peer.snd += len(payload) - 20
        assert answer.ack == peer.snd
        peer.lan.tcp[peer.src, peer.sport].appendleft(answer)
        assert peer.read(len(b"NOT_FOUND\r\n")) == b"NOT_FOUND\r\n"
    peer.forget()
    peer.alive()


NOT_WHOLE = {
    "the last is missing": [(0, 48), (48, 96)],
    "the first is missing": [(48, 96), (96, LENGTH)],
    "the middle is missing": [(0, 48), (96, LENGTH)],
    "only one": [(0, 48)],
}


@pytest.mark.parametrize("cuts", NOT_WHOLE.values(), ids=NOT_WHOLE.keys())
def test_incomplete_fragments_are_nothing(peer, cuts):
    send_fragments(peer.lan, peer, peer.segment("PA", FRAGMENT_REQUEST), cuts, 78)
    peer.none()
    peer.alive()


@pytest.mark.parametrize("overlap", [(40, 96), (8, 56), (0, 56), (88, 104)], ids=str)
def test_overlapping_fragments_are_dropped(peer, overlap):
    """RFC 5722 for IPv6, and the kernel for both: all of the packet goes."""
    payload = peer.segment("PA", FRAGMENT_REQUEST)
    cuts = [(0, 48), overlap, (48, 96), (96, LENGTH)]
    send_fragments(peer.lan, peer, payload, cuts, 79)
    peer.none()
    peer.alive()


def test_fragment_behind_the_end(peer):
    """Two ends that differ."""
    payload = peer.segment("PA", FRAGMENT_REQUEST)
    for packet in (
        rawnet.ip4(peer.src, TARGET4, IP_TCP, payload[:48], ident=80, fragment=0x2000),
        rawnet.ip4(peer.src, TARGET4, IP_TCP, payload[96:], ident=80, fragment=96 // 8),
        rawnet.ip4(peer.src, TARGET4, IP_TCP, bytes(16), ident=80, fragment=0x2000 | 160 // 8),
        rawnet.ip4(peer.src, TARGET4, IP_TCP, payload[48:96], ident=80, fragment=0x2000 | 6),
    ):
        peer.lan.send_ip(packet, peer.src)
    peer.none()
    peer.alive()


def test_fragment_beyond_64_kib(lan):  # noqa: F811
    """The ping of death."""
    host = lan.host()
    for at in (0, 65528):
        data = rawnet.icmp(8, 0, 1, b"x" * 1392) if at == 0 else b"y" * 1400
        more = 0x2000 if at == 0 else 0
        lan.send_ip(
            rawnet.ip4(host, TARGET4, IP_ICMP, data, ident=81, fragment=more | at // 8), host
        )
    assert lan.packet(host, IP_ICMP, 0.15) is None


def test_fragment_of_odd_length(peer):
    """All but the last must be multiples of eight; this one is not, and not the last."""
    payload = peer.segment("PA", FRAGMENT_REQUEST)
    for packet in (
        rawnet.ip4(peer.src, TARGET4, IP_TCP, payload[:45], ident=82, fragment=0x2000),
        rawnet.ip4(peer.src, TARGET4, IP_TCP, payload[48:], ident=82, fragment=48 // 8),
    ):
        peer.lan.send_ip(packet, peer.src)
    peer.none()
    peer.alive()


def test_empty_fragments(peer):
    for fragment in (0x2000, 0x2001, 0x2000 | 0x1FFF, 5):
        packet = rawnet.ip4(peer.src, TARGET4, IP_TCP, b"", ident=83, fragment=fragment)
        peer.lan.send_ip(packet, peer.src)
    peer.none(0.05)
    peer.alive()


def test_many_incomplete_packets(peer):
    """More incomplete packets than the stack keeps; then a complete one still arrives."""
    for ident in range(3000):
        packet = rawnet.ip4(peer.src, TARGET4, IP_TCP, bytes(64), ident=ident, fragment=0x2000)
        peer.lan.send_ip(packet, peer.src)
    peer.lan.catch_up()
    peer.alive()
    another = peer.lan.peer()
    another.open()
    payload = another.segment("PA", FRAGMENT_REQUEST)
    another.snd += len(FRAGMENT_REQUEST)
    send_fragments(peer.lan, another, payload, WHOLE["in order"], 40000)
    assert another.read(len(MISS)) == MISS
    another.reset()


def test_echo_in_fragments(lan):  # noqa: F811
    host = lan.host()
    echo = rawnet.icmp(8, 0, 0x12340001, bytes(range(256)) * 4)
    cuts = [(0, 400), (400, 800), (800, len(echo))]
    for packet in rawnet.fragments(host, TARGET4, IP_ICMP, echo, cuts, 90):
        lan.send_ip(packet, host)
    reply = lan.packet(host, IP_ICMP)
    assert reply.payload[0] == 0 and reply.payload[4:] == echo[4:]


# ---- other protocols --------------------------------------------------------------------------


def test_udp_to_a_closed_port(lan):  # noqa: F811
    """RFC 1122 4.1.3.1: ICMP port unreachable, quoting the packet."""
    host = lan.host()
    packet = rawnet.ip4(host, TARGET4, IP_UDP, rawnet.udp(host, TARGET4, 5000, 9, b"hello"))
    lan.send_ip(packet, host)
    reply = lan.packet(host, IP_ICMP)
    assert reply is not None and reply.payload[:2] == b"\3\3"
    assert reply.payload[8:36] == packet[:28]


@pytest.mark.parametrize("data", [b"", b"odd", b"even"])
def test_udp_without_a_checksum_is_legal(lan, data):  # noqa: F811
    host = lan.host()
    segment = rawnet.udp(host, TARGET4, 5000, 9, data, csum=0)
    lan.send_ip(rawnet.ip4(host, TARGET4, IP_UDP, segment), host)
    assert lan.packet(host, IP_ICMP).payload[:2] == b"\3\3"


def test_unreachable_messages_are_limited(lan):  # noqa: F811
    """RFC 1812 4.3.2.8: a flood is not answered one by one."""
    host = lan.host()
    packet = rawnet.ip4(host, TARGET4, IP_UDP, rawnet.udp(host, TARGET4, 5000, 9, b"x"))
    for _ in range(3000):
        lan.send_ip(packet, host)
    lan.catch_up()
    count = len(lan.other)
    lan.other.clear()
    assert 1 <= count < 2000
