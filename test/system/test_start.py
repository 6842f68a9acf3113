# SPDX-License-Identifier: BSD-3-Clause
"""Starts as packages, containers and test suites do them, and what `stats settings` says then."""

import os
import pathlib
import re
import resource
import signal
import socket
import stat
import subprocess

import netspace
import pytest
from server import free_port
from wire import MISS, STORED, Wire, settles, wire_to


@pytest.fixture
def launch(ucached_path, tmp_path):
    """Starts the program with these arguments only; ended after the test."""
    started = []

    def launch(*args, env=None, **options):
        process = subprocess.Popen(
            [ucached_path, *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            **options,
        )
        started.append(process)
        return process

    yield launch
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()


def dial(address, family=socket.AF_INET):
    """A connection to the address, once a server listens."""

    def attempt():
        sock = socket.socket(family)
        try:
            sock.settimeout(60)
            sock.connect(address)
        except OSError:
            sock.close()
            return None
        return Wire(sock)

    wire = settles(attempt, pause=0.002)
    assert wire, f"no server listens on {address}"
    return wire


def settings_of(wire):
    return wire.stats("settings")


# ---- command lines of packages ----------------------------------------------------------------


def ends(process):
    process.send_signal(signal.SIGTERM)
    return process.wait(20)


def test_red_hat(launch):
    port = free_port()
    process = launch("-p", port, "-u", "nobody", "-m", "64", "-c", "1024", "-l", "127.0.0.1,::1")
    with dial(("127.0.0.1", port)) as wire:
        wire.say(b"set k 0 0 1\r\nx\r\n", STORED)
    assert ends(process) == 0


def test_debian(run_to_end, tmp_path):
    port, pidfile = free_port(), tmp_path / "memcached.pid"
    line = ["-d", "-m", "64", "-p", str(port), "-u", "nobody", "-l", "127.0.0.1"]
    done = run_to_end([*line, "-P", str(pidfile)])
    assert done.returncode == 0 and done.stdout == ""
    with dial(("127.0.0.1", port)) as wire:
        wire.say(b"get k\r\n", MISS)
        pid = int(wire.stats()["pid"])
        assert pidfile.read_text() == f"{pid}\n"
    os.kill(pid, signal.SIGTERM)
    assert settles(lambda: not pathlib.Path(f"/proc/{pid}").exists())


@pytest.fixture
def run_to_end(ucached_path, tmp_path):
    def run(args):
        return subprocess.run(
            [ucached_path, *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=60,
            cwd=tmp_path,
        )

    return run


def test_container(launch):
    """The official image: no option at all, or some, never as root."""
    port = free_port()
    process = launch("-p", port, "-m", "256", "-o", "modern", "-v")
    with dial(("127.0.0.1", port)) as wire:
        assert settings_of(wire)["maxbytes"] == str(256 << 20)
    assert ends(process) == 0


def test_test_suite_of_memcached(launch):
    port = free_port()
    process = launch("-p", port, "-U", "0", "-u", "root", "-o", "relaxed_privileges", "-vv", "word")
    with dial(("127.0.0.1", port)) as wire:
        wire.say(b"get k\r\n", MISS)
    assert ends(process) == 0


ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_systemd_unit(launch):
    """The command line of our unit with its own defaults, but for the port."""
    folder = ROOT / "packaging" / "systemd"
    unit = (folder / "ucached.service.in").read_text(encoding="ascii")
    line = next(row for row in unit.splitlines() if "ExecStart=" in row)
    line = line.replace("@LINK@", "").replace("@OPTIONS@", "OPTIONS")
    port = free_port()
    values = {}
    for row in (folder / "ucached.default").read_text(encoding="ascii").splitlines():
        if row and not row.startswith("#"):
            name, _, value = row.partition("=")
            values[name] = value.strip('"')
    values["PORT"] = str(port)
    for name, value in values.items():
        line = line.replace("${%s}" % name, value).replace("$%s" % name, value)
    process = launch(*line.split()[1:])
    with dial(("127.0.0.1", port)) as wire:
        wire.say(b"get k\r\n", MISS)
    assert ends(process) == 0


@pytest.mark.parametrize(
    "args,words",
    [
        ([], ["ucached"]),
        (["-m", "64"], ["ucached", "-m", "64"]),
        (["memcached", "-m", "64"], ["memcached", "-m", "64"]),
        (["sh", "-c", "x"], ["sh", "-c", "x"]),
    ],
    ids=["none", "options", "memcached", "other"],
)
def test_container_entry(tmp_path, args, words):
    for name in ("ucached", "memcached", "sh"):
        program = tmp_path / name
        program.write_text('#!/bin/sh\necho "${0##*/}" "$@"\n', encoding="ascii")
        program.chmod(0o755)
    entry = ROOT / "packaging" / "docker-entrypoint.sh"
    done = subprocess.run(
        ["/bin/sh", entry, *args], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.stdout.split() == words, done.stderr


def test_every_option_is_documented(ucached_path):
    done = subprocess.run([ucached_path, "-h"], capture_output=True, text=True, timeout=60)
    text = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    options = re.findall(r"^  (?:-(\w)(?:, )?)?(?:    )?(?:--([\w-]+))?", done.stdout, re.MULTILINE)
    names = {f"-{letter}" for letter, _ in options if letter}
    names |= {f"--{name}" for letter, name in options if name and not letter}
    assert len(names) > 35
    assert [name for name in sorted(names) if f"`{name}" not in text] == []


def processor_s(process):
    """Processor time of a process, which does not include waiting for a processor."""
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_start_is_fast(launch):
    """From the start of the process to the first answer."""
    port = free_port()
    process = launch("-p", port, "-l", "127.0.0.1", "-m", "4096")
    with dial(("127.0.0.1", port)) as wire:
        wire.say(b"get k\r\n", MISS)
        assert processor_s(process) < 1
    assert ends(process) == 0


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGUSR1"])
def test_signals_that_end_it(launch, name):
    port = free_port()
    process = launch("-p", port, "-l", "127.0.0.1")
    with dial(("127.0.0.1", port)) as wire:
        wire.say(b"get k\r\n", MISS)
        process.send_signal(getattr(signal, name))
        assert process.wait(20) == 0
        wire.ends_with(b"")


@pytest.mark.parametrize("handling", [signal.SIG_DFL, signal.SIG_IGN])
def test_signals_that_do_not(launch, handling):
    """SIGHUP is handled also if the server is started with SIGHUP ignored, as by nohup."""
    port = free_port()
    before = signal.signal(signal.SIGHUP, handling)
    process = launch("-p", port, "-l", "127.0.0.1")
    signal.signal(signal.SIGHUP, before)
    with dial(("127.0.0.1", port)) as wire:
        for number in (signal.SIGHUP, signal.SIGPIPE):
            process.send_signal(number)
            wire.say(b"get k\r\n", MISS)
    assert settles(lambda: "SIGHUP: nothing to read again" in process.stderr.readline())
    assert ends(process) == 0


# ---- ports ------------------------------------------------------------------------------------


def test_port_file(launch, tmp_path):
    path = tmp_path / "ports"
    launch("-p", "-1", "-l", "127.0.0.1", env={"MEMCACHED_PORT_FILENAME": str(path)})
    assert settles(path.exists)
    word, _, port = path.read_text().partition(": ")
    assert word == "TCP INET" and port == f"{int(port)}\n"
    with dial(("127.0.0.1", int(port))) as wire:
        assert settings_of(wire)["tcpport"] == port.strip()
    assert [one.name for one in tmp_path.iterdir()] == ["ports"]


def test_no_port(launch):
    process = launch("-p", "0")
    assert settles(lambda: "no client can connect" in process.stderr.readline())
    assert process.poll() is None
    assert ends(process) == 0


def test_several_addresses_with_ports(launch):
    first, second = free_port(), free_port()
    listen = f"127.0.0.1,tag[x]:127.0.0.2:{second}"
    launch("-l", listen, "-l", f"notls:127.0.0.3:{second}", "-p", first)
    for address in (("127.0.0.1", first), ("127.0.0.2", second), ("127.0.0.3", second)):
        with dial(address) as wire:
            wire.say(b"get k\r\n", MISS)


@pytest.mark.parametrize("prefix", ["btls:", "mtls:"])
def test_prefixes_of_tls_need_it(launch, prefix):
    process = launch("-l", f"{prefix}127.0.0.1", "-p", free_port())
    assert process.wait(20) == 71 and "TLS" in process.stderr.read()


# ---- unix sockets -----------------------------------------------------------------------------


def test_unix_socket(launch, tmp_path):
    path = tmp_path / "socket"
    port = free_port()
    launch("-s", path, "-p", port)
    with dial(str(path), socket.AF_UNIX) as wire:
        wire.say(b"set k 0 0 1\r\nx\r\n", STORED)
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", port)) != 0


def test_unix_socket_access(launch, tmp_path):
    path = tmp_path / "socket"
    launch("-s", path, "-a", "666")
    with dial(str(path), socket.AF_UNIX):
        assert stat.S_IMODE(path.stat().st_mode) == 0o666


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user")
def test_unix_socket_belongs_to_the_user(launch, tmp_path):
    path = tmp_path / "socket"
    launch("-s", path, "-u", "nobody")
    with dial(str(path), socket.AF_UNIX) as wire:
        wire.say(b"get k\r\n", MISS)
        assert path.owner() == "nobody"


def test_unix_socket_left_behind(launch, tmp_path):
    path = tmp_path / "socket"
    # By epoll: a ring, and its listening socket, outlive their process for a moment.
    first = launch("-s", path, "--io=sock")
    dial(str(path), socket.AF_UNIX).close()
    first.kill()
    first.wait()
    assert path.exists()
    launch("-s", path)
    with dial(str(path), socket.AF_UNIX) as wire:
        wire.say(b"get k\r\n", MISS)


def test_unix_socket_does_not_replace_a_file(launch, tmp_path):
    path = tmp_path / "file"
    path.write_text("precious")
    process = launch("-s", path)
    assert process.wait(20) == 71 and str(path) in process.stderr.read()
    assert path.read_text() == "precious"


# ---- what stats settings says ------------------------------------------------------------------


def test_settings_are_shown(launch, tmp_path):
    path = tmp_path / "socket"
    options = "-m 128 -M -c 77 -t 3 -R 5 -C -b 99 -B ascii -I 2m -F -X -A -n 64 -f 1.5 -vv -D/ -N 2"
    words = (
        "no_maxconns_fast,hashpower=20,no_slab_reassign,slab_automove=2,slab_automove_ratio=0.5,"
        "slab_automove_window=30,slab_chunk_max=262144,lru_crawler_sleep=200,lru_crawler_tocrawl=9,"
        "tail_repair_time=60,hash_algorithm=jenkins,hot_lru_pct=10,warm_lru_pct=30,"
        "hot_max_factor=0.3,warm_max_factor=3,temporary_ttl=33,idle_timeout=44,"
        "watcher_logbuf_size=512,worker_logbuf_size=128,read_buf_mem_limit=3,track_sizes"
    )
    launch("-s", path, "-a", "770", *options.split(), "-o", words)
    with dial(str(path), socket.AF_UNIX) as wire:
        shown = settings_of(wire)
    expected = {
        "maxbytes": str(128 << 20),
        "maxconns": "77",
        "udpport": "0",
        "verbosity": "2",
        "evictions": "off",
        "domain_socket": str(path),
        "umask": "770",
        "shutdown_command": "yes",
        "growth_factor": "1.50",
        "chunk_size": "64",
        "num_threads": "3",
        "stat_key_prefix": "/",
        "detail_enabled": "yes",
        "reqs_per_event": "5",
        "cas_enabled": "no",
        "tcp_backlog": "99",
        "binding_protocol": "ascii",
        "item_size_max": str(2 << 20),
        "maxconns_fast": "no",
        "hashpower_init": "20",
        "slab_reassign": "no",
        "slab_automove": "2",
        "slab_automove_ratio": "0.50",
        "slab_automove_window": "30",
        "slab_chunk_max": "262144",
        "lru_crawler_sleep": "200",
        "lru_crawler_tocrawl": "9",
        "tail_repair_time": "60",
        "flush_enabled": "no",
        "dump_enabled": "no",
        "hash_algorithm": "jenkins",
        "hot_lru_pct": "10",
        "warm_lru_pct": "30",
        "hot_max_factor": "0.30",
        "warm_max_factor": "3.00",
        "temp_lru": "yes",
        "temporary_ttl": "33",
        "idle_timeout": "44",
        "watcher_logbuf_size": str(512 << 10),
        "worker_logbuf_size": str(128 << 10),
        "read_buf_mem_limit": str(3 << 20),
        "track_sizes": "yes",
        "num_napi_ids": "2",
    }
    assert {name: shown.get(name) for name in expected} == expected


def test_listeners_are_shown(launch):
    tcp, udp = free_port(), free_port()
    launch("-p", tcp, "-U", udp, "-l", "127.0.0.1", "-t", "2")
    with dial(("127.0.0.1", tcp)) as wire:
        udp_name = f"udp:127.0.0.1:{udp}"
        # Each worker has its datagram socket when it has started.
        conns = settles(
            lambda: list((now := wire.stats("conns")).values()).count(udp_name) == 2 and now
        )
        here = "%s:%d" % wire.sock.getsockname()
    names = [name.removesuffix(":addr") for name in conns if name.endswith(":addr")]
    states = {conns[f"{name}:addr"]: conns[f"{name}:state"] for name in names}
    assert states[f"tcp:127.0.0.1:{tcp}"] == "conn_listening"
    assert states[f"tcp:{here}"] == "conn_parse_cmd"
    assert states[udp_name] == "conn_read"
    assert list(conns.values()).count("UDP") == 2


# ---- the process ------------------------------------------------------------------------------


def limits_of(pid):
    with open(f"/proc/{pid}/limits", encoding="ascii") as table:
        return {row[:25].strip(): row[25:].split()[0] for row in table}


FILE_BYTES_MAX = 4096


def limit_file_sizes():
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))


def test_core_files(launch):
    port = free_port()
    process = launch("-p", port, "-l", "127.0.0.1", "-r")
    with dial(("127.0.0.1", port)):
        assert settles(lambda: limits_of(process.pid)["Max core file size"] != "0")


def test_connections_raise_the_limit_of_files(launch):
    port = free_port()
    process = launch("-p", port, "-l", "127.0.0.1", "-c", "3000")
    with dial(("127.0.0.1", port)):
        assert int(limits_of(process.pid)["Max open files"]) >= 3000


@pytest.mark.parametrize("args, backlog", [((), 1024), (("-b", "77"), 77)])
def test_backlog(launch, args, backlog):
    """Of TCP sockets that listen ss shows the backlog as the third word."""
    port = free_port()
    launch("-p", port, "-l", "127.0.0.1", *args)
    with dial(("127.0.0.1", port)):
        done = subprocess.run(["ss", "-Hltn", f"sport = :{port}"], capture_output=True, text=True,
                              check=True, timeout=60)  # fmt: skip
    most = int(pathlib.Path("/proc/sys/net/core/somaxconn").read_text(encoding="ascii"))
    assert int(done.stdout.split()[2]) == min(backlog, most)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may lock memory for sure")
def test_memory_is_locked(launch, ucached_path):
    if b"__asan_init" in pathlib.Path(ucached_path).read_bytes():
        pytest.skip("AddressSanitizer makes mlockall() do nothing")
    port = free_port()
    process = launch("-p", port, "-l", "127.0.0.1", "-k")

    def locked():
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmLck:")[2].split()[0]) > 0

    with dial(("127.0.0.1", port)) as wire:
        wire.say(b"set k 0 0 1\r\nx\r\n", STORED)
        was_locked = locked()
    assert ends(process) == 0
    assert was_locked or "cannot lock" in process.stderr.read()


def test_process_id_file_that_cannot_be_written(launch, tmp_path):
    """As with memcached: a complaint, and a server."""
    port = free_port()
    process = launch("-p", port, "-l", "127.0.0.1", "-P", "/no/such/folder/pid")
    with dial(("127.0.0.1", port)) as wire:
        wire.say(b"get k\r\n", MISS)
    assert ends(process) == 0 and "/no/such/folder/pid" in process.stderr.read()


@pytest.mark.parametrize("words", [("--fd-store",), ("--takeover=takeover",), ("-e", "file")])
def test_memory_beyond_the_limit_of_file_sizes(launch, words):
    process = launch("-p", 0, *words, preexec_fn=limit_file_sizes)
    assert process.wait(60) == 71
    assert "a limit of file sizes" in process.stderr.read()


def test_log_beyond_the_limit_of_file_sizes(ucached_path, tmp_path):
    """The log ends there, not the server."""
    port = free_port()
    with open(tmp_path / "log", "wb") as log:
        log.truncate(FILE_BYTES_MAX)
        log.seek(FILE_BYTES_MAX)
        process = subprocess.Popen(
            [ucached_path, "-p", str(port), "-l", "127.0.0.1", "-vv"],
            stderr=log, preexec_fn=limit_file_sizes,
        )  # fmt: skip
    try:
        with dial(("127.0.0.1", port)) as wire:
            wire.say(b"get k\r\n", MISS)
        assert ends(process) == 0
    finally:
        process.kill()
        process.wait()
    assert (tmp_path / "log").stat().st_size == FILE_BYTES_MAX


def test_debug_by_name(ucached_path, tmp_path):
    path = tmp_path / "memcached-debug"
    path.symlink_to(ucached_path)
    done = subprocess.run([path, "-V"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("memcached 1.6.45\n")


@pytest.mark.parametrize("words", ["drop_privileges", "no_drop_privileges"])
def test_privileges_of_the_running_server(launch, words, monkeypatch):
    """No new socket and no program; the server serves as before."""
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")  # the leak check starts a process
    port = free_port()
    process = launch("-p", port, "-l", "127.0.0.1", "-o", words)
    dropped = words == "drop_privileges"
    status = pathlib.Path(f"/proc/{process.pid}/status")
    with dial(("127.0.0.1", port)) as wire:
        wire.say(b"set k 0 0 1\r\nx\r\n", STORED)
        mode = "2" if dropped else "0"
        assert settles(lambda: f"Seccomp:\t{mode}" in status.read_text(encoding="ascii"))
    with dial(("127.0.0.1", port)) as wire:
        wire.say(b"get k\r\n", b"VALUE k 0 1\r\nx\r\n" + MISS)
    assert ends(process) == 0


@pytest.mark.parametrize("words", ["drop_privileges", "no_drop_privileges"])
def test_misbehaving(ucached_path, tmp_path, words, monkeypatch):
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")  # the leak check starts a process
    path = tmp_path / "memcached-debug"
    path.symlink_to(ucached_path)
    port = free_port()
    process = subprocess.Popen(
        [path, "-p", str(port), "-l", "127.0.0.1", "-o", words], stderr=subprocess.DEVNULL
    )
    try:
        with dial(("127.0.0.1", port)) as wire:
            reply = b"OK\r\n" if words == "drop_privileges" else b"ERROR\r\n"
            assert settles(lambda: wire.replies(b"misbehave\r\n") == reply)
        assert ends(process) == 0
    finally:
        process.kill()
        process.wait()


def test_license(ucached_path):
    done = subprocess.run([ucached_path, "-i"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("memcached 1.6.45\n")
    assert "BSD 3-Clause" in done.stdout


# ---- limits of time and number ----------------------------------------------------------------


@pytest.mark.server_args("-o", "idle_timeout=3")
def test_idle_connection_is_closed(server):
    with wire_to(server) as idle, wire_to(server) as busy, wire_to(server) as slow:
        idle.say(b"get k\r\n", MISS)
        slow.send(b"set k 0 0 3\r\nab")

        def idle_is_closed():
            busy.say(b"get k\r\n", MISS)
            return busy.stats()["idle_kicks"] == "1"

        assert settles(idle_is_closed)
        idle.ends_with(b"")
        slow.say(b"c\r\n", STORED)
        assert busy.stats()["idle_kicks"] == "1"


def test_without_idle_timeout_there_are_no_kicks(server):
    assert "idle_kicks" not in server.stats()


@pytest.mark.server_args("-c", "3", "-o", "no_maxconns_fast")
def test_connections_wait_for_a_place(server):
    first, second, third = (wire_to(server) for _ in range(3))
    for wire in (first, second, third):
        wire.say(b"get k\r\n", MISS)
    with wire_to(server) as waiting:
        waiting.send(b"get k\r\n")
        assert waiting.silent(0.3)
        stats = first.stats()
        assert stats["accepting_conns"] == "0" and "rejected_connections" not in stats
        second.close()
        waiting.expect(MISS)
        stats = settles(lambda: (now := first.stats())["accepting_conns"] == "1" and now)
        assert int(stats["listen_disabled_num"]) >= 1
        assert int(stats["time_in_listen_disabled_us"]) > 0
    first.close()
    third.close()


@pytest.mark.server_args("-R", "2")
def test_turns_are_counted(server):
    with wire_to(server) as wire:
        wire.say(b"get k\r\n" * 100, MISS * 100)
        assert int(wire.stats()["conn_yields"]) >= 10


# ---- IPv6 on the own stack --------------------------------------------------------------------


def test_own_stack_over_ipv6(ucached_path, tap_obstacle, tmp_path):
    """TCP and UDP to an IPv6 address, with an IPv4 address beside it, and without."""
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    if not pathlib.Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 on this machine")
    for more in ([], ["--ip=10.100.0.20/24"]):
        space = netspace.NetSpace()
        command = [ucached_path, "--ip=fd00::20/64", "--host-ip=fd00::10/64", *more]
        command += ["-p", "11211", "-U", "11212"]
        ports = tmp_path / f"ports-{len(more)}"
        env = {**os.environ, "MEMCACHED_PORT_FILENAME": str(ports)}
        process = space.popen(command, stderr=subprocess.PIPE, text=True, env=env)
        try:
            line = process.stderr.readline()
            while line and "[fd00::20]:11211" not in line:
                line = process.stderr.readline()
            with space.run(dial, ("fd00::20", 11211), socket.AF_INET6) as wire:
                wire.say(b"set k 0 0 1\r\nx\r\n", STORED)
                assert wire.stats("conns")
            udp = space.run(socket.socket, socket.AF_INET6, socket.SOCK_DGRAM)
            udp.settimeout(60)
            udp.sendto(b"\0\1\0\0\0\1\0\0get k\r\n", ("fd00::20", 11212))
            assert udp.recv(2000)[8:] == b"VALUE k 0 1\r\nx\r\nEND\r\n"
            udp.close()
            lines = ports.read_text(encoding="ascii").splitlines()
            assert lines[:2] == ["TCP INET6: 11211", "UDP INET6: 11212"]
            assert lines[2:] == ["TCP INET: 11211", "UDP INET: 11212"][: 2 * len(more)]
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()
            process.wait()
            process.stderr.close()
            space.close()
