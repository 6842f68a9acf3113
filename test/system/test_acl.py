# SPDX-License-Identifier: BSD-3-Clause
"""Access control lists (-o acl_file): what users, certificates and all others may do."""

import signal
import subprocess

import binary_wire as binary
import pytest
import tls
from wire import Wire, settles, wire_to

DENIED = b"CLIENT_ERROR access denied\r\n"
STORED = b"STORED\r\n"

RULES = """\
# identity   prefix  rights
user:alice   app1:   read,write
user:alice   log:*   write
user:bob     *       read
user:ops     *       read,write,admin

*            pub:    read
"""


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "rules"
    path.write_text(RULES)
    return path


@pytest.fixture(params=["sock", "tap"])
def server(request, start_server, rules, tmp_path):
    users = tmp_path / "users"
    users.write_text("".join(f"{name}:pw\n" for name in ("alice", "bob", "ops", "nobody")))
    return start_server(request.param, "-v", "-S", "-Y", users, "-o", f"acl_file={rules}")


def as_user(server, name):
    wire = wire_to(server)
    wire.send(b"set x 0 0 %d\r\n%s pw\r\n" % (len(name) + 3, name.encode()))
    wire.expect(STORED)
    return wire


def test_text_commands(server):
    with as_user(server, "alice") as wire:
        for sent, reply in (
            (b"set app1:k 0 0 1\r\nx\r\n", STORED),
            (b"get app1:k\r\n", b"VALUE app1:k 0 1\r\nx\r\nEND\r\n"),
            (b"gets app1:k pub:k\r\n", None),
            (b"get app1:k app2:k\r\n", DENIED),
            (b"get app1:k app1:k app1:k app2:k app1:k\r\n", DENIED),
            (b"get app2:k\r\n", DENIED),
            (b"get app1\r\n", DENIED),
            (b"set app2:k 0 0 15\r\nget app1:k\r\nxxx\r\n", DENIED),
            (b"set app2:k 0 0 1 noreply\r\nx\r\n", b""),
            (b"set log:k 0 0 1\r\n1\r\n", STORED),
            (b"get log:k\r\n", DENIED),
            (b"incr log:k 1\r\n", DENIED),
            (b"append log:k 0 0 1\r\n2\r\n", STORED),
            (b"touch log:k 0\r\n", b"TOUCHED\r\n"),
            (b"gat 0 log:k\r\n", DENIED),
            (b"gat 0 app1:k\r\n", None),
            (b"delete pub:k\r\n", DENIED),
            (b"delete log:k\r\n", b"DELETED\r\n"),
            (b"mg app1:k v\r\n", b"VA 1\r\nx\r\n"),
            (b"mg pub:k v\r\n", b"EN\r\n"),
            (b"mg pub:k v N30\r\n", DENIED),
            (b"mg YXBwMTpr b v\r\n", b"VA 1\r\nx\r\n"),  # app1:k
            (b"mg YXBwMjpr b v\r\n", DENIED),  # app2:k
            (b"ms app2:k 1\r\nx\r\n", DENIED),
            (b"md app2:k q\r\n", DENIED),
            (b"ma app2:k\r\n", DENIED),
            (b"me app2:k\r\n", DENIED),
            (b"mn\r\n", b"MN\r\n"),
            (b"flush_all\r\n", DENIED),
            (b"flush_all noreply\r\n", b""),
            (b"verbosity 1\r\n", DENIED),
            (b"cache_memlimit 64\r\n", DENIED),
            (b"lru_crawler metadump all\r\n", DENIED),
            (b"watch fetchers\r\n", DENIED),
            (b"stats reset\r\n", DENIED),
            (b"stats cachedump 1 1\r\n", DENIED),
            (b"stats detail dump\r\n", DENIED),
            (b"stats conns\r\n", DENIED),
            (b"stats hotkeys\r\n", DENIED),
            (b"shutdown\r\n", DENIED),
            (b"nonsense\r\n", b"ERROR\r\n"),
        ):
            got = wire.replies(sent)
            assert got == reply if reply is not None else DENIED not in got, sent
        wire.stats("settings")
        assert int(wire.stats()["acl_refusals"]) >= 20


