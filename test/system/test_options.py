# SPDX-License-Identifier: BSD-3-Clause
"""The program as its operator uses it: command line, messages, exit codes, start and end."""

import os
import re
import shutil
import signal
import socket
import struct
import subprocess
from contextlib import closing

import netspace
import pytest
from server import IO_TIMEOUT, TAP_ADDRESS, TAP_HOST_ADDRESS, TAP_PORT, ServerError, free_port
from wire import MISS, settles, wire_to

EX_USAGE = 64
EX_NOUSER = 67
EX_OSERR = 71


@pytest.fixture
def run(ucached_path, tmp_path):
    """Runs the program to its end; it must not take long."""

    def run(*args, **options):
        return subprocess.run(
            [ucached_path, *args],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            cwd=tmp_path,
            **options,
        )

    return run


def device_names(space):
    return {name for _, name in space.run(socket.if_nameindex)}


# ---- texts and mistakes -----------------------------------------------------------------------


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(run, option):
    done = run(option)
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"memcached 1\.6\.\d+", lines[0])
    for word in ("--io", "--dev", "--ip", "--fault", "--memory-limit", "--port", "-m", "-p", "-l"):
        assert word in done.stdout
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(run, option):
    done = run(option)
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"memcached 1\.6\.\d+", lines[0]) and lines[1].startswith("ucached ")


