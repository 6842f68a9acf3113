# SPDX-License-Identifier: BSD-3-Clause
"""Limits of a server and how near it comes to them: echoes, then GETs, on kernel and own stack.

GET: text protocol, 1000 keys, keys and values of 8 bytes, 32 connections, one request in flight on
each, one core serves and one loads.

pingpong_*: ucping, 16 bytes; pingpong_own is over vhost. frame_limit_*: two testpmd, 32 frames.
get_*: ucached over that link; bypass_vhost: the server of $RIVAL_CMD over vhost; sock_depth1 and
memcached: kernel sockets. *_depth16: 16 requests in flight. load_limit_*: the load of get_* on a
server that looks nothing up. *_cycles and *cycles_per_get: busy time-stamp counter ticks per
request, of the server's core, or of ucload's (load_cycles_per_get, load_limit_*_cycles).
"""

import itertools
import os
import pathlib
import re
import shutil
import socket
import time

import harness
from harness import Skip

SUITE = "stack"

STARTS_WITHIN = 10  # seconds, for testpmd

KEYS = 1000
# Values of the requests by which clients are compared. With small ones either client may be the
# bound. To send large ones takes the kernel longer than to receive them, so the server is.
AGREEMENT = {"": 64, "_16k": 16384}
MEMCASLAP_SECONDS = 2  # what it takes to start and end, beyond its time


def expected():
    cores = harness.seconds_of(8) if len(os.sched_getaffinity(0)) > 3 else 0
    echoes = 2 * harness.ROUNDS * (3 + harness.SECONDS)
    pairs = len(AGREEMENT) * (harness.seconds_of(2) + harness.ROUNDS * MEMCASLAP_SECONDS)
    pairs = pairs if shutil.which("memcaslap") else 0
    return harness.seconds_of(13 + ("RIVAL_CMD" in os.environ)) + echoes + cores + pairs


def frame_rates(log):
    """The rates above 0 in the log of testpmd, one a second."""
    return [int(rate) for rate in re.findall(r"Rx-pps:\s+([1-9]\d*)", log.read_text())]


def frame_echo(bench, kind):
    """Two testpmd that send 32 frames back and forth: nothing but the link."""
    testpmd = shutil.which("dpdk-testpmd")
    if not testpmd:
        raise Skip("dpdk-testpmd is not installed")
    ends = [options[1].removeprefix("--dev=") for options in bench.link(kind)]
    cpus = bench.server_cpus[0], bench.client_cpus[0]
    if cpus[0] == cpus[1]:
        raise Skip("needs two cores")
    huge = ["-m", "128", "--single-file-segments"] if bench.huge else ["--no-huge", "-m", "256"]
    started, logs, typed = [], [], []
    try:
        for i, (dev, cpu) in enumerate(zip(ends, cpus)):
            # The main thread of testpmd sleeps; it may share the other core.
            command = [testpmd, "--no-pci", *huge, f"--file-prefix={bench.dpdk_prefix(i)}",
                       "--lcores", f"{100 + i}@({cpus[0]},{cpus[1]}),{i}@{cpu}",
                       "--main-lcore", str(100 + i), "--vdev", dev, "--",
                       "--forward-mode=macswap", "--total-num-mbufs=16384", "--nb-cores=1",
                       "--stats-period=1", *(["--tx-first"] if i else [])]
            typed.append(harness.typed(command, cpus))
            logs.append(bench.folder / f"testpmd{i}.log")
            with open(logs[i], "wb") as to:
                started.append(bench.start(command, harness.netspace.HostSpace(), cpus, to))
            time.sleep(1.0)
        end = time.monotonic() + STARTS_WITHIN
        while time.monotonic() < end and not frame_rates(logs[1]):
            time.sleep(0.1)
        time.sleep(harness.SECONDS + 1)
    finally:
        for process in reversed(started):
            bench.stop(process)
    rates = frame_rates(logs[1])
    if not rates:
        raise Skip(f"no frames came back: {logs[1].read_text().strip()[-200:]}")
    return {"rate": max(rates), "command": " & ".join(typed)}


def ping(bench, open_server):
    with open_server() as server:
        result = bench.ping(server, "-c32", "-b16")
    return {"rate": result["rounds_per_second"], "command": result["command"]}


def sock_ping_server(bench):
    port = bench.free_port()
    return bench.running([bench.program("ucping"), "--listen", f"127.0.0.1:{port}"],
                         ("127.0.0.1", port))


def cpu_times(server):
    """Processor time of a server so far, in ticks: (user, system)."""
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]), int(fields[12])


def get(bench, open_server, *args):
    with open_server() as server:
        before = cpu_times(server)
        result = bench.load(server, *args)
        own, kernel = (after - start for after, start in zip(cpu_times(server), before))
    return {"rate": result["requests_per_second"], "command": result["command"],
            "kernel_share": kernel / max(1, own + kernel),
            "cycles": result.get("server_cycles_per_request"),
            "load_cycles": result.get("own_cycles_per_request")}


