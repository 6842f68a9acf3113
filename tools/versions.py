#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that files which repeat the version or the exported functions agree with their source.

    tools/versions.py [--root DIR]

The version is that of meson.build: the public headers and debian/changelog repeat it. The functions
are those that a public header declares: debian/*.symbols lists them.
"""

import argparse
import re
import sys
from pathlib import Path

import exports

HEADERS = {
    "ustack": ("include/ustack/ustack.h", "US"),
    "mcproto": ("include/mcproto/mcproto.h", "MC"),
}
SYMBOL = re.compile(r"^ ([a-z]\w*)@", re.MULTILINE)


def problems(root: Path) -> list[str]:
    def read(path):
        return (root / path).read_text(encoding="utf-8")

    version = re.search(r"^  version: '([^']+)'", read("meson.build"), re.MULTILINE)[1]
    found = []
    for library, (path, prefix) in HEADERS.items():
        header = read(path)
        major, minor, patch = version.split(".")
        for name, value in (("MAJOR", major), ("MINOR", minor), ("PATCH", patch),
                            ("STRING", f'"{version}"')):  # fmt: skip
            line = f"#define {prefix}_VERSION_{name} {value}\n"
            if line not in header:
                found.append(f"{path}: not the version of meson.build: no line {line.strip()}")
        symbols = f"debian/lib{library}0.symbols"
        listed, declared = set(SYMBOL.findall(read(symbols))), set(exports.functions(header))
        found += [f"{symbols}: {name} is missing; {path} declares it" for name in declared - listed]
        found += [f"{symbols}: {name} is not in {path}" for name in listed - declared]
    if not read("debian/changelog").startswith(f"ucached ({version}-"):
        found.append(f"debian/changelog: the first version is not {version}, as in meson.build")
    return sorted(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    found = problems(parser.parse_args().root)
    print("".join(f"{line}\n" for line in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
