#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes man pages from what exists already.

    tools/manpage.py help PAGE VERSION OUTPUT PROGRAM...    PAGE with the text of PROGRAM --help
    tools/manpage.py markdown PAGE VERSION OUTPUT FILE.md   PAGE with a page of docs/

PAGE is a man page (packaging/man/*.in) in which the line @BODY@ stands for the converted text.
Help is what cmdline_print_options() lays out: headings at the margin, rows of options with an
explanation to the right or below, examples. Markdown is what docs/ uses: headings, paragraphs,
lists, tables, indented examples, code and links.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ITEM = re.compile(r"^ {2,6}(?P<what>\S(?:.*?\S)?)(?: {2,}(?P<text>\S.*))?$")
CHOICE = re.compile(r"^[a-z0-9_]+: ")
INDENT_ITEM = 6
# Paragraphs of help that a page says in other words.
INTRODUCTIONS = ("usage:", "memcached ", "kvbench measures", "ucload:", "ucping:", "ucwarm:",
                 "A server is HOST")  # fmt: skip
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def escape(text: str) -> str:
    """Text that roff prints as it is, a dot or quote at the start of a line included."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\\&" + text if text.startswith(".") else text


def example(lines: list[str]) -> list[str]:
    return [".in +4n", ".EX", *(escape(line) for line in lines), ".EE", ".in"]


# ---- help ------------------------------------------------------------------------------------


def rows(lines: list[str]) -> list[str]:
    """Rows of options or words with their explanations."""
    out: list[str] = []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        match = ITEM.match(line)
        if match and indent <= INDENT_ITEM:
            out += [".TP", f".B {escape(match['what'])}"]
            out += [escape(match["text"])] if match["text"] else []
        else:
            text = line.strip()
            out += [".br"] if CHOICE.match(text) else []
            out.append(escape(text))
    return out


def paragraphs(text: str) -> list[list[str]]:
    blocks = [block.split("\n") for block in re.split(r"\n{2,}", text.strip("\n"))]
    return [[line.rstrip() for line in block] for block in blocks]


def from_help(text: str) -> list[str]:
    """The body of a page: everything after the usage line."""
    out: list[str] = []
    for block in paragraphs(text):
        head = block[0] if not block[0].startswith(" ") else ""
        if head.startswith(INTRODUCTIONS):
            continue
        name = head.rstrip(":").split("(")[0].strip()
        if head.lower().startswith("example"):
            out += [".SH EXAMPLES", *example(block[1:])]
        elif head.startswith("Exit status"):
            words = " ".join(block).partition(":")[2].strip()
            out += [".SH EXIT STATUS", escape(words[0].upper() + words[1:])]
        else:
            if not out:
                out.append(".SH OPTIONS")
            out += [f".SS {escape(name)}"] if head and len(block) > 1 else []
            out += rows(block[1:] if head else block)
    return out


# ---- Markdown --------------------------------------------------------------------------------


def inline(text: str) -> str:
    text = LINK.sub(r"\1", text)
    parts = re.split(r"`([^`]+)`", text)
    out = ""
    for number, part in enumerate(parts):
        if number % 2:
            out += f"\\fB{escape(part)}\\fR"
        else:
            out += re.sub(r"\*\*(.+?)\*\*", r"\\fB\1\\fR", escape(part))
    return "\\&" + out if out.startswith((".", "'")) else out


def table(lines: list[str]) -> list[str]:
    """A list of the first column; the others follow, with their headings if there are several."""
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]
    names, body = cells[0], cells[2:]
    out: list[str] = []
    for row in body:
        texts = [
            f"{name}: {cell}" if len(row) > 2 else cell
            for name, cell in zip(names[1:], row[1:], strict=True)
        ]
        word = escape(LINK.sub(r"\1", row[0]).replace("`", ""))
        out.append(f".TP\n.B {word}")
        out.append("\n.br\n".join(inline(text) for text in texts if text))
    return out


def gap(out: list[str]) -> list[str]:
    """The start of a paragraph, which a heading implies."""
    return [".PP"] if out and not out[-1].startswith((".SH", ".SS")) else []


def from_markdown(text: str) -> list[str]:
    out: list[str] = []
    for block in paragraphs(text)[1:]:  # without the title
        first = block[0]
        if first.startswith("#"):
            level = len(first) - len(first.lstrip("#"))
            title = inline(first.lstrip("# "))
            out.append(f".SH {title.upper()}" if level == 2 else f".SS {title}")
            block = block[1:]
        if not block:
            continue
        if block[0].startswith("    "):
            out += [*gap(out), *example([line[4:] for line in block])]
        elif block[0].startswith("|"):
            out += table(block)
        elif block[0].startswith("- "):
            for line in block:
                out += [".IP \\(bu 2"] if line[0] == "-" else []
                out.append(inline(line[2:].strip()))
        else:
            out += [*gap(out), *(inline(line) for line in block)]
    return out


def main() -> None:
    kind, page, version, target, *source = sys.argv[1:]
    if kind == "help":
        # A sanitized build must not fail for what DPDK's constructors allocate.
        env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
        shown = subprocess.run([*source, "--help"], check=True, capture_output=True, text=True,
                               env=env)  # fmt: skip
        body = from_help(shown.stdout)
    else:
        body = from_markdown(Path(source[0]).read_text(encoding="utf-8"))
    result = Path(page).read_text(encoding="utf-8").replace("@VERSION@", version)
    Path(target).write_text(result.replace("@BODY@", "\n".join(body)), encoding="utf-8")


if __name__ == "__main__":
    main()
