# SPDX-License-Identifier: BSD-3-Clause
"""The systemd units of the build, as systemd itself judges them. test/packages starts them."""

import pathlib
import shlex
import shutil
import subprocess

import pytest
import tls

UNITS = ("ucached", "ucached-tap@", "ucached-xdp@", "ucached-dpdk@")
EXPOSURE_MAX = 2.5  # of 10, which is a service that may do everything


@pytest.fixture(params=UNITS)
def unit(request, ucached_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    build = pathlib.Path(ucached_path).resolve().parents[2]
    return build / "packaging" / f"{request.param}.service"


def test_it_is_hardened(unit):
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX * 10:.0f}",
         unit],
        check=False, capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_options_are_options(unit, ucached_path):
    """What ExecStart gives the program is accepted: the device or the port is what is missing."""
    (line,) = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    words = [word.replace("%i", "nosuch0") for word in line.split()[1:-1]]  # without $OPTIONS
    values = {"${PORT}": "0", "${CACHESIZE}": "64", "${MAXCONN}": "1024"}
    command = [ucached_path, *(values.get(word, word) for word in words), "--no-such-option"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "--no-such-option" in done.stderr


def test_options_of_the_example_with_tls():
    root = pathlib.Path(__file__).resolve().parents[2]
    lines = (root / "packaging" / "systemd" / "tls.conf").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("Environment=")]
    (options,) = shlex.split(line.removeprefix("Environment="))
    for name in ("server.pem", "server.key"):
        placed = "/etc/ucached/" + ("cert.pem" if name == "server.pem" else "key.pem")
        assert placed in options
        options = options.replace(placed, tls.shared().path(name))
    assert options.removeprefix("OPTIONS=").split() == tls.server_args()
