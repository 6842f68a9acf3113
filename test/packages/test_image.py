# SPDX-License-Identifier: BSD-3-Clause
"""The container: each step of its Dockerfile runs, the result is small, serves and is healthy."""

import os
import subprocess
import time

import dockerfile
import pytest

# The image has a server with the C library, seccomp, liburing, OpenSSL and a shell beside Debian.
ADDED_MB_MAX = 16


@pytest.fixture(scope="module")
def image(archive, tmp_path_factory):
    scratch = tmp_path_factory.mktemp("image")
    with dockerfile.built(archive / "packaging/Dockerfile", archive, scratch) as stage:
        yield stage


def as_user(stage, *command):
    return ["chroot", f"--userspec={stage.settings['USER']}", str(stage.root.path), *command]


def alone(*command):
    """A command in a network of its own, which has the loopback interface only."""
    return ["unshare", "--net", "sh", "-ec", 'ip link set lo up; exec "$@"', "sh", *command]


def test_it_adds_little_to_debian(image):
    changed = image.root.path.parent / "upper"
    cache = changed / "var/cache/apt"  # Debian's images keep it empty
    added = [path for path in changed.rglob("*")
             if path.is_file() and not path.is_relative_to(cache)]  # fmt: skip
    assert sum(path.lstat().st_size for path in added) < ADDED_MB_MAX << 20


def test_it_has_io_uring_the_filter_and_tls(image):
    linked = image.root.sh("ldd /usr/local/bin/ucached").stdout
    assert all(name in linked for name in ("liburing", "libseccomp", "libssl"))
    assert "not found" not in linked


def until_it_succeeds(server, command):
    """Repeats a command in the network of a server."""
    deadline = time.monotonic() + 60
    words = ["nsenter", "--target", str(server.pid), "--net", *command]

    def succeeds():
        if os.readlink(f"/proc/{server.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            return False  # not its own yet
        return subprocess.run(words, check=False, stderr=subprocess.DEVNULL).returncode == 0

    while not succeeds():
        assert server.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)


def end(server):
    server.terminate()
    assert server.wait(60) == 0


@pytest.mark.parametrize("arguments", [[], ["-m", "32"], ["memcached", "-vv"]], ids=" ".join)
def test_it_serves_and_is_healthy(image, arguments):
    command = [*image.words("ENTRYPOINT"), *(arguments or image.words("CMD"))]
    health = as_user(image, *image.words("HEALTHCHECK"))
    server = subprocess.Popen(alone(*as_user(image, *command)))
    try:
        until_it_succeeds(server, health)
    finally:
        end(server)
    assert subprocess.run(alone(*health), check=False, stderr=subprocess.DEVNULL).returncode != 0


# What Docker leaves to root of a container, as far as a server may need it.
DOCKERS = "-all,+chown,+dac_override,+setuid,+setgid,+setpcap,+net_raw,+kill"


@pytest.mark.skipif(not os.path.exists("/dev/net/tun"), reason="there is no /dev/net/tun")
def test_it_serves_on_tap_with_one_more_capability(image):
    """As docs/administration.md says: root, NET_ADMIN and the device."""
    confined = ["setpriv", "--bounding-set", f"{DOCKERS},+net_admin", "--no-new-privs"]
    command = ["chroot", str(image.root.path), *confined, "ucached", "--io=tap", "-u", "ucached"]
    server = subprocess.Popen(alone(*command))
    try:
        ask = "exec 3<>/dev/tcp/10.100.0.20/11211; echo version >&3; read -t 2 -r line <&3"
        until_it_succeeds(server, ["bash", "-c", ask])
    finally:
        end(server)
