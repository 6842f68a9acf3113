#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks docs/limits.md against the code: what can grow has a row, and what a row names exists.

    tools/limits.py [--root DIR] [--list]

The code of the server is searched for containers whose number of elements is not fixed by the type:

    pools, queues, lists, rings    struct members of such types; a list node is named *link
    chains                         structs that point to their own kind
    tables                         member arrays whose length is a named maximum (*_MAX), members
                                   that point to pointers to structs, and pointers beside which
                                   NAME_count, NAME_max or a capacity stands
    allocations                    functions that call an allocator (ALLOCATORS)

Each must stand in the column "code" of a table of the page: in a table of limits, with a bound, a
counter and a test, or in a table of containers that no peer can make grow, with the reason. --list
prints the containers. tools/test_limits.py plants violations of each kind.
"""

import argparse
import re
import sys
from pathlib import Path

import ctext

PAGE = "docs/limits.md"
FOLDERS = ("src", "apps/ucached")
LEFT_OUT = ("src/load/",)  # of load generators, not of the server

# Types that hold other things, by how their names end.
HOLDER = r"(?:list|pool|fifo|ring|queue|pipe|wheel|sendq|rxq|frags|watched|prefixes|stream)"
MEMBER = re.compile(rf"\bstruct\s+(\w*{HOLDER})\s*\*{{0,2}}\s*(\w+)\s*(?:\[[^\]]*\]\s*)*;")
TABLE = re.compile(r"\b(\w+)\s*(?:\[[^\]]*\])*\[[^\]]*\b\w+_MAX\b[^\]]*\](?:\[[^\]]*\])*\s*;")
TEXT = re.compile(r"\b(?:char|u_u8|uint8_t|unsigned char)\s+\w+\s*\[")
ALLOCATORS = re.compile(
    r"\b(malloc|calloc|realloc|reallocarray|aligned_alloc|posix_memalign|strdup|strndup|mmap"
    r"|rte_\w+_create|rte_\w*[mz]alloc\w*|io_uring_queue_init\w*|io_uring_setup_buf_ring"
    r"|xsk_umem__create)\s*\("
)
POINTERS = re.compile(r"\bstruct\s+\w+\s*\*\*\s*(\w+)\s*;")
POINTER = re.compile(r"\*\s*(\w+)\s*;")
STRUCT = re.compile(r"\bstruct\s+(\w+)\s*\{")
FUNCTION = re.compile(r"^(?!#)[A-Za-z_][^;={}]*?\b(\w+)\([^;{}]*\)\s*\{", re.MULTILINE)

SPAN = re.compile(r"`([^`]+)`")


def body_end(code: str, start: int) -> int:
    """The offset behind the brace that closes the one at `start`."""
    depth = 0
    for offset in range(start, len(code)):
        if code[offset] == "{":
            depth += 1
        elif code[offset] == "}":
            depth -= 1
            if depth == 0:
                return offset + 1
    return len(code)


def sites_of(name: str, text: str) -> set[str]:
    """What can grow in one file: "struct.member" and "file.c:function()"."""
    code = ctext.blank(text, strings=True)
    found = set()
    for match in STRUCT.finditer(code):
        struct = match.group(1)
        body = code[match.end() : body_end(code, match.end() - 1)]
        for member in MEMBER.finditer(body):
            if not member.group(2).endswith("link") and member.group(1) != struct:
                found.add(f"{struct}.{member.group(2)}")
        for member in re.finditer(rf"\bstruct\s+{struct}\s*\*\s*(\w+)\s*;", body):
            found.add(f"{struct}.{member.group(1)}")
        for member in POINTERS.finditer(body):
            found.add(f"{struct}.{member.group(1)}")
        for member in POINTER.finditer(body):
            stem = member.group(1).removesuffix("s")
            if re.search(rf"\b(?:{stem}s?_(?:count|max|capacity)|capacity)\s*;", body):
                found.add(f"{struct}.{member.group(1)}")
        for line in body.split(";"):
            array = TABLE.search(line + ";")
            if array and not TEXT.search(line):
                found.add(f"{struct}.{array.group(1)}")
    for match in FUNCTION.finditer(code):
        body = code[match.end() : body_end(code, match.end() - 1)]
        if ALLOCATORS.search(body):
            found.add(f"{name}:{match.group(1)}()")
    return found


def sources(root: Path):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in (".c", ".h") and not name.startswith(LEFT_OUT):
                yield path


def sites(root: Path) -> dict[str, str]:
    """Everything that can grow, and the file that it is in."""
    found = {}
    for path in sources(root):
        for site in sites_of(path.name, path.read_text(encoding="utf-8")):
            found.setdefault(site, path.relative_to(root).as_posix())
    return found


# ---- the page -----------------------------------------------------------------------------------

LIMIT_COLUMNS = ["resource", "code", "bound", "given up first", "counter", "test"]
FIXED_COLUMNS = ["code", "why a peer cannot make it grow"]
SITE = re.compile(r"^(?:\w+\.\w+|\w+\.[ch]:\w+\(\))$")
CONSTANT = re.compile(r"^[A-Z][A-Z0-9_]+$")


class Page:
    """The rows of the two kinds of table, each with the line that it stands in."""

    def __init__(self, text: str):
        self.limits: list[tuple[int, dict[str, str]]] = []
        self.fixed: list[tuple[int, dict[str, str]]] = []
        columns: list[str] = []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.startswith("|"):
                columns = []
                continue
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not columns:
                columns = cells
            elif not set(line) <= set("|-: "):
                row = (number, dict(zip(columns, cells)))
                if columns == LIMIT_COLUMNS:
                    self.limits.append(row)
                elif columns == FIXED_COLUMNS:
                    self.fixed.append(row)


class Tree:
    """Names that rows may use."""

    def __init__(self, root: Path):
        self.root = root
        self.sites = sites(root)
        self.code = "\n".join(path.read_text(encoding="utf-8") for path in sources(root))
        self.header = self._read("include/ustack/ustack.h")
        self.options = "".join(
            path.read_text(encoding="utf-8")
            for path in sorted((root / "apps" / "ucached").glob("options*.c"))
        )

    def _read(self, name: str) -> str:
        path = self.root / name
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def has_bound(self, span: str) -> bool:
        """A constant, a field of the stack's configuration, or an option."""
        if CONSTANT.match(span):
            code = self.code + self.header
            return re.search(rf"#define\s+{span}\b|[{{,]\s*{span}\s*=", code) is not None
        if span.startswith("us_config."):
            return re.search(rf"\b{span.partition('.')[2]}\b[^;()]*;", self.header) is not None
        if span.startswith("-o "):
            return f'"{span[3:]}"' in self.options
        if span.startswith("--"):
            return f'"{span[2:]}"' in self.options
        return span.startswith("-") and f"{{'{span[1:]}'," in self.options

    def has_counter(self, span: str) -> bool:
        return f'"{span}"' in self.code

    def has_test(self, span: str) -> bool:
        """A packet script, or a function of a test: "test_x.py::test_y", "x_test.c::y"."""
        file, _, function = span.partition("::")
        if span.endswith(".pkt"):
            return (self.root / "test" / "packet" / span).is_file()
        found = [path for path in (self.root / "test").rglob(file) if path.is_file()]
        if not function or not found:
            return False
        pattern = rf"^(?:def|static void|static int|void|int) {re.escape(function)}\("
        return any(re.search(pattern, path.read_text(encoding="utf-8"), re.M) for path in found)


