# SPDX-License-Identifier: BSD-3-Clause
"""The packages in a clean Debian 12 and 13: built, checked, installed, served from, removed."""

import debroot
import pytest

NAMES = {"ucached", "ucached-tools", "libustack0", "libustack-dev", "libmcproto0", "libmcproto-dev"}
ASK = r'printf "version\r\nset k 0 0 1\r\nv\r\nget k\r\nquit\r\n" | nc -w 5 {host} 11211'
ANSWER = ["STORED", "VALUE k 0 1", "v", "END"]


def names_of(folder):
    return {path.name.partition("_")[0] for path in folder.glob("*.deb")}


def test_lintian_finds_nothing(packages):
    _, folder = packages
    found = (folder / "lintian").read_text().splitlines()
    assert [line for line in found if line[:2] in ("E:", "W:")] == []


def test_all_are_built(packages):
    _, folder = packages
    names = {name for name in names_of(folder) if not name.endswith("-dbgsym")}
    assert names == NAMES


@pytest.fixture(scope="module")
def system(packages, tmp_path_factory):
    """A booted Debian in which all packages are installed, and its root."""
    suite, folder = packages
    scratch = tmp_path_factory.mktemp(f"system-{suite}")
    with debroot.overlay(suite, scratch / "overlay") as root:
        for name in NAMES:
            (path,) = folder.glob(f"{name}_*.deb")
            root.add(path, f"/debs/{path.name}")
        root.apt("update")
        root.apt("install", "systemd", "iproute2", "netcat-openbsd", "pkg-config", "gcc",
                 "libc6-dev", "ethtool", "mandoc")  # fmt: skip
        # Without a network of its own the booted system installs from what lies in apt's cache.
        root.sh("apt-get -qq -y -d install /debs/*.deb")
        root.sh("ln -s /dev/null /etc/systemd/system/getty.target")
        with debroot.booted(root, scratch / "boot.log") as booted:
            booted.run("sh", "-ec", "DEBIAN_FRONTEND=noninteractive apt-get -qq -y install "
                       "/debs/*.deb", limit_s=300)  # fmt: skip
            yield root, booted


def ask(booted, host="127.0.0.1", inside=""):
    """What a server answers to a set and a get. `inside` is a command that starts others."""
    done = booted.run("sh", "-c", f"{inside} sh -c '{ASK.format(host=host)}'")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("VERSION "), done.stdout
    return lines[1:5]


def state(booted, unit, name):
    return booted.systemctl("show", "--value", "-p", name, unit)


def restart(booted, check=True):
    """Restarts the service, as often as a test needs: systemd bounds how often by itself."""
    booted.systemctl("reset-failed", "ucached")
    booted.systemctl("restart", "ucached", check=check)


def start(booted, unit):
    booted.systemctl("start", unit, check=False)
    log = booted.run("journalctl", "--no-pager", "-u", unit).stdout
    assert state(booted, unit, "ActiveState") == "active", log


def status_of(booted, unit):
    """The lines of /proc/PID/status of a service's process."""
    text = booted.run("cat", f"/proc/{state(booted, unit, 'MainPID')}/status").stdout
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def is_confined(booted, unit):
    """It runs as its own user, without capabilities, under a filter."""
    status = status_of(booted, unit)
    user = booted.run("id", "-u", "ucached").stdout.strip()
    assert status["Uid"].split() == [user] * 4
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert "no system call filter" not in booted.run("journalctl", "-b", "-u", unit).stdout
    return int(status["CapEff"], 16)


def test_it_serves_once_installed(system):
    _, booted = system
    assert state(booted, "ucached", "ActiveState") == "active"
    assert state(booted, "ucached", "UnitFileState") == "enabled"
    assert ask(booted) == ANSWER
    assert is_confined(booted, "ucached") == 0


