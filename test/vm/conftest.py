# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the tests in guests; README.md describes them."""

import contextlib
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "test/system"), str(ROOT / "test/vm")]

import guest as guests  # noqa: E402
import image  # noqa: E402
import netspace  # noqa: E402
import nics  # noqa: E402
import report as reports  # noqa: E402
import strict  # noqa: E402

REPORT = reports.Report()


def pytest_configure(config):
    config.pluginmanager.register(strict.pytest_plugin())
    config.addinivalue_line("markers", "models(*names): the test runs for these models only")


def pytest_collection_modifyitems(config, items):
    def is_wanted(item):
        marker = item.get_closest_marker("models")
        return marker is None or item.callspec.params["model"] in marker.args

    config.hook.pytest_deselected(items=[item for item in items if not is_wanted(item)])
    items[:] = [item for item in items if is_wanted(item)]


def pytest_terminal_summary(terminalreporter):
    lines = reports.table(REPORT.lines)
    if lines:
        lines = ["", *(image.FOLDER / "ready").read_text().splitlines(), *lines]
    for line in lines:
        terminalreporter.write_line(line)


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Shows the logs of the servers of a test that fails."""
    outcome = yield
    nic = pyfuncitem.funcargs.get("nic")
    if outcome.excinfo and nic:
        for server in nic.servers:
            print(server.log())


@pytest.fixture(scope="session")
def ucached_path():
    """The program under test: $UCACHED, or where the build puts it."""
    assert os.access(nics.UCACHED, os.X_OK), f"no program {nics.UCACHED}: build it, or set UCACHED"
    return str(nics.UCACHED.resolve())


@pytest.fixture(scope="session", autouse=True)
def possible():
    """Guests need what `make check-vm` prepares, and namespaces for their networks."""
    if not (image.FOLDER / "ready").exists():
        pytest.skip("vm: make build/vm/ready prepares what guests boot from")
    if reason := netspace.why_not():
        pytest.skip(f"vm: {reason}")


@pytest.fixture(scope="session", params=list(nics.MODELS))
def model(request):
    """Tests that use it run for each model of a NIC, all those of one model in one guest."""
    return request.param


@pytest.fixture(scope="session")
def space(model):
    """The namespace of the clients of a model."""
    with contextlib.closing(netspace.NetSpace()) as space:
        yield space


@pytest.fixture(scope="session")
def guest(model, space, tmp_path_factory):
    """A guest with a NIC of this model."""
    nics.make_tap(space, True, nics.queues_of(model))
    folder = tmp_path_factory.mktemp(model)
    with guests.Guest(folder, nics.devices(model, True), space) as guest:
        yield guest


@pytest.fixture
def nic(guest, model, space, ucached_path, tmp_path):
    """The guest's NIC; servers on it are stopped after the test, which fails if one has died."""
    nic = nics.Nic(guest, model, space, ucached_path, tmp_path)
    yield nic
    nic.stop_servers()


@pytest.fixture
def note(model):
    """note(feature, value): a cell of the report."""
    return lambda feature, value: REPORT.note(model, feature, value)
