#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the examples in ns-3, and writes the tables and plots of docs/ns3.md.

    sim/ns3/study.py BUILD [NAME...]

Writes the output of each run to BUILD/ns3-study/NAME-SEED.txt, the plots to docs/ns3/, and the
tables into docs/ns3.md, in place of those with the same head. NAME is an example, or incast-many:
the test of this name.
"""

import argparse
import math
import os
import re
import statistics
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "ns3.md"
COLOURS = ("#1f6fb2", "#c8501e", "#3a8a3a", "#7a4fa0", "#8a6d1f")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 640, 300, 62, 30, 44, 130
TICKS_MAX = 8
POINT_PIXELS = 2.5  # between two points of a line
EXAMPLES = ("dumbbell", "incast", "incast-many", "thousand-clients", "lossy-path", "internet")
SEEDS = {"internet": range(1, 6)}  # the others: 1
HEADS = {
    "incast": "| servers | congestion control | until the last answer, us | slowest round, us "
    "| goodput, Gbit/s | marked | dropped | timeouts | retransmissions |",
    "incast-many": "| servers | congestion control | queue, packets | goodput, Gbit/s | dropped "
    "| marked | retransmissions | tail loss probes | timeouts |",
    "lossy-path": "| round trip, ms | loss, % | ustack CUBIC | ustack Reno | ns-3 CUBIC "
    "| ns-3 NewReno |",
    "internet": "| round trip, ms | loss, % | replies | p50, ms | p99, ms | goodput, Mbit/s "
    "| Jain, mean | Jain, lowest |",
}
MANY = re.compile(
    r"(\d+) servers, (\w+), queue of (\d+)(?: with marks)?: ([\d.]+) Gbit/s, (\d+) drops, "
    r"(\d+) marks, (\d+) retransmissions, (\d+) probes, (\d+) timeouts"
)

Table = list[list[str]]
Lines = dict[str, list[tuple[float, float]]]


def rows(example: str, text: str) -> Table:
    """The words of each line that is no comment."""
    if example == "incast-many":
        return [list(row) for row in MANY.findall(text)]
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def ticks(low: float, high: float, log: bool) -> list[float]:
    """Round numbers from low to high."""
    if log:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    else:
        power = 10.0 ** math.floor(math.log10((high - low) / TICKS_MAX))
        step = next(k * power for k in (1, 2, 5, 10) if (high - low) / (k * power) < TICKS_MAX)
        found = [step * i for i in range(math.ceil(low / step - 1e-9), int(high / step + 1e-9) + 1)]
    return [tick for tick in found if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


def scale(low: float, high: float, log: bool) -> Callable[[float], float]:
    """Where a number is from low (0) to high (1)."""
    if log:
        return lambda value: math.log(value / low) / math.log(high / low)
    return lambda value: (value - low) / (high - low)


def path(points: list[tuple[float, float]]) -> str:
    """The points of a polyline, without those that are close to the one before."""
    kept = points[:1]
    for point in points[1:-1]:
        if math.dist(point, kept[-1]) >= POINT_PIXELS:
            kept.append(point)
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in [*kept, points[-1]])


def svg(title: str, x_name: str, y_name: str, lines: Lines, log: str = "", y_low: float = 0) -> str:
    """A plot of lines, each a list of points; log names the logarithmic axes: "x", "y" or "xy"."""
    xs = sorted({x for line in lines.values() for x, _ in line})
    ys = sorted({y for line in lines.values() for _, y in line})
    if "y" in log:
        y_low, y_high = ys[0] / 1.1, ys[-1] * 1.1
    else:
        y_low, y_high = min(y_low, ys[0]), max(y_low + (ys[-1] - y_low) * 1.05, y_low + 1e-3)
    plot_w, plot_h = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    x_at, y_at = scale(xs[0], xs[-1], "x" in log), scale(y_low, y_high, "y" in log)

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + x_at(x) * plot_w, TOP + (1 - y_at(y)) * plot_h

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-size="13">{title}</text>',
        f'<text x="{LEFT + plot_w / 2}" y="{HEIGHT - 8}" text-anchor="middle">{x_name}</text>',
        f'<text transform="translate(14 {TOP + plot_h / 2}) rotate(-90)" text-anchor="middle">'
        f"{y_name}</text>",
    ]
    for y in ticks(y_low, y_high, "y" in log):
        grid = path([at(xs[0], y), at(xs[-1], y)])
        out.append(f'<polyline points="{grid}" stroke="#ddd"/>')
        y_text = at(xs[0], y)[1] + 4
        out.append(f'<text x="{LEFT - 6}" y="{y_text:.1f}" text-anchor="end">{y:.4g}</text>')
    for x in xs if len(xs) <= TICKS_MAX else ticks(xs[0], xs[-1], "x" in log):
        x_text = at(x, ys[-1])[0]
        out.append(f'<text x="{x_text:.1f}" y="{HEIGHT - 26}" text-anchor="middle">{x:.4g}</text>')
    for i, (name, line) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        points = path([at(x, y) for x, y in line])
        out.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        )
        out.append(
            f'<text x="{WIDTH - RIGHT + 10}" y="{TOP + 14 * (i + 1)}" fill="{colour}">{name}</text>'
        )
    return "\n".join([*out, "</svg>", ""])


def lines_by(table: Table, name: int, x: int, y: int) -> Lines:
    """Lines by the column `name`, with points of the columns x and y."""
    lines: Lines = {}
    for row in table:
        lines.setdefault(row[name], []).append((float(row[x]), float(row[y])))
    return lines


def plots(example: str, table: Table) -> dict[str, str]:
    """The plots of an example by the name of the file."""
    if example == "dumbbell":
        lines = lines_by(table, 1, 0, 2)
        return {"dumbbell": svg("Congestion windows", "time, s", "segments", lines)}
    if example == "incast":
        lines = lines_by(table, 1, 0, 4)
        return {"incast": svg("Goodput", "servers", "Gbit/s", lines, log="x")}
    if example == "lossy-path":
        at_50 = [row for row in table if row[0] == "50"]
        lines = lines_by(at_50, 2, 1, 3)
        return {"lossy-path": svg("Goodput at 50 ms", "loss, %", "Mbit/s", lines)}
    if example == "internet":
        named = [[row[0], f"{row[1]} % loss", *row[2:]] for row in table]
        p50, p99, goodput, jain = (lines_by(named, 1, 0, column) for column in (3, 4, 5, 7))
        x_name = "round trip, ms"
        return {
            "internet-p50": svg("Latency p50", x_name, "ms", p50, log="xy"),
            "internet-p99": svg("Latency p99", x_name, "ms", p99, log="xy"),
            "internet-goodput": svg("Goodput of a client", x_name, "Mbit/s", goodput, log="xy"),
            "internet-fairness": svg(
                "Lowest of Jain's indices", x_name, "index", jain, log="x", y_low=0.8
            ),
        }
    return {}


def by_path(table: Table) -> dict[tuple[str, str], Table]:
    """Rows with the same first two words, without these."""
    paths: dict[tuple[str, str], Table] = {}
    for row in table:
        paths.setdefault((row[0], row[1]), []).append(row[2:])
    return paths


def over_seeds(table: Table) -> Table:
    """Rows of the study over all seeds: the sum of the replies, the others' means, lowest index."""
    rows_of_paths = []
    for path, runs in by_path(table).items():
        columns = [[float(word) for word in column] for column in zip(*runs, strict=True)]
        replies, p50, p99, goodput, jain = columns
        means = [f"{statistics.mean(p50):.1f}", f"{statistics.mean(p99):.1f}"]
        means += [f"{statistics.mean(goodput):.2f}", f"{statistics.mean(jain):.3f}"]
        rows_of_paths.append([*path, f"{sum(replies):.0f}", *means, f"{min(jain):.3f}"])
    return rows_of_paths


