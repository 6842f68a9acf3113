# SPDX-License-Identifier: BSD-3-Clause
"""What an open connection accepts from crafted packets: resets, SYNs, ACKs, data, timestamps."""

import random
import time

import pytest
import rawnet
from conform import lan, peer, target  # noqa: F401
from rawpeer import Silent
from wire import STORED, hit, storage

MISS = b"END\r\n"
REQUEST = b"get none\r\n"


@pytest.fixture
def stamped(lan):
    """An open connection with timestamps."""
    connection = lan.peer()
    connection.open(ts=True, sack_ok=True)
    assert connection.ts
    connection.alive()
    yield connection
    connection.reset()


def challenged(peer):
    """The target must answer with an ACK of the state that it is in, and nothing may change."""
    peer.expect("A", seq=peer.rcv, ack=peer.snd, data=b"")


# ---- RST, RFC 5961 section 3 ------------------------------------------------------------------


@pytest.mark.parametrize("flags", ["R", "RA"])
def test_exact_reset_ends_the_connection(lan, flags):
    peer = lan.peer()
    peer.open()
    peer.alive()
    peer.send(flags)
    peer.dead()


@pytest.mark.parametrize("offset", [1, 2, 1000, 20000])
def test_reset_within_the_window_is_challenged(peer, offset):
    peer.alive()
    peer.send("R", seq=peer.snd + offset)
    challenged(peer)
    peer.alive()


@pytest.mark.parametrize("offset", [-1, -2, -70000, 1 << 29, -(1 << 30), 1 << 31])
def test_reset_outside_the_window_is_ignored(peer, offset):
    peer.alive()
    peer.send("R", seq=peer.snd + offset)
    peer.none()
    peer.alive()


def test_reset_out_of_order_is_not_queued(peer):
    peer.send("R", seq=peer.snd + len(REQUEST))
    challenged(peer)
    peer.ask(REQUEST, MISS)
    peer.alive()


def test_reset_with_the_answer_to_a_challenge(lan):
    """The real peer, which has restarted, answers the challenge with the number in it."""
    peer = lan.peer()
    peer.open()
    peer.send("R", seq=peer.snd + 100)
    answer = peer.expect("A")
    peer.send("R", seq=answer.ack)
    peer.dead()


def test_reset_with_data_ends_the_connection(lan):
    peer = lan.peer()
    peer.open()
    peer.send("R", b"connection refused", seq=peer.snd)
    peer.dead()


def test_reset_with_a_wrong_checksum_does_not(peer):
    peer.send("R", seq=peer.snd, csum_xor=0x0101)
    peer.none()
    peer.alive()


def test_exact_reset_with_a_random_ack(lan):
    """The sequence number alone decides."""
    peer = lan.peer()
    peer.open()
    peer.send("RA", ack=peer.rcv + 123456)
    peer.dead()


def test_guessed_resets_do_not_end_the_connection(peer):
    """Every 64 KiB of the sequence space is tried, but for the right number."""
    for guess in range(0, 1 << 32, 1 << 20):
        if guess != peer.snd:
            peer.send("R", seq=guess)
    peer.forget(0.2)
    peer.alive()


def test_reset_after_data_of_ours(lan):
    """Data and a reset behind it before the target runs: both are processed."""
    peer = lan.peer()
    peer.open()
    peer.send("PA", storage(b"set", b"before", b"reset"))
    peer.send("R")
    peer.dead()
    other = lan.peer()
    other.open()
    other.forget(0.1)
    other.ask(b"get before\r\n", hit(b"before", b"reset") + MISS)
    other.ask(b"delete before\r\n", b"DELETED\r\n")
    other.reset()


# ---- SYN, RFC 5961 section 4 ------------------------------------------------------------------


@pytest.mark.parametrize("flags", ["S", "SA", "SP"])
@pytest.mark.parametrize("offset", [0, 1, 5000, -1, -100000, 1 << 30])
def test_syn_on_an_open_connection_is_challenged(peer, flags, offset):
    peer.alive()
    peer.send(flags, seq=peer.snd + offset)
    challenged(peer)
    peer.alive()


def test_the_first_syn_again(peer):
    peer.send("S", seq=peer.iss)
    challenged(peer)
    peer.alive()


