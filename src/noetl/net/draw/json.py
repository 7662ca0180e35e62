"""JSON document of a net, for programs."""

from __future__ import annotations

import json

from noetl.net.draw import PLAIN, Paint
from noetl.net.draw.labels import describe_join, describe_loop
from noetl.net.net import Edge, Net
from noetl.types import JSON


def draw_json(net: Net, paint: Paint = PLAIN) -> str:
    """Return the document as text; keys and order are stable."""
    return json.dumps(describe_net(net, paint), indent=2, ensure_ascii=False) + "\n"


def describe_net(net: Net, paint: Paint = PLAIN) -> JSON:
    """Describe steps in YAML order, then arcs in YAML order of their steps.

    With ``paint``, a step also has its ``look`` and ``note``, an arc its ``tokens``.
    """
    return {
        "name": net.name,
        "entry": net.entry,
        "steps": [_describe_step(net, name, paint) for name in net.steps],
        "arcs": [_describe_arc(edge, paint) for edge in net.edges],
    }


def _describe_step(net: Net, name: str, paint: Paint) -> JSON:
    step = net.steps[name]
    ran = {"look": paint.looks.get(name), "note": paint.notes.get(name)}
    return {
        "step": name,
        "desc": step.desc,
        "tasks": [{"task": task.label, "kind": task.kind} for task in step.tasks],
        "kinds": list(dict.fromkeys(task.kind for task in step.tasks)),
        "loop": describe_loop(step.loop),
        "join": describe_join(net, name, step.join),
        "admit": step.admit is not None,
        "terminal": step.next is None,
        **({} if paint is PLAIN else ran),
    }


def _describe_arc(edge: Edge, paint: Paint) -> JSON:
    args = edge.arc.body.get("args")
    return {
        "from": edge.source,
        "to": edge.target,
        "when": edge.arc.when and edge.arc.when.source,
        "mode": edge.mode,
        "args": list(args) if isinstance(args, dict) else [],
        **({} if paint is PLAIN else {"tokens": paint.count(edge)}),
    }
