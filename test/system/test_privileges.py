# SPDX-License-Identifier: BSD-3-Clause
"""Privileges that each back end keeps: the table of docs/administration.md is compared."""

import os
import pathlib
import re
import signal
import subprocess

import netspace
import pytest
import server as servers
import veth
from wire import MISS, STORED, Wire, settles, wire_to

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up")

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAP_NET_ADMIN = 12

# The first column of the table, and how such a server is started.
BACK_ENDS = {
    "`sock`": ("sock", []),
    "`uring`": ("uring", []),
    "`tap`": ("tap", []),
    "`xdp`, native": ("xdp", ["--xdp=native"]),
    "`xdp`, generic": ("xdp", ["--xdp=generic"]),
    "`dpdk`": ("dpdk", []),
}


def table():
    """Back end -> (capabilities of the main thread, of the other threads, whether filtered)."""
    text = (ROOT / "docs" / "administration.md").read_text(encoding="utf-8")
    rows = text.partition("| back end | main thread |")[2].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {row[0]: (bits(row[1]), bits(row[2]), row[3] == "yes") for row in cells}


def bits(cell):
    known = {"CAP_NET_ADMIN": 1 << CAP_NET_ADMIN}
    return sum(known[name] for name in re.findall(r"CAP_\w+", cell))


def threads_of(pid):
    """Thread id -> the fields of its status."""
    found = {}
    for path in pathlib.Path(f"/proc/{pid}/task").iterdir():
        lines = (path / "status").read_text(encoding="ascii").splitlines()
        found[int(path.name)] = {name: value.strip() for name, _, value in
                                 (line.partition(":") for line in lines)}  # fmt: skip
    return found


def has_sanitizer(path):
    content = pathlib.Path(path).read_bytes()
    return b"__asan_init" in content or b"__tsan_init" in content


@pytest.fixture
def start(ucached_path, tap_obstacle, tmp_path, monkeypatch):
    """Starts a server of a back end; .link is its device's namespace and name, if it has one."""
    started = []

    def start(io, *args):
        log = tmp_path / f"{len(started)}.log"
        if io in ("sock", "uring"):
            monkeypatch.setattr(servers, "SOCK", io)
            one = servers.start_sock(ucached_path, log, list(args))
        else:
            if reason := tap_obstacle or servers.missing(ucached_path, io):
                pytest.skip(f"{io}: {reason}")
            one = servers.STACKS[io](ucached_path, log, list(args))
        started.append(one)
        return one

    yield start
    for one in started:
        one.stop()


def has_gro(space):
    done = space.run(subprocess.run, ["ethtool", "-k", veth.SERVER_DEVICE], capture_output=True,
                     text=True, check=True, timeout=60)  # fmt: skip
    return "generic-receive-offload: on" in done.stdout


@pytest.fixture
def gro_on(monkeypatch):
    """Interfaces of the server have generic receive offload on, as those of NICs do."""
    make = veth.Link.__init__

    def make_with_gro(self, *args, **options):
        make(self, *args, **options)
        self.server.run(subprocess.run, ["ethtool", "-K", veth.SERVER_DEVICE, "gro", "on"],
                        check=True, timeout=60)  # fmt: skip

    monkeypatch.setattr(veth.Link, "__init__", make_with_gro)


@pytest.mark.parametrize("user", [[], ["-u", "nobody"]], ids=["root", "nobody"])
@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_privileges_that_are_kept(start, gro_on, ucached_path, back_end, user):
    io, args = BACK_ENDS[back_end]
    main_caps, other_caps, filtered = table()[back_end]
    server = start(io, *args, *user)

    def status_is_right():
        for thread, fields in threads_of(server.pid).items():
            expected = main_caps if thread == server.pid else other_caps
            for name in ("CapPrm", "CapEff"):
                if int(fields[name], 16) != expected:
                    return f"{fields['Name']} has {name} {fields[name]}"
            for name in ("CapBnd", "CapInh", "CapAmb"):
                if int(fields[name], 16) != 0:
                    return f"{fields['Name']} has {name} {fields[name]}"
            if fields["NoNewPrivs"] != "1":
                return f"{fields['Name']} may gain privileges"
            wanted = "2" if filtered and not has_sanitizer(ucached_path) else "0"
            if fields["Seccomp"] != wanted:
                return f"{fields['Name']} has Seccomp {fields['Seccomp']}, not {wanted}"
            if ("0" in fields["Uid"].split()) == bool(user):
                return f"{fields['Name']} is user {fields['Uid']}"
        return ""

    # It answers before the filter is there.
    assert settles(lambda: status_is_right() == ""), status_is_right()
    if user == []:
        assert "warning: running as root" in server.log()
    works(server)
    space, device = server.home, io in ("xdp", "tap")
    server.signal(signal.SIGINT)
    assert server.wait() == 0, server.log()
    if io == "xdp":
        assert "prog/xdp" not in link_of(space, veth.SERVER_DEVICE)
        assert has_gro(space)
    elif device:
        assert "ucached0" not in link_of(space)


