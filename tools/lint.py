#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks what compilers do not: dependencies, banned calls, sizes, words, commit subjects.

    tools/lint.py [--format] [--root DIR]

Prints `file:line: message` for each finding and exits with 1 if one of them is an error. Lines
that begin with `note` are reports: worth a look, not a failure. With --format it also asks
clang-format whether it would change anything. A check whose program is missing is skipped by
name. tools/test_lint.py plants every kind of violation and sees it found.
"""

import argparse
import dataclasses
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import ctext

FOLDERS = ("include", "src", "apps", "test", "bench", "tools")
MAY_INCLUDE_ANYTHING = {"test", "bench", "tools"}
C_SUFFIXES = (".c", ".h")
TEXT_SUFFIXES = C_SUFFIXES + (".py", ".sh", ".build", ".txt", ".md")

SPDX = "SPDX-License-Identifier: BSD-3-Clause"
COLUMNS_MAX = 100
FUNCTION_LINES_GOOD = 70
FUNCTION_LINES_MAX = 100
FILE_LINES_GOOD, FILE_LINES_MAX = 800, 1000
TEST_LINES_GOOD, TEST_LINES_MAX = 1200, 1400

# Pieces that have no C library: C89 and C++98, hosted or freestanding.
PORTABLE = {"base", "ustack", "mcproto", "public"}

# Dependencies: a piece may include its own headers and those of the pieces named here. `public` are
# the headers under include/, which see only each other's types (include/ubase).
DEPENDENCIES = {
    "public": set(),
    "base": set(),
    "ustack": {"base"},
    "mcproto": {"base"},
    "kv": {"base"},
    "cache": {"base", "mcproto", "kv"},
    "nic": {"base"},
    "load": {"base"},
    "tls": {"base"},
    "net": {"base", "ustack", "mcproto", "kv", "cache", "nic", "tls"},
    "apps": {"base", "ustack", "mcproto", "kv", "cache", "nic", "tls", "net", "load"},
}
EVERYBODY_SEES = {"ubase"}

# The only place that may spell `long long`: its last resort for compilers without another name.
LONG_LONG_HOME = "include/ubase/types.h"

PORTABLE_BANNED = set(
    """
    malloc calloc realloc free alloca aligned_alloc posix_memalign
    printf fprintf sprintf snprintf vprintf vfprintf vsprintf vsnprintf puts putchar fputs fputc
    fopen fclose fread fwrite fflush scanf sscanf fscanf perror
    memcpy memmove memset memcmp memchr strlen strnlen strcpy strncpy strcat strncat strcmp strncmp
    strcasecmp strncasecmp strchr strrchr strstr strtok strdup strerror
    strtol strtoul strtoll strtoull strtod atoi atol atoll atof
    isdigit isalpha isalnum isspace isprint isupper islower tolower toupper
    time clock gettimeofday clock_gettime rand srand random srandom rand_r getrandom
    assert abort exit getenv system qsort bsearch setjmp longjmp
    """.split()
)
HOSTED_BANNED = set(
    """
    strcpy strcat sprintf vsprintf gets strtok alloca rand srand atoi atol atoll atof system
    """.split()
)

# Reserved names that are the compiler's or ask the C library for something: using or defining
# them is not inventing a reserved name.
RESERVED_ALLOWED = set(
    """
    _GNU_SOURCE _DEFAULT_SOURCE _POSIX_C_SOURCE _XOPEN_SOURCE _FILE_OFFSET_BITS
    _Alignas _Alignof _Atomic _Bool _Generic _Noreturn _Static_assert _Thread_local
    __attribute__ __asm__ __declspec __typeof__ __extension__ __thread __int64 __int128
    """.split()
)
RESERVED = r"(?:_[A-Z]\w*|__\w+)"
RESERVED_MACRO = re.compile(rf"^[ \t]*#[ \t]*define[ \t]+({RESERVED})", re.MULTILINE)
PREPROCESSOR_LINE = re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE)
RESERVED_DECLARATIONS = [
    re.compile(rf"\b(?:struct|union|enum)\s+({RESERVED})\s*\{{"),
    re.compile(rf"\}}\s*({RESERVED})\s*;"),
    re.compile(rf"\btypedef\b[^;{{}}]*\b({RESERVED})\s*;"),
    # a declaration: a word or a star, the name, and what may follow a declared name
    re.compile(
        rf"(?:\b(?!return\b|else\b|case\b|goto\b|sizeof\b)\w+\s|\*)\s*({RESERVED})\s*[=;,\[(]"
    ),
]

ASSERT = re.compile(r"(?<!define )\b(?:U_ASSERT|U_STATIC_ASSERT|assert)\s*\(")
SIDE_EFFECT = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|<<=|>>=")

# The header that test/foreign compiles the tests of these folders with, and the folders.
FOREIGN_CMOCKA = "test/foreign/include/cmocka.h"
FOREIGN_TESTS = ("test/unit/base", "test/unit/ustack", "test/unit/mcproto")

# Commits before this time, which are older than the rule for subjects, are not checked.
SUBJECTS_SINCE = "2026-11-24T00:00:00Z"
SUBJECT_MAX = 72
IMPERATIVES = {"bring", "embed", "feed", "need", "seed", "shed", "speed", "string"}

WORDS_FILE = "tools/words.txt"
WORDS_IN = (
    "*.md", "GNUmakefile", "apps/**/*", "bench/**/*", "docs/**/*", "examples/**/*", "include/**/*",
    "packaging/**/*", "sim/**/*", "src/**/*", "test/**/*", "tools/**/*",
)  # fmt: skip
WORDS_SUFFIXES = (".c", ".h", ".py", ".md", ".pkt", ".build", ".sh", "")

# Spelled apart, so that this file passes its own check.
LEFTOVER = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    path: str
    line: int
    message: str
    is_error: bool = True

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {'error' if self.is_error else 'note'}: {self.message}"


class Source:
    """One text file and the views of it that the checks need."""

    def __init__(self, root: Path, path: Path):
        self.path = path.relative_to(root).as_posix()
        self.root = root
        self.text = path.read_text(encoding="utf-8")
        self.is_c = path.suffix in C_SUFFIXES
        self.piece = piece_of(self.path)
        self.code = ctext.blank(self.text, strings=True) if self.is_c else ""

    def line_at(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1

    def at(self, offset: int, message: str) -> Finding:
        return Finding(self.path, self.line_at(offset), message)


def piece_of(path: str) -> str:
    """The piece that a path relative to the root belongs to."""
    parts = PurePosixPath(path).parts
    if parts[0] == "include":
        return "public"
    if parts[0] == "src":
        return parts[1]
    return parts[0]


# ---- checks: each takes a Source and yields findings ------------------------------------------


def check_includes(source: Source) -> Iterator[Finding]:
    if not source.is_c or source.piece in MAY_INCLUDE_ANYTHING:
        return
    if source.piece not in DEPENDENCIES:
        yield Finding(source.path, 1, f"no dependencies are defined for the piece '{source.piece}'")
        return
    for line, name, is_system in ctext.includes(source.text):
        problem = include_problem(source, name, is_system)
        if problem:
            yield Finding(source.path, line, problem)


def include_problem(source: Source, name: str, is_system: bool) -> str | None:
    piece = source.piece
    if is_system:
        if piece in PORTABLE:
            return f"{piece} is portable and may not include the system header <{name}>"
        return None
    folder, slash, _ = name.partition("/")
    if ".." in PurePosixPath(name).parts:
        return f'"{name}" climbs out of its folder; name it from src/ or include/'
    if not slash:
        if (source.root / source.path).parent.joinpath(name).exists():
            return None
        return f'"{name}" does not stand beside this file'
    if folder in EVERYBODY_SEES or folder == piece:
        return None
    if piece == "public" and str(source.path).startswith(f"include/{folder}/"):
        return None
    if piece == "apps" and (source.root / "apps" / name).exists():
        return None
    if folder not in DEPENDENCIES[piece]:
        allowed = ", ".join(sorted(DEPENDENCIES[piece] | EVERYBODY_SEES))
        return f'{piece} may not include "{name}" (allowed: {allowed})'
    is_public = name == f"{folder}/{folder}.h" or (source.root / "include" / name).exists()
    if folder in ("ustack", "mcproto") and not is_public:
        return f'"{name}" is private to {folder}; include "{folder}/{folder}.h"'
    return None


def check_reserved_names(source: Source) -> Iterator[Finding]:
    found = {m.start(1): m.group(1) for m in RESERVED_MACRO.finditer(source.code)}
    declarations = PREPROCESSOR_LINE.sub(lambda m: " " * len(m.group()), source.code)
    for pattern in RESERVED_DECLARATIONS:
        found |= {m.start(1): m.group(1) for m in pattern.finditer(declarations)}
    for offset, name in found.items():
        if name not in RESERVED_ALLOWED and not name.startswith("__builtin_"):
            yield source.at(offset, f"'{name}' is a reserved identifier")


def check_banned_calls(source: Source) -> Iterator[Finding]:
    banned = PORTABLE_BANNED if source.piece in PORTABLE else HOSTED_BANNED
    for match in re.finditer(r"(?<![\w.])(?<!->)(\w+)\s*\(", source.code):
        if match.group(1) in banned:
            yield source.at(match.start(1), f"call of banned function {match.group(1)}()")


def check_asserts(source: Source) -> Iterator[Finding]:
    """An assertion that does something makes a program depend on being checked."""
    for match in ASSERT.finditer(source.code):
        end = match.end()
        depth = 1
        while depth > 0 and end < len(source.code):
            depth += {"(": 1, ")": -1}.get(source.code[end], 0)
            end += 1
        if SIDE_EFFECT.search(source.code[match.end() : end - 1]):
            yield source.at(match.start(), "an assertion with a side effect")


def check_portable_dialect(source: Source) -> Iterator[Finding]:
    if not source.is_c or source.piece not in PORTABLE:
        return
    for offset in ctext.line_comments(source.text):
        yield source.at(offset, "// comment in a C89 file")
    if source.path != LONG_LONG_HOME:
        for match in re.finditer(r"\blong\s+long\b", source.code):
            yield source.at(match.start(), "long long in a C89 file; use u_u64")


def check_spdx(source: Source) -> Iterator[Finding]:
    lines = source.text.split("\n")
    if source.is_c:
        if lines[0] != f"/* {SPDX} */":
            yield Finding(source.path, 1, f"the first line is not '/* {SPDX} */'")
    elif source.path.endswith((".py", ".sh")):
        if not any(line == f"# {SPDX}" for line in lines[:2]):
            yield Finding(source.path, 1, f"no '# {SPDX}' in the first two lines")


def check_lines(source: Source) -> Iterator[Finding]:
    for number, line in enumerate(source.text.split("\n"), 1):
        if LEFTOVER.search(line):
            yield Finding(source.path, number, f"leftover {LEFTOVER.search(line).group()}")
        if line != line.rstrip():
            yield Finding(source.path, number, "blanks at the end of the line")
        if source.is_c and "\t" in line:
            yield Finding(source.path, number, "tab in a C file")
        if len(line) > COLUMNS_MAX and not source.path.endswith((".txt", ".md")):
            yield Finding(source.path, number, f"{len(line)} columns, more than {COLUMNS_MAX}")
    if source.text and not source.text.endswith("\n"):
        yield Finding(source.path, number, "no newline at the end of the file")


def check_file_size(source: Source) -> Iterator[Finding]:
    if not source.path.endswith(C_SUFFIXES + (".py", ".sh")):
        return
    good, most = FILE_LINES_GOOD, FILE_LINES_MAX
    if source.piece == "test":
        good, most = TEST_LINES_GOOD, TEST_LINES_MAX
    lines = source.text.count("\n")
    if lines > good:
        yield Finding(source.path, 1, f"{lines} lines, more than {good}", lines > most)


CHECKS = [
    check_includes,
    check_reserved_names,
    check_banned_calls,
    check_asserts,
    check_portable_dialect,
    check_spdx,
    check_lines,
    check_file_size,
]


# ---- checks that ask another program ----------------------------------------------------------


def universal_ctags() -> str | None:
    """The program universal-ctags; other ctags can't tell where a function ends."""
    for name in ("ctags-universal", "ctags"):
        program = shutil.which(name)
        if program:
            version = subprocess.run([program, "--version"], capture_output=True, text=True)
            if "Universal Ctags" in version.stdout:
                return program
    return None


