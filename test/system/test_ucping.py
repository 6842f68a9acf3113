# SPDX-License-Identifier: BSD-3-Clause
"""ucping: both roles over both transports, every byte checked by the other side."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

import hugepages
import netspace
import pytest
import tls
from server import free_port, missing
from wire import settles


@pytest.fixture(scope="session")
def ucping_path(ucached_path):
    path = pathlib.Path(ucached_path).parent.parent / "ucping" / "ucping"
    assert os.access(path, os.X_OK), f"no program {path}: build it"
    return str(path)


@pytest.fixture
def peers(ucping_path, tap_obstacle):
    """Starts a server in a namespace; returns how to reach it and how to run a client."""
    started = []

    class Pair:
        def __init__(self, server_io, client_io, *args):
            if tap_obstacle and "tap" in (server_io, client_io):
                pytest.skip(f"tap: {tap_obstacle}")
            self.space = netspace.NetSpace()
            self.run_in("ip", "link", "set", "lo", "up")
            self.client_io = client_io
            self.path = ucping_path
            self.address = "10.100.0.20" if server_io == "tap" else "127.0.0.1"
            if client_io == "tap":
                self.address = "10.100.0.10"
            self.server = self.space.popen(
                [ucping_path, "--listen", f"--io={server_io}", "--json", *args],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.said = None
            started.append(self)
            self.server.stderr.readline()
            time.sleep(0.1)

        def run_in(self, *command):
            return self.space.run(subprocess.run, command, check=True, capture_output=True)

        def ping(self, *args, status=0):
            command = [ucping_path, f"--io={self.client_io}", "--json", "--timeout=50", *args,
                       self.address]
            done = self.space.run(subprocess.run, command, capture_output=True, text=True,
                                  timeout=60)
            assert done.returncode == status, done.stderr
            if status == 0:
                return json.loads(done.stdout)
            assert done.stdout == ""
            return done.stderr

        def end(self):
            """The output of the server at its end."""
            if self.said == "{}":
                self.space.close()
            if self.said is None:
                self.server.send_signal(signal.SIGTERM)
                self.said, err = self.server.communicate(timeout=60)
                self.space.close()
                assert self.server.returncode == 0, err
            return json.loads(self.said)

        def kill(self):
            """Ends it without a last word to its clients but what the kernel says."""
            self.server.kill()
            self.server.communicate()
            self.said = "{}"

    yield Pair
    for pair in started:
        pair.end()


WAYS = [("sock", "sock"), ("tap", "sock"), ("sock", "tap")]


@pytest.mark.parametrize("server_io, client_io", WAYS)
def test_ping(peers, server_io, client_io):
    pair = peers(server_io, client_io)
    result = pair.ping("-n", "200")
    assert result["rounds"] == 200 and result["round_trip_us"]["p50"] > 0
    assert result["rounds_per_second"] == pytest.approx(200 / result["seconds"], rel=0.01)
    assert pair.ping("-n", "50", "-c", "20", "-b", "3000")["rounds"] == 1000
    assert pair.ping("-n", "3", "-b", "65536")["rounds"] == 3
    assert pair.ping("-T", "0.2", "--poll")["rounds"] > 0


@pytest.mark.parametrize("server_io, client_io", WAYS)
@pytest.mark.parametrize("mode", ["send", "receive"])
def test_bulk(peers, server_io, client_io, mode):
    pair = peers(server_io, client_io)
    result = pair.ping("-m", mode, "-n", "20m", "-c", "2")
    assert result["moved_bytes"] == 40 << 20
    gigabits = (40 << 20) * 8 / 1e9
    assert result["gbit_per_second"] == pytest.approx(gigabits / result["seconds"], rel=0.01)
    for switch in ("--zero-copy=off", "--tso=off", "--csum=off"):
        assert pair.ping("-m", mode, "-n", "3m", switch)["moved_bytes"] == 3 << 20
    assert pair.ping("-m", mode, "-T", "0.2")["moved_bytes"] > 100_000


def test_results_as_text(peers):
    pair = peers("sock", "sock")

    def say(*args):
        return pair.space.run(subprocess.run, [pair.path, *args, pair.address], check=True,
                              capture_output=True, text=True, timeout=60).stdout  # fmt: skip

    pattern = (r"(\d+) rounds/s of 16 bytes \(2000 in ([\d.]+) s, 2 connections\)\n"
               r"round trip: mean [\d.]+ us  p50 [\d.]+ .* max [\d.]+\n$")  # fmt: skip
    rate, seconds = map(float, re.match(pattern, say("-n", "1000", "-c", "2")).groups())
    assert rate + 1 >= 2000 / (seconds + 0.005)
    text = say("-m", "send", "-n", "100m")
    pattern = r"sent 0\.105 GB in ([\d.]+) s: ([\d.]+) Gbit/s\n$"
    seconds, rate = map(float, re.match(pattern, text).groups())
    assert rate + 0.006 >= (100 << 20) * 8 / 1e9 / (seconds + 0.005)


def answer_once(listener, reply):
    sock, _ = listener.accept()
    with sock:
        sock.recv(64)
        sock.sendall(reply)
        time.sleep(0.2)


def test_a_wrong_byte_is_found(ucping_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        client = subprocess.Popen([ucping_path, f"127.0.0.1:{port}", "-n1"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        answer_once(listener, b"x" * 16)
        _, err = client.communicate(timeout=60)
    assert client.returncode == 1 and "wrong byte" in err


def test_server_closes_connections_with_another_protocol(peers):
    pair = peers("sock", "sock")

    def talk(data):
        with socket.create_connection(("127.0.0.1", 7007), 5) as sock:
            sock.sendall(data)
            try:
                return sock.recv(100)
            except ConnectionResetError:
                return b""

    assert pair.space.run(talk, b"GET / HTTP/1.1\r\n\r\n") == b""
    assert pair.space.run(talk, b"ucping1p" + bytes(8) + b"another text") == b""
    assert pair.ping("-n", "5")["rounds"] == 5


def test_no_server_on_the_port(ucping_path):
    done = subprocess.run([ucping_path, f"127.0.0.1:{free_port()}"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 69 and "Connection refused" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("server_io, client_io", WAYS)
@pytest.mark.parametrize("more", [[], ["--tls"]], ids=["plain", "tls"])
@pytest.mark.parametrize("mode", ["ping", "send", "receive"])
def test_server_that_is_killed(peers, server_io, client_io, mode, more):
    """No result, and a status that says so."""
    pair = peers(server_io, client_io, *secured(more))
    command = [pair.path, f"--io={client_io}", "-m", mode, "-c3", "-T60", "--timeout=2", *more,
               pair.address]
    client = pair.space.popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while client.poll() is None and pair.space.run(count_established, 7007) < 3:
        time.sleep(0.02)
    time.sleep(0.3)
    pair.kill()
    out, err = client.communicate(timeout=60)
    assert client.returncode == 69 and out == "", (out, err)
    assert "was lost" in err or "does not answer" in err


def fake_server(ucping_path, args, serve):
    """The status and the output of a client of a server that is a function of its socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [ucping_path, "127.0.0.1:%d" % listener.getsockname()[1], *args]
        client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True)
        listener.settimeout(60)
        sock, _ = listener.accept()
        with sock:
            serve(sock)
            out, err = client.communicate(timeout=60)
    return client.returncode, out, err


