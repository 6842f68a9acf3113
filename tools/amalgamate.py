#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes one .c and one .h of a portable library, for programs that want to copy it in.

    tools/amalgamate.py ustack|mcproto OUTDIR

OUTDIR/<library>.h is the public header with the headers of include/ubase that it needs, each under
its own include guard, so that the headers of both libraries fit into one program.
OUTDIR/<library>.c has every private header once, in front of the first file that needs it, then
the files of src/base that are used, then those of the library. `cc -c <library>.c` needs nothing
else.

Two things change when many files become one:
- Names that were private to a file share one scope. Two files that use one name for different
  things are refused with a message; rename one of them.
- Both libraries bring their copy of src/base, and a program may link both. So the functions of
  src/base get the library's name in front (u_siphash13 becomes ustack_u_siphash13) by #define.
"""

import argparse
import re
import sys
from pathlib import Path

import ctext

LIBRARIES = ("ustack", "mcproto")
INCLUDE_LINE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[^\n]*\n', re.MULTILINE)
SPDX_LINE = re.compile(r"^/\* SPDX-License-Identifier: [^\n]*\*/\n")


class AmalgamationError(Exception):
    """The sources can't be joined; the message says why and where."""


class Amalgamation:
    def __init__(self, root: Path, library: str):
        self.root = root
        self.name = library
        self.sources = sorted((root / "src" / library).rglob("*.c"))
        if not self.sources:
            raise AmalgamationError(f"src/{library} has no .c file")

    # -- finding files

    def resolve(self, name: str, beside: Path) -> Path:
        """The file that #include "name" means in a file."""
        for folder in (beside.parent, self.root / "include", self.root / "src"):
            if (folder / name).exists():
                return folder / name
        raise AmalgamationError(f'{self.shown(beside)}: "{name}" is nowhere to be found')

    def shown(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def is_public(self, path: Path) -> bool:
        return path.is_relative_to(self.root / "include")

    def headers_of(self, files: list[Path]) -> list[Path]:
        """All headers that files include, directly or not, each after those it includes."""
        ordered: list[Path] = []
        in_progress: set[Path] = set()

        def visit(path: Path) -> None:
            for line, name, is_system in ctext.includes(path.read_text(encoding="utf-8")):
                where = f"{self.shown(path)}:{line}"
                if is_system:
                    raise AmalgamationError(f"{where}: system header <{name}>")
                header = self.resolve(name, path)
                if header.suffix != ".h":
                    raise AmalgamationError(f'{where}: includes "{name}", which is no header')
                if header in in_progress:
                    raise AmalgamationError(f'{where}: "{name}" includes itself in the end')
                if header not in ordered:
                    in_progress.add(header)
                    visit(header)
                    in_progress.remove(header)
                    ordered.append(header)

        for file in files:
            visit(file)
        return ordered

    def base_files(self) -> list[Path]:
        """The .c files of src/base whose headers are reached from the library."""
        base = self.root / "src" / "base"
        used: list[Path] = []
        while True:
            headers = self.headers_of(self.sources + used)
            more = [
                source
                for header in headers
                if header.parent == base
                and (source := header.with_suffix(".c")).exists()
                and source not in used
            ]
            if not more:
                return sorted(used)
            used += more

    # -- writing

    def inlined(self, path: Path, done: set[Path]) -> str:
        """The text of a file with its headers in place, but for those that are done."""

        def replace(match: re.Match) -> str:
            header = self.resolve(match.group(1), path)
            if header in done:
                return ""
            done.add(header)
            return self.inlined(header, done) + "\n"

        text = SPDX_LINE.sub("", path.read_text(encoding="utf-8"))
        text = INCLUDE_LINE.sub(replace, text)
        return f"/* ---- {self.shown(path)} ---- */\n{text}"

    def banner(self, name: str, what: str) -> str:
        license_text = (self.root / "LICENSE").read_text(encoding="utf-8").strip()
        lines = [
            f"{name}: {what}, in one file.",
            "Made from many files by tools/amalgamate.py; change those, not this.",
            "",
            *license_text.split("\n"),
        ]
        body = "\n".join(f" * {line}".rstrip() for line in lines)
        return f"/* SPDX-License-Identifier: BSD-3-Clause */\n/*\n{body}\n */\n"

    def header_text(self) -> str:
        public = self.root / "include" / self.name / f"{self.name}.h"
        banner = self.banner(f"{self.name}.h", f"the interface of lib{self.name}")
        return banner + self.inlined(public, set())

    def source_text(self) -> str:
        base = self.base_files()
        files = base + self.sources
        headers = self.headers_of(files)
        self.check_private_names(files + headers)
        text = self.banner(f"{self.name}.c", f"lib{self.name} and what it needs")
        text += f'\n#include "{self.name}.h"\n\n'
        for function in sorted(self.base_functions(base)):
            text += f"#define {function} {self.name}_{function}\n"
        public = self.root / "include" / self.name / f"{self.name}.h"
        done = {public, *self.headers_of([public])}
        return text + "".join("\n" + self.inlined(file, done) for file in files)

    @staticmethod
    def base_functions(base: list[Path]) -> set[str]:
        texts = [path.read_text(encoding="utf-8") for path in base]
        return {name for text in texts for name in ctext.external_functions(text)}

    def check_private_names(self, files: list[Path]) -> None:
        """Refuses names that mean one thing in one file and another in the next."""
        owner: dict[str, Path] = {}
        clashes = []
        for path in files:
            for name in sorted(ctext.private_names(path.read_text(encoding="utf-8"))):
                if name in owner:
                    first, second = self.shown(owner[name]), self.shown(path)
                    clashes.append(f"'{name}' is defined in {first} and again in {second}")
                else:
                    owner[name] = path
        if clashes:
            raise AmalgamationError("\n".join(clashes))


def amalgamate(root: Path, library: str, folder: Path) -> None:
    """Writes folder/<library>.c and .h."""
    amalgamation = Amalgamation(root, library)
    header, source = amalgamation.header_text(), amalgamation.source_text()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{library}.h").write_text(header, encoding="utf-8")
    (folder / f"{library}.c").write_text(source, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=LIBRARIES, help="the library")
    parser.add_argument("folder", type=Path, metavar="OUTDIR")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    try:
        amalgamate(arguments.root.resolve(), arguments.name, arguments.folder)
    except AmalgamationError as error:
        print(f"amalgamate: {arguments.name}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
