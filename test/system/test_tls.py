# SPDX-License-Identifier: BSD-3-Clause
"""TLS from outside: listeners, certificates, versions, sessions, errors, statistics."""

import contextlib
import hashlib
import hmac
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import ssl
import subprocess

import netspace
import pytest
import server as servers
import tls
from server import Connection, free_port
from wire import STORED, VALUE_MAX, hit, settles, storage, wire_to

ARGS = tls.server_args()
TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.fixture
def folder(tmp_path):
    """Certificates of this test, which it may change."""
    return tls.Certificates(tmp_path)


@pytest.fixture(params=["sock", "tap"])
def secured(request, start_server):
    return start_server(request.param, *ARGS)


@pytest.fixture(params=["sock", "uring", "tap", "split", "merge"])
def any_loop(request, start_server, monkeypatch):
    """The same on each loop of a worker."""
    if request.param in ("sock", "uring"):
        monkeypatch.setattr(servers, "SOCK", request.param)
        return start_server("sock", *ARGS)
    model = "unified" if request.param == "tap" else request.param
    return start_server("tap", *ARGS, f"--threading={model}")


def dial(address, context, session=None, timeout=60):
    """A Connection with TLS to an address of this machine."""
    return Connection(tls.Socket(socket.create_connection(address, timeout), context, session))


def certificate_of(server):
    """The certificate that a new connection is shown (DER)."""
    with dial(server.address, tls.context()) as connection:
        return connection.sock.tls.getpeercert(True)


def refused(address, context):
    """Whether a client gets no answer: an alert, or the end of the connection."""
    try:
        with dial(address, context) as connection:
            connection.ask(b"version\r\n")
    except (ssl.SSLError, EOFError, ConnectionResetError):
        return True
    return False


# ---- clients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_large_values_go_both_ways(any_loop, version):
    value = os.urandom(VALUE_MAX)
    any_loop.tls = tls.context(version=version)
    with wire_to(any_loop, timeout=60) as wire:
        for _ in range(3):
            wire.say(storage(b"set", b"k", value), STORED)
            wire.say(b"get k k\r\n", hit(b"k", value) * 2 + b"END\r\n")


def test_pipelined_requests(any_loop):
    """Records with many requests, and requests in many records; who protects them is counted."""
    with wire_to(any_loop) as wire:
        wire.say(storage(b"set", b"k", b"v"), STORED)
        for count in (1, 100, 3000):
            wire.say(b"get k\r\n" * count, (hit(b"k", b"v") + b"END\r\n") * count)
        for at in range(7):
            wire.send(b"get k\r\n"[at : at + 1])
        wire.expect(hit(b"k", b"v") + b"END\r\n")
    assert int(any_loop.stats("tls")["own_records"]) > 0


def test_client_that_never_reads_blocks_no_other(any_loop):
    secured = any_loop
    with wire_to(secured) as wire, wire_to(secured) as other:
        wire.say(storage(b"set", b"k", b"v" * 500_000), STORED)
        wire.send(b"get k\r\n" * 200)
        assert settles(lambda: int(secured.stats("tls")["records_out"]) > 10)
        for _ in range(20):
            other.say(b"get none\r\n", b"END\r\n")
        for _ in range(200):
            wire.expect(hit(b"k", b"v" * 500_000) + b"END\r\n")


def test_openssl_client(secured):
    command = ["openssl", "s_client", "-quiet", "-verify_return_error", "-CAfile",
               tls.shared().path("ca.pem"), "-connect", "%s:%d" % secured.address]  # fmt: skip
    requests = b"set k 0 0 2\r\nab\r\nget k\r\nquit\r\n"
    done = secured.run(command, input=requests, capture_output=True)
    assert done.stdout == STORED + hit(b"k", b"ab") + b"END\r\n", done.stderr


def test_pymemcache(secured):
    client = secured.client()
    client.set("k", b"v")
    assert client.get("k") == b"v"
    client.close()


def test_help_names_the_option(ucached_path):
    done = subprocess.run([ucached_path, "-h"], capture_output=True, timeout=60)
    assert b"enable-ssl" in done.stdout and b"ssl_chain_cert" in done.stdout