@pytest.mark.parametrize("mode", ["ping", "send", "receive"])
def test_server_that_closes_too_early(ucping_path, mode):
    def serve(sock):
        sock.recv(16)
        sock.shutdown(socket.SHUT_WR)

    args = ["-m", mode, "-n", "100" if mode == "ping" else "1000m"]
    status, out, err = fake_server(ucping_path, args, serve)
    assert status == 69 and "was lost: the server has closed it" in err and out == ""


@pytest.mark.parametrize("more", [[], ["--tls"]], ids=["plain", "tls"])
def test_server_that_says_nothing(ucping_path, more):
    args = ["-n1", "--timeout=0.5", *more]
    status, out, err = fake_server(ucping_path, args, lambda sock: None)
    assert status == 69 and "does not answer" in err and out == ""


def test_server_that_takes_only_a_part(ucping_path):
    """A reset behind the end of what was sent: the server has not read all of it."""
    def serve(sock):
        time.sleep(0.3)
        sock.recv(16)
        sock.close()

    status, out, err = fake_server(ucping_path, ["-m", "send", "-n", "2000"], serve)
    assert status == 69 and "was lost" in err and out == ""


@pytest.mark.parametrize("args", [["-b0"], ["-b65537"], ["-mx"], ["--csum=maybe"], ["a", "b"],
                                  ["-T0"], ["--what"], ["-c"], ["--mtu=1", "--io=tap"],
                                  ["127.0.0.1:0"], ["127.0.0.1:70000"], ["[::1"],
                                  ["--threading=both", "--io=tap"], ["--threading=merge"],
                                  ["--listen", "--tls"], ["--tls", "--ca=/nonexistent"],
                                  ["--listen", "--cert=/nonexistent"], ["--timeout=0"],
                                  ["--listen", "--cert=/dev/null", "--tls-resume"]])
