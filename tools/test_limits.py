# SPDX-License-Identifier: BSD-3-Clause
"""limits.py: finds what can grow, and rows that name what does not exist."""

from pathlib import Path

import limits
import pytest

ROOT = Path(__file__).resolve().parent.parent

CODE = """
#define WAITERS_MAX 16
struct us_waiters {
    struct us_pool pool; /* of struct us_waiter */
    struct u_list link;  /* a node, not a list */
};
static const char *const names[] = {"waiters_full"};
"""
OPTIONS = """static const struct option_spec specs[] = {
    {'c', "conn-limit", "N", set_conn_limit, 0, "connections"},
    {"idle_timeout", set_idle_timeout}};
"""
HEADER = "struct us_config {\n    u_u32 conn_max; /* connections */\n};\n"
PAGE = """# Limits

| resource | code | bound | given up first | counter | test |
|---|---|---|---|---|---|
| waiters | `us_waiters.pool` | {bound} | the new one | {counter} | {test} |

| code | why a peer cannot make it grow |
|---|---|
{fixed}
"""
ROW = {
    "bound": "`WAITERS_MAX`, `us_config.conn_max`, `-c`, `--conn-limit`, `-o idle_timeout`",
    "counter": "`waiters_full`",
    "test": "`waiters_test.c::test_full` `bound-waiters.pkt` `test_waiters.py::test_full`",
    "fixed": "",
}


@pytest.fixture
def tree(tmp_path):
    """A function that makes a tree: more code, and another text for a column of the row."""

    def make(code="", **columns):
        files = {
            "src/ustack/waiters.h": CODE + code,
            "apps/ucached/options_memcached.c": OPTIONS,
            "include/ustack/ustack.h": HEADER,
            "test/unit/ustack/waiters_test.c": "static void test_full(void **state)\n{\n}\n",
            "test/packet/bound-waiters.pkt": "start\n",
            "test/system/test_waiters.py": "def test_full(server):\n    pass\n",
            limits.PAGE: PAGE.format(**{**ROW, **columns}),
        }
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        return limits.check(tmp_path)

    return make


def test_the_project_passes():
    assert limits.check(ROOT) == []


def test_a_tree_in_order_passes(tree):
    assert tree() == []


@pytest.mark.parametrize(
    "code, site",
    [
        ("struct us_more { struct us_pool spare_pool; };", "us_more.spare_pool"),
        ("struct us_more {\n    struct u_list waiting;\n};", "us_more.waiting"),
        ("struct us_more { struct nic_ring **mail; };", "us_more.mail"),
        ("struct us_more { struct net_ring *events; };", "us_more.events"),
        ("struct us_more { struct us_more *next; };", "us_more.next"),
        ("struct us_more { struct us_thing *all[THINGS_MAX]; };", "us_more.all"),
        ("struct us_more { struct us_thing things[2][1 + THINGS_MAX]; };", "us_more.things"),
        ("struct us_more { struct us_thing **table; };", "us_more.table"),
        ("struct us_more { uint64_t *words; uint32_t word_count; };", "us_more.words"),
        ("struct us_more { uint8_t *bytes; size_t capacity; };", "us_more.bytes"),
        ("static int grow(void)\n{\n    at = realloc(at, n);\n}\n", "waiters.h:grow()"),
        ("int open_it(int a,\n    int b)\n{\n    m = mmap(0, n);\n}\n", "waiters.h:open_it()"),
    ],
)
def test_what_has_no_row_is_found(tree, code, site):
    (found,) = tree(code)
    assert f"`{site}` can grow and has no row" in found
    assert tree(code, fixed=f"| `{site}` | made at the start |") == []


@pytest.mark.parametrize(
    "code",
    [
        "struct us_more { struct u_list age_link; char name[NAME_MAX]; struct us_conn *conn; };",
        "/* struct us_more { struct us_pool pool; }; */",
        'static void say(void)\n{\n    puts("malloc(1)");\n    local_malloc_size();\n}\n',
        "static void walk(void)\n{\n    struct u_list *link;\n    struct u_list waiting;\n}\n",
    ],
)
def test_what_holds_nothing_is_not_found(tree, code):
    assert tree(code) == []


@pytest.mark.parametrize(
    "column, text, words",
    [
        ("bound", "`OTHERS_MAX`", "no bound `OTHERS_MAX`"),
        ("bound", "`us_config.others_max`", "no bound `us_config.others_max`"),
        ("bound", "`-x`", "no bound `-x`"),
        ("bound", "`--others`", "no bound `--others`"),
        ("bound", "`-o others`", "no bound `-o others`"),
        ("bound", "a few", "names nothing"),
        ("counter", "`others_full`", "no counter `others_full`"),
        ("counter", "", "names nothing"),
        ("test", "`waiters_test.c::test_empty`", "no test `waiters_test.c::test_empty`"),
        ("test", "`others_test.c::test_full`", "no test `others_test.c::test_full`"),
        ("test", "`bound-others.pkt`", "no test `bound-others.pkt`"),
        ("test", "`waiters_test.c`", "no test `waiters_test.c`"),
        ("fixed", "| `us_gone.pool` | never was |", "`us_gone.pool` is not found"),
        ("fixed", "| `us_waiters.pool` | twice |", "stands in line 5 already"),
    ],
)
def test_rows_name_what_exists(tree, column, text, words):
    (found,) = tree(**{column: text})
    assert words in found and found.startswith("docs/limits.md:")


def test_a_reason_is_needed(tree):
    (found,) = tree("struct us_more { struct us_pool pool; };", fixed="| `us_more.pool` | |")
    assert "the reason is left out" in found
