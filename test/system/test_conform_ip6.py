# SPDX-License-Identifier: BSD-3-Clause
"""IPv6 from crafted packets: TCP over it, neighbour discovery, ICMPv6, headers, fragments."""

import struct
import time

import pytest
import rawnet
from conform import lan, target  # noqa: F401
from rawnet import IP_ICMP6, IP_TCP, IP_UDP
from rawpeer import TARGET6, solicited_node
from wire import MISS, STORED, hit, storage

REQUEST = b"get none\r\n"
VALUE = bytes(range(33, 123)) * 111
ALL_NODES = "ff02::1"


@pytest.fixture(scope="module", autouse=True)
def ready(target):  # noqa: F811
    """Waits until duplicate address detection has ended (RFC 4862 5.4)."""
    end = time.monotonic() + 60
    while solicit(target.lan, target.lan.host(6)) is None:
        assert time.monotonic() < end, "the address of the server never comes into use"


@pytest.fixture
def peer(lan):  # noqa: F811
    """An open connection over IPv6."""
    connection = lan.peer(6)
    connection.open(mss=1440)
    yield connection
    connection.reset()


# ---- TCP --------------------------------------------------------------------------------------


def test_handshake_offers_the_mss_of_ip6(lan):  # noqa: F811
    peer = lan.peer(6)  # noqa: F811
    answer = peer.open(mss=1440, scale=7, sack_ok=True, ts=True)
    assert answer.mss == 1440
    peer.alive()
    peer.reset()


@pytest.mark.parametrize("mss, size", [(None, 1220), (1440, 1440), (1000, 1000), (9000, 1440)])
def test_mss_limits_segments(lan, mss, size):  # noqa: F811
    peer = lan.peer(6)  # noqa: F811
    peer.open(mss=mss)
    request = storage(b"set", b"v6", VALUE)
    for at in range(0, len(request), 1000):
        peer.send("PA", request[at : at + 1000])
    assert peer.read(len(STORED)) == STORED
    peer.send("PA", b"get v6\r\n")
    expected, got, sizes = hit(b"v6", VALUE) + MISS, b"", []
    while len(got) < len(expected):
        segment = peer.recv()
        if segment.data and segment.seq == peer.rcv:
            sizes.append(len(segment.data))
            got += peer.take(segment)
        peer.send("A")
    assert got == expected and max(sizes) == size
    peer.reset()


def test_closed_port(lan):  # noqa: F811
    peer = lan.peer(6, port=4)  # noqa: F811
    peer.send("S")
    peer.expect("RA", seq=0, ack=peer.snd)
    peer.send("A", ack=77)
    peer.expect("R", seq=77)
    peer.send("R")
    peer.none()


def test_reset_rules(lan):  # noqa: F811
    peer = lan.peer(6)  # noqa: F811
    peer.open()
    peer.alive()
    peer.send("R", seq=peer.snd - 1)
    peer.none()
    peer.send("R", seq=peer.snd + 10)
    peer.expect("A", seq=peer.rcv, ack=peer.snd)
    peer.send("S", seq=peer.snd)
    peer.expect("A", seq=peer.rcv, ack=peer.snd)
    peer.alive()
    peer.send("R")
    peer.dead()


def test_data_acceptance(peer):
    peer.send("PA", REQUEST, seq=peer.snd, ack=peer.rcv + 1000)
    peer.expect("A", ack=peer.snd)
    peer.send("PA", b"none\r\n", seq=peer.snd + 4)
    peer.expect("A", ack=peer.snd)
    peer.send("PA", b"get ")
    peer.snd += 6
    assert peer.data().data == MISS
    peer.send("A")


def test_paws_and_dsack(lan):  # noqa: F811
    peer = lan.peer(6)  # noqa: F811
    peer.open(ts=True, sack_ok=True)
    peer.send("PA", b"get ")
    peer.expect("A", ack=peer.snd)
    peer.send("PA", b"x", seq=peer.snd, opts=peer.ts_option(value=peer.ts_now() - 10_000))
    peer.expect("A", ack=peer.snd)
    peer.send("A", b"get ", seq=peer.snd - 4)
    assert peer.expect("A", ack=peer.snd).sack == ((peer.snd - 4, peer.snd),)
    peer.ask(b"none\r\n", MISS)
    peer.reset()


def test_closing(lan):  # noqa: F811
    peer = lan.peer(6)  # noqa: F811
    peer.open()
    peer.send("FPA", REQUEST)
    data = b""
    while True:
        segment = peer.recv()
        data += peer.take(segment)
        if "F" in segment.letters:
            break
    assert data == MISS and segment.ack == peer.snd
    peer.send("A")
    peer.dead()


