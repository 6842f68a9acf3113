# SPDX-License-Identifier: BSD-3-Clause
"""Several workers on the own stack: connections, frames between workers, cores, idle time."""

import contextlib
import os
import pathlib
import re
import resource
import selectors
import socket
import struct
import subprocess
import time

import pytest
from wire import settles

TICKS = os.sysconf("SC_CLK_TCK")


def threads(server, kinds=("ucached-",)):
    """The threads of a server whose names begin like this: name -> thread id."""
    found = {}
    for task in pathlib.Path(f"/proc/{server.pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        if name.startswith(kinds):
            found[name] = int(task.name)
    return found


def runs_on(server, cores, kinds=("ucached-",)):
    """Whether each thread, once all have started, may run on these cores only: name -> cores."""
    return settles(lambda: cores == {name: os.sched_getaffinity(tid)
                                     for name, tid in threads(server, kinds).items()})  # fmt: skip


def ticks(path):
    """CPU time of a process or thread, in clock ticks, from its `stat` in /proc."""
    fields = pathlib.Path(path).read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def thread_seconds(server):
    """CPU time of each worker thread, in finer units than ticks()."""
    found = {}
    for name, tid in threads(server).items():
        schedstat = pathlib.Path(f"/proc/{server.pid}/task/{tid}/schedstat").read_text()
        found[name] = int(schedstat.split()[0]) / 1e9
    return found


def process_seconds(server):
    return ticks(f"/proc/{server.pid}/stat") / TICKS


def wakeups(server):
    """Voluntary context switches of all threads of the server."""
    total = 0
    for task in pathlib.Path(f"/proc/{server.pid}/task").iterdir():
        status = (task / "status").read_text()
        total += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.M)[1])
    return total


def sleeps_while_idle(server, seconds=2):
    """Whether every thread of a server without requests sleeps nearly all the time.

    A thread that polls uses the processor, one that naps wakes often. Sleeps of 0.1 s need 10
    wake-ups a second.
    """
    threads_count = len(list(pathlib.Path(f"/proc/{server.pid}/task").iterdir()))
    used_s, woken = process_seconds(server), wakeups(server)
    time.sleep(seconds)
    used_s, woken = process_seconds(server) - used_s, wakeups(server) - woken
    print(f"{used_s:.2f} s of processor time and {woken} wake-ups in {seconds} s")
    return used_s <= 0.1 * seconds and woken <= 20 * seconds * threads_count


def nic(server):
    return {name: int(value) for name, value in server.stats("nic").items() if value.isdigit()}


@pytest.fixture(params=["-t 2", "-t 4", "-t 3 --queues=1", "-t 4 --queues=2"])
def many(request, start_server):
    """A server with several workers, with a queue for each or with fewer."""
    return start_server("tap", *request.param.split())


def test_every_connection_is_served(many):
    connections = [many.connect() for _ in range(64)]
    for number, connection in enumerate(connections):
        assert connection.ask(b"set k%d 0 0 3\r\n%03d\r\n" % (number, number)) == b"STORED\r\n"
    for number, connection in enumerate(connections):
        other = (number * 7 + 3) % 64
        connection.send(b"get k%d\r\n" % other)
        assert connection.line() == b"VALUE k%d 0 3\r\n" % other
        assert connection.line() == b"%03d\r\n" % other
        assert connection.line() == b"END\r\n"
    assert int(many.stats("ustack")["conns_open"]) >= 64
    assert many.stats()["threads"] == str(len(threads(many)))


def test_all_workers_have_connections(many):
    connections = [many.connect() for _ in range(64)]
    before = thread_seconds(many)
    for _ in range(60):
        for connection in connections:
            connection.send(b"mn\r\n" * 50)
        for connection in connections:
            for _ in range(50):
                assert connection.line() == b"MN\r\n"
    # 64 connections leave none of four workers without one but in 4e-8 of all runs.
    for name, now in thread_seconds(many).items():
        assert now - before[name] > 0.001, name

    def all_taken():
        counters = nic(many)
        # Workers count the frames of this very request at different times.
        difference = counters["lane_forwarded"] - counters["lane_received"]
        return counters if abs(difference) <= 20 else None

    counters = settles(all_taken)
    assert counters, nic(many)
    assert counters["lane_ring_full"] == 0
    if "--queues=1" in many.command:
        assert counters["lane_forwarded"] > 1000
        assert counters["lane_sent_for_others"] > 1000


def test_large_values_go_both_ways(many):
    value = os.urandom(500_000)
    connections = [many.connect() for _ in range(8)]
    for number, connection in enumerate(connections):
        connection.send(b"set big%d 0 0 %d\r\n" % (number, len(value)) + value + b"\r\n")
        assert connection.line() == b"STORED\r\n"
    for number, connection in enumerate(connections):
        connection.send(b"get big%d\r\n" % (7 - number))
        assert connection.line() == b"VALUE big%d 0 %d\r\n" % (7 - number, len(value))
        assert connection.exactly(len(value) + 2) == value + b"\r\n"
        assert connection.line() == b"END\r\n"


