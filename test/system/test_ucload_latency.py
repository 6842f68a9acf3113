# SPDX-License-Identifier: BSD-3-Clause
"""Latencies that ucload reports, beside those of the server, and by rate."""

import contextlib
import json
import math
import signal
import socket
import subprocess
import threading
import time
import xml.etree.ElementTree

import pytest
from loadrun import load, requests_arrive, result_of, seconds_of, stop_for  # noqa: F401

STALL_S = 0.2


def stalled(load, server, *args):
    """Runs ucload for 3 s and stops the server for STALL_S while requests arrive."""
    thread = threading.Thread(target=stop_for, args=(server, STALL_S))
    thread.start()
    result = result_of(load(server, "--json", "-T3", *args))
    thread.join()
    return result


def test_a_stall_shows_in_an_open_loop(load, server_sock):
    """Of 3 s, 0.2 s are a stall: 6 % of the requests were to be sent in it."""
    result = stalled(load, server_sock, "-r2000")
    latency = result["latency_us"]
    assert latency["p99.9"] > 800_000 * STALL_S and latency["p100"] > 900_000 * STALL_S
    assert result["requests"] < 1.1 * 3 * 2000
    assert latency["p99"] > 500_000 * STALL_S


def test_a_stall_in_a_closed_loop_hides_unless_corrected(load, server_sock):
    result = stalled(load, server_sock, "-c1")
    assert result["latency_us"]["count"] == result["requests"]  # the stall is one of thousands
    assert result["corrected_us"]["count"] > result["requests"]
    assert result["corrected_us"]["p99"] > 500_000 * STALL_S


def test_hiccups_are_reported(ucload_path, server_sock):
    """A stop of the client is reported as a hiccup beside the latencies."""
    host, port = server_sock.address
    command = [ucload_path, f"-s{host}:{port}", "-r500", "-T1.5", "--json"]
    client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    requests_arrive(server_sock)
    client.send_signal(signal.SIGSTOP)
    time.sleep(0.15)
    client.send_signal(signal.SIGCONT)
    out, _ = client.communicate(timeout=60)
    hiccups = json.loads(out)["hiccups"]
    assert hiccups["count"] >= 1 and 100_000 < hiccups["longest_us"] <= hiccups["worst_core_us"]
    done = subprocess.run([*command[:-1], "--watch-cores=0"], capture_output=True, text=True,
                          timeout=60)
    assert "\nhiccups      " in done.stdout


class TimedServer:
    """A server that takes known times for its replies and records them by its own clock."""

    def __init__(self, *times_s):
        self._times_s = times_s
        self.taken = []  # (when a request came, when its answer went)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock, contextlib.suppress(ConnectionError):
                while sock.recv(65536):
                    came = time.perf_counter()
                    time.sleep(self._times_s[len(self.taken) % len(self._times_s)])
                    self.taken.append((came, time.perf_counter()))
                    sock.sendall(b"END\r\n")

    def close(self):
        self._listener.close()


def percentile(values, percent):
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


@pytest.fixture
def timed_run(ucload_path):
    """Runs ucload with one connection to a TimedServer; returns its JSON and the server's times."""

    def timed_run(times_s, *args):
        with contextlib.closing(TimedServer(*times_s)) as timed:
            command = [ucload_path, f"-s127.0.0.1:{timed.address[1]}", "-c1", "-k1",
                       "--no-preload", "--json", *args]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            return result_of(done), timed.taken

    return timed_run


def test_latencies_are_those_of_the_server_and_a_little(timed_run):
    """The time of the server is within that of the client: no percentile is smaller than its."""
    result, taken = timed_run([i / 1000 for i in range(2, 21, 2)], "-n200")
    assert result["latency_us"]["count"] == len(taken) == 200
    times = [1e6 * (went - came) for came, went in taken]
    for percent in (50, 90, 99):
        own, theirs = result["latency_us"][f"p{percent}"], percentile(times, percent)
        assert 0.999 * theirs <= own, percent
    total_s = result["latency_us"]["mean"] * 200 / 1e6  # there is never more than one under way
    assert total_s <= 1.001 * result["seconds"]