def test_quick_start(ucached_path, tmp_path):
    """The commands of the page, as they are pasted."""
    if reason := netspace.why_not():
        pytest.skip(reason)
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "tls.md").read_text()
    block = page.partition("## Quick start")[2].split("\n\n")[2]
    assert "openssl req" in block and "kill" in block
    os.symlink(ucached_path, tmp_path / "ucached")
    space = netspace.NetSpace()
    try:
        space.run(subprocess.run, ["ip", "link", "set", "lo", "up"], check=True, timeout=60)
        done = space.run(
            subprocess.run, ["sh", "-e", "-c", block], cwd=tmp_path, capture_output=True,
            timeout=60, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        )  # fmt: skip
    finally:
        space.close()
    assert done.returncode == 0, done.stderr
    assert done.stdout == STORED + hit(b"hello", b"world") + b"END\r\n", done.stderr


@pytest.fixture
def load(ucached_path):
    """Runs ucload with TLS; returns its result, or its errors unless it succeeds."""
    program = pathlib.Path(ucached_path).parent.parent / "ucload" / "ucload"

    def run(server, *args, statuses=(0,)):
        command = [program, "--server=%s:%d" % server.address, "--json", "-n2000", "-k200", "-c8"]
        done = server.run([*map(str, command), "--tls", *args], capture_output=True, timeout=60)
        assert done.returncode in statuses, done.stderr
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr.decode()

    return run


@pytest.mark.parametrize(
    "kind, version", [("sock", "2"), ("sock", "3"), ("tap", "3"), ("memcached", "2")]
)
def test_ucload(load, start_server, kind, version):
    server = start_server(kind, *ARGS, "-o", f"ssl_min_version={version}")
    ca = f"--ca={tls.shared().path('ca.pem')}"
    mix = ["-m", "get:5,set:3,delete:1", "-V", "--value-size=1-100000"]
    if kind == "memcached":  # version 1.6.18 loses track of pipelined requests with TLS
        assert load(server, ca, "-m", "get:5,set:3,delete:1", "-V")["requests"] == 2000
        return
    assert load(server, ca, "-d16", *mix)["requests"] == 2000
    assert load(server, ca, "-d4", "-t2", "--reconnect=10", *mix)["requests"] == 2000


