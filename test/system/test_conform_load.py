# SPDX-License-Identifier: BSD-3-Clause
"""Many simulated peers, and random packets: the server still serves."""

import random
import struct
import time

import pytest
import rawnet
from conform import lan, peer, target  # noqa: F401
from rawnet import IP_ICMP, IP_TCP, IP_UDP
from rawpeer import TARGET4
from wire import MISS, STORED, hit, settles, storage, wire_to

SERVER_ARGS = ("-c", "10000", "-m", "100")
VALUE = random.Random(3).randbytes(100_000)


# ---- half open --------------------------------------------------------------------------------


ALL = {"scale": 7, "sack_ok": True, "ts": (77, 0)}


@pytest.mark.parametrize("options", [{}, ALL], ids=["plain", "all"])
def test_many_half_open_connections(lan, options):  # noqa: F811
    """Far more SYNs than any backlog, from many addresses: complete handshakes still connect."""
    hosts = [lan.host() for _ in range(40)]
    peers = []
    for number in range(6000):
        peer = lan.peer(host=hosts[number % 40])  # noqa: F811
        peer.sport = 1024 + number
        peers.append(peer)
        peer.send("S", opts=rawnet.options(mss=1400, **options))
        if number % 50 == 0:
            lan.settle(0.001)
    lan.serves()
    answered = [peer for peer in peers if lan.tcp[peer.src, peer.sport]]
    assert len(answered) > 5000, f"only {len(answered)} SYNs were answered"
    for peer in answered[-1:5000:-100]:  # those far beyond the backlog complete the handshake
        answer = peer.recv()
        peer.rcv = answer.seq + 1
        if answer.ts:
            peer.ts = (77 - int(time.monotonic() * 1000) + 5, answer.ts[0])
        lan.tcp[peer.src, peer.sport].clear()  # the SYN-ACK may have come more than once
        peer.send("PA", b"get none\r\n")
        assert peer.read(len(MISS)) == MISS
        peer.reset()
    for peer in peers:
        lan.tcp.pop((peer.src, peer.sport), None)
    lan.serves()


def test_acks_out_of_nowhere(lan):  # noqa: F811
    """A flood of ACKs that guess at SYN cookies opens nothing."""
    host = lan.host()
    for number in range(3000):
        peer = lan.peer(host=host)  # noqa: F811
        peer.sport = 2000 + number
        peer.send("A", ack=lan.rng.getrandbits(32))
        if number % 50 == 0:
            lan.settle(0.001)
    lan.catch_up()
    for number in range(3000):
        for segment in lan.tcp.pop((host, 2000 + number), ()):
            assert segment.letters == "R", segment
    lan.serves()


# ---- idle, slow, silent -----------------------------------------------------------------------


def test_many_idle_connections(lan, target):  # noqa: F811
    """Three thousand idle connections stay open, and other clients are served."""
    peers = []
    for number in range(3000):
        peer = lan.peer(host=None if number % 100 == 0 else peers[-1].src)  # noqa: F811
        peer.sport = 3000 + number
        peer.open()
        peers.append(peer)
    lan.serves()
    with wire_to(target) as wire:
        for _ in range(200):
            wire.say(b"get none\r\n", MISS)
        assert int(wire.stats()["curr_connections"]) >= 3000
    for peer in peers[::97]:
        peer.alive()
    for peer in peers:
        peer.reset()
    with wire_to(target) as wire:
        assert settles(lambda: int(wire.stats()["curr_connections"]) < 10)


def test_many_peers_that_never_read(lan, target):  # noqa: F811
    """Each asks for 100 KB and closes its window; the others are served meanwhile."""
    with wire_to(target) as wire:
        wire.say(storage(b"set", b"big", VALUE), STORED)
        peers = []
        for _ in range(300):
            peer = lan.peer()  # noqa: F811
            peer.open()
            peer.send("PA", b"get big\r\n" * 20, window=0)
            peers.append(peer)
        lan.settle(0.2)
        for _ in range(20):
            wire.say(b"get big\r\n", hit(b"big", VALUE) + MISS)
        for peer in peers:
            lan.tcp[peer.src, peer.sport].clear()
            peer.reset()
        assert settles(lambda: int(wire.stats()["curr_connections"]) < 10)


