"""A playbook and a case from a few lines of YAML: read, checked and judged."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent, indent

import pytest

from noetl import load
from noetl.dsl.diagnostics import Diagnostic
from noetl.dsl.model import Playbook
from noetl.engine.tasks.outcome import Failure
from noetl.testing.check_names import check_references
from noetl.testing.parse import parse_suite
from noetl.testing.run_case import Observation, Trial
from noetl.testing.verdict import Verdict, judge_case

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: t, path: {path}}}\n"


def read_playbook(workflow: str, path: str = "tests/t") -> Playbook:
    text = dedent(workflow)
    if "workflow:" not in text:
        text = "workflow:\n" + indent(text, "  ")
    whole = text.lstrip().startswith("apiVersion")
    loaded = load(text if whole else HEAD.format(path=path) + text)
    assert loaded.playbook is not None, loaded.diagnostics
    return loaded.playbook


class Judged:
    """The verdict on the only case of a suite, and what its last run was like."""

    def __init__(self, verdict: Verdict, seen: Observation | None) -> None:
        self.verdict = verdict
        self._seen = seen

    @property
    def passed(self) -> bool:
        return self.verdict.passed

    @property
    def messages(self) -> list[str]:
        return [fault.message for fault in self.verdict.faults]

    @property
    def seen(self) -> Observation:
        assert self._seen is not None, self.messages
        return self._seen


Judge = Callable[..., Judged]


def judge_text(
    workflow: str, case: str, children: dict[str, str] | None = None, shared: str = ""
) -> Judged:
    """``case`` are the keys of one case; ``shared`` those of the file."""
    playbook = read_playbook(workflow)
    others = {
        path: read_playbook(body, path) for path, body in (children or {}).items()
    }
    entry = indent(dedent(case), "    ")
    suite, found = parse_suite(f"{dedent(shared)}\ncases:\n  - name: it\n{entry}")
    assert suite is not None, [each.message for each in found]
    found = check_references(suite, playbook, others.get)
    assert found == (), [each.message for each in found]

    def find(path: str, version: str | None) -> Playbook | Failure:
        return others.get(path) or Failure("playbook.not_found", f"no '{path}'")

    seen: list[Observation] = []
    (only,) = suite.cases
    trial = Trial(only, playbook, find)
    verdict = judge_case(trial, range(only.schedules), seen.append)
    return Judged(verdict, seen[-1] if seen else None)


@pytest.fixture(scope="session")
def judge() -> Judge:
    return judge_text


def complain(text: str, workflow: str | None = None) -> list[Diagnostic]:
    """What is wrong with a suite, by itself or for a playbook."""
    suite, found = parse_suite(dedent(text))
    if suite is not None and workflow is not None:
        found = check_references(suite, read_playbook(workflow), lambda path: None)
    return list(found)


@pytest.fixture(scope="session")
def complaints() -> Callable[..., list[Diagnostic]]:
    return complain
