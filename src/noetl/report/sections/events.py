"""The log itself: a table that can be filtered, of the first and the last events."""

from __future__ import annotations

from noetl.dsl.secrets import mask
from noetl.engine.events import NAMES, Event
from noetl.engine.times import seconds_of
from noetl.report.markup import Html, element
from noetl.report.material import Material
from noetl.report.words import count, duration
from noetl.testing.narration import Narrator

PAYLOAD = 2_500
LONG = 260


def events(material: Material) -> Html:
    record = material.record
    narrator = None
    if material.playbook is not None:
        narrator = Narrator(material.playbook, record.first)
    rows = [
        _gap(number) if event is None else _row(material, event, narrator)
        for number, event in record.events.parts()
    ]
    shown = sum(1 for _, event in record.events.parts() if event is not None)
    head = ("#", "After", "Event", "Where", "What happened")
    return element(
        "section",
        element("h2", "Events"),
        _extent(material, shown),
        element("p", "On paper: the first 60 rows.", class_="rest on-paper"),
        _filters(),
        element(
            "div",
            element(
                "table",
                element(
                    "thead",
                    element("tr", (element("th", h, scope="col") for h in head)),
                ),
                element("tbody", rows),
            ),
            class_="scroll",
            tabindex=0,
            role="region",
            aria_label="Events",
        ),
        id="events",
    )


def _extent(material: Material, shown: int) -> Html:
    total = material.record.events.count
    if shown == total:
        words = f"All {count(total, 'event')} of the log."
    else:
        words = f"{shown:,} of {total:,} events: the first, the last, some errors. "
    command = f"noetl events {material.execution_id} --json"
    more = None if shown == total else [element("code", command), " prints them all."]
    return element("p", words, more, class_="about")


def _filters() -> Html:
    """Shown by the script: without it they could do nothing."""
    return element(
        "form",
        element(
            "label",
            element("span", "Filter"),
            element(
                "input",
                type="search",
                id="filter",
                autocomplete="off",
                placeholder="step, event, words",
                spellcheck="false",
            ),
        ),
        element(
            "label",
            element("input", type="checkbox", id="only-errors"),
            element("span", "only errors"),
            class_="check",
        ),
        element("output", id="found", for_="filter only-errors"),
        class_="filters",
        hidden=True,
    )


def _gap(left_out: int) -> Html:
    words = f"… {count(left_out, 'event')} not shown"
    return element("tr", element("td", words, colspan=5), class_="gap")


def _row(material: Material, event: Event, narrator: Narrator | None) -> Html:
    after = seconds_of(event.timestamp) - material.record.started
    where = event.step or ""
    path = (event.iteration_id or "").partition("/")[2]
    return element(
        "tr",
        element("td", f"{event.seq:,}", class_="number"),
        element("td", duration(after), class_="number", title=event.timestamp),
        element("td", element("code", event.name)),
        element(
            "td",
            material.step_link(where) if where else None,
            f"[{path}]" if path else None,
            element("span", f" {event.task_label}", class_="aside")
            if event.task_label
            else None,
        ),
        element("td", _story(material, event, narrator), class_="story"),
        class_=event.status,
    )


def _story(material: Material, event: Event, narrator: Narrator | None) -> Html:
    words = _words(event, narrator)
    if not event.payload:
        return element("span", words)
    return element(
        "details",
        element("summary", words),
        material.value(event.payload, PAYLOAD, "events"),
    )


def _words(event: Event, narrator: Narrator | None) -> str:
    words = event.name if narrator is None else mask(narrator.words(event))
    if words.startswith(event.name):  # the narrator has nothing to add
        words = NAMES[event.name].doc if event.name in NAMES else ""
    return words if len(words) <= LONG else words[:LONG] + "…"
