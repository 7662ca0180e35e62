"""The net as Mermaid text, which GitHub and most wikis draw."""

from __future__ import annotations

import json

from noetl.dsl.model import Step
from noetl.net.draw.labels import (
    Look,
    clean,
    look_of,
    shorten,
    write_badges,
    write_guard,
    write_tasks,
)
from noetl.net.net import Net

_ARROWS: dict[Look, str] = {
    "plain": "-->",
    "guarded": "-.->",
    "failure": "-.->",
    "never": "-.-x",
}
_COLOURS: dict[Look, str] = {"failure": "#d1242f", "never": "#8c959f"}
_HARMLESS = frozenset(" _-.,:=!?+()/↻∥→…")


def draw_mermaid(net: Net) -> str:
    """A flowchart; steps are numbered ids, so that no name can break the syntax."""
    ids = {name: f"s{number}" for number, name in enumerate(net.steps)}
    lines = ["---", f"title: {json.dumps(clean(net.name))}", "---", "flowchart TD"]
    for name, step in net.steps.items():
        lines.append(f"    {ids[name]}{_shape(step, name == net.entry)}")
    styles: list[str] = []
    for number, edge in enumerate(net.edges):
        look = look_of(net, edge)
        guard = write_guard(edge, 60)
        label = f'|"{_escape(guard)}"|' if guard else ""
        lines.append(
            f"    {ids[edge.source]} {_ARROWS[look]}{label} {ids[edge.target]}"
        )
        if look in _COLOURS:
            styles.append(f"    linkStyle {number} stroke:{_COLOURS[look]}")
    return "\n".join([*lines, *styles]) + "\n"


def _shape(step: Step, is_entry: bool) -> str:
    parts = [shorten(clean(step.name), 60), *write_badges(step), *write_tasks(step)]
    label = '"' + "<br/>".join(_escape(part) for part in parts) + '"'
    if is_entry:
        return f"([{label}])"
    if step.next is None:
        return f"[[{label}]]"
    return f"[{label}]" if step.tasks else "{{" + label + "}}"


def _escape(text: str) -> str:
    """Everything that means something to Mermaid or HTML becomes ``#code;``."""
    return "".join(
        char if char.isalnum() or char in _HARMLESS else f"#{ord(char)};"
        for char in text
    )
