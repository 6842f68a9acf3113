# SPDX-License-Identifier: BSD-3-Clause
"""ucload with memcached, ucached, and servers that send wrong replies or end."""

import contextlib
import json
import platform
import resource
import signal
import socket
import subprocess
import threading
import time

import netspace
import pytest
from loadrun import load, requests_arrive, result_of, seconds_of, stop_for  # noqa: F401
from server import free_port
from wire import settles

MIX = "get:5,set:3,delete:1,incr:1,touch:1"


# ---- right answers ----------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["text", "meta", "binary"])
@pytest.mark.parametrize("kind", ["sock", "tap", "memcached"])
def test_every_operation(load, start_server, kind, protocol):
    server = start_server(kind)
    done = load(server, "-V", "--json", "-n20000", "-c8", "-d8", "-P", protocol, "-m", MIX,
                "--value-size=0-3000", "--key-size=8-40")
    result = result_of(done)
    assert result["requests"] == 20000 and result["wrong"] == result["refused"] == 0
    assert all(result[op] > 500 for op in ("get", "set", "delete", "incr", "touch"))
    assert result["hits"] > 10000
    if kind != "memcached":  # what the server has counted is what was sent
        stats = server.stats()
        assert int(stats["cmd_get"]) >= result["get"]
        assert int(stats["get_hits"]) + int(stats["get_misses"]) == int(stats["cmd_get"])


@pytest.mark.parametrize("protocol", ["text", "meta", "binary"])
def test_several_keys_at_once(load, server_sock, protocol):
    result = result_of(load(server_sock, "-V", "--json", "-n2000", "-d4", "-g50", "-P", protocol))
    assert result["requests"] == 2000 and result["hits"] == 100000 and result["wrong"] == 0


def test_large_values(load, server_sock):
    done = load(server_sock, "-V", "--json", "-n400", "-c4", "-d3", "-k40", "-m", "get,set",
                "--value-size=100000-1000000")
    result = result_of(done)
    assert result["wrong"] == 0 and result["hits"] == 400
    assert result["bytes_in"] + result["bytes_out"] > 400 * 400_000


def test_threads_and_time(load, server_sock):
    result = result_of(load(server_sock, "--json", "-t3", "-c10", "-T0.5", "-w0.2"))
    assert 0.4 < result["seconds"] and result["threads"] == 3 and result["hits"] > 0


def test_threads_share_what_is_to_do(load, server_sock):
    """Keys, requests and a rate that the number of threads does not divide."""
    before = int(server_sock.stats()["cmd_set"])
    result = result_of(load(server_sock, "--json", "-t3", "-c10", "-k1001", "-n5000", "-r100000"))
    assert result["requests"] == 5000 and result["misses"] == 0
    assert result["offered_per_second"] == pytest.approx(100000)
    assert int(server_sock.stats()["cmd_set"]) - before == 1001


def test_missing_keys_are_misses_and_can_be_filled(load, server_sock):
    result = result_of(load(server_sock, "--json", "-n5000", "-k100", "--no-preload"))
    assert result["misses"] == 5000
    done = load(server_sock, "-V", "--json", "-n5000", "-k100", "--no-preload", "--fill")
    result = result_of(done)
    assert result["wrong"] == 0 and result["set"] >= 100 and result["hits"] > 4000


def test_etc_and_zipf(load, server_sock):
    result = result_of(load(server_sock, "-V", "--json", "--etc", "-k2000", "-n20000"))
    assert result["wrong"] == 0 and 20 < result["get"] / result["set"] < 45
    assert 100 < result["bytes_in"] / result["get"] < 1000
    assert (result["key_size"], result["popularity"]) == ("etc-key", "zipf:0.99")


def test_replay(load, server_sock, tmp_path):
    trace = tmp_path / "trace.csv"
    lines = [f"{i},{i % 70},{100 + i % 70},{'set' if i < 70 else 'get'}" for i in range(1000)]
    trace.write_text("time,id,size,op\n" + "\n".join(lines) + "\n")
    result = result_of(load(server_sock, "-V", "--json", f"--replay={trace}", "-c1"))
    assert result["requests"] == 1000 and result["set"] == 70 and result["get"] == 930
    assert result["wrong"] == 0 and result["misses"] == 0
    assert server_sock.stats()["cmd_set"] == "70"  # keys are not stored before
    trace.write_text("time,id,size\nnonsense\n")
    done = load(server_sock, f"--replay={trace}")
    assert done.returncode != 0 and "trace.csv" in done.stderr


