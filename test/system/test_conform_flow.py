# SPDX-License-Identifier: BSD-3-Clause
"""SACK, losses, windows and timers of an open connection, from crafted packets."""

import random
import time

import pytest
import rawnet
from conform import lan, peer, target  # noqa: F401
from rawpeer import Silent
from wire import MISS, STORED, hit, storage, wire_to

SMALL = bytes(range(33, 123)) * 111  # 9990 bytes: seven segments
BIG = random.Random(5).randbytes(400_000)
REPLY = hit(b"small", SMALL) + MISS
BIG_REPLY = hit(b"big", BIG) + MISS
WRAP = 1 << 32


@pytest.fixture(scope="module", autouse=True)
def values(target):  # noqa: F811
    with wire_to(target) as wire:
        wire.say(storage(b"set", b"small", SMALL) + storage(b"set", b"big", BIG), STORED * 2)


@pytest.fixture
def sacked(lan):  # noqa: F811
    """An open connection with SACK."""
    connection = lan.peer()
    connection.open(sack_ok=True)
    yield connection
    connection.reset()


def relative(peer, blocks):
    """SACK blocks, counted from our next number on."""
    return [((a - peer.snd) % WRAP, (b - peer.snd) % WRAP) for a, b in blocks]


def piece(peer, first, last):
    """Bytes of the stream from our next number on, without advancing it."""
    peer.send("A", b"x" * (last - first), seq=peer.snd + first)


class Download:
    """Receives and acknowledges a reply, except for the segments that a test drops."""

    def __init__(self, peer, sack=False):
        self.peer, self.sack = peer, sack
        self.start = peer.rcv
        self.data = b""
        self.beyond = {}
        self.highest = 0

    def take(self, segment):
        """Puts a segment in its place."""
        at = (segment.seq - self.start) % WRAP
        if at >= 1 << 31 or not segment.data:
            return
        self.highest = max(self.highest, at + len(segment.data))
        self.beyond[at] = max(segment.data, self.beyond.get(at, b""), key=len)
        for first in sorted(self.beyond):
            if first > len(self.data):
                break
            self.data += self.beyond.pop(first)[len(self.data) - first :]
        self.peer.rcv = (self.start + len(self.data)) % WRAP

    def blocks(self):
        """The data beyond the first gap, as SACK blocks."""
        found = []
        for first in sorted(self.beyond):
            last = first + len(self.beyond[first])
            if found and found[-1][1] >= first:
                found[-1][1] = max(found[-1][1], last)
            else:
                found.append([first, last])
        return [(self.start + a, self.start + b) for a, b in found[:3]]

    def ack(self, **fields):
        opts = rawnet.options(sack=self.blocks()) if self.sack and self.beyond else b""
        self.peer.send("A", opts=self.peer.ts_option() + opts, **fields)

    def run(self, count, drop=lambda segment: False, timeout=60):
        end = time.monotonic() + timeout
        while len(self.data) < count:
            assert time.monotonic() < end, f"only {len(self.data)} of {count} bytes in {timeout} s"
            segment = self.peer.recv(timeout)
            assert "R" not in segment.letters
            if segment.data and not drop(segment):
                self.take(segment)
                self.ack()
        return self.data


# ---- SACK blocks that we get ------------------------------------------------------------------


def test_no_sack_unless_negotiated(peer):
    piece(peer, 10, 20)
    assert peer.expect("A", ack=peer.snd).kinds == ()


def test_sack_of_one_block(sacked):
    piece(sacked, 10, 20)
    answer = sacked.expect("A", ack=sacked.snd)
    assert relative(sacked, answer.sack) == [(10, 20)]
    assert answer.kinds == (rawnet.SACK,)


def test_sack_blocks_come_newest_first(sacked):
    """RFC 2018 section 4, and as many as there is room for."""
    expected = []
    for first in (10, 30, 50, 70, 90):
        piece(sacked, first, first + 5)
        expected.insert(0, (first, first + 5))
        answer = sacked.expect("A", ack=sacked.snd)
        got = relative(sacked, answer.sack)
        assert got[:3] == expected[:3] and len(got) >= min(3, len(expected)), got
        assert set(got) <= set(expected)


