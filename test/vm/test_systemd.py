# SPDX-License-Identifier: BSD-3-Clause
"""The units in packaging, in a booted systemd."""

import contextlib
import shlex

import guest as guests
import netspace
import nics
import pytest
from wire import settles

MODEL = "virtio-net"

# Made from templates into the build folder, or as they are.
UNITS = sorted(
    path
    for folder in (nics.ROOT / "packaging", nics.UCACHED.resolve().parents[2] / "packaging")
    for path in folder.glob("*.service")
)

# Unit -> its instance, its address, whether clients are outside of the guest, and its options.
TARGETS = {
    "ucached": ("", "127.0.0.1", False, ""),
    "ucached-tap@": ("tap0", "10.99.0.20", False,
                     'TAP_OPTIONS="--ip=10.99.0.20/24 --host-ip=10.99.0.10/24"'),
    "ucached-xdp@": (nics.INTERFACE, nics.ADDRESS, True, ""),
    "ucached-dpdk@": (nics.PCI, nics.ADDRESS, True, f'DPDK_OPTIONS="--ip={nics.ADDRESS}/24"'),
}  # fmt: skip


def install(guest, ucached_path):
    """The program, its users and its defaults, where the packages of a distribution have them."""
    for path in ("/usr/bin/ucached", "/usr/local/bin/ucached"):
        guest.ok(f"cp {ucached_path} {path}")
    for users in nics.ROOT.glob("packaging/**/*.sysusers"):
        guest.ok(f"systemd-sysusers {users}")
    for defaults in nics.ROOT.glob("packaging/**/ucached.default"):
        for place in ("/etc/default", "/usr/local/etc/default"):
            guest.ok(f"mkdir -p {place}; cp {defaults} {place}/ucached")


@pytest.fixture(scope="module")
def machine(ucached_path, tmp_path_factory):
    """A guest with systemd, the program and its users installed, and a NIC."""
    folder = tmp_path_factory.mktemp("systemd")
    with contextlib.closing(netspace.NetSpace()) as space:
        nics.make_tap(space, True, nics.queues_of(MODEL))
        with guests.Guest(folder, nics.devices(MODEL, True), space, systemd=True) as guest:
            install(guest, ucached_path)
            yield nics.Nic(guest, MODEL, space, ucached_path, folder)


class Service:
    """An instance of a unit in the guest."""

    def __init__(self, machine, unit, options=""):
        self.machine, self.guest, self.unit = machine, machine.guest, unit
        instance, self.address, self.outside, own_options = TARGETS[unit.stem]
        self.name = unit.name.replace("@.", f"@{instance}.")
        self.guest.ok(f"cp {unit} /etc/systemd/system/; systemctl daemon-reload")
        for place in ("/etc/default", "/usr/local/etc/default"):
            lines = shlex.quote(f"{own_options}\n{options}\n")
            self.guest.ok(f"printf %s {lines} >{place}/ucached-{instance or 'none'}")

    def systemctl(self, *words):
        return self.guest.ok(" ".join(["systemctl", *words, shlex.quote(self.name)]))

    def start(self):
        status, _ = self.guest.sh(f"systemctl start {shlex.quote(self.name)}")
        assert status == 0, self.log()

    def log(self):
        return self.guest.sh(f"systemctl status {self.name}; journalctl -n 30 -o cat "
                             f"-u {self.name}")[1]

    def show(self, name):
        return self.systemctl("show", "--value", "-p", name).strip()

    def answers(self):
        if self.outside:
            with self.machine.dial(nics.PORT) as connection:
                return connection.ask(b"version\r\n").startswith(b"VERSION ")
        ask = f"exec 3<>/dev/tcp/{self.address}/{nics.PORT} && echo version >&3 && head -1 <&3"
        return "VERSION " in self.guest.sh(f"timeout 20 bash -c {shlex.quote(ask)}")[1]

    def wait_until_active(self):
        def is_active():
            with contextlib.suppress(OSError, EOFError):
                return self.show("ActiveState") == "active" and self.answers()
            return False

        assert settles(is_active, 60), self.log()


def prepare_device(machine, unit):
    if "dpdk" in unit.stem:
        machine.prepare_dpdk()
    if "xdp" in unit.stem:
        machine.up()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_unit(machine, unit):
    prepare_device(machine, unit)
    service = Service(machine, unit)
    verify = f"systemd-analyze verify --man=no {unit} 2>&1"
    verified = machine.guest.sh(f"{verify} | grep {unit.stem}")[1]
    assert verified == "", verified
    service.start()
    service.wait_until_active()
    pid = service.show("MainPID")
    assert machine.guest.ok(f"ps -o user= -p {pid}").strip() != "root"
    service.systemctl("reload")
    service.wait_until_active()
    assert service.show("MainPID") == pid
    machine.guest.ok(f"kill -SEGV {pid}")
    assert settles(lambda: service.show("MainPID") not in ("0", pid), 30)
    service.wait_until_active()
    service.systemctl("stop")
    assert service.show("ActiveState") == "inactive"
    assert service.show("Result") == "success"


@pytest.mark.parametrize("unit", [unit for unit in UNITS if "@" not in unit.stem],
                         ids=lambda unit: unit.stem)  # fmt: skip
def test_wrong_option(machine, unit):
    """The unit fails and does not start for ever."""
    service = Service(machine, unit)
    override = f"/etc/systemd/system/{service.name}.d"
    machine.guest.ok(f"mkdir -p {override}; printf '[Service]\\nEnvironment=OPTIONS=--nosuch\\n"
                     f"EnvironmentFile=\\n' >{override}/wrong.conf; systemctl daemon-reload")
    machine.guest.sh(f"systemctl start {service.name}")
    try:
        assert settles(lambda: service.show("ActiveState") == "failed", 30)
        log = machine.guest.ok(f"journalctl -o cat -u {service.name}")
        assert "nosuch" in log, log
    finally:
        machine.guest.ok(f"rm -r {override}; systemctl daemon-reload; "
                         f"systemctl reset-failed {service.name}")
