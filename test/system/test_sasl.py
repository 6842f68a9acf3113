# SPDX-License-Identifier: BSD-3-Clause
"""SASL (-S): which commands authenticate, and what is refused before. The replies are those that
memcached 1.6.45 with Cyrus SASL gives, with a file of users in MEMCACHED_SASL_PWDB."""

import signal
import socket

import binary_wire as binary
import bmemcached
import pytest
from wire import settles, wire_to

AUTHENTICATED = (0, b"Authenticated")
DENIED = (0x20, b"Auth failure.")
CONTINUE = (0x21, b"")
INVALID = (4, b"Invalid arguments")

USERS = "alice:secret\nbob:two:extra\ncarol:pw word\neve@other:x\n"


def message(name, password, authority=""):
    return f"{authority}\0{name}\0{password}".encode()


def auth(data, mechanism=b"PLAIN"):
    return binary.request("sasl_auth", mechanism, data)


def step(data, mechanism=b"PLAIN"):
    return binary.request("sasl_step", mechanism, data)


GOOD, BAD = message("alice", "secret"), message("alice", "bad")

# What a letter of DIALOGUES sends, and what its answers mean.
SENT = {
    "A": auth(GOOD), "B": auth(BAD), "E": auth(b""), "X": auth(b"", b"FOO"), "S": step(GOOD),
    "Z": step(b""), "L": binary.request("sasl_list"), "N": binary.request("noop"),
}  # fmt: skip
ANSWERS = {0: "+", 0x20: "-", 0x21: "c"}

DIALOGUES = {
    "AN": "++", "BN": "--", "AAN": "+--", "AAAN": "+-++", "AAAAN": "+-+--", "ABAN": "+-++",
    "ASAN": "+---", "AXAN": "+-++", "AEAN": "+c--", "AESN": "+c--", "AEASN": "+c---",
    "ALSN": "++--", "ELSN": "c+++", "EASN": "c+--", "EASAN": "c+---", "EBSN": "c---",
    "EXSN": "c---", "XSN": "---", "BSN": "---", "EEN": "cc-", "EESN": "cc++", "ESAN": "c+--",
    "ESEN": "c+c-", "EZN": "c--", "EZSN": "c-++", "AEEAN": "+cc--", "AXXAN": "+--++",
    "AZAN": "+---", "ALAN": "++--", "ALN": "++-", "ESXAN": "c+-++",
}  # fmt: skip


@pytest.fixture
def users(tmp_path):
    path = tmp_path / "users"
    path.write_text(USERS)
    return path


@pytest.fixture(params=["sock", "tap"])
def server(request, start_server, users):
    return start_server(request.param, "-S", "-Y", users)


@pytest.fixture
def pwdb_server(start_server, users, monkeypatch):
    monkeypatch.setenv("MEMCACHED_SASL_PWDB", str(users))
    return start_server("sock", "-S")


def answer(wire, packet):
    wire.send(packet)
    reply = binary.read_packet(wire)
    assert reply.opcode == packet[1] and reply.extras == b"" and reply.key == b""
    return reply.status, reply.value


def attempt(server, packet):
    """What the command answers on a new connection, and whether it has authenticated."""
    with wire_to(server) as wire:
        return answer(wire, packet), answer(wire, binary.request("noop"))[0] == 0


def test_dialogues(server):
    for letters, expected in DIALOGUES.items():
        with wire_to(server) as wire:
            got = "".join(ANSWERS[answer(wire, SENT[letter])[0]] for letter in letters)
            assert got == expected, letters
            if got[-1] == "-":
                wire.ends_with(b"")


def test_messages(server):
    for data in (GOOD, message("carol", "pw word"), message("eve@other", "x"),
                 message("alice", "secret", "alice"), message("bob", "two:extra")):  # fmt: skip
        assert attempt(server, auth(data)) == (AUTHENTICATED, True), data
        assert attempt(server, auth(data, b"plain")) == (AUTHENTICATED, True), data
    for data in (BAD, message("alice", "secr"), message("alice", "secret", "bob"), b"x", b"\0\0",
                 b"\0alice", message("alice", ""), GOOD + b"\0", GOOD + b"\0\0",
                 message("bob", "two"), message("", "secret"), message("eve", "x"),
                 message("alice", "x" * 300)):  # fmt: skip
        assert attempt(server, auth(data)) == (DENIED, False), data
    assert attempt(server, auth(GOOD, b"CRAM-MD5")) == (DENIED, False)
    assert attempt(server, auth(GOOD, b"X" * 32)) == (DENIED, False)
    assert attempt(server, auth(GOOD, b"X" * 33)) == (INVALID, False)
    with wire_to(server) as wire:
        assert answer(wire, auth(b"x" * 1_000_000)) == (0x82, b"Out of memory")
        assert answer(wire, auth(GOOD)) == AUTHENTICATED
        assert answer(wire, auth(GOOD, b"X" * 33)) == INVALID
        assert answer(wire, binary.request("noop")) == (0, b"")


