# SPDX-License-Identifier: BSD-3-Clause
"""Joins small libraries and compiles, links and runs what comes out."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

import amalgamate  # noqa: E402
import ctext  # noqa: E402

GUARD = "#ifndef {0}\n#define {0}\n{1}\n#endif\n"
FILES = {
    "LICENSE": "Copyright The Authors\n\nNo warranty.\n",
    "include/ubase/types.h": GUARD.format("UBASE_TYPES_H", "typedef unsigned u_u32;"),
    "src/base/base.h": GUARD.format(
        "BASE_BASE_H",
        '#include "ubase/types.h"\nstatic __inline__ u_u32 u_one(void)\n{\nreturn 1;\n}',
    ),
    "src/base/sum.h": GUARD.format(
        "BASE_SUM_H", '#include "base/base.h"\nu_u32 u_sum(u_u32 a, u_u32 b);'
    ),
    "src/base/sum.c": '#include "base/sum.h"\nu_u32 u_sum(u_u32 a, u_u32 b)\n{\nreturn a + b;\n}\n',
    "src/base/unused.h": GUARD.format("BASE_UNUSED_H", "int u_unused(void);"),
    "src/base/unused.c": '#include "base/unused.h"\nint u_unused(void)\n{\nreturn 0;\n}\n',
}


def library(name: str, prefix: str) -> dict[str, str]:
    """A library of two .c files, a private header, and one public function."""
    public = f'#include "ubase/types.h"\nu_u32 {prefix}_three(void);'
    private = f'#include "base/base.h"\nu_u32 {prefix}_two(void);\nstruct {prefix}_s {{int a;}};'
    return {
        f"include/{name}/{name}.h": GUARD.format(f"{name.upper()}_H", public),
        f"src/{name}/two.h": GUARD.format(f"{name.upper()}_TWO_H", private),
        f"src/{name}/two.c": f"""#include "{name}/two.h"
#include "base/sum.h"

static u_u32 half(void)
{{
    return u_one();
}}

u_u32 {prefix}_two(void)
{{
    return u_sum(half(), half());
}}
""",
        f"src/{name}/a_three.c": f"""#include "{name}/{name}.h"
#include "{name}/two.h"

u_u32 {prefix}_three(void)
{{
    return u_one() + {prefix}_two();
}}
""",
    }


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "root"
    for path, text in (FILES | library("ustack", "us") | library("mcproto", "mc")).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


def test_two_libraries_compile_link_and_run_in_one_program(tree, tmp_path):
    out = tmp_path / "out"
    for name in amalgamate.LIBRARIES:
        amalgamate.amalgamate(tree, name, out)
        subprocess.run(["cc", "-std=c89", "-nostdinc", "-c", f"{name}.c"], cwd=out, check=True)
    (out / "main.c").write_text(
        '#include "ustack.h"\n#include "mcproto.h"\n#include "ustack.h"\n'
        "int main(void)\n{\nreturn us_three() + mc_three() == 6 ? 0 : 1;\n}\n"
    )
    subprocess.run(["cc", "main.c", "ustack.o", "mcproto.o", "-o", "both"], cwd=out, check=True)
    assert subprocess.run([out / "both"]).returncode == 0


def test_each_header_stands_once_and_unused_base_files_do_not(tree, tmp_path):
    amalgamate.amalgamate(tree, "ustack", tmp_path)
    source = (tmp_path / "ustack.c").read_text()
    header = (tmp_path / "ustack.h").read_text()
    assert source.count("#define BASE_BASE_H") == 1
    assert source.count("#define USTACK_TWO_H") == 1
    assert "UBASE_TYPES_H" not in source and header.count("#define UBASE_TYPES_H") == 1
    assert "u_unused" not in source
    assert source.index("src/base/sum.c") < source.index("src/ustack/a_three.c")
    for text in (source, header):
        assert text.startswith("/* SPDX-License-Identifier: BSD-3-Clause */\n")
        assert text.count("SPDX") == 1
        assert "Copyright The Authors" in text


@pytest.mark.parametrize(
    "definition",
    [
        "static u_u32 half(void)\n{\nreturn 2;\n}",
        "static const u_u32 half[2] = {1, 2};",
        "enum { first, half, last };",
        "struct half {\nint a;\n};",
        "typedef int half;",
        "#define half 3",
    ],
)
def test_name_private_to_two_files_is_refused(tree, tmp_path, definition):
    path = tree / "src/ustack/a_three.c"
    path.write_text(path.read_text() + definition + "\n")
    with pytest.raises(amalgamate.AmalgamationError) as error:
        amalgamate.amalgamate(tree, "ustack", tmp_path)
    message = str(error.value)
    assert "'half'" in message and "a_three.c" in message and "two.c" in message


def test_name_clash_with_a_private_header_is_refused(tree, tmp_path):
    path = tree / "src/ustack/a_three.c"
    path.write_text(path.read_text() + "static int u_one(void)\n{\nreturn 2;\n}\n")
    with pytest.raises(amalgamate.AmalgamationError, match="'u_one'"):
        amalgamate.amalgamate(tree, "ustack", tmp_path)


@pytest.mark.parametrize(
    "line, complaint",
    [
        ("#include <string.h>", "system header"),
        ('#include "base/none.h"', "nowhere"),
        ('#include "ustack/two.c"', "no header"),
    ],
)
def test_unusable_include_is_refused(tree, tmp_path, line, complaint):
    path = tree / "src/ustack/a_three.c"
    path.write_text(line + "\n" + path.read_text())
    with pytest.raises(amalgamate.AmalgamationError, match=complaint):
        amalgamate.amalgamate(tree, "ustack", tmp_path)


def test_include_cycle_is_refused(tree, tmp_path):
    path = tree / "src/base/base.h"
    path.write_text('#include "base/sum.h"\n' + path.read_text())
    with pytest.raises(amalgamate.AmalgamationError, match="includes itself"):
        amalgamate.amalgamate(tree, "ustack", tmp_path)


def test_command_reports_a_clash_and_writes_nothing(tree, tmp_path):
    path = tree / "src/ustack/a_three.c"
    path.write_text(path.read_text() + "static int half;\n")
    command = [sys.executable, TOOLS / "amalgamate.py", "--root", tree, "ustack", tmp_path / "out"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert "'half' is defined in src/ustack/a_three.c" in result.stderr
    assert not (tmp_path / "out").exists()


def test_private_names_ignore_what_others_see_and_locals():
    text = """
extern "C" {
static int prototype(int a);
int seen(void);
static int prototype(int a)
{
    static int local = 1;
    struct user *x = 0;
    return local + other(x);
}
static const char *const names[2][3] = {{"x"}};
struct forward;
struct tag *seen_too(void)
{
}

int right_behind(void)
{
    return 0;
}
enum colour { RED = 1, GREEN };
U_INLINE u_u32 helper(u_u32 a)
{
    return a;
}
/* static int in_comment; */
}
"""
    expected = {"prototype", "names", "colour", "RED", "GREEN", "helper"}
    assert ctext.private_names(text) == expected
    assert ctext.external_functions(text) == {"seen_too", "right_behind"}
