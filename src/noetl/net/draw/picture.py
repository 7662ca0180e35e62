"""The drawing of a net as data: places of steps, paths of arcs, for the web UI."""

from __future__ import annotations

import msgspec

from noetl.dsl.model import Step
from noetl.net.draw import PLAIN
from noetl.net.draw.geometry import GUARD_LENGTH, LABEL_HEIGHT, Geometry
from noetl.net.draw.labels import (
    Look,
    clean,
    look_of,
    shorten,
    write_badges,
    write_guard,
    write_label,
    write_tasks,
)
from noetl.net.draw.layout.graph import Point, Route
from noetl.net.net import Edge, Net

MAX_GUARD = 2_000
"""Characters of a guard or a description; the rest is left out."""


class PictureNode(msgspec.Struct, frozen=True):
    """A step: its box in units of the picture, and its line in the playbook.

    ``kind`` is `start` for the step that gets the first token, `route` for a step
    without tasks, `end` for one without arcs. ``tasks`` are the lines that the box has
    room for, as label and tool kind.
    """

    id: str
    kind: str
    label: str
    desc: str
    kinds: list[str]
    tasks: list[tuple[str, str]]
    badges: list[str]
    loop: bool
    join: bool
    gate: bool
    x: float
    y: float
    w: float
    h: float
    line: int


class PictureLabel(msgspec.Struct, frozen=True):
    """Guard of an arc, in a box."""

    text: str
    x: float
    y: float
    w: float
    h: float


class PictureArc(msgspec.Struct, frozen=True, rename={"source": "from"}):
    """An arc: its path as SVG path data, its guard and its line in the playbook.

    ``number`` is its position among the arcs of its step. An arc with ``else`` has no
    guard, and others of its step have one. A path without ``head`` joins another arc.
    """

    id: str
    source: str
    to: str
    number: int
    path: str
    head: bool
    label: PictureLabel | None
    when: str | None
    line: int
    look: Look
    otherwise: bool = msgspec.field(name="else", default=False)


class Picture(msgspec.Struct, frozen=True):
    """A net with its layout; ``digest`` is that of the playbook."""

    digest: str
    width: float
    height: float
    entry: str | None
    nodes: list[PictureNode]
    arcs: list[PictureArc]


def make_picture(net: Net, digest: str) -> Picture:
    """Lay out a net; the same net gives the same picture."""
    geometry = Geometry(net, PLAIN)
    layout = geometry.layout
    return Picture(
        digest,
        _round(layout.width),
        _round(layout.height),
        net.entry,
        [_node(geometry, step) for step in net.steps.values()],
        [
            _arc(geometry, edge, route)
            for edge, route in zip(geometry.edges, layout.routes, strict=True)
        ],
    )


def _node(geometry: Geometry, step: Step) -> PictureNode:
    card, (x, y) = geometry.cards[step.name], geometry.corners[step.name]
    return PictureNode(
        step.name,
        _kind_of(step, geometry.net.entry),
        card.name,
        shorten(card.tip, MAX_GUARD),
        list(dict.fromkeys(task.kind for task in step.tasks)),
        [_split(text) for text in write_tasks(step)],
        list(write_badges(step)),
        step.loop is not None,
        step.join is not None,
        step.admit is not None,
        _round(x),
        _round(y),
        _round(card.width),
        _round(card.height),
        step.at.mark[0],
    )


def _kind_of(step: Step, entry: str | None) -> str:
    if step.name == entry:
        return "start"
    if step.next is None:
        return "end"
    return "step" if step.tasks else "route"


def _split(text: str) -> tuple[str, str]:
    label, _, kind = text.rpartition(": ")
    return label, kind


def _arc(geometry: Geometry, edge: Edge, route: Route | None) -> PictureArc:
    path, label_at = geometry.trace(edge, route)
    router = geometry.net.steps[edge.source].next
    guarded = any(arc.when is not None for arc in (router.arcs if router else ()))
    return PictureArc(
        f"{edge.source}/{edge.number}",
        edge.source,
        edge.target,
        edge.number,
        path,
        route is None or route.has_head,
        None if label_at is None else _label(geometry, edge, label_at),
        write_guard(edge, MAX_GUARD),
        edge.arc.at.mark[0],
        look_of(geometry.net, edge),
        edge.arc.when is None and guarded,
    )


def _label(geometry: Geometry, edge: Edge, at: Point) -> PictureLabel:
    width = geometry.label_width(edge)
    return PictureLabel(
        clean(write_label(edge, PLAIN, GUARD_LENGTH)),
        _round(at[0] - width / 2),
        _round(at[1] - LABEL_HEIGHT / 2),
        _round(width),
        LABEL_HEIGHT,
    )


def _round(value: float) -> float:
    return round(value, 1)
