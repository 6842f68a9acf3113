# SPDX-License-Identifier: BSD-3-Clause
"""Clients of memcached in other languages over TLS, whose programs are in clients/.

Each stores, reads and deletes an item, a value of 1 MB and many items, and verifies the certificate
and the name of the server.
"""

import os
import pathlib

import pytest
import tls
from server import TAP_ADDRESS

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "clients"  # by `make build/clients/ready`
COMMANDS = {
    "gomemcache": [str(BUILT / "gomemcache")],
    "memcache-client": ["node", str(BUILT / "client.js")],
    "elasticache-java-cluster-client": ["java", "-cp", f"{BUILT}:{BUILT}/*", "Client"],
}


@pytest.fixture(scope="module")
def files(make_open_folder):
    """Certificates, of which that of the server has its addresses in it."""
    if not (BUILT / "ready").exists():
        pytest.skip("no build/clients/ready: make it")
    folder = tls.Certificates(make_open_folder())
    folder.make("localhost", alt=f"DNS:localhost,IP:127.0.0.1,IP:{TAP_ADDRESS}")
    folder.make("unnamed")
    for path in folder.folder.iterdir():
        os.chmod(path, 0o644)
    return folder


def run(server, name, authority):
    command = [*COMMANDS[name], "%s:%d" % server.address, authority]
    return server.run(command, capture_output=True, text=True, timeout=100)


def served(start_server, files, kind, name="localhost"):
    return start_server(kind, *tls.server_args(files, name))


@pytest.fixture
def trusted(monkeypatch, files):
    """The connections of a server to itself trust these certificates as well."""
    monkeypatch.setattr(tls, "shared", lambda: files)
    files.make("client")


@pytest.mark.parametrize("client", COMMANDS)
@pytest.mark.parametrize("kind", ["sock", "tap"])
def test_client(start_server, files, trusted, kind, client):
    server = served(start_server, files, kind)
    done = run(server, client, files.path("ca.pem"))
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    stats = server.stats("tls")
    assert int(stats["own_records"]) == int(stats["handshakes"]) > 1
    assert server.stats()["ssl_handshake_errors"] == "0"


@pytest.mark.parametrize("client", COMMANDS)
def test_client_that_does_not_trust(start_server, files, trusted, tmp_path, client):
    server = served(start_server, files, "sock")
    done = run(server, client, tls.Certificates(tmp_path).path("ca.pem"))
    assert done.returncode != 0 and done.stdout == "" and done.stderr != ""
    assert server.stats()["cmd_set"] == "0"


@pytest.mark.parametrize("client", COMMANDS)
def test_certificate_without_the_name(start_server, files, trusted, client):
    server = served(start_server, files, "sock", "unnamed")
    done = run(server, client, files.path("ca.pem"))
    assert done.returncode != 0 and done.stdout == "" and done.stderr != ""
    assert server.stats()["cmd_set"] == "0"
