# SPDX-License-Identifier: BSD-3-Clause
"""Plants a difference in each place that repeats the version or the exported functions."""

import shutil
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent
sys.path.insert(0, str(TOOLS))

import versions  # noqa: E402

FILES = (
    "meson.build",
    "debian/changelog",
    "debian/libustack0.symbols",
    "debian/libmcproto0.symbols",
    *(path for path, _ in versions.HEADERS.values()),
)


def test_this_tree_agrees():
    assert versions.problems(ROOT) == []


@pytest.mark.parametrize(
    "path, old, new, found",
    [
        ("include/ustack/ustack.h", "_MINOR 1", "_MINOR 2", "US_VERSION_MINOR 1"),
        ("include/mcproto/mcproto.h", '_STRING "0.1.0"', '_STRING "0.1"', "MC_VERSION_STRING"),
        ("include/ustack/ustack.h", "us_mtu_set(", "us_mtu_put(", "us_mtu_put is missing"),
        ("debian/libmcproto0.symbols", " mc_parse@", " mc_gone@", "mc_gone is not in"),
        ("debian/changelog", "(0.1.0-", "(0.0.9-", "the first version is not"),
    ],
)
def test_a_difference_is_found(path, old, new, found, tmp_path):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    text = (tmp_path / path).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / path).write_text(text.replace(old, new, 1), encoding="utf-8")
    assert any(found in line for line in versions.problems(tmp_path))
