"""Answers to "why?": what was considered at a decision, and what each guard saw.

No guard is evaluated again. The log has the answers, the playbook the guards, and the
state before the event the values that they read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from noetl.dsl.model import AdmitRule, Playbook, Rule, Step
from noetl.engine.endings import FALSE
from noetl.engine.events import Event, Gated, NextEvaluated, TaskDone
from noetl.engine.runs import find_open
from noetl.engine.state import State
from noetl.net.net import Net
from noetl.report.page_data import Reasons
from noetl.report.values import cut
from noetl.templates import Template
from noetl.types import JSON

Verdict = Literal["yes", "no", "error", "waiting", "not_looked_at"]
MAX_VALUES = 64
VALUE_BYTES = 2_048
_BARE = ("args", "ctx", "iter", "workload")


class Saw(msgspec.Struct):
    """The value of a name that a guard reads; ``missing`` if nothing gave it."""

    name: str
    value: JSON = None
    cut: bool = False
    missing: bool = False


class Considered(msgspec.Struct):
    """One of the ways that an event could have gone, with its guard."""

    what: str
    verdict: Verdict
    guard: str | None = None
    line: int | None = None
    saw: list[Saw] = msgspec.field(default_factory=list)
    note: str = ""


class DecidedBy(msgspec.Struct):
    """The rule or the arc that decided: its position, and its line in the playbook."""

    rule: int | None
    line: int | None


class Why(msgspec.Struct):
    """A question about an execution and its answer, at the event ``seq``."""

    question: str
    answer: str
    seq: int | None
    decided_by: DecidedBy | None = None
    considered: list[Considered] = msgspec.field(default_factory=list)


class Decisions:
    """Explains single decisions of an execution by its playbook."""

    def __init__(self, playbook: Playbook | None) -> None:
        self._steps: Mapping[str, Step] = playbook.steps if playbook else {}
        self._reasons = Reasons(playbook)

    def of_routing(self, event: Event, before: State) -> Why:
        """Explain which arcs fired after a step, and why others did not."""
        payload: NextEvaluated = event.payload
        run = before.runs.get(event.step_run_id or "")
        boundary = run.boundary if run is not None else None
        scope = _scope(before, run.args if run is not None else {}, event=boundary)
        scope["_outcomes"] = run.outcomes if run is not None else {}
        step = self._steps.get(event.step or "")
        arcs = step.next.arcs if step is not None and step.next is not None else ()
        budget = _Values(scope)
        considered: list[Considered] = []
        decided: DecidedBy | None = None
        reasons = self._reasons.of_routing(event)
        for number, (answer, reason) in enumerate(
            zip(payload["arcs"], reasons, strict=True)
        ):
            verdict = _arc_verdict(answer)
            guard = arcs[number].when if number < len(arcs) else None
            saw = budget.of(guard) if verdict != "not_looked_at" else []
            considered.append(
                Considered(
                    *(reason.what, verdict, reason.guard, reason.line, saw, reason.note)
                )
            )
            if answer["fired"] and decided is None:
                decided = DecidedBy(number, reason.line)
        fired = ", ".join(token["step"] for token in payload["fired"])
        answer_ = f"it sent tokens to {fired}" if fired else "none of its arcs fired"
        question = f"Why did {event.step} go on as it did after {payload['on']}?"
        return Why(question, answer_, event.seq, decided, considered)

    def of_call(self, event: Event, before: State) -> Why:
        """Explain the directive after an attempt, by the rules of the task."""
        payload: TaskDone = event.payload
        directive, reason = payload["directive"], self._reasons.of_call(event)
        rules = self._rules(event)
        scope = _call_scope(before, event)
        considered = _rules_considered(
            [(rule.when, _words(rule), rule.at.mark[0]) for rule in rules or ()],
            directive.get("rule"),
            _Values(scope),
        )
        error = payload.get("error")
        if error is not None and directive.get("rule") is None:
            considered = _with_error(considered, error)
        if event.status == "skipped":
            _leave_unread(considered)
        answer = reason.note
        if payload.get("ignored"):
            answer += ": the error is ignored and the pipeline goes on"
        question = (
            f"Why {reason.verdict} after {event.task_label}, attempt {event.attempt}?"
        )
        decided = DecidedBy(directive.get("rule"), reason.line)
        return Why(question, answer, event.seq, decided, considered)

    def of_gate(self, event: Event, before: State) -> Why:
        """Explain why a token was admitted or denied."""
        payload: Gated = event.payload
        admit, allowed = payload["admit"], payload["admit"]["allow"]
        sent = [before.tokens[t] for t in payload["tokens"] if t in before.tokens]
        scope = _scope(before, payload["args"], sent[-1].event if sent else None)
        step = self._steps.get(event.step or "")
        rules: Sequence[AdmitRule] = (step.admit if step is not None else None) or ()
        considered = _rules_considered(
            [(e.when, "admit" if e.allow else "deny", e.at.mark[0]) for e in rules],
            admit.get("rule"),
            _Values(scope),
        )
        if "error" in admit:
            considered = _with_error(considered, admit["error"])
        reason = self._reasons.of_admission(event)
        sources = dict.fromkeys(token.origin or "the start" for token in sent)
        came = f"a token from {', '.join(sources) or 'a join'}"
        answer = f"{came} was {'admitted' if allowed else 'denied'}"
        answer += f": {reason.note}" if reason is not None and reason.note else ""
        verb = "begin" if allowed else "not begin"
        decided = None
        if reason is not None and reason.line is not None:
            decided = DecidedBy(admit.get("rule"), reason.line)
        question = f"Why did {event.step} {verb}?"
        return Why(question, answer, event.seq, decided, considered)

    def _rules(self, event: Event) -> Sequence[Rule] | None:
        step = self._steps.get(event.step or "")
        for task in step.tasks if step is not None else ():
            if task.label == event.task_label:
                return task.rules
        return ()


def ways_in(net: Net, step: str, state: State) -> Iterator[Considered]:
    """Yield what a join waits for: who has arrived, and who still can."""
    queues = state.joining.get(step, {})
    live = {token.step for token in state.tokens.values()}
    live |= {run.step for run in state.runs.values()}
    live |= state.joining.keys() - {step}
    for source in net.sources(step):
        if source in queues:
            note = f"{len(queues[source])} waiting" if len(queues[source]) > 1 else ""
            yield Considered(
                source, "yes", note=f"its token has arrived {note}".strip()
            )
            continue
        able = [at for at in sorted(live) if net.can_deliver(source, step, at)]
        if able:
            note = f"may still come, by way of {', '.join(able[:5])}"
            yield Considered(source, "waiting", note=note)
        else:
            yield Considered(source, "no", note="cannot come any more")


def _arc_verdict(answer: Mapping[str, JSON]) -> Verdict:
    if answer["fired"]:
        return "yes"
    if "error" in answer:
        return "error"
    return "no" if answer.get("why") == FALSE else "not_looked_at"


def _rules_considered(
    rules: Sequence[tuple[Template | None, str, int]],
    decided: int | None,
    values: _Values,
) -> list[Considered]:
    """Return the verdict of each rule: rules are tried in order, the fallback last."""
    fell_back = decided is not None and rules[decided : decided + 1] != []
    fell_back = fell_back and decided is not None and rules[decided][0] is None
    considered: list[Considered] = []
    for number, (when, what, line) in enumerate(rules):
        verdict: Verdict = "no"
        if number == decided:
            verdict = "yes"
        elif when is None or (
            decided is not None and not fell_back and number > decided
        ):
            verdict = "not_looked_at"
        saw = values.of(when) if verdict != "not_looked_at" else []
        guard = None if when is None else " ".join(when.source.split())[:VALUE_BYTES]
        note = "else" if when is None else ""
        considered.append(Considered(what, verdict, guard, line, saw, note))
    return considered


def _with_error(
    considered: list[Considered], error: Mapping[str, JSON]
) -> list[Considered]:
    """Mark the rule whose template failed; what comes after it was not looked at."""
    place = (error.get("details") or {}).get("place") or {}
    line = place.get("line")
    failed = line if isinstance(line, int) else 0
    above = [n for n, each in enumerate(considered) if (each.line or 0) <= failed]
    for number, each in enumerate(considered) if above else ():
        if number == above[-1]:
            each.verdict, each.note = "error", str(error.get("message", ""))[:500]
        elif number > above[-1]:
            each.verdict, each.saw = "not_looked_at", []
    return considered


def _leave_unread(considered: list[Considered]) -> None:
    """Before a task is skipped, rules that read its outcome are not evaluated."""
    for each in considered:
        if any(saw.name.split(".")[0] == "outcome" for saw in each.saw):
            each.verdict, each.saw = "not_looked_at", []


def _words(rule: Rule) -> str:
    then = rule.then
    if then.do == "jump":
        return f"jump to {then.to}"
    return f"retry, {then.attempts} attempts" if then.do == "retry" else then.do


def _scope(
    state: State, args: Mapping[str, JSON], event: JSON = None
) -> dict[str, JSON]:
    scope: dict[str, JSON] = {
        "workload": state.workload,
        "ctx": state.ctx,
        "args": args,
        "execution_id": state.execution_id,
        "execution": {"started_at": state.began_at},
    }
    return scope if event is None else {**scope, "event": event}


def _call_scope(before: State, event: Event) -> dict[str, JSON]:
    """Return what the rules of a task could read at its outcome."""
    found = find_open(before.runs, event.iteration_id or event.step_run_id or "")
    scope = _scope(before, found.run.args if found is not None else {})
    scope["outcome"] = event.payload["outcome"]
    scope |= {"_task": event.task_label, "_attempt": event.attempt}
    if found is not None:
        progress = found.progress
        scope |= {"_prev": progress.prev, "_outcomes": progress.outcomes}
        if progress.iter is not None:
            scope["iter"] = progress.iter
    return scope


class _Values:
    """Reads names in a scope, at most ``MAX_VALUES`` in one answer."""

    def __init__(self, scope: Mapping[str, JSON]) -> None:
        self._scope = scope
        self._left = MAX_VALUES

    def of(self, template: Template | None) -> list[Saw]:
        """Return the values of the names that a template reads."""
        found: list[Saw] = []
        for reference in template.references if template is not None else ():
            if self._left <= 0:
                break
            self._left -= 1
            found.append(self._read(reference.path))
        return found

    def _read(self, path: Sequence[str]) -> Saw:
        name = ".".join(path)
        if path[0] == "keychain":
            return Saw(name, "***")
        value: JSON = self._root(path[0])
        for part in path[1:]:
            if not isinstance(value, Mapping) or part not in value:
                return Saw(name, missing=True)
            value = value[part]
        if value is _NOTHING:
            return Saw(name, missing=True)
        shown = cut(value, VALUE_BYTES)
        return Saw(name, shown, shown is not value)

    def _root(self, name: str) -> JSON:
        if name in self._scope:
            return self._scope[name]
        for space in _BARE:
            values = self._scope.get(space)
            if isinstance(values, Mapping) and name in values:
                return values[name]
        return _NOTHING


_NOTHING: JSON = object()
