#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the stages of `make check` and `make check-all`.

    tools/check.py check            what shows that a change is good; about ten minutes
    tools/check.py all              the other stages: rest of the system suite, sanitizers, back
                                    ends, guests
    tools/check.py STAGE...         these stages, and the builds that they need
    tools/check.py --list           the stages, their groups and commands

Three stages run at a time (CHECK_LANES=N: N), in the order of the table below, which begins with
the stages that others need: two do not keep two cores busy, since tests wait. A failed stage does
not end the run: only the stages that need its build are left out, and count as failed. Each stage
writes build/check-logs/STAGE.log. A test that failed runs once more alone: it is reported as flaky
if it passes then, as broken if not. The run fails either way. With CHECK_STRICT=1 a skipped test is
a failure (tools/strict.py).
"""

import argparse
import dataclasses
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "check-logs"
PYTHON = ".venv/bin/python"
SYSTEM = "test/system"
STRICT = str(ROOT / "tools" / "strict.py")
CORES = len(os.sched_getaffinity(0))
LANES = int(os.environ.get("CHECK_LANES", 3))
VM_REPORT = LOGS / "vm-report"
POLL_S = 0.1  # between two looks at a process
ENDED = 143  # status of what SIGTERM ended
ENDING_S = 10  # from SIGTERM to SIGKILL
PROGRESS_S = 30  # between two lines about the stages that run
TAIL_LINES = 60  # of a failed stage's log
WHY_LINES = 3  # of output in the summary that say why a test or a stage failed
WHY_MAX = 300  # characters
AGAIN_MAX = 20  # more failed tests than this are not run again
SLOWEST = 15


@dataclasses.dataclass
class Stage:
    """One row of the table: `command` is a list of words; what `needs` names has to pass first."""

    name: str
    group: str  # "check", "all", or "" for what others need
    command: list[str]
    needs: tuple[str, ...] = ()
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    limit_s: int = 3600
    build: str = ""  # the build folder of a stage of Meson tests
    is_pytest: bool = False
    # Set by the run.
    result: str = "not run"
    seconds: float = 0.0
    cpu_s: float = 0.0
    flaky: list[str] = dataclasses.field(default_factory=list)
    broken: list[str] = dataclasses.field(default_factory=list)
    durations: list[tuple[float, str]] = dataclasses.field(default_factory=list)

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"


def build(folder):
    """Compiles a build folder, which the GNUmakefile sets up."""
    command = ["make", "--no-print-directory", f"build/{folder}/build.ninja"]
    ninja = ["ninja", "-C", f"build/{folder}"]
    line = f"{shlex.join(command)} && {shlex.join(ninja)}"
    return Stage(f"build-{folder}", "", ["sh", "-c", line])


def meson(name, group, folder, *options, wrap="", env=None, factor=10):
    """Test programs of a build folder; `factor` multiplies their time limits."""
    wrapper = f"{STRICT} {wrap}".strip()
    command = ["meson", "test", "-C", f"build/{folder}", "--no-rebuild", "--print-errorlogs",
               "--logbase", name, "-t", str(factor), "--num-processes", str(max(1, CORES // LANES)),
               "--wrap", wrapper, *options]
    return Stage(name, group, command, (f"build-{folder}",), env or {}, build=folder)


def system(name, group, folder, *words, env=None, program=None, needs=()):
    """System tests with the ucached of a build folder."""
    command = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfE",
               f"--junitxml={LOGS / name}.xml", *words]
    program = program or f"build/{folder}/apps/ucached/ucached"
    return Stage(name, group, command, needs or (f"build-{folder}",),
                 {"UCACHED": program, **(env or {})}, is_pytest=True)


def guests(name, nic=None):
    """Tests in guests; with a model of a NIC the system tests at it."""
    env = {"VM_REPORT": str(VM_REPORT)}
    if nic:
        env |= {"UCACHED_STACK": "guest", "UCACHED_NIC": nic, "PYTHONPATH": "test/vm",
                "PYTEST_PLUGINS": "guest_stack"}
    words = ["test/vm"]
    if nic:
        files = [*tests(*(f"conform_{part}" for part in AT_NIC)),
                 *(f"{SYSTEM}/test_conform_{part}" for part in AT_NIC_ONE)]
        chosen = " and ".join(f"not {part}" for part in NOT_AT_NIC)
        words = ["-k", chosen, "--sample=2", *files]
    return system(name, "all", "release", *words, env=env,
                  needs=("build-release", "vm-image"))


def tests(*names):
    return [f"{SYSTEM}/test_{name}.py" for name in names]


def without(*names):
    """All system tests but these."""
    return [SYSTEM, *(f"--ignore-glob=*/test_{name}.py" for name in names)]


# What runs over each back end of kernel sockets and of the own stack; what runs with each way to
# distribute work over threads; and what is for sanitizers: parsers, buffers, limits, endings.
BACK_END = tests("storage", "stream", "limits", "golden", "churn")
THREADING = tests("storage", "stream", "udp", "tcp_peer", "faults")
SANITIZED = tests(
    "admin_dump", "admin_limits", "admin_watch", "auth", "buffer_pool", "churn", "conform_accept",
    "conform_close", "conform_flood", "conform_fragments", "conform_ip", "conform_ip6", "dpdk_peer",
    "errors", "faults", "golden", "ip6", "limits", "log", "options", "orphans", "state_machine",
    "storage", "stream", "threading", "tls", "tcp_peer", "ucload", "ucload_latency", "ucload_udp",
    "ucping", "ucwarm", "udp", "uploads", "uring", "workers", "xdp")  # fmt: skip
# What loads links and programs: two fifths of the time of the system tests in `make check`, which
# are two stages for its sake.
LOADED = ("buffer_pool", "dpdk", "dpdk_peer", "faults", "takeover_dpdk", "tcp_peer", "ucload",
          "ucload_agents", "ucload_latency", "ucload_udp", "ucping", "ucwarm")
# What meets a NIC and its driver: frames of all sizes, fragments, checksums, IPv6, floods and full
# segments. The other conformance tests are of TCP's state and timers, the same on every link.
AT_NIC = ("fragments", "ip", "ip6", "load", "flood")
AT_NIC_ONE = ("open.py::test_syn_with_a_wrong_checksum", "open.py::test_mss_limits_segments",
              "open.py::test_segment_shorter_than_a_header", "flow.py::test_download_with_losses")
NOT_AT_NIC = ("kernel", "many_half_open", "many_idle", "after_half_open", "small_server",
              "peers_that", "limited")
# Pools of servers: programs of other projects in networks of several namespaces.
CLUSTER = ("cluster", "discovery", "kubernetes", "scale_out", "ucwarm")
CONFORM = sorted(str(path.relative_to(ROOT)) for path in (ROOT / SYSTEM).glob("test_conform_*.py"))
VALGRIND = "valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite"
NO_LONG = ("--no-suite", "long")


def stack(kind):
    return {"UCACHED_STACK": kind}


def stack_args(args):
    return {"UCACHED_STACK_ARGS": args}


STAGES = [
    Stage("lint", "check", ["make", "--no-print-directory", "lint"]),
    build("check"),
    build("release"),
    Stage("instructions", "check", [STRICT, "tools/bench_instructions.py", "build/release"],
          ("build-release",)),
    meson("unit", "check", "check", *NO_LONG),
    system("system", "check", "release", "--sample=2", "-m", "not long",
           *without("conform_*", "monitoring", "page", *LOADED)),
    system("system-loaded", "check", "release", "--sample=2", "-m", "not long", *tests(*LOADED)),
    system("conform", "check", "release", "--sample=1", "-m", "not long", "-k", "not kernel",
           *CONFORM),
    # ---- make check-all: the longest first, so that all lanes end at about the same time
    # asan-system kills these clients over each link.
    system("system-rest", "all", "release", "--rest=2", "-k", "not test_clients_killed_under_load",
           *without("conform_*", "bench", "crowds", "monitoring", "page", *CLUSTER)),
    system("packages", "all", "release", "test/packages"),
    meson("unit-long", "all", "check", "--suite", "long"),
    # One pass over the code is enough for it: not what repeats much, in the suite volume.
    meson("valgrind-unit", "all", "check", "--suite", "unit", "--suite", "fuzz",
          "--no-suite", "volume", *NO_LONG, wrap=VALGRIND, factor=40,
          env={"UCACHED_VALGRIND": "1"}),
    build("asan"),
    meson("asan-unit", "all", "asan", *NO_LONG, "--no-suite", "portability",
          "--no-suite", "tools"),
    system("asan-system", "all", "asan", "--sample=2", "-k", "not (conform and kernel)",
           *SANITIZED),
    build("tsan"),
    meson("tsan", "all", "tsan", *NO_LONG, "--suite", "stress", "--suite", "cache", "--suite",
          "net", "--suite", "nic"),
    Stage("vm-image", "", ["make", "--no-print-directory", "build/vm/ready"]),
    guests("vm-nics"),
    guests("vm-conform-igb", "igb"),
    guests("vm-conform-vmxnet3", "vmxnet3"),
    system("cluster", "all", "release", "--rest=2", *tests(*CLUSTER)),
    system("conform-all", "all", "release", *CONFORM),
    system("bench", "all", "release", "--rest=2", *tests("bench")),
    system("crowds", "all", "release", "--rest=2", *tests("crowds")),
    system("monitoring", "all", "release", *tests("monitoring", "page")),
    system("valgrind-system", "all", "check", "--sample=1", *tests("storage", "stream"),
           program=f"{SYSTEM}/under-valgrind"),
    system("tls", "all", "release", *tests("storage", "stream", "golden", "differential"),
           env={"UCACHED_TLS": "1"}),
    system("uring", "all", "release", "-k", "sock or unix", "--sample=2", *BACK_END,
           env={"UCACHED_SOCK": "uring"}),
    system("xdp", "all", "release", "-k", "tap or ucached", "--sample=2", *BACK_END,
           *tests("ip6", "takeover", "tcp_peer"), env=stack("xdp")),
    system("dpdk", "all", "release", "-k", "tap or ucached", "--sample=2", *BACK_END,
           env=stack("dpdk")),
    system("dpdk-tap", "all", "release", "-k", "tap or ucached", "--sample=2", *BACK_END,
           env=stack("dpdk-tap")),
    system("workers-2", "all", "release", "-k", "tap", "--sample=2", *THREADING,
           env=stack_args("-t 2")),
    system("workers-4", "all", "release", "-k", "tap", "--sample=2", *THREADING,
           env=stack_args("-t 4 --queues=1")),
    system("merge", "all", "release", "-k", "tap", "--sample=2", *THREADING,
           env=stack_args("--threading=merge")),
    system("split", "all", "release", "-k", "tap", "--sample=2", *THREADING,
           env=stack_args("--threading=split")),
]  # fmt: skip


# ---- one stage ----------------------------------------------------------------------------------


CMOCKA_FAILURE = re.compile(r"\[  ERROR   \]|\[   LINE   \]")


@dataclasses.dataclass
class FailedTest:
    name: str
    why: str
    command: list[str]  # runs it alone


def execute(command, env, log, limit_s):
    """Runs a command with its output in a file.

    Returns its status, 124 after a timeout, and the seconds of CPU that it and those of its
    descendants took that it waited for.
    """
    if ENDING.is_set():
        return ENDED, 0.0
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **env}, stdout=log,
                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                               start_new_session=True)
    RUNNING.add(process.pid)
    deadline = time.monotonic() + limit_s
    timed_out = False
    try:
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            if not timed_out and time.monotonic() > deadline:
                timed_out = True
                log.write(f"\ncheck: ended after {limit_s} s\n".encode())
                end_group(process.pid)
            time.sleep(POLL_S)
    finally:
        end_group(process.pid)
        RUNNING.discard(process.pid)
    _, status, usage = ended
    process.returncode = os.waitstatus_to_exitcode(status)
    return 124 if timed_out else process.returncode, usage.ru_utime + usage.ru_stime


RUNNING: set[int] = set()  # process groups
ENDING = threading.Event()


def end_group(group, number=signal.SIGKILL):
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass


def end_all():
    """Ends what runs. Programs that Meson has put into sessions of their own are ended by Meson."""
    ENDING.set()
    for group in list(RUNNING):
        end_group(group, signal.SIGTERM)
    deadline = time.monotonic() + ENDING_S
    while RUNNING and time.monotonic() < deadline:
        time.sleep(POLL_S)
    for group in list(RUNNING):
        end_group(group)


def run_stage(stage):
    begin = time.monotonic()
    with open(stage.log, "wb") as log:
        status, stage.cpu_s = execute(stage.command, stage.env, log, stage.limit_s)
        stage.result = "passed" if status == 0 else "FAILED"
        failed = read_results(stage)
        if status != 0 and len(failed) <= AGAIN_MAX:
            for test in failed:
                log.write(f"\ncheck: once more alone: {test.name}\n".encode())
                log.flush()
                again, _ = execute(test.command, stage.env, log, stage.limit_s)
                (stage.broken if again else stage.flaky).append(f"{test.name}: {test.why}")
        elif status != 0:
            stage.broken += [f"{test.name}: {test.why}" for test in failed]
    if status != 0 and not failed:
        why = last_words(stage.log.read_text(errors="replace"))
        stage.broken.append(f"status {status}: {why}")
    stage.seconds = time.monotonic() - begin


def last_words(text):
    """The last lines of an output, in one line. Of cmocka's, those about failed assertions."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    failures = [line[12:].lstrip(" -") for line in lines if CMOCKA_FAILURE.match(line)]
    return in_one_line((failures or lines)[-WHY_LINES:])