def check_row(row: dict[str, str], tree: Tree):
    """The findings about one row of the limits."""
    kinds = {"bound": tree.has_bound, "counter": tree.has_counter, "test": tree.has_test}
    for column, exists in kinds.items():
        spans = SPAN.findall(row[column])
        if not spans:
            yield f"{row['resource']}: the column {column} names nothing in `backquotes`"
        for span in spans:
            if not exists(span):
                yield f"{row['resource']}: there is no {column} `{span}`"
    if not row["given up first"]:
        yield f"{row['resource']}: what is given up first is left out"


def check(root: Path) -> list[str]:
    """Every finding, as "docs/limits.md:LINE: message"."""
    tree = Tree(root)
    page = Page((root / PAGE).read_text(encoding="utf-8"))
    found = []
    listed: dict[str, int] = {}
    for line, row in page.limits + page.fixed:
        for site in SPAN.findall(row["code"]):
            if not SITE.match(site) or site not in tree.sites:
                found.append(f"{PAGE}:{line}: `{site}` is not found in the code")
            elif listed.setdefault(site, line) != line:
                found.append(f"{PAGE}:{line}: `{site}` stands in line {listed[site]} already")
    for line, row in page.limits:
        found += [f"{PAGE}:{line}: {message}" for message in check_row(row, tree)]
    for line, row in page.fixed:
        if not row[FIXED_COLUMNS[1]]:
            found.append(f"{PAGE}:{line}: the reason is left out")
    for site, file in sorted(tree.sites.items()):
        if site not in listed:
            found.append(
                f"{file}: `{site}` can grow and has no row in {PAGE}: give it a bound, a counter "
                "and a test, or say why a peer cannot make it grow"
            )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--list", action="store_true", help="print what can grow, and end")
    args = parser.parse_args()
    if args.list:
        for site, file in sorted(sites(args.root).items(), key=lambda item: (item[1], item[0])):
            print(f"{file}: {site}")
        return 0
    found = check(args.root)
    for message in found:
        print(f"{message}")
    print(f"limits: {len(found)} errors")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
