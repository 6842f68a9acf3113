#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Keeps README.md's table of tested clients as the system tests have it.

    tools/clients.py [--write] [--root DIR]

A client is a package of test/system/requirements.txt that a test imports, with the version pinned
there, a package of another language in test/system/clients, or a program of the distribution that a
test runs. Prints what differs, or with --write
corrects the table; rows marked "by hand" are kept.
"""

import argparse
import re
import sys
from pathlib import Path

HEAD = "| client | version | tested by |\n|---|---|---|\n"
BY_HAND = "by hand |"

# Packages, and the modules that tests import; programs, and the words that tests run them by.
MODULES = {
    "pymemcache": "pymemcache",
    "meta-memcache": "meta_memcache",
    "python-binary-memcached": "bmemcached",
    "django-elastipymemcache": "django_elastipymemcache",
}
PACKAGES = {  # file with the version, pattern of that
    "gomemcache": ("go.mod", r"gomemcache (\S+)"),
    "memcache-client": ("package.json", r'"memcache-client": "(\S+)"'),
    "elasticache-java-cluster-client": ("pom.xml", r"<version>([\d.]{2,})</version>"),
}
PROGRAMS = {
    "memcached, request by request side by side": r"^def test_\w+\((?:.*, )?memcached[,)]",
    "memcached-tool": r"scripts/memcached-tool",
    "OpenSSL's s_client": r'"s_client"',
    "haproxy": r'"haproxy"',
    "stunnel": r'"stunnel"',
    "libmemcached's tools": r'"memc(?:p|at|ping|stat|exist|rm|touch|dump|flush|slap)"',
    "nutcracker": r'"nutcracker"',
    "memcaslap": r'"memcaslap"',
    "memccapable": r'"memccapable"',
    "Prometheus, promtool": r'"promtool"',
}


def rows(root: Path) -> list[str]:
    folder = root / "test" / "system"
    paths = sorted(folder.glob("test_*.py"))
    tests = {path.name: path.read_text(encoding="utf-8") for path in paths}
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", (folder / "requirements.txt").read_text(), re.M))
    found = []
    for package, module in MODULES.items():
        pattern = rf"^\s*(?:import|from) {module}\b"
        found.append((package, pins.get(package, "?"), pattern))
    for package, (file, version) in PACKAGES.items():
        path = folder / "clients" / file
        if path.exists():
            pinned = re.search(version, path.read_text(encoding="utf-8"))
            found.append((package, pinned.group(1) if pinned else "?", rf'"{package}"'))
    found += [(program, "Debian", words) for program, words in PROGRAMS.items()]
    lines = []
    for client, version, pattern in found:
        names = [name for name, text in tests.items() if re.search(pattern, text, re.MULTILINE)]
        if names:
            where = ", ".join(f"`{name}`" for name in names)
            lines.append(f"| {client} | {version} | {where} |\n")
    return lines


def corrected(root: Path) -> str:
    """README.md with the table as it has to be."""
    text = (root / "README.md").read_text(encoding="utf-8")
    if HEAD not in text:
        raise SystemExit(f"README.md: no table that begins with {HEAD.splitlines()[0]}")
    before, after = text.split(HEAD)
    end = re.match(r"(?:\|.*\n)*", after).end()
    kept = [line for line in after[:end].splitlines(True) if line.rstrip().endswith(BY_HAND)]
    return before + HEAD + "".join(rows(root) + kept) + after[end:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--write", action="store_true", help="correct the table")
    args = parser.parse_args()
    page = args.root / "README.md"
    wanted = corrected(args.root)
    if args.write:
        page.write_text(wanted, encoding="utf-8")
    elif page.read_text(encoding="utf-8") != wanted:
        print("README.md: the table of clients is not that of the tests: tools/clients.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
