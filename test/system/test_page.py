# SPDX-License-Identifier: BSD-3-Clause
"""The page of --metrics in headless Chromium, driven over WebDriver.

With SCREENSHOTS=FOLDER in the environment the pictures of docs/metrics.md are written there.
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import time
import urllib.request

import metrics
import pytest
import server as servers

pytestmark = pytest.mark.skipif(
    shutil.which("chromedriver") is None or shutil.which("chromium") is None,
    reason="no chromium or chromedriver",
)
PLOTS = {"throughput", "latency", "hits", "memory", "items", "connections", "bytes", "drops", "cpu"}
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--hide-scrollbars", "--window-size=1320,920")  # fmt: skip


class Browser:
    """A session of a chromedriver on loopback."""

    def __init__(self, log):
        port = servers.free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=log, stderr=subprocess.STDOUT
        )
        options = {"args": FLAGS, "binary": shutil.which("chromium")}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            self._wait_until_it_listens()
            made = self.call("/session", {"capabilities": {"alwaysMatch": wanted}})
            self.url += "/session/" + made["sessionId"]
        except BaseException:
            self.close()
            raise

    def _wait_until_it_listens(self):
        end = time.monotonic() + 60
        while True:
            try:
                self.call("/status")
                return
            except OSError:
                assert self.process.poll() is None and time.monotonic() < end
                time.sleep(0.1)

    def call(self, path, body=None):
        """GET, or POST of a body."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)["value"]

    def run(self, script):
        return self.call("/execute/sync", {"script": script, "args": []})

    def wait_for(self, script, limit_s=60):
        end = time.monotonic() + limit_s
        while not (result := self.run("return " + script)):
            assert time.monotonic() < end, self.run("return document.body.innerText")
            time.sleep(0.1)
        return result

    def colors(self, scheme):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        media = {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [feature]}}
        self.call("/goog/cdp/execute", media)

    def screenshot(self, name):
        if folder := os.environ.get("SCREENSHOTS"):
            picture = base64.b64decode(self.call("/screenshot"))
            (pathlib.Path(folder) / name).write_bytes(picture)

    def close(self):
        try:
            if "/session/" in self.url:
                request = urllib.request.Request(self.url, method="DELETE")
                urllib.request.urlopen(request, timeout=60).close()
        finally:
            self.process.terminate()
            self.process.wait()


@pytest.fixture
def browser(tmp_path):
    with open(tmp_path / "chromedriver.log", "wb") as log:
        opened = Browser(log)
        try:
            yield opened
        finally:
            opened.close()


@pytest.mark.server_args("--metrics=0", "-t", "1")
def test_page(browser, server_sock, ucached_path):
    seconds = float(os.environ.get("SCREENSHOT_SECONDS", 0))
    ucload = pathlib.Path(ucached_path).parents[1] / "ucload" / "ucload"
    host, port = server_sock.address
    load = server_sock.popen(
        [ucload, "--io=sock", f"--server={host}:{port}", "--mix=get:9,set:1", "-c8", "--rate=4000",
         "--time=200", "--keys=20000", "--no-preload"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
    try:
        browser.call("/url", {"url": f"http://127.0.0.1:{metrics.port(server_sock)}/"})
        browser.wait_for("Number(document.querySelector('#throughput .now').dataset.value) > 0")
        browser.wait_for("Number(document.querySelector('#latency .now').dataset.value) > 0")
        time.sleep(seconds)  # for the pictures only
        check_plots(browser)
        for scheme in ("light", "dark"):
            browser.colors(scheme)
            browser.screenshot(f"metrics-{scheme}.png")
        check_controls(browser)
    finally:
        load.kill()
        load.wait()
    server_sock.stop()
    browser.wait_for("document.querySelector('#state').className === 'bad'")
    messages = [entry["message"] for entry in browser.call("/se/log", {"type": "browser"})]
    assert [message for message in messages if "/metrics" not in message] == []


def check_plots(browser):
    """Every plot has curves and a legend, and nothing was loaded from elsewhere."""
    plots = "[...document.querySelectorAll('main section')]"
    assert set(browser.run(f"return {plots}.map(s => s.id)")) == PLOTS
    browser.wait_for(f"{plots}.every(s => s.querySelector('path') && s.querySelector('.legend b'))")
    assert browser.run("return document.querySelector('#state').textContent") == "live"
    loaded = browser.run("return performance.getEntriesByType('resource').map(e => e.name)")
    assert {name.split("/")[-1] for name in loaded} == {"metrics"}
    assert browser.run("return document.body.innerHTML.includes('NaN')") is False


def check_controls(browser):
    """The choice of a command, the table with its filter, the pause."""
    browser.run("document.querySelector('details').open = true")
    browser.run("document.querySelector('#filter').value = 'kv_epoch_lag'")
    browser.wait_for("document.querySelectorAll('#rows tr').length === 1")
    assert "slowest worker" in browser.run("return document.querySelector('#rows').textContent")
    browser.run("""const s = document.querySelector('#latency select');
                   s.value = 'set'; s.dispatchEvent(new Event('change'));""")
    browser.wait_for("Number(document.querySelector('#latency .now').dataset.value) > 0")
    browser.run("document.querySelector('#pause').click()")
    browser.wait_for("document.querySelector('#state').textContent === 'paused'")
    browser.run("document.querySelector('#pause').click()")
    browser.wait_for("document.querySelector('#state').textContent === 'live'")
