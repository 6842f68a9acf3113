# SPDX-License-Identifier: BSD-3-Clause
"""The report of `make bench`: Markdown, and one HTML page with plots, from the same rows."""

import html
import math
import re

import contract
import suites
from harness import times

BAR_WIDTH, BAR_HEIGHT, LABEL_WIDTH, VALUE_WIDTH = 420, 18, 250, 170
COLOURS = {"memcached": "#999999", "kernel": "#999999", "other": "#d08030", "bypass": "#d08030"}
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


FASTER = {
    "get_vhost": "on its own stack over vhost", "get_memif": "on its own stack over memif",
    "get_tap": "on its own stack over TAP (its client on kernel TCP)",
    "xdp_get": "on its own stack by AF_XDP (both over veth)",
    "sock_depth1": "on kernel sockets", "sock_depth16": "on kernel sockets, 16 pipelined"}

PIECES = {"ustack": "TCP/IP", "base": "checksums, hashes and rings", "nic": "the device's back end",
          "net": "the loop and its connections", "cache": "memcached's semantics",
          "mcproto": "parsing and formatting", "kv": "the key-value table",
          "libc": "the C library"}


def faster(rows):
    """Ratios to memcached."""
    parts = []
    for case, how in FASTER.items():
        row = find(rows, case)
        ratio = row and (row["ratio"].get("memcached") or row["ratio"].get("memcached_veth"))
        if ratio:
            parts.append(f"{ratio:.2f} times {how} ({number(row['value'])} requests/s, `{case}`)")
    base = find(rows, "memcached") or {}
    lines = [f"How much faster than {base.get('server', 'memcached')}, one core each: "
             f"{'; '.join(parts)}."] if parts else []
    row = find(rows, "get_vhost")
    if row and "bypass_vhost" in row["ratio"]:
        lines.append("How much faster than the other server over vhost: "
                     f"{row['ratio']['bypass_vhost']:.2f} times (`bypass_vhost`).")
    return lines


def load_limit(rows, kind):
    """Whether the load generator is the bottleneck."""
    limit, get = find(rows, f"load_limit_{kind}"), find(rows, f"get_{kind}")
    if not limit or not get:
        return []
    text = (f"What the load can ask for: over {kind} a server that looks nothing up answers ucload "
            f"{number(limit['value'])} requests/s, {limit['value'] / get['value']:.2f} times what "
            "ucached does")
    suffix = "" if kind == "vhost" else f"_{kind}"
    server, load, other = (find(rows, name) for name in (
        f"cycles_per_get{suffix}", f"load_cycles_per_get{suffix}",
        f"load_limit_{kind}_server_cycles"))
    if server and load and other:
        text += (f"; a GET takes {number(load['value'])} busy cycles of ucload's core and "
                 f"{number(server['value'])} of ucached's, a request that server "
                 f"{number(other['value'])}")
    return [text + "."]


def limits(rows):
    """The limit of each link, and the share of it that GETs reach."""
    lines = []
    for kind in ("vhost", "memif"):
        limit, get = find(rows, f"frame_limit_{kind}"), find(rows, f"get_{kind}")
        ping = find(rows, "pingpong_own" if kind == "vhost" else "pingpong_memif")
        if not limit:
            continue
        text = f"What the limit of the link is: {kind} echoes {number(limit['value'])} frames/s"
        if ping:
            text += f", TCP on the own stack {number(ping['value'])} messages of 16 B/s"
        if get:
            text += f"; the GETs/s are {get['value'] / limit['value']:.0%} of the frames"
        lines.append(text + ".")
    lines += [line for kind in ("vhost", "memif") for line in load_limit(rows, kind)]
    ping = find(rows, "pingpong_kernel")
    if ping:
        lines.append("What the limit of kernel sockets is: ping-pong of 16 B on kernel TCP does "
                     f"{number(ping['value'])} messages/s.")
    return lines


def where_time_goes(rows):
    parts = []
    cycles, server = find(rows, "cycles_per_get"), find(rows, "instructions_per_get")
    if cycles:
        parts.append(f"a GET over vhost takes {number(cycles['value'])} busy cycles of the "
                     "server's core")
    pieces = [(row["value"], name) for row in rows for name in PIECES
              if row["case"] == f"instructions_in_{name}"]
    if server:
        text = f"a GET from frame to frame takes {number(server['value'])} instructions"
        if pieces:
            whole = sum(value for value, _ in pieces)
            text += ": " + ", ".join(f"{PIECES[name]} {value / whole:.0%}"
                                     for value, name in sorted(pieces, reverse=True))
        parts.append(text)
    for case, name in (("memcached", "memcached"), ("sock_depth1", "ucached on kernel sockets")):
        share = find(rows, f"{case}_kernel_share")
        if share:
            parts.append(f"{name} spends {share['value']:.0%} of its time in the kernel")
    return ["Where the time goes: " + "; ".join(parts) + "."] if parts else []


