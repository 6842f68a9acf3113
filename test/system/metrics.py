# SPDX-License-Identifier: BSD-3-Clause
"""The HTTP server of --metrics as a client sees it, and a strict reader of OpenMetrics text."""

import http.client
import re
import subprocess
import time

CONTENT = "application/openmetrics-text; version=1.0.0; charset=utf-8"
SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "info": ("_info",),
    "histogram": ("_bucket", "_count", "_sum"),
}
LABEL = r'\w+="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"([a-z]\w*)(\{{{LABEL}(?:,{LABEL})*\}})? (\S+)")


def port(server):
    """The port of the listener, from the server's log."""
    return int(re.search(r"metrics on http://\S+:(\d+)/", server.log())[1])


def run(server, function):
    """Runs a function where the listener can be reached, whose loopback interface is up."""
    if server.kind == "tap":
        up = ["ip", "link", "set", "lo", "up"]
        server.home.run(subprocess.run, up, check=True, timeout=60)
    return server.home.run(function)


def ask(server, path="/metrics", method="GET", body=None):
    """One request. Returns status, headers and body."""

    def exchange():
        connection = http.client.HTTPConnection("127.0.0.1", port(server), timeout=60)
        try:
            connection.request(method, path, body)
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read().decode()
        finally:
            connection.close()

    return run(server, exchange)


def parse(text):
    """Values by sample name with labels, and type, unit and HELP by family. Fails if malformed."""
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""], lines[-3:]
    values, families, family = {}, {}, None
    for line in lines[:-2]:
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert family not in families, f"{family} twice"
            assert re.fullmatch(r"ucached_[a-z0-9_]+", family), family
            families[family] = {"type": kind}
        elif line.startswith("#"):
            _, what, name, rest = line.split(" ", 3)
            assert name == family and what in ("UNIT", "HELP") and what not in families[family]
            assert what != "UNIT" or family.endswith("_" + rest), line
            families[family][what] = rest
        else:
            name, labels, value = SAMPLE.fullmatch(line).groups()
            suffixes = SUFFIXES[families[family]["type"]]
            assert name in [family + suffix for suffix in suffixes], line
            assert name + (labels or "") not in values, line
            values[name + (labels or "")] = float(value)
    return values, families


def scrape(server):
    status, headers, text = ask(server)
    assert (status, headers["Content-Type"]) == (200, CONTENT)
    return parse(text)


def scrape_until(server, wanted, limit_s=20):
    """Scrapes until wanted(values): a text is at most 0.2 s old, counters of a worker 0.1 s."""
    end = time.monotonic() + limit_s
    while not wanted(values := scrape(server)[0]):
        assert time.monotonic() < end, values
        time.sleep(0.05)
    return values