def test_own_stack_against_memcached(ucload_path, memcached_path, tap_obstacle):
    """The own stack for the client, the kernel's for the server."""
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    space = netspace.NetSpace()
    space.run(subprocess.run, ["ip", "link", "set", "lo", "up"], check=True)
    memcached = space.popen([memcached_path, "-l", "0.0.0.0,::", "-U", "0", "-u", "root"])

    def listens():
        with contextlib.suppress(OSError):
            space.run(socket.create_connection, ("::1", 11211)).close()
            return True

    ip6 = ["--ip=fd00::30/64", "--host-ip=fd00::10/64", "-s[fd00::10]:11211"]
    try:
        assert settles(listens)
        for more in ([], ["-d16", "-m", MIX, "--value-size=0-3000"], ["-r", "5000", "-T0.5"],
                     ["-t3", "-d4", "-m", MIX], ["-t2", "--queues=1", "--reconnect=7"],
                     ["-t2", "--queues=1", "-r", "5000", "-T0.5", "--idle=300"],
                     ["--value-size=300000", "-k20", "-m", "get,set", "-n300"],
                     ip6, ["-t3", "--reconnect=20", *ip6]):
            command = [ucload_path, "--io=tap", "-s10.100.0.10", "-c8", "-V", "--json", *more]
            if "-n300" not in more and "-r" not in more:
                command.append("-n20000")
            done = space.run(subprocess.run, command, capture_output=True, text=True, timeout=60)
            result = result_of(done)
            assert result["wrong"] == 0 and result["requests"] >= 300
    finally:
        memcached.kill()
        memcached.wait()
        space.close()


def test_an_ip6_address_that_nothing_reaches(ucload_path, tap_obstacle):
    """ucload waits for duplicate address detection (RFC 4862), and ends if there is no route."""
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    space = netspace.NetSpace()
    command = [ucload_path, "--io=tap", "--ip=fd00::30/64", "--host-ip=fd00::10/64", "-sfd01::1"]
    done = space.run(subprocess.run, command, capture_output=True, text=True, timeout=60)
    space.close()
    assert done.returncode == 69 and "no route" in done.stderr


def test_own_stack_against_own_stack(ucload_path, server_tap):
    """Two programs with a TAP device each, joined by a bridge of the kernel."""

    def run(*command, check=True):
        return server_tap.run(command, capture_output=True, text=True, check=check)

    command = [ucload_path, "--io=tap", "--host-ip=none", "-s10.100.0.20", "-c8", "-V", "--json",
               "-n20000", "-d4", "-m", MIX]
    run("ip", "link", "add", "br0", "type", "bridge")
    run("ip", "link", "set", "br0", "up")
    run("ip", "addr", "flush", "dev", "ucached0")
    run("ip", "link", "set", "ucached0", "master", "br0")
    client = server_tap.popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while time.monotonic() < end and client.poll() is None:
        if run("ip", "link", "set", "ucload0", "master", "br0", check=False).returncode == 0:
            break
        time.sleep(0.01)
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0, err
    result = json.loads(out)
    assert result["requests"] == 20000
    if platform.machine() == "x86_64":
        assert result["own_cycles_per_request"] > 100


# ---- connections ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sock", "tap", "memcached"])
@pytest.mark.parametrize("more", [["-c8"], ["-c9", "-t3", "-d4", "-V", "-m", MIX], ["-r20000"]])
def test_reconnecting(load, start_server, kind, more):
    server = start_server(kind)
    before = int(server.stats()["total_connections"])
    result = result_of(load(server, "--json", "-n6000", "--reconnect=3", *more))
    assert result["requests"] == 6000 and result["wrong"] == 0
    assert 1900 < result["connects"] <= 2000 and result["connects_per_second"] > 0
    assert int(server.stats()["total_connections"]) - before >= result["connects"]


