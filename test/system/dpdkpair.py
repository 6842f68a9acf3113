# SPDX-License-Identifier: BSD-3-Clause
"""ucached and ucload at the two ends of a link of DPDK that no kernel is on.

    from dpdkpair import pair, possible, sockets, ucload_path  # noqa: F401
"""

import contextlib
import json
import os
import pathlib
import shutil
import tempfile

import hugepages
import netspace
import pytest
import server as servers
from server import TAP_ADDRESS, TAP_HOST_ADDRESS
from wire import settles

HUGE_PAGES_ENOUGH = 128
START_SECONDS = 60


@pytest.fixture(scope="module", autouse=True)
def possible(ucached_path, tap_obstacle):
    """Skips where DPDK cannot run: no privilege, or not in this build."""
    if tap_obstacle:
        pytest.skip(f"dpdk: {tap_obstacle}")
    if reason := servers.missing(ucached_path, "dpdk"):
        pytest.skip(f"dpdk: {reason}")


@pytest.fixture(scope="module")
def ucload_path(ucached_path):
    path = pathlib.Path(ucached_path).parent.parent / "ucload" / "ucload"
    assert os.access(path, os.X_OK), f"no program {path}: build it"
    return str(path)


class Pair:
    """ucached and ucload at the two ends of a link that no kernel is on."""

    def __init__(self, ucached, ucload, folder):
        self.paths = {"ucached": ucached, "ucload": ucload}
        self.folder = folder
        self.space = netspace.NetSpace()
        self.running = []
        self.logs = []
        self.reservations = contextlib.ExitStack()

    def spawn(self, program, device, *args):
        if not self.logs:
            self.reservations.enter_context(hugepages.unreserved())
        log = self.folder / f"{program}-{len(self.logs)}.log"
        self.logs.append(log)
        address = TAP_ADDRESS if program == "ucached" else TAP_HOST_ADDRESS
        command = [self.paths[program], "--io=dpdk", f"--dev={device}", f"--ip={address}/24"]
        with open(log, "wb") as out, open(f"{log}.err", "wb") as error:
            process = self.space.popen([*command, *args], stdout=out, stderr=error)
        process.log = log
        self.running.append(process)
        return process

    def serve(self, device, *args):
        """A server that listens."""
        process = self.spawn("ucached", device, *args)
        error = pathlib.Path(f"{process.log}.err")
        assert settles(lambda: "listening" in error.read_text() or process.poll() is not None,
                       START_SECONDS)
        assert process.poll() is None, error.read_text()
        return process

    def load(self, device, *args):
        return self.spawn("ucload", device, "--json", "-V", *args)

    @staticmethod
    def result(process, statuses=(0,)):
        status = process.wait(60)
        error = pathlib.Path(f"{process.log}.err").read_text()
        assert status in statuses, error
        result = json.loads(process.log.read_text())
        assert result["wrong"] == 0 and result["hits"] > 0, result
        return result

    def close(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.space.close()
        self.reservations.close()


@pytest.fixture
def pair(ucached_path, ucload_path, tmp_path):
    pair = Pair(ucached_path, ucload_path, tmp_path)
    yield pair
    pair.close()


@pytest.fixture
def sockets():
    """A folder for sockets, whose names must be short."""
    folder = tempfile.mkdtemp(prefix="ucd", dir="/tmp")
    yield folder
    shutil.rmtree(folder)


def memif(sockets):
    base = f"net_memif0,id=1,socket={sockets}/m,socket-abstract=no"
    return f"{base},role=server", f"{base},role=client"


def vhost(sockets, more=""):
    return (f"net_vhost0,iface={sockets}/v{more}",
            f"net_virtio_user0,path={sockets}/v,queue_size=1024")


SMALL = ("-n20000", "-c16", "-d4", "-m", "get:4,set:1", "--value-size=0-3000")


@pytest.fixture
def huge_pages():
    """Enough free huge pages; as many as before afterwards."""
    with hugepages.set_aside(HUGE_PAGES_ENOUGH):
        yield
