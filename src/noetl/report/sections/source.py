"""The playbook's text, whose lines the reasons point to."""

from __future__ import annotations

from noetl.dsl.secrets import mask
from noetl.report.markup import Html, element
from noetl.report.material import Material
from noetl.report.words import count

LINES = 2_000
LONG = 400


def source(material: Material) -> Html | None:
    if material.source is None:
        return None
    lines = material.source.splitlines()
    shown = [
        element("li", _line(line), id=f"line-{number}")
        for number, line in enumerate(lines[:LINES], 1)
    ]
    left = len(lines) - len(shown)
    return element(
        "section",
        element("h2", "Playbook"),
        element(
            "details",
            element("summary", f"{count(len(lines), 'line')}, as they were run"),
            element(
                "div",
                element("ol", shown, class_="source"),
                class_="scroll",
                tabindex=0,
                role="region",
                aria_label="The text of the playbook",
            ),
            element("p", f"{count(left, 'more line')} not shown.", class_="rest")
            if left
            else None,
        ),
        id="playbook",
    )


def _line(line: str) -> Html:
    """What looks like a secret is hidden: an author may have written one down."""
    hidden = mask(line)
    return element("code", hidden[:LONG] + ("…" if len(hidden) > LONG else ""))