def link_of(space, *device):
    command = ["ip", "link", "show", *device]
    return space.run(subprocess.run, command, capture_output=True, text=True, timeout=60).stdout


def works(server):
    """Features with system calls of their own work behind the filter."""
    with wire_to(server) as wire:
        for number in range(20):
            wire.say(b"set k%d 0 0 1000\r\n%s\r\n" % (number, b"x" * 1000), STORED)
        wire.say(b"cache_memlimit 16\r\n", b"OK\r\n")
        wire.say(b"cache_memlimit 128\r\n", b"OK\r\n")
        wire.say(b"flush_all\r\n", b"OK\r\n")
        wire.say(b"get k1\r\n", MISS)
        for which in (b"", b" settings", b" conns", b" nic", b" sock", b" kv", b" ustack"):
            assert wire.replies(b"stats%s\r\n" % which) != b""
        wire.say(b"verbosity 2\r\n", b"OK\r\n")
    for _ in range(20):
        with wire_to(server) as wire:
            wire.say(b"set a 0 0 1\r\nx\r\n", STORED)
    server.signal(signal.SIGHUP)
    with wire_to(server) as wire:
        wire.say(b"get none\r\n", MISS)


def test_capabilities_and_filter_can_be_kept(start):
    server = start("sock", "-o", "no_drop_privileges")
    own = threads_of(os.getpid())[os.getpid()]
    for fields in threads_of(server.pid).values():
        assert fields["CapEff"] == own["CapEff"] and fields["Seccomp"] == own["Seccomp"]
    assert "with all capabilities" in server.log()


def test_users_are_read_again_behind_the_filter(start, tmp_path):
    """SIGHUP opens the file of -Y, which a server without -Y may not do."""
    users = tmp_path / "users"
    users.write_text("a:old\n")
    server = start("sock", "-Y", str(users))

    def can_log_in(password):
        text = b"a " + password
        with wire_to(server) as wire:
            wire.send(b"set x 0 0 %d\r\n%s\r\n" % (len(text), text))
            return wire.until(b"\r\n") == STORED

    assert can_log_in(b"old")
    users.write_text("a:new\n")
    server.signal(signal.SIGHUP)
    assert settles(lambda: can_log_in(b"new"))


@pytest.mark.parametrize("user", [[], ["-u", "nobody"]], ids=["root", "nobody"])
def test_locked_memory_with_a_small_limit(ucached_path, tmp_path, user):
    """-k where the limit for locked memory is 8 MiB: threads are started after root is given up."""
    port = servers.free_port()
    command = ["prlimit", f"--memlock={8 << 20}:{8 << 20}", ucached_path, "-k", *user,
               "-l", "127.0.0.1", "-p", str(port)]  # fmt: skip
    server = servers.Server("sock", command, ("127.0.0.1", port), netspace.HostSpace(),
                            tmp_path / "log")  # fmt: skip
    try:
        works(server)
    finally:
        server.stop()


def test_locked_memory_without_the_right_to_raise_the_limit(ucached_path, tmp_path):
    """As in a container that may lock memory, but not raise limits: a warning, and it serves."""
    port = servers.free_port()
    command = ["setpriv", "--bounding-set", "-sys_resource", "--inh-caps", "-sys_resource",
               "prlimit", f"--memlock={8 << 20}:{8 << 20}", ucached_path, "-k", "-u", "nobody",
               "-l", "127.0.0.1", "-p", str(port)]  # fmt: skip
    server = servers.Server("sock", command, ("127.0.0.1", port), netspace.HostSpace(),
                            tmp_path / "log")  # fmt: skip
    try:
        works(server)
        if not has_sanitizer(ucached_path):
            assert "warning: -k: " in server.log()
    finally:
        server.stop()


def test_port_file_replaces_a_link(ucached_path, tmp_path, monkeypatch):
    victim, path = tmp_path / "victim", tmp_path / "ports"
    victim.write_text("precious")
    for name in ("ports", "ports.tmp", "ports.lck"):
        (tmp_path / name).symlink_to(victim)
    monkeypatch.setenv("MEMCACHED_PORT_FILENAME", str(path))
    server = servers.start_sock(ucached_path, tmp_path / "log", ["-u", "nobody"])
    try:
        assert victim.read_text() == "precious"
        assert path.read_text() == f"TCP INET: {server.address[1]}\n" and not path.is_symlink()
        assert path.owner() == "nobody"
    finally:
        server.stop()


def test_trace_does_not_follow_a_link(ucached_path, tap_obstacle, tmp_path):
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    victim, path = tmp_path / "victim", tmp_path / "trace"
    victim.write_text("precious")
    path.symlink_to(victim)
    with pytest.raises(servers.ServerError, match="symbolic link"):
        servers.start_on_tap(ucached_path, tmp_path / "log", [f"--trace={path}"])
    assert victim.read_text() == "precious"
