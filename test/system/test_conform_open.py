# SPDX-License-Identifier: BSD-3-Clause
"""Handshakes from crafted packets: SYNs and options of all kinds, ports that are closed."""

import time

import pytest
import rawnet
from conform import lan, peer, target  # noqa: F401
from rawpeer import TARGET4
from wire import STORED, hit, storage

MISS = b"END\r\n"
VALUE = bytes(range(33, 123)) * 111  # 9990 bytes without line ends


def put(peer, key, value):
    """Stores a value by segments that any MTU takes."""
    request = storage(b"set", key, value)
    for at in range(0, len(request), 1000):
        peer.send("PA", request[at : at + 1000])
    got = peer.read(len(STORED))
    assert got == STORED, got


def sizes_of_a_reply(lan, **options):
    """Segment sizes in which a connection opened like this gets 9990 bytes; all must be right."""
    first = lan.peer()
    first.open()
    put(first, b"v", VALUE)
    first.reset()
    peer = lan.peer()
    peer.open(**options)
    peer.send("PA", b"get v\r\n")
    expected = hit(b"v", VALUE) + MISS
    got, sizes = b"", []
    while len(got) < len(expected):
        segment = peer.recv()
        if segment.seq == peer.rcv and segment.data:
            sizes.append(len(segment.data))
            got += peer.take(segment)
        peer.send("A")
    assert got == expected
    peer.reset()
    return sizes


# ---- the handshake ----------------------------------------------------------------------------


def test_syn_without_options_gets_no_option_but_the_mss(lan):
    peer = lan.peer()
    peer.send("S")
    answer = peer.expect("SA", ack=peer.snd, data=b"")
    assert answer.kinds in ((rawnet.MSS,), ()), answer
    assert answer.mss in (None, 1460)
    assert answer.window > 0
    peer.rcv = answer.seq + 1
    peer.send("A")
    peer.alive()
    peer.reset()


def test_all_options_are_answered(lan):
    peer = lan.peer()
    answer = peer.open(scale=7, sack_ok=True, ts=True)
    assert set(answer.kinds) == {rawnet.MSS, rawnet.SCALE, rawnet.SACK_PERMITTED, rawnet.TIMESTAMPS}
    assert answer.mss == 1460 and answer.scale <= 14
    peer.alive()
    peer.reset()


@pytest.mark.parametrize(
    "offer, kind",
    [
        ({"scale": 3}, rawnet.SCALE),
        ({"sack_ok": True}, rawnet.SACK_PERMITTED),
        ({"ts": True}, rawnet.TIMESTAMPS),
    ],
    ids=["scale", "sack", "timestamps"],
)
def test_one_option_is_answered_alone(lan, offer, kind):
    peer = lan.peer()
    answer = peer.open(**offer)
    assert set(answer.kinds) == {rawnet.MSS, kind}
    peer.alive()
    peer.reset()


def test_syn_ack_echoes_the_timestamp(lan):
    peer = lan.peer()
    peer.send("S", opts=rawnet.options(mss=1460, ts=(0xDEADBEEF, 0x12345678)))
    assert peer.expect("SA").ts[1] == 0xDEADBEEF


def test_initial_sequence_numbers_differ(lan):
    numbers = set()
    for _ in range(20):
        peer = lan.peer()
        numbers.add(peer.open().seq)
        peer.reset()
    assert len(numbers) == 20
    ordered = sorted(numbers)
    assert max(b - a for a, b in zip(ordered, ordered[1:])) > 1 << 24, "they stand side by side"


def test_timestamps_of_connections_start_at_different_values(lan):
    values = []
    for _ in range(8):
        peer = lan.peer()
        values.append(peer.open(ts=True).ts[0])
        peer.reset()
    assert max(values) - min(values) > 1 << 20


def test_data_with_the_last_ack_of_the_handshake(lan):
    peer = lan.peer()
    peer.open(ack_with=b"get none\r\n")
    assert peer.read(5) == MISS
    peer.reset()


