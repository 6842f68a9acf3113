# SPDX-License-Identifier: BSD-3-Clause
"""Reads the commands that README.md and docs/ show: lines indented by four blanks."""

import re

# What a line of shell begins with; other indented lines are code.
PROGRAMS = re.compile(
    r"^(?:apt-get|build/\S+|cc|cd|docker|dpkg-\S+|echo|git|make|mkdir|ninja|printf|python3|"
    r"ucached|ucload|ucping|kvbench|sysctl|systemctl|ip|ethtool)(?: |$)"
)
INDENT = "    "


def blocks(path):
    """(number of the first line, lines without comments) of each block of commands."""
    found, lines, first = [], [], 0
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        if line.startswith(INDENT) and PROGRAMS.match(line.strip()):
            first = first or number
            lines.append(re.sub(r"\s+#.*", "", line.strip()))
        elif lines:
            found.append((first, lines))
            lines, first = [], 0
    return found


def block(path, word):
    """The lines of the one block that has a word."""
    (found,) = [lines for _, lines in blocks(path) if any(word in line for line in lines)]
    return found
