"""Graphviz text of a net."""

from __future__ import annotations

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

_LOOKS: dict[Look, str] = {
    "plain": "",
    "guarded": "style=dashed",
    "failure": 'style=dashed, color="#d1242f", fontcolor="#d1242f"',
    "never": 'style=dotted, color="#8c959f", fontcolor="#8c959f"',
}
_FIRED = "penwidth=2"
_ENDINGS: dict[Ending, str] = {
    "done": 'style="rounded,filled", fillcolor="#dafbe1", color="#1a7f37"',
    "failed": 'style="rounded,filled", fillcolor="#ffebe9", color="#cf222e"',
    "active": 'style="rounded,filled", fillcolor="#fff8c5", color="#9a6700"',
    "flawed": 'style="rounded,filled", fillcolor="#fff8c5", color="#9a6700"',
    "skipped": 'style="rounded,dashed"',
    "idle": 'style="rounded,dashed"',
}


def draw_dot(net: Net, paint: Paint = PLAIN) -> str:
    """Return a digraph for ``dot``; ids are numbers, names only appear in quoted
    labels."""
    ids = {name: f"s{number}" for number, name in enumerate(net.steps)}
    lines = [
        f"digraph {_quote(clean(net.name))} {{",
        "    rankdir=TB;",
        '    node [shape=box, style=rounded, fontname="Helvetica", fontsize=11];',
        '    edge [fontname="Helvetica", fontsize=9];',
    ]
    for name, step in net.steps.items():
        told = _describe(step, name == net.entry, paint)
        lines.append(f"    {ids[name]} [{told}];")
    for edge in net.edges:
        attributes = _describe_arc(net, edge, paint)
        lines.append(f"    {ids[edge.source]} -> {ids[edge.target]}{attributes};")
    return "\n".join([*lines, "}"]) + "\n"


def _describe(step: Step, is_entry: bool, paint: Paint) -> str:
    parts = [shorten(clean(step.name), 60), *write_badges(step), *write_tasks(step)]
    parts += filter(None, [paint.notes.get(step.name)])
    attributes = [f"label={_quote(*parts)}"]
    if ending := paint.looks.get(step.name):
        attributes.append(_ENDINGS[ending])
    if is_entry:
        attributes.append("penwidth=2")
    if step.next is None:
        attributes.append("peripheries=2")
    if not step.tasks and step.next is not None:
        attributes.append("shape=hexagon")
    return ", ".join(attributes)


def _describe_arc(net: Net, edge: Edge, paint: Paint) -> str:
    label = write_label(edge, paint, 60)
    look = _LOOKS[look_of(net, edge)]
    attributes = [f"label={_quote(label)}"] if label else []
    attributes += [look] if look else []
    attributes += [_FIRED] if paint.count(edge) else []
    return f" [{', '.join(attributes)}]" if attributes else ""


def _quote(*lines: str) -> str:
    """Return a quoted string of centred lines; a backslash must not start an escape."""
    escaped = [line.replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return '"' + "\\n".join(escaped) + '"'
