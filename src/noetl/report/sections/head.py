"""Top of the page: the playbook, its result, and the next command."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.engine.endings import ignored_words, not_reached_words
from noetl.engine.error_kinds import remedy_of
from noetl.report.format import count, duration, moment
from noetl.report.page_data import Data, PageData
from noetl.report.runs import Call
from noetl.types import JSON

DETAILS = 6_000
DIAGNOSTICS = 50
WAITS = 8
NOTICES = 20


def head(page: PageData) -> Data:
    record, playbook = page.record, page.playbook
    return {
        "name": str(record.playbook.get("name") or "an unnamed playbook"),
        "status": record.status,
        "lead": playbook.description if playbook is not None else None,
        "tiles": list(_tiles(page)),
        "failure": _failure(page),
        "notices": _notices(page),
        "going_on": _how_to_go_on(page),
        "facts": _facts(page),
    }


def _tiles(page: PageData) -> Iterator[tuple[str, str, str]]:
    """Yield label, number and note."""
    record = page.record
    all_steps = record.steps.values()
    failed = sum(counts.failed for counts in all_steps)
    iterations = sum(counts.iterations for counts in all_steps)
    lost = sum(counts.failed_iterations for counts in all_steps)
    retries = sum(counts.retries for counts in all_steps)
    kept = sum(counts.kept for counts in all_steps)
    errors = sum(counts.errors for counts in all_steps)
    until = "" if record.state.finished else "so far"
    yield "Duration", duration(record.ended - record.started), until
    words = f"{failed:,} failed" if failed else "none failed"
    words += f", {kept:,} kept" if kept else ""
    yield "Step runs", f"{sum(counts.runs for counts in all_steps):,}", words
    words = "no errors"
    if errors or retries:
        words = f"{count(errors, 'error')}, {retries:,} repeated"
    yield "Task calls", f"{sum(counts.calls for counts in all_steps):,}", words
    if iterations:
        words = f"{lost:,} failed" if lost else "none failed"
        yield "Iterations", f"{iterations:,}", words
    yield "Events", f"{record.events.count:,}", "in the log"


def _failure(page: PageData) -> Data | None:
    error = page.record.state.error or page.record.refusal
    if not error:
        return None
    kind, step = str(error.get("kind", "")), error.get("step")
    details = error.get("details")
    place = page.place(error)
    if place is not None and isinstance(details, dict):
        hidden = ("traceback", "line", "place", "hint")
        details = {key: each for key, each in details.items() if key not in hidden}
    return {
        "kind": kind,
        "step": page.step(step) if step else None,
        "task": error.get("task"),
        "iteration": error.get("iteration"),
        "message": str(error.get("message", "")),
        "place": place,
        "remedy": (remedy_of(kind) or "").split("`"),
        "child": details.get("execution_id") if isinstance(details, dict) else None,
        "can_retry": _can_retry(page),
        "diagnostics": _diagnostics(page, error),
        "details": page.value(details, DETAILS) if details else None,
    }


def _can_retry(page: PageData) -> bool:
    """Return whether ``noetl retry`` has a step to run again."""
    state = page.record.state
    return bool(page.record.steps) and state.finished and page.record.refusal is None


def _notices(page: PageData) -> list[Data]:
    """Return what the execution passed over: a title, and the first places."""
    endings, found = page.record.endings, []
    if endings.ignored_count:
        rows = [
            {
                "step": page.step(error.step),
                "place": "".join(f"[{index}]" for index in error.iteration),
                "words": f"{error.kind}: {error.message}",
            }
            for error in endings.ignored[:NOTICES]
        ]
        title = f"{ignored_words(endings.ignored_count)}: no rule matched"
        left = endings.ignored_count - len(rows)
        found.append({"title": title, "rows": rows, "left": left})
    if endings.not_reached_count:
        rows = [
            {"step": page.step(each.step), "place": "", "words": each.words()}
            for each in endings.unfired[:NOTICES]
        ]
        names = ", ".join(endings.not_reached[:NOTICES])
        title = f"{not_reached_words(endings.not_reached_count)}: {names}"
        found.append({"title": title, "rows": rows, "left": 0})
    if endings.undefined:
        undefined = list(endings.undefined.values())
        rows = [
            {"step": page.step(each.step), "place": "", "words": each.words()}
            for each in undefined[:NOTICES]
        ]
        title = "a condition read a name that nothing gave"
        left = len(undefined) - len(rows)
        found.append({"title": title, "rows": rows, "left": left})
    return found


def _diagnostics(page: PageData, error: dict[str, JSON]) -> Data | None:
    found = error.get("diagnostics")
    if not isinstance(found, list) or not found:
        return None
    rows = [
        {
            "line": page.line(each.get("line")),
            "message": str(each.get("message", "")),
            "hint": str(each["hint"]) if each.get("hint") else None,
        }
        for each in found[:DIAGNOSTICS]
        if isinstance(each, dict)
    ]
    return {"rows": rows, "left": len(found) - len(rows)}


def _how_to_go_on(page: PageData) -> Data | None:
    """Return what a running execution waits for, and the command that resumes it."""
    record = page.record
    if record.state.finished:
        return None
    waits = [
        _waiting(page, run.step, call)
        for run in record.open_runs()
        for call in run.waiting()
    ]
    shown = WAITS - (record.status == "paused")
    return {
        "is_paused": record.status == "paused",
        "waits": waits[:shown],
        "left": len(waits) - shown,
    }


def _waiting(page: PageData, step: str, call: Call) -> Data:
    wait = call.wait.payload if call.wait is not None else {}
    signal = wait.get("signal") if wait.get("on") == "signal" else None
    order = f"noetl signal {page.execution_id} {signal}"
    return {
        "step": page.step(step),
        "what": call.waits_for,
        "order": order if wait.get("on") == "signal" else None,
    }


def _facts(page: PageData) -> Data:
    record = page.record
    about, origin, parent = record.playbook, record.origin, record.parent
    return {
        "started": (record.first, moment(record.first)),
        "ended": (record.last, moment(record.last)) if record.state.finished else None,
        "origin": origin,
        "parent": str(parent.get("execution_id")) if parent is not None else None,
        "path": about.get("path"),
        "version": about.get("version"),
        "labels": ", ".join(f"{n}={v}" for n, v in sorted(record.state.labels.items())),
        "digest": str(about["sha256"])[:16] if about.get("sha256") else None,
        "folder": about.get("folder"),
        "trace": record.trace_id,
    }