def bounds(bench):
    kinds = {
        "pingpong_kernel": lambda: ping(bench, lambda: sock_ping_server(bench)),
        "pingpong_tap": lambda: ping(bench, lambda: bench.tap_server("ucping")),
        "pingpong_memif": lambda: ping(bench, lambda: bench.link_server("memif", "ucping")),
        "pingpong_own": lambda: ping(bench, lambda: bench.link_server("vhost", "ucping")),
        "frame_limit_memif": lambda: frame_echo(bench, "memif"),
        "frame_limit_vhost": lambda: frame_echo(bench, "vhost"),
    }
    medians = {}
    for name, results in bench.rounds(SUITE, kinds).items():
        kernel = medians.get("pingpong_kernel") if name.startswith("pingpong") else None
        medians[name] = bench.rows.add(SUITE, name, [r["rate"] for r in results], "1/s",
                                       results[-1]["command"], {"pingpong_kernel": kernel})
    return medians


def load_limit(bench, kind):
    """The highest rate of ucload, measured with a server that looks nothing up."""
    return get(bench, lambda: bench.link_server(kind, "responder"), "--server-cycles",
               "--no-preload")


def gets(bench, limits):
    kinds = {"memcached": lambda: get(bench, lambda: bench.sock_server("memcached"))}
    if bench.other:
        kinds["other"] = lambda: get(bench, lambda: bench.sock_server("other"))
    if bench.bypass:
        kinds["bypass_vhost"] = lambda: get(bench, bench.bypass_server)
    kinds |= {
        "sock_depth1": lambda: get(bench, lambda: bench.sock_server("ucached")),
        "get_tap": lambda: get(bench, bench.tap_server),
        "get_memif": lambda: get(bench, lambda: bench.link_server("memif"), "--server-cycles"),
        "get_vhost": lambda: get(bench, lambda: bench.link_server("vhost"), "--server-cycles"),
        "load_limit_memif": lambda: load_limit(bench, "memif"),
        "load_limit_vhost": lambda: load_limit(bench, "vhost"),
    }
    medians = {}
    found = bench.rounds(SUITE, kinds)
    for name, results in found.items():
        beside = {k: medians[k] for k in ("memcached", "other", "bypass_vhost") if k in medians}
        kind = name.removeprefix("get_")
        if name.startswith("load_limit_"):
            beside = {"ucached": medians.get(name.replace("load_limit", "get"))}
        if f"frame_limit_{kind}" in limits:
            beside["frame_limit"] = limits[f"frame_limit_{kind}"]
        bound = {"vhost": "pingpong_own", "sock_depth1": "pingpong_kernel"}.get(
            kind, f"pingpong_{kind}")
        if bound in limits:
            beside["pingpong"] = limits[bound]
        medians[name] = bench.rows.add(SUITE, name, [r["rate"] for r in results], "1/s",
                                       results[-1]["command"], beside)
    where_the_time_goes(bench, found)


def where_the_time_goes(bench, found):
    """The share of the kernel, and cycles per GET on the own stack."""
    for name in ("memcached", "sock_depth1"):
        if found.get(name):
            bench.rows.add(SUITE, f"{name}_kernel_share", [r["kernel_share"] for r in found[name]],
                           "share of the server's time", found[name][-1]["command"])
    for kind, suffix in (("vhost", ""), ("memif", "_memif")):
        server = cycles(bench, found, f"get_{kind}", "cycles", f"cycles_per_get{suffix}", None)
        for case, key, name in (
                (f"get_{kind}", "load_cycles", f"load_cycles_per_get{suffix}"),
                (f"load_limit_{kind}", "load_cycles", f"load_limit_{kind}_cycles"),
                (f"load_limit_{kind}", "cycles", f"load_limit_{kind}_server_cycles")):
            cycles(bench, found, case, key, name, server)


def cycles(bench, found, case, key, name, server):
    """A row of busy cycles per request, beside those of ucached."""
    if not found.get(case):
        return None
    return bench.rows.add(SUITE, name, [r[key] for r in found[case]], "cycles",
                          found[case][-1]["command"], {"ucached": server}, lower_is_better=True)


def pipelined(bench):
    kinds = {"memcached_depth16": "memcached", "sock_depth16": "ucached"}
    kinds = {name: (lambda s=server: get(bench, lambda: bench.sock_server(s), "-d16"))
             for name, server in kinds.items()}
    medians = {}
    for name, results in bench.rounds(SUITE, kinds).items():
        beside = {"memcached": medians.get("memcached_depth16")}
        medians[name] = bench.rows.add(SUITE, name, [r["rate"] for r in results], "1/s",
                                       results[-1]["command"], beside)


