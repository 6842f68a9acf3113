# SPDX-License-Identifier: BSD-3-Clause
"""How connections end, from crafted packets: FINs, simultaneous close, TIME-WAIT."""

import time

import pytest
import rawnet
from conform import lan, peer, target  # noqa: F401
from wire import MISS, STORED, hit, storage

WRAP = 1 << 32


@pytest.fixture
def fresh(lan):  # noqa: F811
    """An open connection that the test itself ends."""
    connection = lan.peer()
    connection.open()
    return connection


def await_fin(peer):
    """Takes segments until the target's FIN; returns the data before it."""
    data = b""
    while True:
        segment = peer.recv()
        assert "R" not in segment.letters, segment
        if segment.seq == peer.rcv:
            data += peer.take(segment)
            if "F" in segment.letters:
                return data


# ---- the peer closes first --------------------------------------------------------------------


def test_fin_is_answered_by_a_fin(fresh):
    fresh.send("FA")
    assert await_fin(fresh) == b""
    assert fresh.una == fresh.snd
    fresh.send("A")
    fresh.dead()


def test_fin_behind_a_request(fresh):
    """Half closed: the reply still comes, then the FIN."""
    fresh.send("FPA", b"get none\r\n")
    assert await_fin(fresh) == MISS
    fresh.send("A")
    fresh.dead()


def test_fin_in_the_middle_of_a_request(fresh):
    fresh.send("PA", b"set k 0 0 100\r\nabc")
    fresh.send("FA")
    assert await_fin(fresh) == b""
    fresh.send("A")
    fresh.dead()


def test_fin_again_is_acknowledged_again(fresh):
    fresh.send("FA")
    assert await_fin(fresh) == b""
    fresh.forget()
    fresh.send("FA", seq=fresh.snd - 1, ack=fresh.rcv - 1)
    fresh.expect("A|FA", ack=fresh.snd)
    fresh.send("A")
    fresh.forget()
    fresh.dead()


def test_fin_out_of_order_waits(fresh):
    request = b"get none\r\n"
    fresh.send("FA", seq=fresh.snd + len(request))
    fresh.expect("A", ack=fresh.snd)
    fresh.none()
    fresh.send("PA", request)
    fresh.snd += 1
    assert await_fin(fresh) == MISS
    assert fresh.una == fresh.snd
    fresh.send("A")
    fresh.dead()


def test_data_and_fin_out_of_order_wait(fresh):
    fresh.send("FPA", b"none\r\n", seq=fresh.snd + 4)
    fresh.expect("A", ack=fresh.snd)
    fresh.send("PA", b"get ")
    fresh.snd += 7
    assert await_fin(fresh) == MISS
    assert fresh.una == fresh.snd
    fresh.send("A")
    fresh.dead()


def test_data_behind_the_fin_is_not_taken(fresh):
    request = storage(b"set", b"behind", b"x")
    fresh.send("PA", request, seq=fresh.snd + 1)
    fresh.expect("A", ack=fresh.snd)
    fresh.send("FA")
    assert await_fin(fresh) == b""
    fresh.send("PA", request, seq=fresh.snd)
    fresh.forget(0.05)
    another = fresh.lan.peer()
    another.open()
    another.ask(b"get behind\r\n", MISS)
    another.reset()


def test_unacknowledged_fin_is_retransmitted(fresh):
    fresh.send("FA")
    assert await_fin(fresh) == b""
    numbers = set()
    for _ in range(3):
        again = fresh.recv()
        assert "F" in again.letters
        numbers.add((again.seq + len(again.data)) % WRAP)
    assert numbers == {(fresh.rcv - 1) % WRAP}
    fresh.send("A")
    fresh.forget(0.05)
    fresh.dead()


def test_reset_while_the_last_ack_is_due(fresh):
    fresh.send("FA")
    assert await_fin(fresh) == b""
    fresh.send("R")
    fresh.forget(0.05)
    fresh.dead()


def test_wrong_reset_while_the_last_ack_is_due(fresh):
    """In LAST-ACK too only the exact number counts."""
    fresh.send("FA")
    assert await_fin(fresh) == b""
    fresh.send("R", seq=fresh.snd + 5000)
    again = fresh.recv()
    assert again.ack == fresh.snd and "R" not in again.letters
    while "F" not in again.letters:
        again = fresh.recv()
    fresh.send("A")
    fresh.forget(0.05)
    fresh.dead()


