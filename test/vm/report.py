#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The table of models and features that the tests in guests fill in.

    test/vm/report.py FILE      prints the table of a file of cells

Each cell is a line of $VM_REPORT: model, feature and value, separated by tabs. Several runs of
pytest may add to one file.
"""

import os
import pathlib
import sys


class Report:
    """Features are rows, in the order of their first mention; models are columns."""

    def __init__(self):
        self.lines = []

    def note(self, model, feature, value):
        line = "\t".join((model, feature, value))
        self.lines.append(line)
        if path := os.environ.get("VM_REPORT"):
            with open(path, "a", encoding="utf-8") as file:
                file.write(line + "\n")


def table(lines):
    """The lines of the table; an empty list if there are no cells."""
    cells, models, features = {}, {}, {}
    for line in lines:
        model, feature, value = line.split("\t")
        cells[model, feature] = value
        models[model] = features[feature] = None
    rows = [["", *models]] if cells else []
    rows += [[feature, *(cells.get((model, feature), "-") for model in models)]
             for feature in features]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
            for row in rows]  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print("\n".join(table(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())))