def check_function_sizes(root: Path, paths: list[str], ctags: str) -> Iterator[Finding]:
    command = [ctags, "--langmap=C:.c.h", "--languages=C", "--kinds-C=f", "--fields=ne"]
    command += ["--sort=no", "-f", "-", "-L", "-"]
    listing = subprocess.run(
        command, cwd=root, input="\n".join(paths), capture_output=True, text=True, check=True
    ).stdout
    for entry in listing.splitlines():
        if entry.startswith("!"):
            continue
        name, path = entry.split("\t")[:2]
        fields = dict(re.findall(r"\t(line|end):(\d+)", entry))
        if "end" not in fields:
            continue
        lines = int(fields["end"]) - int(fields["line"]) + 1
        if lines > FUNCTION_LINES_GOOD:
            message = f"{name}() has {lines} lines, more than {FUNCTION_LINES_GOOD}"
            yield Finding(path, int(fields["line"]), message, lines > FUNCTION_LINES_MAX)


def check_format(root: Path, paths: list[str], clang_format: str) -> Iterator[Finding]:
    command = [clang_format, "--dry-run", "-Werror", "--style=file", *paths]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True)
    lines_of: dict[str, list[int]] = {}
    for match in re.finditer(r"^([^\n:]+):(\d+):\d+: error: code", result.stderr, re.MULTILINE):
        lines_of.setdefault(match.group(1), []).append(int(match.group(2)))
    for path, lines in lines_of.items():
        message = f"{os.path.basename(clang_format)} would change {len(lines)} places"
        yield Finding(path, lines[0], message)
    if result.returncode != 0 and not lines_of:
        yield Finding(".clang-format", 1, f"{clang_format} failed: {result.stderr.strip()[:200]}")