def test_latencies_of_an_open_loop_are_those_since_each_was_due(timed_run):
    """Twice as many requests as can be served: the server's log shows how late each of them is."""
    rate = 400
    result, taken = timed_run([0.005], f"-r{rate}", "--arrivals=constant", "-n200")
    begin = taken[0][0]
    late = [1e6 * (went - begin - i / rate) for i, (_, went) in enumerate(taken)]
    assert len(late) == 200 and percentile(late, 50) > 200_000
    assert 0.999 * percentile(late, 50) <= result["latency_us"]["p50"] <= 1e6 * result["seconds"]


@pytest.mark.parametrize("arrivals", ["poisson", "constant"])
def test_rate(load, server_sock, arrivals):
    """The last of 5000 requests is not due before a second; a busy machine sends it later."""
    result = result_of(load(server_sock, "--json", "-r5000", "-n5000", f"--arrivals={arrivals}"))
    assert result["requests"] == 5000 and result["seconds"] > 0.9


def check_hdr_log(path, result):
    """
    The Python package of HdrHistogram reads the numbers of the result, second by second. It rounds
    the rank of a percentile to the nearest, ucload up: the neighbours of the rank are as good.
    """
    from hdrh.histogram import HdrHistogram
    from hdrh.log import HistogramLogReader

    latency, counts = result["latency_us"], []
    reader = HistogramLogReader(str(path), HdrHistogram(1, 3_600_000_000_000, 3))
    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    while interval := reader.get_next_interval_histogram():
        counts.append(interval.get_total_count())
        histogram.add(interval)
    assert counts == [point["requests"] for point in result["series"]]
    assert histogram.get_total_count() == latency["count"] > 0
    rank = 100 / latency["count"]
    for percent in (50, 90, 99, 99.9, 100):
        low = histogram.get_value_at_percentile(max(0, percent - rank)) / 1e3
        high = histogram.get_value_at_percentile(min(100, percent + rank)) / 1e3
        assert 0.998 * low <= latency[f"p{percent:g}"] <= 1.002 * high, percent


def test_log_of_hdrhistogram(load, server_sock, tmp_path):
    path = tmp_path / "latency.hlog"
    check_hdr_log(path, result_of(load(server_sock, "--json", "-n20000", f"--hdr={path}")))


def test_log_of_several_seconds_and_threads(ucload_path, server_sock, tmp_path):
    path = tmp_path / "latency.hlog"
    result, _ = seconds_of(ucload_path, server_sock, 2, f"--hdr={path}", "-t3")
    assert len(result["series"]) >= 2
    check_hdr_log(path, result)


def test_search_for_a_goal(load, server_sock):
    done = load(server_sock, "--json", "--slo=p50<100s", "-T0.1", "-c8")
    assert result_of(done)["slo_rate"] > 0
    done = load(server_sock, "--json", "--slo=max<1ns", "-T0.05", "-c1")
    assert result_of(done)["slo_rate"] == 0


# ---- the curve --------------------------------------------------------------------------------


def test_scan(load, server_sock, tmp_path):
    """Rates up to beyond the highest; the drawing has a line of as many points per percentile."""
    path = tmp_path / "curve.svg"
    done = load(server_sock, "--json", "-T0.2", f"--scan={path}")
    points = json.loads(done.stdout)["scan"]
    assert done.returncode == 0 and 10 <= len(points) <= 14
    rates = [point["offered_per_second"] for point in points]
    assert rates == sorted(rates) and rates[-1] > 5 * rates[0]
    assert all(point["p50_us"] <= point["p99_us"] <= point["p99.9_us"] for point in points)
    svg = xml.etree.ElementTree.parse(path).getroot()
    lines = svg.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.get("points").split()) for line in lines] == [len(points)] * 3
    for pair in lines[0].get("points").split():
        x, y = map(float, pair.split(","))
        assert 0 <= x <= 760 and 0 <= y <= 440


def test_scan_chooses_the_rates(load, server_sock, tmp_path):
    for other in ("-r100", "-n100", "--slo=p99<1ms"):
        done = load(server_sock, f"--scan={tmp_path / 'c'}", other)
        assert done.returncode == 64 and "--scan chooses rates" in done.stderr
    done = load(server_sock, "--scan=/nonexistent/c")
    assert done.returncode == 73 and "cannot write" in done.stderr