def test_connects_of_the_warm_up_do_not_count(load, server_sock):
    """A request follows each connect, but for the last one of a connection."""
    result = result_of(load(server_sock, "--json", "-c4", "--reconnect=1", "-w0.3", "-T0.3"))
    assert result["connects"] <= result["requests"] + 4


@pytest.mark.long
def test_ports_do_not_run_out(load, start_server):
    """More connections within a minute than there are ports; then many at once, and once more."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    idle = 10000 if hard > 11000 else hard // 2
    server = start_server("sock", "-c", idle + 200)
    done = load(server, "--json", "-n70000", "--reconnect=1", timeout=150)
    assert result_of(done)["connects"] > 69000
    for _ in range(2):
        done = load(server, "--json", f"--idle={idle}", "-n1000")
        assert result_of(done)["requests"] == 1000
        assert settles(lambda: int(server.stats()["curr_connections"]) < 5)
    assert result_of(load(server, "--json", "-n1000", "--reconnect=1"))["connects"] > 900


def test_ports_to_a_server_elsewhere_do_not_run_out(load, server_tap):
    """There is but one address to come from: with few ports, these are used again at once."""
    server_tap.run(["sysctl", "-qw", "net.ipv4.ip_local_port_range=40000 40099"], check=True)
    done = load(server_tap, "--json", "-n3000", "--reconnect=1")
    assert result_of(done)["connects"] > 2900


@pytest.mark.parametrize("kind", ["sock", "tap"])
def test_idle_connections(ucload_path, start_server, kind):
    server = start_server(kind)
    host, port = server.address
    client = server.popen([ucload_path, f"-s{host}:{port}", "--idle=500", "-T20", "--json"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert settles(lambda: int(server.stats()["curr_connections"]) >= 532)
        client.send_signal(signal.SIGINT)
        out, err = client.communicate(timeout=60)
    finally:
        client.kill()
    assert client.returncode == 0, err
    assert json.loads(out)["idle"] == 500 and json.loads(out)["hits"] > 0


def test_idle_connections_of_the_own_stack_are_refused(ucload_path, memcached_path, tap_obstacle):
    """ucload prints an error if the server refuses connections."""
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    space = netspace.NetSpace()
    memcached = space.popen([memcached_path, "-l", "0.0.0.0", "-U", "0", "-u", "root", "-c100",
                             "-o", "maxconns_fast"])
    try:
        space.run(subprocess.run, ["ip", "link", "set", "lo", "up"], check=True)

        def listens():
            with contextlib.suppress(OSError):
                space.run(socket.create_connection, ("127.0.0.1", 11211)).close()
                return True

        assert settles(listens)
        done = space.run(subprocess.run, [ucload_path, "--io=tap", "-s10.100.0.10", "--idle=200",
                                          "-T1"], capture_output=True, text=True, timeout=60)
        # 69 if it learns so before the load, 1 during it.
        assert done.returncode in (1, 69) and "idle connection" in done.stderr, done.stderr
    finally:
        memcached.kill()
        memcached.wait()
        space.close()


def test_cycles_of_the_server(load, start_server):
    result = result_of(load(start_server("tap"), "--json", "-n20000", "--server-cycles"))
    assert 100 < result["server_cycles_per_request"] < 1_000_000
    assert "own_cycles_per_request" not in result  # the kernel's TCP is most of it
    done = load(start_server("sock"), "-n1000", "--server-cycles")
    assert done.returncode != 0 and "--server-cycles: the server does not report" in done.stderr


def test_several_servers(ucload_path, start_server):
    servers = start_server("sock"), start_server("memcached")
    names = ",".join(f"{host}:{port}" for host, port in (server.address for server in servers))
    done = subprocess.run([ucload_path, f"-s{names}", "-n4000", "--json", "-c7"],
                          capture_output=True, text=True, timeout=60)
    assert result_of(done)["requests"] == 4000
    stats = [server.stats() for server in servers]
    assert sum(int(counts["cmd_set"]) for counts in stats) == 1000  # each key has one server
    assert all(int(counts["cmd_set"]) > 100 and int(counts["cmd_get"]) > 0 for counts in stats)
    assert all(counts["get_misses"] == "0" for counts in stats)


# ---- wrong ones -------------------------------------------------------------------------------


class Corrupter:
    """A proxy to a server that changes one byte of one value on the way back."""

    def __init__(self, address, wrong_at):
        self._to = address
        self._wrong_at = wrong_at
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._to)
            threading.Thread(target=self._pump, args=(client, server, 0), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, self._wrong_at),
                             daemon=True).start()

    @staticmethod
    def _pump(source, to, wrong_at):
        seen = 0
        try:
            while data := bytearray(source.recv(65536)):
                if wrong_at and seen <= wrong_at < seen + len(data):
                    at = data.find(b"VALUE ", wrong_at - seen)
                    value = data.find(b"\r\n", at) + 2
                    if 0 <= at and 2 <= value < len(data):
                        data[value] ^= 1
                    else:
                        wrong_at += len(data)
                seen += len(data)
                to.sendall(data)
        except OSError:
            pass
        finally:
            for sock in (source, to):
                sock.close()

    def close(self):
        self._listener.close()


@pytest.fixture
def corrupter(server_sock):
    corrupter = Corrupter(server_sock.address, 50_000)
    yield corrupter
    corrupter.close()


def test_wrong_byte_is_found(ucload_path, corrupter):
    command = [ucload_path, f"-s127.0.0.1:{corrupter.address[1]}", "-c1", "-n20000", "--json"]
    done = subprocess.run([*command, "-V"], capture_output=True, text=True, timeout=60)
    assert result_of(done, status=1)["wrong"] == 1
    assert "not its value: get of key" in done.stderr
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result_of(done)["wrong"] == 0  # without -V replies are not compared


def answering(reply):
    """A server that sends this reply to every request."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        try:
            while True:
                sock, _ = listener.accept()
                threading.Thread(target=talk, args=(sock,), daemon=True).start()
        except OSError:
            pass

    def talk(sock):
        with sock, contextlib.suppress(ConnectionError):
            while sock.recv(65536):
                if reply is None:
                    return
                sock.sendall(reply)

    threading.Thread(target=serve, daemon=True).start()
    return listener


