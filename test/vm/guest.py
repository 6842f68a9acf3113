# SPDX-License-Identifier: BSD-3-Clause
"""A guest: QEMU as a child process, commands by an agent in it, its hardware by QMP.

    with Guest(folder, devices=["-device", "e1000e"]) as guest:
        status, output = guest.sh("uname -r")
        guest.ok("modprobe vfio-pci")           # raises unless the status is 0
        guest.qmp("set_link", name="nic", up=False)

QEMU translates instructions (TCG): /dev/kvm is not used, which not every machine has and which does
not work in every one that has it. One thread runs all processors of a guest: with a thread for
each, QEMU 10.0 loses accesses to device registers while another thread changes the memory map, and
a processor whose write to the local APIC was lost gets no interrupt any more. Every wait has a
bound.
"""

import base64
import json
import pathlib
import socket
import subprocess
import time

import image

# Seconds without an answer of the agent after which a test fails.
SILENCE_S = 60
QMP_S = 30


class GuestError(Exception):
    """A guest could not do what a test wanted; the message ends with its console."""


def _unix_connection(path, process):
    end = time.monotonic() + SILENCE_S
    while True:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(str(path))
            return sock
        except OSError as error:
            sock.close()
            if process.poll() is not None or time.monotonic() > end:
                raise GuestError(f"QEMU: {error}") from None
        time.sleep(0.02)