def page_rows(example: str, table: Table) -> Table:
    """The rows of the page's table."""
    if example != "lossy-path":
        return table
    return [[*path, *(run[1] for run in runs)] for path, runs in by_path(table).items()]


def write_table(head: str, table: Table) -> None:
    """Replaces the rows below the head in the page."""
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in table]
    text, count = re.subn(
        re.escape(head) + r"\n(\|.*\n)*", "\n".join(lines) + "\n", PAGE.read_text()
    )
    if count != 1:
        raise SystemExit(f"{PAGE} has {count} tables with the head {head}")
    PAGE.write_text(text)


def run_seed(build: Path, example: str, seed: int) -> str:
    """The output of an example, or of the test."""
    command = [build / "sim" / "ns3" / f"ns3-{example}", f"--RngRun={seed}"]
    if example == "incast-many":
        command = [build / "sim" / "ns3" / "test" / "ns3_test", example]
    if not command[0].exists():
        raise SystemExit(f"{command[0]} is missing: build with ns-3 (docs/ns3.md)")
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    texts = build / "ns3-study"
    texts.mkdir(exist_ok=True)
    (texts / f"{example}-{seed}.txt").write_text(text)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("example", nargs="*", metavar="NAME", help=", ".join(EXAMPLES))
    arguments = parser.parse_args()
    for name in arguments.example:
        if name not in EXAMPLES:
            parser.error(f"no example {name}: " + ", ".join(EXAMPLES))
    (ROOT / "docs" / "ns3").mkdir(exist_ok=True)
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    for example in arguments.example or EXAMPLES:
        seeds = SEEDS.get(example, (1,))
        texts = list(pool.map(lambda seed, e=example: run_seed(arguments.build, e, seed), seeds))
        for text in texts:
            print(f"== {example}\n{text if len(text) < 4000 else text[-300:]}", flush=True)
        table = [row for text in texts for row in rows(example, text)]
        if len(texts) > 1:
            table = over_seeds(table)
        if example in HEADS:
            write_table(HEADS[example], page_rows(example, table))
        for name, drawing in plots(example, table).items():
            (ROOT / "docs" / "ns3" / f"{name}.svg").write_text(drawing)


if __name__ == "__main__":
    main()