def test_three_sack_blocks_with_timestamps(lan):  # noqa: F811
    peer = lan.peer()
    peer.open(sack_ok=True, ts=True)
    for first in (10, 30, 50, 70, 90):
        piece(peer, first, first + 5)
        answer = peer.expect("A", ack=peer.snd)
    assert relative(peer, answer.sack) == [(90, 95), (70, 75), (50, 55)]
    assert answer.ts
    peer.reset()


def test_sack_block_grows_and_comes_first(sacked):
    # One by one: all ACKs of a burst have the SACK blocks of the whole burst.
    for start, end, expected in ((10, 20, [(10, 20)]), (40, 50, [(40, 50), (10, 20)]),
                                 (20, 30, [(10, 30), (40, 50)])):
        piece(sacked, start, end)
        assert relative(sacked, sacked.expect("A").sack) == expected


def test_sack_blocks_join(sacked):
    piece(sacked, 10, 20)
    piece(sacked, 30, 40)
    piece(sacked, 20, 30)
    sacked.expect("A")
    sacked.expect("A")
    assert relative(sacked, sacked.expect("A").sack) == [(10, 40)]


def test_sack_block_goes_when_the_hole_is_filled(sacked):
    piece(sacked, 10, 20)
    piece(sacked, 30, 40)
    sacked.expect("A")
    sacked.expect("A")
    sacked.send("A", b"x" * 10)
    answer = sacked.expect("A", ack=(sacked.snd + 10) % WRAP)  # ten were sent, ten were there
    assert relative(sacked, answer.sack) == [(20, 30)]
    sacked.snd += 10
    sacked.send("A", b"x" * 10)
    sacked.snd += 10
    assert sacked.expect("A", ack=sacked.snd % WRAP).sack == ()


def test_sack_block_covers_a_whole_segment(sacked):
    """Overlapping pieces make one block."""
    for first, last in ((100, 200), (150, 250), (50, 120)):
        piece(sacked, first, last)
    got = [relative(sacked, sacked.expect("A").sack) for _ in range(3)]
    assert got[-1][-1] == (50, 250) or (50, 250) in got[-1]


# ---- D-SACK, RFC 2883 -------------------------------------------------------------------------


def test_dsack_of_a_duplicate(sacked):
    sacked.send("A", b"get ")
    sacked.expect("A", ack=sacked.snd)
    sacked.send("A", b"get ", seq=sacked.snd - 4)
    answer = sacked.expect("A", ack=sacked.snd)
    assert relative(sacked, answer.sack) == [(WRAP - 4, 0)]
    sacked.ask(b"none\r\n", MISS)


def test_dsack_is_sent_once(sacked):
    sacked.send("A", b"get ")
    sacked.expect("A", ack=sacked.snd)
    sacked.send("A", b"get ", seq=sacked.snd - 4)
    assert sacked.expect("A", ack=sacked.snd).sack
    sacked.send("PA", b"none\r\n")
    assert sacked.recv().sack == ()
    sacked.forget(0.05)


def test_dsack_of_a_part(sacked):
    """Four bytes known, four new."""
    sacked.send("A", b"get ")
    sacked.expect("A", ack=sacked.snd)
    sacked.send("A", b"get none", seq=sacked.snd - 4)
    sacked.snd += 4
    answer = sacked.expect("A", ack=sacked.snd)
    assert relative(sacked, answer.sack) == [(WRAP - 8, WRAP - 4)]
    sacked.ask(b"\r\n", MISS)


def test_dsack_of_a_duplicate_out_of_order(sacked):
    """The duplicate first, then the block that it lies in."""
    piece(sacked, 10, 20)
    piece(sacked, 20, 30)
    sacked.expect("A")
    sacked.expect("A")
    piece(sacked, 20, 30)
    answer = sacked.expect("A", ack=sacked.snd)
    assert relative(sacked, answer.sack) == [(20, 30), (10, 30)]


