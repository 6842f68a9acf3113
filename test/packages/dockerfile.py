# SPDX-License-Identifier: BSD-3-Clause
"""Runs what packaging/Dockerfile says in clean Debian systems: a builder for the tests.

It knows the instructions that this file uses and refuses all others.
"""

import contextlib
import fnmatch
import json
import shlex
import shutil

import debroot

SUITES = {"debian:12-slim": "bookworm", "debian:13-slim": "trixie"}


def instructions(text):
    """(word, arguments) of each instruction."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").split("\n"):
        word, _, rest = line.partition(" ")
        yield word, rest.strip()


class Stage:
    def __init__(self, root):
        self.root = root
        self.settings = {}  # USER, CMD, ...: as written

    def words(self, name):
        return json.loads(self.settings[name])


def copy(context, stages, stage, rest):
    words = shlex.split(rest)
    source = context
    if words[0].startswith("--from="):
        source = stages[words.pop(0).removeprefix("--from=")].root.path
    *names, target = words
    for name in names:
        path = source / name.lstrip("/")
        to = f"{target}{path.name}" if target.endswith("/") else target
        stage.root.add(path, to)


def without_ignored(context, to):
    """A copy of a build context less what .dockerignore names."""
    patterns = (context / ".dockerignore").read_text().split()

    def ignored(folder, names):
        return [name for name in names if folder == str(context)
                and any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]  # fmt: skip

    shutil.copytree(context, to, ignore=ignored, symlinks=True)
    return to


@contextlib.contextmanager
def built(path, context, scratch):
    """The last stage of a Dockerfile, all of whose steps have run."""
    context = without_ignored(context, scratch / "context")
    with contextlib.ExitStack() as stack:
        stages, stage = {}, None
        for number, (word, rest) in enumerate(instructions(path.read_text())):
            if word == "FROM":
                image, _, name = rest.partition(" AS ")
                folder = scratch / f"stage{number}"
                stage = Stage(stack.enter_context(debroot.overlay(SUITES[image], folder)))
                stages[name] = stage
            elif word == "RUN":
                stage.root.sh(rest)
            elif word == "COPY":
                copy(context, stages, stage, rest)
            elif word == "HEALTHCHECK":
                stage.settings[word] = rest.partition("CMD ")[2]
            elif word in ("USER", "EXPOSE", "ENTRYPOINT", "CMD"):
                stage.settings[word] = rest
            else:
                raise debroot.RootError(f"{path}: {word} is not known here")
        yield stage
