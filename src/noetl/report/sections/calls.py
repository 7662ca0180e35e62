"""The calls of a pipeline: attempt by attempt, and which rule decided what."""

from __future__ import annotations

from noetl.report.markup import Child, Html, element
from noetl.report.material import Material
from noetl.report.reasons import Reason
from noetl.report.runs import Call, Trail
from noetl.report.values import inline
from noetl.report.words import count, duration
from noetl.types import JSON

VALUE = 6_000
ITEM = 160


def show_calls(material: Material, trail: Trail) -> Html | None:
    rows: list[Html] = []
    for number, call in trail.calls.parts():
        if call is None:
            words = f"… {count(number, 'call')} not shown"
            rows.append(element("li", words, class_="rest"))
        else:
            rows.append(_call(material, call))
    return element("ol", rows, class_="calls") if rows else None


def _call(material: Material, call: Call) -> Html:
    attempt = f" attempt {call.attempt}" if call.attempt > 1 else ""
    title: list[Child] = [element("strong", call.label), attempt]
    if call.done is None:
        state = f"waits for {call.waits_for}" if call.is_waiting else "runs"
        return element("li", element("p", title, f" {state}", class_="call-head"))
    took = None if call.ended is None else call.ended - call.started
    outcome = call.done.payload["outcome"]
    reason = material.reasons.of_call(call.done)
    patches = [
        labelled(material, name, call.done.payload[name])
        for name in ("set_ctx", "set_iter")
        if call.done.payload.get(name)
    ]
    return element(
        "li",
        element(
            "p",
            title,
            element("span", outcome["status"], class_=f"pill small {_grade(call)}"),
            element("span", duration(took), class_="aside"),
            element("span", "→ ", reason.verdict, class_="directive"),
            because(material, reason),
            class_="call-head",
        ),
        show_error(material, outcome.get("error")) if call.is_error else None,
        element("p", "Child execution ", element("code", call.child), class_="about")
        if call.child
        else None,
        patches,
        class_="bad" if call.is_error else None,
    )


def _grade(call: Call) -> str:
    return "failed" if call.is_error else "done"


def because(material: Material, reason: Reason) -> Html:
    return element(
        "span",
        element("code", reason.guard) if reason.guard else None,
        f" {reason.note} " if reason.note else " ",
        material.line_link(reason.line),
        class_="because",
    )


def show_error(material: Material, error: JSON) -> Html | None:
    if not isinstance(error, dict):
        return None
    return element(
        "p",
        element("code", str(error.get("kind", "")), class_="kind-of-error"),
        " ",
        str(error.get("message", ""))[:VALUE],
        class_="fault",
    )


def labelled(material: Material, label: str, value: JSON) -> Html:
    """A short value on the line, a longer one to be opened."""
    words = inline(value, ITEM)
    if not words.endswith("…"):
        return element(
            "p",
            element("span", label, class_="label"),
            element("code", words),
            class_="pair",
        )
    return element(
        "details",
        element(
            "summary", element("span", label, class_="label"), element("code", words)
        ),
        material.value(value, VALUE),
        class_="pair",
    )