def test_many_peers_that_stop_sending(lan, target):  # noqa: F811
    """Half a request each, and nothing more."""
    peers = []
    for number in range(500):
        peer = lan.peer()  # noqa: F811
        peer.open()
        peer.send("PA", b"set k%d 0 0 1000\r\nhalf" % number)
        peers.append(peer)
    lan.serves()
    for peer in peers:
        peer.forget()
        peer.reset()


def test_out_of_order_bytes_without_end(lan):  # noqa: F811
    """Every second byte of a whole window, on many connections: memory is bounded."""
    for _ in range(20):
        peer = lan.peer()  # noqa: F811
        peer.open(sack_ok=True)
        for offset in range(1, 1000, 2):
            peer.send("A", b"x", seq=peer.snd + offset)
        lan.catch_up()
        peer.forget()
        peer.reset()
    lan.serves()


def test_connections_come_and_go(lan):  # noqa: F811
    for number in range(1000):
        peer = lan.peer()  # noqa: F811
        peer.open()
        if number % 3 == 0:
            peer.alive()
        peer.reset()
    lan.serves()


# ---- noise ------------------------------------------------------------------------------------


def seeds_of_frames(lan, peer):  # noqa: F811
    """Valid frames of all kinds, to be bent."""
    mac, src = lan.macs[peer.src], peer.src
    tcp_ack = peer.segment("PA", b"get none\r\n")
    opts = rawnet.options(mss=1460, scale=7, sack_ok=True, ts=(1, 0))
    packets = [
        rawnet.ip4(src, TARGET4, IP_TCP, peer.segment("S", opts=opts)),
        rawnet.ip4(src, TARGET4, IP_TCP, tcp_ack),
        rawnet.ip4(src, TARGET4, IP_TCP, peer.segment("A", opts=rawnet.options(sack=[(1, 2)]))),
        rawnet.ip4(src, TARGET4, IP_TCP, peer.segment("FA")),
        rawnet.ip4(src, TARGET4, IP_TCP, peer.segment("R")),
        rawnet.ip4(src, TARGET4, IP_TCP, tcp_ack, options=b"\7\4\0\0"),
        rawnet.ip4(src, TARGET4, IP_TCP, tcp_ack[:16], ident=5, fragment=0x2000),
        rawnet.ip4(src, TARGET4, IP_TCP, tcp_ack[16:], ident=5, fragment=2),
        rawnet.ip4(src, TARGET4, IP_ICMP, rawnet.icmp(8, 0, 7, b"ping")),
        rawnet.ip4(src, TARGET4, IP_ICMP, rawnet.icmp(3, 4, 1000, bytes(40))),
        rawnet.ip4(src, TARGET4, IP_UDP, rawnet.udp(src, TARGET4, 5, 11211, b"get x\r\n")),
    ]
    frames = [rawnet.ethernet(lan.target_mac(), mac, rawnet.ETH_IP4, packet) for packet in packets]
    arp = rawnet.arp(1, mac, src, "00:00:00:00:00:00", TARGET4)
    frames.append(rawnet.ethernet("ff:ff:ff:ff:ff:ff", mac, rawnet.ETH_ARP, arp))
    frames.append(rawnet.ethernet(lan.target_mac(), mac, rawnet.ETH_ARP, arp))
    return frames