def test_keepalive_probe_after_the_fin(fresh):
    """CLOSE-WAIT or LAST-ACK: what lies below the next number is acknowledged."""
    fresh.send("FA")
    assert await_fin(fresh) == b""
    fresh.send("A", ack=fresh.rcv - 1, seq=fresh.snd - 1)
    fresh.expect("A|FA", ack=fresh.snd)
    fresh.send("A")


# ---- the server closes first ------------------------------------------------------------------


def quits(peer):
    """The server closes; its FIN has come, but is not acknowledged yet."""
    peer.send("PA", b"quit\r\n")
    assert await_fin(peer) == b""


def test_quit(fresh):
    quits(fresh)
    fresh.send("A")
    fresh.send("FA")
    fresh.expect("A", seq=fresh.rcv, ack=fresh.snd)
    fresh.none()


def test_quit_with_fin_and_ack_in_one(fresh):
    quits(fresh)
    fresh.send("FA")
    fresh.expect("A", seq=fresh.rcv, ack=fresh.snd)


def test_simultaneous_close(fresh):
    """Our FIN crosses the server's: CLOSING, then TIME-WAIT (RFC 9293 3.6)."""
    quits(fresh)
    fresh.send("FA", ack=fresh.rcv - 1)
    fresh.expect("A", seq=fresh.rcv, ack=fresh.snd)
    fresh.send("A")
    fresh.none()
    fresh.send("FA", seq=fresh.snd - 1)
    fresh.expect("A", seq=fresh.rcv, ack=fresh.snd)


def test_fin_in_time_wait_is_acknowledged_again(fresh):
    quits(fresh)
    fresh.send("FA")
    fresh.expect("A", ack=fresh.snd)
    for _ in range(3):
        fresh.send("FA", seq=fresh.snd - 1)
        fresh.expect("A", seq=fresh.rcv, ack=fresh.snd)


def test_old_data_in_time_wait(fresh):
    quits(fresh)
    fresh.send("FA")
    fresh.expect("A", ack=fresh.snd)
    fresh.send("PA", b"quit\r\n", seq=fresh.snd - 7)
    fresh.expect("A", seq=fresh.rcv, ack=fresh.snd)


def test_old_syn_in_time_wait(fresh):
    """It opens no connection: the answer is a challenge ACK (RFC 9293 3.10.7.4)."""
    quits(fresh)
    fresh.send("FA")
    fresh.expect("A", ack=fresh.snd)
    fresh.send("S", seq=fresh.iss)
    fresh.expect("A", seq=fresh.rcv, ack=fresh.snd)


@pytest.mark.parametrize("ts", [False, True], ids=["plain", "timestamps"])
def test_new_syn_in_time_wait(lan, ts):  # noqa: F811
    """RFC 9293 3.6.1 and RFC 6191: a later SYN opens a new connection of the same name."""
    peer = lan.peer()
    peer.open(ts=ts)
    quits(peer)
    peer.send("FA")
    peer.expect("A", ack=peer.snd)
    last = peer.rcv
    time.sleep(0.02)
    start = peer.ts
    peer.snd = (peer.snd + 100_000) % WRAP
    opts = rawnet.options(mss=1460, ts=(peer.ts_now() + 2000, 0)) if ts else b""
    peer.send("S", opts=opts)
    answer = peer.expect("SA", ack=peer.snd)
    assert (answer.seq - last) % WRAP < 1 << 31, "numbers of the old connection come again"
    peer.rcv = answer.seq + 1
    if ts:
        peer.ts = (start[0] + 2000, answer.ts[0])
    peer.send("A")
    peer.alive()
    peer.reset()


def test_data_after_quit_is_ignored(fresh):
    quits(fresh)
    fresh.send("A")
    fresh.send("PA", b"get none\r\n" * 10)
    fresh.forget(0.05)
    fresh.send("R")


def test_close_while_replies_are_on_their_way(fresh):
    """Replies to requests before `quit` are complete."""
    value = bytes(60) * 100
    fresh.send("PA", b"set k 0 0 6000\r\n")
    for _ in range(6):
        fresh.send("PA", value[:1000])
    fresh.send("PA", b"\r\n")
    assert fresh.read(len(STORED)) == STORED
    fresh.send("PA", b"get k\r\n" * 3 + b"quit\r\n")
    data = b""
    while True:
        segment = fresh.recv()
        if segment.seq == fresh.rcv:
            data += fresh.take(segment)
            fresh.send("A" if "F" not in segment.letters else "FA")
            if "F" in segment.letters:
                break
    assert data == (hit(b"k", value) + MISS) * 3
    while fresh.recv().ack != fresh.snd:
        pass
