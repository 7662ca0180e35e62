"""The top of the page: what ran, how it ended, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.engine.error_kinds import remedy_of
from noetl.report.markup import Child, Html, element, prose
from noetl.report.material import Material
from noetl.report.runs import Call
from noetl.report.words import count, duration, moment
from noetl.types import JSON

DETAILS = 6_000
DIAGNOSTICS = 50
WAITS = 8


def head(material: Material) -> Html:
    record = material.record
    playbook = material.playbook
    name = str(record.playbook.get("name") or "an unnamed playbook")
    return element(
        "header",
        element("p", "NoETL execution report", class_="over"),
        element(
            "div",
            element("h1", name),
            element("span", record.status, class_=f"pill {record.status}"),
            class_="title",
        ),
        element("p", playbook.description, class_="lead")
        if playbook is not None and playbook.description
        else None,
        _tiles(material),
        _failure(material),
        _how_to_go_on(material),
        _facts(material),
        class_=f"top {record.status}",
        id="top",
    )


def _tiles(material: Material) -> Html:
    record = material.record
    all_steps = record.steps.values()
    failed = sum(counts.failed for counts in all_steps)
    iterations = sum(counts.iterations for counts in all_steps)
    lost = sum(counts.failed_iterations for counts in all_steps)
    retries = sum(counts.retries for counts in all_steps)
    kept = sum(counts.kept for counts in all_steps)
    errors = sum(counts.errors for counts in all_steps)
    tiles = [
        ("Duration", duration(record.ended - record.started), _until(material)),
        (
            "Step runs",
            f"{sum(counts.runs for counts in all_steps):,}",
            (f"{failed:,} failed" if failed else "none failed")
            + (f", {kept:,} kept" if kept else ""),
        ),
        (
            "Task calls",
            f"{sum(counts.calls for counts in all_steps):,}",
            f"{count(errors, 'error')}, {retries:,} repeated"
            if errors or retries
            else "no errors",
        ),
    ]
    if iterations:
        words = f"{lost:,} failed" if lost else "none failed"
        tiles.append(("Iterations", f"{iterations:,}", words))
    tiles.append(("Events", f"{record.events.count:,}", "in the log"))
    return element(
        "ul",
        (
            element(
                "li",
                element("span", label, class_="label"),
                element("strong", value),
                element("span", note, class_="aside"),
            )
            for label, value, note in tiles
        ),
        class_="tiles",
    )


def _until(material: Material) -> str:
    return "" if material.record.state.finished else "so far"


def _failure(material: Material) -> Html | None:
    error = material.record.state.error or material.record.refusal
    if not error:
        return None
    kind = str(error.get("kind", ""))
    remedy = remedy_of(kind)
    step = error.get("step")
    details = error.get("details")
    return element(
        "div",
        element(
            "p",
            element("code", kind, class_="kind-of-error"),
            [" in step ", material.step_link(step)] if step else None,
            [", task ", element("code", error["task"])] if error.get("task") else None,
            class_="what",
        ),
        element("p", str(error.get("message", "")), class_="message"),
        element("p", element("strong", "What to do: "), prose(remedy), class_="remedy")
        if remedy
        else None,
        _diagnostics(material, error),
        element(
            "details",
            element("summary", "Details of the error"),
            material.value(details, DETAILS),
            open=True,
        )
        if details
        else None,
        class_="alert",
        role="note",
    )


def _diagnostics(material: Material, error: dict[str, JSON]) -> Html | None:
    found = error.get("diagnostics")
    if not isinstance(found, list) or not found:
        return None
    rows = [
        element(
            "li",
            material.line_link(each.get("line")),
            " ",
            str(each.get("message", "")),
            element("span", str(each["hint"]), class_="hint")
            if each.get("hint")
            else None,
        )
        for each in found[:DIAGNOSTICS]
        if isinstance(each, dict)
    ]
    left = len(found) - len(rows)
    more = element("li", f"… {left:,} more") if left > 0 else None
    return element("ul", rows, more, class_="diagnostics")


def _how_to_go_on(material: Material) -> Html | None:
    """What an execution that is not over waits for, and what moves it."""
    record, name = material.record, material.execution_id
    if record.state.finished:
        return None
    lines: list[Html] = []
    if record.status == "paused":
        lines.append(_command("It is paused. Go on with", f"noetl resume {name}"))
    for run in record.open_runs():
        for call in run.waiting():
            lines.append(_waiting(material, run.step, call))
    left = len(lines) - WAITS
    more = element("p", f"… and {left:,} more wait") if left > 0 else None
    again = _command(
        "When this page was made, it was not over. Look again with",
        f"noetl show {name} --html",
    )
    return element("div", lines[:WAITS], more, again, class_="going-on")


def _waiting(material: Material, step: str, call: Call) -> Html:
    words = element(
        "span",
        "Step ",
        material.step_link(step),
        " waits for ",
        element("strong", call.waits_for),
        ".",
    )
    wait = call.wait.payload if call.wait is not None else {}
    if wait.get("on") != "signal":
        return element("p", words)
    order = f"noetl signal {material.execution_id} {wait.get('signal')}"
    return element("p", words, " Answer it with ", element("code", order))


def _command(words: str, command: str) -> Html:
    return element("p", words, " ", element("code", command))


def _facts(material: Material) -> Html:
    return element(
        "dl",
        (
            element("div", element("dt", label), element("dd", value))
            for label, value in _fact_rows(material)
        ),
        class_="facts",
    )


def _fact_rows(material: Material) -> Iterator[tuple[str, Child]]:
    record = material.record
    about = record.playbook
    yield (
        "Execution",
        [
            element("code", material.execution_id, id="execution-id"),
            element(
                "button", "copy", type="button", hidden=True, data_copy="execution-id"
            ),
        ],
    )
    yield "Started", _time(record.first)
    if record.state.finished:
        yield "Ended", _time(record.last)
    yield "Trigger", _trigger(material)
    if about.get("path"):
        version = f" version {about['version']}" if about.get("version") else ""
        yield "Playbook", [element("code", str(about["path"])), version]
    if about.get("sha256"):
        yield "Its digest", element("code", str(about["sha256"])[:16], "…")
    if about.get("folder"):
        yield "Its folder", element("code", str(about["folder"]))
    yield "Trace", element("code", record.trace_id)


def _time(timestamp: str) -> Html:
    return element("time", moment(timestamp), datetime=timestamp)


def _trigger(material: Material) -> Child:
    parent, origin = material.record.parent, material.record.origin
    if origin is not None:
        code = element("code", str(origin.get("execution_id")))
        return ["forked from execution ", code, f" at event {origin.get('seq')}"]
    if parent is None:
        return "started directly"
    return ["called by execution ", element("code", str(parent.get("execution_id")))]
