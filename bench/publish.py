#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes docs/results.md and docs/comparison.svg from docs/results.json.

    bench/publish.py                              writes both pages
    bench/publish.py --check                      fails if they are not up to date (make lint)
    bench/publish.py --run bench/results/latest.json --machine 'CPU, cores, compiler, commit'
                                                  first replaces the runs in docs/results.json, and
                                                  the comparison by the one of this run
    bench/publish.py --run ... --name C           replaces only the run C, or adds it

docs/results.json holds "comparison" (bars, as multiples of memcached), "runs" (rows as `make bench`
writes them) and "tables" (measurements that `make bench` does not make, with their commands).
"""

import argparse
import json
import pathlib
import sys
from html import escape

import contract

ROOT = pathlib.Path(__file__).resolve().parent.parent
JSON, PAGE, PICTURE = (ROOT / "docs" / name
                       for name in ("results.json", "results.md", "comparison.svg"))

# The rows of the page: (title, [(case, what it is)]).
GROUPS = (
    ("GETs, one request in flight on each of 32 connections", [
        ("memcached", "memcached, loopback"),
        ("sock_depth1", "ucached, kernel sockets, loopback"),
        ("get_tap", "ucached, TAP, client on kernel TCP"),
        ("get_vhost", "ucached, vhost and virtio-user"),
        ("bypass_vhost", "the other server, vhost and virtio-user"),
        ("get_memif", "ucached, memif"),
        ("cycles_per_get", "busy ticks of the server per GET, vhost"),
        ("cycles_per_get_memif", "the same, memif"),
        ("load_cycles_per_get", "busy ticks of ucload per GET, vhost"),
        ("load_cycles_per_get_memif", "the same, memif")]),
    ("AF_XDP on a veth pair, client on kernel TCP", [
        ("memcached_veth", "memcached on the same pair"),
        ("xdp_get", "ucached"),
        ("memcached_veth_depth16", "memcached, 16 requests in flight on each connection"),
        ("xdp_depth16", "ucached, the same")]),
    ("Workers on as many cores, links in memory", [
        (f"scale_{cores}{suffix}", f"{what}, {cores} core{'s' * (cores > 1)}")
        for suffix, what in (("", "GETs"), ("_set10", "10 % SETs"))
        for cores in (1, *contract.SCALE_CORES)]),
    ("TLS 1.3", [
        ("memcached_tls", "memcached with TLS, kernel sockets"),
        ("sock_tls_depth1", "ucached, kernel sockets"),
        ("get_vhost_tls", "ucached, vhost"),
        ("get_vhost_plain", "the same without TLS"),
        ("memcached_tls_depth16", "memcached, 16 requests in flight on each connection"),
        ("sock_tls_depth16", "ucached, kernel sockets, the same"),
        ("sock_values", "values of 1 MB without TLS, ucached, kernel sockets"),
        ("sock_tls_values", "the same with TLS"),
        ("tls_values_limit", "values of 1 MB that the library alone encrypts on one core"),
        ("tls_handshakes_limit", "full handshakes that OpenSSL alone makes on one core"),
        ("memcached_tls_handshakes", "memcached, full handshakes per second of processor time"),
        ("sock_tls_handshakes", "ucached, kernel sockets, the same"),
        ("sock_tls_handshakes_resumed", "the same, resumed")]),
    ("Metrics and the server's latencies", [
        ("metrics_off_vhost", "GETs without `--metrics`, vhost"),
        ("metrics_on_vhost", "the same with `--metrics`, read twice a second"),
        ("latency_server_p50", "median of gets of 5 and 8 MB by `stats latency`, kernel sockets"),
        ("latency_server_p99", "the same, p99")]),
    ("What the links allow", [
        ("frame_limit_vhost", "frames echoed by testpmd, vhost"),
        ("frame_limit_memif", "the same, memif"),
        ("pingpong_own", "16-byte messages echoed by ucping, vhost"),
        ("pingpong_memif", "the same, memif")]),
    ("Larger working sets and values", [
        ("zipf_vhost", "1 M keys by zipf 0.99, 10 % SET, vhost"),
        ("zipf_vhost_cycles", "busy ticks of the server per request, the same"),
        ("etc_vhost", "keys and values of Facebook's ETC, vhost"),
        ("values_65536_vhost", "values of 64 KiB, vhost"),
        ("values_1048000_vhost", "values of 1,048,000 bytes, vhost")]),
    ("Latency", [
        ("latency_half_load", "p99 at half of the peak rate, vhost"),
        ("vhost_rate_mean_1ms", "highest rate with a mean below 1 ms, vhost")]),
    ("Connections", [
        ("idle_100k", "GETs beside 100,000 idle connections, vhost"),
        ("idle_conn_bytes", "memory of an idle connection"),
        ("busy_1000", "GETs on 1,000 connections, vhost"),
        ("busy_10000", "GETs on 10,000 connections, vhost"),
        ("vhost_churn", "connect, one GET, close, vhost"),
        ("sock_churn", "the same, kernel sockets")]),
)

# The bars of the picture: (case, server, name, case of memcached over the same network); {} is
# memcached with its version.
BARS = (
    ("memcached", "memcached", "{}, kernel TCP", "memcached"),
    ("sock_depth1", "ucached", "ucached, kernel sockets", "memcached"),
    ("xdp_get", "ucached", "ucached, AF_XDP", "memcached_veth"),
    ("get_tap", "ucached", "ucached, TAP", "memcached"),
    ("bypass_vhost", "bypass", "other server, vhost", "memcached"),
    ("get_vhost", "ucached", "ucached, vhost", "memcached"),
    ("frame_limit_vhost", "link", "limit of vhost, frames", "memcached"),
    ("get_memif", "ucached", "ucached, memif", "memcached"),
    ("frame_limit_memif", "link", "limit of memif, frames", "memcached"))

WIDTH, BAR, LEFT, RIGHT, TOP = 800, 30, 220, 200, 66
COLOURS = {"memcached": "#9a9a9a", "mimicached": "#d08030", "bypass": "#d08030",
           "ucached": "#2b6cb0", "link": "#dddddd"}
TITLE = "GETs per second on one core, as multiples of memcached's"
CAPTION = "Text protocol, 8-byte keys and values, 32 connections, one request in flight on each"


def comparison_of(rows, machine):
    """The comparison of a run on a machine, or None if the run lacks memcached."""
    found = {row["case"]: row for row in rows}
    if "memcached" not in found:
        return None
    base = found["memcached"]
    bars = []
    for case, server, name, beside in BARS:
        if case in found and beside in found:
            rate, times = found[case]["value"], found[case]["value"] / found[beside]["value"]
            bars.append({"server": server, "name": name.format(base.get("server", "memcached")),
                         "times": round(times, 2),
                         "text": f"{times:.2g} ({rate / 1e6:.2g} M/s)"})
    text = (f"{machine}: one core serves, one core loads, the same client (ucload) for all "
            f"servers, 1,000 keys. {base.get('server', 'memcached')} has `-t 1`, on loopback; "
            "AF_XDP is compared with it on the same veth pair. testpmd echoes frames.")
    if "bypass_vhost" in found:
        text += f" The other server over vhost is `{found['bypass_vhost'].get('server')}`."
    return {"title": TITLE, "caption": CAPTION, "text": text, "bars": bars}


def picture(comparison):
    """The comparison as a bar chart."""
    bars = comparison["bars"]
    height = TOP + BAR * len(bars) + 16
    scale = (WIDTH - LEFT - RIGHT) / max(bar["times"] for bar in bars)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
           'font-family="sans-serif" font-size="13">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text x="12" y="24" font-size="16">{escape(comparison["title"])}</text>',
           f'<text x="12" y="46" font-size="12" fill="#555">{escape(comparison["caption"])}</text>']
    for number, bar in enumerate(bars):
        y = TOP + BAR * number
        colour = COLOURS[bar["server"]]
        out += [f'<text x="{LEFT - 8}" y="{y + 17}" text-anchor="end">{escape(bar["name"])}</text>',
                f'<rect x="{LEFT}" y="{y + 3}" width="{max(2, scale * bar["times"]):.1f}" '
                f'height="{BAR - 10}" fill="{colour}"/>',
                f'<text x="{LEFT + scale * bar["times"] + 8:.1f}" y="{y + 17}">'
                f'{escape(bar["text"])}</text>']
    return "\n".join(out + ["</svg>", ""])


def compact(value, indent=0):
    """JSON with one line for each row, bar or cell list."""
    text = json.dumps(value, ensure_ascii=False)
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (dict, list)) or indent > 2 or not any(
            isinstance(item, (dict, list)) for item in inner):
        return text
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        lines = [f"{pad}{json.dumps(key)}: {compact(item, indent + 1)}"
                 for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(pad + compact(item, indent + 1) for item in value) + \
        "\n" + " " * indent + "]"


def number(value):
    """A value for a table: thousands separated, three digits otherwise."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def cell(row):
    """Value, unit and ratios of a row."""
    unit = {"1/s": "/s", "us": " us", "bytes": " B", "cycles": ""}.get(row["unit"],
                                                                       " " + row["unit"])
    ratios = "; ".join(f"{value:.3g} x {name}" for name, value in row.get("ratio", {}).items())
    return f"{number(row['value'])}{unit}" + (f" ({ratios})" if ratios else "")