def test_data_without_the_last_ack_of_the_handshake(lan):
    """The ACK got lost; the first data carries it."""
    peer = lan.peer()
    peer.send("S")
    peer.rcv = peer.expect("SA").seq + 1
    peer.send("PA", b"get none\r\n")
    assert peer.read(5) == MISS
    peer.reset()


def test_fin_with_the_last_ack_of_the_handshake(lan):
    peer = lan.peer()
    peer.send("S")
    peer.rcv = peer.expect("SA").seq + 1
    peer.send("FA")
    segment = peer.recv()
    if not segment.flags & rawnet.FIN:
        assert segment.ack == peer.snd
        segment = peer.expect("FA")
    peer.take(segment)
    peer.send("A")
    peer.dead()


def test_data_in_the_syn_is_not_acknowledged_before_it_comes_again(lan):
    peer = lan.peer()
    peer.send("S", b"get none\r\n")
    start = peer.iss + 1
    peer.rcv = peer.expect("SA", ack=start & 0xFFFFFFFF).seq + 1
    peer.snd = start & 0xFFFFFFFF
    peer.send("PA", b"get none\r\n")
    assert peer.read(5) == MISS
    peer.reset()


@pytest.mark.parametrize("flags", ["SF", "SR", "SFR", "SFA", "SRA", "FSRPAUEW"])
def test_syn_with_fin_or_rst_opens_nothing(lan, flags):
    peer = lan.peer()
    peer.send(flags)
    try:
        answer = peer.recv(0.15)
    except AssertionError:
        pass
    else:
        assert answer.flags & rawnet.RST and not answer.flags & rawnet.SYN, answer
        assert "R" not in flags, f"a reset for a reset: {answer}"
    peer.rcv = 1
    peer.dead()


@pytest.mark.parametrize("extra", ["P", "U", "PU", "EW", "E", "W"])
def test_syn_with_flags_that_do_not_matter(lan, extra):
    peer = lan.peer()
    peer.send("S" + extra)
    answer = peer.expect("SA|SAE", ack=peer.snd)
    peer.rcv = answer.seq + 1
    peer.send("A")
    peer.alive()
    peer.reset()


def test_syn_again_before_the_handshake_ends(lan):
    peer = lan.peer()
    peer.send("S", opts=rawnet.options(mss=1000))
    first = peer.expect("SA", ack=peer.snd)
    peer.send("S", seq=peer.iss, opts=rawnet.options(mss=1000))
    again = peer.expect("SA", ack=peer.snd)
    assert again.seq == first.seq
    peer.rcv = first.seq + 1
    peer.send("A")
    peer.alive()
    peer.reset()


def test_other_syn_before_the_handshake_ends(lan):
    """It has no effect; the handshake can be completed."""
    peer = lan.peer()
    peer.send("S")
    first = peer.expect("SA", ack=peer.snd)
    peer.send("S", seq=peer.iss - 1_000_000)
    try:
        answer = peer.recv(0.3)
        assert not answer.flags & rawnet.RST and answer.ack == peer.snd, answer
    except AssertionError as silence:
        if "no segment" not in str(silence):
            raise
    peer.rcv = first.seq + 1
    peer.send("A")
    peer.alive()
    peer.reset()


@pytest.mark.parametrize("wrong", [-1, 1, 1000, 1 << 31, -(1 << 30)])
def test_wrong_ack_in_syn_received(lan, wrong):
    """RFC 9293 3.10.7.4: it gets a RST, the data in it is not taken, the right one still counts."""
    peer = lan.peer()
    peer.send("S")
    first = peer.expect("SA", ack=peer.snd)
    bad = (first.seq + 1 + wrong) & 0xFFFFFFFF
    peer.send("PA", b"get none\r\n", seq=peer.snd, ack=bad)
    answer = peer.expect("R", seq=bad)
    assert answer.data == b""
    peer.rcv = first.seq + 1
    peer.send("A")
    peer.alive()
    peer.reset()


