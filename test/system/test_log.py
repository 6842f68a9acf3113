# SPDX-License-Identifier: BSD-3-Clause
"""Lines on stderr: a full pipe blocks no worker."""

import os
import signal
import socket
import subprocess

import pytest
import server as servers
from wire import STORED, Wire, storage


@pytest.mark.limit(60)
def test_full_pipe_blocks_no_worker(ucached_path):
    port = servers.free_port()
    process = subprocess.Popen(
        [ucached_path, "-p", str(port), "-t", "1", "-vv", "-u", "root", "-l", "127.0.0.1"],
        stderr=subprocess.PIPE,
    )
    try:
        # Reads the first lines, then nothing more.
        while b"listening" not in process.stderr.readline():
            pass
        for _ in range(2500):  # two lines of some 40 bytes each: more than a pipe of 64 KiB takes
            with socket.create_connection(("127.0.0.1", port), timeout=10):
                pass
        wire = Wire(socket.create_connection(("127.0.0.1", port), timeout=10))
        wire.say(storage(b"set", b"k", b"v"), STORED)
        assert int(wire.stats("sock")["log_lines_dropped"]) > 0
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
