# SPDX-License-Identifier: BSD-3-Clause
"""The rules and the dashboard of packaging/, loaded by a real Prometheus that scrapes a server."""

import json
import pathlib
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request

import metrics
import pytest
import server as servers
from wire import STORED, storage

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGED = ROOT / "packaging" / "prometheus"
DASHBOARD = ROOT / "packaging" / "grafana" / "ucached.json"
VARIABLES = {"$instance": ".*", "$command": ".*", "$__rate_interval": "1m"}

pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus")


class Prometheus:
    """A Prometheus on loopback with the packaged configuration, which scrapes each second."""

    def __init__(self, folder, target):
        self.url = f"http://127.0.0.1:{servers.free_port()}"
        config = (PACKAGED / "prometheus.yml").read_text()
        config = config.replace("10s", "1s").replace("127.0.0.1:9150", target)
        (folder / "prometheus.yml").write_text(config)
        shutil.copy(PACKAGED / "ucached.rules.yml", folder)
        self.log = open(folder / "prometheus.log", "wb")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml",
             f"--storage.tsdb.path={folder}/data",
             "--web.listen-address=" + self.url.removeprefix("http://")],
            stdout=self.log, stderr=subprocess.STDOUT)  # fmt: skip

    def get(self, path, **query):
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=60) as reply:
            return json.load(reply)["data"]

    def query(self, expression):
        return self.get("query", query=expression)["result"]

    def wait_for(self, condition, limit_s=60):
        end = time.monotonic() + limit_s
        while True:
            assert self.process.poll() is None and time.monotonic() < end
            try:
                if result := condition():
                    return result
            except OSError:  # it does not answer yet
                pass
            time.sleep(0.2)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


@pytest.fixture(scope="module")
def scraped(ucached_path, tmp_path_factory):
    """A server with some requests, and a Prometheus that has scraped it twice."""
    folder = tmp_path_factory.mktemp("prometheus")
    server = servers.start_sock(ucached_path, folder / "log", ["--metrics=0", "-u", "root"])
    prometheus = Prometheus(folder, f"127.0.0.1:{metrics.port(server)}")
    try:
        with server.connect() as connection:
            assert connection.ask(storage(b"set", b"k", b"v")) == STORED
            for _ in range(2):
                before = prometheus.wait_for(
                    lambda: prometheus.query("ucached_cmd_get_total")[0:1]
                )[0]["value"][1]
                connection.ask(b"get k\r\n", b"END\r\n")
                prometheus.wait_for(
                    lambda before=before: prometheus.query(f"ucached_cmd_get_total > {before}")
                )
        yield prometheus
    finally:
        prometheus.close()
        server.stop()


def test_promtool_accepts_the_files():
    for kind, name in (("config", "prometheus.yml"), ("rules", "ucached.rules.yml")):
        done = subprocess.run(["promtool", "check", kind, PACKAGED / name], capture_output=True,
                              text=True, timeout=60, check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_scraped_values(scraped):
    """Prometheus takes the text as OpenMetrics, with types and HELP."""
    assert scraped.query("ucached_get_hits_total")[0]["value"][1] == "2"
    gets = scraped.query('ucached_request_latency_seconds_count{command="get"}')
    assert gets[0]["value"][1] == "2"
    quantile = "histogram_quantile(0.99, sum by (le) (ucached_request_latency_seconds_bucket))"
    assert 0 < float(scraped.query(quantile)[0]["value"][1]) < 20
    kinds = scraped.get("metadata")
    assert kinds["ucached_request_latency_seconds"][0]["type"] == "histogram"
    assert kinds["ucached_kv_epoch_lag"][0]["type"] == "gauge"
    assert kinds["ucached_cmd_get"][0]["type"] == "counter"


def test_rules(scraped):
    """All rules are evaluated without error, and a healthy server raises no alert."""

    def evaluated():
        rules = [r for group in scraped.get("rules")["groups"] for r in group["rules"]]
        return len(rules) > 5 and all(r["health"] != "unknown" for r in rules) and rules

    rules = scraped.wait_for(evaluated, 120)
    assert [(r["name"], r.get("lastError")) for r in rules if r["health"] != "ok"] == []
    assert [r["name"] for r in rules if r.get("state") == "firing"] == []


def expressions():
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            yield panel["title"], expression


def test_dashboard(scraped):
    """All expressions of the dashboard are valid and name metrics that a server has."""
    known = set(scraped.get("label/__name__/values"))
    stack = (ROOT / "src/ustack/core/counters.h").read_text()
    stack += (ROOT / "src/net/net_stats.c").read_text()
    for title, expression in expressions():
        scraped.query(expression)
        for name in re.findall(r"\bucached_\w+", re.sub(r"instance:\w+:\w+", "", expression)):
            line = name.removeprefix("ucached_ustack_").removesuffix("_total")
            assert name in known or f'"{line}"' in stack, f"{title}: {name}"
