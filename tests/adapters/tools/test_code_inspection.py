"""Inspection of Python code: one process for all codes of a playbook, with limits."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from noetl.adapters.processes.code_inspection import CodeInspector

pytestmark = pytest.mark.spec("PIPE-15")


def test_the_facts_come_in_the_order_of_the_codes() -> None:
    wrong, fine, bare = CodeInspector()(["x = (", "def main(a): return a", "x = 1"])

    assert wrong is not None
    assert wrong.error is not None
    assert (wrong.error.line, wrong.error.column) == (1, 5)
    assert fine is not None
    assert fine.main is not None
    assert fine.main.required == (("a", 1, 10),)
    assert bare is not None
    assert not bare.gives


def test_one_process_compiles_all_codes_and_each_code_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Any] = []
    run = subprocess.run

    def count(*args: Any, **options: Any) -> Any:
        started.append(args)
        return run(*args, **options)

    monkeypatch.setattr(subprocess, "run", count)
    inspect = CodeInspector()

    first = inspect(["x = 1", "result = 1", "x = 1"])
    again = inspect(["result = 1", "x = 1"])

    assert len(started) == 1
    assert first == [again[1], again[0], again[1]]


def test_codes_after_one_above_the_limits_have_no_facts() -> None:
    huge = "x = [" + "1," * 450_000 + "]"

    facts = CodeInspector()(["result = 1", huge, "result = 2"])

    assert [each is not None for each in facts] == [True, False, False]


@pytest.mark.parametrize(
    "failure", [OSError("no process"), subprocess.TimeoutExpired("python", 10.0)]
)
def test_without_a_process_there_are_no_facts(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **options: Any) -> Any:
        raise failure

    monkeypatch.setattr(subprocess, "run", fail)

    assert CodeInspector()(["result = 1"]) == [None]


def test_the_process_gets_no_secret_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, Any] = {}

    def note(*args: Any, **options: Any) -> Any:
        seen.update(options)
        raise OSError

    monkeypatch.setenv("NOETL_TOKEN", "secret")
    monkeypatch.setattr(subprocess, "run", note)
    CodeInspector()(["result = 1"])

    assert "NOETL_TOKEN" not in seen["env"]
