# SPDX-License-Identifier: BSD-3-Clause
"""Text, meta and binary: GETs one at a time, SETs pipelined, values of 2 and 4096 bytes."""

import harness

SUITE = "protocol"

SIZES = (2, 4096)
PROTOCOLS = ("text", "meta", "binary")
SHARE = 0.4  # of harness.SECONDS, for each row
WORK = {"get": ("--mix=get", "-d1"), "set16": ("--mix=set", "-d16", "--no-preload")}


def expected():
    return harness.seconds_of(len(WORK) * len(SIZES) * len(PROTOCOLS) * 2, SHARE)


def measure(bench, kind, *args):
    with bench.sock_server(kind) as server:
        return bench.load(server, *args, seconds=harness.SECONDS * SHARE)


def run(bench):
    for work, args in WORK.items():
        for size in SIZES:
            cases = {f"{kind}_{work}_{protocol}_{size}":
                     (lambda k=kind, p=protocol, s=size, a=args:
                      measure(bench, k, f"--protocol={p}", f"--value-size={s}", *a))
                     for protocol in PROTOCOLS for kind in ("memcached", "ucached")}
            medians = {}
            for name, results in bench.rounds(SUITE, cases).items():
                base = medians.get(name.replace("ucached_", "memcached_"))
                medians[name] = bench.rows.add(
                    SUITE, name, [r["requests_per_second"] for r in results], "1/s",
                    results[-1]["command"],
                    {"memcached": base} if name.startswith("ucached") else None)
