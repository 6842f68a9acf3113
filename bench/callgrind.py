# SPDX-License-Identifier: BSD-3-Clause
"""Files that callgrind writes."""

import re


def self_costs(text):
    """
    For each line of code its object, its source file (None: unknown) and its instructions, without
    those of the functions that it calls.
    """
    names = {"ob": {}, "fl": {}}
    at = {"ob": None, "fl": None}
    called = False
    for line in text.splitlines():
        if found := re.match(r"(c?)(fl|fi|fe|ob)=\((\d+)\)(?: (.*))?", line):
            callee, kind, number, name = found.groups()
            kind = "ob" if kind == "ob" else "fl"
            if name:
                names[kind][number] = None if name == "???" else name
            if not callee:
                at[kind] = names[kind][number]
        elif line.startswith("calls="):
            called = True  # the next line is what the call has cost, which is counted there
        elif re.match(r"[-+*\d]", line):
            if not called:
                yield at["ob"], at["fl"], int(line.split()[1])
            called = False
