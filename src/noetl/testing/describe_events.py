"""Descriptions of events: decisions, with the rule or arc and the reason."""

from __future__ import annotations

from datetime import datetime

from noetl.dsl.model import Playbook, Step
from noetl.dsl.node import shorten
from noetl.engine.endings import iteration_words, undefined_names
from noetl.engine.events import (
    Directive,
    Event,
    Gated,
    NextEvaluated,
    TaskDone,
    TaskStarted,
    TaskSuspended,
)
from noetl.engine.runs import path_of
from noetl.testing.diff import show
from noetl.types import JSON

_MAX_CHARS = 120


class Narrator:
    """Describes the events of one playbook's log."""

    def __init__(self, playbook: Playbook, began: str) -> None:
        self._playbook = playbook
        self._began = datetime.fromisoformat(began)

    def tell(self, event: Event) -> str:
        """Return one line: position, virtual time, what happened."""
        moment = datetime.fromisoformat(event.timestamp) - self._began
        words = self.words(event)
        return f"{event.seq:>4}  {moment.total_seconds():>6g} s  {words}"

    def words(self, event: Event) -> str:
        """Describe an event, without its position in the log.

        Events that a fork keeps may be about steps that its playbook has not.
        """
        try:
            return self._words(event)
        except (LookupError, ValueError):
            return _plain_words(event)

    def _words(self, event: Event) -> str:
        match event.name:
            case "step.scheduled" | "step.skipped":
                return self._admission(event)
            case "task.started":
                started: TaskStarted = event.payload
                doubt = started.get("in_doubt")
                again = ": its worker was lost, it starts again" if doubt else ""
                return f"{_task(event)} begins{again}"
            case "task.done":
                return self._verdict(event)
            case "next.evaluated":
                return self._routing(event)
            case _:
                return _plain_words(event)

    def _admission(self, event: Event) -> str:
        gated: Gated = event.payload
        step, admit = self._step(event), gated["admit"]
        word = "admitted" if admit["allow"] else "denied"
        args = gated["args"]
        given = f" with {show(args)}" if args else ""
        number = admit["rule"]
        if "error" in admit:
            why = f": {admit['error']['message']}"
        elif step.admit is None:
            why = ""
        elif number is None:
            why = ": no admission rule matched"
        else:
            rule = step.admit[number]
            guard = rule.when.source if rule.when is not None else "else"
            why = f" by admission rule {number + 1} (line {rule.at.mark[0]}: {guard})"
        return f"step {event.step} {word}{given}{why}{_undefined(event)}"

    def _verdict(self, event: Event) -> str:
        payload: TaskDone = event.payload
        outcome, directive = payload["outcome"], payload["directive"]
        said = _outcome(outcome)
        do: str = directive["do"]
        if do == "retry":
            do += f" in {directive['delay']:g} s"
        elif do == "jump":
            do += f" to {directive['to']}"
        if "refused" in payload:
            why = f"ctx.{payload['refused']['key']} was written by another iteration"
        else:
            why = self._rule(event, directive)
        patches = "".join(
            f", {name} {show(patch)}"
            for name, patch in (
                ("set_ctx", payload.get("set_ctx")),
                ("set_iter", payload.get("set_iter")),
            )
            if patch
        )
        ignored = ", error ignored" if payload.get("ignored") else ""
        told = f"{said} → {do}{ignored} ({why}){patches}"
        return f"{_task(event)}: {told}{_undefined(event)}"

    def _rule(self, event: Event, directive: Directive) -> str:
        number = directive["rule"]
        tasks = {task.label: task for task in self._step(event).tasks}
        rules = tasks[event.task_label or ""].rules
        if rules is None:
            return "it has no rules"
        if number is None:
            return "no rule matched"
        rule = rules[number]
        guard = rule.when.source if rule.when is not None else "else"
        end = ""
        if rule.then.do == "retry" and directive["do"] == "fail":
            end = f", all {rule.then.attempts} attempts used"
        place = f"line {rule.at.mark[0]}"
        return f"rule {number + 1}, {place}: {shorten(guard, _MAX_CHARS)}{end}"

    def _routing(self, event: Event) -> str:
        payload: NextEvaluated = event.payload
        router = self._step(event).next
        arcs = router.arcs if router is not None else ()
        answers: list[str] = []
        for arc, answer in zip(arcs, payload["arcs"], strict=True):
            place = f"→ {arc.step} (line {arc.at.mark[0]})"
            if answer["fired"]:
                answers.append(f"{place} fired")
                continue
            why = answer.get("why", "")
            if "error" in answer:
                why = answer["error"]["message"]
            elif arc.when is not None and "guard" in why:
                why = f"{shorten(arc.when.source, _MAX_CHARS)} is false"
            answers.append(f"{place} did not: {why}")
        told = f"step {event.step} on {payload['on']}: {'; '.join(answers)}"
        return told + _undefined(event)

    def _step(self, event: Event) -> Step:
        return self._playbook.steps[event.step or ""]


def _undefined(event: Event) -> str:
    """Describe the names that the conditions of a decision read and nothing gave."""
    return "".join(f"; {each.words()}" for each in undefined_names(event))


def _iteration(event: Event) -> str:
    path = "".join(f"[{index}]" for index in path_of(event.iteration_id))
    return f"{event.step}{path}"


def _task(event: Event) -> str:
    attempt = f", attempt {event.attempt}" if (event.attempt or 1) > 1 else ""
    return f"{_iteration(event)}.{event.task_label}{attempt}"


def _outcome(outcome: dict[str, JSON]) -> str:
    if outcome["status"] == "ok":
        return f"ok {shorten(show(outcome['result']), _MAX_CHARS)}"
    error = outcome["error"]
    return f"error {error['kind']}: {shorten(error['message'], _MAX_CHARS)}"


def _plain_words(event: Event) -> str:
    payload = event.payload
    match event.name:
        case "step.failed":
            error = payload["error"]
            told = f"{iteration_words(error)}{error['kind']}: {error['message']}"
            return f"step {event.step} failed: {told}"
        case "step.done":
            shown = shorten(show(payload["result"]), _MAX_CHARS)
            return f"step {event.step} done: {shown}"
        case "loop.done":
            counts = {
                key: payload[key] for key in ("total", "done", "failed", "skipped")
            }
            return f"step {event.step}: loop done {show(counts)}"
        case "loop.started":
            return f"step {event.step}: loop of {payload['total']:,}"
        case "loop.iteration.started":
            shown = shorten(show(payload["item"]), _MAX_CHARS)
            return f"{_iteration(event)} begins: {shown}"
        case "loop.iteration.done":
            shown = shorten(show(payload["result"]), _MAX_CHARS)
            return f"{_iteration(event)} done: {shown}"
        case "loop.iteration.failed":
            error = payload["error"]
            told = f"{error['kind']}: {error['message']}"
            return f"{_iteration(event)} failed: {told}"
        case "task.suspended":
            return f"{_task(event)} waits: {_waits_for(payload)}"
        case "message.received":
            return f"signal {payload['name']}: {show(payload['data'])}"
        case "workflow.cancelled":
            return f"cancelled: {payload['kind']}: {payload['message']}"
        case "workflow.finished":
            return f"the execution {payload['status']}"
        case _:
            about = event.step or ""
            return f"{event.name} {about}".rstrip()


def _waits_for(payload: TaskSuspended) -> str:
    match payload["on"]:
        case "signal":
            return f"signal {payload['signal']}"
        case "event":
            return "an event"
        case "playbook":
            return f"playbook {payload['child']['path']}"
        case _:
            return f"until {payload['until']}"