def test_wrong_options(ucping_path, args):
    done = subprocess.run([ucping_path, *args], capture_output=True, text=True, timeout=60)
    assert done.returncode == 64 and re.match(r"ucping: .+\n(ucping --help|$)", done.stderr)


def test_help(ucping_path):
    done = subprocess.run([ucping_path, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "--zero-copy" in done.stdout and "Examples:" in done.stdout


def test_ip6(ucping_path, tap_obstacle):
    """Over a TAP device on which the client has to wait for duplicate address detection."""
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    space = netspace.NetSpace()
    server = space.popen([ucping_path, "--listen", "[::]:77"], stderr=subprocess.PIPE, text=True)
    try:
        assert "listening" in server.stderr.readline()
        command = [ucping_path, "--io=tap", "--ip=fd00::30/64", "--host-ip=fd00::10/64", "--json",
                   "-n5", "-c3", "[fd00::10]:77"]
        done = space.run(subprocess.run, command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and json.loads(done.stdout)["rounds"] == 15, done.stderr
    finally:
        server.kill()
        server.communicate()
        space.close()


# ---- TLS -----------------------------------------------------------------------------------------


def secured(more=("--tls",), files=None):
    """Options of a server for clients with these."""
    files = files or tls.shared()
    if "--tls" not in more:
        return []
    return [f"--cert={files.path('server.pem')}", f"--key={files.path('server.key')}"]


def trusting(files=None):
    return f"--ca={(files or tls.shared()).path('ca.pem')}"


ALL_WAYS = [*WAYS, ("split", "sock"), ("sock", "split")]


def io_of(*names):
    """The back ends of both sides, and what makes a side two threads."""
    return [["tap" if name == "split" else name for name in names]] + [
        ["--threading=split"] if name == "split" else [] for name in names]


@pytest.mark.parametrize("server_io, client_io", ALL_WAYS)
def test_tls(peers, server_io, client_io):
    names, ours, theirs = io_of(server_io, client_io)
    pair = peers(*names, *secured(), *ours)
    full = pair.ping(trusting(), "-n", "200", "-c", "3", *theirs)
    assert full["rounds"] == 600 and full["round_trip_us"]["p50"] > 0
    assert (full["tls_handshakes"], full["tls_resumed"], full["tls_own_records"]) == (3, 0, 3)
    assert full["tls_handshake_us"]["p50"] > 0
    assert pair.ping(trusting(), "-n", "3", "-c", "5", "-b", "65536", *theirs)["rounds"] == 15
    resumed = pair.ping(trusting(), "--tls-resume", "-n", "20", "-c", "20", *theirs)
    assert (resumed["rounds"], resumed["tls_handshakes"], resumed["tls_resumed"]) == (400, 20, 20)
    said = pair.end()
    assert (said["tls_handshakes"], said["tls_resumed"], said["tls_failures"]) == (29, 20, 0)
    assert said["tls_own_records"] == 29


@pytest.mark.parametrize("server_io, client_io", ALL_WAYS)
@pytest.mark.parametrize("mode", ["send", "receive"])
def test_bulk_with_tls(peers, server_io, client_io, mode):
    names, ours, theirs = io_of(server_io, client_io)
    pair = peers(*names, *secured(), *ours)
    for resume in ([], ["--tls-resume"]):
        result = pair.ping("--tls", "-m", mode, "-n", "5000001", "-c", "2", *theirs, *resume)
        assert result["moved_bytes"] == 2 * 5_000_001
        assert result["tls_resumed"] == (2 if resume else 0)
    assert pair.ping("--tls", "-m", mode, "-T", "0.2", *theirs)["moved_bytes"] > 10_000


@pytest.mark.parametrize("client_io", ["sock", "tap"])
def test_server_whose_certificate_is_not_trusted(peers, client_io, tmp_path):
    pair = peers("sock", client_io, *secured())
    other = tls.Certificates(tmp_path)
    err = pair.ping(trusting(other), "-n1", status=69)
    assert "TLS with" in err and "verify failed" in err
    assert pair.ping(trusting(), "-n1")["rounds"] == 1


@pytest.mark.parametrize("server_io, client_io", WAYS[:2])
def test_client_certificates(peers, server_io, client_io):
    files = tls.shared()
    pair = peers(server_io, client_io, *secured(), trusting())
    assert pair.ping(trusting(), "-n1", status=69)
    known = [f"--cert={files.path('client.pem')}", f"--key={files.path('client.key')}"]
    assert pair.ping(trusting(), *known, "-n5")["rounds"] == 5
    said = pair.end()
    assert (said["tls_failures"], said["tls_handshakes"]) == (1, 1)


@pytest.mark.parametrize("server_io", ["sock", "tap"])
def test_client_without_tls(peers, server_io):
    """It is closed and counted, and others are served."""
    pair = peers(server_io, "sock", *secured())
    assert "was lost" in pair.ping("-n1", status=69)
    assert pair.ping("--tls", "-n5")["rounds"] == 5
    assert pair.end()["tls_failures"] == 1


def test_client_with_tls_of_a_server_without(peers):
    assert "TLS with" in peers("sock", "sock").ping("--tls", "-n1", status=69)


# ---- what the switches do, by what the link has counted ----------------------------------------

BULK_BYTES = 4 << 20
HEADER_BYTES = 54
SEGMENT_BYTES = 1460


class VirtualLink:
    """A server on net_vhost, a client on net_virtio_user: the first gathers, the second cuts."""

    def __init__(self, path, folder):
        self.path = path
        self.space = netspace.NetSpace()
        self.folder = folder
        self.runs = 0

    def command(self, device, address, *args):
        return [self.path, "--io=dpdk", f"--dev={device}", f"--ip={address}/24", "--json", *args]

    def transfer(self, mode, server=(), client=(), tso=False):
        """The results of both ends for BULK_BYTES in one direction; they check every byte."""
        self.runs += 1
        socket_path = f"{self.folder}/v{self.runs}"
        device = f"net_vhost0,iface={socket_path}" + (",tso=1" if tso else "")
        listening = self.space.popen(self.command(device, "10.100.0.20", "--listen", *server),
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            said = iter(listening.stderr.readline, "")
            assert any("listening" in line for line in said)
            device = f"net_virtio_user0,path={socket_path},queue_size=1024"
            done = self.space.run(
                subprocess.run,
                self.command(device, "10.100.0.10", "-m", mode, "-n", str(BULK_BYTES), *client,
                             "10.100.0.20"),
                capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
            listening.send_signal(signal.SIGTERM)
            out, err = listening.communicate(timeout=60)
            assert listening.returncode == 0, err
        finally:
            listening.kill()
            listening.communicate()
        result = json.loads(done.stdout)
        assert result["moved_bytes"] == BULK_BYTES
        return json.loads(out)["link"], result["link"]

    def close(self):
        self.space.close()


@pytest.fixture
def virtual_link(ucping_path, ucached_path, tap_obstacle):
    if tap_obstacle:
        pytest.skip(f"dpdk: {tap_obstacle}")
    if reason := missing(ucached_path, "dpdk"):
        pytest.skip(f"dpdk: {reason}")
    with hugepages.unreserved(), tempfile.TemporaryDirectory(prefix="ucp", dir="/tmp") as folder:
        link = VirtualLink(ucping_path, folder)
        yield link
        link.close()


def test_tso_makes_frames_few_and_large(virtual_link):
    _, cut = virtual_link.transfer("send", tso=True)
    server, whole = virtual_link.transfer("send", client=["--tso=off"], tso=True)
    frames = BULK_BYTES // SEGMENT_BYTES
    assert cut["dpdk_tx_frames"] < frames / 5
    assert cut["dpdk_tx_bytes"] / cut["dpdk_tx_frames"] > 8000
    assert whole["dpdk_tx_frames"] > frames
    assert whole["dpdk_tx_bytes"] > BULK_BYTES + frames * HEADER_BYTES
    assert whole["dpdk_tx_bytes"] / whole["dpdk_tx_frames"] < 1514
    assert server["dpdk_rx_segmented"] == 0 and server["dpdk_rx_frames"] >= frames
    # Only what the device does is switched off: it still finishes the checksums.
    assert whole["dpdk_tx_offloads"] >= frames


@pytest.mark.long
@pytest.mark.parametrize("mode", ["send", "receive"])
def test_checksums_are_left_to_the_device_or_not(virtual_link, mode):
    for end in virtual_link.transfer(mode):
        # All but what has no TCP checksum: ARP, neighbour discovery.
        assert end["dpdk_tx_offloads"] > end["dpdk_tx_frames"] * 0.9
        assert end["dpdk_rx_csum_good"] > end["dpdk_rx_frames"] * 0.9
    own = ["--csum=off"]
    for end in virtual_link.transfer(mode, server=own, client=own):
        assert end["dpdk_tx_offloads"] == end["dpdk_rx_csum_good"] == 0 < end["dpdk_tx_frames"]


@pytest.mark.parametrize("end", ["server", "client"])
def test_one_end_computes_its_checksums_the_other_does_not(virtual_link, end):
    found = dict(zip(("server", "client"), virtual_link.transfer("send", **{end: ["--csum=off"]})))
    other = found.pop("client" if end == "server" else "server")
    assert found[end]["dpdk_tx_offloads"] == 0 < other["dpdk_tx_offloads"]
    # What was summed by its sender comes without a verdict, and is summed again.
    assert other["dpdk_rx_csum_good"] == 0 < other["dpdk_rx_frames"]


def test_checksums_off_turns_large_segments_off(virtual_link):
    _, client = virtual_link.transfer("send", client=["--csum=off"], tso=True)
    assert client["dpdk_tx_frames"] > BULK_BYTES // SEGMENT_BYTES


def test_copied_data_is_segmented_by_the_stack(virtual_link):
    _, client = virtual_link.transfer("send", client=["--zero-copy=off"], tso=True)
    assert client["dpdk_tx_frames"] > BULK_BYTES // SEGMENT_BYTES


@pytest.mark.long
def test_zero_copy_sends_from_where_the_bytes_are(virtual_link):
    server, _ = virtual_link.transfer("receive", server=["--tso=off"])
    assert server["dpdk_tx_zero_copy"] >= BULK_BYTES // SEGMENT_BYTES
    server, _ = virtual_link.transfer("receive")
    assert server["dpdk_tx_zero_copy"] >= BULK_BYTES >> 16
    server, _ = virtual_link.transfer("receive", server=["--zero-copy=off"])
    assert server["dpdk_tx_zero_copy"] == 0


def test_counters_of_every_link(peers):
    assert peers("sock", "sock").ping("-n", "5")["link"] == {}
    link = peers("sock", "tap").ping("-m", "send", "-n", "1m")["link"]
    assert link["tap_tx_frames"] > (1 << 20) // SEGMENT_BYTES and link["tap_tx_bytes"] > 1 << 20
    assert link["tap_rx_frames"] > 0 < link["tap_rx_bytes"]


# ---- threading -----------------------------------------------------------------------------------

TWO_THREADS = ["split", "merge"]


def cores_of_threads(process):
    """Name -> where it may run, of each thread of a process on kernel devices."""
    return {(task / "comm").read_text().strip(): os.sched_getaffinity(int(task.name))
            for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir()}


def test_one_loop_hands_nothing_over(peers):
    pair = peers("tap", "sock", "--threading=unified")
    assert list(cores_of_threads(pair.server)) == ["ucping"]
    pair.ping("-n", "10")
    said = pair.end()
    assert (said["threading"], said["threads"]) == ("unified", 1)
    assert "events" not in said and "commands" not in said


@pytest.mark.parametrize("model", TWO_THREADS)
def test_a_server_in_two_threads(peers, model):
    pair = peers("tap", "sock", f"--threading={model}")
    # The server listens before its second thread has its name.
    assert settles(lambda: sorted(cores_of_threads(pair.server)) == ["application", "ucping"])
    where = cores_of_threads(pair.server)
    if model == "merge":
        assert where["application"] == where["ucping"] and len(where["ucping"]) == 1
    else:
        assert where["application"] == where["ucping"] == os.sched_getaffinity(0)
    assert pair.ping("-n", "100")["rounds"] == 100
    assert pair.ping("-n", "20", "-c", "50", "-b", "20000")["rounds"] == 1000
    said = pair.end()
    assert (said["threading"], said["threads"]) == (model, 2)
    # Each ping is an event and each answer a command; so is what opens and closes connections.
    assert said["events"]["records"] >= 1100 + 2 * 51
    assert said["commands"]["records"] >= 1100 + 2 * 51
    assert said["events"]["wakes"] > 0  # between clients there was nothing to do


@pytest.mark.parametrize("model", TWO_THREADS)
def test_a_client_in_two_threads(peers, model):
    pair = peers("sock", "tap")
    result = pair.ping("-n", "50", "-c", "4", f"--threading={model}")
    assert result["rounds"] == 200 and result["round_trip_us"]["p50"] > 0
    assert (result["threading"], result["threads"]) == (model, 2)
    assert result["events"]["records"] >= 200 and result["commands"]["records"] >= 200
    assert pair.ping("-T", "0.2", "-c", "3", f"--threading={model}", "--poll")["rounds"] > 0
    assert pair.ping("-n", "3", "-b", "65536", f"--threading={model}")["rounds"] == 3


@pytest.mark.parametrize("mode", ["send", "receive"])
@pytest.mark.parametrize("model", TWO_THREADS)
@pytest.mark.parametrize("server_io, client_io", WAYS[1:])
def test_bulk_in_two_threads(peers, server_io, client_io, model, mode):
    """More data than the stack queues, so that many commands wait."""
    two = [f"--threading={model}"]
    ours, theirs = (two, []) if server_io == "tap" else ([], two)
    pair = peers(server_io, client_io, *ours)
    assert pair.ping("-m", mode, "-n", "20m", "-c", "2", *theirs)["moved_bytes"] == 40 << 20
    copied = pair.ping("-m", mode, "-n", "5000001", "--zero-copy=off", *theirs)
    assert copied["moved_bytes"] == 5_000_001
    assert pair.ping("-m", mode, "-T", "0.2", "-c", "3", *theirs)["moved_bytes"] > 100_000
    if theirs and mode == "send":
        assert copied["commands"]["records"] > 5_000_001 // 16384


@pytest.mark.parametrize("model", TWO_THREADS)
def test_two_threads_end_with_clients_in_the_middle(peers, model):
    pair = peers("tap", "sock", f"--threading={model}")
    command = [pair.path, "-m", "receive", "-c", "8", "-T", "60", pair.address]
    client = pair.space.popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while client.poll() is None and pair.space.run(count_established, 7007) < 8:
        time.sleep(0.02)
    time.sleep(0.3)
    pair.end()
    _, err = client.communicate(timeout=60)
    assert client.returncode == 69 and "was lost" in err


def count_established(port):
    """How many connections from or to a port are open in this network namespace."""
    rows = pathlib.Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]
    ends = [row.split()[1:3] for row in rows if row.split()[3] == "01"]
    return max(sum(end[side].endswith(f":{port:04X}") for end in ends) for side in (0, 1))


@pytest.mark.parametrize("model", TWO_THREADS)
def test_two_threads_close_connections_with_another_protocol(peers, model):
    pair = peers("tap", "sock", f"--threading={model}")

    def talk(data):
        with socket.create_connection(("10.100.0.20", 7007), 5) as sock:
            sock.sendall(data)
            try:
                return sock.recv(100)
            except ConnectionResetError:
                return b""

    for _ in range(3):
        assert pair.space.run(talk, b"GET / HTTP/1.1\r\n\r\n") == b""
    assert pair.ping("-n", "5")["rounds"] == 5


@pytest.mark.parametrize("model", TWO_THREADS)
def test_refused_connection_with_two_threads(peers, model):
    pair = peers("sock", "tap")
    pair.address = "10.100.0.10:9"
    assert "refused" in pair.ping("-n1", f"--threading={model}", status=69)


@pytest.mark.long
@pytest.mark.parametrize("model", TWO_THREADS)
def test_two_threads_over_a_link_in_memory(virtual_link, model):
    two = [f"--threading={model}"]
    server, client = virtual_link.transfer("send", server=two, client=two)
    assert client["dpdk_tx_bytes"] > BULK_BYTES < server["dpdk_rx_bytes"]
    server, _ = virtual_link.transfer("receive", server=two, client=two)
    assert server["dpdk_tx_bytes"] > BULK_BYTES