@pytest.mark.parametrize(
    "reply, status, words",
    [
        (b"VALUE another 0 1\r\nx\r\nEND\r\n", 1, "not a reply: get of key"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", 1, 'answered by "HTTP/1.1 400 Bad Request"'),
        (b"END\r\nEND\r\n", 1, "reply without a request"),
        (b"SERVER_ERROR busy\r\n", 1, 'refused: get of key'),
        (b"", 1, "has not answered for 0."),
        (None, 1, "the server has closed it"),
    ],
)
def test_servers_that_are_none(ucload_path, reply, status, words):
    with answering(reply) as listener:
        port = listener.getsockname()[1]
        timeout = "--timeout=30" if reply != b"" else "--timeout=0.3"
        done = subprocess.run(
            [ucload_path, f"-s127.0.0.1:{port}", "--no-preload", "-c2", "-n100", timeout],
            capture_output=True, text=True, timeout=60,
        )
    assert done.returncode == status and words in done.stderr, done.stderr


def test_a_server_that_ends(ucload_path, start_server):
    """The load of a minute ends with the server, by an error."""
    server = start_server("sock")
    host, port = server.address
    client = subprocess.Popen([ucload_path, f"-s{host}:{port}", "-T60", "-c4"],
                              stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        requests_arrive(server)
        server.kill()
        _, err = client.communicate(timeout=40)
    finally:
        client.kill()
    assert client.returncode == 1 and "was lost" in err, err


def test_a_load_within_its_warm_up(load, server_sock):
    done = load(server_sock, "-n100", "-w30", "--json")
    assert done.returncode == 1 and "within the warm-up" in done.stderr
    assert json.loads(done.stdout)["requests"] == 0


def test_no_server_on_the_port(ucload_path):
    done = subprocess.run([ucload_path, f"-s127.0.0.1:{free_port()}"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 69 and "Connection refused" in done.stderr


def test_keys_that_are_not_stored_are_an_error(load, start_server):
    server = start_server("sock", "-I", "1k")
    for args in (["--preload-only"], ["-n10", "-m", "get"]):
        done = load(server, "-k10", "--value-size=2000", *args)
        assert done.returncode == 1, done.stderr
        assert "0 replies were wrong, 10 were errors" in done.stderr
        assert "refused: set of key" in done.stderr


def test_no_request_for_longer_than_the_timeout(load, server_sock):
    """The time without a reply begins with a request: here the only one, after 2.5 s."""
    result = result_of(load(server_sock, "--json", "-r0.4", "-n1", "--timeout=2",
                            "--arrivals=constant"))  # fmt: skip
    assert result["requests"] == 1 and result["unanswered"] == 0


# ---- the command line -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args, words",
    [
        (["-c0"], "-c:"),
        (["-t4", "-c3"], "--connections"),
        (["--mix=get:1,sit:2"], "is no mix"),
        (["--mix=get:"], "is no mix"),
        (["--popularity=zipf:x"], "popularity"),
        (["--value-size=9-3"], "a range goes"),
        (["--key-size=2", "-k100000"], "between"),
        (["--slo=p99<200"], "is no goal"),
        (["--slo=p99<1ms", "-r5"], "--slo"),
        (["--rate=0"], "--rate"),
        (["--protocol=http"], "--protocol"),
        (["--server=[::1"], "HOST:PORT"),
        (["--server=127.0.0.1:99999"], "HOST:PORT"),
        (["--server=127.0.0.1:"], "HOST:PORT"),
        (["--popularity=hot:2:1"], "hot set"),
        (["--key-size=251"], "--key-size"),
        (["--replay=/nonexistent"], "No such file"),
        (["--io=tap", "-t999"], "-t:"),
        (["--reconnect=0"], "--reconnect"),
        (["--idle=x"], "--idle"),
        (["--server-cycles", "-Pbinary"], "--server-cycles"),
        (["--watch-cores=1-"], "--watch-cores"),
        (["--watch-cores=1023"], "cannot be watched"),
        (["-s" + ",".join(["127.0.0.1"] * 65)], "too many"),
        (["--dev=x", "--io=sock"], "--dev"),
        (["--nonsense"], "--nonsense"),
        (["-n"], "-n"),
        (["-n1", "-t2"], "at least as many"),
        (["word"], "word"),
    ],
)
def test_wrong_options(ucload_path, args, words):
    done = subprocess.run([ucload_path, *args], capture_output=True, text=True, timeout=60)
    assert done.returncode == 64 and words in done.stderr, done.stderr
    assert done.stderr.startswith("ucload: ") and done.stdout == ""


def test_unknown_host_name(ucload_path):
    done = subprocess.run([ucload_path, "-sa:b:c:"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 69 and "a:b:c:" in done.stderr


def test_help_and_version(ucload_path):
    help_text = subprocess.run([ucload_path, "--help"], capture_output=True, text=True).stdout
    assert "Examples:" in help_text and "--slo" in help_text and "--dev" in help_text
    assert max(map(len, help_text.splitlines())) <= 100
    version = subprocess.run([ucload_path, "--version"], capture_output=True, text=True).stdout
    assert version.startswith("ucload ")


def test_interrupt_prints_the_summary(ucload_path, server_sock):
    host, port = server_sock.address
    client = subprocess.Popen([ucload_path, f"-s{host}:{port}", "-T60"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    requests_arrive(server_sock)
    client.send_signal(signal.SIGINT)
    out, err = client.communicate(timeout=60)
    assert client.returncode == 0 and "requests/s" in out and "p99.9" in out and err == ""


def test_progress(ucload_path, server_sock):
    """A line for each second, of which JSON has the numbers."""
    result, text = seconds_of(ucload_path, server_sock, 2, "-r500", "-w0.1")
    series = result["series"]
    assert len(series) >= 2 and text.count("requests/s  p50 ") == len(series)
    assert sum(point["requests"] for point in series) == result["requests"] > 0
    assert sum(point["seconds"] for point in series) == pytest.approx(result["seconds"], abs=0.01)
    assert max(point["max_us"] for point in series) == result["latency_us"]["p100"]
    for one, next_one in zip(series, series[1:]):
        end = one["from_seconds"] + one["seconds"]
        assert next_one["from_seconds"] == pytest.approx(end, abs=0.002)


# ---- several servers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args", [["-g", "5"], ["-d8", "-m", MIX, "-c12", "-t2"], ["-r5000", "-c6"]]
)
def test_keys_belong_to_servers_by_ketama(load, ucload_path, start_server, args):
    """Each key is stored once and found where it was stored."""
    servers = [start_server("sock", "-t", "1") for _ in range(3)]
    names = [f"{host}:{port}" for host, port in (server.address for server in servers)]
    command = [ucload_path, "-s", ",".join(names), "-n3000", "-V", "--json", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    result = result_of(done)
    assert result["wrong"] == result["refused"] == 0 and result["requests"] == 3000
    items = [int(server.stats()["curr_items"]) for server in servers]
    assert min(items) > 100
    if "-m" not in args:
        assert result["misses"] == 0 and sum(items) == 1000


def test_servers_by_ketama_have_limits(ucload_path, server_sock):
    host, port = server_sock.address
    for args, message in ((["-c3"], "each thread needs one for each server"),
                          (["-k1"], "has none of the keys")):  # fmt: skip
        command = [ucload_path, "-s", f"{host}:{port},localhost:{port}", "-t2", *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 64 and message in done.stderr


def test_missed_keys_and_traces_with_several_servers(ucload_path, start_server, tmp_path):
    servers = [start_server("sock", "-t", "1") for _ in range(3)]
    names = ",".join("{}:{}".format(*server.address) for server in servers)

    def run(*args):
        command = [ucload_path, "-s", names, "-V", "--json", "-c6", *map(str, args)]
        return result_of(subprocess.run(command, capture_output=True, text=True, timeout=60))

    result = run("-n5000", "-k100", "--no-preload", "--fill")
    assert result["wrong"] == 0 and result["hits"] > 4000
    assert sum(int(server.stats()["curr_items"]) for server in servers) == 100
    trace = tmp_path / "trace.csv"
    lines = [f"{i},{i % 70},{100 + i % 70},{'set' if i < 70 else 'get'}" for i in range(1000)]
    trace.write_text("time,id,size,op\n" + "\n".join(lines) + "\n")
    result = run(f"--replay={trace}", "-c3")
    assert result["requests"] == 1000 and result["set"] == 70 and result["misses"] == 0


# ---- what a report says -----------------------------------------------------------------------


def test_a_rate_beyond_reach_is_an_error(load, server_sock):
    done = load(server_sock, "--json", "-T0.3", "-r50000000")
    assert done.returncode == 75 and "the rate was not reached" in done.stderr
    result = result_of(done)
    assert result["requests_per_second"] < result["offered_per_second"] / 2


def test_a_report_names_its_workload(load, server_sock):
    result = result_of(load(server_sock, "--json", "-n1000", "-k50", "-m", "get:3,set:1",
                            "--value-size=10-20", "-P", "meta"))  # fmt: skip
    assert result["mix"] == "get:3,set:1" and result["keys"] == 50
    assert result["value_size"] == "10-20" and result["protocol"] == "meta"
    assert result["ucload"] and result["time"].endswith("Z")
    kinds = [result[f"{op}_latency_us"]["count"] for op in ("get", "set")]
    assert kinds == [result["get"], result["set"]] and "incr_latency_us" not in result
    text = load(server_sock, "-n1000").stdout
    assert "kernel sockets (epoll)" in text


def test_requests_without_a_reply_are_in_the_latencies(load, start_server):
    """The server stops for longer than the timeout, which ends the run."""
    server = start_server("sock", "-t", "1")
    thread = threading.Thread(target=stop_for, args=(server, 3.0))
    thread.start()
    done = load(server, "--json", "-T60", "-c5", "--timeout=1")
    thread.join()
    result = json.loads(done.stdout)
    assert done.returncode == 1 and result["unanswered"] == 5
    assert result["latency_us"]["p100"] > 900_000
    assert result["latency_us"]["count"] == result["requests"] + 5


def test_a_log_that_cannot_be_written_fails_at_once(load, server_sock):
    done = load(server_sock, "--hdr=/nonexistent/log", "-T60", timeout=30)
    assert done.returncode == 73 and "cannot write /nonexistent/log" in done.stderr