def latency(rows):
    """Latency of requests below the limit of the server."""
    row = find(rows, "latency_half_load")
    if not row:
        return []
    beside = row["compared_to"]
    text = (f"How long a request takes at half of what each server can do: 99 of 100 less than "
            f"{number(row['value'])} us on the own stack (`latency_half_load`)")
    if "memcached_p50" in beside:
        text += f", half of memcached's less than {number(beside['memcached_p50'])} us"
    if "memcached_p99" in beside:
        text += f" and 99 of 100 less than {number(beside['memcached_p99'])} us"
    if row.get("stopped_share"):
        text += (f"; a core stood still for {row['stopped_share']:.1%} of that time, "
                 f"{number(row['stopped_longest_us'] / 1e3)} ms at the longest")
    return [text + "."]


def agreement(rows):
    """Whether another client measures the same where the server is the bottleneck."""
    ratio, counted = (find(rows, name) for name in (
        "ucload_to_memcaslap_16k", "memcached_16k_by_ucload_counted"))
    if not ratio or not counted:
        return []
    return [f"What another client says: of a memcached whose core is the bound ucload gets "
            f"{ratio['value']:.3f} times what memcaslap gets, and {counted['value']:.3f} times the "
            "requests that memcached has counted (`ucload_to_memcaslap_16k`)."]


def answers(rows):
    """The answers at the head of the report, as sentences."""
    return (faster(rows) + where_time_goes(rows) + limits(rows) + latency(rows) +
            agreement(rows))


BUSY_SHARE = 0.25  # of the cores: load of other programs at which results are still valid

STOPPED = ("Machine stopped: the share of the time in which a thread that wanted to run on the "
           "server's core or the client's could not, and the longest such time: the host had "
           "stopped the machine, or something else ran. Latencies contain it.")


def stop_text(row):
    """For how long the cores stood still while the row was measured."""
    if "stopped_share" not in row:
        return ""
    return f"{row['stopped_share']:.2%}, up to {number(row['stopped_longest_us'] / 1e3)} ms"


def suite_table(rows):
    """The heads and the lines of the rows of a suite, as texts."""
    heads = ["case", "value", "unit", "median of", "range", "ratio"]
    stops = any("stopped_share" in row for row in rows)
    lines = []
    for row in rows:
        low, high = row.get("lowest", row["value"]), row.get("highest", row["value"])
        lines.append([row["case"], number(row["value"]), row["unit"], str(row["median_of"]),
                      f"{number(low)} - {number(high)}",
                      ", ".join(f"{times(v)} x {k}" for k, v in row["ratio"].items())])
        if stops:
            lines[-1].append(stop_text(row))
    return heads + ["machine stopped"] * stops, lines


def introduction(document):
    """What was measured where, and how reliable the values are."""
    rounds, seconds = (document["machine"].get(name, 0) for name in ("rounds", "seconds each"))
    out = [f"ucached beside memcached on this machine, by `make bench` on "
           f"{document['machine'].get('date', 'some day')}, {rounds} "
           f"{'round' if rounds == 1 else 'rounds'}, in each of which every case of a comparison "
           f"is measured for {seconds:g} s; values are medians. Ratios above 1 are in favour of "
           "the row. docs/performance.md says more of the method.",
           "vhost and memif are links in memory between two programs on their own TCP/IP stacks, "
           "TAP is a device of the kernel between such a stack and kernel TCP, sock is kernel TCP "
           "on both sides."]
    busy = document["machine"].get("cores busy before", 0)
    if busy > BUSY_SHARE * document["machine"].get("cpus", 1):
        out.append(f"Other programs kept {busy:g} cores busy in the minute before this began: they "
                   "are in all of its times.")
    if rounds < 3 or seconds < 0.5:
        out.append("So few and short rounds show that everything runs; their figures mean little.")
    return out


MET = ("met: the aim, only the must, or no, neither of them. Figures are those of the row, or how "
       "many times it is what it is compared with.")


def lead(line, form):
    """An answer with its question, which ends at the first colon, in this form."""
    question, colon, rest = line.partition(":")
    return form.format(question + colon) + rest


def markdown(document, rows):
    out = ["# Measured\n"]
    out += [f"- {lead(line, '**{}**')}" for line in answers(rows)]
    out += [line for text in introduction(document) for line in ("", text)]
    out += ["", "## The contract", "", MET, "", f"| {' | '.join(contract.HEADS)} |",
            "|---|---|---:|---:|---:|---|"]
    out += [f"| {' | '.join(line)} |" for line in contract.table(rows)]
    out += ["", "## The machine", ""]
    out += [f"- {name}: {value}" for name, value in document["machine"].items()]
    out += [f"- {name}: {value}" for name, value in document["versions"].items()]
    for suite in dict.fromkeys(row["suite"] for row in rows):
        mine = [row for row in rows if row["suite"] == suite]
        heads, lines = suite_table(mine)
        out += ["", f"## {suite}", *(line for text in suites.about(suite) for line in ("", text)),
                "", f"| {' | '.join(heads)} |",
                "|---|---:|---|---:|---|---|" + "---|" * (len(heads) - 6)]
        out += [f"| {' | '.join(line)} |" for line in lines]
        out += ["", STOPPED] if "machine stopped" in heads else []
        commands = dict.fromkeys(row["command"] for row in mine if "command" in row)
        out += ["", "<details><summary>commands</summary>", ""]
        out += [f"    {command}" for command in commands]
        out += ["", "</details>"]
    if document["skipped"]:
        out += ["", "## Not measured", ""]
        out += [f"- {s['suite']}, {s['what']}: {s['why']}" for s in document["skipped"]]
    return "\n".join(out) + "\n"


