"""What went in, what came out, and the shared context."""

from __future__ import annotations

from noetl.report.markup import Html, element
from noetl.report.material import Material
from noetl.types import JSON

LIMIT = 60_000


def data(material: Material) -> Html | None:
    state = material.record.state
    parts: list[tuple[str, str, JSON]] = [
        (
            "Result",
            "What the execution returned.",
            state.result if state.finished else None,
        ),
        ("Workload", "What it was given.", state.workload),
        ("Context", "What its steps shared as ctx, at the end.", state.ctx),
    ]
    shown = [
        element(
            "div",
            element("h3", label),
            element("p", words, class_="about"),
            material.value(value, LIMIT),
            class_="datum",
        )
        for label, words, value in parts
        if value not in (None, {})
    ]
    if not shown:
        return None
    return element("section", element("h2", "Data"), shown, id="data")