def table(heads, lines):
    """Lines of a Markdown table; all columns but the first are aligned to the right."""
    return [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1),
            *(f"| {' | '.join(line)} |" for line in lines), ""]


def page(document):
    """The text of docs/results.md."""
    comparison, runs = document["comparison"], document["runs"]
    out = ["# Results", "",
           "Generated by `bench/publish.py` from `docs/results.json`. "
           "[performance.md](performance.md) says how each row is measured.", "",
           "## Comparison", "", "![Requests per second as multiples of memcached's]"
           "(comparison.svg)", "", comparison["text"], "",
           *table(["server", "times memcached"],
                  [[bar["name"], bar["text"]] for bar in comparison["bars"]]),
           "## Runs of `make bench`", ""]
    out += [f"- *{run['name']}*: {run['machine']}" for run in runs] + [""]
    cells = [{row["case"]: cell(row) for row in run["rows"]} for run in runs]
    for title, cases in GROUPS:
        lines = [[f"{what} (`{case}`)"] + [found.get(case, "–") for found in cells]
                 for case, what in cases if any(case in found for found in cells)]
        if lines:
            out += [f"### {title}", "", *table([""] + [run["name"] for run in runs], lines)]
    out += [line for text in document["notes"] for line in (text, "")]
    for entry in document["tables"]:
        out += [f"## {entry['title']}", "", entry["text"], "",
                *table(entry["heads"], entry["lines"])]
    return "\n".join(out).rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", type=pathlib.Path)
    parser.add_argument("--machine", default="")
    parser.add_argument("--name")
    options = parser.parse_args()
    document = json.loads(JSON.read_text(encoding="utf-8"))
    if options.run:
        rows = json.loads(options.run.read_text(encoding="utf-8"))
        kept = [run for run in document["runs"] if options.name not in (None, run["name"])]
        document["runs"] = [*kept, {"name": options.name or "run", "machine": options.machine,
                                    "rows": rows}]
        document["comparison"] = (comparison_of(rows, options.machine) or
                                  document["comparison"])
        JSON.write_text(compact(document) + "\n", encoding="utf-8")
    for path, text in ((PAGE, page(document)), (PICTURE, picture(document["comparison"]))):
        if not options.check:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path.relative_to(ROOT)}: not what bench/publish.py writes; run it")


if __name__ == "__main__":
    main()
