"""Each step: its runs, their calls, and why it went on as it did."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.dsl.model import Step
from noetl.engine.events import Event
from noetl.net.draw.labels import write_badges
from noetl.report.markup import Child, Html, element
from noetl.report.material import Material
from noetl.report.painting import look_of, waiting_tokens
from noetl.report.reasons import Reason
from noetl.report.record import StepCounts
from noetl.report.runs import StepRun, Trail
from noetl.report.sections.calls import (
    because,
    labelled,
    show_calls,
    show_error,
)
from noetl.report.values import inline
from noetl.report.words import count, duration

MOST_STEPS = 400
_WORDS = {"active": "not over", "idle": "not reached", "skipped": "denied"}


def steps(material: Material) -> Html | None:
    if not material.steps:
        return None
    shown = material.steps[:MOST_STEPS]
    left = len(material.steps) - len(shown)
    return element(
        "section",
        element("h2", "Steps, and why"),
        [_step(material, name) for name in shown],
        element("p", f"{count(left, 'more step')} not shown.", class_="rest")
        if left
        else None,
        id="steps",
    )


def _step(material: Material, name: str) -> Html:
    counts = material.record.steps.get(name, StepCounts())
    look = look_of(counts)
    step = material.playbook.steps.get(name) if material.playbook is not None else None
    return element(
        "details",
        element(
            "summary",
            element("span", class_=f"sign {look}"),
            element("h3", name),
            element("span", _kinds(step), class_="kinds"),
            element("span", _summary(counts, look), class_="counts"),
        ),
        element("div", list(_body(material, name, step)), class_="inside"),
        id=material.anchor(name),
        class_=f"card {look}",
        open=look == "failed" or len(material.steps) <= 4,
    )


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
    if counts.retries:
        words.append(f"{count(counts.retries, 'repeated call')}")
    if counts.done or counts.failed:
        words.append(duration(counts.spent))
    return " · ".join(words)


def _body(material: Material, name: str, step: Step | None) -> Iterator[Html]:
    if step is not None:
        place = material.line_link(step.at.mark[0])
        yield element("p", step.desc or "", " ", place, class_="about")
    sample = material.record.runs_of.get(name)
    if joined := waiting_tokens(material.record.steps.get(name)):
        yield element("p", f"{count(joined, 'token')} waiting to be joined.")
    if sample is None:
        if not joined:
            yield element("p", _why_not_reached(material, name), class_="about")
        return
    for number, run in sample.parts():
        if run is None:
            words = f"… {count(number, 'run')} of this step not shown."
            yield element("p", words, class_="rest")
        else:
            yield _run(material, run, numbered=sample.count > 1)


def _why_not_reached(material: Material, name: str) -> Child:
    if material.playbook is None:
        return "No token came here."
    sources = [
        step.name
        for step in material.playbook.workflow
        if step.next is not None and any(arc.step == name for arc in step.next.arcs)
    ]
    if not sources:
        return "No token came here."
    links = [
        [", " if at else "", material.step_link(s)] for at, s in enumerate(sources)
    ]
    return ["No token came here. Arcs lead to it from ", links, "."]


def _run(material: Material, run: StepRun, *, numbered: bool) -> Html:
    return element(
        "article",
        element(
            "p",
            element("span", run.status, class_=f"pill small {run.status}"),
            f"run {run.number:,}" if numbered else None,
            element("span", _when(material, run), class_="aside"),
            class_="run-head",
        )
        if numbered or run.status != "done"
        else None,
        _admission(material, run),
        _given(material, run),
        show_calls(material, run.trail),
        _loop(material, run),
        _ending(material, run.end, run.trail),
        [_routing(material, event) for event in run.routings.kept().values()],
        class_="run",
    )


def _when(material: Material, run: StepRun) -> str:
    if run.is_kept:
        return "kept from the execution that was forked"
    after = duration(run.started - material.record.started)
    took = "" if run.ended is None else f", took {duration(run.ended - run.started)}"
    return f"begun after {after}{took}"


def _admission(material: Material, run: StepRun) -> Html | None:
    reason = material.reasons.of_admission(run.began)
    return None if reason is None else _why("Gate", [_reason(material, reason)])


def _given(material: Material, run: StepRun) -> Html | None:
    args = run.began.payload.get("args")
    return labelled(material, "Arguments", args) if args else None


def _loop(material: Material, run: StepRun) -> Html | None:
    if run.loop is None:
        return None
    over = run.loop.done + run.loop.failed
    words = f"{over:,} of {count(run.loop.total, 'iteration')} ended"
    if run.loop.failed:
        words += f", {run.loop.failed:,} failed"
    trails = sorted((*run.iterations, *run.failures), key=lambda each: each.path)
    shown = [_iteration(material, each) for each in trails]
    left = over - len(shown)
    more = f"{count(left, 'more iteration')} not shown; " if left > 0 else ""
    return element(
        "div",
        element("p", element("span", "Loop", class_="label"), words, class_="pair"),
        element("ol", shown, class_="turns") if shown else None,
        element(
            "p",
            more,
            element("code", f"noetl events {material.execution_id}"),
            " has them all.",
            class_="rest",
        )
        if more
        else None,
    )


def _iteration(material: Material, trail: Trail) -> Html:
    path = "/".join(map(str, trail.path))
    failed = trail.end is not None and trail.end.name == "loop.iteration.failed"
    grade = "failed" if failed else "done"
    return element(
        "li",
        element(
            "details",
            element(
                "summary",
                element("span", class_=f"sign {grade}"),
                element("strong", f"[{path}]"),
                element("code", inline(trail.item, 72)),
                element("span", f"{trail.attempts} attempts", class_="aside")
                if trail.attempts > 1
                else None,
            ),
            show_calls(material, trail),
            _ending(material, trail.end, trail),
        ),
    )


def _ending(material: Material, end: Event | None, trail: Trail) -> Html | None:
    if end is None:
        return None
    if "error" in end.payload:
        calls = list(trail.calls.kept().values())
        if calls and calls[-1].is_error:
            return None  # that is how the pipeline failed, and it stands there
        return show_error(material, end.payload["error"])
    result = end.payload.get("result")
    return labelled(material, "Result", result) if result is not None else None


def _routing(material: Material, event: Event) -> Html:
    rows = [_reason(material, each) for each in material.reasons.of_routing(event)]
    mode = event.payload.get("mode", "")
    return _why(f"Arcs on {event.payload.get('on')}, {mode}", rows)


def _why(label: str, rows: list[Html]) -> Html:
    return element(
        "div",
        element("p", element("span", label, class_="label"), class_="pair"),
        element("ul", rows, class_="why"),
    )


def _reason(material: Material, reason: Reason) -> Html:
    target: Child = reason.what
    if reason.what in material.steps:
        target = ["→ ", material.step_link(reason.what)]
    sign = "✓" if reason.good else "✗"
    return element(
        "li",
        element("span", sign, class_="mark", aria_hidden="true"),
        element("span", target, class_="target"),
        element("span", reason.verdict, class_="verdict"),
        because(material, reason),
        class_="yes" if reason.good else "no",
    )
