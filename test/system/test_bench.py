# SPDX-License-Identifier: BSD-3-Clause
"""`make bench` in small: it runs through, cleans up, and writes rows and a report."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import callgrind  # noqa: E402
import contract  # noqa: E402
import harness  # noqa: E402
import publish  # noqa: E402
import report  # noqa: E402
import suites  # noqa: E402
from suites import cost, engine, latency, scale  # noqa: E402
from wire import settles  # noqa: E402

ROW = {"suite", "case", "value", "unit", "median_of", "compared_to", "ratio"}

RUN_LIMIT_S = 400  # a suite, on a machine that others use as well

pytestmark = [pytest.mark.limit(RUN_LIMIT_S + 20), pytest.mark.long]




@pytest.fixture(scope="module")
def build(ucached_path):
    build = pathlib.Path(ucached_path).parents[2]
    if build.name == "asan":
        pytest.skip("no measurements with sanitizers")
    return build


def bench(build, *suites, **env):
    """Runs suites, each measurement short, yet long enough for a reply on a busy machine."""
    command = [sys.executable, ROOT / "tools" / "bench", build, *suites]
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False,
                          env={**os.environ, "BENCH_SECONDS": "0.3", "BENCH_ROUNDS": "1", **env})


def test_one_suite(build, memcached_path, tmp_path):
    done = bench(build, "protocol", BENCH_RESULTS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "latest.json").read_text())
    assert {row["suite"] for row in rows} == {"protocol"}
    assert all(ROW <= set(row) and row["value"] > 0 for row in rows)
    by_case = {row["case"]: row for row in rows}
    row = by_case["ucached_get_text_2"]
    base = by_case["memcached_get_text_2"]
    assert row["compared_to"] == {"memcached": base["value"]}
    assert row["ratio"]["memcached"] == pytest.approx(row["value"] / base["value"])
    assert re.match(r"taskset -c \d+ ucached --io=sock .* & taskset -c \d+ ucload --server=",
                    row["command"])
    text = (tmp_path / "latest.md").read_text()
    assert "| ucached_get_text_2 |" in text and suites.about("protocol")[0] in text
    assert "their figures mean little" in text
    page = (tmp_path / "latest.html").read_text()
    assert "<svg" in page and "ucached_get_text_2" in page
    assert os.uname().nodename not in (tmp_path / "latest.json").read_text()
    assert list(tmp_path.glob("20*-*cpu.json"))


def test_bulk_sends_large_frames_only_with_tso(huge_page_lock, build, tmp_path):
    done = bench(build, "bulk", BENCH_RESULTS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "latest.json").read_text())
    frames = {row["case"]: row["value"] for row in rows
              if row["case"].startswith("vhost") and row["case"].endswith("_frame")}
    if not frames:
        pytest.skip(f"no vhost here: {done.stdout[-300:]}")
    assert len(frames) == 8
    large = [frames.pop(f"vhost_{way}_frame") for way in ("send", "receive")]
    assert min(large) > 8000 and all(1000 < size < 1515 for size in frames.values()), frames


TWO_CORES = """
import sys
sys.path.insert(0, sys.argv[1])
import harness
from suites import threading
rows = harness.Rows()
with harness.Bench(sys.argv[2], rows, harness.Progress({})) as bench:
    bench.server_cpus = sorted({*bench.server_cpus, *bench.client_cpus})
    for program in ("ucached", "ucping"):
        threading.split(bench, program, "tap")
