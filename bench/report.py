# SPDX-License-Identifier: BSD-3-Clause
"""The report of `make bench`: Markdown, and one HTML page with plots, from the same rows."""

import html
import math
import re

BAR_WIDTH, BAR_HEIGHT, LABEL_WIDTH, VALUE_WIDTH = 420, 18, 250, 170
COLOURS = {"memcached": "#999999", "kernel": "#999999", "other": "#d08030"}
PLOT_WIDTH, PLOT_HEIGHT, MARGIN = 560, 260, 56


def number(value):
    if value == 0:
        return "0"
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g} M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.3g} k"
    return f"{value:.4g}"


def colour(case):
    return next((c for word, c in COLOURS.items() if case.startswith(word)), "#2b6cb0")


def find(rows, case):
    return next((row for row in rows if row["case"] == case), None)


def answers(rows):
    """The three questions that the report is for, as sentences."""
    lines = []
    for case in ("get_vhost", "get_memif", "get_tap", "sock_depth1", "sock_depth16"):
        row = find(rows, case)
        if row and "memcached" in row["ratio"]:
            lines.append(f"How much faster than memcached: `{case}` answers {number(row['value'])} "
                         f"requests/s, {row['ratio']['memcached']:.2f} times memcached.")
    for kind in ("vhost", "memif"):
        limit, get = find(rows, f"frame_limit_{kind}"), find(rows, f"get_{kind}")
        ping = find(rows, "pingpong_own" if kind == "vhost" else "pingpong_memif")
        if limit:
            text = f"What the limit of the link is: {kind} echoes {number(limit['value'])} frames/s"
            if ping:
                text += f", TCP over the own stack {number(ping['value'])} messages/s"
            if get:
                text += f", and of these a GET gets {get['value'] / limit['value']:.0%}"
            lines.append(text + ".")
    server, client = find(rows, "instructions_per_get"), find(rows, "ucload_instructions_per_get")
    if server and client:
        parse = find(rows, "parse_instructions_get")
        text = (f"Where the time goes: a GET takes {number(server['value'])} instructions of the "
                "server, from frame to frame")
        if parse:
            text += f", {number(parse['value'])} of them to parse and to answer"
        lines.append(f"{text}; the client's side takes {number(client['value'])}.")
    return lines


def markdown(document, rows):
    out = ["# Measured\n"]
    out += [f"- {name}: {value}" for name, value in document["machine"].items()]
    out += [f"- {name}: {value}" for name, value in document["versions"].items()]
    out += ["", "Ratios above 1 are in favour of the row. Values are medians; the range is that of "
            "all rounds.", ""]
    out += [f"- {line}" for line in answers(rows)]
    for suite in dict.fromkeys(row["suite"] for row in rows):
        out += ["", f"## {suite}", "", "| case | value | unit | median of | range | ratio |",
                "|---|---:|---|---:|---|---|"]
        for row in (r for r in rows if r["suite"] == suite):
            ratio = ", ".join(f"{v:.2f} x {k}" for k, v in row["ratio"].items())
            low, high = row.get("lowest", row["value"]), row.get("highest", row["value"])
            out.append(f"| {row['case']} | {number(row['value'])} | {row['unit']} | "
                       f"{row['median_of']} | {number(low)} - {number(high)} | {ratio} |")
        commands = dict.fromkeys(r["command"] for r in rows if r["suite"] == suite and
                                 "command" in r)
        out += ["", "<details><summary>commands</summary>", ""]
        out += [f"    {command}" for command in commands]
        out += ["", "</details>"]
    if document["skipped"]:
        out += ["", "## Not measured", ""]
        out += [f"- {s['suite']}, {s['what']}: {s['why']}" for s in document["skipped"]]
    return "\n".join(out) + "\n"


# ---- plots --------------------------------------------------------------------------------------


def bars(title, rows):
    """Horizontal bars of rows of one unit."""
    most = max((row["value"] for row in rows), default=0) or 1
    height = len(rows) * (BAR_HEIGHT + 6) + 30
    out = [f'<svg width="{LABEL_WIDTH + BAR_WIDTH + VALUE_WIDTH}" height="{height}" role="img">',
           f'<text x="0" y="16" class="title">{html.escape(title)}</text>']
    for i, row in enumerate(rows):
        y = 26 + i * (BAR_HEIGHT + 6)
        width = max(1, row["value"] / most * BAR_WIDTH)
        ratio = row["ratio"].get("memcached") or row["ratio"].get("kernel")
        label = number(row["value"]) + (f"  ({ratio:.2f} x)" if ratio else "")
        out += [f'<text x="{LABEL_WIDTH - 8}" y="{y + 13}" text-anchor="end">'
                f'{html.escape(row["case"])}</text>',
                f'<rect x="{LABEL_WIDTH}" y="{y}" width="{width:.1f}" height="{BAR_HEIGHT}" '
                f'fill="{colour(row["case"])}"/>',
                f'<text x="{LABEL_WIDTH + width + 6:.1f}" y="{y + 13}">{label}</text>']
    return "\n".join([*out, "</svg>"])