def test_syn_with_data_on_an_open_connection(peer):
    peer.send("SA", REQUEST, seq=peer.snd)
    challenged(peer)
    peer.none()
    peer.alive()


@pytest.mark.parametrize("flags", ["SF", "SFA", "SR"])
def test_syn_with_more_on_an_open_connection(peer, flags):
    peer.send(flags, seq=peer.snd + 10)
    peer.forget(0.1)
    peer.alive()


# ---- ACK, RFC 5961 section 5 ------------------------------------------------------------------


@pytest.mark.parametrize("beyond", [1, 1000, 1 << 20, 1 << 30, (1 << 31) - 1])
def test_ack_of_unsent_data(peer, beyond):
    peer.send("A", ack=peer.rcv + beyond)
    challenged(peer)
    peer.alive()


@pytest.mark.parametrize("beyond", [1, 1000, 1 << 20, 1 << 30])
def test_data_with_an_ack_of_unsent_data(peer, beyond):
    """Data of an attacker who guesses numbers: not accepted."""
    peer.send("PA", REQUEST, seq=peer.snd, ack=peer.rcv + beyond)
    answer = peer.expect("A", ack=peer.snd, data=b"")
    assert answer.seq == peer.rcv
    peer.none()
    peer.alive()


@pytest.mark.parametrize("before", [70_000, 1 << 20, 1 << 30, (1 << 31) - 1])
def test_data_with_an_ack_that_is_too_old(peer, before):
    """Older than the largest window that we have ever offered."""
    peer.alive()
    peer.send("PA", REQUEST, seq=peer.snd, ack=peer.rcv - before)
    peer.expect("A", ack=peer.snd, data=b"")
    peer.none()
    peer.alive()


def test_data_with_an_ack_that_is_old_but_possible(peer):
    """It was sent before our last ACK, and overtaken by it."""
    for _ in range(3):
        peer.alive()
    peer.send("PA", REQUEST, ack=peer.rcv - 10)
    assert peer.read(5) == MISS


def test_old_ack_changes_nothing(peer):
    peer.alive()
    peer.send("A", ack=peer.rcv - 3)
    peer.none()
    peer.alive()


@pytest.mark.parametrize("flags", ["", "P", "F", "U", "PU"])
def test_segment_without_ack_is_dropped(peer, flags):
    peer.send(flags, REQUEST, seq=peer.snd)
    peer.none()
    peer.alive()


# ---- data -------------------------------------------------------------------------------------


def test_duplicate_data_is_acknowledged_and_dropped(peer):
    peer.ask(b"incr none 1\r\n", b"NOT_FOUND\r\n")
    peer.send("PA", b"incr none 1\r\n", seq=peer.snd - 13)
    peer.expect("A", seq=peer.rcv, ack=peer.snd, data=b"")
    peer.none()
    peer.alive()


@pytest.mark.parametrize("offset", [1 << 25, 1 << 30, -(1 << 20), -(1 << 30)])
def test_data_outside_the_window_is_acknowledged_and_dropped(peer, offset):
    peer.send("PA", REQUEST, seq=peer.snd + offset)
    peer.expect("A", seq=peer.rcv, ack=peer.snd, data=b"")
    peer.alive()


def test_accepted_window_is_the_offered_one(peer):
    """Not a byte more: the first byte behind the right edge is dropped, the last before is kept."""
    peer.alive()
    peer.send("PA", b"get ")
    answer = peer.expect("A", ack=peer.snd)
    edge = peer.snd + answer.window
    peer.send("PA", b"z", seq=edge)
    peer.expect("A", ack=peer.snd)
    peer.send("PA", b"z", seq=edge + 5)
    peer.expect("A", ack=peer.snd)
    peer.ask(b"none\r\n", MISS)


def test_requests_one_byte_at_a_time(peer):
    for byte in REQUEST * 3:
        peer.send("PA", bytes([byte]))
    assert peer.read(15) == MISS * 3


def test_requests_backwards_one_byte_at_a_time(peer):
    """Each byte but the last comes out of order."""
    request = storage(b"set", b"backwards", bytes(range(48, 122)) * 3)
    for offset in reversed(range(len(request))):
        peer.send("PA", request[offset : offset + 1], seq=peer.snd + offset)
        time.sleep(0.0002)
    peer.snd += len(request)
    assert read_stream(peer, len(STORED)) == STORED
    peer.ask(b"delete backwards\r\n", b"DELETED\r\n")


