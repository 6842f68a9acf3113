# SPDX-License-Identifier: BSD-3-Clause
"""The first commands of README.md in a clean Debian, as a newcomer types them."""

import contextlib
import subprocess
import time

import debroot
import page
import pytest
from conftest import ROOT, YES

PAGE = ROOT / "README.md"
BUILD_S = 1800


@contextlib.contextmanager
def newcomer(suite, tmp_path):
    """A clean system with git, make and a copy of the repository to clone."""
    if why := debroot.missing():
        pytest.skip(why)
    with debroot.overlay(suite, tmp_path / "overlay") as root:
        root.add(YES, "/etc/apt/apt.conf.d/yes")
        root.apt("update")
        root.apt("install", "git", "ca-certificates", "make", "iproute2")
        subprocess.run(["git", "clone", "-q", "--bare", ROOT, root.path / "repository"], check=True)
        yield root


def until_answered(root, process, line, reply):
    """Runs a line beside a server until it gets the reply."""
    deadline = time.monotonic() + BUILD_S
    while time.monotonic() < deadline and process.poll() is None:
        words = ["nsenter", "--target", str(process.pid), "--net", "chroot", str(root.path)]
        done = subprocess.run([*words, "sh", "-c", line], capture_output=True, text=True,
                              check=False, stdin=subprocess.DEVNULL)  # fmt: skip
        if reply in done.stdout:
            return
        time.sleep(1)
    pytest.fail(f"no answer; the server returned {process.poll()}")


def serve(root, line):
    """Starts a server in a network of its own."""
    command = 'ip link set lo up; cd /ucached; exec "$@"'
    inside = ["chroot", str(root.path), "/bin/sh", "-ec", command, "sh"]
    return subprocess.Popen(["unshare", "--net", *inside, "sh", "-c", f"exec {line}"])


def serves(root, line, attempt):
    process = serve(root, line)
    try:
        until_answered(root, process, attempt, "world")
    finally:
        process.terminate()
        process.wait(20)


def test_light_build(tmp_path):
    """On Debian 12: kernel sockets and TAP, without clang and DPDK.

    Linked in less time than without LDFLAGS; the container has the same server with LTO.
    """
    clone, change, _ = page.block(PAGE, "git clone")
    light, server = page.block(PAGE, "make LIGHT=1")
    (attempt,) = page.block(PAGE, "nc -w")
    with newcomer("bookworm", tmp_path) as root:
        root.sh(f"REPOSITORY=/repository; {clone}; {change}; {light}", env={"LDFLAGS": "-fno-lto"},
                limit_s=BUILD_S)  # fmt: skip
        assert root.run("which", "clang", check=False).returncode != 0
        serves(root, server, attempt.replace("10.100.0.20", "127.0.0.1"))


def test_make_run(tmp_path):
    """On Debian 13: the server with all back ends; and the line to paste works."""
    clone, change, run = page.block(PAGE, "git clone")
    (attempt,) = page.block(PAGE, "nc -w")
    with newcomer("trixie", tmp_path) as root:
        # As `make run` does by itself, which here has no network to install from.
        root.sh(f"REPOSITORY=/repository; {clone}; {change}; make server", limit_s=BUILD_S)
        serves(root, run, attempt)


def test_the_container_is_built_from_the_file_that_is_tested():
    build, run = page.block(PAGE, "docker build")
    assert "-f packaging/Dockerfile" in build and build.endswith(" .")  # test_image.py
    assert run.startswith("docker run -p 11211:11211 ")