"""


def test_split_runs_where_servers_have_two_cores(build, tap_obstacle):
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core")
    done = subprocess.run([sys.executable, "-c", TWO_CORES, ROOT / "bench", build], text=True,
                          capture_output=True, timeout=RUN_LIMIT_S, check=True,
                          env={**os.environ, "BENCH_SECONDS": "0.3", "BENCH_ROUNDS": "1"})
    assert re.search(r"split_tap .* x unified_2_workers", done.stdout), done.stdout
    assert re.search(r"ping_split_tap .* x unified_for_split", done.stdout), done.stdout


class SlowEngine(engine.Suite):
    """Four steps of 10 s on a machine slower by a factor, with a virtual clock."""

    def __init__(self, slowness, seconds):
        self.clock = 0.0
        super().__init__(None, False, lambda: seconds - self.clock, lambda: self.clock)
        self.slowness, self.done = slowness, []

    def steps(self):
        return [engine.Step(f"step {n}", 5, 1, lambda rounds, n=n: self.take(n, rounds))
                for n in range(4)]

    def take(self, number, rounds):
        self.clock += self.slowness * (5 + rounds)
        self.done.append((number, rounds))


@pytest.fixture
def five_rounds(monkeypatch):
    monkeypatch.setattr(engine, "ROUNDS", 5)


def test_engine_suite_runs_all_rounds_in_time(five_rounds):
    suite = SlowEngine(1.0, 40)
    suite.run_all()
    assert suite.done == [(n, 5) for n in range(4)] and not suite.skipped


def test_engine_suite_runs_fewer_rounds_when_late(five_rounds):
    suite = SlowEngine(1.5, 52)
    suite.run_all()
    rounds = [rounds for _, rounds in suite.done]
    assert rounds[0] == 5 and len(rounds) == 4 and 1 <= min(rounds) < 5
    assert suite.clock <= 52
    assert [what for what, _ in suite.skipped] == \
        [f"rounds after {r} of step {n}" for n, r in suite.done if r < 5]


def test_engine_suite_skips_steps_without_time(five_rounds):
    suite = SlowEngine(4.0, 60)
    suite.run_all()
    assert suite.done[0] == (0, 5) and suite.clock <= 60
    left_out = {f"step {n}" for n in range(4)} - {f"step {n}" for n, _ in suite.done}
    assert left_out and left_out <= {what for what, _ in suite.skipped}


def test_program_is_ended_when_the_time_is_up(five_rounds):
    suite = engine.Suite(None, False, lambda: 0.2)
    with pytest.raises(engine.Late):
        suite.call(["sleep", "60"])
    assert suite.call(["true"]).returncode == 0
    with pytest.raises(engine.Late):
        engine.Suite(None, False, lambda: -1.0).call(["true"])


def marked(mark):
    """The command lines of all processes that were started, however indirectly, with this mark."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue  # it has ended meanwhile, or is not ours
    return found


def surroundings():
    """System settings and files that a run changes."""
    return {"huge pages": pathlib.Path("/proc/sys/vm/nr_hugepages").read_text(),
            "mounts": pathlib.Path("/proc/self/mounts").read_text().count("\n"),
            "devices": sorted(os.listdir("/sys/class/net")),
            "folders": sorted(pathlib.Path(tempfile.gettempdir()).glob("ucached-bench-*")),
            "dpdk": sorted(pathlib.Path("/var/run/dpdk").glob("ucached-bench-*"))}


def put_back(before):
    """Undoes the changes of a killed run, as docs/performance.md describes."""
    now = surroundings()
    if now["huge pages"] != before["huge pages"]:
        pathlib.Path("/proc/sys/vm/nr_hugepages").write_text(before["huge pages"])
    for kind in ("folders", "dpdk"):
        for folder in set(now[kind]) - set(before[kind]):
            shutil.rmtree(folder)


@pytest.mark.parametrize("number, when, suite", [
    (signal.SIGTERM, b"ucping --json", "stack"), (signal.SIGINT, b"--io=tap", "stack"),
    (signal.SIGTERM, b"net_vhost0", "bulk"), (signal.SIGINT, b"testpmd", "stack"),
    (signal.SIGTERM, b"kvbench", "engine"), (signal.SIGKILL, b"--io=tap", "bulk")])