def in_one_line(lines):
    return " | ".join(lines)[:WHY_MAX]


def read_results(stage):
    """Notes how long the tests of a stage took. Returns those that failed."""
    if stage.is_pytest:
        return read_junit(stage)
    if stage.build:
        return read_meson(stage)
    return []


def read_junit(stage):
    path = Path(f"{LOGS / stage.name}.xml")
    if not path.exists():
        return []
    head = stage.command[: stage.command.index("-rfE") + 1]
    failed = []
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        name = f"{(case.get('classname') or '').replace('.', '/')}.py::{case.get('name')}"
        stage.durations.append((float(case.get("time", 0)), name))
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(FailedTest(name, message(case), [*head, name]))
    return failed


def message(case):
    """What pytest says first about the failure of a test or an error of its fixtures."""
    part = case.find("error") if case.find("failure") is None else case.find("failure")
    return in_one_line((part.get("message") or "").splitlines()[:WHY_LINES])


def read_meson(stage):
    # Meson adds the name of the wrapper to that of the log.
    path = ROOT / "build" / stage.build / "meson-logs" / f"{stage.name}-{Path(STRICT).name}.json"
    if not path.exists():
        return []
    head = list(stage.command)
    head[head.index("--logbase") + 1] = f"{stage.name}-again"
    head = head[: head.index("--wrap") + 2]
    failed = []
    for line in path.read_text().splitlines():
        case = json.loads(line)
        name = case["name"].partition(" / ")[2]
        stage.durations.append((case["duration"], name))
        if case["result"] not in ("OK", "SKIP", "EXPECTEDFAIL"):
            output = case.get("stdout", "") + case.get("stderr", "")
            why = f"{case['result'].lower()}: {last_words(output)}"
            failed.append(FailedTest(name, why, [*head, name]))
    return failed


