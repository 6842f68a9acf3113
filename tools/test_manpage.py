# SPDX-License-Identifier: BSD-3-Clause
"""What manpage.py makes of help texts and of pages of docs/."""

import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

import manpage  # noqa: E402

HELP = """\
usage: ucached [option]...

  -p, --port=PORT             TCP port (default: 11211)
      --idle=MODE             what to do without work:
                              poll: busy-poll
                              .dots and 'quotes' stay
      --an-option-with-a-long-name=ARGUMENT
                              below

The link (with its defaults):
      --gw=ADDR               gateway

Examples:
  ucached -m 64

Exit status: 0 success; 64 wrong
options.
"""


def test_help():
    assert manpage.from_help(HELP) == [
        ".SH OPTIONS",
        ".TP",
        ".B \\-p, \\-\\-port=PORT",
        "TCP port (default: 11211)",
        ".TP",
        ".B \\-\\-idle=MODE",
        "what to do without work:",
        ".br",
        "poll: busy\\-poll",
        "\\&.dots and \\(aqquotes\\(aq stay",
        ".TP",
        ".B \\-\\-an\\-option\\-with\\-a\\-long\\-name=ARGUMENT",
        "below",
        ".SS The link",
        ".TP",
        ".B \\-\\-gw=ADDR",
        "gateway",
        ".SH EXAMPLES",
        ".in +4n",
        ".EX",
        "  ucached \\-m 64",
        ".EE",
        ".in",
        ".SH EXIT STATUS",
        "0 success; 64 wrong options.",
    ]


MARKDOWN = """\
# Title

First `--io` **now**, [a link](page.md#there).

## A heading

    ucached --io=tap

### Under it

- one
  and more
- two

| `--io` | needs | good for |
|---|---|---|
| `tap` | root | tests |
"""


def test_markdown():
    assert manpage.from_markdown(MARKDOWN) == [
        "First \\fB\\-\\-io\\fR \\fBnow\\fR, a link.",
        ".SH A HEADING",
        ".in +4n",
        ".EX",
        "ucached \\-\\-io=tap",
        ".EE",
        ".in",
        ".SS Under it",
        ".IP \\(bu 2",
        "one",
        "and more",
        ".IP \\(bu 2",
        "two",
        ".TP\n.B tap",
        "needs: root\n.br\ngood for: tests",
    ]
