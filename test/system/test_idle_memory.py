# SPDX-License-Identifier: BSD-3-Clause
"""Memory of the server for an idle connection over kernel sockets."""

import pathlib
import resource
import socket

import pytest
import server as servers
import tls
from wire import rss_kib

WARM, IDLE = 200, 3000  # connections
CONN_BYTES_MAX = 600
TLS_BYTES_MAX = 300  # beyond those without TLS
KEYS_CACHED = 4096  # TLS_CACHED_KEYS_MAX: two for each connection
VALUE = bytes(10_000)
TURNS, MISSES = 100, 6000  # 60 KB of requests fill several of the 128 receive buffers of 16 KB


@pytest.fixture(autouse=True)
def room(ucached_path):
    """Enough open files for both sides, and a build whose memory is its own."""
    if b"__asan_init" in pathlib.Path(ucached_path).read_bytes():
        pytest.skip("the address sanitizer keeps what is freed")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * (WARM + IDLE):
        pytest.skip(f"only {hard} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * (WARM + IDLE)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def used_connections(server, count):
    """Connections after a SET in two segments and pipelined GETs."""
    sockets = []
    for _ in range(count):
        sock = socket.create_connection(server.address, 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if server.tls:
            sock = tls.Socket(sock, server.tls)
        sock.sendall(b"set key 0 0 %d\r\n" % len(VALUE) + VALUE[:5000])
        sock.sendall(VALUE[5000:] + b"\r\n" + b"get key\r\n" * 3)
        wanted = len(b"STORED\r\n") + 3 * len(b"VALUE key 0 10000\r\n\r\nEND\r\n" + VALUE)
        while wanted > 0:
            wanted -= len(sock.recv(1 << 20))
        sockets.append(sock)
    return sockets


def touch_buffers(server):
    """Makes the server write to every page of the buffers that all connections share."""
    with server.connect() as connection:
        for _ in range(TURNS):
            connection.send(b"get none\r\n" * MISSES)
            connection.exactly(len(b"END\r\n") * MISSES)


def idle_bytes(server):
    """Bytes for each idle connection, beyond the memory that a few of them need."""
    touch_buffers(server)
    sockets = used_connections(server, WARM)
    before = rss_kib(server.pid)
    sockets += used_connections(server, IDLE)
    grown = (rss_kib(server.pid) - before) * 1024
    for sock in sockets:
        sock.close()
    return grown / IDLE


@pytest.mark.parametrize("io", ["sock", "uring"])
def test_an_idle_connection_keeps_no_buffers(start_server, io, monkeypatch):
    monkeypatch.setattr(servers, "SOCK", io)
    taken = idle_bytes(start_server("sock", "-c", WARM + IDLE + 100, "-t1", "-m64"))
    assert 0 < taken < CONN_BYTES_MAX


def test_no_more_than_memcached(start_server, memcached_path):
    args = ("-c", WARM + IDLE + 100, "-t1", "-m64")
    theirs = idle_bytes(start_server("memcached", *args))
    assert idle_bytes(start_server("sock", *args)) <= theirs


def test_tls_adds_little(start_server, monkeypatch):
    """OpenSSL's part, 14 KB, is freed after the handshake. The cache of keys is full before."""
    args = ("-c", 4 * IDLE, "-t1", "-m64")
    monkeypatch.setattr(servers, "SOCK", "sock")
    plain = idle_bytes(start_server("sock", *args))
    monkeypatch.setitem(globals(), "WARM", KEYS_CACHED // 2 + 100)
    taken = idle_bytes(start_server("sock", *args, *tls.server_args()))
    assert taken < plain + TLS_BYTES_MAX