def test_interrupted_run_cleans_up(huge_page_lock, build, memcached_path, tmp_path, number, when,
                                   suite):
    """SIGINT, SIGTERM or SIGKILL end the run while it measures."""
    before = surroundings()
    mark = f"BENCH_MARK={tmp_path}"
    run = subprocess.Popen(
        [sys.executable, ROOT / "tools" / "bench", build, suite], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "BENCH_MARK": str(tmp_path), "BENCH_SECONDS": "0.3",
             "BENCH_ROUNDS": "1", "BENCH_RESULTS": str(tmp_path)})
    try:
        settles(lambda: run.poll() is not None or any(
            when in command for command in marked(mark).values()), 60)
        if run.poll() is not None:
            pytest.skip(f"no {when.decode()} here: {run.stdout.read()[-300:]}")
        run.send_signal(number)
        if number != signal.SIGKILL:
            run.send_signal(number)  # a second signal does not interrupt the cleaning up
        assert run.wait(30) == (-number if number == signal.SIGKILL else 128 + number)
        assert settles(lambda: not marked(mark)), marked(mark)
        if number == signal.SIGKILL:
            put_back(before)
            settles(lambda: surroundings() == before)  # the kernel takes its namespaces down
        assert surroundings() == before
    finally:
        run.kill()
        run.stdout.close()
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)


def test_expected_time_is_below_half_an_hour(monkeypatch):
    monkeypatch.setattr(harness, "ROUNDS", 5)
    monkeypatch.setattr(harness, "SECONDS", 1.0)
    assert sum(suite.expected() for suite in suites.ALL.values()) < 29 * 60


def test_rounds_are_left_out_when_time_is_up(monkeypatch, capsys):
    """On a machine that is much slower than planned, rounds are left out and reported."""
    monkeypatch.setattr(harness.Progress, "LIMIT", 0)
    progress = harness.Progress({"protocol": 0.0, "later": 0.0})
    rows = harness.Rows()
    bench = harness.Bench.__new__(harness.Bench)
    bench.rows, bench.progress = rows, progress
    with progress.suite("protocol"):
        found = bench.rounds("protocol", {"one": lambda: {"rate": 1.0}}, 5)
    assert len(found["one"]) == 1 and "slower than planned" in rows.skipped[0]["why"]
    assert "suite protocol took" in capsys.readouterr().out


def test_measurement_without_replies_is_a_failure(monkeypatch):
    """A server that stalls is reported, not measured again until it answers."""
    said = [7, 0, 7]
    bench = harness.Bench.__new__(harness.Bench)
    bench.rows, bench.progress = harness.Rows(), harness.Progress({})
    monkeypatch.setattr(bench, "program", lambda name: name, raising=False)
    monkeypatch.setattr(bench, "both", lambda server, command: "typed", raising=False)
    monkeypatch.setattr(bench, "run", lambda command, space, ok: f'{{"requests": {said.pop(0)}}}',
                        raising=False)
    server = types.SimpleNamespace(address="127.0.0.1:1", client_link=[], space=None)
    found = bench.rounds("stack", {"stalls": lambda: bench.load(server)}, 3)
    assert found == {} and said == [7]
    assert "no reply in" in bench.rows.skipped[0]["why"]


def test_unknown_suite(build, tmp_path):
    done = bench(build, "nonsense", BENCH_RESULTS=str(tmp_path))
    assert done.returncode != 0 and "there is no suite nonsense" in done.stderr


def test_another_server(huge_page_lock, build, memcached_path, tmp_path):
    command = f"{memcached_path} -u root -l 127.0.0.1 -U 0 -p {{port}} -t {{threads}}"
    done = bench(build, "stack", BENCH_RESULTS=str(tmp_path), SERVER_CMD=command)
    assert done.returncode == 0, done.stderr
    rows = {row["case"]: row for row in json.loads((tmp_path / "latest.json").read_text())}
    assert rows["other"]["value"] > 0
    if len(os.sched_getaffinity(0)) < 4:
        assert "cores: skipped: " in done.stdout
        assert "Not measured" in (tmp_path / "latest.md").read_text()
    assert set(rows["sock_depth1"]["ratio"]) >= {"memcached", "other", "pingpong"}
    if "get_vhost" in rows:
        limit = rows["load_limit_vhost"]
        assert limit["compared_to"] == {"ucached": rows["get_vhost"]["value"]}
        assert "responder --io=dpdk" in limit["command"]
        for name in ("load_cycles_per_get", "load_limit_vhost_cycles",
                     "load_limit_vhost_server_cycles"):
            assert rows[name]["value"] > 0
            assert rows[name]["compared_to"] == {"ucached": rows["cycles_per_get"]["value"]}


