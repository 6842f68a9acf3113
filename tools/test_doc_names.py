# SPDX-License-Identifier: BSD-3-Clause
"""doc_names.py: finds what a page names and the tree does not have."""

import subprocess
from pathlib import Path

import doc_names
import pytest

FILES = {
    "README.md": "# Home\n",
    "GNUmakefile": "check: all\n\nbench-instructions:\n",
    "src/kv/index.c": "int kv_find(void)\n{\n    return stat_hits;\n}\n",
    "src/kv/index.h": "struct kv_key {\n    int hash_low;\n};\n",
    "apps/main.py": 'OPTION = "--evict"\n',
}


@pytest.fixture
def tree(tmp_path):
    """A function that makes a tree with one page and returns what is found in it."""

    def make(text):
        for name, content in {**FILES, "docs/page.md": text}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(content, encoding="utf-8")
        subprocess.run(["git", "init", "-q", tmp_path], check=True)
        return doc_names.findings(tmp_path)

    return make


@pytest.mark.parametrize("text", [
    "`src/kv/index.c` and `kv/index.h` and `index.*` and `src/kv`",
    "`kv_find()` in `index.c`: `kv_find()`",
    "`kv_key.hash_low`, `struct kv_key`, `stat_hits`",
    "`make check`, `make bench-instructions`, `--evict=clock`",
    "# A heading, and `code`\n[here](#a-heading-and-code) [home](../README.md#home)",
    "    `nothing.c` in an example\n",
    "`MADV_COLLAPSE` of Linux",
])
def test_names_that_exist(tree, text):
    assert tree(text) == []


@pytest.mark.parametrize("text, message", [
    ("`src/kv/other.c`", "no such file"),
    ("`src/other`", "no such folder"),
    ("`kv_lose()`", "no such function"),
    ("`index.h` `kv_find()`", "does not define"),
    ("`kv_key.hash_high`", "no such word in the code: hash_high"),
    ("`stat_misses`", "no such word in the code: stat_misses"),
    ("`make coffee`", "no such target"),
    ("`--evoke`", "no such option"),
    ("`other.h` | `kv_find()`", "no such file"),
    ("``` \nkv_find() in index.h, kv_lose()\n```", "no such function"),
    ("[there](other.md)", "no such page"),
    ("[there](#nowhere)", "no such heading"),
])
def test_names_that_do_not_exist(tree, text, message):
    found = tree("\n" + text)
    assert len(found) == 1 and message in found[0]
    assert found[0].startswith("docs/page.md:")


def test_this_tree():
    assert doc_names.findings(Path(doc_names.__file__).resolve().parent.parent) == []