def test_many_half_open_connections(lan):  # noqa: F811
    for number in range(3000):
        peer = lan.peer(6, host=lan.host(6) if number % 100 == 0 else peer.src)  # noqa: F811
        peer.sport = 1024 + number
        peer.send("S", opts=rawnet.options(mss=1440))
        if number % 50 == 0:
            lan.settle(0.001)
    lan.settle(0.1)
    answer = peer.recv()
    peer.rcv = answer.seq + 1
    peer.ask(REQUEST, MISS)
    lan.tcp.clear()


@pytest.mark.parametrize("wrong", [{"csum": 0}, {"csum_xor": 1}])
def test_wrong_checksum(lan, wrong):  # noqa: F811
    peer = lan.peer(6)  # noqa: F811
    peer.send("S", **wrong)
    peer.none(0.1)


# ---- headers ----------------------------------------------------------------------------------


def syn_in(lan, packet_of, **wrong):  # noqa: F811
    """Sends a SYN in a packet that packet_of(src, segment) makes."""
    peer = lan.peer(6)  # noqa: F811
    lan.send_ip(packet_of(peer.src, peer.segment("S")), peer.src)
    peer.snd += 1
    return peer


@pytest.mark.parametrize("wrong", [{"version": 4}, {"total": 19}, {"total": 65535}, {"total": 0}])
def test_bad_header_is_dropped(lan, wrong):  # noqa: F811
    host = lan.host(6)
    peer = lan.peer(6, host=host)  # noqa: F811
    packet = rawnet.ip6(host, TARGET6, IP_TCP, peer.segment("S"), **wrong)
    lan.link.send(rawnet.ethernet(lan.target_mac(), lan.macs[host], rawnet.ETH_IP6, packet))
    peer.none(0.1)


@pytest.mark.parametrize("length", [0, 1, 20, 39, 40, 59])
def test_packet_that_is_cut_off(lan, length):  # noqa: F811
    host = lan.host(6)
    peer = lan.peer(6, host=host)  # noqa: F811
    packet = rawnet.ip6(host, TARGET6, IP_TCP, peer.segment("S"))[:length]
    lan.link.send(rawnet.ethernet(lan.target_mac(), lan.macs[host], rawnet.ETH_IP6, packet))
    peer.none(0.05)


@pytest.mark.parametrize("src", ["::", "::1", "ff02::1", TARGET6])
def test_impossible_source(lan, src):  # noqa: F811
    host = lan.host(6)
    segment = rawnet.tcp(src, TARGET6, 11211, 11211, 1, 0, rawnet.SYN)
    packet = rawnet.ip6(src, TARGET6, IP_TCP, segment)
    lan.link.send(rawnet.ethernet(lan.target_mac(), lan.macs[host], rawnet.ETH_IP6, packet))
    lan.settle(0.1)
    assert not lan.tcp[src, 11211]


def test_syn_to_a_multicast_address(lan):  # noqa: F811
    peer = lan.peer(6)  # noqa: F811
    segment = rawnet.tcp(peer.src, ALL_NODES, peer.sport, 11211, 1, 0, rawnet.SYN)
    packet = rawnet.ip6(peer.src, ALL_NODES, IP_TCP, segment)
    mac = lan.macs[peer.src]
    lan.link.send(rawnet.ethernet("33:33:00:00:00:01", mac, rawnet.ETH_IP6, packet))
    peer.none(0.1)


OPTIONS = {
    "pad1": bytes(6),
    "padn": b"\1\4\0\0\0\0",
    "skipped when unknown": b"\x1e\4abcd",
    "router alert": b"\5\2\0\0\1\0",
}


