"""Labels of a drawing: short, printable, the same in every format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from noetl.dsl.model import Join, Loop, Step
from noetl.net.draw import Paint
from noetl.net.net import Edge, Net
from noetl.types import JSON

Look = Literal["plain", "guarded", "failure", "never"]

_SHOWN_TASKS = 6
_TIMES = "\u00d7"
_EVENT_NAME = re.compile(r"\bevent\.name\s*==\s*(['\"])([a-z.]+)\1")
_UNNAMED = re.compile(r"task_\d+")  # label that normalization gives an unlabelled task


def clean(text: str) -> str:
    """Return one line of printable text; what XML or a terminal forbids is replaced."""
    words = " ".join(text.split())
    return "".join(char if char.isprintable() else "\ufffd" for char in words)


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def write_guard(edge: Edge, limit: int = 200) -> str | None:
    """Return a guard without its braces, ``event.name == 'step.done'`` as
    ``step.done``.

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
    """Return the guard and the number of tokens that passed the arc."""
    count = paint.count(edge)
    words = [write_guard(edge, limit), f"{count:,}{_TIMES}" if count else None]
    return " · ".join(word for word in words if word)


def write_tasks(step: Step) -> Iterator[str]:
    """Return ``fetch: http``, one line per task; long pipelines are cut."""
    for task in step.tasks[:_SHOWN_TASKS]:
        label, kind = shorten(clean(task.label), 24), shorten(clean(task.kind), 16)
        is_plain = label == kind or _UNNAMED.fullmatch(label)
        yield kind if is_plain else f"{label}: {kind}"
    if len(step.tasks) > _SHOWN_TASKS:
        yield f"… {len(step.tasks) - _SHOWN_TASKS} more"


def write_badges(step: Step) -> Iterator[str]:
    """Return the badges of a step: its loop, its join, its gate."""
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
    """Return the style of an arc; a failure arc fires only when the step failed."""
    if not net.is_live(edge):
        return "never"
    if net.firing(edge, "done") == "never":
        return "failure"
    return "plain" if edge.arc.when is None else "guarded"
