#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Installs what a simulation needs, and compiles and runs an example by its pkg-config file alone.

    installed.py BUILD EXAMPLE COMPILER...
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    build, example, *compiler = sys.argv[1:]
    with tempfile.TemporaryDirectory() as root:
        install = ["meson", "install", "-C", build, "--no-rebuild", "--quiet"]
        subprocess.run([*install, "--tags", "devel", "--destdir", root], check=True)
        pc = next(Path(root).rglob("ns3-ustack.pc"))
        prefix = subprocess.run(
            ["pkg-config", "--variable=prefix", pc], check=True, capture_output=True, text=True
        ).stdout.strip()
        flags = subprocess.run(
            ["pkg-config", f"--define-variable=prefix={root}{prefix}", "--cflags", "--libs", pc],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        program = Path(root) / "program"
        subprocess.run([*compiler, example, *flags, "-o", program], check=True)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(pc.parents[1])}
        subprocess.run([program], check=True, env=environment)


if __name__ == "__main__":
    main()
