#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the names in README.md, CONTRIBUTING.md and docs/: what a page names in backticks exists.

    tools/doc_names.py [--root DIR]

    `dir/file.c`, `file.c`      a tracked file: its path, the end of it, or a pattern (tcp_*.c)
    `file.c` `name()`           the file defines that function (also with ": " or " | " between)
    `name()`                    the code has that function or calls it
    `struct.member`             the code has both words
    `SOME_NAME`, `some_name`    a word of the code, the tests or the tools
    `--option`                  a word of the programs or the tools
    `make target`               a target of GNUmakefile
    [text](page.md#heading)     the page and the heading

In drawings (between ``` lines) name() and file.c are checked; indented examples are not.

Names of other projects stand in EXTERNAL. tools/test_doc_names.py plants one violation of each
kind.
"""

import argparse
import fnmatch
import re
import subprocess
import sys
from pathlib import Path

PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md", "docs/decisions/*.md")
CODE = (".c", ".h", ".py", ".build", ".sh", ".txt", ".pkt", ".service", "GNUmakefile")
FOLDERS = "src|apps|test|tools|bench|docs|include|examples|packaging"
SELF = ("tools/doc_names.py", "tools/test_doc_names.py")
SUFFIXES = re.compile(r"\.(?:c|h|py|sh|md|build|txt|pkt|json|svg|pcap|default)$")

# Words of other projects and of the operating system that our code does not contain.
EXTERNAL = set(
    """
    MADV_COLLAPSE MADV_POPULATE_WRITE SCHED_BATCH CONFIG_XDP_SOCKETS memif_connect
    tcp_abort_on_overflow napi_defer_hard_irqs gro_flush_timeout rte_panic response_obj_count
    in_order packed_vq mrg_rxbuf auto_eject_hosts remove_failed_servers
    """.split()
)

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^    .*$", re.MULTILINE)
IN_FENCE = re.compile(r"\w+_\w+\(\)|[\w./]+\.[ch]\b")
SPAN = re.compile(r"`([^`\n]+)`")
PLACE = re.compile(r"`([\w./]+\.[ch])`(?:: | \| | )`(\w+)\(\)`")
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]+)?\)")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*_[A-Za-z0-9_]*")


def anchor(heading: str) -> str:
    """The name by which a link reaches a heading."""
    text = re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", ""))
    return text.replace(" ", "-")


class Tree:
    """The tracked files of a checkout, and the words of its code."""

    def __init__(self, root: Path):
        self.root = root
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root,
                                check=True, capture_output=True, text=True).stdout
        self.files = [name for name in listed.splitlines() if (root / name).is_file()]
        self.ends = {}  # "c.h", "b/c.h" and "a/b/c.h" lead to a/b/c.h, and "a" and "a/b" as well
        for name in self.files:
            parts = name.split("/")
            for first in range(len(parts)):
                self.ends.setdefault("/".join(parts[first:]), []).append(name)
            for last in range(1, len(parts)):
                self.ends.setdefault("/".join(parts[:last]), []).append(name)
        code = "\n".join(self.read(name) for name in self.files if name not in SELF and
                         (name.endswith(CODE) or name.startswith(("tools/", "packaging/"))))
        self.words = set(re.findall(r"[A-Za-z0-9_]+", code))
        self.called = set(re.findall(r"\b([A-Za-z_]\w*)\s*\(", code))
        self.options = set(re.findall(r"--[a-z][a-z0-9-]*", code))
        self.options |= {"--" + word for word in re.findall(r'"([a-z][a-z0-9-]+)"', code)}

    def read(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    def matches(self, name: str) -> list[str]:
        """Tracked files whose path, or the end of it, is the name or the pattern."""
        if "*" in name:
            return [path for path in self.files if fnmatch.fnmatch("/" + path, "*/" + name)]
        return self.ends.get(name.rstrip("/"), [])

    def defines(self, name: str, function: str) -> bool:
        """Whether a file of that name has a definition, an inline one or a macro of that name."""
        place = re.compile(rf"^(?:[A-Za-z_].*\b|#\s*define )\*?{function}\(", re.MULTILINE)
        return any(place.search(self.read(path)) for path in self.matches(name))


def complaint(tree: Tree, span: str) -> str:
    """What is wrong with one span, or nothing."""
    if span.startswith("make "):
        target = span.split()[1]
        if re.match(r"[a-z-]+$", target) and not re.search(
                rf"^(?:[\w -]*\s)?{target}\b[^=\n]*:(?!=)", tree.read("GNUmakefile"), re.MULTILINE):
            return "no such target"
        return ""
    if span.startswith(("build/", "bench/results/")) or "NAME" in span:
        return ""  # made by builds and runs, or by the reader
    option = re.match(r"(--[a-z][a-z0-9-]*)", span)
    if option:
        return "" if option.group(1) in tree.options else "no such option"
    if re.fullmatch(r"[\w*-][\w.*/-]+", span) and SUFFIXES.search(span):
        return "" if tree.matches(span) else "no such file"
    if re.fullmatch(rf"(?:{FOLDERS})/[\w./-]+", span):
        known = tree.matches(span) or tree.matches(span + ".c")
        return "" if known else "no such folder"
    if re.fullmatch(r"\w+\(\)", span):
        return "" if span[:-2] in tree.called or span[:-2] in EXTERNAL else "no such function"
    for word in WORD.findall(span if re.fullmatch(r"(?:struct |enum )?[\w.]+", span) else ""):
        if not word.endswith("_") and word not in tree.words and word not in EXTERNAL:
            return f"no such word in the code: {word}"
    return ""


def findings(root: Path) -> list[str]:
    """Every finding, as "PAGE:LINE: `span`: message"."""
    tree = Tree(root)
    pages = sorted({page for pattern in PAGES for page in root.glob(pattern)})
    heads = {page: {anchor(line.lstrip("# ")) for line in page.read_text("utf-8").splitlines()
                    if line.startswith("#")} for page in pages}
    found = []
    for page in pages:
        text = page.read_text("utf-8")
        drawings = list(FENCE.finditer(text))
        for code in (FENCE, INDENTED):
            text = code.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
        name = page.relative_to(root)

        def note(offset, what, message):
            line = text.count("\n", 0, offset) + 1
            found.append(f"{name}:{line}: {what}: {message}")

        for drawing in drawings:
            for match in IN_FENCE.finditer(drawing.group()):
                message = complaint(tree, match.group())
                if message:
                    note(drawing.start() + match.start(), match.group(), message)
        for match in SPAN.finditer(text):
            message = complaint(tree, match.group(1))
            if message:
                note(match.start(), match.group(), message)
        for match in PLACE.finditer(text):
            if tree.matches(match.group(1)) and not tree.defines(*match.groups()):
                note(match.start(), match.group(), "the file does not define that function")
        for match in LINK.finditer(text):
            target, head = match.groups()
            if target.startswith(("http:", "https:")):
                continue
            other = (page.parent / target).resolve() if target else page
            if not other.exists():
                note(match.start(), target, "no such page")
            elif head and other in heads and head[1:] not in heads[other]:
                note(match.start(), f"{target}{head}", "no such heading")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    found = findings(parser.parse_args().root.resolve())
    print("\n".join(found + [f"doc_names: {len(found)} errors"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
