# SPDX-License-Identifier: BSD-3-Clause
"""The own stack over IPv6, and large datagrams of both families, with the Linux kernel as peer."""

import errno
import random
import socket
import struct
import subprocess
import time
import types

import netspace
import pytest
import rawnet
from server import IO_TIMEOUT, TAP_ADDRESS, TAP_PORT, Connection

ADDRESS6 = "fd00:100::20"
HOST6 = "fd00:100::10"
BOTH = (
    f"--ip={TAP_ADDRESS}/24",
    f"--ip={ADDRESS6}/64",
    "--host-ip=10.100.0.10/24",
    f"--host-ip={HOST6}/64",
)
ECHO = {socket.AF_INET: (8, 0), socket.AF_INET6: (128, 129)}
VALUE = random.Random(6).randbytes(1_000_000)

pytestmark = pytest.mark.server_args(*BOTH)


def connect6(server, port=TAP_PORT, timeout=60):
    """Waits until the kernel's own address on a new link can be used."""
    end = time.monotonic() + timeout
    while True:
        try:
            sock = server.space.run(socket.create_connection, (ADDRESS6, port), timeout)
            return Connection(sock)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL or time.monotonic() > end:
                raise
        time.sleep(0.01)


def ping(server, family, address, size, ident=7):
    """Sends an echo request with `size` bytes of data; returns the data of the reply."""
    protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
    request, reply = ECHO[family]
    data = random.Random(size).randbytes(size)
    message = struct.pack("!BBHHH", request, 0, 0, ident, size & 0xFFFF) + data
    if family == socket.AF_INET:  # over IPv6 the kernel does it
        message = message[:2] + struct.pack("!H", rawnet.checksum(message)) + message[4:]
    sock = server.space.run(socket.socket, family, socket.SOCK_RAW, protocol)
    with sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        sock.settimeout(IO_TIMEOUT)
        sock.sendto(message, (address, 0))
        end = time.monotonic() + IO_TIMEOUT
        while time.monotonic() < end:
            answer = sock.recv(70000)
            if family == socket.AF_INET:
                answer = answer[(answer[0] & 15) * 4 :]
            if answer[0] == reply and answer[4:6] == struct.pack("!H", ident):
                assert answer[8:] == data
                return
    raise AssertionError("no reply")


@pytest.fixture
def server6(server_tap):
    """The server once its IPv6 address is in use."""
    with connect6(server_tap) as connection:
        assert connection.ask(b"version\r\n").startswith(b"VERSION")
    return server_tap


@pytest.mark.parametrize("size", [0, 1, 56, 1400, 1452, 1453, 4000, 20001, 60000])
def test_ping6(server6, size):
    ping(server6, socket.AF_INET6, ADDRESS6, size)


@pytest.mark.parametrize("size", [0, 1, 56, 1472, 1473, 4000, 20001, 60000])
def test_ping4(server_tap, size):
    ping(server_tap, socket.AF_INET, TAP_ADDRESS, size)


def test_set_and_get(server6):
    with connect6(server6) as connection:
        assert connection.ask(b"set k 0 0 5\r\nhello\r\n") == b"STORED\r\n"
        connection.send(b"get k\r\n")
        assert connection.until(b"END\r\n") == b"VALUE k 0 5\r\nhello\r\nEND\r\n"


def test_large_values(server6):
    with connect6(server6) as one, connect6(server6) as other:
        for number in range(5):
            one.send(b"set v%d 0 0 %d\r\n" % (number, len(VALUE)) + VALUE + b"\r\n")
            assert one.line() == b"STORED\r\n"
            other.send(b"get v%d\r\n" % number)
            assert other.line() == b"VALUE v%d 0 %d\r\n" % (number, len(VALUE))
            assert other.exactly(len(VALUE)) == VALUE
            assert other.line() == b"\r\n"
            assert other.line() == b"END\r\n"


@pytest.mark.server_args(*BOTH, "--fault=loss=2%,reorder=2%,seed=6")
def test_large_values_over_a_bad_link(server_tap):
    with connect6(server_tap, timeout=60) as connection:
        connection.send(b"set v 0 0 %d\r\n" % len(VALUE) + VALUE + b"\r\nget v\r\n")
        assert connection.line() == b"STORED\r\n"
        connection.line()
        assert connection.exactly(len(VALUE)) == VALUE


def test_many_connections_of_both_families(server6):
    connections = []
    for number in range(100):
        connections.append(connect6(server6) if number % 2 else server6.connect())
    for number, connection in enumerate(connections):
        assert connection.ask(b"set n%d 0 0 1\r\nx\r\n" % number) == b"STORED\r\n"
    stats = server6.stats("ustack")
    assert int(stats["conns_open"]) >= 100
    for connection in connections:
        connection.close()


def test_datagram_to_a_closed_port_gets_port_unreachable(server6):
    with pytest.raises(ConnectionRefusedError):
        connect6(server6, port=TAP_PORT + 1)
    for family, address in ((socket.AF_INET6, ADDRESS6), (socket.AF_INET, TAP_ADDRESS)):
        sock = server6.space.run(socket.socket, family, socket.SOCK_DGRAM)
        with sock:
            sock.settimeout(IO_TIMEOUT)
            sock.connect((address, TAP_PORT + 1))
            sock.send(b"request")
            with pytest.raises(ConnectionRefusedError):
                sock.recv(100)


@pytest.mark.server_args(*BOTH, "-U", TAP_PORT)
def test_udp(server6):
    sock = server6.space.run(socket.socket, socket.AF_INET6, socket.SOCK_DGRAM)
    with sock:
        sock.settimeout(IO_TIMEOUT)
        sock.connect((ADDRESS6, TAP_PORT))
        sock.send(struct.pack("!HHHH", 5, 0, 1, 0) + b"get none\r\n")
        assert sock.recv(1500) == struct.pack("!HHHH", 5, 0, 1, 0) + b"END\r\n"


def test_the_kernel_knows_our_address(server6):
    """The neighbour entry of the kernel after traffic in both directions."""
    shown = server6.run(
        ["ip", "-6", "neigh", "show", "dev", "ucached0"], capture_output=True, text=True
    ).stdout
    line = next(line for line in shown.splitlines() if line.startswith(ADDRESS6))
    assert "lladdr" in line and "FAILED" not in line


@pytest.mark.server_args(f"--ip={ADDRESS6}/64", f"--host-ip={HOST6}/64")
def test_without_ip4(request, ucached_path, tap_obstacle):
    """A server with nothing but IPv6."""
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    space = netspace.NetSpace()
    arguments = request.node.get_closest_marker("server_args").args
    process = space.popen(
        [ucached_path, "--io=tap", *arguments], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    try:
        line = process.stderr.readline().decode()
        while line and ADDRESS6 not in line:  # warnings come before
            line = process.stderr.readline().decode()
        assert ADDRESS6 in line
        with connect6(types.SimpleNamespace(space=space)) as connection:
            assert connection.ask(b"version\r\n").startswith(b"VERSION")
    finally:
        process.terminate()
        assert process.wait(20) == 0
