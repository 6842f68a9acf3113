# SPDX-License-Identifier: BSD-3-Clause
"""docs/stack.md names functions, scripts and tests: each exists, and no requirement is left out."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "stack.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and not set(line) <= set("|- ")
]
SPAN = re.compile(r"`([^`]+)`")

# RFC 9293, Appendix B. Numbers that the RFC itself does not use are left out.
REQUIRED = [f"MUST-{n}" for n in range(1, 70)] + [f"SHLD-{n}" for n in range(1, 32)]


def spans(suffix):
    return sorted({span for span in SPAN.findall(PAGE) if span.endswith(suffix)})


def row_ids():
    return [row[0] for row in ROWS]


@pytest.mark.parametrize("name", REQUIRED)
def test_every_requirement_has_a_row(name):
    assert row_ids().count(name) == 1


def test_every_pitfall_has_a_row_and_a_script():
    section = PAGE.split("## Pitfalls")[1].split("\n## ")[0]
    rows = [line.split("|")[1:] for line in section.splitlines() if line.startswith("| ")]
    numbers = [row for row in rows if row[0].strip().isdigit()]
    assert [int(row[0]) for row in numbers] == list(range(1, 27))
    for row in numbers:
        assert f"pitfall-{int(row[0]):02}-" in row[2], row


@pytest.mark.parametrize("script", spans(".pkt"))
def test_script_exists(script):
    assert (ROOT / "test" / "packet" / script).is_file()


@pytest.mark.parametrize("name", spans("_test.c"))
def test_unit_test_exists(name):
    assert any((ROOT / "test" / "unit" / "ustack").rglob(name))


@pytest.mark.parametrize("name", [span for span in SPAN.findall(PAGE) if "::" in span])
def test_conformance_test_exists(name):
    file, function = name.split("::")
    text = (ROOT / "test" / "system" / file).read_text(encoding="utf-8")
    assert f"\ndef {function}(" in text


PLACE = re.compile(r"`([a-z0-9_]+\.[ch])` `([a-z0-9_]+)\(\)`")


@pytest.mark.parametrize("file, function", sorted(set(PLACE.findall(PAGE))))
def test_function_stands_where_it_is_said_to(file, function):
    (path,) = (ROOT / "src" / "ustack").rglob(file)
    text = path.read_text(encoding="utf-8")
    found = re.search(rf"^[A-Za-z].*\b{function}\(", text, re.MULTILINE)
    assert found, f"{function}() is not in {file}"


def test_rows_that_hold_say_where_and_by_what_they_are_shown():
    for row in ROWS:
        if row[0].startswith(("MUST-", "SHLD-")) and row[2].startswith("yes"):
            exempt = row[0] in ("SHLD-13",)
            assert exempt or (row[3] and row[4]), f"{row[0]} claims to hold and shows nothing"
            assert exempt or SPAN.search(row[4]), row[0]


@pytest.mark.parametrize("name", re.findall(r"`us_config\.(\w+)`", PAGE))
def test_setting_exists(name):
    header = (ROOT / "include" / "ustack" / "ustack.h").read_text(encoding="utf-8")
    assert re.search(rf"\b{name}\b.*;", header)
