"""Why: which rule matched, which guard was true, which was not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from noetl.dsl.model import Arc, Playbook, Rule, Step
from noetl.dsl.secrets import mask
from noetl.engine.events import Event
from noetl.types import JSON

_LONG = 400


class Reason(msgspec.Struct, frozen=True):
    """One answer: ``verdict`` about ``what``, by a guard that stands in a line."""

    what: str
    verdict: str
    good: bool
    guard: str | None = None
    line: int | None = None
    note: str = ""


class Reasons:
    """Reads decisions against the playbook that was run; without it, from the log."""

    def __init__(self, playbook: Playbook | None) -> None:
        self._steps = playbook.steps if playbook is not None else {}

    def of_admission(self, event: Event) -> Reason | None:
        """What the gate said; None where there is no gate."""
        step, admit = self._steps.get(event.step or ""), event.payload["admit"]
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
        """Which rule gave the directive after an attempt."""
        directive = done.payload["directive"]
        do = _directive_words(directive)
        good = done.status != "error"
        if "refused" in done.payload:
            key = done.payload["refused"]["key"]
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
        """Each arc, in the order in which they were judged."""
        arcs = self._arcs(event)
        for number, answer in enumerate(event.payload["arcs"]):
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


def _arc_verdict(answer: dict[str, JSON], guarded: bool) -> tuple[str, str]:
    if answer["fired"]:
        return "fired", "the guard is true" if guarded else "no guard"
    if "error" in answer:
        return "failed", str(answer["error"].get("message", ""))
    return "did not fire", str(answer.get("why", ""))


def _directive_words(directive: dict[str, JSON]) -> str:
    match directive["do"]:
        case "retry":
            return f"retry in {directive.get('delay', 0):g} s"
        case "jump":
            return f"jump to {directive.get('to')}"
        case do:
            return str(do)


def _cut(source: str) -> str:
    words = mask(" ".join(source.split()))
    return words if len(words) <= _LONG else words[:_LONG] + "…"
