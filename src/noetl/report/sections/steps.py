"""Steps: their runs, their calls with attempts, and the reasons of decisions."""

from __future__ import annotations

import shlex

from noetl.dsl.model import Step
from noetl.engine.endings import failed_words, ignored_words
from noetl.engine.events import Event
from noetl.net.draw.labels import write_badges
from noetl.report.fold import StepCounts
from noetl.report.format import count, duration
from noetl.report.page_data import Data, PageData
from noetl.report.runs import Call, StepRun, Trail
from noetl.report.sections.graph import look_of, waiting_tokens
from noetl.report.values import inline
from noetl.types import JSON

VALUE = 6_000
ITEM = 160


def calls(page: PageData, trail: Trail) -> list[Data]:
    return [
        {"gap": f"… {count(number, 'call')} not shown"}
        if call is None
        else _call(page, call)
        for number, call in trail.calls.parts()
    ]


def _call(page: PageData, call: Call) -> Data:
    title = {"label": call.label, "attempt": call.attempt}
    if call.done is None:
        state = f"waits for {call.waits_for}" if call.is_waiting else "runs"
        return {**title, "state": state, "log": log(page, call)}
    outcome, payload = call.done.payload["outcome"], call.done.payload
    reason = page.reason(page.reasons.of_call(call.done))
    return {
        **title,
        "status": outcome["status"],
        "is_error": call.is_error,
        "is_ignored": bool(payload.get("ignored")),
        "took": duration(None if call.ended is None else call.ended - call.started),
        "reason": reason,
        "fault": fault(outcome.get("error")) if call.is_error else None,
        "child": call.child,
        "log": log(page, call),
        "patches": [
            labelled(page, name, payload[name])
            for name in ("set_ctx", "set_iter")
            if payload.get(name)
        ],
    }


def log(page: PageData, call: Call) -> Data | None:
    """Return the first and last lines that an attempt printed, and what was cut."""
    found = page.logs.of(call.run_id, call.attempt)
    if found is None:
        return None
    parts = list(found.parts())
    lines = [
        f"[… {count(number, 'line')} not shown …]" if line is None else line
        for number, line in parts
    ]
    is_cut = any(line is None for _, line in parts)
    return {
        "title": count(found.count, "line"),
        "text": "\n".join(lines),
        "command": _logs_command(page, call) if is_cut else None,
    }


def _logs_command(page: PageData, call: Call) -> str:
    """Return the command that prints all lines of an attempt."""
    words = ["noetl", "logs", page.execution_id, "--step", call.step]
    words += ["--task", call.label, "--attempt", str(call.attempt)]
    if call.iteration:
        words += ["--iteration", call.iteration]
    return shlex.join(words)


def fault(error: JSON) -> Data | None:
    if not isinstance(error, dict):
        return None
    message = str(error.get("message", ""))[:VALUE]
    return {"kind": str(error.get("kind", "")), "message": message}


def labelled(page: PageData, label: str, value: JSON) -> Data:
    """Return a short value inline, a longer one in a block to open."""
    words = inline(value, ITEM)
    whole = page.value(value, VALUE) if words.endswith("…") else None
    return {"label": label, "words": words, "whole": whole}


MAX_STEPS = 400
_WORDS = {
    "flawed": "done",
    "active": "not finished",
    "idle": "not reached",
    "skipped": "denied",
}


def steps(page: PageData) -> Data | None:
    if not page.steps:
        return None
    left = len(page.steps) - MAX_STEPS
    return {
        "cards": [_step(page, name) for name in page.steps[:MAX_STEPS]],
        "rest": f"{count(left, 'more step')} not shown." if left > 0 else None,
    }


def _step(page: PageData, name: str) -> Data:
    counts = page.record.steps.get(name, StepCounts())
    look = look_of(counts)
    step = page.playbook.steps.get(name) if page.playbook is not None else None
    sample = page.record.runs_of.get(name)
    joined = waiting_tokens(page.record.steps.get(name))
    return {
        "name": name,
        "anchor": page.anchor(name),
        "look": look,
        "is_open": look in ("failed", "flawed") or len(page.steps) <= 4,
        "kinds": _kinds(step),
        "summary": _summary(counts, look),
        "about": None
        if step is None
        else {"words": step.desc or "", "line": page.line(step.at.mark[0])},
        "joined": f"{count(joined, 'token')} waiting to be joined." if joined else None,
        "sources": _sources(page, name) if sample is None and not joined else None,
        "runs": []
        if sample is None
        else [
            {"gap": f"… {count(number, 'run')} of this step not shown."}
            if run is None
            else _run(page, run, numbered=sample.count > 1)
            for number, run in sample.parts()
        ],
    }


