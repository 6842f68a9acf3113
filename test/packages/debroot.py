# SPDX-License-Identifier: BSD-3-Clause
"""Clean Debian systems for the tests: folders to change root to, and to boot systemd in.

A root is made once per suite by mmdebstrap from the mirror that this machine's apt uses, and kept
in build/roots. Each use is an overlay on it, which vanishes afterwards. Needs root.
"""

import contextlib
import ctypes
import os
import shutil
import subprocess
import time
from pathlib import Path

ROOTS = Path(__file__).resolve().parents[2] / "build" / "roots"
KEPT_S = 7 * 86400  # a root older than this is made again
COMMAND_S = 1800
CLONE_NEWNS = 0x20000
BOOT_S = 60
CGROUPS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
BIND = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty",
        "/dev/net/tun")  # fmt: skip


class RootError(Exception):
    pass


def own_mounts():
    """Gives this process mounts of its own: those it makes vanish with it, however it ends."""
    if not missing():
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        run("mount", "--make-rprivate", "/")


def missing():
    """Why no root can be made; empty if one can."""
    if os.geteuid() != 0:
        return "needs root"
    if not shutil.which("mmdebstrap"):
        return "mmdebstrap is not installed"
    return ""


def run(*command, limit_s=COMMAND_S, check=True, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=limit_s,
                          stdin=subprocess.DEVNULL, **options)  # fmt: skip
    if check and done.returncode != 0:
        raise RootError(f"{command} returned {done.returncode}:\n{done.stdout[-8000:]}")
    return done


def mirror():
    """The address of the Debian archive in this machine's apt configuration."""
    listed = run("apt-get", "indextargets", "--format", "$(ORIGIN)|$(SUITE)|$(REPO_URI)",
                 "Created-By: Packages").stdout  # fmt: skip
    for line in listed.splitlines():
        origin, suite, address = line.split("|")
        if origin == "Debian" and "-" not in suite:
            return address
    raise RootError("apt's configuration names no Debian archive")


def base(suite):
    """The folder of a minimal Debian. Never to be changed: use overlay()."""
    folder = ROOTS / suite
    if folder.exists() and time.time() - folder.stat().st_mtime < KEPT_S:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    ROOTS.mkdir(parents=True, exist_ok=True)
    made = ROOTS / f"{suite}.new"
    shutil.rmtree(made, ignore_errors=True)
    run("mmdebstrap", "--variant=minbase", suite, made, mirror())
    made.rename(folder)
    os.utime(folder)
    return folder


class Root:
    """An overlay of a minimal Debian, mounted at `path`."""

    def __init__(self, path):
        self.path = path

    def run(self, *command, check=True, env=None, limit_s=COMMAND_S):
        """Runs a command inside, with the network of this machine."""
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive",
               "LC_ALL": "C.UTF-8", "HOME": "/root", **proxies(), **(env or {})}  # fmt: skip
        return run("chroot", self.path, *command, check=check, env=env, limit_s=limit_s)

    def sh(self, line, **options):
        return self.run("sh", "-ec", line, **options)

    def apt(self, *words):
        """apt-get without what is only recommended."""
        return self.run("apt-get", "-qq", "-y", "--no-install-recommends", *words)

    def add(self, source, to):
        """Copies a file or folder inside."""
        target = self.path / to.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target)


def proxies():
    return {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}


@contextlib.contextmanager
def overlay(suite, scratch):
    """A Root whose changes lie in the folder `scratch` and are dropped at the end."""
    merged, upper, work = (scratch / name for name in ("root", "upper", "work"))
    for folder in (scratch, merged, upper, work):
        folder.mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "size=4g", "tmpfs", scratch)
    try:
        for folder in (merged, upper, work):
            folder.mkdir(exist_ok=True)
        run("mount", "-t", "overlay", "overlay", "-o",
            f"lowerdir={base(suite)},upperdir={upper},workdir={work}", merged)  # fmt: skip
        run("mount", "-t", "proc", "proc", merged / "proc")
        for device in filter(os.path.exists, BIND):
            inside = merged / device.lstrip("/")
            inside.parent.mkdir(exist_ok=True)
            inside.touch()
            run("mount", "--bind", device, inside)
        shutil.copy("/etc/resolv.conf", merged / "etc/resolv.conf")
        yield Root(merged)
    finally:
        run("umount", "-R", "-l", scratch, check=False)


class Booted:
    """systemd as process 1 of namespaces of its own, on a Root."""

    def __init__(self, process, init):
        self.process = process
        self.init = init

    def run(self, *command, check=True, limit_s=60):
        return run("nsenter", "--target", self.init, "--all", "--root", "--wd", *command,
                   check=check, limit_s=limit_s,
                   env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"})  # fmt: skip

    def popen(self, *command, **options):
        return subprocess.Popen(["nsenter", "--target", str(self.init), "--all", "--root", "--wd",
                                 *command], **options)  # fmt: skip

    def systemctl(self, *words, check=True):
        return self.run("systemctl", "--no-pager", *words, check=check).stdout.strip()


BOOT = """
mount --make-rprivate /
cd "$1"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mkdir -p dev/pts dev/shm dev/mqueue
ip link set lo up
mkdir -p .old && pivot_root . .old && umount -l .old
exec chroot . /usr/bin/env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --log-target=console systemd.unit=multi-user.target
"""


@contextlib.contextmanager
def booted(root, log):
    """Boots the systemd of a Root; its messages go to the file `log`."""
    parent = next(path for path in CGROUPS if (path / "cgroup.procs").exists())
    group = parent / f"ucached-test-{os.getpid()}"
    group.mkdir()
    enter = f'echo $$ > {group}/cgroup.procs && exec "$@"'
    unshare = ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--fork",
               "--kill-child"]  # fmt: skip
    with open(log, "wb") as output:
        process = subprocess.Popen(
            ["sh", "-c", enter, "sh", *unshare, "sh", "-ec", BOOT, "sh", str(root.path)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True)  # fmt: skip
    try:
        yield wait_for_boot(process, log)
    finally:
        process.kill()  # --kill-child ends systemd, and with it everything in its namespace
        process.wait()
        remove_group(group)


def wait_for_boot(process, log):
    deadline = time.monotonic() + BOOT_S
    while time.monotonic() < deadline and process.poll() is None:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if children:
            system = Booted(process, int(children[0]))
            with contextlib.suppress(subprocess.TimeoutExpired):
                done = system.run("systemctl", "is-system-running", check=False, limit_s=5)
                if done.stdout.strip() in ("running", "degraded"):
                    return system
        time.sleep(0.2)
    raise RootError(f"systemd has not booted:\n{Path(log).read_text(errors='replace')[-4000:]}")


def remove_group(group):
    deadline = time.monotonic() + 10
    folders = [*sorted(group.rglob("*/"), reverse=True), group]
    for folder in folders:
        while folder.exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.1)


