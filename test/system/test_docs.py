# SPDX-License-Identifier: BSD-3-Clause
"""The commands that README.md and docs/ show, read from the pages and run as they stand.

Each block of lines runs in a network and a /run of its own, with two Ethernet interfaces. What
takes a clean system (make, packages, the container) is in test/packages.
"""

import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import time

import netspace
import page
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in ROOT.glob("docs/*.md"))]
ELSEWHERE = ("apt-get", "docker", "dpkg-buildpackage", "git", "make run", "make LIGHT=1", "nc -w")

# Devices that a machine may not have: what the program then says.
ABSENT = {
    "--io=dpdk": "no device",
    "0000:17:00.0": "0000:17:00.0",
    "/run/vm.sock": "No such file or directory",
}
READY_S = 60


def all_blocks():
    for name in sorted(PAGES):
        for number, lines in page.blocks(ROOT / name):
            yield pytest.param(name, lines, id=f"{name}:{number}")


@pytest.fixture
def place(tap_obstacle, tmp_path, ucached_path):
    """Runs a line of shell where the interfaces of the pages are: place(line, environment)."""
    if tap_obstacle:
        pytest.skip(f"the pages' interfaces: {tap_obstacle}")
    space = netspace.NetSpace()
    links = """
        ip link add eth0 type veth peer name peer0; ip link set peer0 up
        ip link add eth1 type veth peer name peer1; ip link set peer1 up; ethtool -K peer1 tx off
        ip link set eth0 up; ip link set eth1 up; ip link set lo up
        ip addr add 192.168.9.1/24 dev eth0
        """
    space.run(subprocess.run, ["sh", "-ec", links], check=True, capture_output=True, timeout=60)
    apps = pathlib.Path(ucached_path).parents[1]
    names = [str(apps / name) for name in ("ucached", "ucload", "ucping", "ucwarm", "kvbench")]
    env = {**os.environ, "PATH": ":".join([*names, os.environ["PATH"]])}
    enter = """
        for folder in /run /dev/shm; do mount -t tmpfs tmpfs $folder; done
        mount -t sysfs sysfs /sys
        cd "$1"; eval "$2"
        """

    def start(line, more):
        words = [*space.entry, "unshare", "--mount", "sh", "-ec", enter, "sh", str(tmp_path), line]
        return subprocess.Popen(words, env={**env, **more}, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)  # fmt: skip

    yield start
    space.close()


def serves(place, line, tmp_path):
    """A server gets ready, or names the device that is absent, and ends in order."""
    path = tmp_path / "notify"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(0.1)
        process = place(f"exec {line}", {"NOTIFY_SOCKET": str(path)})
        deadline = time.monotonic() + READY_S
        ready = b""
        while not ready and process.poll() is None and time.monotonic() < deadline:
            try:
                ready = manager.recv(64)
            except TimeoutError:
                pass
        process.terminate()
        output = process.communicate(timeout=60)[0]
    if ready:
        assert process.returncode == 0, output
        return
    wanted = [text for word, text in ABSENT.items() if word in line]
    assert wanted and any(text in output for text in wanted), output


def succeeds(place, line, env):
    process = place(line, env)
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, f"{line}\n{output}"


def make_target(line):
    """`make -n`: the target exists, and what it needs."""
    done = subprocess.run([*shlex.split(line), "-n"], cwd=ROOT, capture_output=True, text=True,
                          check=False, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr


def certificate(folder):
    """The files that the page's server takes: its own certificate is that of its clients, too."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", "key.pem", "-out",
             "cert.pem"]  # fmt: skip
    subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=60)
    shutil.copy(folder / "cert.pem", folder / "clients-ca.pem")


@pytest.fixture
def example(tmp_path, ucached_path):
    """A folder with the examples and tools, and where pkg-config finds the installed library."""
    build = pathlib.Path(ucached_path).parents[2]
    target = tmp_path / "installed"
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", target],
                   check=True, capture_output=True, timeout=120)  # fmt: skip
    (found,) = target.rglob("ustack.pc")
    for name in ("tools", "src", "include"):
        os.symlink(ROOT / name, tmp_path / name)
    (tmp_path / "echo_loop.c").write_text((ROOT / "examples/echo_loop.c").read_text())
    return {"PKG_CONFIG_LIBDIR": str(found.parent), "PKG_CONFIG_SYSROOT_DIR": str(target),
            "LD_LIBRARY_PATH": str(found.parent.parent)}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name, lines", list(all_blocks()))
def test_commands(name, lines, request, tmp_path):
    if any(word in line for line in lines for word in ELSEWHERE):
        assert name == "README.md"  # test/packages reads only this page
        return
    if all(line.split()[0] == "make" for line in lines):
        for line in lines:
            make_target(line)
        return
    place = request.getfixturevalue("place")
    env = request.getfixturevalue("example") if "embedding" in name else {}
    if "tls" in name:
        certificate(tmp_path)
    if any(line.startswith("ucached -d ") for line in lines):
        succeeds(place, "\n".join(lines), env)
        return
    for line in lines:
        if line.startswith("ucached"):
            serves(place, line, tmp_path)
        else:
            succeeds(place, line, env)


def test_pages_show_commands():
    """The reader of pages finds what a person sees: the first line to try, and all back ends."""
    lines = [line for name in PAGES for _, block in page.blocks(ROOT / name) for line in block]
    assert "make run" in lines
    for back_end in ("uring", "sock", "tap", "xdp", "dpdk"):
        assert any(f"--io={back_end}" in line for line in lines)