# Arguments, exit status, and a word of the message.
@pytest.mark.parametrize(
    "args,status,word",
    [
        (["--no-such-option"], 1, "--no-such-option"),
        (["-j"], 1, "-j"),
        (["-p"], 1, "-p"),
        (["-p", "x"], EX_USAGE, "-p"),
        (["-p", "65536"], EX_USAGE, "65536"),
        (["-p", "11211x"], EX_USAGE, "-p"),
        (["-p", ""], EX_USAGE, "-p"),
        (["-m"], 1, "-m"),
        (["-m", "x"], EX_USAGE, "-m"),
        (["-m", "0"], EX_USAGE, "-m"),
        (["-m", "1"], EX_USAGE, "-m"),
        (["-m", "-5"], EX_USAGE, "-m"),
        (["-m", "1e3"], EX_USAGE, "-m"),
        (["-m", "99999999999999999999"], EX_USAGE, "-m"),
        (["-c", "0"], 1, "-c"),
        (["-c", "-1"], 1, "-c"),
        (["-c", "many"], 1, "-c"),
        (["-t", "0"], 1, "-t"),
        (["-t", "1.5"], 1, "-t"),
        (["-t", "100000"], 1, "-t"),
        (["-b", "x"], 1, "-b"),
        (["-R", "0"], 1, "-R"),
        (["-f", "1"], 1, "-f"),
        (["-n", "0"], 1, "-n"),
        (["-N", "0"], 1, "-N"),
        (["-a", "8"], EX_USAGE, "-a"),
        (["-B", "x"], EX_USAGE, "-B"),
        (["-I", "1"], EX_USAGE, "-I"),
        (["-I", "2g"], EX_USAGE, "-I"),
        (["-I", "x"], EX_USAGE, "-I"),
        (["-I", "1000m"], EX_USAGE, "-I"),
        (["-U", "70000"], EX_USAGE, "-U"),
        (["--udp-reply=1023"], EX_USAGE, "--udp-reply"),
        (["--udp-reply=1089k"], EX_USAGE, "--udp-reply"),
        (["--udp-rate=1025m"], EX_USAGE, "--udp-rate"),
        (["--udp-rate=-1"], EX_USAGE, "--udp-rate"),
        (["-Y", "/etc/passwd", "-U", "11211"], EX_USAGE, "UDP"),
        (["-Y", "/etc/passwd", "-B", "binary"], EX_USAGE, "-Y"),
        (["-S"], EX_USAGE, "SASL"),
        (["-Z"], EX_USAGE, "TLS"),
        (["--enable-ssl"], EX_USAGE, "TLS"),
        (["-o", "idle_timeout"], 1, "idle_timeout"),
        (["-o", "hashpower=99"], 1, "hashpower"),
        (["-o", "hash_algorithm=md5"], 1, "hash_algorithm"),
        (["-o", "hot_lru_pct=50,warm_lru_pct=50"], EX_USAGE, "hot_lru_pct"),
        (["--io=foo"], EX_USAGE, "foo"),
        (["--io"], 1, "--io"),
        (["--io=tap", "--ip=10.0.0.1"], EX_USAGE, "--ip"),
        (["--io=tap", "--ip=10.0.0/24"], EX_USAGE, "--ip"),
        (["--io=tap", "--ip=10.0.0.256/24"], EX_USAGE, "--ip"),
        (["--io=tap", "--ip=10.0.0.1/33"], EX_USAGE, "--ip"),
        (["--io=tap", "--ip=foo/24"], EX_USAGE, "--ip"),
        (["--io=tap", "--gw=foo"], EX_USAGE, "--gw"),
        (["--io=tap", "--mac=foo"], EX_USAGE, "--mac"),
        (["--io=tap", "--mac=ff:ff:ff:ff:ff:ff"], EX_USAGE, "--mac"),
        (["--io=tap", "--host-ip=1.2.3.4"], EX_USAGE, "--host-ip"),
        (["--io=tap", "--host-ip=192.168.1.1/24"], EX_USAGE, "--host-ip"),
        (["--io=tap", "--host-ip=10.100.0.20/24"], EX_USAGE, "same address"),
        (["--io=tap", "--dev=abcdefghijklmnop"], EX_USAGE, "--dev"),
        (["--io=tap", "--dev=a/b"], EX_USAGE, "--dev"),
        (["--io=tap", "--fault=foo=1%"], EX_USAGE, "foo"),
        (["--io=tap", "--fault=loss=200%"], EX_USAGE, "loss"),
        (["--io=tap", "--fault=loss"], EX_USAGE, "loss"),
        (["--io=tap", "--fault="], EX_USAGE, "--fault"),
        (["--io=tap", "-l", "127.0.0.1"], EX_USAGE, "-l"),
        (["--io=tap", "-s", "/tmp/x"], EX_USAGE, "-s"),
        (["--io=sock", "--ip=10.0.0.1/24"], EX_USAGE, "--ip"),
        (["--io=sock", "--fault=loss=1%"], EX_USAGE, "--fault"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_mistake_is_named(run, args, status, word):
    done = run(*args)
    assert done.returncode == status, done.stderr
    assert word in done.stderr and done.stderr.startswith("ucached: ")
    assert len(done.stderr.splitlines()) == 1 and done.stdout == ""


@pytest.mark.parametrize(
    "word, missing",
    [
        ("foo", "no"),
        ("foo=1", "no"),
        ("ext_path=/tmp/x:1G", "extstore"),
        ("proxy_config=/tmp/x", "the proxy"),
    ],
)
def test_suboption_that_does_not_exist(run, word, missing):
    done = run("-o", f"track_sizes,{word}")
    assert done.returncode == 1 and done.stdout == f'Illegal suboption "{word}"\n'
    assert done.stderr.startswith("ucached: -o: ") and word in done.stderr
    assert missing in done.stderr


def test_more_memory_than_there_is(run):
    """A warning: the memory is only taken when items come. (The port ends the server.)"""
    done = run("--io=sock", "-m", "16777216", "-l", "192.0.2.1")
    assert "warning: -m 16777216 is more than the" in done.stderr


# Mistakes that the distribution's memcached sees too: both end with the same status.
@pytest.mark.parametrize(
    "args",
    [
        ["-c", "0"],
        ["-t", "0"],
        ["-R", "0"],
        ["-f", "1"],
        ["-n", "0"],
        ["-N", "0"],
        ["-B", "x"],
        ["-I", "10"],
        ["-I", "40m"],
        ["-m", "0"],
        ["-m", "1"],
        ["-p"],
        ["--conn-limit"],
        ["--foo"],
        ["-x"],
        ["-o", "foo"],
        ["-o", "hashpower=99"],
        ["-o", "hashpower"],
        ["-o", "hash_algorithm=z"],
        ["-o", "slab_automove=3"],
        ["-o", "slab_automove_ratio=2"],
        ["-o", "slab_automove_window=2"],
        ["-o", "tail_repair_time=9"],
        ["-o", "lru_crawler_sleep=1000001"],
        ["-o", "lru_crawler_tocrawl=x"],
        ["-o", "hot_lru_pct=0"],
        ["-o", "warm_lru_pct=61"],
        ["-o", "hot_max_factor=0"],
        ["-o", "temporary_ttl=1,no_lru_maintainer"],
        ["-o", "idle_timeout"],
        ["-o", "watcher_logbuf_size=x"],
        ["-o", "slab_sizes=300-200"],
        ["-o", "read_buf_mem_limit"],
        ["-Y", "/etc/hostname", "-U", "11211"],
        ["-Y", "/etc/hostname", "-B", "binary"],
        ["-Y", "/no/such/file"],
        ["-l", "no.such.host.invalid"],
        ["-s", "/no/such/folder/socket"],
    ],
    ids=" ".join,
)
def test_exit_status_is_memcacheds(run, memcached_path, args):
    port = str(free_port())
    user = ["-u", "root"] if os.geteuid() == 0 else []
    command = [memcached_path, "-p", port, *user, *args]
    theirs = subprocess.run(command, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    assert theirs.returncode > 0
    assert run("--io=sock", "-p", port, *user, *args).returncode == theirs.returncode


@pytest.mark.parametrize(
    "listen",
    ["256.0.0.1", "no.such.host.invalid", "127.0.0.1:x", "127.0.0.1:99999", "[::1", "192.0.2.1"],
)
def test_address_that_cannot_be_listened_on(run, listen):
    done = run("--io=sock", "-l", listen, "-p", str(free_port()))
    assert done.returncode != 0 and done.returncode != -signal.SIGALRM
    assert (
        done.stderr.splitlines()[-1].startswith("ucached: ") and listen.split(":")[0] in done.stderr
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user")
def test_user_that_does_not_exist(run):
    done = run("-u", "no-such-user", "-l", "127.0.0.1", "-p", str(free_port()))
    assert done.returncode == EX_NOUSER and "no-such-user" in done.stderr


def test_port_in_use(run, server_sock):
    port = server_sock.address[1]
    done = run("--io=sock", "-l", "127.0.0.1", "-p", str(port))
    assert done.returncode not in (0, EX_USAGE)
    assert str(port) in done.stderr and "in use" in done.stderr
    assert settles(lambda: server_sock.stats()["curr_connections"] == "1")


def test_device_in_use(server_tap, ucached_path):
    done = server_tap.run([ucached_path, "--io=tap"], timeout=60, capture_output=True, text=True)
    assert done.returncode not in (0, EX_USAGE)
    assert "ucached0" in done.stderr and "another" in done.stderr
    assert settles(lambda: server_tap.stats()["curr_connections"] == "1")


def test_trace_file_that_cannot_be_written(start_server):
    with pytest.raises(ServerError, match="/no/such/folder/trace"):
        start_server("tap", "--trace=/no/such/folder/trace.pcap")


# ---- listening --------------------------------------------------------------------------------


def test_free_port_is_chosen_and_printed(ucached_path):
    process = subprocess.Popen(
        [ucached_path, "--io=sock", "-l", "127.0.0.1", "-p", "-1"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stderr:
            if match := re.search(r"127\.0\.0\.1:(\d+)", line):
                break
        with socket.create_connection(("127.0.0.1", int(match.group(1))), 10) as sock:
            sock.sendall(b"version\r\n")
            assert sock.recv(100).startswith(b"VERSION ")
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.parametrize(
    "listen,addresses",
    [
        ("127.0.0.1,127.0.0.2", ["127.0.0.1", "127.0.0.2"]),
        ("localhost", ["127.0.0.1"]),
        ("[::1]", ["::1"]),
        ("127.0.0.1,[::1]", ["127.0.0.1", "::1"]),
    ],
    ids=["two", "name", "v6", "both"],
)
def test_listen_addresses(ucached_path, listen, addresses):
    if "::1" in addresses and not has_ipv6():
        pytest.skip("no IPv6 on this machine")
    port = free_port()
    process = subprocess.Popen(
        [ucached_path, "--io=sock", "-l", listen, "-p", str(port)], stderr=subprocess.DEVNULL
    )
    try:
        for address in addresses:
            assert settles(lambda address=address: answers(address, port)), address
        assert not answers("127.0.0.3", port)
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
        return True
    except OSError:
        return False


def answers(address, port):
    try:
        with socket.create_connection((address, port), 2) as sock:
            sock.sendall(b"version\r\n")
            return sock.recv(100).startswith(b"VERSION ")
    except OSError:
        return False


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_threads_serve_all_connections(start_server, threads):
    server = start_server("sock", "-t", threads)
    assert server.stats()["threads"] == str(threads)
    wires = [wire_to(server) for _ in range(40)]
    for wire in wires:
        wire.say(b"get k\r\n", MISS)
        wire.close()


def test_other_addresses(ucached_path, tap_obstacle):
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    space = netspace.NetSpace()
    command = [ucached_path, "--dev=other0", "--ip=192.168.7.2/24", "--host-ip=192.168.7.1/24"]
    command += ["--mac=02:00:00:12:34:56", "-p", "12000"]
    process = space.popen(command, stderr=subprocess.DEVNULL)
    try:
        assert settles(lambda: space.run(answers, "192.168.7.2", 12000))
        assert "other0" in device_names(space)
        assert neighbours(space)["192.168.7.2"] == "02:00:00:12:34:56"
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        space.close()


def test_address_of_another_link(start_server, ucached_path):
    """A second server with the same network would get half of the frames."""
    first = start_server("tap")
    command = [ucached_path, "--io=tap", "--dev=other0"]
    done = first.run(command, stderr=subprocess.PIPE, text=True)
    assert done.returncode == EX_OSERR
    assert "10.100.0.10" in done.stderr and "in use on this machine" in done.stderr


def test_trace_is_a_pcap_file(start_server, tmp_path):
    path = tmp_path / "trace.pcap"
    server = start_server("tap", f"--trace={path}")
    with wire_to(server) as wire:
        wire.say(b"get traced_key\r\n", MISS)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    data = path.read_bytes()
    magic, major, minor, _, _, snap, link = struct.unpack_from("=IHHiIII", data)
    assert (magic, major, minor, link) == (0xA1B2C3D4, 2, 4, 1) and snap >= 1514
    frames, offset = [], 24
    while offset < len(data):
        _, _, kept, size = struct.unpack_from("=IIII", data, offset)
        assert kept == size and 14 <= size <= snap
        frames.append(data[offset + 16 : offset + 16 + kept])
        offset += 16 + kept
    assert offset == len(data)
    assert any(b"get traced_key\r\n" in frame for frame in frames)
    assert any(b"END\r\n" in frame for frame in frames)


# ---- the neighbourhood ------------------------------------------------------------------------


def neighbours(space):
    """The ARP table of the kernel: IP address to hardware address."""

    def read():
        with open("/proc/thread-self/net/arp", encoding="ascii") as table:
            return {row.split()[0]: row.split()[3] for row in list(table)[1:]}

    return space.run(read)


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ping(space, address, payload, number):
    """The payload of the reply to one ICMP echo request."""
    head = struct.pack("!BBHHH", 8, 0, 0, 0x4321, number)
    request = struct.pack("!BBHHH", 8, 0, checksum(head + payload), 0x4321, number) + payload
    raw = space.run(socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with closing(raw):
        raw.settimeout(IO_TIMEOUT)
        raw.sendto(request, (address, 0))
        while True:
            packet = raw.recv(65536)
            message = packet[(packet[0] & 15) * 4 :]
            kind, code, _, ident, seen = struct.unpack_from("!BBHHH", message)
            if (kind, code, ident, seen) == (0, 0, 0x4321, number):
                assert checksum(message) == 0
                return message[8:]


@pytest.mark.parametrize("size", [0, 1, 56, 1000, 1472])
def test_ping(server_tap, size):
    for number in range(10):
        payload = os.urandom(size)
        assert ping(server_tap.space, TAP_ADDRESS, payload, number) == payload


def test_arp(server_tap):
    server_tap.stats()
    hardware = neighbours(server_tap.space)[TAP_ADDRESS]
    assert (
        re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", hardware) and hardware != "00:00:00:00:00:00"
    )
    assert int(hardware[:2], 16) & 3 == 2, "neither ours to give nor the address of one station"


def test_host_that_changes_its_hardware_address(server_tap):
    """Its connections stay open after its MAC address has changed."""
    if shutil.which("ip") is None:
        pytest.skip("ip (Debian: iproute2) is not installed")
    with wire_to(server_tap) as wire, wire_to(server_tap) as other:
        wire.say(b"get k\r\n", MISS)
        other.say(b"get k\r\n", MISS)
        command = ["ip", "link", "set", "ucached0", "address", "02:00:00:ab:cd:ef"]
        assert server_tap.run(command, timeout=60).returncode == 0
        wire.say(b"get k\r\n", MISS)
        other.say(b"get k\r\n", MISS)
    with wire_to(server_tap) as wire:
        wire.say(b"get k\r\n", MISS)


def test_hardware_addresses_differ(start_server):
    seen = set()
    for _ in range(3):
        server = start_server("tap")
        server.stats()
        seen.add(neighbours(server.space)[TAP_ADDRESS])
    assert len(seen) == 3


def test_the_address_next_door_is_not_ours(server_tap):
    server_tap.stats()
    with pytest.raises(OSError):
        server_tap.space.run(socket.create_connection, ("10.100.0.21", TAP_PORT), 1)
    assert TAP_HOST_ADDRESS not in neighbours(server_tap.space)


# ---- the end ----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
def test_signal_ends_it_in_order(server, number):
    before = device_names(server.space)
    with wire_to(server) as idle, wire_to(server) as busy:
        idle.say(b"get k\r\n", MISS)
        busy.send(b"set k 0 0 100000\r\n" + b"x" * 50_000)
        busy.send(b"")
        server.signal(number)
        assert server.wait() == 0
    if server.kind == "tap":
        assert "ucached0" in before and "ucached0" not in device_names(server.space)


def test_kill_leaves_no_device(server_tap):
    server_tap.signal(signal.SIGKILL)
    assert server_tap.wait() == -signal.SIGKILL
    assert settles(lambda: "ucached0" not in device_names(server_tap.space))


def test_hang_up_is_ignored(server):
    server.signal(signal.SIGHUP)
    with wire_to(server) as wire:
        wire.say(b"get k\r\n", MISS)
    assert server.running()


def test_port_can_be_reused_after_a_restart(server_sock, ucached_path):
    """Connections of the one that has ended must not stop the next one from listening."""
    with wire_to(server_sock) as wire:
        wire.say(b"get k\r\n", MISS)
        server_sock.signal(signal.SIGTERM)
        assert server_sock.wait() == 0
    port = server_sock.address[1]
    process = subprocess.Popen(
        [ucached_path, "--io=sock", "-l", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL
    )
    try:
        assert settles(lambda: answers("127.0.0.1", port))
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def running(pid):
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_daemon_and_process_id_file(run, tmp_path):
    port, path = free_port(), tmp_path / "ucached.pid"
    done = run("--io=sock", "-d", "-P", str(path), "-l", "127.0.0.1", "-p", str(port))
    assert done.returncode == 0
    pid = int(path.read_text())  # it is there when the command returns
    try:
        assert path.read_text() == f"{pid}\n"
        assert settles(lambda: answers("127.0.0.1", port))
        assert os.getsid(pid) == pid and os.readlink(f"/proc/{pid}/cwd") == "/"
    finally:
        os.kill(pid, signal.SIGTERM)
        ended = settles(lambda: not running(pid))
        if not ended:
            os.kill(pid, signal.SIGKILL)
    assert ended and settles(lambda: not path.exists())


def test_daemon_that_cannot_start_prints_an_error(run, server_sock):
    done = run("--io=sock", "-d", "-l", "127.0.0.1", "-p", str(server_sock.address[1]))
    assert done.returncode != 0 and "in use" in done.stderr


def test_daemon_complains_before_it_is_in_the_background(run, tmp_path):
    """About a process id file that cannot be written it only complains, as memcached does."""
    path = tmp_path / "no folder" / "pid"
    port = free_port()
    done = run("--io=sock", "-d", "-P", str(path), "-A", "-l", "127.0.0.1", "-p", str(port))
    assert done.returncode == 0 and f"-P: cannot write {path}" in done.stderr
    with socket.create_connection(("127.0.0.1", port), IO_TIMEOUT) as sock:
        sock.sendall(b"shutdown\r\n")
        assert sock.recv(1) == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to become another user")
def test_daemon_that_may_not_write_core_files_prints_an_error(run, ucached_path):
    reset = ["--reuid=65534", "--regid=65534", "--clear-groups"]
    command = [*reset, "prlimit", "--core=0:0", ucached_path, "--io=sock", "-d", "-r", "-c", "10"]
    done = subprocess.run(
        ["setpriv", *command, "-l", "127.0.0.1", "-p", str(free_port())],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == EX_OSERR and "core files are forbidden" in done.stderr


def test_process_id_file_in_the_foreground(start_server, tmp_path):
    path = tmp_path / "ucached.pid"
    server = start_server("sock", "-P", path)
    assert path.read_text() == f"{server.pid}\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user")
@pytest.mark.parametrize("kind", ["sock", "tap"])
def test_privileges_are_given_up(start_server, kind):
    server = start_server(kind, "-u", "nobody")
    with open(f"/proc/{server.pid}/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status)
    assert "0" not in fields["Uid"].split() + fields["Gid"].split()
    with wire_to(server) as wire:
        wire.say(b"get k\r\n", MISS)