@pytest.mark.parametrize("header", [0, 60], ids=["hop by hop", "destination"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_options_are_accepted(lan, header, options):  # noqa: F811
    syn_in(
        lan,
        lambda src, segment: rawnet.ip6(
            src, TARGET6, header, struct.pack("!BB", IP_TCP, 0) + options + segment
        ),
    ).expect("SA")


@pytest.mark.parametrize("kind, answered", [(0x5E, False), (0x9E, True), (0xDE, True)])
def test_options_that_reject_unknown_types(lan, kind, answered):  # noqa: F811
    """RFC 8200 4.2: dropped, and except for the first kind a parameter problem tells where."""
    peer = lan.peer(6)  # noqa: F811
    extension = struct.pack("!BBBB", IP_TCP, 0, kind, 4) + bytes(4)
    packet = rawnet.ip6(peer.src, TARGET6, 60, extension + peer.segment("S"))
    lan.send_ip(packet, peer.src)
    peer.none(0.1)
    reply = lan.packet(peer.src, IP_ICMP6, 0.2 if not answered else 5)
    if answered:
        assert reply.payload[:2] == b"\4\2" and struct.unpack("!I", reply.payload[4:8])[0] == 42
        assert reply.payload[8:56] == packet[:48]
    else:
        assert reply is None


def test_unknown_next_header(lan):  # noqa: F811
    host = lan.host(6)
    lan.send_ip(rawnet.ip6(host, TARGET6, 253, bytes(8)), host)
    reply = lan.packet(host, IP_ICMP6)
    assert reply.payload[:2] == b"\4\1" and struct.unpack("!I", reply.payload[4:8])[0] == 6


@pytest.mark.parametrize("chain", range(1, 30, 7))
def test_long_chains_of_headers(lan, chain):  # noqa: F811
    """Whether it is answered or not, the server still serves."""

    def packet(src, segment):
        headers = b"".join(
            struct.pack("!BB", 60 if number < chain - 1 else IP_TCP, 0) + bytes(6)
            for number in range(chain)
        )
        return rawnet.ip6(src, TARGET6, 60, headers + segment)

    syn_in(lan, packet).forget(0.05)


@pytest.mark.parametrize("header", [0, 43, 44, 51, 60, 59, 135])
def test_header_that_is_cut_off(lan, header):  # noqa: F811
    for length in range(9):
        host = lan.host(6)
        lan.send_ip(rawnet.ip6(host, TARGET6, header, b"\6\x20abcdef"[:length]), host)
    lan.settle(0.02)
    lan.other.clear()


# ---- fragments --------------------------------------------------------------------------------

FRAGMENT_REQUEST = b"get " + b"x" * 100 + b"\r\n"
LENGTH = 20 + len(FRAGMENT_REQUEST)
WHOLE = {
    "in order": [(0, 48), (48, 96), (96, LENGTH)],
    "backwards": [(96, LENGTH), (48, 96), (0, 48)],
    "one that is all": [(0, LENGTH)],
}


@pytest.mark.parametrize("cuts", WHOLE.values(), ids=WHOLE.keys())
def test_fragments_are_put_together(peer, cuts):
    payload = peer.segment("PA", FRAGMENT_REQUEST)
    for packet in rawnet.fragments6(peer.src, TARGET6, IP_TCP, payload, cuts, 7):
        peer.lan.send_ip(packet, peer.src)
    peer.snd += len(FRAGMENT_REQUEST)
    assert peer.read(len(MISS)) == MISS


@pytest.mark.parametrize("overlap", [(40, 96), (8, 56), (88, 104)], ids=str)
def test_overlapping_fragments_are_dropped(peer, overlap):
    """RFC 5722: all of the packet goes."""
    payload = peer.segment("PA", FRAGMENT_REQUEST)
    cuts = [(0, 48), overlap, (48, 96), (96, LENGTH)]
    for packet in rawnet.fragments6(peer.src, TARGET6, IP_TCP, payload, cuts, 8):
        peer.lan.send_ip(packet, peer.src)
    peer.none()
    peer.alive()


def test_incomplete_fragments_are_nothing(peer):
    payload = peer.segment("PA", FRAGMENT_REQUEST)
    for packet in rawnet.fragments6(peer.src, TARGET6, IP_TCP, payload, [(0, 48), (96, LENGTH)], 9):
        peer.lan.send_ip(packet, peer.src)
    peer.none()
    peer.alive()


# ---- ICMPv6 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 56, 1000, 1452])
def test_echo(lan, size):  # noqa: F811
    host = lan.host(6)
    echo = rawnet.icmp(128, 0, 0xABCD0007, bytes(at & 255 for at in range(size)), host, TARGET6)
    lan.send_ip(rawnet.ip6(host, TARGET6, IP_ICMP6, echo), host)
    reply = lan.packet(host, IP_ICMP6)
    assert reply.payload[:2] == b"\x81\0" and reply.payload[4:] == echo[4:]
    pseudo = rawnet.pseudo_header(TARGET6, host, IP_ICMP6, len(reply.payload))
    assert rawnet.checksum(pseudo + reply.payload) == 0


def test_echo_with_a_wrong_checksum(lan):  # noqa: F811
    host = lan.host(6)
    echo = rawnet.icmp(128, 0, 1, b"x", host, TARGET6, csum=0x1234)
    lan.send_ip(rawnet.ip6(host, TARGET6, IP_ICMP6, echo), host)
    assert lan.packet(host, IP_ICMP6, 0.1) is None


@pytest.mark.parametrize("kind", [0, 5, 100, 127, 130, 133, 137, 200, 255])
def test_other_messages_are_ignored(lan, kind):  # noqa: F811
    host = lan.host(6)
    message = rawnet.icmp(kind, 0, 1, bytes(48), host, TARGET6)
    lan.send_ip(rawnet.ip6(host, TARGET6, IP_ICMP6, message, ttl=255), host)
    lan.settle(0.02)
    lan.other.clear()


def packet_too_big(peer, mtu, seq=None):
    """From the peer, about a segment that the target has sent."""
    sent = rawnet.tcp(
        TARGET6,
        peer.src,
        peer.dport,
        peer.sport,
        peer.rcv if seq is None else seq,
        peer.snd,
        rawnet.ACK,
        bytes(1000),
    )
    quoted = rawnet.ip6(TARGET6, peer.src, IP_TCP, sent)
    message = rawnet.icmp(2, 0, mtu, quoted[:200], peer.src, TARGET6)
    peer.lan.send_ip(rawnet.ip6(peer.src, TARGET6, IP_ICMP6, message), peer.src)


def test_udp_to_a_closed_port(lan):  # noqa: F811
    host = lan.host(6)
    packet = rawnet.ip6(host, TARGET6, IP_UDP, rawnet.udp(host, TARGET6, 5000, 9, b"hello"))
    lan.send_ip(packet, host)
    reply = lan.packet(host, IP_ICMP6)
    assert reply.payload[:2] == b"\1\4" and reply.payload[8:] == packet


def test_udp_without_a_checksum_is_illegal(lan):  # noqa: F811
    host = lan.host(6)
    segment = rawnet.udp(host, TARGET6, 5000, 9, b"hello", csum=0)
    lan.send_ip(rawnet.ip6(host, TARGET6, IP_UDP, segment), host)
    assert lan.packet(host, IP_ICMP6, 0.1) is None


# ---- neighbour discovery ----------------------------------------------------------------------


def solicit(lan, host, wanted=TARGET6, ttl=255, dst=None, csum=None, cut=None):  # noqa: F811
    """A neighbour solicitation; returns the advertisement that comes back to the host, or None."""
    mac = lan.macs[host]
    body = rawnet.packed(wanted) + b"\1\1" + rawnet.mac_bytes(mac)
    dst = dst or "ff02::1:ff00:" + wanted.rpartition(":")[2]
    message = rawnet.icmp(135, 0, 0, body[:cut], host, dst, csum=csum)
    packet = rawnet.ip6(host, dst, IP_ICMP6, message, ttl=ttl)
    to = solicited_node(wanted) if dst.startswith("ff") else lan.target_mac()
    lan.link.send(rawnet.ethernet(to, mac, rawnet.ETH_IP6, packet))
    end = time.monotonic() + 0.3
    while (left := end - time.monotonic()) > 0:
        packet = lan.packet(host, IP_ICMP6, left)
        if packet is not None and packet.payload[0] == 136:
            return packet
    return None


def test_solicitation_is_answered(lan):  # noqa: F811
    host = lan.host(6)
    answer = solicit(lan, host)
    assert answer.ttl == 255 and answer.src == TARGET6
    assert answer.payload[8:24] == rawnet.packed(TARGET6)
    assert struct.unpack("!I", answer.payload[4:8])[0] >> 29 & 3 == 3, "solicited, override"
    assert answer.payload[24:32] == b"\2\1" + rawnet.mac_bytes(lan.target_mac())


def test_solicitation_to_the_address_itself(lan):  # noqa: F811
    """A known neighbour probes whether the target is reachable."""
    host = lan.host(6)
    assert solicit(lan, host)
    assert solicit(lan, host, dst=TARGET6) is not None


def test_solicitation_for_another_address(lan):  # noqa: F811
    assert solicit(lan, lan.host(6), wanted="fd00:100::21") is None


@pytest.mark.parametrize(
    "wrong", [{"ttl": 254}, {"ttl": 1}, {"csum": 0x1234}, {"cut": 15}], ids=str
)
def test_bad_solicitation(lan, wrong):  # noqa: F811
    """RFC 4861 7.1.1: a hop limit below 255 was not sent by a neighbour."""
    assert solicit(lan, lan.host(6), **wrong) is None


def test_peer_that_moves_is_followed(peer):
    peer.alive()
    lan = peer.lan  # noqa: F811
    lan.macs[peer.src] = "02:00:5e:66:66:66"
    body = rawnet.packed(peer.src) + b"\2\1" + rawnet.mac_bytes(lan.macs[peer.src])
    advert = rawnet.icmp(136, 0, 0x20000000, body, peer.src, ALL_NODES)
    packet = rawnet.ip6(peer.src, ALL_NODES, IP_ICMP6, advert, ttl=255)
    mac = lan.macs[peer.src]
    lan.link.send(rawnet.ethernet("33:33:00:00:00:01", mac, rawnet.ETH_IP6, packet))
    lan.settle(0.02)
    peer.send("PA", REQUEST)
    assert peer.data().dst_mac == mac
    peer.send("A")


def test_packet_too_big_with_a_random_number_is_ignored(peer):
    peer.send("PA", storage(b"set", b"big6", VALUE)[:1200])
    for offset in (-100_000, 100_000, 1 << 30):
        packet_too_big(peer, 1280, seq=peer.rcv + offset)
    peer.forget(0.05)
