"""Executions from a few lines of YAML: written, run, and read from their log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from textwrap import dedent, indent
from typing import Any

import pytest

from noetl import load
from noetl.dsl.model import Playbook
from noetl.engine.decide import pause, report, resume
from noetl.engine.events import Event
from noetl.engine.reports.accept import Fact
from noetl.engine.runs import path_of
from noetl.engine.simulate import Simulation
from noetl.engine.steps.completion import cancel
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.pipeline import Call
from noetl.types import JSON

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"

Answer = Outcome | Exception | JSON


def read_playbook(workflow: str, root: str = "") -> Playbook:
    text = HEAD + dedent(root) + "workflow:\n" + indent(dedent(workflow), "  ")
    loaded = load(text)
    assert loaded.playbook is not None, loaded.diagnostics
    return loaded.playbook


class Execution(Simulation):
    """A simulation that remembers its calls and answers questions about its log.

    ``script`` maps a label to a list of answers, one per call (the last one stays), or
    to a function of the call. A text such as ``!timeout`` is an error of that kind;
    what has no script succeeds with null.
    """

    def __init__(
        self, workflow: str, root: str = "", script: JSON = None, **options: Any
    ) -> None:
        super().__init__(read_playbook(workflow, root), self._answer, **options)
        self.calls: list[Call] = []
        self._answers: dict[str, JSON] = dict(script or {})

    def _answer(self, call: Call) -> Outcome:
        self.calls.append(call)
        answer = self._answers.get(call.task.label)
        if callable(answer):
            answer = answer(call)
        elif isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, Outcome):
            return answer
        if isinstance(answer, str) and answer.startswith("!"):
            return Outcome.failed(answer[1:], "scripted")
        return Outcome.ok(answer)

    def command(self, order: Callable[..., None], *args: Any) -> list[Event]:
        """Cancel, pause, resume or report, as a host would."""
        before = len(self.log)
        self._settle(lambda batch: order(batch, *args))
        return self.log[before:]

    def pause(self) -> None:
        self.command(pause)

    def resume(self) -> None:
        self.command(resume)

    def cancel(self) -> None:
        self.command(cancel)

    def tell(
        self, command_id: str, facts: Sequence[Fact], *, elsewhere: bool = False
    ) -> list[Event]:
        return self.command(partial(report, elsewhere=elsewhere), command_id, facts)

    # -- questions ---------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        return [event.name for event in self.log]

    def events(self, *names: str, step: str | None = None) -> list[Event]:
        return [
            event
            for event in self.log
            if event.name in names and step in (None, event.step)
        ]

    def event(self, name: str, step: str | None = None) -> Event:
        """The only one of that name."""
        (event,) = self.events(name, step=step)
        return event

    @property
    def seen(self) -> list[JSON]:
        """The input ``v`` of every call, in order."""
        return [call.inputs.get("v") for call in self.calls]

    @property
    def labels(self) -> list[str]:
        return [call.task.label for call in self.calls]

    @property
    def directives(self) -> list[str]:
        done = self.events("task.done")
        return [f"{e.task_label} {e.payload['directive']['do']}" for e in done]

    def runs_of(self, step: str) -> int:
        return len(self.events("step.scheduled", step=step))

    @property
    def fired(self) -> list[list[str]]:
        """The targets of every routing, in log order."""
        routed = self.events("next.evaluated")
        return [[token["step"] for token in e.payload["fired"]] for e in routed]


Run = Callable[..., Execution]


@pytest.fixture(scope="session")
def prepare() -> Run:
    """An execution that has not begun."""
    return Execution


@pytest.fixture(scope="session")
def run() -> Run:
    """An execution from its beginning to its end."""

    def run_to_end(*args: Any, **options: Any) -> Execution:
        execution = Execution(*args, **options)
        execution.run()
        assert execution.state.finished
        return execution

    return run_to_end


@pytest.fixture(scope="session")
def path() -> Callable[[Event], tuple[int, ...]]:
    return lambda event: tuple(path_of(event.iteration_id))
