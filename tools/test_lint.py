# SPDX-License-Identifier: BSD-3-Clause
"""Plants each kind of violation in a small tree and sees lint.py find it, and nothing else.

A lint that can't fail is no lint.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

import lint  # noqa: E402

SPDX = "/* SPDX-License-Identifier: BSD-3-Clause */\n"


def findings(root: Path, files: dict[str, str]) -> list[lint.Finding]:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return lint.lint(root)


def messages(root: Path, path: str, body: str) -> list[str]:
    """What lint says about one C file that has this body after its first line."""
    return [f"{f.line}: {f.message}" for f in findings(root, {path: SPDX + body})]


@pytest.mark.parametrize(
    "path, include",
    [
        ("src/base/a.c", '"base/wire.h"'),
        ("src/base/a.c", '"ubase/types.h"'),
        ("src/ustack/a.c", '"base/cksum.h"'),
        ("src/ustack/a.c", '"ustack/tcp.h"'),
        ("src/ustack/a.c", '"ustack/ustack.h"'),
        ("src/mcproto/a.c", '"mcproto/line.h"'),
        ("src/kv/a.c", "<stdatomic.h>"),
        ("src/kv/a.c", '"base/siphash.h"'),
        ("src/cache/a.c", '"mcproto/mcproto.h"'),
        ("src/cache/a.c", '"kv/kv.h"'),
        ("src/nic/a.c", '"ubase/pkt.h"'),
        ("src/nic/a.c", "<linux/if_tun.h>"),
        ("src/net/a.c", '"ustack/ustack.h"'),
        ("src/net/a.c", '"cache/cache.h"'),
        ("src/net/a.c", '"nic/nic.h"'),
        ("apps/ucached/a.c", '"net/net.h"'),
        ("apps/ucached/a.c", "<stdio.h>"),
        ("include/ustack/ustack.h", '"ubase/pkt.h"'),
        ("test/unit/ustack/a.c", '"ustack/tcp.h"'),
        ("test/unit/ustack/a.c", "<cmocka.h>"),
    ],
)
def test_include_along_an_arrow_is_fine(tmp_path, path, include):
    assert messages(tmp_path, path, f"#include {include}\n") == []


@pytest.mark.parametrize(
    "path, include",
    [
        ("src/base/a.c", '"ustack/ustack.h"'),
        ("src/base/a.c", "<stddef.h>"),
        ("src/ustack/a.c", '"mcproto/mcproto.h"'),
        ("src/ustack/a.c", '"nic/nic.h"'),
        ("src/ustack/a.c", "<stdint.h>"),
        ("src/mcproto/a.c", '"ustack/ustack.h"'),
        ("src/mcproto/a.c", "<string.h>"),
        ("src/kv/a.c", '"cache/cache.h"'),
        ("src/kv/a.c", '"mcproto/mcproto.h"'),
        ("src/cache/a.c", '"net/net.h"'),
        ("src/cache/a.c", '"ustack/ustack.h"'),
        ("src/cache/a.c", '"mcproto/line.h"'),
        ("src/nic/a.c", '"ustack/ustack.h"'),
        ("src/nic/a.c", '"cache/cache.h"'),
        ("src/net/a.c", '"ustack/tcp.h"'),
        ("src/net/a.c", '"ucached/options.h"'),
        ("apps/ucached/a.c", '"mcproto/line.h"'),
        ("include/ustack/ustack.h", '"base/base.h"'),
        ("include/mcproto/mcproto.h", '"ustack/ustack.h"'),
        ("include/mcproto/mcproto.h", "<stddef.h>"),
        ("src/kv/a.c", '"../cache/cache.h"'),
        ("src/kv/a.c", '"missing_beside.h"'),
        ("src/surprise/a.c", '"base/base.h"'),
    ],
)
def test_include_against_the_arrows_is_found(tmp_path, path, include):
    found = messages(tmp_path, path, f"\n#  include {include}\n")
    assert len(found) == 1
    assert found[0].startswith("3: ") or "no dependencies" in found[0]


def test_include_of_a_neighbour_file_is_fine(tmp_path):
    files = {
        "apps/ucached/a.c": SPDX + '#include "options.h"\n#include "ucached/options.h"\n',
        "apps/ucached/options.h": SPDX,
    }
    assert findings(tmp_path, files) == []


def test_include_in_a_comment_does_not_count(tmp_path):
    assert messages(tmp_path, "src/base/a.c", "/*\n#include <stdio.h>\n*/\n") == []


@pytest.mark.parametrize(
    "code", ["i++ < 3", "--n", "(a = b) != 0", "f(x += 1)", "x <<= 1", "a ==\n  b && (c = 1)"]
)
def test_assertion_with_a_side_effect_is_found(tmp_path, code):
    found = messages(tmp_path, "src/ustack/a.c", f"void f(void)\n{{\n    U_ASSERT({code});\n}}\n")
    assert len(found) == 1 and "side effect" in found[0]


@pytest.mark.parametrize("code", ["a == b", "a <= b && c >= d", "a != (b - 1)", 'f("a = b++")'])
def test_assertion_that_only_looks_is_fine(tmp_path, code):
    body = f"void f(void)\n{{\n    U_ASSERT({code});\n    x = 1;\n}}\n"
    assert messages(tmp_path, "src/ustack/a.c", body) == []


@pytest.mark.parametrize(
    "code",
    [
        "#define _GUARD_H",
        "#define __guard",
        "struct _Thing {\nint a;\n};",
        "enum __e { A };",
        "typedef int __mine;",
        "typedef struct {\nint a;\n} _Thing;",
        "static int __count = 0;",
        "static int __f(void)\n{\nreturn 0;\n}",
        "char *_Name;",
        "void f(void)\n{\nint __local[2];\n}",
    ],
)
def test_reserved_identifier_is_found(tmp_path, code):
    found = messages(tmp_path, "src/kv/a.c", code + "\n")
    assert len(found) == 1 and "reserved identifier" in found[0]


@pytest.mark.parametrize(
    "code",
    [
        "#define _GNU_SOURCE",
        "#if defined(__GNUC__) && __has_feature(address_sanitizer)\n#endif",
        "typedef unsigned u __attribute__((__mode__(__DI__)));",
        "static inline __attribute__((always_inline)) int f(void);",
        "_Static_assert(1, \"one\");\nstatic _Atomic(int) counter;\nstatic _Thread_local int t;",
        "void f(void)\n{\nreturn __builtin_trap();\n}",
        "void f(int a__b, __u32 _c)\n{\n}",
        "/* __not_code = 1; */",
    ],
)
def test_using_the_compilers_names_is_fine(tmp_path, code):
    assert messages(tmp_path, "src/kv/a.c", code + "\n") == []


@pytest.mark.parametrize("path", ["src/base/a.c", "src/ustack/a.h", "src/mcproto/a.c"])
@pytest.mark.parametrize(
    "call", ["malloc(1)", "free (p)", "snprintf(b, 1, f)", "memcpy(a, b, 1)", "strlen(s)",
             "time(0)", "rand()", "assert(1)", "abort()"]
)  # fmt: skip
def test_libc_call_in_a_portable_library_is_found(tmp_path, path, call):
    found = messages(tmp_path, path, f"void f(void)\n{{\n    {call};\n}}\n")
    assert len(found) == 1 and found[0].startswith("4: call of banned function")


@pytest.mark.parametrize("path", ["src/kv/a.c", "src/net/a.c", "apps/ucached/a.c", "test/sim/a.c"])
@pytest.mark.parametrize(
    "call", ["strcpy(a, b)", "strcat(a, b)", "sprintf(a, b)", "gets(a)", "strtok(a, b)",
             "alloca(1)", "rand()", "atoi(s)", "atol(s)", "system(s)"]
)  # fmt: skip
def test_dangerous_call_in_hosted_code_is_found(tmp_path, path, call):
    found = messages(tmp_path, path, f"void f(void)\n{{\n    {call};\n}}\n")
    assert len(found) == 1 and found[0].startswith("4: call of banned function")


def test_calls_that_only_look_banned_are_fine(tmp_path):
    code = "void f(void)\n{\n    ops->free(p);\n    ops.malloc(1);\n    u_free(p);\n"
    code += '    g("malloc(1)"); /* free(p) */\n}\n'
    assert messages(tmp_path, "src/ustack/a.c", code) == []


def test_hosted_code_may_allocate(tmp_path):
    code = "void f(void)\n{\n    free(malloc(1));\n    snprintf(a, 1, b);\n}\n"
    assert messages(tmp_path, "src/kv/a.c", code) == []


@pytest.mark.parametrize("path", ["src/base/a.c", "include/ubase/types.h"])
def test_line_comment_in_a_portable_file_is_found(tmp_path, path):
    assert messages(tmp_path, path, "int a; // one\n") == ["2: // comment in a C89 file"]


def test_slashes_in_strings_and_hosted_line_comments_are_fine(tmp_path):
    assert messages(tmp_path, "src/base/a.c", 'const char *a = "http://x";\n') == []
    assert messages(tmp_path, "src/kv/a.c", "int a; // one\n") == []


def test_long_long_in_a_portable_file_is_found(tmp_path):
    found = messages(tmp_path, "src/mcproto/a.c", "unsigned long  long a;\n")
    assert found == ["2: long long in a C89 file; use u_u64"]
    assert messages(tmp_path, "src/kv/b.c", "long long a;\n")[1:] == []


def test_missing_spdx_line_is_found(tmp_path):
    files = {"src/kv/a.c": "int a;\n", "test/system/b.py": "import os\n"}
    assert [f.path for f in findings(tmp_path, files)] == list(files)


def test_spdx_after_a_shebang_is_fine(tmp_path):
    script = "#!/usr/bin/env python3\n# SPDX-License-Identifier: BSD-3-Clause\n"
    assert findings(tmp_path, {"test/system/b.py": script}) == []


@pytest.mark.parametrize("word", ["TO" "DO", "FIX" "ME", "XX" "X"])
@pytest.mark.parametrize("path", ["src/kv/a.c", "apps/ucached/a.h", "test/unit/kv/a.c"])
def test_leftover_is_found(tmp_path, path, word):
    assert messages(tmp_path, path, f"/* {word}: later */\n") == [f"2: leftover {word}"]


def test_leftover_in_a_build_file_is_found(tmp_path):
    assert len(findings(tmp_path, {"src/kv/meson.build": "# TO" "DO\n"})) == 1


@pytest.mark.parametrize(
    "body, expected",
    [
        ("int a; \n", "2: blanks at the end of the line"),
        ("\tint a;\n", "2: tab in a C file"),
        ("/* " + 97 * "x" + " */\n", "2: 103 columns, more than 100"),
        ("int a;", "2: no newline at the end of the file"),
    ],
)
def test_bad_layout_is_found(tmp_path, body, expected):
    assert messages(tmp_path, "src/kv/a.c", body) == [expected]


def test_line_of_exactly_100_columns_is_fine(tmp_path):
    assert messages(tmp_path, "src/kv/a.c", "/* " + 94 * "x" + " */\n") == []


@pytest.mark.parametrize(
    "path, lines, count, is_error",
    [
        ("src/kv/a.c", 800, 0, False),
        ("src/kv/a.c", 801, 1, False),
        ("src/kv/a.c", 1001, 1, True),
        ("test/unit/kv/a.c", 1200, 0, False),
        ("test/unit/kv/a.c", 1201, 1, False),
        ("test/unit/kv/a.c", 1401, 1, True),
    ],
)
def test_file_size_is_reported_and_then_refused(tmp_path, path, lines, count, is_error):
    found = findings(tmp_path, {path: SPDX + "\n" * (lines - 1)})
    assert [f.is_error for f in found] == [is_error] * count


def function_of(lines: int) -> str:
    return "int f(void)\n{\n" + "    g();\n" * (lines - 3) + "}\n"


@pytest.mark.skipif(not lint.universal_ctags(), reason="universal-ctags is not installed")
@pytest.mark.parametrize("suffix", ["c", "h"])
@pytest.mark.parametrize(
    "lines, count, is_error", [(70, 0, False), (71, 1, False), (100, 1, False), (101, 1, True)]
)
def test_function_size_is_reported_and_then_refused(tmp_path, suffix, lines, count, is_error):
    path = f"src/kv/a.{suffix}"
    findings(tmp_path, {path: SPDX + function_of(lines)})
    found = list(lint.check_function_sizes(tmp_path, [path], lint.universal_ctags()))
    assert [(f.path, f.line, f.is_error) for f in found] == [(path, 2, is_error)] * count


@pytest.mark.skipif(not shutil.which("clang-format-14"), reason="no clang-format-14")
def test_format_finds_what_clang_format_would_change(tmp_path):
    shutil.copy(TOOLS.parent / ".clang-format", tmp_path)
    findings(tmp_path, {"src/kv/a.c": SPDX + "int  a;\n", "src/kv/b.c": SPDX + "int b;\n"})
    found = list(lint.check_format(tmp_path, ["src/kv/a.c", "src/kv/b.c"], "clang-format-14"))
    assert [(f.path, f.line) for f in found] == [("src/kv/a.c", 2)]


WORDS = """# word | why not | what instead
wibble | no person meant | the thread, the client
blub(?:s)? on | vague | continue
"""


@pytest.mark.parametrize(
    "path, body, found",
    [
        ("src/kv/a.c", "/* Wibble\n * reads it */\n", [(2, "'Wibble': no person meant")]),
        ("docs/a.md", "", []),
        ("docs/a.md", "It works.\nIt blub on.\n", [(3, "'blub on': vague")]),
        ("test/packet/wib-ble.pkt", "", []),
        ("test/packet/blub-on.pkt", "", [(1, "'blub on': vague")]),
        ("docs/picture.svg", "It blub on.\n", []),
        ("README.md", "byblub on\n", []),
    ],
)
def test_words(tmp_path, path, body, found):
    files = {"tools/words.txt": WORDS, path: SPDX + body}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    words = list(lint.check_words(tmp_path))
    assert [(f.path, f.line, f.message.partition(";")[0]) for f in words] == [
        (path, line, message) for line, message in found
    ]


def test_the_word_list_can_be_read():
    for word in lint.read_words(TOOLS.parent):
        assert word.why and word.instead, word


def test_assertions_that_other_machines_lack_are_found(tmp_path):
    header = "#define assert_true(a) (void)(a)\n"
    test = "static void assert_own(int a)\n{\n    assert_true(a);\n    assert_new(a);\n}\n"
    found = findings(tmp_path, {
        lint.FOREIGN_CMOCKA: SPDX + header, "test/unit/ustack/ip/a_test.c": SPDX + test,
        "test/unit/kv/a_test.c": SPDX + test})  # fmt: skip
    assert [(f.path, f.line) for f in found] == [("test/unit/ustack/ip/a_test.c", 5)]
    assert "assert_new" in found[0].message


@pytest.mark.parametrize(
    "subject, problem",
    [
        ("kv: merge the two find functions", None),
        ("kv, cache: prefetch the log tail when a SET is queued", None),
        ("src/net: read RFC 9293 again", None),
        ("kv: merged the two find functions", "'merged' is not an imperative"),
        ("kv: merging the two find functions", "'merging' is not an imperative"),
        ("kv: need no second table", None),
        ("merge the two find functions", "not `area"),
        ("kv: Merge the two find functions", "not `area"),
        ("kv: merge the two find functions.", "not `area"),
        ("kv: merge", "not `area"),
        ("kv: " + "merge " * 12 + "it", "78 characters"),
    ],
)
def test_commit_subjects(subject, problem):
    found = lint.subject_problem(subject)
    assert found == problem if problem is None else problem in found


def test_subjects_of_new_commits_are_checked(tmp_path, monkeypatch):
    assert lint.check_subjects(tmp_path) == ([], "commit subjects: no git history")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    commits = [(2020, "Old"), (2030, "kv: merge it all"), (2030, "New")]
    for year, subject in commits:
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"{year}-01-01T00:00:00Z")
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", subject], check=True)
    found, skipped = lint.check_subjects(tmp_path)
    assert skipped is None and len(found) == 1 and "'New'" in found[0].message


def run_lint(root: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess:
    command = [sys.executable, str(TOOLS / "lint.py"), "--root", str(root), *arguments]
    environment = None if path is None else {"PATH": path}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_command_exits_with_1_on_errors_only(tmp_path):
    findings(tmp_path, {"src/kv/a.c": SPDX + "\n" * 900})
    good = run_lint(tmp_path)
    assert good.returncode == 0
    assert "src/kv/a.c:1: note: 901 lines" in good.stdout
    findings(tmp_path, {"src/kv/b.c": SPDX + "\tint a;\n"})
    bad = run_lint(tmp_path)
    assert bad.returncode == 1
    assert "src/kv/b.c:2: error: tab in a C file" in bad.stdout


def test_missing_programs_are_skipped_by_name(tmp_path):
    findings(tmp_path, {"src/kv/a.c": SPDX})
    result = run_lint(tmp_path, "--format", path=str(tmp_path))
    assert result.returncode == 0
    assert "skipped: function sizes: universal-ctags" in result.stdout
    assert "skipped: format: clang-format-14" in result.stdout