def test_another_server_over_vhost_and_the_picture(huge_page_lock, build, memcached_path, tmp_path):
    """The other server is ucached itself, which needs the placeholders as another program does."""
    command = (f"{build}/apps/ucached/ucached --io=dpdk --dev=net_vhost0,iface={{socket}} "
             "--eal='-l {cpu} --file-prefix={prefix}' --ip={address}/24 -p {port} --without=csum "
             "-m 64")
    done = bench(build, "stack", BENCH_RESULTS=str(tmp_path), RIVAL_CMD=command,
                 MEMCACHED=memcached_path)
    assert done.returncode == 0, done.stderr
    rows = {row["case"]: row for row in json.loads((tmp_path / "latest.json").read_text())}
    if "get_vhost" not in rows:
        pytest.skip(f"no vhost here: {done.stdout[-300:]}")
    assert rows["bypass_vhost"]["server"] == command
    assert "bypass_vhost" in rows["get_vhost"]["ratio"]
    version = rows["memcached"]["server"]
    assert re.fullmatch(r"memcached [\d.]+", version)
    text = (tmp_path / "latest.md").read_text()
    assert f"faster than {version}" in text and "faster than the other server over vhost" in text
    picture = (tmp_path / "latest.svg").read_text()
    assert f"{version}, kernel TCP" in picture and "other server, vhost" in picture


