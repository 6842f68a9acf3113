# SPDX-License-Identifier: BSD-3-Clause
"""What the suites of `make bench` share: cores, servers as processes, rounds, rows.

Cases that are compared take turns within one run: each round measures every case once, and starts
the server of a case for it and stops it afterwards. So a slow minute of the machine, or a server
that polls, affects all cases alike. The value of a case is the median of its rounds.

A run cleans up: its processes end with it even if it is killed, its mounts are private, and closing
Bench.stack undoes all other changes.
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test" / "system"))

import netspace  # noqa: E402
import veth  # noqa: E402

ROUNDS = max(1, int(os.environ.get("BENCH_ROUNDS", "5")))
SECONDS = float(os.environ.get("BENCH_SECONDS", "1"))

START_TIMEOUT = 15
START_SECONDS = 0.7  # about: to start and stop a server and its client
CONNECTIONS = 32
LINK_ADDRESS, LINK_PORT = "10.100.0.20", 11211  # of a server on its own stack
HUGE_PAGE_BYTES = 2 << 20
HUGE_PAGES = 256 + 512  # for two programs on DPDK, and for the items of a server with -L
HUGE_PAGES_SHARE = 4  # at most the free memory divided by this


class Skip(Exception):
    """A suite, or a case of it, cannot run here; the message says why."""


def free_bytes():
    """Memory that is available to programs."""
    return int(re.search(r"MemAvailable:\s+(\d+) kB",
                         pathlib.Path("/proc/meminfo").read_text())[1]) * 1024


def words(command):
    """A command as a line for a shell."""
    return shlex.join(map(str, command))


def typed(command, cpus):
    """The same with programs found in the path, pinned to these processors."""
    return words(["taskset", "-c", ",".join(map(str, cpus)), pathlib.Path(command[0]).name,
                  *command[1:]])


def seconds_of(measurements, share=1.0, rounds=None):
    """Expected time of this many measurements of `share` * SECONDS each, in all rounds."""
    return measurements * (rounds or ROUNDS) * (START_SECONDS + share * SECONDS)


def times(ratio):
    """A ratio as text with two significant digits at least."""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def stopped(results):
    """
    For how long the machine stood still, according to the threads of ucload that watch the cores:
    the share of the time, and the longest stop of all rounds. Hosts stop virtual machines.
    """
    return {"stopped_share": statistics.median(
                r["hiccups"]["worst_core_us"] / (max(r["seconds"], 1e-3) * 1e6)
                for r in results),
            "stopped_longest_us": max(r["hiccups"]["longest_us"] for r in results)}


class Progress:
    """How long the run still takes, from the times that the suites expect."""

    LIMIT = 29 * 60  # seconds: `make bench` takes half an hour unless longer rounds are set

    def __init__(self, expected):
        self.expected = dict(expected)  # suite -> seconds; those that are still to come
        self.begun = self.due = time.monotonic()
        self.limit = self.begun + max(self.LIMIT, 1.1 * sum(self.expected.values()))
        self.shown = 0.0

    @staticmethod
    def text(seconds):
        return f"{int(seconds) // 60}:{int(seconds) % 60:02}"

    def left(self):
        """Expected seconds to the end of the run."""
        return max(0.0, self.due - time.monotonic()) + sum(self.expected.values())

    @contextlib.contextmanager
    def suite(self, name):
        seconds = self.expected.pop(name)
        begun = time.monotonic()
        self.due = begun + seconds
        print(f"suite {name}: about {self.text(seconds)}; about {self.text(self.left())} to the "
              "end", flush=True)
        yield
        self.due = time.monotonic()
        self.clear()
        print(f"suite {name} took {self.text(self.due - begun)}", flush=True)

    def time_left(self):
        """Seconds left for this suite if the later suites take the time that they expect."""
        return self.limit - time.monotonic() - sum(self.expected.values())

    def out_of_time(self):
        """Whether this suite has to stop after the rounds that it has."""
        return self.time_left() < 0

    def show(self, what):
        """Prints a line of progress: in place on a terminal, else twice a minute."""
        now = time.monotonic()
        line = f"  {what}; about {self.text(self.left())} left"
        if sys.stdout.isatty():
            print(f"\r{line:78}", end="", flush=True)
        elif now - self.shown > 30:
            self.shown = now
            print(line, flush=True)

    @staticmethod
    def clear():
        if sys.stdout.isatty():
            print(f"\r{'':78}\r", end="", flush=True)


class Rows:
    """Measured rows, and cases that were skipped."""

    def __init__(self):
        self.rows = []
        self.skipped = []

    def add(self, suite, case, values, unit, command=None, compared_to=None, lower_is_better=False,
            stopped=None):
        """
        One row; compared_to: name -> value. Ratios above 1 are in favour of the row. stopped: the
        result of stopped() for its measurements.
        """
        value = statistics.median(values)
        compared_to = {name: other for name, other in (compared_to or {}).items() if other}
        ratio = {name: (other / value if lower_is_better else value / other)
                 for name, other in compared_to.items() if value}
        row = {"suite": suite, "case": case, "value": value, "unit": unit,
               "median_of": len(values), "compared_to": compared_to, "ratio": ratio,
               "lowest": min(values), "highest": max(values)}
        if command:
            row["command"] = command
        row |= stopped or {}
        self.rows.append(row)
        Progress.clear()
        beside = "".join(f"  {times(ratio[name])} x {name}" for name in ratio)
        print(f"  {case:34} {value:14.6g} {unit}{beside}", flush=True)
        return value

    def skip(self, suite, what, why):
        self.skipped.append({"suite": suite, "what": what, "why": str(why)})
        Progress.clear()
        print(f"  {what}: skipped: {why}", flush=True)


class Signals:
    """
    The first SIGINT, SIGTERM or SIGHUP ends the run in order, later ones are ignored, so that they
    cannot interrupt the cleaning up. hold() delays them while a resource is made and registered.
    """

    def __init__(self):
        self.held = 0
        self.waiting = None

    def install(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._come)

    def _come(self, number, frame):
        if self.held:
            self.waiting = number
        else:
            self._end(number)

    @staticmethod
    def _end(number):
        for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(other, signal.SIG_IGN)
        sys.exit(128 + number)

    @contextlib.contextmanager
    def hold(self):
        self.held += 1
        try:
            yield
        finally:
            self.held -= 1
            if self.waiting and not self.held:
                self._end(self.waiting)


class Server:
    """
    A running server under test. `address` is for a client in `space`; `typed` is the command line
    that starts it.
    """

    def __init__(self, process, space, address, client_link, typed_command):
        self.process, self.space, self.address = process, space, address
        self.client_link, self.typed = client_link, typed_command


class Bench:
    """The programs, the cores, and the resources to clean up."""

    def __init__(self, build, rows, progress):
        self.build = pathlib.Path(build).resolve()
        self.rows = rows
        self.progress = progress
        self.signals = Signals()
        self.signals.install()
        cpus = sorted(os.sched_getaffinity(0))
        half = max(1, len(cpus) // 2)
        self.server_cpus, self.client_cpus = cpus[:half], cpus[half:] or cpus
        if path := os.environ.get("MEMCACHED"):  # kvbench looks for it in the path as well
            os.environ["PATH"] = f"{pathlib.Path(path).resolve().parent}:{os.environ['PATH']}"
        self.memcached = path or shutil.which("memcached")
        self.other = os.environ.get("SERVER_CMD")
        self.bypass = os.environ.get("RIVAL_CMD")
        self.stack = contextlib.ExitStack()
        self.processes = set()
        with self.signals.hold():
            self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ucached-bench-"))
            self.stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.sockets = 0
        self.huge = 0

    def __enter__(self):
        self.stack.__enter__()
        try:
            self.stack.callback(self.stop_all)
            self.tap_obstacle = netspace.why_not()
            self.dpdk_obstacle = self._dpdk_obstacle()
            self.huge = self.huge_pages()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *why):
        self.progress.clear()
        return self.stack.__exit__(*why)

    def program(self, name):
        folder = "bench" if name == "responder" else f"apps/{name}"
        path = self.build / folder / name
        if not path.exists():
            raise Skip(f"{name} is not built here")
        return str(path)

    def _dpdk_obstacle(self):
        probe = subprocess.run([self.program("ucached"), "--io=dpdk", "--dev=net_null0", "--mtu=1"],
                               capture_output=True, text=True, check=False)
        return "DPDK is not in this build" if "not in this build" in probe.stderr else None

    def dpdk_prefix(self, number):
        """A prefix of the names of DPDK's files for one process; the files go when the run ends."""
        prefix = f"{self.folder.name}-{number}"
        self.stack.callback(shutil.rmtree, f"/var/run/dpdk/{prefix}", ignore_errors=True)
        return prefix

    # ---- huge pages ------------------------------------------------------------------------

    def huge_pages(self):
        """
        Reserves some for the run and mounts them, where that is possible. Returns how many DPDK can
        find.
        """
        path = pathlib.Path("/proc/sys/vm/nr_hugepages")
        try:
            before = int(path.read_text())
            wanted = min(HUGE_PAGES, free_bytes() // HUGE_PAGES_SHARE // HUGE_PAGE_BYTES)
            if before < wanted:
                with self.signals.hold():
                    path.write_text(f"{wanted}\n")
                    self.stack.callback(path.write_text, f"{before}\n")
            if "hugetlbfs" not in pathlib.Path("/proc/mounts").read_text():
                folder = self.folder / "huge"
                folder.mkdir()
                netspace.private_mounts()
                subprocess.run(["mount", "-t", "hugetlbfs", "none", folder], check=True,
                               capture_output=True)
                self.stack.callback(subprocess.run, ["umount", folder], check=False)
            return int(path.read_text())
        except (OSError, subprocess.CalledProcessError):
            return 0

    # ---- processes -------------------------------------------------------------------------

    def start(self, command, space, cpus, stdout, stderr=subprocess.STDOUT, **how):
        """A process on these processors that ends with the run, even if the run is killed."""
        command = [*space.entry, "taskset", "-c", ",".join(map(str, cpus)), "setpriv",
                   "--pdeathsig", "KILL", *map(str, command)]
        with self.signals.hold():
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout,
                                       stderr=stderr, start_new_session=True, **how)
            self.processes.add(process)
        return process

    def stop(self, process):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
        self.processes.discard(process)

    def stop_all(self):
        for process in list(self.processes):
            self.stop(process)

    def run(self, command, space=None, cpus=None, timeout=120, ok=(0,), which="stdout"):
        """Standard output, or the error stream, of a client that has to succeed."""
        process = self.start(command, space or netspace.HostSpace(), cpus or self.client_cpus,
                             subprocess.PIPE, subprocess.PIPE, text=True)
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            self.stop(process)
            process.stdout.close()
            process.stderr.close()
        if process.returncode not in ok:
            raise RuntimeError(f"{words(command)} ended with {process.returncode}: "
                               f"{(err or out).strip()[-500:]}")
        return out if which == "stdout" else err

    # ---- servers ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def running(self, command, address, link=(), space=None, cpus=None, socket_path=None):
        """
        A server within a `with`, which begins once the server listens, or has made socket_path.
        """
        own_space = space is None
        space = space or netspace.HostSpace()
        cpus = cpus or self.server_cpus[:1]
        log = self.folder / "server.log"
        with open(log, "wb") as to:
            process = self.start(command, space, cpus, to)
        try:
            self._wait(process, space, None if link else address, log, command, socket_path)
            yield Server(process, space, f"{address[0]}:{address[1]}", list(link),
                         typed(command, cpus))
        finally:
            self.stop(process)
            if not own_space:
                space.close()

    @staticmethod
    def _wait(process, space, address, log, command, socket_path):
        end = time.monotonic() + START_TIMEOUT

        def answers():
            with contextlib.suppress(OSError), socket.create_connection(address, 0.2):
                return True
            return False

        while time.monotonic() < end:
            if process.poll() is not None:
                break
            if "listening on" in log.read_text(errors="replace"):
                return
            if socket_path and socket_path.exists():
                return
            if address and space.run(answers):
                return
            time.sleep(0.02)
        raise RuntimeError(f"{words(command)} does not start: {log.read_text()[-300:]}")

    @staticmethod
    def free_port():
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            return sock.getsockname()[1]

    def sock_server(self, kind, threads=1, memory=1024, more=()):
        """A server on kernel sockets: "memcached", "ucached" or "other" ($SERVER_CMD)."""
        port = self.free_port()
        cpus = self.server_cpus[:threads]
        if kind == "memcached":
            if not self.memcached:
                raise Skip("memcached is not installed")
            command = [self.memcached, "-l", "127.0.0.1", "-U", "0", "-c", "4096"]
            command += ["-u", "root"] if os.geteuid() == 0 else []
        elif kind == "other":
            text = self.other.replace("{port}", str(port)).replace("{threads}", str(threads))
            return self.running(shlex.split(text), ("127.0.0.1", port), cpus=cpus)
        else:
            command = [self.program("ucached"), "--io=sock", "-l", "127.0.0.1", "-c", "4096"]
        command += ["-p", str(port), "-t", str(threads), "-m", str(memory), "-I", "8m", *more]
        return self.running(command, ("127.0.0.1", port), cpus=cpus)

    def tap_server(self, program="ucached", more=(), cpus=None):
        """A server on its own stack over TAP; the client uses kernel sockets at the other end."""
        if self.tap_obstacle:
            raise Skip(self.tap_obstacle)
        if program == "ucping":
            command, port = [self.program(program), "--listen", "--io=tap"], 7007
        else:
            command, port = [self.program(program), "--io=tap", "-m", "1024", "-I", "8m"], LINK_PORT
        return self.running([*command, *more], (LINK_ADDRESS, port), space=netspace.NetSpace(),
                            cpus=cpus)

    def link_path(self, kind):
        """The socket of the current link."""
        return self.folder / f"{kind}-{self.sockets}.sock"

    def link(self, kind, csum=False):
        """
        The two ends of a software link: options of the server and of the client. Over vhost,
        checksums of small frames cost less than leaving them out does in its driver: `csum` is for
        large frames, and allows TCP segmentation offload as well.
        """
        if self.dpdk_obstacle:
            raise Skip(self.dpdk_obstacle)
        self.sockets += 1
        path = self.link_path(kind)
        server_cpu, client_cpu = self.server_cpus[0], self.client_cpus[0]
        if kind == "memif":
            ends = [f"net_memif0,role={role},socket={path},socket-abstract=no"
                    for role in ("server", "client")]
        else:
            # Where frames fit into one buffer each, a driver that knows so is faster.
            ends = [f"net_vhost0,iface={path}" + (",tso=1" if csum else ""),
                    f"net_virtio_user0,path={path}" +
                    ("" if csum else ",mrg_rxbuf=0,in_order=1,vectorized=1")]
        without = ["--without=csum"] if kind == "vhost" and not csum else []
        return [["--io=dpdk", f"--dev={dev}", f"--eal=-l {cpu}", *without]
                for dev, cpu in zip(ends, (server_cpu, client_cpu))]

    def link_server(self, kind, program="ucached", more=(), csum=False, cpus=None):
        """A server on its own stack over memif or vhost, for a client on its own stack."""
        server, client = self.link(kind, csum)
        if program == "ucping":
            command, port = [self.program(program), "--listen", "--poll"], 7007
        elif program == "responder":
            command, port = [self.program(program)], LINK_PORT
        else:
            command, port = [self.program(program), "-m", "1024", "-I", "8m"], LINK_PORT
        return self.running([*command, *server, *more], (LINK_ADDRESS, port),
                            link=[*client, "--poll"], cpus=cpus)

    def bypass_server(self):
        """Another server on a user-space stack, $RIVAL_CMD, as the back end of a vhost link."""
        _, client = self.link("vhost")
        path = self.link_path("vhost")
        values = {"socket": path, "cpu": self.server_cpus[0], "prefix": self.dpdk_prefix("other"),
                  "address": LINK_ADDRESS, "port": LINK_PORT}
        command = [word.format(**values) for word in shlex.split(self.bypass)]
        return self.running(command, (LINK_ADDRESS, LINK_PORT), link=[*client, "--poll"],
                            socket_path=path)

    @contextlib.contextmanager
    def veth_server(self, kind, more=()):
        """memcached on the kernel's TCP or ucached by AF_XDP, at one end of a veth pair."""
        if self.tap_obstacle:
            raise Skip(self.tap_obstacle)
        if kind == "memcached" and not self.memcached:
            raise Skip("memcached is not installed")
        link = veth.Link([f"{LINK_ADDRESS}/24"], ["10.100.0.10/24"])
        try:
            if kind == "memcached":
                command = [self.memcached, "-l", LINK_ADDRESS, "-U", "0", "-t", "1", "-m", "1024"]
                command += ["-u", "root"] if os.geteuid() == 0 else []
            else:
                command = [self.program("ucached"), "--io=xdp", f"--dev={veth.SERVER_DEVICE}",
                           "-m", "1024", *more]
            with self.running(command, (LINK_ADDRESS, LINK_PORT), space=link.server) as server:
                yield Server(server.process, link.client, server.address, [], server.typed)
        finally:
            link.close()

    # ---- clients ---------------------------------------------------------------------------

    def both(self, server, command):
        """The command lines of server and client."""
        return f"{server.typed} & {typed(command, self.client_cpus)}"

    def load(self, server, *args, seconds=None, ok=(0,)):
        """
        The JSON of ucload as a dictionary, and its command. No reply at all is a failure, which the
        report names: a server that stalls is not measured again until it works.
        """
        command = [self.program("ucload"), f"--server={server.address}", "--json",
                   f"--connections={CONNECTIONS}", f"--time={seconds or SECONDS}", "--warmup=0.1",
                   *server.client_link, *map(str, args)]
        result = json.loads(self.run(command, server.space, ok=ok))
        if result["requests"] == 0:
            raise RuntimeError(f"no reply in {seconds or SECONDS} s: {words(command)}")
        result["command"] = self.both(server, command)
        return result

    def ping(self, server, *args, seconds=None):
        command = [self.program("ucping"), "--json", f"--time={seconds or SECONDS}",
                   *server.client_link, *map(str, args), server.address]
        result = json.loads(self.run(command, server.space))
        result["command"] = self.both(server, command)
        return result

    # ---- rounds ----------------------------------------------------------------------------

    def rounds(self, suite, cases, count=None):
        """
        cases: name -> function that measures once and returns a dictionary. Returns name -> list of
        these, one for each round; a case that cannot run is reported and left out.
        """
        results = {name: [] for name in cases}
        count = count or ROUNDS
        for number in range(count):
            if number > 0 and self.progress.out_of_time():
                self.rows.skip(suite, f"rounds after {number} of {', '.join(results)}",
                               "this machine is slower than planned for")
                break
            for name in list(results):
                self.progress.show(f"{suite}, round {number + 1} of {count}: {name}")
                try:
                    results[name].append(cases[name]())
                except Skip as why:
                    self.rows.skip(suite, name, why)
                    del results[name]
                except (RuntimeError, subprocess.TimeoutExpired) as failure:
                    self.rows.skip(suite, name, f"failed: {failure}")
                    del results[name]
        return results


def versions(bench):
    """Name -> version of each program."""
    found = {}
    for name, command in (("project", [bench.program("ucload"), "--version"]),
                          ("ucached says", [bench.program("ucached"), "--version"]),
                          ("memcached", [bench.memcached or "memcached", "--version"]),
                          ("kernel", ["uname", "-sr"]), ("compiler", ["cc", "--version"]),
                          ("dpdk", ["pkg-config", "--modversion", "libdpdk"])):
        with contextlib.suppress(OSError):
            out = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            if out:
                found[name] = re.sub(r"\s+", " ", out.splitlines()[0])
    if bench.bypass:
        found["bypass"] = bench.bypass
    with contextlib.suppress(OSError):
        out = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"],
                             capture_output=True, text=True, check=False).stdout.strip()
        found["commit"] = out or "unknown"
    return found
