# SPDX-License-Identifier: BSD-3-Clause
"""Reads the commands that README.md and docs/ show: lines indented by four blanks."""

import re

# What a block of shell begins with; other indented lines are code or output.
PROGRAMS = re.compile(
    r"^(?:apt-get|build/\S+|cc|cd|docker|dpkg-\S+|echo|git|make|mkdir|ninja|openssl|printf|python3|"
    r"ucached|ucload|ucping|kvbench|sysctl|systemctl|ip|ethtool)(?: |$)"
)
INDENT = "    "


def joined(lines):
    """The lines of a block without comments, those that continue on the next in one."""
    out, before = [], ""
    for line in lines:
        before += re.sub(r"\s+#.*", "", line.strip())
        if before.endswith(("\\", "|")):
            before = before.removesuffix("\\") + " "
        else:
            out.append(before)
            before = ""
    return out


def blocks(path):
    """(number of the first line, lines) of each block of commands."""
    found, lines = [], []
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        if line.startswith(INDENT):
            lines.append(line)
            continue
        if lines and PROGRAMS.match(lines[0].strip()):
            found.append((number - len(lines), joined(lines)))
        lines = []
    return found


def block(path, word):
    """The lines of the one block that has a word."""
    (found,) = [lines for _, lines in blocks(path) if any(word in line for line in lines)]
    return found
