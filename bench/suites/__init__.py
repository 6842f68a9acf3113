# SPDX-License-Identifier: BSD-3-Clause
"""The suites of `make bench`, in the order in which they run. Each has run(bench), and
expected(), the seconds that it takes."""

from . import (bulk, cache, connections, cost, engine, latency, protocol, stack, threading)

ALL = {"stack": stack, "cache": cache, "latency": latency, "protocol": protocol, "bulk": bulk,
       "threading": threading, "connections": connections, "engine": engine, "cost": cost}
