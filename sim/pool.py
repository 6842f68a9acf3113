#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How a pool of caches behaves when it loses a server or gets one more.

    sim/pool.py [--kvbench FILE] [--plot FILE.svg] [--keys N] [--requests N]

Clients draw keys by Zipf's law and look for each on the server where ketama places it; a miss stores
the key. A server is a cache of a tenth of all keys under S3-FIFO, as ucached evicts by default.
After half of the requests the pool changes. Everything follows from a seed, so that two runs print
the same. Prints a table of Markdown; with --kvbench it also measures the miss ratio of ucached's
engine at the size of the whole pool, beside the simulated one. --plot draws misses over time.
"""

import argparse
import collections
import json
import random
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from ketama import Ketama  # noqa: E402

THETA = 0.99
SEED = 1
SHARE = 0.1  # of the keys fit into one server
WINDOWS = 60


class Cache:
    """S3-FIFO: a probationary queue of a tenth, the main queue, and a memory of evicted keys."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.probation_max = max(1, capacity // 10)
        self.probation, self.main = collections.deque(), collections.deque()
        self.uses = {}
        self.ghosts = collections.OrderedDict()

    def get(self, key):
        """Whether it was there; it is afterwards."""
        uses = self.uses.get(key)
        if uses is not None:
            if uses < 3:
                self.uses[key] = uses + 1
            return True
        self.add(key)
        return False

    def add(self, key):
        if key in self.uses:
            return
        (self.main if self.ghosts.pop(key, False) else self.probation).append(key)
        self.uses[key] = 0
        while len(self.uses) > self.capacity:
            self._evict()

    def _evict(self):
        if len(self.probation) > self.probation_max or not self.main:
            key = self.probation.popleft()
            if self.uses[key] > 1:
                self.main.append(key)
                self.uses[key] = 0
                return
            self.ghosts[key] = True
            if len(self.ghosts) > self.capacity:
                self.ghosts.popitem(last=False)
        else:
            key = self.main.popleft()
            if self.uses[key] > 0:
                self.uses[key] -= 1
                self.main.append(key)
                return
        del self.uses[key]


class Modulo:
    """Placement by the hash modulo the number of servers, for comparison."""

    def __init__(self):
        self.nodes = []
        self.hashes = random.Random(SEED)
        self.of = {}

    def add_node(self, node):
        self.nodes.append(node)

    def remove_node(self, node):
        self.nodes.remove(node)

    def get_node(self, key):
        if key not in self.of:
            self.of[key] = self.hashes.getrandbits(32)
        return self.nodes[self.of[key] % len(self.nodes)]


def name(number):
    return f"10.77.0.{11 + number}:11211"


class Pool:
    def __init__(self, keys, servers, ring):
        self.keys = keys
        self.ring = ring
        self.caches = {}
        for number in range(servers):
            self.join(name(number))

    def join(self, node):
        self.ring.add_node(node)
        self.caches[node] = Cache(int(SHARE * self.keys))
        self.place()

    def leave(self, node):
        self.ring.remove_node(node)
        del self.caches[node]
        self.place()

    def place(self):
        self.cache_of = [self.caches[self.ring.get_node(f"key-{key}")] for key in range(self.keys)]

    def warm(self, node):
        """What ucwarm does: the keys that have moved to the new server, from where they were."""
        new = self.caches[node]
        for cache in self.caches.values():
            if cache is not new:
                for key in list(cache.uses):
                    if self.cache_of[key] is new:
                        new.add(key)


class Result:
    """Misses by window, requests by server before and after the change."""

    def __init__(self):
        self.misses = []
        self.load = ([], [])
        self.moved = 0.0


def loads(pool, counts):
    requests = sum(counts.values())
    return sorted((counts[id(cache)] / requests for cache in pool.caches.values()), reverse=True)


