# SPDX-License-Identifier: BSD-3-Clause
"""The NIC under test in a guest: its models, its drivers, and servers on it.

The NIC is behind a root port, so that it can be taken away, and hangs on a TAP device in a
namespace of the host, in which the clients run.
"""

import os
import pathlib
import re
import shlex
import socket
import types

import netspace
import server as servers
import veth
from guest import GuestProcess

ROOT = pathlib.Path(__file__).resolve().parents[2]
UCACHED = pathlib.Path(os.environ.get("UCACHED", ROOT / "build/release/apps/ucached/ucached"))

ADDRESS = "10.100.0.20"
ADDRESS6 = "fd00:100::20"
CLIENT_ADDRESSES = ["10.100.0.10/24", "fd00:100::10/64"]
PORT = 11211
TAP = "ucached0"
PCI = "0000:01:00.0"
INTERFACE = "nic0"
HUGE_PAGES = 150
QUEUES = 4  # of virtio-net; the most that are tried of any model

# Model -> its device and the kernel's driver for it.
MODELS = {
    "virtio-net": (
        "virtio-net-pci,disable-legacy=on,iommu_platform=on,mq=on,vectors=10,rss=on,hash=on",
        "virtio-pci",
    ),
    "igb": ("igb", "igb"),
    "e1000e": ("e1000e", "e1000e"),
    "e1000": ("e1000", "e1000"),
    "vmxnet3": ("vmxnet3", "vmxnet3"),
}

# What a model cannot do right (docs/backends.md): options that leave it out.
LEFT_OUT = {"vmxnet3": ["--without=tso"]}


class GuestServer(servers.Server):
    """A server in a guest."""

    def log(self):
        return self._process.output()


def make_tap(space, offloads, queues):
    """The TAP device of a NIC; with offloads it takes segments of 64 KiB and open checksums."""
    flags = (["vnet_hdr"] if offloads else []) + (["multi_queue"] if queues > 1 else [])
    veth.ip(space, "link", "set", "lo", "up")
    veth.ip(space, "tuntap", "add", "dev", TAP, "mode", "tap", *flags)
    veth.quiet_ip6(space, TAP, CLIENT_ADDRESSES)
    for address in CLIENT_ADDRESSES:
        veth.add_address(space, TAP, address)
    veth.ip(space, "link", "set", TAP, "txqueuelen", "10000", "up")


def netdev(offloads, queues):
    words = f"tap,id=net,ifname={TAP},script=no,downscript=no"
    words += f",queues={queues}" if queues > 1 else ""
    return ["-netdev", words + f",vnet_hdr={'on' if offloads else 'off'}"]


def device(model):
    return f"{MODELS[model][0]},netdev=net,id=nic,mac=52:54:00:00:00:02"


def devices(model, offloads):
    """The arguments of QEMU for a NIC of this model."""
    queues = queues_of(model)
    return [*netdev(offloads, queues), "-device", "pcie-root-port,id=root1,slot=1", "-device",
            device(model) + ",bus=root1"]  # fmt: skip


def queues_of(model):
    return QUEUES if model == "virtio-net" else 1


class Nic:
    """The NIC of a guest."""

    def __init__(self, guest, model, space, ucached_path, log_folder):
        self.guest, self.model, self.space = guest, model, netspace.Shared(space)
        self.ucached_path, self.log_folder = ucached_path, log_folder
        self.servers = []

    # ---- the device

    def bind(self, driver):
        """Gives the device to a driver: "vfio-pci", or "kernel" for the model's."""
        driver = MODELS[self.model][1] if driver == "kernel" else driver
        module = "virtio_net" if driver == "virtio-pci" else driver
        self.guest.ok(
            f"set -e; d=/sys/bus/pci/devices/{PCI}\n"
            f"modprobe {module}\n"
            f"[ $(basename $(readlink $d/driver || echo none)) != {driver} ] || exit 0\n"
            f"[ ! -e $d/driver ] || echo {PCI} >$d/driver/unbind\n"
            f"echo {driver} >$d/driver_override\n"
            f"echo {PCI} >/sys/bus/pci/drivers_probe\n"
            f"[ $(basename $(readlink $d/driver)) = {driver} ]"
        )

    def set_link(self, up):
        self.guest.qmp("set_link", name="nic", up=up)

    # ---- the kernel's interface

    def up(self):
        """Gives the interface its addresses and starts it; returns how many queues to try."""
        self.bind("kernel")
        # udev of a guest with systemd gives an interface another name.
        self.guest.ok("[ ! -S /run/udev/control ] || udevadm settle")
        self.guest.ok(
            f"set -e; name=$(ls -d /sys/bus/pci/devices/{PCI}/net/* "
            f"/sys/bus/pci/devices/{PCI}/virtio*/net/* 2>/dev/null | head -1); name=${{name##*/}}\n"
            f"[ $name = {INTERFACE} ] || ip link set $name name {INTERFACE}\n"
            f"sysctl -qw net.ipv6.conf.{INTERFACE}.accept_dad=0\n"
            f"ip addr replace {ADDRESS}/24 dev {INTERFACE}\n"
            f"ip addr replace {ADDRESS6}/64 dev {INTERFACE} nodad\n"
            f"ip link set {INTERFACE} up"
        )
        shown = self.guest.sh(f"ethtool -l {INTERFACE}")[1]
        possible = [int(number) for number in re.findall(r"Combined:\s+(\d+)", shown)]
        return min(QUEUES, max(possible, default=1))

    def set_queues(self, queues):
        self.guest.sh(f"ethtool -L {INTERFACE} combined {queues}")

    def dial(self, port):
        """A connection to a service of the guest."""
        where = ((ADDRESS, port), servers.IO_TIMEOUT)
        return servers.Connection(self.space.run(socket.create_connection, *where))

    # ---- servers

    def command(self, *args):
        addresses = (f"--ip={ADDRESS}/24", f"--ip={ADDRESS6}/64")
        left_out = LEFT_OUT.get(self.model, [])
        return [self.ucached_path, "--io=dpdk", f"--dev={PCI}", *addresses, *left_out, *args]

    def prepare_dpdk(self):
        self.bind("vfio-pci")
        self.guest.ok(f"sysctl -qw vm.nr_hugepages={HUGE_PAGES}")

    def start(self, *args, prepare=None):
        """A server on the NIC by DPDK; `prepare` as in servers.Server."""
        self.prepare_dpdk()
        return self.run(self.command(*args), prepare=prepare)

    def start_xdp(self, *args):
        """A server on the kernel's interface, which has the same addresses, by AF_XDP."""
        return self.run([self.ucached_path, "--io=xdp", f"--dev={INTERFACE}", *args])

    def run(self, command, prepare=None, address=ADDRESS):
        home = types.SimpleNamespace(
            popen=lambda command, **_: GuestProcess(self.guest, shlex.join(command)),
            close=lambda: None,
        )
        server = GuestServer("tap", command, (address, PORT), self.space,
                             self.log_folder / f"{self.model}.log", home, prepare)  # fmt: skip
        self.servers.append(server)
        return server

    def stop_servers(self):
        running, self.servers = self.servers, []
        for server in running:
            server.stop()