def test_reset_in_syn_received(lan):
    peer = lan.peer()
    peer.send("S")
    first = peer.expect("SA")
    peer.send("R")
    peer.rcv = first.seq + 1
    peer.dead()


def test_reset_outside_the_window_in_syn_received(lan):
    peer = lan.peer()
    peer.send("S")
    first = peer.expect("SA")
    peer.send("R", seq=peer.snd - 1)
    peer.send("R", seq=peer.snd + (1 << 30))
    peer.rcv = first.seq + 1
    peer.forget(0.05)
    peer.send("A")
    peer.alive()
    peer.reset()


def test_syn_ack_is_retransmitted_after_a_second(lan):
    """And then after two more. test/packet has the exact times, on a virtual clock."""
    peer = lan.peer()
    begin = time.monotonic()
    peer.send("S")
    first = peer.expect("SA")
    again = peer.expect("SA", timeout=60)
    assert time.monotonic() - begin > 0.8
    third = peer.expect("SA", timeout=60)
    assert time.monotonic() - begin > 2.5
    assert first.seq == again.seq == third.seq and first.ack == again.ack == third.ack
    peer.rcv = first.seq + 1
    peer.send("A")
    peer.alive()
    peer.reset()


# ---- options that are wrong -------------------------------------------------------------------

ODD_OPTIONS = {
    "length 0": "0200",
    "length 1": "0201",
    "length 255": "02ff05b4",
    "unknown with length 0": "fd00",
    "kind without a length": "01010102",
    "beyond the header": "0101010208",
    "end at once": "00ffffff",
    "forty nops": "01" * 40,
    "forty ends": "00" * 40,
    "forty unknown": "fd02" * 20,
    "long unknown": "fe28" + "aa" * 38,
    "mss of 3 bytes": "020305",
    "mss of 5 bytes": "0205010203",
    "mss twice": "020405b402040218",
    "scale of 2 bytes": "0302",
    "scale of 4 bytes": "03040707",
    "scale twice": "030307030302",
    "sack permitted of 3 bytes": "040300",
    "sack permitted twice": "04020402",
    "timestamps of 8 bytes": "08080000000100000000",
    "timestamps of 11 bytes": "080b000000010000000000",
    "timestamps cut off": "0101080a0000",
    "sack in a SYN": "050a0000000100000002",
    "sack of odd length": "05050000aa",
    "fast open request": "2202",
    "user timeout": "1c040001",
    "everything after an end": "0001020405b40303070402",
}


@pytest.mark.parametrize("opts", ODD_OPTIONS.values(), ids=ODD_OPTIONS.keys())
def test_odd_options_in_a_syn(lan, opts):
    peer = lan.peer()
    raw = bytes.fromhex(opts)
    peer.send("S", opts=raw[:40] + b"\0" * (-len(raw) % 4))
    answer = peer.expect("SA", ack=peer.snd)
    assert answer.mss in (None, 1460)
    peer.rcv = answer.seq + 1
    peer.send("A", opts=peer.ts_option() if answer.ts is None else rawnet.options(ts=(1, 0)))
    if answer.ts is None:
        peer.alive()
        peer.reset()


@pytest.mark.parametrize("opts", ODD_OPTIONS.values(), ids=ODD_OPTIONS.keys())
def test_odd_options_in_data(peer, opts):
    raw = bytes.fromhex(opts)
    peer.send("PA", b"get none\r\n", opts=raw[:40] + b"\0" * (-len(raw) % 4))
    assert peer.read(5) == MISS


# ---- headers that are wrong -------------------------------------------------------------------


@pytest.mark.parametrize("doff", [0, 1, 4, 6, 15])
def test_syn_with_a_wrong_data_offset(lan, doff):
    peer = lan.peer()
    peer.send("S", doff=doff)
    peer.none()