# ---- words ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Word:
    """A row of tools/words.txt: text that the project does not use, why not, and what it uses."""

    pattern: re.Pattern
    why: str
    instead: str


def read_words(root: Path) -> list[Word]:
    path = root / WORDS_FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return [
        Word(re.compile(rf"\b(?:{pattern.strip()})\b", re.IGNORECASE), why.strip(), use.strip())
        for pattern, why, use in rows
    ]


def check_words(root: Path) -> Iterator[Finding]:
    """Words of tools/words.txt in texts and in the names of files."""
    words = read_words(root)
    if not words:
        return
    paths = [path for name in WORDS_IN for path in sorted(root.glob(name))]
    for path in paths:
        name = path.relative_to(root).as_posix()
        if not path.is_file() or path.suffix not in WORDS_SUFFIXES or "corpus" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        lines = [re.sub(r"[-_./]", " ", name)]
        if any(word.pattern.search(text) for word in words):
            lines += text.split("\n")
        for number, line in enumerate(lines):
            for word in words:
                if match := word.pattern.search(line):
                    message = f"'{match.group()}': {word.why}; use {word.instead}"
                    yield Finding(name, max(number, 1), message)


# ---- assertions of portable tests -------------------------------------------------------------


def check_assertions(root: Path) -> Iterator[Finding]:
    """Tests of portable pieces use only the assertions that other machines have, too."""
    header = root / FOREIGN_CMOCKA
    if not header.exists():
        return
    known = set(re.findall(r"^#define (assert_\w+)\(", header.read_text(), re.MULTILINE))
    for piece in FOREIGN_TESTS:
        for path in sorted((root / piece).rglob("*.c")):
            source = Source(root, path)
            own = set(re.findall(r"\bvoid (assert_\w+)\(", source.code))
            for match in re.finditer(r"\b(assert_\w+)\(", source.code):
                if match[1] not in known | own:
                    yield source.at(match.start(), f"{FOREIGN_CMOCKA} has no {match[1]}()")