def _kinds(step: Step | None) -> str:
    if step is None:
        return ""
    kinds = ", ".join(dict.fromkeys(task.kind for task in step.tasks)) or "routes only"
    return " · ".join([kinds, *write_badges(step)])


def _summary(counts: StepCounts, look: str) -> str:
    words = [_WORDS.get(look, look)]
    if counts.runs > 1:
        words.append(count(counts.runs, "run"))
        if counts.failed:
            words.append(f"{counts.failed:,} failed")
    if counts.kept:
        words.append("kept" if counts.kept == counts.runs else f"{counts.kept:,} kept")
    if counts.iterations:
        words.append(count(counts.iterations, "iteration"))
    if counts.failed_iterations:
        words.append(f"{counts.failed_iterations:,} of them failed")
    if counts.ignored:
        words.append(ignored_words(counts.ignored))
    if counts.unfired:
        words.append("no arc fired")
    if counts.retries:
        words.append(f"{count(counts.retries, 'repeated call')}")
    if counts.done or counts.failed:
        words.append(duration(counts.spent))
    return " · ".join(words)


def _sources(page: PageData, name: str) -> list[Data]:
    """Return the steps with arcs to a step that no token reached."""
    return [
        page.step(step.name)
        for step in (page.playbook.workflow if page.playbook is not None else ())
        if step.next is not None and any(arc.step == name for arc in step.next.arcs)
    ]


def _run(page: PageData, run: StepRun, *, numbered: bool) -> Data:
    admission, args = (
        page.reasons.of_admission(run.began),
        run.began.payload.get("args"),
    )
    return {
        "status": run.status,
        "number": f"run {run.number:,}" if numbered else None,
        "when": _when(page, run) if numbered or run.status != "done" else None,
        "gate": None if admission is None else page.reason(admission),
        "args": labelled(page, "Arguments", args) if args else None,
        "calls": calls(page, run.trail),
        "loop": _loop(page, run),
        "end": _end(page, run.end, run.trail),
        "routings": [_routing(page, each) for each in run.routings.kept().values()],
    }


def _when(page: PageData, run: StepRun) -> str:
    if run.is_kept:
        return "kept from the execution that was forked"
    after = duration(run.started - page.record.started)
    took = "" if run.ended is None else f", took {duration(run.ended - run.started)}"
    return f"begun after {after}{took}"


def _loop(page: PageData, run: StepRun) -> Data | None:
    if run.loop is None:
        return None
    over = run.loop.done + run.loop.failed + run.loop.cancelled
    words = f"{over:,} of {count(run.loop.total, 'iteration')} ended"
    if run.loop.failed:
        words += f", {run.loop.failed:,} failed"
    if run.loop.failed and run.errors is not None:
        words = failed_words(run.loop.failed, run.loop.total, *run.errors)
    if run.loop.cancelled:
        words += f", {run.loop.cancelled:,} cancelled"
    trails = sorted((*run.iterations, *run.failures), key=_failed_first)
    left = over - len(trails)
    return {
        "words": words,
        "turns": [_iteration(page, each) for each in trails],
        "rest": f"{count(left, 'more iteration')} not shown; " if left > 0 else None,
    }


def _failed_first(trail: Trail) -> tuple[bool, tuple[int, ...]]:
    return not trail.has_failed, trail.path


def _iteration(page: PageData, trail: Trail) -> Data:
    failed, end = trail.has_failed, trail.end
    return {
        "error": fault(end.payload["error"]) if failed and end is not None else None,
        "path": "/".join(map(str, trail.path)),
        "look": "skipped" if trail.is_cancelled else "failed" if failed else "done",
        "item": inline(trail.item, 72),
        "attempts": trail.attempts,
        "calls": calls(page, trail),
        "end": _end(page, trail.end, trail),
    }


def _end(page: PageData, end: Event | None, trail: Trail) -> Data:
    """Return the end of a pipeline: an error that no call shows, or a result."""
    payload = end.payload if end is not None else {}
    if "error" in payload:
        shown = list(trail.calls.kept().values())
        if shown and shown[-1].is_error:
            return {}  # the call already shows the error of the pipeline
        return {"fault": fault(payload["error"])}
    result = payload.get("result")
    return {} if result is None else {"result": labelled(page, "Result", result)}


def _routing(page: PageData, event: Event) -> Data:
    mode = event.payload.get("mode", "")
    return {
        "label": f"Arcs on {event.payload.get('on')}, {mode}",
        "reasons": [page.reason(each) for each in page.reasons.of_routing(event)],
    }