@pytest.mark.parametrize("length", range(0, 20, 3))
def test_segment_shorter_than_a_header(lan, length):
    peer = lan.peer()
    packet = peer.segment("S")[:length]
    lan.send_ip(rawnet.ip4(peer.src, TARGET4, rawnet.IP_TCP, packet), peer.src)
    peer.none(0.05)


@pytest.mark.parametrize(
    "wrong", [{"csum": 0}, {"csum": 0xFFFF}, {"csum_xor": 1}, {"csum_xor": 0x8000}]
)
def test_syn_with_a_wrong_checksum(lan, wrong):
    peer = lan.peer()
    peer.send("S", **wrong)
    peer.none()


def test_reserved_bits_are_ignored(lan):
    peer = lan.peer()
    segment = bytearray(peer.segment("S"))
    segment[12] |= 0x0E
    segment[16:18] = b"\0\0"
    pseudo = rawnet.pseudo_header(peer.src, TARGET4, rawnet.IP_TCP, len(segment))
    segment[16:18] = rawnet.checksum(pseudo + bytes(segment)).to_bytes(2, "big")
    lan.send_ip(rawnet.ip4(peer.src, TARGET4, rawnet.IP_TCP, bytes(segment)), peer.src)
    peer.snd += 1
    peer.expect("SA", ack=peer.snd & 0xFFFFFFFF)


# ---- windows and sizes ------------------------------------------------------------------------


def test_without_mss_segments_have_536_bytes(lan):
    assert max(sizes_of_a_reply(lan, mss=None)) == 536


def test_mss_zero_is_none(lan):
    assert max(sizes_of_a_reply(lan, mss=0)) <= 536


@pytest.mark.parametrize("mss", [1459, 1000, 537, 200, 88, 64, 50, 48])
def test_mss_limits_segments(lan, mss):
    assert max(sizes_of_a_reply(lan, mss=mss)) == mss


@pytest.mark.parametrize("mss", [1, 2, 8, 20, 40, 47])
def test_silly_mss(lan, mss):
    """Values below 48 bytes count as 48, as in the kernel, and the connection is served."""
    assert max(sizes_of_a_reply(lan, mss=mss)) <= 48


@pytest.mark.parametrize("mss", [100, 64, 48, 1])
def test_small_mss_counts_the_timestamps(lan, mss):
    assert max(sizes_of_a_reply(lan, mss=mss, ts=True)) <= max(mss, 48) - 12


@pytest.mark.parametrize("mss", [1461, 9000, 65535])
def test_mss_above_the_mtu(lan, mss):
    assert max(sizes_of_a_reply(lan, mss=mss)) == 1460


def test_window_of_the_syn_is_not_scaled(lan):
    """It has scale 14 beside it, and the ACK of the handshake opens nothing."""
    first = lan.peer()
    first.open()
    put(first, b"v", VALUE)
    first.reset()
    peer = lan.peer()
    peer.window = 0
    peer.send("S", window=2000, opts=rawnet.options(mss=1000, scale=14))
    peer.rcv = peer.expect("SA").seq + 1
    peer.send("PA", b"get v\r\n", window=0)
    answer = peer.expect("A")
    assert len(answer.data) <= 1, "data into a closed window"
    peer.reset()


@pytest.mark.parametrize("scale, shift", [(0, 0), (1, 1), (7, 7), (14, 14), (15, 14), (255, 14)])
def test_window_scale(lan, scale, shift):
    """The window is what the scale makes of it; more than 14 counts as 14 (RFC 7323 2.3)."""
    first = lan.peer()
    first.open()
    put(first, b"v", VALUE)
    first.reset()
    peer = lan.peer()
    peer.window = max(1, 3000 >> shift)
    peer.open(mss=536, scale=scale, window=65535)
    peer.send("PA", b"get v\r\n")
    allowed = peer.window << shift
    assert peer.burst(min(allowed, 5360) - 536) <= allowed
    peer.reset()


