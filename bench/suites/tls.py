# SPDX-License-Identifier: BSD-3-Clause
"""
TLS 1.3: GETs as in the suite `stack`, over vhost beside the same without TLS, and over kernel
sockets beside memcached -Z; handshakes with ECDSA on P-256.

*_handshakes*: each request has a connection of its own; handshakes per second of the server's
processor time, whatever the client needs for its side. *_resumed: with the ticket of the connection
before.

*_limit: what the libraries alone do on one core, by bench/tls_limit: no server with them makes more
handshakes, or sends more encrypted values.
"""

import functools
import os
import re

import harness
import tls
from harness import Skip

from . import stack

SUITE = "tls"
LIMIT_SECONDS = 0.5  # about: of bench/tls_limit
VALUE_BYTES = 1_000_000
VALUES = (f"--value-size={VALUE_BYTES}", "-k64", "-c8")


def expected():
    return harness.seconds_of(11) + harness.ROUNDS * 2 * LIMIT_SECONDS + 3


@functools.cache
def can_memcached(program):
    """Whether a memcached is built with TLS."""
    return "enable-ssl" in os.popen(f"'{program}' -h").read()


def sock_server(bench, kind):
    if kind == "memcached" and bench.memcached and not can_memcached(bench.memcached):
        raise Skip("this memcached is built without TLS")
    return bench.sock_server(kind, more=tls.server_args())


def sock_get(bench, kind, *args):
    return stack.get(bench, lambda: sock_server(bench, kind), "--tls", *args)


def plain_values(bench):
    return stack.get(bench, lambda: bench.sock_server("ucached"), *VALUES)


def limit(bench, *words):
    """What bench/tls_limit measures."""
    command = [bench.build / "bench" / "tls_limit", *words]
    if not command[0].exists():
        raise Skip("ucached is built without TLS")
    out = bench.run(command, cpus=bench.server_cpus[:1])
    return {"rate": float(re.match(r"\d+", out)[0]),
            "command": harness.typed(command, bench.server_cpus[:1])}


def handshake_limit(bench):
    certificates = tls.shared()
    return limit(bench, "handshakes", certificates.path("server.pem"),
                 certificates.path("server.key"))


def values_limit(bench):
    """Values that are encrypted in a second."""
    found = limit(bench, "seal")
    return found | {"rate": found["rate"] * 2 ** 20 / VALUE_BYTES}


def link_get(bench, *args, more=()):
    return stack.get(bench, lambda: bench.link_server("vhost", more=more), "--server-cycles", *args)


def handshakes(bench, kind, *args):
    """Handshakes in a second of processor time of the server."""
    with sock_server(bench, kind) as server:
        before = sum(stack.cpu_times(server))
        result = bench.load(server, "--tls", "--reconnect=1", "-k10", *args)
        busy = (sum(stack.cpu_times(server)) - before) / os.sysconf("SC_CLK_TCK")
    done = result["connects"] + harness.CONNECTIONS
    return {"rate": done / max(busy, 0.01), "command": result["command"]}


def rows(bench, cases, beside):
    """A row for each case: name -> function; beside: name of a ratio -> case it is compared to."""
    medians = {}
    for name, results in bench.rounds(SUITE, cases).items():
        ratios = {ratio: medians.get(case) for ratio, case in beside.items() if case != name}
        medians[name] = bench.rows.add(SUITE, name, [r["rate"] for r in results], "1/s",
                                       results[-1]["command"], ratios)


def run(bench):
    rows(bench, {
        "memcached_tls": lambda: sock_get(bench, "memcached"),
        "get_vhost_plain": lambda: link_get(bench),
        "get_vhost_tls": lambda: link_get(bench, "--tls", more=tls.server_args()),
        "sock_tls_depth1": lambda: sock_get(bench, "ucached"),
    }, {"memcached -Z": "memcached_tls", "get_vhost": "get_vhost_plain"})
    rows(bench, {
        "memcached_tls_depth16": lambda: sock_get(bench, "memcached", "-d16"),
        "sock_tls_depth16": lambda: sock_get(bench, "ucached", "-d16"),
    }, {"memcached -Z": "memcached_tls_depth16"})
    rows(bench, {
        "sock_values": lambda: plain_values(bench),
        "sock_tls_values": lambda: sock_get(bench, "ucached", *VALUES),
        "tls_values_limit": lambda: values_limit(bench),
    }, {"sock_values": "sock_values"})
    rows(bench, {
        "tls_handshakes_limit": lambda: handshake_limit(bench),
        "memcached_tls_handshakes": lambda: handshakes(bench, "memcached"),
        "sock_tls_handshakes": lambda: handshakes(bench, "ucached"),
        "sock_tls_handshakes_resumed": lambda: handshakes(bench, "ucached", "--tls-resume"),
    }, {"memcached -Z": "memcached_tls_handshakes", "limit": "tls_handshakes_limit"})
