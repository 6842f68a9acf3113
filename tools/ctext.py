# SPDX-License-Identifier: BSD-3-Clause
"""Finds comments, strings, includes and names at file scope in C text, for the other tools.

This is not a C parser: it reads code that compiles and that clang-format has laid out.
"""

import re

_TOKEN = re.compile(
    r"""(?P<line_comment>//[^\n]*)
      | (?P<comment>/\*.*?\*/)
      | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL | re.VERBOSE,
)
_NOT_NEWLINE = re.compile(r"[^\n]")
_KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "else", "do", "case", "goto"}


def blank(text: str, *, strings: bool) -> str:
    """Replaces comments, and strings if asked, by blanks; every line keeps its number."""

    def replace(match: re.Match) -> str:
        if match.lastgroup == "string" and not strings:
            return match.group()
        return _NOT_NEWLINE.sub(" ", match.group())

    return _TOKEN.sub(replace, text)


def line_comments(text: str) -> list[int]:
    """Offsets of // comments."""
    return [m.start() for m in _TOKEN.finditer(text) if m.lastgroup == "line_comment"]


def includes(text: str) -> list[tuple[int, str, bool]]:
    """(line number, name, whether in <>) of every #include."""
    found = []
    for number, line in enumerate(blank(text, strings=False).split("\n"), 1):
        match = re.match(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', line)
        if match:
            found.append((number, match.group(1) or match.group(2), match.group(2) is not None))
    return found


def file_scope(text: str) -> str:
    """The text outside all braces, without comments, strings and preprocessor lines.

    The braces of `extern "C"` don't count. What a pair of braces holds becomes nothing.
    """
    code = re.sub(r'extern\s+"C"\s*\{', "", blank(text, strings=False))
    code = blank(code, strings=True)
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", code, flags=re.MULTILINE)
    kept = []
    depth = 0
    for char in code:
        if char == "}":
            depth = max(depth - 1, 0)
        if depth == 0:
            kept.append(char)
        if char == "{":
            depth += 1
    return "".join(kept)


def _functions(scope: str, storage: str) -> set[str]:
    names = set()
    for match in re.finditer(rf"(?:^|[;}}])\s*{storage}[\w\s*]*?\b(\w+)\s*\(", scope):
        if match.group(1) not in _KEYWORDS:
            names.add(match.group(1))
    return names


def external_functions(text: str) -> set[str]:
    """Functions that a .c file defines for other files."""
    names = set()
    scope = re.sub(r"\{\s*\}", "{}", file_scope(text))
    for match in re.finditer(r"(?:^|[;}])\s*([\w\s*]+?)\b(\w+)\s*\(([^;{}]*)\)\s*\{(?=\})", scope):
        words = match.group(1).split()
        if words and not {"static", "U_INLINE", "typedef"} & set(words):
            names.add(match.group(2))
    return names


def private_names(text: str) -> set[str]:
    """Names that belong to one file as long as it is compiled alone.

    Static functions and variables, tags, typedefs, enumeration constants and macros, each as
    written; names that only other files could see are not among them.
    """
    scope = file_scope(text)
    code = blank(text, strings=True)
    names = _functions(scope, r"(?:static|U_INLINE)\b")
    names |= set(re.findall(r"\bstatic\b[^;{}()=]*?\b(\w+)\s*(?:\[[^\]]*\]\s*)*[=;]", scope))
    names |= set(re.findall(r"\b(?:struct|union|enum)\s+(\w+)\s*\{", scope))
    names |= set(re.findall(r"\btypedef\b[^;]*?\b(\w+)\s*(?:\[[^\]]*\]\s*)?;", scope))
    names |= set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", code, re.MULTILINE))
    for body in re.findall(r"\benum\b\s*\w*\s*\{([^{}]*)\}", code):
        names |= set(re.findall(r"(?:^|,)\s*(\w+)", body))
    return names
