"""Data shared by the sections of the page, and the reasons of decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import msgspec

from noetl.dsl.model import Arc, Playbook, Rule, Step
from noetl.dsl.secret_patterns import mask
from noetl.engine.events import (
    ArcAnswer,
    Directive,
    Event,
    Gated,
    NextEvaluated,
    TaskDone,
)
from noetl.report.fold import Record
from noetl.report.places import Source
from noetl.report.runs import TaskLogSample
from noetl.report.values import Budget, Shown, show_value
from noetl.types import JSON

_MAX_CHARS = 400


class Reason(msgspec.Struct, frozen=True):
    """One reason: ``verdict`` about ``what``, by a guard at a line."""

    what: str
    verdict: str
    good: bool
    guard: str | None = None
    line: int | None = None
    note: str = ""


class Reasons:
    """Reads decisions against the playbook of the run; without it, from the log."""

    def __init__(self, playbook: Playbook | None) -> None:
        self._steps = playbook.steps if playbook is not None else {}

    def of_admission(self, event: Event) -> Reason | None:
        """Return the reason of an admission; None without a gate."""
        gated: Gated = event.payload
        step, admit = self._steps.get(event.step or ""), gated["admit"]
        verdict = "admitted" if admit["allow"] else "denied"
        if "error" in admit:
            message = str(admit["error"].get("message", ""))
            return Reason("gate", verdict, False, note=message)
        rules = (step.admit if step is not None else None) or ()
        number = admit.get("rule")
        if number is None or number >= len(rules):
            if not rules:
                return None
            note = "no rule of the gate matched"
            return Reason("gate", verdict, admit["allow"], note=note)
        rule = rules[number]
        guard = _cut(rule.when.source) if rule.when is not None else None
        line, note = rule.at.mark[0], "" if guard else "the gate's else"
        return Reason("gate", verdict, admit["allow"], guard, line, note)

    def of_call(self, done: Event) -> Reason:
        """Return the rule that gave the directive after an attempt."""
        payload: TaskDone = done.payload
        directive = payload["directive"]
        do = _directive_words(directive)
        good = done.status != "error"
        if "refused" in payload:
            key = payload["refused"]["key"]
            return Reason(do, do, good, note=f"ctx.{key} has another writer")
        rules = self._rules(done)
        number = directive.get("rule")
        if rules is None:
            note = "no policy: ok continues, an error fails"
            return Reason(do, do, good, note=note)
        if number is None or number >= len(rules):
            return Reason(do, do, good, note="no rule matched")
        rule = rules[number]
        note = f"rule {number + 1}"
        if rule.then.do == "retry" and directive["do"] == "fail":
            note += f", all {rule.then.attempts} attempts used"
        if rule.when is None:
            return Reason(do, do, good, None, rule.at.mark[0], f"{note}, else")
        source = _cut(rule.when.source)
        return Reason(do, do, good, source, rule.at.mark[0], note)

    def of_routing(self, event: Event) -> Iterator[Reason]:
        """Yield a reason for each arc, in the order of evaluation."""
        arcs = self._arcs(event)
        payload: NextEvaluated = event.payload
        for number, answer in enumerate(payload["arcs"]):
            arc = arcs[number] if number < len(arcs) else None
            guard = arc.when.source if arc is not None and arc.when else None
            line = arc.at.mark[0] if arc is not None else None
            verdict, note = _arc_verdict(answer, guard is not None)
            yield Reason(
                answer["step"],
                verdict,
                bool(answer["fired"]),
                _cut(guard) if guard is not None else None,
                line,
                note,
            )

    def _step(self, event: Event) -> Step | None:
        return self._steps.get(event.step or "")

    def _arcs(self, event: Event) -> Sequence[Arc]:
        step = self._step(event)
        return step.next.arcs if step is not None and step.next is not None else ()

    def _rules(self, event: Event) -> Sequence[Rule] | None:
        step = self._step(event)
        for task in step.tasks if step is not None else ():
            if task.label == event.task_label:
                return task.rules
        return ()


def _arc_verdict(answer: ArcAnswer, guarded: bool) -> tuple[str, str]:
    if answer["fired"]:
        return "fired", "the guard is true" if guarded else "no guard"
    if "error" in answer:
        return "failed", str(answer["error"].get("message", ""))
    return "did not fire", str(answer.get("why", ""))


def _directive_words(directive: Directive) -> str:
    match directive["do"]:
        case "retry":
            return f"retry in {directive.get('delay', 0):g} s"
        case "jump":
            return f"jump to {directive.get('to')}"
        case do:
            return str(do)


def _cut(source: str) -> str:
    words = mask(" ".join(source.split()))
    return words if len(words) <= _MAX_CHARS else words[:_MAX_CHARS] + "…"


CHARACTERS = 1_500_000
"""Characters of values on the whole page."""
Data: TypeAlias = dict[str, Any]
"""Values of a template: text, numbers, lists and mappings, never markup."""


class PageData:
    """Data of a page; ``source`` is the playbook's text.

    ``playbook`` is None if it is not valid. ``logs`` is what tasks printed.
    """

    def __init__(
        self,
        record: Record,
        playbook: Playbook | None,
        source: str | None,
        logs: TaskLogSample,
    ) -> None:
        self.logs = logs
        self.record = record
        self.playbook = playbook
        self.source = source
        self.reasons = Reasons(playbook)
        self._budget = Budget(CHARACTERS)

    @property
    def execution_id(self) -> str:
        return self.record.state.execution_id

    @cached_property
    def steps(self) -> list[str]:
        """Steps in the order of the playbook; then those that only the log has."""
        known = self.playbook.steps if self.playbook is not None else ()
        return list(dict.fromkeys([*known, *filter(None, self.record.steps)]))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {step: number for number, step in enumerate(self.steps, 1)}

    def anchor(self, step: str) -> str:
        """Return an id without the characters of the step's name."""
        return f"step-{self._numbers.get(step, 0)}"

    def step(self, name: str) -> Data:
        """Return a link to a step."""
        return {"name": name, "anchor": self.anchor(name)}

    def place(self, error: dict[str, JSON]) -> str | None:
        """Return the lines with the place of an error in the playbook."""
        if self.source is None:
            return None
        file = str(self.record.playbook.get("path") or "playbook")
        place = Source(self.playbook, self.source, file).place_of(error)
        return None if place is None else "\n".join(place.as_text())

    def line(self, line: int | None) -> Data | None:
        """Return a link to a line of the playbook; plain text without its source."""
        if line is None:
            return None
        return {"number": line, "is_link": self.source is not None}

    def reason(self, reason: Reason) -> Data:
        return {
            "what": reason.what,
            "step": self.step(reason.what) if reason.what in self._numbers else None,
            "verdict": reason.verdict,
            "good": reason.good,
            "guard": reason.guard,
            "note": reason.note,
            "line": self.line(reason.line),
        }

    def value(self, value: JSON, limit: int, command: str = "show") -> Shown:
        rest = f"noetl {command} {self.execution_id} --json"
        return show_value(value, self._budget, limit, rest)