def test_af_xdp_and_several_cores(build, memcached_path, tmp_path):
    done = bench(build, "xdp", "scale", BENCH_RESULTS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = {row["case"]: row for row in json.loads((tmp_path / "latest.json").read_text())}
    for cores in scale.core_counts()[1:]:
        assert rows[f"scale_{cores}"]["compared_to"] == {"1 core": rows["scale_1"]["value"]}
        assert rows[f"scale_{cores}_set10"]["value"] > 0
    if "memcached_veth: skipped" not in done.stdout:
        assert rows["xdp_get"]["compared_to"] == {"memcached_veth": rows["memcached_veth"]["value"]}
        assert rows["xdp_depth16"]["value"] > 0


def test_metrics_and_latencies_of_the_server(huge_page_lock, build, tmp_path):
    done = bench(build, "metrics", BENCH_RESULTS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = {row["case"]: row for row in json.loads((tmp_path / "latest.json").read_text())}
    for name in ("p50", "p99"):
        assert rows[f"latency_server_{name}"]["value"] > 0
        assert rows[f"latency_server_{name}"]["compared_to"]["ucload"] > 0
    if "metrics_off_vhost: skipped" not in done.stdout:
        base = rows["metrics_off_vhost"]["value"]
        assert rows["metrics_on_vhost"]["compared_to"] == {"metrics_off_vhost": base}


def test_publishing_a_run_keeps_the_others(tmp_path, monkeypatch):
    document = {"comparison": {"title": "", "caption": "", "text": "", "bars": [
        {"server": "memcached", "name": "memcached", "times": 1, "text": "1"}]},
        "runs": [{"name": "A", "machine": "", "rows": [row("get_vhost", 1.0)]}],
        "notes": [], "tables": []}  # fmt: skip
    for name in ("JSON", "PAGE", "PICTURE"):
        monkeypatch.setattr(publish, name, tmp_path / name)
    publish.JSON.write_text(json.dumps(document))
    (tmp_path / "run.json").write_text(json.dumps([row("xdp_get", 2.0)]))
    for name, names in (("C", ["A", "C"]), ("C", ["A", "C"]), (None, ["run"])):
        more = ["--name", name] if name else []
        monkeypatch.setattr(sys, "argv", ["publish.py", "--run", str(tmp_path / "run.json"), *more])
        publish.main()
        runs = json.loads(publish.JSON.read_text())["runs"]
        assert [run["name"] for run in runs] == names and runs[-1]["rows"][0]["value"] == 2.0


def test_contract_has_the_cores_that_were_measured():
    rows = [row("scale_1", 5.0), row("scale_2", 9.5, **{"1 core": 1.9}),
            row("zipf_vhost_cycles", 376.0, get_vhost=0.75)]
    lines = {line[0]: line for line in contract.table(rows)}
    assert lines["scale_2"][2:] == (">= 1.8", ">= 1.94", "1.9", "must")
    assert "scale_4" not in lines
    assert lines["zipf_vhost_cycles"][-1] == "aim"


def test_picture_is_that_of_the_run():
    rows = [{**row("memcached", 1e5), "server": "memcached 1.6.45"}, row("get_vhost", 5e6),
            row("memcached_veth", 8e4), row("xdp_get", 1.2e5), row("frame_limit_vhost", 9e6)]
    comparison = publish.comparison_of(rows, "some machine")
    assert [bar["times"] for bar in comparison["bars"]] == [1.0, 1.5, 50.0, 90.0]
    picture = publish.picture(comparison)
    assert "memcached 1.6.45, kernel TCP" in picture and "50 (5 M/s)" in picture
    assert publish.comparison_of(rows[1:], "some machine") is None


def row(case, value, **ratio):
    return {"suite": "stack", "case": case, "value": value, "unit": "1/s", "median_of": 5,
            "compared_to": {}, "ratio": ratio}


def test_report_begins_with_answers():
    rows = [row("get_vhost", 2e6, memcached=12.0, frame_limit=0.2), row("frame_limit_vhost", 1e7),
            row("pingpong_own", 3e6), row("cycles_per_get", 700), row("memcached_kernel_share", .9),
            row("instructions_per_get", 2000), row("instructions_in_ustack", 1500),
            row("instructions_in_cache", 500), row("sock_depth1", 1e5, memcached=0.9),
            row("load_limit_vhost", 3e6), row("load_cycles_per_get", 600),
            row("load_limit_vhost_server_cycles", 500)]
    document = {"machine": {"cpus": 2}, "versions": {"kernel": "Linux"}, "skipped": []}
    text = report.markdown(document, rows)
    first, second, third, fourth = text.splitlines()[2:6]
    assert "than memcached" in first and "12.00 times on its own stack over vhost" in first
    assert "700 busy cycles" in second and "TCP/IP 75%" in second and "90% of its time" in second
    assert "10 M frames/s" in third and "3 M messages" in third and "20% of the frames" in third
    assert "looks nothing up answers ucload 3 M requests/s, 1.50 times" in fourth
    assert "600 busy cycles of ucload's core and 700 of ucached's" in fourth
    contract = {tuple(map(str.strip, line.split("|")[1:3])): line.split("|")[-2].strip()
                for line in text.splitlines() if line.startswith("|")}
    assert contract["get_vhost", "GETs/s, times memcached on kernel TCP"] == "must"
    assert contract["cycles_per_get", "busy cycles of the server's core per GET"] == "must"
    assert contract["sock_depth1", "kernel sockets, times memcached"] == "no"
    assert contract["get_memif", "GETs/s, times memcached on kernel TCP"] == "not measured"
    page = report.page(document, rows)
    assert "12.00 times" in page and "tr class='no'" in page


def test_report_names_a_busy_machine():
    for busy, reported in ((0.4, False), (0.6, True)):
        machine = {"cpus": 2, "cores busy before": busy, "rounds": 5, "seconds each": 1}
        text = report.markdown({"machine": machine, "versions": {}, "skipped": []}, [])
        assert (f"Other programs kept {busy} cores busy" in text) == reported


def test_rows_have_the_time_of_stops(capsys):
    def measured(p99, stopped_us):
        return {"latency_us": {"p99": p99}, "seconds": 1.0,
                "hiccups": {"count": 1, "longest_us": stopped_us / 2, "worst_core_us": stopped_us}}

    results = [measured(9000.0, 20_000), measured(30.0, 0), measured(5000.0, 10_000)]
    assert latency.least_stopped(results * 9)[:3] == [results[1]] * 3
    stopped = harness.stopped(results)
    assert stopped == {"stopped_share": 0.01, "stopped_longest_us": 10_000}
    rows = harness.Rows()
    rows.add("latency", "latency_half_load", [r["latency_us"]["p99"] for r in results], "us",
             compared_to={"memcached_p50": 25.0}, lower_is_better=True, stopped=stopped)
    assert "0.005 x memcached_p50" in capsys.readouterr().out
    text = report.markdown({"machine": {}, "versions": {}, "skipped": []}, rows.rows)
    assert "0.005 x memcached_p50 | 1.00%, up to 10 ms |" in text and report.STOPPED in text
    assert "a core stood still for 1.0% of that time, 10 ms at the longest" in text


def test_instructions_are_counted_for_the_piece_of_their_file():
    """Callgrind's file: what is inlined counts where it was written, calls count where they go."""
    text = "\n".join(["fl=(1) ../src/ustack/tcp_in.c", "fn=(1) us_input", "10 100", "+3 50",
                      "fi=(2) ../src/base/wire.h", "7 30", "fe=(1)", "12 5", "cfi=(3) memcpy.S",
                      "cfn=(9) memcpy", "calls=2 0", "12 4000", "* 1", "fl=(3)", "fn=(9)", "1 40",
                      "fl=(4) ../include/ubase/pkt.h", "fn=(2) x", "3 9"])
    assert cost.read_pieces(text) == {"ustack": 156, "base": 39, "libc": 40}


def test_instructions_are_counted_for_the_object_of_their_function():
    """The program's own ones are those of neither a library nor the calls to it."""
    text = "\n".join(["ob=(1) /tmp/get_path", "fl=(1) ../src/tls/record.c", "fn=(1) seal", "10 100",
                      "cob=(2) /lib/libcrypto.so.3", "cfi=(2) ???", "cfn=(2) EVP_CipherUpdate",
                      "calls=1 0", "11 4000", "+1 20", "ob=(2)", "fl=(2)", "fn=(2)", "0 3900",
                      "cob=(1)", "cfn=(3) emit", "calls=1 0", "0 100", "ob=(1)", "fn=(3)", "* 7"])
    costs = list(callgrind.self_costs(text))
    assert costs == [("/tmp/get_path", "../src/tls/record.c", 100),
                     ("/tmp/get_path", "../src/tls/record.c", 20),
                     ("/lib/libcrypto.so.3", None, 3900), ("/tmp/get_path", None, 7)]


def test_instructions_of_a_library_without_lines_count_for_its_driver():
    """And calls are counted wherever they come from."""
    text = "\n".join(["ob=(1) /usr/lib/librte_vhost.so.23.0", "fl=(1) ???", "fn=(1) 0x8ca20",
                      "10 200", "cob=(2) /tmp/ucached", "cfi=(2) ../src/cache/ahead.c",
                      "cfn=(7) cache_session_try_fast", "calls=3 0", "10 900", "11 1",
                      "ob=(2)", "fl=(2)", "fn=(7)", "20 30", "fi=(3) /usr/include/dpdk/rte_mbuf.h",
                      "4 6", "ob=(3) /lib/libc.so.6", "fl=(1)", "fn=(8) 0x10", "1 50",
                      "fn=(9) x", "cob=(2)", "cfn=(7)", "calls=2 0", "5 60"])
    assert cost.read_pieces(text) == {"driver": 207, "cache": 30, "libc": 50}
    assert cost.read_calls(text, "cache_session_try_fast") == 5
    assert cost.read_calls(text, "us_input") == 0


def test_numbers():
    assert [report.number(n) for n in (0, 0.5, 123, 12345, 1.234e6)] == [
        "0", "0.5", "123", "12.3 k", "1.23 M"]
