# SPDX-License-Identifier: BSD-3-Clause
"""Working sets that are larger than the processor's caches, and values of all sizes."""

import harness

SUITE = "cache"

ZIPF = ("-k1000000", "--popularity=zipf:0.99", "--mix=get:90,set:10")
SIZES = (64, 4096, 65536, 1048000)


def expected():
    preloads = 3 * harness.ROUNDS * 1.5  # of a million keys
    return harness.seconds_of(6 + 3 * len(SIZES)) + preloads


def measure(bench, open_server, *args):
    with open_server() as server:
        result = bench.load(server, *args)
    return {"rate": result["requests_per_second"], "command": result["command"],
            "mbytes": (result["bytes_in"] + result["bytes_out"]) / 1e6 / result["seconds"]}


def beside_memcached(bench, name, args, key="rate", unit="1/s", links=True, count=None):
    """Rows memcached_NAME, NAME, and NAME_vhost where there is such a link."""
    servers = {f"memcached_{name}": lambda: bench.sock_server("memcached"),
               f"{name}_sock": lambda: bench.sock_server("ucached")}
    if links:
        servers[f"{name}_vhost"] = lambda: bench.link_server("vhost")
    cases = {case: (lambda s=server: measure(bench, s, *args)) for case, server in servers.items()}
    base = None
    for case, results in bench.rounds(SUITE, cases, count).items():
        value = bench.rows.add(SUITE, case, [r[key] for r in results], unit,
                               results[-1]["command"], {"memcached": base})
        base = base or value


def run(bench):
    beside_memcached(bench, "zipf", ZIPF)
    beside_memcached(bench, "etc", ("--etc", "-k100000"))
    for size in SIZES:
        keys = max(16, min(1000, (256 << 20) // size // 4))
        beside_memcached(bench, f"value_{size}", (f"--value-size={size}", f"-k{keys}", "-c8"),
                         key="mbytes", unit="MB/s")
