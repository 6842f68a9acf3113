# SPDX-License-Identifier: BSD-3-Clause
"""
AF_XDP on one end of a veth pair, native and generic mode as the kernel chooses, beside memcached on
the kernel's TCP at the same place; the client uses kernel sockets at the other end. xdp_get: GETs
as in the suite stack; xdp_depth16: 16 requests in flight on each connection.
"""

import harness

SUITE = "xdp"

DEPTHS = {"get": (), "depth16": ("-d16",)}


def expected():
    return harness.seconds_of(2 * len(DEPTHS))


def measure(bench, kind, *args):
    with bench.veth_server(kind) as server:
        return bench.load(server, *args)


def run(bench):
    for name, args in DEPTHS.items():
        suffix = "" if name == "get" else f"_{name}"
        found = bench.rounds(SUITE, {
            f"memcached_veth{suffix}": lambda a=args: measure(bench, "memcached", *a),
            f"xdp_{name}": lambda a=args: measure(bench, "ucached", *a)})
        base = None
        for case, results in found.items():
            base = bench.rows.add(SUITE, case, [r["requests_per_second"] for r in results], "1/s",
                                  results[-1]["command"], {"memcached_veth": base})
