# SPDX-License-Identifier: BSD-3-Clause
"""
Working sets that are larger than the processor's caches, and values of all sizes.

All servers have -L, so their items are in memory that was touched at their start: the time that the
kernel, or the host of a virtual machine, takes to provide new pages is not measured.
"""

import statistics

import harness

SUITE = "cache"

ZIPF = ("-k1000000", "--popularity=zipf:0.99", "--mix=get:90,set:10")
CLAIMED = ("-L",)
SIZES = (64, 4096, 65536, 1048000)
LARGE = 65536


def expected():
    preloads = 3 * harness.ROUNDS * 1.5  # of a million keys
    return harness.seconds_of(7 + 3 * len(SIZES)) + preloads


def measure(bench, open_server, *args):
    with open_server() as server:
        result = bench.load(server, *args)
    return {"rate": result["requests_per_second"], "command": result["command"],
            "cycles": result.get("server_cycles_per_request"),
            "mbytes": (result["bytes_in"] + result["bytes_out"]) / 1e6 / result["seconds"]}


def beside_memcached(bench, name, args, key="rate", unit="1/s", small=False, large=False):
    """
    Rows memcached_NAME, NAME_sock and NAME_vhost. With `small`, a row NAME_vhost_cycles stands
    beside the ticks of GETs of a thousand keys over the same link, measured in the same rounds.
    `large`: the link leaves segments uncut.
    """
    servers = {f"memcached_{name}": lambda: bench.sock_server("memcached", more=CLAIMED),
               f"{name}_sock": lambda: bench.sock_server("ucached", more=CLAIMED),
               f"{name}_vhost": lambda: bench.link_server("vhost", csum=large,
                                                             more=CLAIMED)}
    cases = {case: (lambda s=server: measure(bench, s, *args)) for case, server in servers.items()}
    if small:
        vhost, counted = servers[f"{name}_vhost"], "--server-cycles"
        cases[f"{name}_vhost"] = lambda: measure(bench, vhost, counted, *args)
        cases["get_vhost"] = lambda: measure(bench, vhost, counted)
    found = bench.rounds(SUITE, cases)
    values = {case: statistics.median(r[key] for r in results)
              for case, results in found.items() if results}
    for case in servers:
        if not found.get(case):
            continue
        beside = {"memcached": None if case.startswith("memcached")
                  else values.get(f"memcached_{name}")}
        bench.rows.add(SUITE, case, [r[key] for r in found[case]], unit,
                       found[case][-1]["command"], beside)
    if small and found.get("get_vhost") and found.get(f"{name}_vhost"):
        get = statistics.median(r["cycles"] for r in found["get_vhost"])
        bench.rows.add(SUITE, f"{name}_vhost_cycles", [r["cycles"] for r in found[f"{name}_vhost"]],
                       "cycles", found[f"{name}_vhost"][-1]["command"], {"get_vhost": get},
                       lower_is_better=True)


def run(bench):
    beside_memcached(bench, "zipf", ZIPF, small=True)
    beside_memcached(bench, "etc", ("--etc", "-k100000"))
    for size in SIZES:
        keys = max(16, min(1000, (256 << 20) // size // 4))
        beside_memcached(bench, f"value_{size}", (f"--value-size={size}", f"-k{keys}", "-c8"),
                         key="mbytes", unit="MB/s", large=size >= LARGE)