def test_dsack_beside_other_blocks(sacked):
    sacked.send("A", b"get ")
    sacked.expect("A", ack=sacked.snd)
    piece(sacked, 10, 20)
    sacked.expect("A")
    sacked.send("A", b"get ", seq=sacked.snd - 4)
    answer = sacked.expect("A", ack=sacked.snd)
    assert relative(sacked, answer.sack) == [(WRAP - 4, 0), (10, 20)]


def test_no_dsack_unless_negotiated(peer):
    peer.send("A", b"get ")
    peer.expect("A", ack=peer.snd)
    peer.send("A", b"get ", seq=peer.snd - 4)
    assert peer.expect("A", ack=peer.snd).kinds == ()
    peer.ask(b"none\r\n", MISS)


# ---- SACK blocks that we send -----------------------------------------------------------------

BOGUS = {
    "nothing was sent": [(1, 100)],
    "far ahead": [(1 << 30, (1 << 30) + 1000)],
    "inverted": [(3000, 1500)],
    "empty": [(1460, 1460)],
    "all of the space": [(0, WRAP - 1)],
    "half of the space": [(0, 1 << 31)],
    "before the first": [(-5000, -4000)],
    "across the left edge": [(-100, 100)],
    "across the right edge": [(9000, 60000)],
    "the same four times": [(1460, 2920)] * 4,
    "overlapping": [(1460, 4000), (2000, 5000), (1000, 3000), (4999, 5001)],
    "single bytes": [(1461, 1462), (3001, 3002), (4501, 4502), (6001, 6002)],
    "everything": [(0, 10010)],
}


@pytest.mark.parametrize("blocks", BOGUS.values(), ids=BOGUS.keys())
def test_bogus_sack_blocks(sacked, blocks):
    """Wrong SACK blocks do not damage the stream: all data comes after correct ACKs."""
    sacked.send("PA", b"get small\r\n")
    first = sacked.expect("A", seq=sacked.rcv)
    opts = rawnet.options(sack=[(first.seq + a, first.seq + b) for a, b in blocks])
    for _ in range(5):
        sacked.send("A", opts=opts)
    download = Download(sacked, sack=True)
    download.take(first)
    download.ack()
    assert download.run(len(REPLY)) == REPLY
    sacked.alive()


@pytest.mark.parametrize("blocks", BOGUS.values(), ids=BOGUS.keys())
def test_bogus_sack_blocks_on_an_idle_connection(sacked, blocks):
    sacked.alive()
    for _ in range(3):
        moved = [(sacked.rcv + a, sacked.rcv + b) for a, b in blocks]
        sacked.send("A", opts=rawnet.options(sack=moved))
    sacked.none(0.05)
    sacked.alive()


def test_sacked_data_is_not_sent_again(lan):  # noqa: F811
    """One hole: what an ACK has SACKed is not sent again by a segment that echoes its timestamp."""
    peer = lan.peer()
    peer.open(sack_ok=True, ts=True)
    peer.send("PA", b"get small\r\n")
    download = Download(peer, sack=True)
    known = {}  # the SACK blocks of the ACK with a timestamp
    again = None
    while again is None or download.highest < len(REPLY):
        segment = peer.recv()
        sacked_before = known.get(segment.ts[1], ())
        assert not any((segment.seq - a) % WRAP < b - a for a, b in sacked_before), segment
        if segment.seq != download.start:
            download.take(segment)
            peer.ts = (peer.ts[0] + 1, peer.ts[1])  # so that no two ACKs have the same
            now = peer.ts_now()
            known[now] = download.blocks()
            peer.send("A", opts=peer.ts_option(now) + rawnet.options(sack=known[now]))
        elif segment.data and download.highest > 0:
            again = segment
    download.take(again)
    download.ack()
    assert download.run(len(REPLY)) == REPLY
    peer.alive()
    peer.reset()


def test_fast_retransmit_without_sack(peer):
    """RFC 5681 3.2: the third duplicate ACK brings the segment back."""
    peer.send("PA", b"get small\r\n")
    lost = peer.recv()
    if not lost.data:
        lost = peer.recv()
    arrived = 0
    while True:
        segment = peer.recv()
        if segment.seq == lost.seq:
            break
        arrived += 1
        peer.send("A")
    assert arrived >= 3
    download = Download(peer)
    download.take(segment)
    peer.forget()
    download.ack()
    assert download.run(len(REPLY)) == REPLY


