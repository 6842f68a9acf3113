# SPDX-License-Identifier: BSD-3-Clause
"""--takeover over links of DPDK: the old server closes the device, the new one opens it, and the
other end of the link connects again, or is connected to again.

No kernel is on the links, so the load is ucload's, which compares every byte, counts misses and
ends with a message if a connection is reset.
"""

import os
import pathlib
import re

import pytest
from dpdkpair import pair, possible, sockets, ucload_path  # noqa: F401
from server import STOP_TIMEOUT
from test_takeover import CLOSE, CLOSED, END, REFUSE, Successor
from wire import settles

TAKEOVERS = 3
SECONDS = 60  # for what takes some on an idle machine
LOAD = ("-T100000", "-c16", "-d2", "-m", "get:4,set:1", "--value-size=0-3000", "--progress",
        f"--timeout={SECONDS}", "--idle=4")  # fmt: skip

MEMIF = "net_memif0,id=1,socket={0}/m,socket-abstract=no,role="

# The server's device, that of the load, and whether the load has to exist first.
LINKS = {
    "memif that listens": (MEMIF + "server", MEMIF + "client", False),
    "memif that connects": (MEMIF + "client", MEMIF + "server", True),
    "vhost that connects": ("net_vhost0,iface={0}/v,client=1",
                            "net_virtio_user0,path={0}/v,server=1,queue_size=1024", True),
    "virtio-user that connects": ("net_virtio_user0,path={0}/v,queue_size=1024",
                                  "net_vhost0,iface={0}/v", True),
    "virtio-user that listens": ("net_virtio_user0,path={0}/v,server=1,queue_size=1024",
                                 "net_vhost0,iface={0}/v,client=1", True),
}  # fmt: skip


class Line:
    """A succession of servers over one link, under load."""

    def __init__(self, pair, sockets, link, *args):
        self.pair = pair
        self.path = f"{sockets}/takeover"
        self.device, self.load_device, load_first = (
            text if isinstance(text, bool) else text.format(sockets) for text in LINKS[link]
        )
        self.args = args
        self.takeovers = 0
        if load_first:
            self.load = pair.load(self.load_device, *LOAD)
            if "client=1" not in self.load_device:
                assert settles(lambda: os.listdir(sockets), SECONDS), self.log_of(self.load)
        self.server = self.start()
        assert settles(lambda: "listening on" in self.log_of(self.server), SECONDS)
        if not load_first:
            self.load = pair.load(self.load_device, *LOAD)
        self.wait_for_load()

    def start(self, *args, device=None):
        return self.pair.spawn("ucached", device or self.device, "-m64",
                               f"--takeover={self.path}", *self.args, *args)  # fmt: skip

    @staticmethod
    def log_of(process):
        return pathlib.Path(f"{process.log}.err").read_text(errors="replace")

    def rates(self):
        """Requests per second, one number for each second of load."""
        return [int(rate) for rate in re.findall(r"(\d+) requests/s", self.log_of(self.load))]

    def wait_for_load(self):
        """Until there was a whole second with load after now."""
        before = len(self.rates()) + 1

        def is_loaded():
            assert self.load.poll() is None, self.log_of(self.load)
            return sum(self.rates()[before:]) > 0

        assert settles(is_loaded, SECONDS), (self.log_of(self.load), self.log_of(self.server))

    def succeed(self, *args):
        old, self.server = self.server, self.start(*args)
        assert old.wait(STOP_TIMEOUT) == 0, (self.log_of(old), self.log_of(self.server))
        assert "another process has taken over" in self.log_of(old)
        self.takeovers += 1
        self.wait_for_load()

    def check(self):
        """No reset, no wrong byte, no item lost; ends the load."""
        self.load.terminate()
        result = self.pair.result(self.load)
        assert result["misses"] == 0 and result["hits"] > 0, result
        assert self.server.poll() is None


@pytest.fixture
def line(pair, sockets):
    return lambda *args: Line(pair, sockets, *args)


@pytest.mark.limit(300)
@pytest.mark.parametrize("link", LINKS)
def test_repeated_takeovers_under_load(line, link):
    servers = line(link)
    for _ in range(TAKEOVERS):
        servers.succeed()
    assert servers.takeovers == TAKEOVERS
    servers.check()


@pytest.mark.limit(300)
def test_number_of_threads_changes(line):
    servers = line("memif that listens", "-t2")
    servers.succeed("-t1")
    servers.succeed("-t3")
    servers.check()


@pytest.mark.limit(300)
def test_device_that_cannot_be_opened(line):
    """The old server opens the device again, with its threads and connections, and serves on."""
    servers = line("memif that listens", "-t2")
    lost = servers.start(device="net_memif0,socket=/no/such/m,socket-abstract=no,role=server")
    assert lost.wait(STOP_TIMEOUT) != 0
    assert "the running server continues" in servers.log_of(lost)
    assert "/no/such/m" in servers.log_of(lost)  # not the consequence of an earlier attempt
    assert "already allocated" not in servers.log_of(lost)
    servers.wait_for_load()
    servers.succeed()
    servers.check()


@pytest.mark.limit(300)
def test_new_process_dies_with_the_device(line):
    servers = line("memif that listens")
    successor = Successor(servers.path)
    successor.hello(own_stack=1)
    successor.until(END)
    successor.send(CLOSE)
    successor.until(CLOSED)
    successor.close()
    servers.wait_for_load()
    servers.succeed()
    servers.check()


def test_device_that_is_never_closed(line):
    """A connecting virtio-user device is freed by the end of its process only."""
    servers = line("virtio-user that connects")
    successor = Successor(servers.path)
    successor.hello(own_stack=1)
    successor.until(END)
    successor.send(CLOSE)
    assert b"by the end of the server only" in successor.until(REFUSE)
    successor.close()
    servers.wait_for_load()
    servers.check()
