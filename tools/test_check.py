# SPDX-License-Identifier: BSD-3-Clause
"""tools/check.py: order, failures, repeated tests, summary."""

import sys
import threading
import time

import check
import pytest

TESTS = """
import pathlib
mark = pathlib.Path(__file__).with_suffix(".mark")

def test_passes():
    pass

def test_flaky():
    first = not mark.exists()
    mark.touch()
    assert not first

def test_broken():
    assert False
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "LOGS", tmp_path)
    return tmp_path


def python(name, code, needs=()):
    return check.Stage(name, "check", [sys.executable, "-c", code], needs)


def results(stages):
    run = check.Run(stages)
    passed = run.run()
    return passed, {stage.name: stage.result for stage in run.stages}


def test_all_stages_pass():
    assert results([python("one", ""), python("two", "", ("one",))]) == (
        True, {"one": "passed", "two": "passed"})  # fmt: skip


def test_a_failure_leaves_out_only_what_needs_it(capsys):
    stages = [python("build", "print('reason'); exit(3)"), python("test", "", ("build",)),
              python("later", "", ("test",)), python("other", "")]  # fmt: skip
    assert results(stages) == (False, {
        "build": "FAILED", "test": "left out", "later": "left out", "other": "passed"})  # fmt: skip
    assert "reason" in capsys.readouterr().out


def test_the_summary_says_why_a_stage_without_tests_failed():
    run = check.Run([python("gate", "print('too many'); print(); print('end'); exit(3)")])
    assert not run.run()
    assert check.summary(run).endswith(
        "\nFAILED: gate\n  broken: status 3: too many | end")


def test_the_failed_assertions_of_cmocka_say_why():
    output = ("[ RUN      ] test_one\n[  ERROR   ] --- 0x1 != 0x2\n"
              "[   LINE   ] --- ../one_test.c:7: error: Failure!\n[  FAILED  ] test_one\n"
              "[==========] 1 test(s) run.\n")  # fmt: skip
    assert check.last_words(output) == "0x1 != 0x2 | ../one_test.c:7: error: Failure!"
    assert len(check.last_words("x" * 1000)) == 300


def test_the_cpu_time_of_a_stage_is_that_of_its_descendants_too():
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    shell = check.Stage("burn", "check", ["sh", "-c", f'{sys.executable} -c "{burn}"; true'])
    assert results([shell]) == (True, {"burn": "passed"})
    assert shell.cpu_s >= 0.5


def test_a_stage_ends_at_its_limit():
    stage = python("endless", "import time; time.sleep(60)")
    stage.limit_s = 1
    assert results([stage]) == (False, {"endless": "FAILED"})
    assert "ended after 1 s" in stage.log.read_text()


TEST_RUNNER = """
import signal, subprocess, sys
program = subprocess.Popen(["sleep", "60"], start_new_session=True)
signal.signal(signal.SIGTERM, lambda *_: program.kill())
print("program runs", flush=True)
sys.exit(program.wait() != -signal.SIGKILL)
"""


def test_ending_lets_a_stage_end_its_programs(monkeypatch):
    monkeypatch.setattr(check, "ENDING", threading.Event())
    run = check.Run([python("tests", TEST_RUNNER), python("later", "", ("tests",))])
    thread = threading.Thread(target=run.run)
    thread.start()
    log = run.stages[0].log
    while not log.exists() or "program runs" not in log.read_text():
        time.sleep(0.01)
    check.end_all()
    thread.join()
    assert [stage.result for stage in run.stages] == ["passed", "FAILED"]
    assert not check.RUNNING


def test_failed_tests_run_once_more_alone(folder):
    (folder / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfE",
               f"--junitxml={folder / 'system'}.xml", "test_it.py"]  # fmt: skip
    stage = check.Stage("system", "check", command, is_pytest=True)
    run = check.Run([stage])
    assert not run.run()
    assert stage.flaky == ["test_it.py::test_flaky: assert not True"]
    assert stage.broken == ["test_it.py::test_broken: assert False"]
    text = check.summary(run)
    assert "slowest tests:" in text
    assert text.endswith("\nFAILED: system\n  flaky: test_it.py::test_flaky: assert not True\n"
                         "  broken: test_it.py::test_broken: assert False")  # fmt: skip


def test_stages_by_name_or_group_bring_their_builds():
    names = [stage.name for stage in check.chosen_stages(["asan-unit"])]
    assert names == ["build-asan", "asan-unit"]
    assert {"lint", "unit", "build-check"} <= {s.name for s in check.chosen_stages(["check"])}
    with pytest.raises(SystemExit):
        check.chosen_stages(["nonsense"])


def test_the_table_is_consistent():
    names = [stage.name for stage in check.STAGES]
    assert len(set(names)) == len(names)
    for number, stage in enumerate(check.STAGES):
        assert set(stage.needs) <= set(names[:number]), stage.name
