# SPDX-License-Identifier: BSD-3-Clause
"""Throughput of one connection in each direction, with and without offloads and zero copy."""

import harness

SUITE = "bulk"

# A TAP device has no offloads to leave out. Over vhost both ends send large segments (tso), and the
# server's gathers what it sends (zero copy).
COPY = {"": (), "_no_zero_copy": ("--zero-copy=off",)}
SWITCHES = {"tap": COPY,
            "vhost": {**COPY, "_no_tso": ("--tso=off",), "_no_csum": ("--csum=off",)}}


def expected():
    return harness.seconds_of(2 * (1 + sum(map(len, SWITCHES.values()))), 0.5)


def kernel(bench):
    port = bench.free_port()
    return bench.running([bench.program("ucping"), "--listen", f"127.0.0.1:{port}"],
                         ("127.0.0.1", port))


def measure(bench, open_server, mode, *more):
    with open_server() as server:
        return bench.ping(server, "-m", mode, *more, seconds=harness.SECONDS / 2)


def frame_bytes(link, mode):
    """Bytes of a frame with data, by the counters of the client's device."""
    way = "tx" if mode == "send" else "rx"
    return link[f"dpdk_{way}_bytes"] / link[f"dpdk_{way}_frames"]


def run(bench):
    for mode in ("send", "receive"):
        cases = {f"kernel_{mode}": lambda m=mode: measure(bench, lambda: kernel(bench), m)}
        for link, switches in SWITCHES.items():
            # Copies, segmentation and checksums cost the side that sends.
            for name, switch in switches.items():
                cases[f"{link}_{mode}{name}"] = (
                    lambda m=mode, s=switch, k=link: measure(
                        bench, lambda: bench.tap_server("ucping", s) if k == "tap"
                        else bench.link_server(k, "ucping", s, csum=True),
                        m, *(s if k != "tap" else ())))
        medians = {}
        for name, results in bench.rounds(SUITE, cases).items():
            beside = {"kernel": medians.get(f"kernel_{mode}")}
            link = name.split("_")[0]
            if name != f"{link}_{mode}":
                beside["with_all"] = medians.get(f"{link}_{mode}")
            medians[name] = bench.rows.add(
                SUITE, name, [r["gbit_per_second"] for r in results], "Gbit/s",
                results[-1]["command"], beside)
            if link == "vhost":
                bench.rows.add(SUITE, f"{name}_frame", [frame_bytes(r["link"], mode)
                                                        for r in results], "B",
                               results[-1]["command"])
