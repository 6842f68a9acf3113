#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the rows of kvbench as SVG files.

usage: bench/plot_engine.py ROWS.json FOLDER

ROWS.json is what `kvbench ... --json=FILE` writes, or a results file of `make bench`. FOLDER gets
miss_*.svg (miss ratio against cache size by policy), rate_*.svg (operations per second against
threads) and latency_*.svg (latency by percentile), as far as there are rows for them.
"""

import json
import pathlib
import re
import sys

import svg

PERCENTILES = ("p50", "p90", "p99", "p99_9", "p99_99", "max")


def groups_of(rows, pattern):
    """{name: {x: row}} of the rows whose case matches; the pattern's groups are name and x."""
    groups = {}
    for row in rows:
        match = re.fullmatch(pattern, row["case"])
        if match and row["value"] is not None:
            groups.setdefault(match[1], {})[match[2]] = row
    return groups


def series_of(group, position, own=None, skipped=()):
    """{name: points} of a group: what its rows are compared to, and their own values as `own`."""
    series = {}
    for key, row in sorted(group.items(), key=lambda item: position(item[0])):
        values = ({own: row["value"]} if own else {}) | row["compared_to"]
        for name, value in values.items():
            if value is not None and not any(re.fullmatch(p, name) for p in skipped):
                series.setdefault(name, []).append((position(key), value))
    return series


def charts(rows):
    """Yields (file name, text) for each chart that the rows allow."""
    for name, group in groups_of(rows, r"(miss_\w+?)_(\d+(?:_\d+)?)pct").items():
        series = series_of(group, lambda key: float(key.replace("_", ".")))
        if len(group) > 1 and series:
            yield f"{name}.svg", svg.line_chart(
                f"{name.removeprefix('miss_')}: misses by policy",
                "cache size, % of all keys and values", "share of GETs that miss", series,
                log_x=True)
    for name, group in groups_of(rows, r"(\w+)_(\d+)t").items():
        yield f"rate_{name}.svg", svg.line_chart(
            f"{name}: rate", "threads", "million operations per second",
            series_of(group, int, "engine", (r"\d+t",)), x_names={int(k): k for k in group})
    for name, group in groups_of(rows, rf"(\w+)_latency_({'|'.join(PERCENTILES)})").items():
        places = {i: p.replace("_", ".") for i, p in enumerate(PERCENTILES) if p in group}
        yield f"latency_{name}.svg", svg.line_chart(
            f"{name}: time of single operations", "percentile", "ns",
            series_of(group, PERCENTILES.index, "engine"), log_y=True, x_names=places)


def write(rows, folder):
    """Writes all charts into a folder, which is made; returns their paths."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in charts(rows):
        paths.append(folder / name)
        paths[-1].write_text(text, encoding="utf-8")
    return paths


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        document = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        sys.exit(f"plot_engine: {sys.argv[1]}: {error}")
    rows = document["rows"] if isinstance(document, dict) else document
    paths = write(rows, sys.argv[2])
    if not paths:
        sys.exit(f"plot_engine: {sys.argv[1]} has no rows that can be drawn")
    for path in paths:
        print(path)


if __name__ == "__main__":
    main()