def test_ucload_over_its_own_stack(ucached_path, tap_obstacle):
    """The own stack for the client, kernel sockets for the server."""
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    space = netspace.NetSpace()
    server = space.popen(
        [ucached_path, "--io=sock", "-l", "0.0.0.0", "-p", "11211", *ARGS],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    program = pathlib.Path(ucached_path).parent.parent / "ucload" / "ucload"
    command = [program, "--io=tap", "-s10.100.0.10", "-c8", "-k200", "-V", "--json", "--tls",
               f"--ca={tls.shared().path('ca.pem')}"]  # fmt: skip
    mix = ["-m", "get:5,set:3,delete:1"]
    try:
        assert any("listening on" in line for line in iter(server.stderr.readline, ""))
        for more in (["-n20000"], ["-n20000", "-d16", *mix, "--value-size=0-3000"],
                     ["-n300", "-k20", "-m", "get,set", "--value-size=300000"],
                     ["-n300", "-k20", "-m", "get,set", "--value-size=300000", "--tls-resume"],
                     ["-n2000", "-t2", "--reconnect=7", *mix],
                     ["-n1000", "--reconnect=1", "--tls-resume"]):  # fmt: skip
            done = space.run(subprocess.run, command + more, capture_output=True, timeout=60)
            assert done.returncode == 0, done.stderr
            result = json.loads(done.stdout)
            assert result["wrong"] == 0 and result["requests"] >= 300
    finally:
        server.kill()
        server.communicate()
        space.close()


def test_ucload_resumes_sessions(load, start_server):
    server = start_server("sock", *ARGS)
    load(server, "--reconnect=1")
    before = server.stats("tls")
    assert before["handshakes_resumed"] == "0" and int(before["handshakes"]) >= 2000
    load(server, "--reconnect=1", "--tls-resume")
    after = server.stats("tls")
    # All but the first of each connection, and those whose ticket has not come before the reply.
    assert int(after["handshakes_resumed"]) > 1000


def test_ucload_with_certificates(load, start_server, folder):
    files = tls.shared()
    server = start_server(
        "sock", *ARGS, "-o", f"ssl_verify_mode=2,ssl_ca_cert={files.path('ca.pem')}"
    )
    known = [f"--cert={files.path('client.pem')}", f"--key={files.path('client.key')}"]
    load(server, f"--ca={files.path('ca.pem')}", *known)
    # None: with TLS 1.3 the server refuses a client that has connected, and may have begun to load.
    assert "certificate required" in load(server, statuses=(69, 1))
    assert "verify failed" in load(server, f"--ca={folder.path('ca.pem')}", *known, statuses=(69,))
    assert "/nonexistent" in load(server, "--ca=/nonexistent", statuses=(64,))


# ---- handshakes on threads ----------------------------------------------------------------------


@pytest.fixture(params=[(loop, threads) for loop in ("sock", "uring", "tap", "split")
                        for threads in (0, 1, 2) if threads > 0 or loop in ("sock", "tap")],
                ids=lambda param: "%s-%d" % param)  # fmt: skip
def beside(request, start_server, monkeypatch):
    """A server with two workers and so many threads for handshakes, on each loop of a worker."""
    loop, threads = request.param
    args = [*ARGS, "-t", "2", "-o", f"handshake_threads={threads}"]
    if loop in ("sock", "uring"):
        monkeypatch.setattr(servers, "SOCK", loop)
        server = start_server("sock", *args)
    else:
        server = start_server("tap", *args, *(["--threading=split"] if loop == "split" else []))
    server.handshake_threads = threads
    return server


def begin_handshakes(server, count):
    """Connections that have sent the first message of a handshake, and read nothing."""
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.context().wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    hello = outgoing.read()
    context, server.tls = server.tls, None
    connections = [server.connect() for _ in range(count)]
    server.tls = context
    for connection in connections:
        connection.send(hello)
    return connections


def test_handshakes_on_threads(beside):
    """Who makes them, sessions that are resumed by any thread, and requests right behind them."""
    value = os.urandom(100_000)
    count = 0
    for version in (TLS12, TLS13):
        beside.tls = tls.context(version=version)
        with wire_to(beside) as wire, wire_to(beside) as other:
            wire.say(storage(b"set", b"k", value), STORED)
            other.say(b"get k k\r\n", hit(b"k", value) * 2 + b"END\r\n")
        count += 2
    beside.tls = tls.context(version=TLS13)
    stats = beside.stats("tls")
    assert int(stats["handshakes"]) >= count + 1
    # Each has two messages of the client.
    steps = int(stats["handshake_steps"])
    assert steps >= 2 * count if beside.handshake_threads else steps == 0
    assert beside.stats("settings")["handshake_threads"] == str(beside.handshake_threads)


def test_storm_of_handshakes(beside):
    """Open connections are served, certificates read again, and clients vanish meanwhile."""
    with wire_to(beside) as wire:
        wire.say(storage(b"set", b"k", b"v"), STORED)
        for _ in range(3):
            storm = begin_handshakes(beside, 60)
            wire.say(b"get k\r\n" * 20, (hit(b"k", b"v") + b"END\r\n") * 20)
            wire.say(b"refresh_certs\r\n", b"OK\r\n")
            for connection in storm[::2]:
                connection.close()
            for connection in storm[1::2]:
                assert connection.exactly(1) == b"\x16"  # the server's first message
                connection.close()
            assert settles(lambda: beside.stats()["curr_connections"] == "2")  # stats, wire
        wire.say(b"get k\r\n", hit(b"k", b"v") + b"END\r\n")
    stats = beside.stats("tls")
    assert int(stats["connections"]) >= 180 and stats["handshake_timeouts"] == "0"
    storm = begin_handshakes(beside, 60)
    beside.stop()  # in order
    for connection in storm:
        connection.close()


# ---- secrets ------------------------------------------------------------------------------------


def traffic_keys(keylog):
    """The traffic secrets of TLS 1.3 connections, and the keys of AES-128-GCM that follow."""
    secrets = [bytes.fromhex(line.split()[2]) for line in keylog.read_text().splitlines()
               if "_TRAFFIC_SECRET_0" in line and "HANDSHAKE" not in line]  # fmt: skip
    label = b"\x00\x10\x09tls13 key\x00\x01"
    return secrets + [hmac.new(s, label, hashlib.sha256).digest()[:16] for s in secrets]


def memory_of(server):
    """The writable memory of a server, which is stopped meanwhile."""
    server.signal(signal.SIGSTOP)
    try:
        maps = pathlib.Path(f"/proc/{server.pid}/maps").read_text().splitlines()
        with open(f"/proc/{server.pid}/mem", "rb", buffering=0) as mem:
            for area in (line.split() for line in maps):
                if area[1].startswith("rw") and "/" not in area[-1]:
                    start, end = (int(at, 16) for at in area[0].split("-"))
                    mem.seek(start)
                    yield mem.read(end - start)
    finally:
        server.signal(signal.SIGCONT)


def found_in_memory(server, secrets):
    found = set()
    for area in memory_of(server):
        found.update(secret for secret in secrets if secret in area)
    return len(found)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("kind, threads", [("sock", 0), ("tap", 0), ("sock", 1)])
def test_ended_connections_leave_no_keys(start_server, ucached_path, kind, threads, tmp_path):
    if pathlib.Path(ucached_path).parents[2].name == "asan":
        pytest.skip("the address sanitizer has memory of its own")
    server = start_server(kind, *ARGS, "-m", "16", "-o", f"handshake_threads={threads}")
    keylog = tmp_path / "keys"
    server.tls = tls.context(version=TLS13)
    server.tls.keylog_filename = str(keylog)
    connections = [server.connect() for _ in range(4)]
    for connection in connections:
        assert connection.ask(b"get k\r\n") == b"END\r\n"
    secrets = traffic_keys(keylog)
    assert len(secrets) == 4 * 4
    assert found_in_memory(server, secrets) == len(secrets)
    for connection in connections:
        connection.close()
    server.tls = tls.context()
    assert settles(lambda: server.stats()["curr_connections"] == "1")  # that of stats
    assert found_in_memory(server, secrets) == 0


# ---- listeners ----------------------------------------------------------------------------------


def test_listeners(start_server):
    plain, basic, mutual, default = (free_port() for _ in range(4))
    listen = f"notls:127.0.0.1:{plain},btls:127.0.0.1:{basic},mtls:127.0.0.1:{mutual}"
    server = start_server(
        "sock", *ARGS, "-o", f"ssl_ca_cert={tls.shared().path('ca.pem')}",
        "-l", f"{listen},127.0.0.1:{default}",
    )  # fmt: skip
    with Connection(socket.create_connection(("127.0.0.1", plain), 20)) as connection:
        assert connection.ask(storage(b"set", b"k", b"v")) == STORED
    for port in (basic, default, server.address[1]):
        with dial(("127.0.0.1", port), tls.context()) as connection:
            assert connection.ask(b"get k\r\n", b"END\r\n") == hit(b"k", b"v") + b"END\r\n"
    assert refused(("127.0.0.1", mutual), tls.context())
    with dial(("127.0.0.1", mutual), tls.context(client="client")) as connection:
        assert connection.ask(b"get k\r\n", b"END\r\n") == hit(b"k", b"v") + b"END\r\n"
    assert int(server.stats()["ssl_handshake_errors"]) == 1
    log = server.log()
    assert f"127.0.0.1:{plain} (kernel" in log and f"127.0.0.1:{basic} (TLS, kernel" in log
    assert f"127.0.0.1:{mutual} (TLS with client certificates, kernel" in log


@pytest.mark.parametrize("kind", ["sock", "tap"])
def test_client_certificates(start_server, folder, kind):
    folder.make("foreign", authority="other")
    server = start_server(
        kind, *tls.server_args(), "-o",
        f"ssl_verify_mode=2,ssl_ca_cert={tls.shared().path('ca.pem')}",
    )  # fmt: skip
    with server.connect() as connection:  # with the client's
        assert connection.ask(b"version\r\n").startswith(b"VERSION")
    server.tls = tls.context()
    with pytest.raises((ssl.SSLError, EOFError, ConnectionResetError)):
        server.connect().ask(b"version\r\n")
    # One that another authority has signed.
    server.tls = tls.context()
    server.tls.load_cert_chain(folder.path("foreign.pem"), folder.path("foreign.key"))
    with pytest.raises((ssl.SSLError, EOFError, ConnectionResetError)):
        server.connect().ask(b"version\r\n")
    server.tls = tls.context(client="client")
    assert int(server.stats()["ssl_handshake_errors"]) == 2


# ---- certificates -------------------------------------------------------------------------------


def test_refresh(start_server, folder):
    files = tls.shared()
    for name in ("first", "second"):
        files.make(name)
    cert, key = folder.path("cert.pem"), folder.path("key.pem")

    def use(name):
        shutil.copy(files.path(f"{name}.pem"), cert)
        shutil.copy(files.path(f"{name}.key"), key)

    use("first")
    server = start_server("sock", "-Z", "-o", f"ssl_chain_cert={cert},ssl_key={key}", "-t", "2")
    first = certificate_of(server)
    with dial(server.address, tls.context()) as old:
        use("second")
        assert certificate_of(server) == first
        assert old.ask(b"refresh_certs\r\n") == b"OK\r\n"
        second = certificate_of(server)
        assert second != first
        assert old.sock.tls.getpeercert(True) == first
        assert old.ask(b"get k\r\n") == b"END\r\n"
        # A signal does the same.
        use("first")
        server.signal(signal.SIGHUP)
        assert settles(lambda: certificate_of(server) == first)
        # A broken file changes nothing but the reply.
        with open(cert, "w", encoding="ascii") as file:
            file.write("broken")
        reply = old.ask(b"refresh_certs\r\n")
        assert reply.startswith(b"Error loading the certificate chain: ") and cert.encode() in reply
        server.signal(signal.SIGHUP)
        assert settles(lambda: "certificates: Error loading" in server.log())
        assert certificate_of(server) == first


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("kind", ["sock", "tap"])
def test_key_that_only_root_may_read(start_server, make_open_folder, kind):
    """The server reads it before it changes the user; to read it again the user needs access."""
    cert, key = tls.shared().path("server.pem"), make_open_folder() / "key.pem"
    shutil.copy(tls.shared().path("server.key"), key)
    os.chmod(key, 0o600)
    server = start_server(
        kind, "-Z", "-o", f"ssl_chain_cert={cert},ssl_key={key}", "-u", "nobody"
    )
    server.tls = tls.context()
    with server.connect() as connection:
        assert b"Error loading the key" in connection.ask(b"refresh_certs\r\n")
    owner = pwd.getpwnam("nobody")
    os.chown(key, owner.pw_uid, owner.pw_gid)
    with server.connect() as connection:
        assert connection.ask(b"refresh_certs\r\n") == b"OK\r\n"


@pytest.mark.parametrize(
    "words, text",
    [
        ("", "ssl_chain_cert"),
        ("ssl_chain_cert=/nonexistent", "/nonexistent"),
        ("ssl_chain_cert={cert}", "Error loading the key"),
        ("ssl_chain_cert={cert},ssl_key={cert}", "Error loading the key"),
        ("ssl_chain_cert={cert},ssl_key={other}", "mismatch"),
        ("ssl_chain_cert={cert},ssl_key={key},ssl_ca_cert={key}", "CA certificate"),
        ("ssl_chain_cert={cert},ssl_key={key},ssl_ciphers=none", "cipher"),
    ],
)
def test_what_does_not_start(ucached_path, words, text):
    files = tls.shared()
    words = words.format(cert=files.path("server.pem"), key=files.path("server.key"),
                         other=files.path("client.key"))  # fmt: skip
    command = [ucached_path, "--io=sock", "-l", "127.0.0.1", "-p", str(free_port()), "-Z"]
    done = subprocess.run(
        command + (["-o", words] if words else []), capture_output=True, timeout=60, text=True
    )
    assert done.returncode == 64 and text in done.stderr


def test_key_in_der(start_server, tmp_path):
    files, key = tls.shared(), tmp_path / "key.der"
    subprocess.run(["openssl", "pkey", "-in", files.path("server.key"), "-outform", "DER",
                    "-out", key], check=True, timeout=60)  # fmt: skip
    words = f"ssl_chain_cert={files.path('server.pem')},ssl_key={key},ssl_keyformat=2"
    server = start_server("sock", "-Z", "-o", words)
    with dial(server.address, tls.context()) as connection:
        assert connection.ask(b"get a\r\n") == b"END\r\n"


# ---- versions and sessions ----------------------------------------------------------------------


def test_versions(start_server):
    for minimum, allowed in (("2", [TLS12, TLS13]), ("3", [TLS13])):
        server = start_server("sock", *ARGS, "-o", f"ssl_min_version={minimum}")
        for version in (TLS12, TLS13):
            assert refused(server.address, tls.context(version=version)) == (
                version not in allowed
            )


@pytest.mark.parametrize("threads", [0, 2])
def test_sessions_are_resumed(start_server, threads):
    server = start_server(
        "sock", *ARGS, "-o", f"ssl_session_cache,handshake_threads={threads}", "-t", "2"
    )
    for version in (TLS12, TLS13):
        context = tls.context(version=version)
        with dial(server.address, context) as connection:
            connection.ask(b"version\r\n")
            session = connection.sock.tls.session
        before = int(server.stats()["ssl_new_sessions"])
        for _ in range(4):  # any worker
            with dial(server.address, context, session) as connection:
                connection.ask(b"version\r\n")
                assert connection.sock.tls.session_reused
        # These four made none; each of the two lists was requested by a new connection.
        assert int(server.stats()["ssl_new_sessions"]) == before + 1
    assert int(server.stats("tls")["handshakes_resumed"]) == 8


# ---- errors and statistics ----------------------------------------------------------------------


def test_requests_without_tls(secured):
    """A client without TLS is sent an alert, and nothing of the cache."""
    context, secured.tls = secured.tls, None
    for request in (b"get k\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x80" + bytes(23)):
        with secured.connect() as connection:
            connection.send(request)
            assert connection.rest()[:1] in (b"", b"\x15")
    with secured.connect():  # a probe is no error
        pass
    secured.tls = context
    stats = secured.stats()
    assert int(stats["ssl_handshake_errors"]) == 3 and int(stats["ssl_proto_errors"]) == 0
    assert int(stats["time_since_server_cert_refresh"]) >= 0


def test_changed_record(secured):
    with secured.connect() as connection:
        connection.ask(b"version\r\n")
        connection.sock.raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(ssl.SSLError, match="(?i)alert"):
            connection.rest()
    assert int(secured.stats()["ssl_proto_errors"]) == 1


def s_client(server, *options, requests=b""):
    """Runs OpenSSL's client, which may use old versions and weak algorithms."""
    command = ["openssl", "s_client", "-connect", "%s:%d" % server.address, *options]
    return server.run(command, input=requests, capture_output=True)


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_old_versions_are_refused(secured, version):
    with secured.connect() as other:
        done = s_client(secured, version, "-cipher", "DEFAULT@SECLEVEL=0")
        assert done.returncode != 0 and b"alert protocol version" in done.stderr
        assert other.ask(b"get k\r\n", b"END\r\n") == b"END\r\n"
    assert int(secured.stats()["ssl_handshake_errors"]) == 1


def test_renegotiation_is_refused(secured):
    """A line with R lets s_client begin another handshake in the connection (TLS 1.2)."""
    with secured.connect() as other:
        done = s_client(secured, "-tls1_2", requests=b"R\nversion\n")
        assert b"RENEGOTIATING" in done.stdout + done.stderr
        assert b"no renegotiation" in done.stderr and b"VERSION" not in done.stdout
        assert other.ask(b"get k\r\n", b"END\r\n") == b"END\r\n"


def client_hello(context):
    """The first message of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def test_half_handshakes(secured):
    """Clients that leave, or send something else, at any byte of their first message."""
    hello = client_hello(tls.context())
    context, secured.tls = secured.tls, None
    waiting = secured.connect()  # which has sent a part, all the time
    waiting.send(hello[:100])
    step = max(1, len(hello) // 40)
    for at in range(0, len(hello), step):
        with secured.connect() as connection:
            connection.send(hello[:at])
    for at in range(1, len(hello), step):
        with secured.connect() as connection:
            connection.send(hello[:at] + bytes(len(hello) - at) + b"\x17\x03\x03\x00\x05hello")
            with contextlib.suppress(OSError):  # it may have reset the connection
                connection.sock.shutdown(socket.SHUT_WR)
            connection.rest()
    secured.tls = context
    with secured.connect() as other:
        assert other.ask(b"get k\r\n", b"END\r\n") == b"END\r\n"
    assert int(secured.stats()["ssl_handshake_errors"]) > 0
    waiting.close()


def records_of(connection, data):
    """The records in which this data would be sent."""
    connection.sock.tls.write(data)
    return connection.sock._out.read()


@pytest.mark.parametrize("version", [TLS12, TLS13])
def test_records_cut_at_every_byte(secured, version):
    """In two parts it is served; without the second it is no request, and no error of others."""
    secured.tls = tls.context(version=version)
    with secured.connect() as connection, secured.connect() as other:
        length = len(records_of(connection, b"get k\r\n"))
        connection = secured.connect()
        for at in range(1, length):
            record = records_of(connection, b"get k\r\n")
            connection.sock.raw.sendall(record[:at])
            assert other.ask(b"get k\r\n", b"END\r\n") == b"END\r\n"
            connection.sock.raw.sendall(record[at:])
            assert connection.until(b"END\r\n") == b"END\r\n"
        connection.close()
        for at in range(1, length):
            with secured.connect() as cut:
                cut.sock.raw.sendall(records_of(cut, b"flush_all\r\n")[:at])
        assert other.ask(b"get k\r\n", b"END\r\n") == b"END\r\n"
    assert secured.stats()["cmd_flush"] == "0"


@pytest.mark.parametrize("version", [TLS12, TLS13])
@pytest.mark.parametrize("length", [0x4101 + 2048, 0xFFFF])
def test_oversized_record(secured, version, length):
    """Longer than a version permits (RFC 8446, 5.2: 2^14 + 256; RFC 5246: 2^14 + 2048)."""
    with secured.connect() as other:
        secured.tls = tls.context(version=version)
        with secured.connect() as connection:
            connection.ask(b"version\r\n")
            connection.sock.raw.sendall(b"\x17\x03\x03" + length.to_bytes(2, "big") + bytes(100))
            with pytest.raises(ssl.SSLError, match="(?i)alert record overflow"):
                connection.rest()
        assert other.ask(b"get k\r\n", b"END\r\n") == b"END\r\n"
    assert int(secured.stats()["ssl_proto_errors"]) == 1


def test_watchers_see_the_reason(secured):
    with secured.connect() as watcher:
        assert watcher.ask(b"watch connevents\r\n") == b"OK\r\n"
        context, secured.tls = secured.tls, None
        with secured.connect() as connection:
            connection.send(b"get k\r\n")
            connection.rest()
        secured.tls = context
        while b"type=conntlserr" not in (line := watcher.until(b"\n")):
            continue
        assert b" fd=" in line and b" msg=error:" in line


def test_settings(start_server):
    server = start_server("sock", *ARGS, "-o", "ssl_wbuf_size=64,ssl_kernel_tls,ssl_keyformat=1")
    shown = {name: value for name, value in server.stats("settings").items() if "ssl" in name}
    assert shown == {
        "ssl_enabled": "yes",
        "ssl_chain_cert": tls.shared().path("server.pem"),
        "ssl_key": tls.shared().path("server.key"),
        "ssl_verify_mode": "0",
        "ssl_keyformat": "1",
        "ssl_ciphers": "NULL",
        "ssl_ca_cert": "NULL",
        "ssl_wbuf_size": "65536",
        "ssl_session_cache": "no",
        "ssl_kernel_tls": "yes",
        "ssl_min_version": "tlsv1.2",
    }
    assert "ssl_new_sessions" not in server.stats()


def test_settings_are_memcacheds(start_server):
    """The names of settings and statistics, in order, are those of the distribution's memcached."""
    lists = []
    for kind in ("sock", "memcached"):
        server = start_server(kind, *ARGS, "-o", "ssl_session_cache")
        settings = server.stats("settings")
        names = [name for name in server.stats() if "ssl" in name or "cert" in name]
        # Errors of records have a counter only in later versions.
        lists.append((
            {name: settings[name] for name in settings if "ssl" in name},
            [name for name in names if name != "ssl_proto_errors"],
        ))  # fmt: skip
    assert lists[0] == lists[1]