def test_it_survives_restarts_under_load(system):
    """Each restart is ready when systemctl returns, whatever the connections of before do."""
    _, booted = system
    booted.run("systemd-run", "-q", "--unit=load", "sh", "-c",
               "while :; do ucload -T1 -c8 --timeout=1; done")  # fmt: skip
    for _ in range(10):
        restart(booted)
        assert state(booted, "ucached", "ActiveState") == "active"
        assert ask(booted) == ANSWER
    booted.systemctl("stop", "load")


def test_wrong_options_are_not_tried_again(system):
    root, booted = system
    settings = root.path / "etc/default/ucached"
    before = settings.read_text()
    settings.write_text(before + 'OPTIONS="--no-such-option"\n')
    restart(booted, check=False)
    assert state(booted, "ucached", "ActiveState") == "failed"
    assert state(booted, "ucached", "NRestarts") == "0"
    settings.write_text(before)
    restart(booted)
    assert ask(booted) == ANSWER


def test_unit_of_tap(system):
    _, booted = system
    start(booted, "ucached-tap@ucached0")
    assert ask(booted, "10.100.0.20") == ANSWER
    assert is_confined(booted, "ucached-tap@ucached0") == 0
    booted.systemctl("stop", "ucached-tap@ucached0")


def test_unit_of_xdp(system):
    """On one end of a veth pair, the other end of which is in a namespace.

    It reserves its port on all addresses of the host, so the service on kernel sockets stops.
    """
    _, booted = system
    booted.systemctl("stop", "ucached")
    booted.run("sh", "-ec", """
        ip netns add peer
        ip link add port0 type veth peer name peer0 netns peer
        ip addr add 10.9.0.1/24 dev port0
        ip link set port0 up
        ip -n peer addr add 10.9.0.2/24 dev peer0
        ip -n peer link set peer0 up
        """)  # fmt: skip
    start(booted, "ucached-xdp@port0")
    assert ask(booted, "10.9.0.1", inside="ip netns exec peer") == ANSWER
    is_confined(booted, "ucached-xdp@port0")
    booted.systemctl("stop", "ucached-xdp@port0")
    restart(booted)


def test_unit_of_dpdk(system):
    """On a TAP device that DPDK makes, in ordinary pages."""
    _, booted = system
    start(booted, "ucached-dpdk@net_tap0")
    booted.run("sh", "-ec", "ip addr add 10.0.0.1/24 dev dtap0 && ip link set dtap0 up")
    assert ask(booted, "10.0.0.20") == ANSWER
    assert is_confined(booted, "ucached-dpdk@net_tap0") == 0
    booted.systemctl("stop", "ucached-dpdk@net_tap0")


@pytest.mark.parametrize("unit", ["ucached", "ucached-tap@a", "ucached-xdp@a", "ucached-dpdk@a"])
def test_units_are_hardened(system, unit):
    """systemd's own figure, of 10 for a service that may do everything."""
    _, booted = system
    booted.run("systemd-analyze", "security", "--threshold=25", f"{unit}.service")


def test_libraries_are_found_by_pkg_config(system):
    _, booted = system
    booted.run("sh", "-ec", """
        cd /usr/share/doc
        cc -o /tmp/echo libustack-dev/examples/echo_loop.c $(pkg-config --cflags --libs ustack)
        /tmp/echo
        cc -pthread -o /tmp/server libmcproto-dev/examples/server.c \\
            $(pkg-config --cflags --libs mcproto)
        """)  # fmt: skip


@pytest.mark.parametrize(
    "page", ["ucached", "ucload", "ucping", "ucwarm", "kvbench", "ucached-backends"]
)
def test_man_pages_are_found(system, page):
    root, _ = system
    found = list((root.path / "usr/share/man").glob(f"man*/{page}.*.gz"))
    assert len(found) == 1


def test_it_goes_without_a_trace(system):
    """The last of these tests: purged, it leaves neither files nor a running service."""
    root, booted = system
    start(booted, "ucached-tap@ucached0")
    booted.run("apt-get", "-qq", "-y", "purge", "ucached")
    assert state(booted, "ucached", "ActiveState") == "inactive"
    assert not (root.path / "etc/default/ucached").exists()
    assert booted.run("pidof", "ucached", check=False).stdout == ""