def requests_counted(server):
    """GETs and SETs, by the statistics of the server."""
    host, port = server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 5) as sock, sock.makefile("rwb") as stream:
        stream.write(b"stats\r\n")
        stream.flush()
        stats = dict(line.split()[1:3] for line in iter(stream.readline, b"END\r\n"))
    return int(stats[b"cmd_get"]) + int(stats[b"cmd_set"])


def with_memcached(bench, load):
    """
    The result of one client, from load(server) -> (requests/s, seconds, all its requests, command),
    with the load of the server's core and the number of requests that the server counted.
    """
    with bench.sock_server("memcached") as server:
        busy, counted = sum(cpu_times(server)), requests_counted(server)
        rate, seconds, requests, command = load(server)
        busy, counted = sum(cpu_times(server)) - busy, requests_counted(server) - counted
    return {"rate": rate, "command": command, "counted": requests / max(1, counted),
            "busy": busy / os.sysconf("SC_CLK_TCK") / seconds}


def by_memcaslap(bench, value_bytes):
    """The load of libmemcached's memcaslap: its own keys and values, of the given sizes."""
    tool = shutil.which("memcaslap")
    if not tool:
        raise Skip("memcaslap is not installed")
    settings = bench.folder / "memcaslap"
    settings.write_text(f"key\n16 16 1\nvalue\n{value_bytes} {value_bytes} 1\n"
                        "cmd\n0 0.01\n1 0.99\n")

    def load(server):
        command = [tool, "-s", server.address, "-t", f"{max(1, round(harness.SECONDS))}s",
                   "-c", str(harness.CONNECTIONS), "-T", "1", "-F", settings]
        said = bench.run(command)
        requests, rate = (float(re.search(rf"{name}: (\d+)", said)[1]) for name in ("Ops", "TPS"))
        return rate, requests / max(1.0, rate), requests, bench.both(server, command)

    return with_memcached(bench, load)


def by_ucload(bench, value_bytes):
    """
    The same load. memcaslap requests keys that it stored before: a hundredth of its requests are
    SETs, so it uses some 1000 keys in a second.
    """
    def load(server):
        said = bench.load(server, "--key-size=16", f"--value-size={value_bytes}", f"-k{KEYS}",
                          "--mix=get:99,set:1", "--warmup=0")
        return (said["requests_per_second"], said["seconds"], said["requests"] + KEYS,
                said["command"])

    return with_memcached(bench, load)


CLIENTS = {"memcaslap": by_memcaslap, "ucload": by_ucload}


def agreement(bench, suffix, value_bytes):
    """Two clients measure the same server and load, one right after the other."""
    turns = itertools.count()

    def both():
        order = list(CLIENTS) if next(turns) % 2 == 0 else list(reversed(CLIENTS))
        return {name: CLIENTS[name](bench, value_bytes) for name in order}

    found = bench.rounds(SUITE, {f"memcached{suffix} by two clients": both})
    results = next(iter(found.values()), None)
    if not results:
        return
    command, base = {name: results[-1][name]["command"] for name in CLIENTS}, None
    for name in CLIENTS:
        value = bench.rows.add(SUITE, f"memcached{suffix}_by_{name}",
                               [r[name]["rate"] for r in results], "1/s", command[name],
                               {"memcaslap": base})
        base = base or value
    bench.rows.add(SUITE, f"ucload_to_memcaslap{suffix}",
                   [r["ucload"]["rate"] / r["memcaslap"]["rate"] for r in results],
                   "median of the rounds' ratios", command["ucload"])
    for name in CLIENTS:
        for key, unit in (("busy", "of the server's core"),
                          ("counted", "of what the server has counted")):
            bench.rows.add(SUITE, f"memcached{suffix}_by_{name}_{key}",
                           [r[name][key] for r in results], unit, command[name])


def cores(bench):
    """Kernel sockets on 1, 2, 4 ... cores, up to half of the cores of the machine."""
    most = len(bench.server_cpus)
    if most < 2:
        raise Skip("1 to N cores: one core serves and one loads, and there are no more")
    threads = 2
    while threads <= most:
        load = (f"-t{len(bench.client_cpus)}", f"-c{32 * threads}")
        kinds = {
            f"memcached_{threads}_cores":
                lambda t=threads: get(bench, lambda: bench.sock_server("memcached", t), *load),
            f"sock_{threads}_cores":
                lambda t=threads: get(bench, lambda: bench.sock_server("ucached", t), *load)}
        medians = {}
        for name, results in bench.rounds(SUITE, kinds).items():
            medians[name] = bench.rows.add(
                SUITE, name, [r["rate"] for r in results], "1/s", results[-1]["command"],
                {"memcached": medians.get(f"memcached_{threads}_cores")})
        threads *= 2


def run(bench):
    limits = bounds(bench)
    gets(bench, limits)
    pipelined(bench)
    for suffix, value_bytes in AGREEMENT.items():
        agreement(bench, suffix, value_bytes)
    try:
        cores(bench)
    except Skip as why:
        bench.rows.skip(SUITE, "cores", why)