# ---- commit subjects --------------------------------------------------------------------------


def subject_problem(subject: str) -> str | None:
    """What is wrong with a commit subject, or None."""
    if len(subject) > SUBJECT_MAX:
        return f"{len(subject)} characters, more than {SUBJECT_MAX}"
    match = re.fullmatch(r"[a-z0-9_.,/ -]+: (\w+)( .*[^. ])", subject)
    if not match or not match[1][0].islower():
        return "not `area: verb object` in lower case, without a full stop"
    if re.search(r"(ing|ed)$", match[1]) and match[1] not in IMPERATIVES:
        return f"'{match[1]}' is not an imperative"
    return None


def check_subjects(root: Path) -> tuple[list[Finding], str | None]:
    """Findings about commits since SUBJECTS_SINCE, and why the check was skipped, if it was."""
    if shutil.which("git") is None:
        return [], "commit subjects: git is not installed"
    command = ["git", "-C", str(root), "log", "--no-merges", "--format=%h %s"]
    command.append(f"--since={SUBJECTS_SINCE}")
    listing = subprocess.run(command, capture_output=True, text=True)
    if listing.returncode != 0:
        return [], "commit subjects: no git history"
    found = []
    for line in listing.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if problem := subject_problem(subject):
            found.append(Finding(f"commit {commit}", 1, f"'{subject}': {problem}"))
    return found, None


