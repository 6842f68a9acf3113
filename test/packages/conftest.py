# SPDX-License-Identifier: BSD-3-Clause
"""The release archive, and the packages that are built from it in a clean Debian."""

import os
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tools"), str(ROOT / "test" / "system")]

import debroot  # noqa: E402
import page  # noqa: E402
import strict  # noqa: E402

YES = Path(__file__).parent / "apt-yes.conf"
# What a user may say to dpkg-buildpackage: bookworm's are built as they are shipped, and trixie's
# in less time (test_make_run links all programs with LTO there).
SUITES = {"bookworm": "", "trixie": "optimize=-lto noautodbgsym"}


def pytest_configure(config):
    config.pluginmanager.register(strict.pytest_plugin())
    debroot.own_mounts()


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    """The folder of an unpacked release archive of the commit that is checked out."""
    if why := debroot.missing():
        pytest.skip(why)
    debroot.run("make", "dist", "DIST_FLAGS=--allow-dirty", cwd=ROOT)
    (packed,) = (ROOT / "build/release/meson-dist").glob("ucached-*.tar.xz")
    folder = tmp_path_factory.mktemp("release")
    with tarfile.open(packed) as tar:
        tar.extractall(folder, filter="data")
    shutil.copy(packed, folder)
    (tree,) = (path for path in folder.iterdir() if path.is_dir())
    return tree


@pytest.fixture(scope="session", params=SUITES)
def packages(request, archive, tmp_path_factory):
    """(suite, folder of its .deb files), built and checked by lintian in a clean system."""
    suite = request.param
    out = tmp_path_factory.mktemp(f"packages-{suite}")
    with debroot.overlay(suite, tmp_path_factory.mktemp(f"build-{suite}")) as root:
        root.add(archive, f"/build/{archive.name}")
        root.apt("update")
        root.apt("install", "build-essential", "lintian")
        root.add(YES, "/etc/apt/apt.conf.d/yes")
        lines = "\n".join(page.block(archive / "README.md", "dpkg-buildpackage"))
        options = {"DEB_BUILD_OPTIONS": f"parallel={os.cpu_count()} terse {SUITES[suite]}"}
        root.sh(f"cd /build/{archive.name}\n{lines}", env=options)
        (out / "lintian").write_text(root.sh(
            "cd /build && lintian --allow-root --fail-on none *.changes").stdout)  # fmt: skip
        for package in (root.path / "build").glob("*.deb"):
            shutil.copy(package, out)
    return suite, out