@pytest.mark.parametrize("seed", range(6))
def test_overlapping_segments_in_any_order(peer, seed):
    """Every byte comes at least once, in pieces that overlap, in random order."""
    rng = random.Random(seed)
    value = bytes(rng.choice(b"abcdefghijklmnop") for _ in range(3000))
    request = storage(b"set", b"overlap", value)
    cuts = sorted(rng.sample(range(1, len(request)), 20))
    pieces = []
    for first, last in zip([0, *cuts], [*cuts, len(request)]):
        low = max(0, first - rng.randint(0, 40))
        high = min(len(request), last + rng.randint(0, 40))
        pieces += [(low, high)] * rng.randint(1, 2)
    rng.shuffle(pieces)
    for low, high in pieces:
        peer.send("PA", request[low:high], seq=peer.snd + low)
    peer.snd += len(request)
    assert read_stream(peer, len(STORED)) == STORED
    peer.forget(0.1)
    peer.ask(b"get overlap\r\n", hit(b"overlap", value) + MISS)


def read_stream(peer, count):
    """Like read(), where ACKs may stand between."""
    data = b""
    while len(data) < count:
        segment = peer.recv()
        if segment.data and segment.seq == peer.rcv:
            data += peer.take(segment)
            peer.send("A")
    return data


def test_overlap_with_data_that_was_delivered(peer):
    """Bytes that were acknowledged cannot be changed any more."""
    peer.send("PA", b"set k 0 0 8\r\nAAAA")
    peer.expect("A", ack=peer.snd)
    peer.send("PA", b"BBBBcccc\r\n", seq=peer.snd - 4)
    peer.snd += 6
    assert peer.read(len(STORED)) == STORED
    peer.ask(b"get k\r\n", hit(b"k", b"AAAAcccc") + MISS)


@pytest.mark.parametrize("first, second", [((4, 8), (2, 6)), ((4, 8), (0, 12)), ((0, 12), (4, 8))])
def test_overlap_with_other_data_out_of_order(peer, first, second):
    """Either of two contradictory segments may win; no byte of either may get a wrong offset."""
    head = b"set k 0 0 12\r\n"
    peer.send("PA", b"x" * (first[1] - first[0]), seq=peer.snd + len(head) + first[0])
    peer.send("PA", b"y" * (second[1] - second[0]), seq=peer.snd + len(head) + second[0])
    peer.forget(0.05)
    peer.send("PA", head)
    peer.send("PA", b"z" * 12 + b"\r\n")
    assert read_stream(peer, len(STORED)) == STORED
    peer.send("PA", b"get k\r\n")
    value = read_stream(peer, len(hit(b"k", b"." * 12) + MISS))[14:26]
    for at, byte in enumerate(value):
        possible = b"z"
        possible += b"x" if first[0] <= at < first[1] else b""
        possible += b"y" if second[0] <= at < second[1] else b""
        assert byte in possible, (at, value)


def test_hole_is_filled(peer):
    """Each segment beyond the hole brings a duplicate ACK, what fills it an ACK of everything."""
    head, tail = b"get ", b"none\r\n"
    for _ in range(3):
        peer.send("PA", tail, seq=peer.snd + len(head))
        peer.expect("A", ack=peer.snd, seq=peer.rcv, data=b"")
    peer.send("PA", head)
    peer.snd += len(tail)
    answer = peer.recv()
    assert answer.ack == peer.snd
    if not answer.data:
        answer = peer.recv()
    assert peer.take(answer) == MISS
    peer.send("A")


def test_urgent_data_stays_in_line(peer):
    peer.send("PUA", b"get n", urgent=1)
    peer.send("PUA", b"one\r\n", urgent=2)
    assert peer.read(5) == MISS


@pytest.mark.parametrize("urgent", [1, 5, 0xFFFF])
def test_urgent_pointer_without_its_flag(peer, urgent):
    peer.send("PA", REQUEST, urgent=urgent)
    assert peer.read(5) == MISS


