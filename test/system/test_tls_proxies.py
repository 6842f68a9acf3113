# SPDX-License-Identifier: BSD-3-Clause
"""haproxy and stunnel in front of a server with TLS: clients without TLS, encrypted on the way."""

import contextlib
import shutil
import socket
import subprocess
import time

import pytest
import tls
from server import TAP_ADDRESS, free_port
from wire import STORED, VALUE_MAX, Wire, hit, storage

HAPROXY = """
global
    maxconn 100
defaults
    mode tcp
    timeout connect 30s
    timeout client 60s
    timeout server 60s
listen cache
    bind {here}
    server ucached {there} ssl verify required verifyhost localhost ca-file {ca}
"""
STUNNEL = """
foreground = yes
pid =
[cache]
client = yes
accept = {here}
connect = {there}
CAfile = {ca}
verifyChain = yes
checkHost = localhost
"""
PROXIES = {"haproxy": (HAPROXY, ["-db", "-f"]), "stunnel": (STUNNEL, [])}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Certificates; the connections of a server to itself trust them as well."""
    folder = tls.Certificates(tmp_path)
    folder.make("localhost", alt=f"DNS:localhost,IP:127.0.0.1,IP:{TAP_ADDRESS}")
    folder.make("client")
    monkeypatch.setattr(tls, "shared", lambda: folder)
    return folder


def dial(server, address):
    return server.space.run(socket.create_connection, address, 60)


def wait_until_open(server, address, process):
    end = time.monotonic() + 40
    while True:
        try:
            dial(server, address).close()
            return
        except OSError:
            assert process.poll() is None and time.monotonic() < end
        time.sleep(0.05)


@contextlib.contextmanager
def proxy(name, server, folder, authority):
    """The address of a proxy in front of a server that an authority has to have signed."""
    program = shutil.which(name, path="/usr/sbin:/usr/bin")
    if program is None:
        pytest.skip(f"{name} is not installed")
    config, options = PROXIES[name]
    if server.kind == "tap":  # a namespace whose loopback is down
        server.run(["ip", "link", "set", "lo", "up"], check=True)
    address = ("127.0.0.1", free_port())
    path = folder / f"{name}.conf"
    path.write_text(config.format(here="%s:%d" % address, there="%s:%d" % server.address,
                                  ca=authority))  # fmt: skip
    with open(folder / f"{name}.log", "wb") as log:
        process = server.popen(
            [program, *options, str(path)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        wait_until_open(server, address, process)
        yield address
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize("name", PROXIES)
@pytest.mark.parametrize("kind", ["sock", "tap"])
def test_clients_behind_a_proxy(start_server, files, tmp_path, kind, name):
    server = start_server(kind, *tls.server_args(files, "localhost"))
    value = bytes(range(256)) * (VALUE_MAX // 256)
    with proxy(name, server, tmp_path, files.path("ca.pem")) as address:
        wires = [Wire(dial(server, address)) for _ in range(10)]
        for number, wire in enumerate(wires):
            wire.say(storage(b"set", b"k%d" % number, value), STORED)
        for number, wire in enumerate(wires):
            wire.say(b"get k%d\r\n" % number, hit(b"k%d" % number, value) + b"END\r\n")
        wires[0].say(storage(b"set", b"small", b"v"), STORED)
        for wire in wires:
            wire.send(b"get small\r\n" * 1000)
        for wire in wires:
            wire.expect((hit(b"small", b"v") + b"END\r\n") * 1000)
            wire.close()
    assert server.stats()["ssl_handshake_errors"] == "0"


@pytest.mark.parametrize("name", PROXIES)
def test_proxy_that_does_not_trust(start_server, files, tmp_path, name):
    """It refuses the server: its clients are closed without a reply."""
    server = start_server("sock", *tls.server_args(files, "localhost"))
    (tmp_path / "other").mkdir()
    authority = tls.Certificates(tmp_path / "other").path("ca.pem")
    with proxy(name, server, tmp_path, authority) as address:
        with dial(server, address) as sock:
            try:
                sock.sendall(storage(b"set", b"k", b"v"))
                assert sock.recv(100) == b""
            except ConnectionError:
                pass
    assert server.stats()["cmd_set"] == "0"