# ---- putting it together ----------------------------------------------------------------------


def sources_under(root: Path) -> list[Source]:
    return [
        Source(root, path)
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*"))
        if path.is_file() and path.suffix in TEXT_SUFFIXES and "corpus" not in path.parts
    ]


def lint(root: Path) -> list[Finding]:
    """All findings of the checks that need no other program."""
    found = [f for source in sources_under(root) for check in CHECKS for f in check(source)]
    return found + list(check_words(root)) + list(check_assertions(root))


def lint_with_programs(root: Path, with_format: bool) -> tuple[list[Finding], list[str]]:
    """Findings of the checks that do, and which of them were skipped and why."""
    paths = [source.path for source in sources_under(root) if source.is_c]
    findings, reason = check_subjects(root)
    skipped = [reason] if reason else []
    ctags = universal_ctags()
    if ctags:
        findings += check_function_sizes(root, paths, ctags)
    else:
        skipped.append("function sizes: universal-ctags is not installed")
    if with_format and paths:
        clang_format = shutil.which("clang-format-14")
        if clang_format:
            findings += check_format(root, paths, clang_format)
        else:
            skipped.append("format: clang-format-14 is not installed (versions differ in layout)")
    return findings, skipped


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--format", action="store_true", help="also ask clang-format-14")
    arguments = parser.parse_args()

    root = arguments.root.resolve()
    findings, skipped = lint_with_programs(root, arguments.format)
    findings += lint(root)
    for finding in sorted(findings):
        print(finding)
    for reason in skipped:
        print(f"skipped: {reason}")
    errors = sum(finding.is_error for finding in findings)
    print(f"lint: {errors} errors, {len(findings) - errors} notes")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
