#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Miss ratios of a trace by libCacheSim's policies, at sizes in objects.

usage: bench/libcachesim_oracle.py TRACE.oracleGeneral.bin WARM OBJECTS [OBJECTS ...]

Prints {"OBJECTS": {"policy": miss ratio}} as JSON. The first WARM requests are not counted. Needs
the package in bench/requirements.txt.
"""

import json
import os
import sys

try:
    import libcachesim
except ImportError:
    sys.exit("libcachesim_oracle: the package is missing: pip install -r bench/requirements.txt")

RECORD_BYTES = 24
POLICIES = {"lru": "LRU", "fifo": "FIFO", "clock": "Clock", "s3fifo": "S3FIFO", "sieve": "Sieve",
            "twoq": "TwoQ"}


def miss_ratio(policy, path, requests, warm, objects):
    """One policy at one size, every object counting as one."""
    settings = libcachesim.ReaderInitParam()
    settings.ignore_obj_size = True
    reader = libcachesim.TraceReader(path, libcachesim.TraceType.ORACLE_GENERAL_TRACE, settings)
    cache = getattr(libcachesim, POLICIES[policy])(cache_size=objects)
    if warm:
        cache.process_trace(reader, 0, warm)
    return cache.process_trace(reader, warm, requests - warm)[0]


def main():
    try:
        path, warm, *sizes = sys.argv[1], int(sys.argv[2]), *map(int, sys.argv[3:])
    except (IndexError, ValueError):
        sys.exit(__doc__)
    requests = os.path.getsize(path) // RECORD_BYTES
    print(json.dumps({objects: {policy: miss_ratio(policy, path, requests, warm, objects)
                                for policy in POLICIES} for objects in sizes}))


if __name__ == "__main__":
    main()
