# SPDX-License-Identifier: BSD-3-Clause
"""A version that changes, a test that comes and one that goes are found in the table of clients."""

import shutil
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent
sys.path.insert(0, str(TOOLS))

import clients  # noqa: E402


@pytest.fixture
def tree(tmp_path):
    shutil.copytree(ROOT / "test" / "system", tmp_path / "test" / "system")
    shutil.copy(ROOT / "README.md", tmp_path)
    return tmp_path


def page(root):
    return (root / "README.md").read_text()


def test_this_tree_agrees():
    assert clients.corrected(ROOT) == page(ROOT)


def test_each_client_has_a_test():
    tables = (clients.MODULES, clients.PACKAGES, clients.PROGRAMS)
    assert len(clients.rows(ROOT)) == sum(map(len, tables))


def test_differences_are_found(tree):
    requirements = tree / "test" / "system" / "requirements.txt"
    requirements.write_text(requirements.read_text().replace("pymemcache==", "pymemcache==9."))
    assert "| pymemcache | 9." in clients.corrected(tree) != page(tree)
    module = tree / "test" / "system" / "clients" / "go.mod"
    module.write_text(module.read_text().replace("gomemcache v0", "gomemcache v9"))
    assert "| gomemcache | v9" in clients.corrected(tree)
    (tree / "test" / "system" / "test_new.py").write_text("import bmemcached\n")
    assert "`test_new.py`" in clients.corrected(tree)
    for path in (tree / "test" / "system").glob("test_*.py"):
        path.write_text(path.read_text().replace("memcaslap", "x"))
    assert "memcaslap" not in clients.corrected(tree)


def test_rows_by_hand_are_kept(tree):
    assert "PHP sessions" in clients.corrected(tree)