def test_data_without_a_reply_is_acknowledged(peer):
    """RFC 9293 3.8.6.3. test/packet has the exact time, on a virtual clock."""
    peer.send("PA", b"get ")
    peer.expect("A", ack=peer.snd, data=b"")
    peer.ask(b"none\r\n", MISS)


def test_every_second_full_segment_is_acknowledged(peer):
    """RFC 5681 4.2; counted over many, since the first ones are acknowledged quickly."""
    value = bytes(1460 * 20)
    peer.send("A", b"set k 0 0 %d\r\n" % len(value))
    peer.forget(0.3)
    acks = 0
    for offset in range(0, len(value), 1460):
        peer.send("A", value[offset : offset + 1460])
    end = peer.snd
    last = None
    while last != end:
        last = peer.expect("A", data=b"").ack
        acks += 1
    # The kernel may merge segments of a burst, and sends a number of ACKs within this range.
    assert acks >= 1
    peer.send("PA", b"\r\n")
    assert peer.read(len(STORED)) == STORED


# ---- keepalive probes of a peer ---------------------------------------------------------------


@pytest.mark.parametrize("garbage", [b"", b"\0", b"x"])
def test_keepalive_probe_is_answered(peer, garbage):
    """RFC 9293 3.8.4: one below the next number, with or without a byte of garbage."""
    peer.alive()
    for _ in range(3):
        peer.send("A", garbage, seq=peer.snd - 1)
        peer.expect("A", seq=peer.rcv, ack=peer.snd, data=b"")
    peer.alive()


# ---- timestamps, RFC 7323 ---------------------------------------------------------------------


def test_timestamp_is_echoed(stamped):
    stamped.send("PA", b"get ", opts=stamped.ts_option(value=(now := stamped.ts_now() + 5)))
    assert stamped.expect("A", ack=stamped.snd).ts[1] == now
    stamped.ts = (stamped.ts[0] + 10, stamped.ts[1])
    stamped.ask(b"none\r\n", MISS)


def test_every_segment_has_a_timestamp(stamped):
    stamped.send("PA", b"stats\r\n")
    for _ in range(2):
        answer = stamped.recv()
        assert answer.ts and set(answer.kinds) == {rawnet.TIMESTAMPS}
        stamped.take(answer)
    stamped.forget(0.05)


def test_old_timestamp_is_refused(stamped):
    """PAWS: the data is dropped and answered by an ACK."""
    now = stamped.ts_now()
    stamped.send("PA", b"get ", opts=stamped.ts_option(value=now))
    stamped.expect("A", ack=stamped.snd)
    for age in (2, 1000, 1 << 20, (1 << 31) - 1):
        stamped.send("PA", b"evil\r\n", seq=stamped.snd, opts=stamped.ts_option(value=now - age))
        answer = stamped.expect("A", ack=stamped.snd, data=b"")
        assert answer.ts[1] == now
    stamped.send("PA", b"none\r\n", opts=stamped.ts_option(value=now))
    assert stamped.read(5) == MISS


def test_old_timestamp_does_not_save_from_a_reset(lan):
    """RFC 7323 5.2: a reset is accepted whatever timestamp it has."""
    peer = lan.peer()
    peer.open(ts=True)
    peer.send("R", opts=peer.ts_option(value=peer.ts_now() - 100000))
    peer.ts = None
    peer.dead()


def test_reset_without_a_timestamp(lan):
    peer = lan.peer()
    peer.open(ts=True)
    peer.send("R", opts=b"")
    peer.ts = None
    peer.dead()


def test_old_timestamp_on_a_syn_is_no_way_in(stamped):
    stamped.send("S", seq=stamped.snd, opts=rawnet.options(ts=(stamped.ts_now() - 5000, 0)))
    stamped.expect("A", seq=stamped.rcv, ack=stamped.snd)
    stamped.alive()


