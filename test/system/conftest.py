# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the system tests: servers as processes. README.md says how to use them."""

import contextlib
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import hugepages  # noqa: E402
import netspace  # noqa: E402
import server as servers  # noqa: E402
import strict  # noqa: E402

# Another program may take a free port before the server listens on it.
START_ATTEMPTS = 3

LIMIT_S = 300

STARTED = pytest.StashKey[list]()


def pytest_addoption(parser):
    parser.addoption(
        "--sample", type=int, default=0, metavar="N",
        help="of the cases of each parametrised test only N, evenly spread (default: all)",
    )  # fmt: skip
    parser.addoption(
        "--rest", type=int, default=0, metavar="N",
        help="without the tests that -m 'not long' --sample=N runs",
    )  # fmt: skip


def sample(items, count):
    """`count` cases of each test, evenly spread from the first to the last one, as a set."""
    cases = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = set()
    for of_test in cases.values():
        last = len(of_test) - 1
        kept |= {of_test[number * last // max(1, count - 1)] for number in range(count)}
    return kept


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config, items):
    """Deselects the cases that --sample or --rest leaves out."""
    kept = set(items)
    if count := config.getoption("--sample"):
        kept = sample(items, count)
    if count := config.getoption("--rest"):
        kept -= sample([item for item in items if not item.get_closest_marker("long")], count)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def pytest_configure(config):
    config.pluginmanager.register(strict.pytest_plugin())
    config.addinivalue_line(
        "markers", "server_args(*args): further arguments of ucached for the server fixtures"
    )
    config.addinivalue_line("markers", "udp_args(*args): the same for those of test_udp.py")
    config.addinivalue_line("markers", "long: not part of `make check`, but of `make check-all`")
    config.addinivalue_line(
        "markers", f"limit(seconds): how long the test may take, instead of {LIMIT_S} s"
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the logs of the servers of a failed test to its report."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for server in item.stash.get(STARTED, []):
            title = f"log of {server.kind} (pid {server.pid})"
            report.sections.append((title, server.log()))


@pytest.fixture(scope="session")
def ucload_path(ucached_path):
    """The ucload beside the ucached under test."""
    path = pathlib.Path(ucached_path).parent.parent / "ucload" / "ucload"
    if not os.access(path, os.X_OK):
        path = pathlib.Path(os.environ.get("UCLOAD", path))
    assert os.access(path, os.X_OK), f"no program {path}: build it, or set UCLOAD"
    return str(path)


@pytest.fixture(autouse=True)
def limit(request):
    """Fails a test that hangs, where no timeout of a single operation does."""
    marker = request.node.get_closest_marker("limit")
    seconds = marker.args[0] if marker else LIMIT_S

    def on_alarm(number, frame):
        pytest.fail(f"not finished after {seconds} s")

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(seconds)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def huge_page_lock():
    """No other test reserves huge pages meanwhile."""
    with hugepages.exclusive():
        yield


@pytest.fixture(scope="session")
def make_open_folder():
    """A function that makes folders that other users may enter. Pytest closes its own to them.

    It does so at each of its starts, also beside tests that run.
    """
    with contextlib.ExitStack() as folders:

        def make():
            folder = folders.enter_context(tempfile.TemporaryDirectory(prefix="ucached-"))
            os.chmod(folder, 0o755)
            return pathlib.Path(folder)

        yield make


@pytest.fixture(scope="session")
def ucached_path():
    """The program under test: $UCACHED, or where the build puts it. Missing is a failure."""
    if "UCACHED" in os.environ:
        candidates = [pathlib.Path(os.environ["UCACHED"]).resolve()]
    else:
        candidates = [ROOT / "build" / "release" / "apps" / "ucached" / "ucached"]
    for path in candidates:
        if os.access(path, os.X_OK) and path.is_file():
            return str(path)
    pytest.fail(f"no program {' or '.join(map(str, candidates))}: build it, or set UCACHED")


@pytest.fixture(scope="session")
def tap_obstacle(ucached_path):
    """None if tests of the own stack can run here, else the reason why they cannot."""
    return netspace.why_not() or servers.missing(ucached_path, servers.STACK)


@pytest.fixture(scope="session")
def memcached_path():
    """The distribution's memcached: $MEMCACHED, or the one in the path."""
    path = os.environ.get("MEMCACHED") or shutil.which("memcached")
    if path is None:
        pytest.skip("memcached is not installed")
    return path


@pytest.fixture
def start_server(request, tmp_path):
    """A function that starts servers: start_server(kind, *args), of a kind of server.Server.

    All of them are stopped after the test, which fails if one has died or does not stop.
    """
    started = request.node.stash.setdefault(STARTED, [])
    starters = {
        "sock": ("ucached_path", servers.start_sock),
        "tap": ("ucached_path", servers.start_tap),
        "unix": ("ucached_path", servers.start_unix),
        "memcached": ("memcached_path", servers.start_memcached),
    }

    def start(kind, *args):
        path_fixture, starter = starters[kind]
        if kind == "tap" and (reason := request.getfixturevalue("tap_obstacle")):
            pytest.skip(f"tap: {reason}")
        path = request.getfixturevalue(path_fixture)
        log_path = tmp_path / f"{kind}-{len(started)}.log"
        for attempt in range(START_ATTEMPTS):
            try:
                server = starter(path, log_path, list(map(str, args)))
                break
            except servers.ServerError as error:
                lost_port = "in use" in str(error) and kind != "tap"
                if not lost_port or attempt == START_ATTEMPTS - 1:
                    raise
        started.append(server)
        return server

    yield start
    errors = []
    for server in started:
        try:
            server.stop()
        except servers.ServerError as error:
            errors.append(str(error))
    if errors:
        pytest.fail("\n\n".join(errors))


def _marked_args(request):
    marker = request.node.get_closest_marker("server_args")
    return marker.args if marker else ()


@pytest.fixture
def server_sock(request, start_server):
    """ucached on kernel sockets."""
    return start_server("sock", *_marked_args(request))


@pytest.fixture
def server_tap(request, start_server):
    """ucached on its own stack over TAP, in a new network namespace."""
    return start_server("tap", *_marked_args(request))


@pytest.fixture(params=["sock", "tap"])
def server(request, start_server):
    """ucached both ways: a test that uses this runs once with sock and once with tap."""
    return start_server(request.param, *_marked_args(request))


@pytest.fixture
def memcached(start_server):
    """The distribution's memcached, as the oracle of what a reply should be."""
    return start_server("memcached")