def test_other_users(server):
    with as_user(server, "bob") as wire:
        wire.say(b"get any\r\nset any 0 0 1\r\nx\r\n", b"END\r\n" + DENIED)
    with as_user(server, "nobody") as wire:
        wire.say(b"get pub:x\r\nget any\r\n", b"END\r\n" + DENIED)
    with as_user(server, "ops") as wire:
        wire.say(b"flush_all\r\nset any 0 0 1\r\nx\r\nget any\r\n",
                 b"OK\r\n" + STORED + b"VALUE any 0 1\r\nx\r\nEND\r\n")  # fmt: skip


def test_binary_commands(server):
    with wire_to(server) as wire:

        def status(packet):
            wire.send(packet)
            return binary.read_packet(wire).status

        assert status(binary.request("sasl_auth", b"PLAIN", b"\0alice\0pw")) == 0
        assert status(binary.store("set", b"app1:k", b"v")) == 0
        assert status(binary.request("get", b"app1:k")) == 0
        assert status(binary.store("set", b"app2:k", b"v" * 1000)) == 0x20
        assert status(binary.request("getk", b"app2:k")) == 0x20
        assert status(binary.request("deleteq", b"app2:k")) == 0x20
        assert status(binary.touch("gatq", b"log:k", 0)) == 0x20
        assert status(binary.request("flush")) == 0x20
        assert status(binary.request("noop")) == 0
        assert status(binary.request("sasl_auth", b"PLAIN", b"\0bob\0pw")) == 0x20
        assert status(binary.request("sasl_auth", b"PLAIN", b"\0bob\0pw")) == 0
        assert status(binary.request("get", b"app2:k")) == 1
        assert status(binary.store("set", b"app1:k", b"v")) == 0x20


def test_requests_in_pieces(server):
    sent = b"set app2:k 0 0 1\r\nx\r\nget app1:k\r\nset app1:k 0 0 1\r\nx\r\nget app2:k app1:k\r\n"
    with as_user(server, "alice") as wire:
        for byte in sent:
            wire.send(bytes([byte]))
        wire.expect(DENIED + b"END\r\n" + STORED + DENIED)
    with as_user(server, "alice") as wire:
        wire.send(sent)
        wire.expect(DENIED + b"VALUE app1:k 0 1\r\nx\r\nEND\r\n" + STORED + DENIED)


def test_reload(server, rules):
    """SIGHUP changes the rights of open connections; a file with an error changes none."""
    with as_user(server, "bob") as wire:
        wire.say(b"get app1:k\r\n", b"END\r\n")
        rules.write_text("user:bob pub: read\n")
        server.signal(signal.SIGHUP)
        assert settles(lambda: wire.replies(b"get app1:k\r\n") == DENIED)
        rules.write_text("user:bob * read\nuser:bob * all\n")
        server.signal(signal.SIGHUP)
        assert settles(lambda: f"{rules}:2: rights are" in server.log())
        wire.say(b"get app1:k\r\nget pub:k\r\n", DENIED + b"END\r\n")


def test_refusals_are_logged(server):
    with as_user(server, "alice") as wire:
        wire.say(b"get app2:k\r\n", DENIED)
        assert settles(lambda: "(user:alice): get app2:k refused" in server.log())
        wire.say(b"get app2:k\r\n" * 500, DENIED * 500)
        wire.say(b"flush_all\r\n", DENIED)
        assert server.log().count("refused") < 500