def ping(address, count, seconds=60):
    """Sends echo requests and returns the sequence numbers of the replies, sorted.

    Waits until each request has a reply, then 0.3 s more for replies that are one too many.
    """
    replies = []
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
        for number in range(count):
            body = struct.pack("!BBHHH", 8, 0, 0, 77, number)
            total = sum(struct.unpack("!4H", body))
            checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
            sock.sendto(struct.pack("!BBHHH", 8, 0, checksum, 77, number), (address, 0))
        end = time.monotonic() + seconds
        with contextlib.suppress(TimeoutError):
            while True:
                complete = len(set(replies)) == count
                sock.settimeout(0.3 if complete else max(0.001, end - time.monotonic()))
                kind, _, _, ident, number = struct.unpack("!BBHHH", sock.recv(100)[20:28])
                if kind == 0 and ident == 77:
                    replies.append(number)
    return sorted(replies)


def test_a_ping_is_answered_once(many):
    """The workers reply in any order, and no two of them to the same request."""
    assert many.space.run(ping, many.address[0], 5) == [0, 1, 2, 3, 4]


def test_it_ends_in_order_with_open_connections(many):
    connections = [many.connect() for _ in range(20)]
    for connection in connections:
        assert connection.ask(b"mn\r\n") == b"MN\r\n"
    many.stop()
    for connection in connections:
        assert connection.rest() == b""


@pytest.mark.server_args("-t", "4", "-c", "20000")
def test_ten_thousand_connections(server_tap):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    want = 11_000
    if hard != resource.RLIM_INFINITY and hard < want:
        pytest.skip(f"only {hard} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, want), hard))
    try:
        sockets = server_tap.space.run(open_many, server_tap.address, 10_000)
        try:
            stats = server_tap.stats()
            assert int(stats["curr_connections"]) >= 10_000
            for sock in sockets[::997]:
                sock.sendall(b"mn\r\n")
                assert sock.recv(16) == b"MN\r\n"
        finally:
            for sock in sockets:
                sock.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_many(address, count):
    """This many connected sockets, a few hundred handshakes at a time."""
    done = []
    waiting = selectors.DefaultSelector()
    left = count
    pending = 0
    end = time.monotonic() + 90
    while len(done) < count:
        assert time.monotonic() < end, f"{len(done)} of {count} after 90 s"
        while left > 0 and pending < 200:
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(address)
            waiting.register(sock, selectors.EVENT_WRITE)
            left -= 1
            pending += 1
        for key, _ in waiting.select(1):
            error = key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            assert error == 0, os.strerror(error)
            waiting.unregister(key.fileobj)
            key.fileobj.settimeout(60)
            done.append(key.fileobj)
            pending -= 1
    waiting.close()
    return done


@pytest.mark.server_args("-t", "2", "-c", "10", "-o", "maxconns_fast")
def test_the_limit_of_connections_is_for_all_workers(server_tap):
    sock = [server_tap.connect() for _ in range(10)]
    assert all(connection.ask(b"mn\r\n") == b"MN\r\n" for connection in sock)
    refused = server_tap.connect()
    assert refused.line().startswith(b"ERROR Too many open connections")


# ---- cores -----------------------------------------------------------------------------------


def test_threads_are_pinned_to_their_cores(start_server):
    allowed = sorted(os.sched_getaffinity(0))[:2]
    cores = "--cores=" + ",".join(map(str, reversed(allowed)))
    server = start_server("tap", cores, "--threading=unified")
    wanted = {f"ucached-{number}": {core} for number, core in enumerate(reversed(allowed))}
    assert runs_on(server, wanted)
    assert server.stats()["threads"] == str(len(allowed))


def test_unknown_core_is_an_error(ucached_path):
    ended = subprocess.run(
        [ucached_path, "--cores=0,1023", "-p", "0"], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 64
    assert "no core 1023" in ended.stderr


# ---- idling ----------------------------------------------------------------------------------


@pytest.mark.parametrize("args", ["--idle=adaptive", "--idle=adaptive -t 4", "--idle=interrupt"])
def test_idle_server_sleeps(start_server, args):
    server = start_server("tap", *args.split())
    with server.connect() as connection:
        assert connection.ask(b"mn\r\n") == b"MN\r\n"
        assert settles(lambda: sleeps_while_idle(server))


def test_polling_server_never_sleeps(start_server):
    server = start_server("tap", "--idle=poll")
    before = process_seconds(server)
    sleeps = server.stats("ustack")["sleeps"]
    # What a busy machine leaves it in 10 s; a sleeper takes less than 0.2 s of them.
    assert settles(lambda: process_seconds(server) - before > 0.3)
    assert server.stats("ustack")["sleeps"] == sleeps == "0"


# ---- the link --------------------------------------------------------------------------------


@pytest.mark.server_args("-t", "2")
def test_a_link_that_goes_down_and_up_again(server_tap):
    with server_tap.connect() as connection:
        assert connection.ask(b"set k 0 0 1\r\nx\r\n") == b"STORED\r\n"
        for _ in range(2):
            server_tap.run(["ip", "link", "set", "ucached0", "down"], check=True)
            time.sleep(0.3)
            assert server_tap.running()
            server_tap.run(["ip", "link", "set", "ucached0", "up"], check=True)
            time.sleep(0.3)
            with server_tap.connect(timeout=60) as other:
                assert other.ask(b"mn\r\n") == b"MN\r\n"
        assert connection.ask(b"mn\r\n") == b"MN\r\n"