# ---- all of them --------------------------------------------------------------------------------


def chosen_stages(words):
    """The stages with these names or groups and the builds that they need, in the table's order."""
    names = {stage.name for stage in STAGES if stage.group in words or stage.name in words}
    if unknown := set(words) - {"check", "all"} - names:
        sys.exit(f"check: no stage {', '.join(sorted(unknown))}; see tools/check.py --list")
    for stage in STAGES:
        if stage.name in names:
            names |= set(stage.needs)
    return [stage for stage in STAGES if stage.name in names]


class Run:
    """Runs stages, LANES at a time."""

    def __init__(self, stages):
        self.stages = stages
        self.by_name = {stage.name: stage for stage in stages}
        self.changed = threading.Condition()
        self.begin = time.monotonic()

    def say(self, text):
        print(f"[{clock(time.monotonic() - self.begin)}] {text}", flush=True)

    def next_stage(self):
        """The first stage that can start now. None: none can now; sets what cannot start at all."""
        for stage in self.stages:
            if stage.result != "not run":
                continue
            needed = [self.by_name[name].result for name in stage.needs]
            if any(result in ("FAILED", "left out") for result in needed):
                stage.result = "left out"
                self.say(f"{stage.name}: left out, {' '.join(stage.needs)} failed")
            elif all(result == "passed" for result in needed):
                return stage
        return None

    def lane(self):
        while True:
            with self.changed:
                while not (stage := self.next_stage()):
                    if not any(other.result == "not run" for other in self.stages):
                        self.changed.notify_all()
                        return
                    self.changed.wait(1)
                stage.result = "running"
                self.say(f"{stage.name}: begins")
            try:
                run_stage(stage)
            except Exception as error:  # shown as the stage's failure, whatever it is
                stage.result = "FAILED"
                stage.broken.append(repr(error))
            with self.changed:
                self.say(f"{stage.name}: {stage.result} after {clock(stage.seconds)}")
                if stage.result == "FAILED":
                    print(tail(stage.log), flush=True)
                self.changed.notify_all()

    def run(self):
        lanes = [threading.Thread(target=self.lane, daemon=True) for _ in range(LANES)]
        for lane in lanes:
            lane.start()
        said = time.monotonic()
        while any(lane.is_alive() for lane in lanes):
            for lane in lanes:
                lane.join(0.2)
            if time.monotonic() - said > PROGRESS_S:
                said = time.monotonic()
                now = [f"{s.name} {progress(s)}" for s in self.stages if s.result == "running"]
                self.say("running: " + ", ".join(now))
        return all(stage.result == "passed" for stage in self.stages)


def clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def tail(path):
    lines = path.read_text(errors="replace").splitlines()[-TAIL_LINES:]
    return "\n".join(["    " + line for line in lines] + [f"    (all of it: {path})"])


def progress(stage):
    """How far a stage is, from the last words of its log that say so."""
    text = stage.log.read_text(errors="replace")[-4000:] if stage.log.exists() else ""
    found = re.findall(r"\[ *(\d+%|\d+/\d+)\]|^ *(\d+/\d+) ", text, re.MULTILINE)
    return "".join(found[-1]) if found else ""


def summary(run):
    lines = ["", f"{'stage':<18} {'result':<10} {'time':>6} {'CPU':>6}"]
    for stage in run.stages:
        lines.append(f"{stage.name:<18} {stage.result:<10} {clock(stage.seconds):>6} "
                     f"{clock(stage.cpu_s):>6}")
    slowest = sorted(((s, f"{stage.name}: {name}") for stage in run.stages
                      for s, name in stage.durations), reverse=True)[:SLOWEST]  # fmt: skip
    if slowest:
        lines += ["slowest tests:"] + [f"  {s:6.1f} s  {name}" for s, name in slowest]
    if VM_REPORT.exists():
        table = [sys.executable, "test/vm/report.py", str(VM_REPORT)]
        lines += ["", subprocess.run(table, cwd=ROOT, capture_output=True, text=True).stdout]
    return "\n".join(lines + failures(run))


def failures(run):
    """What failed, at the very end of the output: logs that are cut off keep it."""
    lines = []
    for stage in run.stages:
        if stage.result in ("FAILED", "left out"):
            lines.append(f"{stage.result}: {stage.name}")
            lines += [f"  flaky: {name}" for name in stage.flaky]
            lines += [f"  broken: {name}" for name in stage.broken]
    return ["", *lines] if lines else []


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", default=["check"])
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        for stage in STAGES:
            env = " ".join(f"{name}={shlex.quote(value)}" for name, value in stage.env.items())
            print(f"{stage.name} ({stage.group or 'needed'}): {env} {shlex.join(stage.command)}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))
    LOGS.mkdir(parents=True, exist_ok=True)
    for left in LOGS.iterdir():
        left.unlink()
    run = Run(chosen_stages(arguments.stages))
    try:
        passed = run.run()
    finally:
        end_all()
    text = summary(run)
    print(text)
    (LOGS / "summary.txt").write_text(text + "\n")
    print(f"check: {'all passed' if passed else 'FAILED'} after "
          f"{clock(time.monotonic() - run.begin)}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