def test_timestamps_wrap(lan):
    """The clock of the peer runs over 2^32 during the connection."""
    peer = lan.peer()
    peer.open(ts=True)
    start = 0xFFFFFFF0
    peer.send("PA", b"get ", opts=peer.ts_option(value=peer.ts_now()))
    peer.expect("A", ack=peer.snd)
    steps = (start - peer.ts_now()) & 0xFFFFFFFF
    value = peer.ts_now()
    for _ in range(3):  # in steps of less than half the space
        value += steps // 3
        peer.send("PA", b"none ", opts=peer.ts_option(value=value & 0xFFFFFFFF))
        peer.expect("A", ack=peer.snd)
    peer.send("PA", b"none\r\n", opts=peer.ts_option(value=(value + 50) & 0xFFFFFFFF))
    answer = peer.data()
    assert answer.ts[1] == (value + 50) & 0xFFFFFFFF
    peer.send("R")


def test_timestamp_of_data_out_of_order_is_not_echoed(stamped):
    """RFC 7323 4.3: only segments at the left edge of the window update TS.Recent."""
    now = stamped.ts_now()
    stamped.send("PA", b"ge", opts=stamped.ts_option(value=now))
    stamped.expect("A", ack=stamped.snd)
    stamped.send("PA", b"none\r\n", seq=stamped.snd + 2, opts=stamped.ts_option(value=now + 50))
    assert stamped.expect("A", ack=stamped.snd).ts[1] == now
    stamped.send("PA", b"t ", opts=stamped.ts_option(value=now + 60))
    stamped.snd += 6
    answer = stamped.recv()
    assert answer.ts[1] == now + 60 and answer.ack == stamped.snd
    stamped.ts = (stamped.ts[0] + 100, stamped.ts[1])
    assert (stamped.take(answer) or stamped.read(5)) == MISS
    stamped.send("A")


def test_timestamp_of_the_first_of_two_is_echoed(stamped):
    """RFC 7323 4.3 (A): a delayed ACK echoes the earliest segment that it acknowledges."""
    now = stamped.ts_now()
    stamped.send("PA", b"get no", opts=stamped.ts_option(value=now + 10))
    stamped.send("PA", b"ne\r\n", opts=stamped.ts_option(value=now + 30))
    stamped.ts = (stamped.ts[0] + 100, stamped.ts[1])
    answer = stamped.recv()
    if answer.ack == stamped.snd:
        assert answer.ts[1] == now + 10
    else:  # acknowledged one by one
        assert answer.ts[1] == now + 10
        answer = stamped.recv()
        assert answer.ts[1] == now + 30
    stamped.forget(0.05)
    stamped.reset()


def test_timestamps_that_were_not_negotiated(peer):
    """Timestamps that were not negotiated are ignored: no PAWS, no echo."""
    for value in (5000, 4000, 1):
        peer.send("PA", REQUEST, opts=rawnet.options(ts=(value, 1)))
        answer = peer.data()
        assert answer.ts is None and answer.data == MISS
        peer.send("A")


def test_timestamps_tick_in_milliseconds(stamped):
    """Or nearly: in units of 1024 us."""
    def stamp():
        """A timestamp of the server, and our times in ms before and after it was taken."""
        begin_ms = time.monotonic() * 1000
        stamped.send("PA", REQUEST)
        answer = stamped.data()
        end_ms = time.monotonic() * 1000
        stamped.send("A")
        return answer.ts[0], begin_ms, end_ms

    first, first_begin_ms, first_end_ms = stamp()
    time.sleep(0.5)
    second, second_begin_ms, second_end_ms = stamp()
    passed_ms = (second - first) & 0xFFFFFFFF
    assert 0.95 * (second_begin_ms - first_end_ms) - 5 < passed_ms
    assert passed_ms < 1.05 * (second_end_ms - first_begin_ms) + 5


def test_echo_of_an_unsent_timestamp(stamped):
    """A wrong echo does not increase the timeout: an unacknowledged reply is retransmitted soon."""
    for echo in (0, 1, 0xFFFFFFFF, stamped.ts[1] + (1 << 30), stamped.ts[1] - (1 << 30)):
        stamped.send("PA", REQUEST, opts=stamped.ts_option(echo=echo & 0xFFFFFFFF))
        stamped.data()
        stamped.send("A", opts=stamped.ts_option(echo=echo & 0xFFFFFFFF))
    stamped.send("PA", REQUEST)
    first = stamped.data()
    again = stamped.recv()
    assert again.seq == first.seq and again.data == first.data
    stamped.send("A")


def test_nothing_comes_by_itself(peer):
    peer.alive()
    with pytest.raises(Silent):
        peer.recv(0.5)
