# SPDX-License-Identifier: BSD-3-Clause
"""The suites of `make bench`, in the order in which they run. Each has run(bench), and
expected(), which returns the seconds that it takes."""

import re

from . import (bulk, cache, connections, cost, engine, latency, metrics, protocol, scale, stack,
               threading, tls, xdp)

ALL = {"stack": stack, "tls": tls, "xdp": xdp, "scale": scale, "metrics": metrics, "cache": cache,
       "latency": latency, "protocol": protocol, "bulk": bulk, "threading": threading,
       "connections": connections, "engine": engine, "cost": cost}


def about(name):
    """What a suite measures: the docstring of its module without usage."""
    paragraphs = re.split(r"\n\s*\n", ALL[name].__doc__.strip()) if name in ALL else []
    return [re.sub(r"\s+", " ", text) for text in paragraphs
            if not text.startswith(("usage:", "--"))]