# ---- closed ports -----------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"x" * 10])
def test_syn_to_a_closed_port(lan, data):
    """RFC 9293 3.10.7.1: sequence number 0 and an ACK of all that the segment had."""
    peer = lan.peer(port=4)
    peer.send("S", data)
    peer.expect("RA", seq=0, ack=peer.snd, window=0)


@pytest.mark.parametrize("flags", ["A", "PA", "FA", "SA", "UA"])
def test_segment_with_ack_to_a_closed_port(lan, flags):
    peer = lan.peer(port=4)
    peer.rcv = 0x12345678
    peer.send(flags, b"hello")
    peer.expect("R", seq=0x12345678)


@pytest.mark.parametrize("flags, space", [("F", 1), ("P", 0), ("", 0), ("U", 0)])
def test_segment_without_ack_to_a_closed_port(lan, flags, space):
    peer = lan.peer(port=4)
    peer.send(flags, b"hello")
    peer.expect("RA", seq=0, ack=(peer.iss + 5 + space) & 0xFFFFFFFF)


@pytest.mark.parametrize("flags", ["R", "RA", "RS", "RF", "RSA"])
@pytest.mark.parametrize("port", [4, 11211])
def test_reset_is_not_answered_by_a_reset(lan, flags, port):
    peer = lan.peer(port=port)
    peer.send(flags)
    peer.none(0.1)


@pytest.mark.parametrize("flags", ["A", "PA", "FA", "SA"])
def test_segment_with_ack_to_a_listening_port(lan, flags):
    peer = lan.peer()
    peer.rcv = 0x12345678
    peer.send(flags, b"get none\r\n")
    peer.expect("R", seq=0x12345678)


@pytest.mark.parametrize("flags", ["", "P", "F", "U"])
def test_segment_without_ack_to_a_listening_port(lan, flags):
    peer = lan.peer()
    peer.send(flags, b"get none\r\n")
    peer.none()


# ---- addresses --------------------------------------------------------------------------------


@pytest.mark.parametrize("src", [TARGET4, "127.0.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1"])
def test_syn_from_an_impossible_address(lan, src):
    host = lan.host()
    segment = rawnet.tcp(src, TARGET4, 11211, 11211, 1, 0, rawnet.SYN)
    lan.send_ip(rawnet.ip4(src, TARGET4, rawnet.IP_TCP, segment), host)
    lan.settle(0.1)
    assert not lan.tcp[src, 11211]


@pytest.mark.parametrize("dst", ["10.100.0.255", "255.255.255.255", "224.0.0.1", "10.100.0.0"])
def test_syn_to_an_address_of_many(lan, dst):
    peer = lan.peer()
    segment = rawnet.tcp(peer.src, dst, peer.sport, 11211, 1, 0, rawnet.SYN)
    lan.send_ip(rawnet.ip4(peer.src, dst, rawnet.IP_TCP, segment), peer.src)
    peer.none(0.1)


@pytest.mark.parametrize("mac", ["ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "02:12:34:56:78:9a"])
def test_syn_in_a_frame_to_many_or_to_another(lan, mac):
    """RFC 1122 3.3.6: what came by a broadcast of the link is not answered."""
    peer = lan.peer()
    packet = rawnet.ip4(peer.src, TARGET4, rawnet.IP_TCP, peer.segment("S"))
    lan.link.send(rawnet.ethernet(mac, lan.macs[peer.src], rawnet.ETH_IP4, packet))
    peer.none(0.1)


def test_many_addresses_and_ports(lan):
    """The same port from other addresses, other ports from the same: all are different."""
    peers = []
    host = lan.host()
    for number in range(30):
        peer = lan.peer(host=host if number % 2 else None)
        peer.sport = 30000 + (number if number % 2 else 0)
        peer.open()
        peers.append(peer)
    for number, peer in enumerate(peers):
        peer.send("PA", b"incr x%d 1\r\n" % number)
    for peer in peers:
        assert peer.read(11) == b"NOT_FOUND\r\n"
        peer.reset()


