"""Mermaid text of a net, which GitHub and most wikis draw."""

from __future__ import annotations

import json
from collections.abc import Iterator

from noetl.dsl.model import Step
from noetl.net.draw import PLAIN, Paint
from noetl.net.draw import Look as Ending
from noetl.net.draw.labels import (
    Look,
    clean,
    look_of,
    shorten,
    write_badges,
    write_label,
    write_tasks,
)
from noetl.net.net import Edge, Net

_ARROWS: dict[Look, str] = {
    "plain": "-->",
    "guarded": "-.->",
    "failure": "-.->",
    "never": "-.-x",
}
_COLOURS: dict[Look, str] = {"failure": "#d1242f", "never": "#8c959f"}
_ENDINGS: dict[Ending, str] = {
    "done": "fill:#dafbe1,stroke:#1a7f37,color:#1f2328",
    "failed": "fill:#ffebe9,stroke:#cf222e,color:#1f2328",
    "active": "fill:#fff8c5,stroke:#9a6700,color:#1f2328",
    "flawed": "fill:#fff8c5,stroke:#9a6700,color:#1f2328",
    "skipped": "stroke-dasharray:4 3",
    "idle": "stroke-dasharray:4 3",
}
_FIRED = "stroke:#1a7f37,stroke-width:2px"
_HARMLESS = frozenset(" _-.,:=!?+()/↻∥→…·\u00d7")


def draw_mermaid(net: Net, paint: Paint = PLAIN) -> str:
    """Return a flowchart; steps have numbered ids, so no name breaks the syntax."""
    ids = {name: f"s{number}" for number, name in enumerate(net.steps)}
    lines = ["---", f"title: {json.dumps(clean(net.name))}", "---", "flowchart TD"]
    for name, step in net.steps.items():
        note = paint.notes.get(name, "")
        lines.append(f"    {ids[name]}{_shape(step, name == net.entry, note)}")
    styles: list[str] = []
    for number, edge in enumerate(net.edges):
        look = look_of(net, edge)
        guard = write_label(edge, paint, 60)
        label = f'|"{_escape(guard)}"|' if guard else ""
        lines.append(
            f"    {ids[edge.source]} {_ARROWS[look]}{label} {ids[edge.target]}"
        )
        if style := _style(look, edge, paint):
            styles.append(f"    linkStyle {number} {style}")
    return "\n".join([*lines, *styles, *_colour(ids, paint)]) + "\n"


def _style(look: Look, edge: Edge, paint: Paint) -> str | None:
    if look in _COLOURS:
        return f"stroke:{_COLOURS[look]}"
    return _FIRED if paint.count(edge) else None


def _colour(ids: dict[str, str], paint: Paint) -> Iterator[str]:
    for ending in dict.fromkeys(paint.looks.values()):
        steps = [ids[name] for name in ids if paint.looks.get(name) == ending]
        yield f"    classDef {ending} {_ENDINGS[ending]}"
        yield f"    class {','.join(steps)} {ending}"


def _shape(step: Step, is_entry: bool, note: str) -> str:
    parts = [shorten(clean(step.name), 60), *write_badges(step), *write_tasks(step)]
    parts += [note] if note else []
    label = '"' + "<br/>".join(_escape(part) for part in parts) + '"'
    if is_entry:
        return f"([{label}])"
    if step.next is None:
        return f"[[{label}]]"
    return f"[{label}]" if step.tasks else "{{" + label + "}}"


def _escape(text: str) -> str:
    """Replace characters that Mermaid or HTML interpret by ``#code;``."""
    return "".join(
        char if char.isalnum() or char in _HARMLESS else f"#{ord(char)};"
        for char in text
    )