@pytest.mark.parametrize("sack_ok", [True, False], ids=["sack", "reno"])
@pytest.mark.parametrize("ts", [True, False], ids=["timestamps", "plain"])
@pytest.mark.parametrize("percent", [2, 10])
def test_download_with_losses(lan, sack_ok, ts, percent):  # noqa: F811
    rng = random.Random(percent)
    peer = lan.peer()
    peer.open(sack_ok=sack_ok, ts=ts, scale=3)
    peer.send("PA", b"get big\r\n")
    download = Download(peer, sack=sack_ok)
    got = download.run(len(BIG_REPLY), lambda segment: rng.random() < percent / 100, timeout=200)
    assert got == BIG_REPLY
    peer.forget(0.01)
    peer.alive()
    peer.reset()


def test_download_with_lost_acks(sacked):
    """Every second ACK is never sent."""
    sacked.send("PA", b"get big\r\n")
    download = Download(sacked, sack=True)
    number = 0
    while len(download.data) < len(BIG_REPLY):
        segment = sacked.recv()
        if segment.data:
            download.take(segment)
            number += 1
            if number % 2 == 0 or len(download.data) == len(BIG_REPLY):
                download.ack()
    assert download.data == BIG_REPLY
    sacked.alive()


# ---- timers -----------------------------------------------------------------------------------


@pytest.mark.long
def test_retransmissions_back_off(peer):
    peer.alive()
    peer.send("PA", b"get none\r\n")
    times, numbers = [], set()
    while len(times) < 5:  # the own stack stops doubling at 4 s
        segment = peer.recv()
        if segment.data:
            times.append(segment.at)
            numbers.add((segment.seq, segment.data))
    assert len(numbers) == 1
    gaps = [b - a for a, b in zip(times, times[1:])]
    assert gaps[-1] > 1.5 * gaps[-2] > 2 * gaps[-3], gaps
    peer.rcv += 5
    peer.send("A")
    peer.alive()


def test_only_missing_segments_are_retransmitted(peer):
    """An ACK within a segment: the rest of it comes again, not all."""
    peer.send("PA", b"get none\r\n")
    first = peer.recv()
    if not first.data:
        first = peer.recv()
    peer.rcv = first.seq + 2
    peer.send("A")
    again = peer.recv()
    while again.seq == first.seq:  # crossed our ACK
        again = peer.recv()
    assert again.seq == first.seq + 2 and again.data == MISS[2:]
    peer.rcv = first.seq + 5
    peer.send("A")
    peer.alive()


def test_acknowledged_data_is_not_retransmitted(peer):
    peer.ask(b"get small\r\n", REPLY)
    peer.send("A", seq=peer.snd - 1)  # a keepalive probe, answered after the data sent before it
    while peer.recv().data:
        pass
    peer.none(0.6)


# ---- the window that we offer -----------------------------------------------------------------


@pytest.mark.parametrize("window", [1460, 1000, 300, 100, 10])
def test_small_window_limits_segments(lan, window):  # noqa: F811
    peer = lan.peer()
    peer.window = window
    peer.open(window=window)
    request = b"get small\r\n" if window >= 100 else b"get none\r\n" * 20
    expected = REPLY if window >= 100 else MISS * 20
    peer.send("PA", request)
    download = Download(peer)
    end = time.monotonic() + 60
    while len(download.data) < len(expected):
        assert time.monotonic() < end
        segment = peer.recv()
        edge = (peer.rcv + window - segment.seq - len(segment.data)) % WRAP
        assert edge < 1 << 31, f"beyond the window: {segment}"
        if segment.data:
            download.take(segment)
            download.ack()
    assert download.data == expected
    peer.reset()


