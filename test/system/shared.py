# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures for tables of requests: one server for a whole module, emptied for each test.

Import both into a test module: `from shared import shared_server, wire  # noqa: F401`.
"""

import pytest
import server as servers
from wire import wire_to


@pytest.fixture(scope="module", params=["sock", "tap", "unix"])
def shared_server(request, tmp_path_factory, ucached_path):
    """ucached in each way, with its defaults; it must be alive at the end of the module."""
    starters = {"sock": servers.start_sock, "tap": servers.start_tap, "unix": servers.start_unix}
    start = starters[request.param]
    if request.param == "tap" and (reason := request.getfixturevalue("tap_obstacle")):
        pytest.skip(f"tap: {reason}")
    log_path = tmp_path_factory.mktemp("shared") / f"{request.param}.log"
    server = start(ucached_path, log_path, [])
    yield server
    server.stop()


@pytest.fixture
def wire(shared_server):
    """A connection to the shared server, which has been emptied."""
    with wire_to(shared_server) as connection:
        connection.say(b"flush_all\r\n", b"OK\r\n")
        yield connection
