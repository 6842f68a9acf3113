# SPDX-License-Identifier: BSD-3-Clause
"""tools/run, which `make run` calls: the first thing that a newcomer sees."""

import pathlib
import subprocess

import netspace
import pytest

RUN = str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "run")


def test_a_second_one_says_so(ucached_path, tap_obstacle):
    if tap_obstacle:
        pytest.skip(f"tap: {tap_obstacle}")
    space = netspace.NetSpace()
    space.run(subprocess.run, ["ip", "link", "set", "lo", "up"], check=True, timeout=60)
    first = space.popen([RUN, ucached_path], stdout=subprocess.PIPE, text=True,
                        stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        while (line := first.stdout.readline()) and "It answers" not in line:
            pass
        assert line
        second = space.run(subprocess.run, [RUN, ucached_path], capture_output=True, text=True,
                           timeout=60)  # fmt: skip
        assert second.returncode == 1 and "It answers" not in second.stdout
        assert "A server answers at 10.100.0.20:11211 already" in second.stderr
    finally:
        first.terminate()
        assert first.wait(20) == 0
        space.close()


def test_a_plain_user_serves_this_machine_only(ucached_path):
    """Without CAP_NET_ADMIN: kernel sockets, and no address that others reach."""
    space = netspace.NetSpace()
    space.run(subprocess.run, ["ip", "link", "set", "lo", "up"], check=True, timeout=60)
    plain = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--reuid=65534", "--clear-groups"]
    server = space.popen([*plain, RUN, ucached_path], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)  # fmt: skip
    try:
        while (line := server.stdout.readline()) and "It answers" not in line:
            pass
        assert line
    finally:
        server.terminate()
        errors = server.communicate(timeout=60)[1]
        space.close()
    listening = [line for line in errors.splitlines() if "listening on" in line]
    assert listening and all("127.0.0.1:11211" in line for line in listening)