def drawing(keys, requests):
    """The keys of the requests, window by window; the same at each call."""
    draws = random.Random(SEED)
    order = list(range(keys))
    draws.shuffle(order)  # popularity does not follow the names
    weights, total = [], 0.0
    for rank in range(1, keys + 1):
        total += rank**-THETA
        weights.append(total)
    for _ in range(WINDOWS):
        yield draws.choices(order, cum_weights=weights, k=requests // WINDOWS)


def run(keys, requests, ring, change):
    """One scenario."""
    pool, result = Pool(keys, 3, ring), Result()
    counts = collections.Counter()
    for number, drawn in enumerate(drawing(keys, requests)):
        if number == WINDOWS // 2:
            result.load = (loads(pool, counts), [])
            before = [id(cache) for cache in pool.cache_of]
            change(pool)
            moved = sum(id(cache) != was for cache, was in zip(pool.cache_of, before, strict=True))
            result.moved = moved / keys
            counts.clear()
        misses = 0
        for key in drawn:
            cache = pool.cache_of[key]
            counts[id(cache)] += 1
            misses += not cache.get(key)
        result.misses.append(misses / len(drawn))
    result.load = (result.load[0], loads(pool, counts))
    return result


def grow(pool):
    pool.join(name(3))


def grow_warm(pool):
    pool.join(name(3))
    pool.warm(name(3))


def lose(pool):
    pool.leave(name(1))


SCENARIOS = {
    "one of three fails": (Ketama, lose),
    "a fourth joins": (Ketama, grow),
    "a fourth joins, warmed": (Ketama, grow_warm),
    "a fourth joins, modulo": (Modulo, grow),
}


def row(title, result):
    middle = WINDOWS // 2
    steady = sum(result.misses[middle - 10 : middle]) / 10
    after = sum(result.misses[-10:]) / 10
    extra = sum(max(0.0, misses - after) for misses in result.misses[middle:]) / middle
    shares = ["/".join(f"{share * 100:.0f}" for share in half) for half in result.load]
    return (f"| {title} | {result.moved * 100:.0f} % | {steady:.3f} | {result.misses[middle]:.3f} "
            f"| {after:.3f} | {extra * 100:.1f} % | {shares[0]} | {shares[1]} |")  # fmt: skip


HEADING = [
    "| | keys moved | miss ratio before | right after | at the end | extra misses | load by server, "
    "%, before | after |",
    "|---|---:|---:|---:|---:|---:|---|---|",
]


def single(keys, requests):
    """The miss ratio of one cache of the size of three servers, in the last third of requests."""
    cache = Cache(int(3 * SHARE * keys))
    misses = 0
    for number, drawn in enumerate(drawing(keys, requests)):
        missed = sum(not cache.get(key) for key in drawn)
        misses += missed if number >= WINDOWS * 2 // 3 else 0
    return misses / (requests // WINDOWS * (WINDOWS - WINDOWS * 2 // 3))


def measured(kvbench, keys, requests):
    """The same of ucached's engine."""
    words = [kvbench, "ratio", f"--workload=zipf,popularity=zipf:{THETA},keys={keys},get=100",
             f"--memory={int(3 * SHARE * keys)}obj", f"--requests={requests}",
             f"--warm={requests * 2 // 3}", "--policy=s3fifo", "--json"]  # fmt: skip
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=120)
    return json.loads(done.stdout)[0]["value"]


def plot(results, path, keys, requests):
    width, height, left, top, bottom = 800, 340, 60, 70, 40
    most = max(max(result.misses[5:]) for result in results.values()) * 1.1
    colors = ("#c0392b", "#d08030", "#2b6cb0", "#9a9a9a")

    def x(at):
        return left + (width - left - 20) * at / WINDOWS

    def y(misses):
        return height - bottom - (height - top - bottom) * min(misses, most) / most

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        '<text x="12" y="24" font-size="16">Miss ratio of a pool of three servers that changes'
        "</text>",
        f'<text x="12" y="46" font-size="12" fill="#555">Simulated: {keys:,} keys, Zipf {THETA}, '
        f"each server holds a tenth of the keys; the change is after {requests // 2:,} requests"
        "</text>",
    ]
    for tick in range(5):
        misses = most * tick / 4
        out.append(f'<line x1="{left}" x2="{width - 20}" y1="{y(misses):.1f}" y2="{y(misses):.1f}" '
                   'stroke="#ddd"/>')  # fmt: skip
        out.append(f'<text x="{left - 8}" y="{y(misses) + 4:.1f}" text-anchor="end">{misses:.2f}'
                   "</text>")  # fmt: skip
    middle = x(WINDOWS / 2)
    out.append(f'<line x1="{middle:.1f}" x2="{middle:.1f}" y1="{top}" y2="{height - bottom}" '
               'stroke="#555" stroke-dasharray="4 4"/>')  # fmt: skip
    for number, (title, result) in enumerate(results.items()):
        points = " ".join(f"{x(at + 0.5):.1f},{y(misses):.1f}"
                          for at, misses in enumerate(result.misses) if at >= 5)  # fmt: skip
        color = colors[number]
        out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        out.append(f'<text x="{middle + 150}" y="{top + 12 + 18 * number}" fill="{color}">{title}'
                   "</text>")  # fmt: skip
    out.append(f'<text x="{width - 20}" y="{height - 12}" text-anchor="end" fill="#555">requests'
               "</text>")  # fmt: skip
    out.append("</svg>")
    Path(path).write_text("\n".join(out) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvbench")
    parser.add_argument("--plot")
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--requests", type=int, default=1_200_000)
    arguments = parser.parse_args()
    results = {}
    for title, (ring, change) in SCENARIOS.items():
        results[title] = run(arguments.keys, arguments.requests, ring(), change)
    print("\n".join([*HEADING, *(row(title, result) for title, result in results.items())]))
    if arguments.kvbench:
        print(f"\nOne cache of the size of the three: {single(arguments.keys, arguments.requests):.3f} "
              f"simulated, {measured(arguments.kvbench, arguments.keys, arguments.requests):.3f} "
              "measured with ucached's engine.")  # fmt: skip
    if arguments.plot:
        plot(results, arguments.plot, arguments.keys, arguments.requests)


if __name__ == "__main__":
    main()
