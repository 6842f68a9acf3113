# SPDX-License-Identifier: BSD-3-Clause
"""--metrics: OpenMetrics text of all statistics, and clients of the listener that misbehave."""

import contextlib
import select
import socket
import subprocess
import time
import urllib.request

import metrics
import pytest
from wire import STORED, storage

ON = pytest.mark.server_args("--metrics=0", "-t", "1")
BUCKET = 'ucached_request_latency_seconds_bucket{command="%s",le="%s"}'
COUNT = 'ucached_request_latency_seconds_count{command="%s"}'


def use(server, n=20):
    with server.connect() as connection:
        assert connection.ask(storage(b"set", b"k", b"v")) == STORED
        for _ in range(n):
            connection.ask(b"get k\r\n", b"END\r\n")


@ON
def test_all_statistics_are_metrics(server):
    """Each line of the lists is a metric that metrics_names.c describes."""
    use(server)
    values, families = metrics.scrape(server)
    lists = ["", "kv"] + (["sock"] if server.kind == "sock" else ["ustack", "nic"])
    own = {"pid", "uptime", "time", "version", "libevent", "pointer_size"}
    own |= {"rusage_user", "rusage_system"}
    for name in lists:
        for line in server.stats(*name.split()):
            if line in own and name == "":
                continue
            family = "_".join(filter(None, ("ucached", name, line)))
            family = family.removesuffix("_us") + "_seconds" if line.endswith("_us") else family
            assert families[family]["HELP"], family
            if name in ("", "kv", "sock"):
                assert "docs/administration.md" not in families[family]["HELP"], family
    assert families["ucached_curr_items"]["type"] == "gauge"
    assert families["ucached_cmd_get"]["type"] == "counter"
    assert families["ucached_kv_memory_used_bytes"]["UNIT"] == "bytes"
    assert values['ucached_process_cpu_seconds_total{mode="user"}'] >= 0


@ON
def test_values(server):
    assert metrics.scrape(server)[0]["ucached_cmd_get_total"] == 0
    use(server, 20)
    values = metrics.scrape_until(server, lambda values: values["ucached_cmd_get_total"] == 20)
    assert values["ucached_curr_items"] == values["ucached_kv_items"] == 1
    assert values["ucached_limit_maxbytes"] == 64 << 20
    assert values["ucached_process_max_resident_bytes"] % 1024 == 0  # the kernel counts KiB
    own = "sock" if server.kind == "sock" else "ustack"
    assert values[f"ucached_{own}_loops_total"] > 0


@ON
def test_latency_histogram(server):
    """All requests are counted, cumulative up to +Inf, by command."""
    use(server, 20)
    values = metrics.scrape_until(server, lambda values: values.get(COUNT % "get") == 20)
    assert values[COUNT % "set"] == 1
    assert values[BUCKET % ("get", "+Inf")] == 20
    buckets = [value for name, value in values.items() if 'bucket{command="get"' in name]
    assert buckets == sorted(buckets) and buckets[0] < 20
    bounds = [2**bits * part / 2e9 for bits in range(8, 35) for part in (2, 3)][:-1]
    assert len(buckets) == len(bounds) + 1
    assert all(BUCKET % ("get", f"{bound:.9g}") in values for bound in bounds)
    lines = server.stats("latency")
    assert (lines["get:count"], lines["set:count"]) == ("20", "1")
    assert 0 < int(lines["get:p50_ns"]) <= int(lines["get:p9999_ns"]) <= int(lines["get:max_ns"])


@ON
def test_other_requests(server_sock):
    status, headers, page = metrics.ask(server_sock, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert metrics.ask(server_sock, "/nothing")[0] == 404
    assert metrics.ask(server_sock, method="HEAD")[2] == ""
    status, headers, _ = metrics.ask(server_sock, method="POST", body=b"x" * 100000)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


@ON
def test_hostile_clients_stop_no_worker(server):
    """Silent connections, long headers, requests that are never read: sessions are served."""

    def connect():
        return socket.create_connection(("127.0.0.1", metrics.port(server)), timeout=0.3)

    def attack():
        for i in range(36):  # more than are served and wait
            try:
                hostile.append(connect())
                if i % 3 == 1:
                    hostile[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 50)
                elif i % 3 == 2:
                    hostile[-1].sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 100000)
            except OSError:
                pass  # the backlog is full, or the connection was closed

    hostile = []
    try:
        with server.connect() as connection:
            metrics.run(server, attack)
            for _ in range(100):
                assert connection.ask(storage(b"set", b"k", b"v")) == STORED
    finally:
        for sock in hostile:
            sock.close()
    values = metrics.scrape(server)[0]
    assert values["ucached_curr_connections"] <= 1


@ON
def test_clients_that_never_finish_exclude_no_other(server):
    """As many as are served at a time, which send a byte of a header again and again."""

    def connect(request):
        sock = socket.create_connection(("127.0.0.1", metrics.port(server)), timeout=60)
        sock.sendall(request)
        return sock

    def connect_all():
        for _ in range(8):
            slow.append(connect(b"GET /metrics HTTP/1.1\r\nX: "))
        return connect(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")

    slow = []
    try:
        with metrics.run(server, connect_all) as other:
            end = time.monotonic() + 60
            while not select.select([other], [], [], 0.2)[0]:
                assert time.monotonic() < end
                for sock in slow:
                    with contextlib.suppress(OSError):  # it has been closed
                        sock.send(b"x")
            assert other.recv(12) == b"HTTP/1.1 200"
    finally:
        for sock in slow:
            sock.close()


@pytest.mark.parametrize(
    "address", ["", "x", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "::1:9150",
                ":9150", "[::1]", "192.0.2.1:9150"]
)  # fmt: skip
def test_bad_addresses(ucached_path, address):
    done = subprocess.run(
        [ucached_path, "--io=sock", "-p", "0", "-u", "root", f"--metrics={address}"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "--metrics" in done.stderr


def test_the_address_is_taken(server_sock, ucached_path):
    host, port = server_sock.address
    done = subprocess.run(
        [ucached_path, "--io=sock", "-p", "0", "-u", "root", f"--metrics={host}:{port}"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 71
    assert f"--metrics={host}:{port}: Address already in use" in done.stderr


@pytest.mark.server_args("--metrics=[::1]:0", "-o", "drop_privileges")
def test_with_the_filter_and_ip6(server_sock):
    if "[::1]" not in server_sock.log():
        pytest.fail(server_sock.log())
    port = metrics.port(server_sock)
    with urllib.request.urlopen(f"http://[::1]:{port}/metrics", timeout=60) as reply:
        metrics.parse(reply.read().decode())
