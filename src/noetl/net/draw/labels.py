"""The words on a drawing: short, printable, the same in every format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from noetl.dsl.model import Join, Loop, Step
from noetl.net.draw.paint import Paint
from noetl.net.net import Edge, Net
from noetl.types import JSON

Look = Literal["plain", "guarded", "failure", "never"]

_SHOWN_TASKS = 6
_TIMES = "\u00d7"
_EVENT_NAME = re.compile(r"\bevent\.name\s*==\s*(['\"])([a-z.]+)\1")
_UNNAMED = re.compile(r"task_\d+")  # what normalization calls a task without label


def clean(text: str) -> str:
    """One line of printable text; what XML or a terminal forbids is replaced."""
    words = " ".join(text.split())
    return "".join(char if char.isprintable() else "\ufffd" for char in words)


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def write_guard(edge: Edge, limit: int = 200) -> str | None:
    """A guard without its braces, ``event.name == 'step.done'`` as ``step.done``.

    None for an arc that has no guard.
    """
    if edge.arc.when is None:
        return None
    source = clean(edge.arc.when.source)
    inner = source.removeprefix("{{").removesuffix("}}")
    if source != "{{" + inner + "}}" or "{{" in inner or "}}" in inner:
        inner = source
    named = _EVENT_NAME.sub(r"\2", inner.strip(" -+"))
    return shorten(named, limit)


def write_label(edge: Edge, paint: Paint, limit: int = 200) -> str:
    """The guard, and how many tokens went this way."""
    count = paint.count(edge)
    words = [write_guard(edge, limit), f"{count:,}{_TIMES}" if count else None]
    return " · ".join(word for word in words if word)


def write_tasks(step: Step) -> Iterator[str]:
    """``fetch: http``, one line per task; long pipelines are cut."""
    for task in step.tasks[:_SHOWN_TASKS]:
        label, kind = shorten(clean(task.label), 24), shorten(clean(task.kind), 16)
        is_plain = label == kind or _UNNAMED.fullmatch(label)
        yield kind if is_plain else f"{label}: {kind}"
    if len(step.tasks) > _SHOWN_TASKS:
        yield f"… {len(step.tasks) - _SHOWN_TASKS} more"


def write_badges(step: Step) -> Iterator[str]:
    """What makes the step special: its loop, its join, its gate."""
    if step.loop is not None:
        yield write_loop(step.loop)
    if step.join is not None:
        yield f"join {step.join.need}"
    if step.admit is not None:
        yield "gate"


def write_loop(loop: Loop) -> str:
    names = " → ".join(shorten(clean(level.iterator), 16) for level in loop.levels())
    if loop.mode == "sequential":
        return f"↻ {names}"
    return f"↻ {names} ∥ {loop.max_in_flight or ''}".rstrip()


def describe_join(net: Net, step: str, join: Join | None) -> JSON:
    return join and {"mode": join.need, "from": list(net.sources(step))}


def describe_loop(loop: Loop | None) -> JSON:
    return loop and {
        "iterator": loop.iterator,
        "mode": loop.mode,
        "max_in_flight": loop.max_in_flight,
        "loop": describe_loop(loop.inner),
    }


def look_of(net: Net, edge: Edge) -> Look:
    """How an arc is drawn: failure arcs fire when the step failed, and only then."""
    if not net.is_live(edge):
        return "never"
    if net.firing(edge, "done") == "never":
        return "failure"
    return "plain" if edge.arc.when is None else "guarded"