def mend(frame):
    """Makes the checksums of a bent frame right again, as far as it can still be read."""
    if len(frame) < 34 or frame[12:14] != b"\x08\0" or frame[14] >> 4 != 4:
        return frame
    ihl = (frame[14] & 15) * 4
    if ihl < 20 or len(frame) < 14 + ihl:
        return frame
    header = bytearray(frame[14 : 14 + ihl])
    header[10:12] = b"\0\0"
    header[10:12] = struct.pack("!H", rawnet.checksum(bytes(header)))
    payload = bytearray(frame[14 + ihl :])
    if frame[23] == IP_TCP and len(payload) >= 18:
        payload[16:18] = b"\0\0"
        pseudo = bytes(header[12:20]) + struct.pack("!BBH", 0, IP_TCP, len(payload))
        payload[16:18] = struct.pack("!H", rawnet.checksum(pseudo + bytes(payload)))
    elif frame[23] == IP_ICMP and len(payload) >= 4:
        payload[2:4] = b"\0\0"
        payload[2:4] = struct.pack("!H", rawnet.checksum(bytes(payload)))
    return frame[:14] + bytes(header) + bytes(payload)


def mutate_frame(rng, frame):
    """Changes, cuts, lengthens or repeats parts of a frame."""
    frame = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        kind = rng.randrange(6)
        at = rng.randrange(12, len(frame)) if len(frame) > 12 else 0
        if kind == 0 and frame:
            frame[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and frame:
            frame[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            del frame[max(at, 14) :]
        elif kind == 3:
            frame[at:at] = rng.randbytes(rng.randint(1, 40))
        elif kind == 4:
            frame += rng.randbytes(rng.randint(1, 200))
        elif len(frame) > 54:
            frame[34:54] = rng.randbytes(20)
    return bytes(frame[:1514])


@pytest.mark.parametrize("seed", range(4))
def test_bent_frames(lan, target, seed):  # noqa: F811
    """5000 valid frames with random changes."""
    rng = random.Random(seed)
    peer = lan.peer()  # noqa: F811
    peer.open(sack_ok=True)
    frames = seeds_of_frames(lan, peer)
    for number in range(5000):
        frame = mutate_frame(rng, rng.choice(frames))
        frame = mend(frame) if rng.random() < 0.7 else frame
        if len(frame) >= 14:
            lan.link.send(frame)
        if number % 20 == 0:
            while lan.link.recv(0) is not None:
                pass
    lan.serves()
    assert target.running()


@pytest.mark.parametrize("seed", range(4))
def test_random_segments_on_open_connections(lan, target, seed):  # noqa: F811
    """Valid checksums, everything else at random but near to what fits."""
    rng = random.Random(100 + seed)
    for _ in range(20):
        peer = lan.peer()  # noqa: F811
        sack_ok, ts = rng.random() < 0.5, rng.random() < 0.5
        peer.open(sack_ok=sack_ok, ts=ts, scale=rng.choice((None, 0, 14)))
        for _ in range(150):
            seq = peer.snd + rng.choice((0, 0, 0, 1, -1, 5, 1000, 65535, -70000, 1 << 31))
            ack = peer.rcv + rng.choice((0, 0, 0, 1, -1, 100, 1 << 20, 1 << 31))
            sack = [(ack + rng.randint(-50, 5000), ack + 5000)] * rng.randint(0, 3)
            stamp = (rng.getrandbits(32), rng.getrandbits(32)) if rng.random() < 0.2 else None
            letters = "".join(rng.sample("FSRPAUEW", rng.randint(0, 3))) + rng.choice(("A", ""))
            data = rng.choice((b"", b"", b"get none\r\n", b"get small\r\n" * 3, b"x", b"quit\r\n"))
            opts = rawnet.options(ts=stamp, sack=sack) if rng.random() < 0.5 else None
            window = rng.choice((0, 1, 100, 65535))
            letters = "".join(sorted(set(letters)))
            peer.send(letters, data, seq=seq, ack=ack, window=window, opts=opts)
        lan.catch_up()
        lan.tcp.clear()
        peer.reset()
    lan.serves()
    assert target.running()
