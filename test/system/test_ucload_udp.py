# SPDX-License-Identifier: BSD-3-Clause
"""ucload over UDP: with ucached and memcached, and with servers that lose and reorder datagrams."""

import contextlib
import json
import socket
import struct
import subprocess
import threading

import pytest
from server import free_port
from test_ucload import MIX, result_of

HEADER = struct.Struct("!HHHH")


WAITING = "--timeout=1200"  # a request is lost after a minute
LOSING = "--timeout=60"  # after 3 s


@pytest.fixture
def load(ucload_path):
    def load(port, *args):
        command = [ucload_path, f"--server=127.0.0.1:{port}", "--udp", "--json", *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    return load


@pytest.fixture(params=["epoll", "uring", "memcached"])
def udp_port(request, start_server):
    """The UDP port of a server, which limits no replies."""
    port = free_port()
    if request.param == "memcached":
        start_server("memcached", "-U", str(port))
    else:
        io = {"epoll": "sock", "uring": "uring"}[request.param]
        start_server("sock", "-U", str(port), "--udp-rate=0", f"--io={io}")
    return port


@pytest.mark.parametrize("protocol", ["text", "meta", "binary"])
def test_every_operation(load, udp_port, protocol):
    result = result_of(load(udp_port, WAITING, "-V", "-n10000", "-c8", "-P", protocol, "-m", MIX,
                            "--value-size=0-1000", "--key-size=8-40"))
    assert result["requests"] == 10000
    assert result["wrong"] == result["refused"] == result["unanswered"] == 0
    assert all(result[op] > 250 for op in ("get", "set", "delete", "incr", "touch"))


def test_replies_of_several_datagrams(load, udp_port):
    result = result_of(load(udp_port, WAITING, "-V", "-n500", "-c2", "-g10", "--value-size=1200"))
    assert result["hits"] == 5000 and result["wrong"] == result["unanswered"] == 0


def test_open_loop_with_threads(load, udp_port):
    result = result_of(load(udp_port, WAITING, "-V", "-r2000", "-n1000", "-c8", "-t2"))
    assert result["hits"] == 1000 and result["unanswered"] == 0


# ---- servers that lose and reorder -----------------------------------------------------------


@contextlib.contextmanager
def answering(answer):
    """A server: answer(socket, source, id, number of the request) for each request."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(0.1)
    over = threading.Event()

    def serve():
        count = 0
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                request, source = sock.recvfrom(65536)
                answer(sock, source, HEADER.unpack_from(request)[0], count)
                count += 1

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield sock.getsockname()[1]
    finally:
        over.set()
        thread.join()
        sock.close()


def send(sock, source, request, number, count, text):
    sock.sendto(HEADER.pack(request, number, count, 0) + text, source)


LOAD = ("--no-preload", "-c1", "-n20", LOSING)


def test_lost_requests_are_counted(load):
    def answer(sock, source, request, count):
        if count != 3:
            send(sock, source, request, 0, 1, b"END\r\n")

    with answering(answer) as port:
        result = result_of(load(port, *LOAD))
    assert result["unanswered"] == 1 and result["misses"] == result["requests"] == 19
    assert result["latency_us"]["count"] == 20 and result["latency_us"]["p100"] >= 3_000_000


def test_late_and_foreign_replies_are_ignored(load):
    """The reply to the first request comes with that to the second; others are of no request."""
    late = []

    def answer(sock, source, request, count):
        late.append(request)
        if count == 0:
            return
        send(sock, source, late[0] if count == 1 else request + 1, 0, 1, b"ERROR\r\n")
        sock.sendto(b"short", source)
        send(sock, source, request, 0, 1, b"END\r\n")
        send(sock, source, request, 0, 1, b"END\r\n")

    with answering(answer) as port:
        result = result_of(load(port, *LOAD))
    assert result["unanswered"] == 1 and result["misses"] == 19


def test_a_reply_whose_middle_is_lost(load):
    """The part that came is forgotten: the next reply begins anew."""
    def answer(sock, source, request, count):
        send(sock, source, request, 0, 3, b"E")
        if count != 5:
            send(sock, source, request, 1, 3, b"N")
        send(sock, source, request, 2, 3, b"D\r\n")

    with answering(answer) as port:
        result = result_of(load(port, *LOAD))
    assert result["unanswered"] == 1 and result["misses"] == 19 and result["wrong"] == 0


def test_a_reply_that_ends_before_its_last_datagram(load):
    def answer(sock, source, request, count):
        send(sock, source, request, 0, 2, b"END\r\n")

    with answering(answer) as port:
        done = load(port, *LOAD)
    assert done.returncode == 1 and "before its last datagram" in done.stderr


def test_a_server_that_never_answers(load):
    with answering(lambda *_: None) as port:
        done = load(port, "--no-preload", "-c4", "-T60", "--timeout=1")
        assert done.returncode == 1 and "has not answered for 1.0 s" in done.stderr
        assert json.loads(done.stdout)["requests"] == 0
        done = load(port, "-c4", "-k8", "--preload-only")
        assert done.returncode == 1 and "8 keys may not be stored" in done.stderr


def test_no_server_on_the_port(load):
    done = load(free_port(), "-T60")
    assert done.returncode == 1 and "Connection refused" in done.stderr


def test_a_request_longer_than_a_datagram(load, udp_port):
    done = load(udp_port, "--value-size=1400", "-n1")
    assert done.returncode == 1 and "does not fit into a datagram" in done.stderr
    done = load(udp_port, "-g200", "-n1")
    assert done.returncode == 1 and "does not fit into a datagram" in done.stderr


@pytest.mark.parametrize(
    "args, words",
    [
        (["--io=tap"], "kernel sockets"),
        (["--tls"], "leave --tls"),
        (["--reconnect=5"], "--reconnect"),
        (["--idle=5"], "--idle"),
        (["-d2"], "--depth"),
        (["-s/tmp/none"], "unix socket"),
    ],
)
def test_wrong_options(load, args, words):
    done = load(1, *args)
    assert done.returncode == 64 and words in done.stderr, done.stderr