# ---- plots --------------------------------------------------------------------------------------


UNITS = {"1/s": "per second", "us": "microseconds", "B": "bytes"}


def bars(unit, rows):
    """Horizontal bars of rows of one unit, with a line from the lowest round to the highest."""
    title = UNITS.get(unit, unit)
    most = max((max(row["value"], row.get("highest", 0)) for row in rows), default=0) or 1
    height = len(rows) * (BAR_HEIGHT + 6) + 30
    out = [f'<svg width="{LABEL_WIDTH + BAR_WIDTH + VALUE_WIDTH}" height="{height}" role="img">',
           f'<text x="0" y="16" class="title">{html.escape(title)}</text>']

    def at(value):
        return LABEL_WIDTH + value / most * BAR_WIDTH

    for i, row in enumerate(rows):
        y = 26 + i * (BAR_HEIGHT + 6)
        width = max(1, row["value"] / most * BAR_WIDTH)
        ratio = row["ratio"].get("memcached") or row["ratio"].get("kernel")
        label = number(row["value"]) + (f"  ({times(ratio)} x)" if ratio else "")
        out += [f'<text x="{LABEL_WIDTH - 8}" y="{y + 13}" text-anchor="end">'
                f'{html.escape(row["case"])}</text>',
                f'<rect x="{LABEL_WIDTH}" y="{y}" width="{width:.1f}" height="{BAR_HEIGHT}" '
                f'fill="{colour(row["case"])}"/>',
                f'<path d="M{at(row.get("lowest", row["value"])):.1f} {y + 9}H'
                f'{at(row.get("highest", row["value"])):.1f}" stroke="#222"/>',
                f'<text x="{at(max(row["value"], row.get("highest", 0))) + 6:.1f}" y="{y + 13}">'
                f'{label}</text>']
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


def html_table(heads, lines):
    out = ["<table><tr>", *(f"<th>{html.escape(head)}</th>" for head in heads), "</tr>"]
    for line in lines:
        out.append(f"<tr class='{html.escape(str(line[-1]))}'>")
        out += [f"<td>{html.escape(str(cell))}</td>" for cell in line]
        out.append("</tr>")
    return "\n".join([*out, "</table>"])


def page(document, rows):
    out = ["<!doctype html><html lang='en'><meta charset='utf-8'><title>ucached: measured</title>",
           "<style>body{font:14px sans-serif;margin:2em;max-width:60em}svg text{font:12px "
           "sans-serif}svg .title{font-weight:bold}td,th{padding:2px 10px;text-align:left}"
           "svg{display:block;margin:1em 0}tr.no td{background:#fbdcdc}tr.must td{background:"
           "#fdf6d8}tr.aim td{background:#e0f3e0}</style>", "<h1>ucached: measured</h1><ul>"]
    out += [f"<li>{lead(html.escape(line), '<b>{}</b>')}</li>" for line in answers(rows)]
    out.append("</ul>")
    out += [f"<p>{html.escape(text)}</p>" for text in introduction(document)]
    out += ["<p>In the plots a line over each bar goes from its lowest round to its highest; in "
            "brackets: times memcached, or times kernel TCP.</p>",
            f"<h2>The contract</h2><p>{html.escape(MET)}</p>",
            html_table(contract.HEADS, contract.table(rows)),
            "<h2>The machine</h2>", html_table(("", ""), list({**document["machine"],
                                                               **document["versions"]}.items()))]
    for suite in dict.fromkeys(row["suite"] for row in rows):
        mine = [row for row in rows if row["suite"] == suite]
        out.append(f"<h2>{html.escape(suite)}</h2>")
        out += [f"<p>{html.escape(text)}</p>" for text in suites.about(suite)]
        if suite == "latency":
            out.append(curves(mine))
            mine = [row for row in mine if "_at_" not in row["case"]]
        for unit in dict.fromkeys(row["unit"] for row in mine):
            out.append(bars(unit, [row for row in mine if row["unit"] == unit]))
        commands = dict.fromkeys(row["command"] for row in mine if "command" in row)
        out += ["<details><summary>commands</summary><pre>",
                *(html.escape(command) for command in commands), "</pre></details>"]
    if document["skipped"]:
        out.append("<h2>Not measured</h2><ul>")
        out += [f"<li>{html.escape(s['suite'])}, {html.escape(s['what'])}: "
                f"{html.escape(s['why'])}</li>" for s in document["skipped"]]
        out.append("</ul>")
    return "\n".join(out) + "\n"
