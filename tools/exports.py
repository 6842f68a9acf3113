#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the linker's version script of a shared library from its public header.

    tools/exports.py HEADER VERSION OUTPUT

The functions that the header declares are exported as VERSION (USTACK_0); everything else, the
copy of src/base included, stays local to the library.
"""

import re
import sys
from pathlib import Path

import ctext

DECLARED = re.compile(r"^[A-Za-z_][\w \t\n*]*?\b([a-z]\w*)\s*\(", re.MULTILINE)


def functions(header: str) -> list[str]:
    """The names of the functions that a header declares, sorted."""
    return sorted(set(DECLARED.findall(ctext.file_scope(header))))


def main() -> None:
    header, version, target = sys.argv[1:]
    names = functions(Path(header).read_text(encoding="utf-8"))
    if not names:
        sys.exit(f"exports: {header} declares no function")
    lines = "".join(f"        {name};\n" for name in names)
    Path(target).write_text(f"{version} {{\n    global:\n{lines}    local:\n        *;\n}};\n",
                            encoding="ascii")  # fmt: skip


if __name__ == "__main__":
    main()