class Guest:
    """folder   for its sockets and logs
    devices  further arguments of QEMU
    space    where it runs: netspace.NetSpace or netspace.HostSpace
    systemd  whether systemd is its init
    """

    def __init__(self, folder, devices=(), space=None, systemd=False, cpus=2, memory_mib=1024):
        self.folder = pathlib.Path(folder)
        self.space = space
        self._command = self._qemu(devices, systemd, cpus, memory_mib)
        self._process = None
        try:
            self._boot()
        except BaseException:
            self.stop()
            raise

    def _qemu(self, devices, systemd, cpus, memory_mib):
        vm = image.FOLDER
        # no_timer_check: the kernel's check that the timer works panics if the host lets QEMU wait.
        # tsc=reliable: QEMU's time-stamp counters agree, but the kernel does not know; without them
        # each look at the clock is a trap to the HPET.
        words = ["quiet", "console=ttyS0", "panic=-1", "mitigations=off", "audit=0", "fstab=no",
                 "intel_iommu=on", "no_timer_check", "tsc=reliable",
                 "systemd.condition-needs-update=0",
                 f"guest.modules={vm / 'modules/lib/modules'}",
                 f"guest.agent={image.HERE / 'agent'}",
                 f"guest.init={'systemd' if systemd else 'agent'}"]  # fmt: skip
        arguments = {
            "-accel": "tcg,thread=single", "-machine": "q35", "-cpu": "max", "-smp": cpus,
            "-m": memory_mib, "-kernel": vm / "vmlinux", "-initrd": vm / "initrd",
            "-append": " ".join(words), "-display": "none",
            "-serial": f"file:{self.folder / 'console'}",
            "-qmp": f"unix:{self.folder / 'qmp'},server=on,wait=off",
            "-chardev": f"socket,id=agent,path={self.folder / 'agent'},server=on,wait=off",
            "-fsdev": "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
            "-object": "rng-random,id=rng,filename=/dev/urandom",
        }  # fmt: skip
        # The IOMMU first: it serves the devices behind it.
        own = ["intel-iommu,intremap=on,caching-mode=on", "virtio-serial-pci",
               "virtserialport,chardev=agent,name=agent", "virtio-9p-pci,fsdev=host,mount_tag=host",
               "virtio-rng-pci,rng=rng"]  # fmt: skip
        command = [*image.qemu_command(), "-nodefaults", "-no-reboot"]
        command += [str(word) for pair in arguments.items() for word in pair]
        command += [word for device in own for word in ("-device", device)]
        return command + list(devices)

    def _boot(self):
        popen = self.space.popen if self.space else subprocess.Popen
        with open(self.folder / "qemu.log", "wb") as log:
            self._process = popen(self._command, stdin=subprocess.DEVNULL, stdout=log,
                                  stderr=subprocess.STDOUT)  # fmt: skip
        try:
            self._monitor = _unix_connection(self.folder / "qmp", self._process)
            self._monitor.settimeout(QMP_S)
            self._replies = self._monitor.makefile("r")
            self._replies.readline()
            self.qmp("qmp_capabilities")
            self._agent = _unix_connection(self.folder / "agent", self._process)
        except (GuestError, OSError, ValueError) as error:
            raise self.error(f"QEMU does not start: {error}") from None
        self._answers = self._agent.makefile("r")
        if self._answer("to boot", SILENCE_S) != "ready":
            raise self.error("the agent did not start")

    def error(self, what):
        return GuestError("\n".join([what, self._end_of("qemu.log"), self._end_of("console")]))

    def _end_of(self, name):
        path = self.folder / name
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    # ---- the agent

    def _answer(self, what, timeout_s):
        self._agent.settimeout(timeout_s)
        try:
            line = self._answers.readline()
        except OSError:  # also for a further read after a timeout
            raise self.error(f"silent for {timeout_s} s: {what}") from None
        if not line:
            raise self.error(f"it ended: {what}")
        return line.strip()

    def sh(self, command, timeout_s=SILENCE_S):
        """Runs a command of bash; returns its status and its output."""
        self._agent.settimeout(timeout_s)
        self._agent.sendall(base64.b64encode(command.encode()) + b"\n")
        output, _, status = self._answer(command, timeout_s).rpartition(" ")
        return int(status), base64.b64decode(output).decode(errors="replace")

    def ok(self, command, timeout_s=SILENCE_S):
        """Runs a command that must succeed; returns its output."""
        status, output = self.sh(command, timeout_s)
        if status != 0:
            raise self.error(f"{command}: status {status}: {output}")
        return output

    # ---- the hardware

    def qmp(self, command, **arguments):
        """A command of QEMU's monitor; returns its result."""
        request = {"execute": command, "arguments": arguments}
        self._monitor.sendall(json.dumps(request).encode() + b"\n")
        while True:
            reply = json.loads(self._replies.readline())
            if "error" in reply:
                raise GuestError(f"{command}: {reply['error']['desc']}")
            if "return" in reply:
                return reply["return"]

    # ---- its end

    def stop(self):
        if self._process is None:
            return
        self._process.kill()
        self._process.wait(QMP_S)
        for sock in ("_agent", "_monitor"):
            if hasattr(self, sock):
                getattr(self, sock).close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class GuestProcess:
    """A program in a guest, with the methods of subprocess.Popen that the tests use."""

    def __init__(self, guest, command, log="/run/program.log"):
        self.guest, self.log, self.returncode = guest, log, None
        # A subshell waits for the program, so that its status is known.
        self.pid = int(
            guest.ok(
                f"rm -f {log}.status\n"
                f"( cd /run; {command} >{log} 2>&1 & echo $! >/run/pid; wait $!; "
                f"echo $? >{log}.status ) >/dev/null 2>&1 &\n"
                "while ! [ -s /run/pid ]; do sleep 0.02; done; cat /run/pid; rm /run/pid"
            )
        )

    def output(self):
        return self.guest.sh(f"tail -c 65536 {self.log}")[1]

    def poll(self):
        """Its status, negative for a signal; None while it runs."""
        if self.returncode is None:
            text = self.guest.sh(f"cat {self.log}.status 2>/dev/null")[1]
            if text.strip():
                status = int(text)
                self.returncode = 128 - status if status > 128 else status
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            self.guest.sh(f"kill -{int(number)} {self.pid}")

    def kill(self):
        self.send_signal(9)

    def wait(self, timeout=40):
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(self.log, timeout)
            time.sleep(0.05)
        return self.returncode
