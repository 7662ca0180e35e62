"""The net as Graphviz text."""

from __future__ import annotations

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
from noetl.net.net import Edge, Net

_LOOKS: dict[Look, str] = {
    "plain": "",
    "guarded": "style=dashed",
    "failure": 'style=dashed, color="#d1242f", fontcolor="#d1242f"',
    "never": 'style=dotted, color="#8c959f", fontcolor="#8c959f"',
}


def draw_dot(net: Net) -> str:
    """A digraph for ``dot``; ids are numbers, names only appear in quoted labels."""
    ids = {name: f"s{number}" for number, name in enumerate(net.steps)}
    lines = [
        f"digraph {_quote(clean(net.name))} {{",
        "    rankdir=TB;",
        '    node [shape=box, style=rounded, fontname="Helvetica", fontsize=11];',
        '    edge [fontname="Helvetica", fontsize=9];',
    ]
    for name, step in net.steps.items():
        lines.append(f"    {ids[name]} [{_describe(step, name == net.entry)}];")
    for edge in net.edges:
        attributes = _describe_arc(net, edge)
        lines.append(f"    {ids[edge.source]} -> {ids[edge.target]}{attributes};")
    return "\n".join([*lines, "}"]) + "\n"


def _describe(step: Step, is_entry: bool) -> str:
    parts = [shorten(clean(step.name), 60), *write_badges(step), *write_tasks(step)]
    attributes = [f"label={_quote(*parts)}"]
    if is_entry:
        attributes.append("penwidth=2")
    if step.next is None:
        attributes.append("peripheries=2")
    if not step.tasks and step.next is not None:
        attributes.append("shape=hexagon")
    return ", ".join(attributes)


def _describe_arc(net: Net, edge: Edge) -> str:
    guard = write_guard(edge, 60)
    look = _LOOKS[look_of(net, edge)]
    attributes = [f"label={_quote(guard)}"] if guard else []
    attributes += [look] if look else []
    return f" [{', '.join(attributes)}]" if attributes else ""


def _quote(*lines: str) -> str:
    """A quoted string of centred lines; a backslash must not start an escape."""
    escaped = [line.replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return '"' + "\\n".join(escaped) + '"'