def probes(peer, count):
    """Answers so many probes of a closed window, each of which has a byte at most. Their times."""
    times = []
    while len(times) < count:
        segment = peer.recv()
        if segment.seq == peer.rcv - 1 or len(segment.data) == 1:
            assert len(segment.data) <= 1
            times.append(segment.at)
            peer.send("A", window=0)
        else:
            assert not segment.data, f"data into a closed window: {segment}"
    return times


@pytest.mark.long
def test_closed_window_is_probed(peer):
    """RFC 9293 3.8.6.1: probes at growing intervals; then all data comes."""
    peer.alive()
    peer.send("PA", b"get small\r\n", window=0)
    times = probes(peer, 5)
    assert times[4] - times[3] > 1.3 * (times[2] - times[1])
    peer.send("A")
    download = Download(peer)
    assert download.run(len(REPLY)) == REPLY


def test_window_that_opens_again_is_used(peer):
    peer.alive()
    peer.send("PA", b"get small\r\n", window=0)
    probes(peer, 3)
    peer.send("A", window=5000)
    download = Download(peer)
    assert download.run(4000) == REPLY[: len(download.data)]


def test_window_update_that_is_lost(peer):
    """The window update is lost: the ACK of the next probe opens the window."""
    peer.alive()
    peer.send("PA", b"get small\r\n", window=0)
    times = []
    while len(times) < 2:
        segment = peer.recv()
        if segment.seq == peer.rcv - 1 or len(segment.data) == 1:
            times.append(segment.at)
    peer.send("A")
    assert Download(peer).run(len(REPLY)) == REPLY


def test_window_that_shrinks(peer):
    """The peer shrinks its window: no new data comes beyond the new edge."""
    peer.alive()
    peer.window = 1000
    peer.send("A", b"get ")
    peer.send("PA", b"small\r\n")
    download = Download(peer)
    while len(download.data) < 3000:
        segment = peer.recv()
        if segment.data:
            assert (segment.seq + len(segment.data) - peer.rcv) % WRAP <= 1000
            download.take(segment)
            download.ack()
    peer.forget(0.02)
    peer.window = 65535
    peer.send("A")
    assert download.run(len(REPLY)) == REPLY


def test_peer_that_never_opens_its_window(peer):
    """Many requests on a connection with a closed window: memory is bounded, all replies come
    later."""
    peer.alive()
    for _ in range(50):
        peer.send("PA", b"get small\r\n", window=0)
    peer.forget(0.3)
    peer.send("A")
    assert Download(peer).run(20 * len(REPLY))[: len(REPLY)] == REPLY


# ---- the congestion window --------------------------------------------------------------------


INITIAL_WINDOW = 10 * 1460  # RFC 6928


def test_initial_window_is_ten_segments(lan):  # noqa: F811
    peer = lan.peer()
    peer.open(scale=3)
    peer.send("PA", b"get big\r\n")
    assert peer.burst(INITIAL_WINDOW) == INITIAL_WINDOW
    peer.reset()


def test_ack_division_gains_nothing(lan):  # noqa: F811
    """RFC 5681 3.1: the window grows by the bytes that are acknowledged, not by ACKs."""
    peer = lan.peer()
    peer.open(scale=3)
    peer.send("PA", b"get big\r\n")
    before = peer.burst(INITIAL_WINDOW)
    for count in range(10, 1461, 10):
        peer.send("A", ack=peer.rcv + count)
    assert peer.burst(0) <= before + 4 * 1460, "146 ACKs of 10 bytes each opened the window wide"
    peer.reset()


def test_acks_open_the_window_slowly(lan):  # noqa: F811
    """Slow start: ten segments acknowledged let twenty out."""
    peer = lan.peer()
    peer.open(scale=3)
    peer.send("PA", b"get big\r\n")
    before = peer.burst(INITIAL_WINDOW)
    for count in range(1460, before + 1, 1460):
        peer.send("A", ack=peer.rcv + count)
    assert peer.burst(before + 1) <= 3 * before + 1460
    peer.reset()


# ---- nothing to hold on to --------------------------------------------------------------------


def test_idle_connection_stays_open(peer):
    peer.alive()
    with pytest.raises(Silent):
        peer.recv(1.5)
    peer.alive()