def test_nothing_else_before(server):
    """Not even what is no command; version, and bad lengths of the commands of SASL, excepted."""
    closing = [
        (binary.request(name, b"k"), DENIED) for name in ("get", "getq", "delete", "touch")
    ] + [(binary.request(name), DENIED) for name in ("noop", "quit", "quitq", "stat", "flush")]
    closing.append((binary.request("noop", b"k"), DENIED))
    closing.append((b"\x80\x50" + bytes(22), DENIED))
    closing.append((b"\x80\x00\x00\x01" + bytes(20), (0x81, b"Unknown command")))
    closing.append((binary.request("version", b"k"), INVALID))
    closing.append((binary.request("sasl_list", b"k"), INVALID))
    closing.append((binary.request("sasl_auth"), INVALID))
    closing.append((binary.request("sasl_auth", b"PLAIN", b"", b"ext!"), INVALID))
    for packet, expected in closing:
        with wire_to(server) as wire:
            assert answer(wire, packet) == expected, packet
            wire.ends_with(b"")
    with wire_to(server) as wire:
        assert answer(wire, binary.request("version")) == (0, b"1.6.45")
        assert answer(wire, binary.request("sasl_list")) == (0, b"PLAIN")


def test_any_segmentation(server):
    """The bytes of a dialogue arrive one by one, or all together."""
    dialogue = auth(BAD) + auth(GOOD) + binary.store("set", b"k", b"v") + binary.request("noop")
    expected = [0x20, 0, 0, 0]
    with wire_to(server) as wire:
        for byte in dialogue:
            wire.send(bytes([byte]))
        assert [binary.read_packet(wire).status for _ in expected] == expected
    with wire_to(server) as wire:
        wire.send(dialogue)
        assert [binary.read_packet(wire).status for _ in expected] == expected


def test_text_and_binary_on_one_port(server, users):
    """With -S and -Y each protocol authenticates in its own way; SIGHUP reads the users again."""
    with wire_to(server) as wire:
        wire.send(b"set a 0 0 12\r\nalice secret\r\n")
        wire.expect(b"STORED\r\n")
        stats, settings = wire.stats(), wire.stats("settings")
        assert (stats["auth_cmds"], stats["auth_errors"]) == ("1", "0")
        assert (settings["auth_enabled_sasl"], settings["auth_enabled_ascii"]) == ("yes", "yes")
    users.write_text("alice:new\n")
    server.signal(signal.SIGHUP)
    assert settles(lambda: attempt(server, auth(message("alice", "new"))) == (AUTHENTICATED, True))
    assert attempt(server, auth(GOOD)) == (DENIED, False)


def test_file_of_memcached(pwdb_server, users):
    """A password ends at a second colon; names have the realm of the host, or none."""
    host = socket.gethostname()
    for data in (message("bob", "two"), message("bob", "two:extra"), GOOD):
        assert attempt(pwdb_server, auth(data)) == (AUTHENTICATED, True), data
    assert attempt(pwdb_server, auth(message("bob", "tw"))) == (DENIED, False)
    assert attempt(pwdb_server, auth(message(f"alice@{host}", "secret"))) == (DENIED, False)
    users.write_text(f"alice@{host}:secret\n")
    pwdb_server.signal(signal.SIGHUP)
    full = auth(message(f"alice@{host}", "secret"))
    assert settles(lambda: attempt(pwdb_server, full) == (AUTHENTICATED, True))
    assert attempt(pwdb_server, auth(GOOD)) == (AUTHENTICATED, True)
    authority = message("alice", "secret", f"alice@{host}")
    assert attempt(pwdb_server, auth(authority)) == (AUTHENTICATED, True)
    with wire_to(pwdb_server) as wire:
        wire.send(b"version\r\n")
        wire.ends_with(b"")


def test_client(server):
    """python-binary-memcached with a user name and a password."""

    def check():
        address = f"{server.address[0]}:{server.address[1]}"
        client = bmemcached.Client([address], "alice", "secret", socket_timeout=60)
        assert client.set("k", "v") and client.get("k") == "v"
        client.disconnect_all()
        client = bmemcached.Client([address], "alice", "wrong", socket_timeout=60)
        with pytest.raises(bmemcached.exceptions.MemcachedException, match="Auth failure"):
            client.get("k")
        client.disconnect_all()

    server.space.run(check)
