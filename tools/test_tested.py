# SPDX-License-Identifier: BSD-3-Clause
"""tools/tested.py: files without a test are found, and rows that are wrong."""

import tested


def tree(root, *paths, table=""):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    (root / "test").mkdir(exist_ok=True)
    (root / "test" / "README.md").write_text(table)
    return [problem.partition(": ")[2] for problem in tested.problems(root)]


def test_a_unit_test_mirrors_its_source(tmp_path):
    assert tree(tmp_path, "src/kv/a.c", "test/unit/kv/a_test.c",
                "apps/ucload/b.c", "test/unit/apps/ucload/b_test.c") == []  # fmt: skip


def test_a_row_names_other_tests(tmp_path):
    row = "| `src/kv/*.c` | `unit/kv/b_test.c`, `model` |\n"
    assert tree(tmp_path, "src/kv/a.c", "src/kv/b.c", "test/unit/kv/b_test.c", "test/model/x",
                table=row) == []  # fmt: skip


def test_violations_are_found(tmp_path):
    table = ("| `src/kv/gone*.c` | `unit/kv/b_test.c` |\n| `src/kv/b.c` | `unit/kv/b_test.c` |\n"
             "| `src/kv/c.c` | `nothing` |\n| `src/kv/d.c` | by hand |\n")  # fmt: skip
    assert tree(tmp_path, "src/kv/a.c", "src/kv/b.c", "src/kv/c.c", "src/kv/d.c",
                "test/unit/kv/b_test.c", table=table) == [
        "no file without a unit test matches src/kv/gone*.c",
        "no file without a unit test matches src/kv/b.c",
        "no test test/nothing",
        "no test is named for src/kv/d.c",
        "neither test/unit/kv/a_test.c nor a row in test/README.md",
    ]  # fmt: skip