def curves(rows):
    """p50, p99 and p99.9 over the share of the peak, a line for each server."""
    pattern = re.compile(r"(\w+)_(p[\d.]+)_at_(\d+)")
    points = {}
    for row in rows:
        if found := pattern.fullmatch(row["case"]):
            points.setdefault(found[2], {}).setdefault(found[1], []).append(
                (int(found[3]), row["value"]))
    return "\n".join(lines(f"{quantile} over load", servers)
                     for quantile, servers in points.items())


def lines(title, servers):
    """Lines over 0..100 percent; a logarithmic axis of microseconds."""
    values = [v for points in servers.values() for _, v in points if v > 0]
    if not values:
        return ""
    low, high = min(values) / 1.2, max(values) * 1.2
    palette = ["#999999", "#2b6cb0", "#2f855a", "#d08030"]

    def at(share, value):
        x = MARGIN + share / 100 * PLOT_WIDTH
        y = math.log(value / low) / math.log(high / low)
        return f"{x:.1f},{MARGIN + (1 - y) * PLOT_HEIGHT:.1f}"

    out = [f'<svg width="{PLOT_WIDTH + 2 * MARGIN + 90}" height="{PLOT_HEIGHT + 2 * MARGIN}" '
           f'role="img"><text x="0" y="16" class="title">{html.escape(title)}</text>',
           f'<rect x="{MARGIN}" y="{MARGIN}" width="{PLOT_WIDTH}" height="{PLOT_HEIGHT}" '
           f'fill="none" stroke="#ccc"/>',
           f'<text x="2" y="{MARGIN + 10}">{number(high)} us</text>',
           f'<text x="2" y="{MARGIN + PLOT_HEIGHT}">{number(low)} us</text>',
           f'<text x="{MARGIN}" y="{MARGIN + PLOT_HEIGHT + 18}">0 % of its peak</text>',
           f'<text x="{MARGIN + PLOT_WIDTH - 30}" y="{MARGIN + PLOT_HEIGHT + 18}">100 %</text>']
    for i, (server, points) in enumerate(servers.items()):
        points = sorted(point for point in points if point[1] > 0)
        path = " ".join(at(*point) for point in points)
        out += [f'<polyline points="{path}" fill="none" stroke="{palette[i % 4]}" '
                'stroke-width="2"/>',
                f'<text x="{MARGIN + PLOT_WIDTH + 6}" y="{MARGIN + 14 + 18 * i}" '
                f'fill="{palette[i % 4]}">{html.escape(server)}</text>']
    return "\n".join([*out, "</svg>"])


def page(document, rows):
    out = ["<!doctype html><meta charset='utf-8'><title>ucached: measured</title>",
           "<style>body{font:14px sans-serif;margin:2em;max-width:60em}svg text{font:12px "
           "sans-serif}svg .title{font-weight:bold}td,th{padding:2px 10px;text-align:left}"
           "svg{display:block;margin:1em 0}</style>", "<h1>ucached: measured</h1><table>"]
    for name, value in {**document["machine"], **document["versions"]}.items():
        out.append(f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>")
    out.append("</table><ul>")
    out += [f"<li>{html.escape(line)}</li>" for line in answers(rows)]
    out.append("</ul>")
    for suite in dict.fromkeys(row["suite"] for row in rows):
        mine = [row for row in rows if row["suite"] == suite]
        out.append(f"<h2>{html.escape(suite)}</h2>")
        if suite == "latency":
            out.append(curves(mine))
            mine = [row for row in mine if "_at_" not in row["case"]]
        for unit in dict.fromkeys(row["unit"] for row in mine):
            out.append(bars(unit, [row for row in mine if row["unit"] == unit]))
    if document["skipped"]:
        out.append("<h2>Not measured</h2><ul>")
        out += [f"<li>{html.escape(s['suite'])}, {html.escape(s['what'])}: "
                f"{html.escape(s['why'])}</li>" for s in document["skipped"]]
        out.append("</ul>")
    return "\n".join(out) + "\n"
