"""Playbooks of the dialect, run by the simulation with scripted answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import msgspec
import pytest

from noetl import load
from noetl.adapters.tools import BUILTIN
from noetl.dialects.migration import migrate
from noetl.dsl.load import Loaded
from noetl.engine.events import Event
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.pipeline import Call
from noetl.types import JSON

PLAYBOOKS = Path(__file__).parent / "playbooks"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
LEGACY = frozenset({"legacy"})


def read(text: str) -> str:
    """A whole document as it is, by its file's name, or of the steps of a workflow."""
    if "apiVersion: " in text:
        return text
    if text.endswith(".yaml"):
        return (PLAYBOOKS / text).read_text()
    steps, _, root = dedent(text).partition("---\n")
    return HEAD + dedent(root) + "workflow:\n" + indent(steps, "  ")


class Execution(Simulation):
    """``script`` maps a label to its answers, one per call; the last one stays.

    A text such as ``!timeout`` is an error of that kind, a number an HTTP status;
    ``noop`` and tasks without a script do what they do.
    """

    def __init__(
        self,
        text: str,
        script: dict[str, JSON],
        extensions: frozenset[str] = LEGACY,
        **options: Any,
    ) -> None:
        loaded = load(read(text), extensions=extensions)
        assert loaded.playbook is not None, loaded.diagnostics
        super().__init__(loaded.playbook, self._answer, **options)
        self.calls: list[Call] = []
        self._answers = {key: list(value) for key, value in script.items()}

    def _answer(self, call: Call) -> Outcome:
        label, inputs = call.task.label, call.inputs
        if label in self._answers:
            answers = self._answers[label]
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
        elif call.task.kind == "noop":
            note = {key: inputs[key] for key in ("note",) if key in inputs}
            if "__" not in label:
                self.calls.append(call)
            return Outcome.ok(inputs.get("result"), **note)
        else:
            answer = None
        self.calls.append(call)
        if isinstance(answer, str) and answer.startswith("!"):
            return Outcome.failed(answer[1:], "scripted")
        if type(answer) is int:
            if answer < 400:
                return Outcome.ok({"ok": True}, status=answer)
            return Outcome.failed("http.server", f"{answer}", status=answer)
        return Outcome.ok(answer)

    @property
    def ran(self) -> list[str]:
        """The labels of the tools that were called, in order."""
        return [call.task.label for call in self.calls]

    def named(self, *names: str) -> list[Event]:
        return [event for event in self.log if event.name in names]

    def done(self, label: str) -> dict[str, JSON]:
        """The payload of the last ``task.done`` of a task."""
        found = [e for e in self.named("task.done") if e.task_label == label]
        return found[-1].payload

    @property
    def steps(self) -> list[str | None]:
        return [event.step for event in self.named("step.scheduled")]

    @property
    def fired(self) -> list[tuple[str, JSON]]:
        """The tokens that were sent: their targets and what they carry."""
        return [
            (token["step"], token["args"])
            for event in self.named("next.evaluated")
            for token in event.payload["fired"]
        ]

    def happened(self) -> list[Any]:
        """The log, but for the extensions that the execution has been accepted with."""
        events = [msgspec.to_builtins(event) for event in self.log]
        for event in events:
            event["payload"].pop("extensions", None)
        return events


@pytest.fixture
def execute() -> Callable[..., Execution]:
    """Run a playbook to its end, or until nothing moves by itself.

    In the language of today it must do the same, event by event.
    """

    def run(text: str, script: dict[str, JSON] | None = None, **options: Any) -> Any:
        execution = Execution(text, script or {}, **options)
        execution.run()
        execution.recover()
        migrated = migrate(read(text), BUILTIN, LEGACY)
        assert migrated.text is not None
        assert not migrated.left
        again = Execution(migrated.text, script or {}, frozenset(), **options)
        again.run()
        again.recover()
        assert again.happened() == execution.happened()
        assert again.state == execution.state
        return execution

    run.kind = Execution  # type: ignore[attr-defined]
    return run


@pytest.fixture
def loaded() -> Callable[..., Loaded]:
    def read_it(text: str, *, legacy: bool = True) -> Loaded:
        return load(read(text), extensions=LEGACY if legacy else frozenset())

    return read_it
