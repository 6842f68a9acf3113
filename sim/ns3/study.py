#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the examples in ns-3 and draws what docs/ns3.md shows.

    sim/ns3/study.py BUILD [EXAMPLE...]

Writes the output of each example to BUILD/ns3-study/EXAMPLE.txt and the plots to docs/ns3/.
"""

import argparse
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLOURS = ("#1f6fb2", "#c8501e", "#3a8a3a", "#7a4fa0")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 640, 300, 62, 30, 44, 130


def rows(text: str) -> list[list[str]]:
    """The words of each line that is no comment."""
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def svg(title: str, x_name: str, y_name: str, lines: dict[str, list[tuple[float, float]]]) -> str:
    """A plot of lines, each a list of points."""
    points = [point for line in lines.values() for point in line]
    x_max = max(x for x, _ in points)
    y_max = max(y for _, y in points) * 1.05 or 1
    x_min = min(x for x, _ in points)
    plot_w, plot_h = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(x: float, y: float) -> str:
        return (f"{LEFT + (x - x_min) / ((x_max - x_min) or 1) * plot_w:.1f},"
                f"{TOP + plot_h - y / y_max * plot_h:.1f}")  # fmt: skip

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-size="13">{title}</text>',
        f'<text x="{LEFT + plot_w / 2}" y="{HEIGHT - 8}" text-anchor="middle">{x_name}</text>',
        f'<text transform="translate(14 {TOP + plot_h / 2}) rotate(-90)" text-anchor="middle">'
        f"{y_name}</text>",
    ]
    for i in range(6):
        x, y = x_min + (x_max - x_min) * i / 5, y_max * i / 5
        left, right = at(x_min, y), at(x_max, y)
        out.append(f'<polyline points="{left} {right}" stroke="#ddd"/>')
        y_at = left.split(",")[1]
        out.append(f'<text x="{LEFT - 6}" y="{y_at}" text-anchor="end">{y:.3g}</text>')
        x_at = at(x, 0).split(",")[0]
        out.append(f'<text x="{x_at}" y="{HEIGHT - 26}" text-anchor="middle">{x:.4g}</text>')
    for i, (name, line) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(at(x, y) for x, y in line)
        y_at = TOP + 14 * (i + 1)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 10}" y="{y_at}" fill="{colour}">{name}</text>')
    return "\n".join([*out, "</svg>", ""])


def lines_by(table: list[list[str]], name: int, x: int, y: int) -> dict:
    """Lines by the column `name`, with points of the columns x and y."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in table:
        lines.setdefault(row[name], []).append((float(row[x]), float(row[y])))
    return lines


def plots(example: str, table: list[list[str]]) -> dict[str, str]:
    """The plots of an example by the name of the file."""
    if example == "dumbbell":
        lines = lines_by(table, 1, 0, 2)
        return {"dumbbell": svg("Congestion windows", "time, s", "segments", lines)}
    if example == "incast":
        lines = lines_by(table, 1, 0, 2)
        return {"incast": svg("Time until the last answer", "servers", "us", lines)}
    if example == "lossy-path":
        at_50 = [row for row in table if row[0] == "50"]
        lines = lines_by(at_50, 2, 1, 3)
        return {"lossy-path": svg("Goodput at 50 ms", "loss, %", "Mbit/s", lines)}
    if example == "internet":
        named = [[*row[:1], f"{row[1]} % loss", *row[2:]] for row in table]
        return {
            "internet-p99": svg("Latency p99", "round trip, ms", "ms", lines_by(named, 1, 0, 4)),
            "internet-goodput": svg(
                "Goodput of a client", "round trip, ms", "Mbit/s", lines_by(named, 1, 0, 5)
            ),
        }
    return {}


EXAMPLES = ("dumbbell", "incast", "thousand-clients", "lossy-path", "internet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("example", nargs="*", help=", ".join(EXAMPLES))
    arguments = parser.parse_args()
    texts = arguments.build / "ns3-study"
    texts.mkdir(exist_ok=True)
    (ROOT / "docs" / "ns3").mkdir(exist_ok=True)
    for example in arguments.example or EXAMPLES:
        program = arguments.build / "sim" / "ns3" / f"ns3-{example}"
        text = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        (texts / f"{example}.txt").write_text(text)
        print(f"== {example}\n{text if len(text) < 4000 else text[-300:]}", flush=True)
        for name, drawing in plots(example, rows(text)).items():
            (ROOT / "docs" / "ns3" / f"{name}.svg").write_text(drawing)


if __name__ == "__main__":
    main()