@pytest.mark.parametrize(
    "text, message",
    [
        ("\n# x\nuser:a b\n", "3: a line is IDENTITY PREFIX RIGHTS"),
        ("user:a * read x\n", "1: a line is"),
        ("alice * read\n", "1: an identity is"),
        ("user: * read\n", "1: an identity is"),
        ("user:a * read,\n", "1: rights are"),
        ("* a: admin\n", "1: admin is for the prefix *"),
        (f"user:{'a' * 300} * read\n", "1: an identity has at most"),
        (f"* {'a' * 251} read\n", "1: a prefix has at most"),
        (f"* {'a' * 1100} read\n", "1: the line is longer"),
        ("* * read\n" * 1025, "1025: there are more than 1024"),
    ],
)
def test_errors_of_the_file(ucached_path, rules, text, message):
    rules.write_text(text)
    command = [ucached_path, "--io=sock", "-l", "127.0.0.1", "-p", "0", "-o", f"acl_file={rules}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"{rules}:{message}" in done.stderr


def test_no_file(ucached_path, tmp_path):
    done = subprocess.run([ucached_path, "-p", "0", "-o", f"acl_file={tmp_path / 'no'}"],
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 1 and "cannot be opened" in done.stderr


def test_largest_file(start_server, rules):
    """1024 rules, of which the last one decides."""
    rules.write_text("user:x none: read\n" * 1023 + "* last: read\n")
    server = start_server("sock", "-o", f"acl_file={rules}")
    with wire_to(server) as wire:
        wire.say(b"get last:k\r\nget none:k\r\n", b"END\r\n" + DENIED)


@pytest.mark.parametrize("kind, threads", [("sock", 0), ("tap", 0), ("tap", 1)])
def test_certificates(start_server, rules, kind, threads):
    """The names of a verified certificate are identities, in a resumed session too."""
    rules.write_text("cert:client app1: read,write\ncert:other * read\n")
    files = tls.shared()
    words = f"ssl_verify_mode=2,ssl_ca_cert={files.path('ca.pem')},acl_file={rules}"
    server = start_server(kind, *tls.server_args(), "-o", f"{words},handshake_threads={threads}")
    context = tls.context(client="client")
    session = None
    for resumed in (False, True):
        with Wire(tls.Socket(server.space.run(server._dial, 20), context, session)) as wire:
            wire.say(b"get app1:k\r\nget app2:k\r\n", b"END\r\n" + DENIED)
            assert wire.sock.tls.session_reused == resumed
            session = wire.sock.tls.session


def certificate(folder, names):
    """A certificate with these alternative names, signed by the authority of all tests."""
    files = tls.shared()
    key, request, cert, extension = (folder / f"san.{end}" for end in ("key", "csr", "pem", "ext"))
    extension.write_text("subjectAltName=" + ",".join(names) + "\n")
    tls._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-keyout", key, "-out", request, "-subj", "/CN=common")  # fmt: skip
    tls._openssl("x509", "-req", "-in", request, "-CA", files.path("ca.pem"),
                 "-CAkey", files.path("ca.key"), "-CAcreateserial",
                 "-extfile", extension, "-out", cert)  # fmt: skip
    return cert, key


@pytest.fixture(params=[0, 1])
def start_with_rules(request, start_server, rules):
    """Starts a server that requests certificates, and returns connections with one or without.

    Its handshakes are made by the workers, or by a thread.
    """

    def start(text):
        rules.write_text(text)
        ca = tls.shared().path("ca.pem")
        words = f"ssl_verify_mode=1,ssl_ca_cert={ca},acl_file={rules}"
        words += f",handshake_threads={request.param}"
        server = start_server("sock", *tls.server_args(), "-o", words)

        def connect(*chain):
            context = tls.context()
            if chain:
                context.load_cert_chain(*chain)
            return Wire(tls.Socket(server._dial(20), context))

        return connect

    return start


def test_alternative_names(start_with_rules, tmp_path):
    """DNS names, addresses of mail and URIs of a certificate; without one there is no identity."""
    connect = start_with_rules(
        "cert:web.example dns: read\ncert:spiffe://example/batch uri: read\n"
        "cert:a@b.c mail: read\ncert:common cn: read\n"
    )
    with connect() as wire:
        wire.say(b"get dns:k\r\n", DENIED)
    names = ["DNS:web.example", "URI:spiffe://example/batch", "email:a@b.c"]
    with connect(*certificate(tmp_path, names)) as wire:
        wire.say(b"get dns:k\r\nget uri:k\r\nget mail:k\r\nget cn:k\r\nget other\r\n",
                 b"END\r\n" * 4 + DENIED)  # fmt: skip


def test_names_of_a_certificate_are_bounded(start_with_rules, tmp_path):
    """Names beyond 4 KiB, and longer than 250 bytes, give no rights; the others do."""
    names = [f"{number:03}.{'n' * 60}.example" for number in range(100)]
    long = ".".join(["l" * 60] * 5)
    connect = start_with_rules(
        "".join(f"cert:{name} {name[:3]}: read\n" for name in names) + f"cert:{long[:250]} l read\n"
    )
    chain = certificate(tmp_path, [f"DNS:{name}" for name in (long, *names)])
    with connect(*chain) as wire:
        wire.say(b"get 000:k\r\nget 040:k\r\nget 099:k\r\nget l\r\n",
                 b"END\r\n" * 2 + DENIED * 2)  # fmt: skip
