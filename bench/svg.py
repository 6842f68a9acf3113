# SPDX-License-Identifier: BSD-3-Clause
"""Line charts as SVG, with nothing but the standard library.

    svg = line_chart("Rate", "threads", "M ops/s", {"engine": [(1, 20.5), (2, 40.1)]})
"""

import math
from html import escape

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 72, 190, 44, 56
COLOURS = ("#1f5fbf", "#c8501e", "#2e8b57", "#8a4fbf", "#b8860b", "#c2185b", "#00838f", "#555555",
           "#7cb342", "#5d4037")
DASHES = ("", "6 3", "2 3", "8 3 2 3")


class Axis:
    """Maps values to pixels, linear or logarithmic, and chooses round values for ticks."""

    def __init__(self, values, pixels, is_log):
        low, high = min(values), max(values)
        self.is_log = is_log and low > 0
        self.pixels = pixels
        if self.is_log:
            self.low, self.high = low, high if high > low else low * 10
        else:
            self.low, self.high = min(0, low), high if high > min(0, low) else low + 1

    def at(self, value):
        """The pixel of a value."""
        begin, end = self.pixels
        if self.is_log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return begin + share * (end - begin)

    def ticks(self):
        """Some round values within the axis."""
        if not self.is_log:
            step = 10 ** math.floor(math.log10((self.high - self.low) / 4))
            step *= next((m for m in (1, 2, 5) if (self.high - self.low) / (m * step) <= 8), 10)
            first = math.ceil(self.low / step)
            return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        steps = (1, 2, 5) if len(decades) <= 4 else (1,)
        return [m * 10.0 ** d for d in decades for m in steps
                if self.low * 0.999 <= m * 10.0 ** d <= self.high * 1.001]


def short(value):
    """A number for a tick: 0.05, 20, 10k, 3M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def line_chart(title, x_label, y_label, series, log_x=False, log_y=False, x_names=None):
    """The text of an SVG file.

    series: {name: [(x, y), ...]}; points come in the order of x. x_names: {x: text} replaces the
    numbers below the chart.
    """
    points = [point for line in series.values() for point in line]
    if not points:
        raise ValueError(f"there is nothing to draw for {title!r}")
    across = Axis([x for x, _ in points], (LEFT, WIDTH - RIGHT), log_x)
    up = Axis([y for _, y in points], (HEIGHT - BOTTOM, TOP), log_y)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           f'font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="24" font-size="15">{escape(title)}</text>',
           f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">'
           f'{escape(x_label)}</text>',
           f'<text x="16" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" '
           f'transform="rotate(-90 16 {(TOP + HEIGHT - BOTTOM) / 2})">{escape(y_label)}</text>']
    for value in x_names or across.ticks():
        x = across.at(value)
        name = x_names[value] if x_names else short(value)
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" '
                   f'stroke="#eee"/><text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" '
                   f'text-anchor="middle">{escape(str(name))}</text>')
    for value in up.ticks():
        y = up.at(value)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" '
                   f'stroke="#ddd"/><text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
                   f'{short(value)}</text>')
    for i, (name, line) in enumerate(series.items()):
        style = f'stroke="{COLOURS[i % len(COLOURS)]}" ' \
                f'stroke-dasharray="{DASHES[i // len(COLOURS) % len(DASHES)]}"'
        path = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in line)
        out.append(f'<polyline points="{path}" fill="none" stroke-width="2" {style}/>')
        out += [f'<circle cx="{across.at(x):.1f}" cy="{up.at(y):.1f}" r="3" '
                f'fill="{COLOURS[i % len(COLOURS)]}"/>' for x, y in line]
        y = TOP + 12 + 18 * i
        out.append(f'<line x1="{WIDTH - RIGHT + 14}" y1="{y}" x2="{WIDTH - RIGHT + 38}" y2="{y}" '
                   f'stroke-width="2" {style}/><text x="{WIDTH - RIGHT + 44}" y="{y + 4}">'
                   f'{escape(name)}</text>')
    return "\n".join(out + ["</svg>", ""])
