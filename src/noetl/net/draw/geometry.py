"""Sizes of the steps of a net and the lines of its arcs, for drawings of all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import dist
from unicodedata import east_asian_width

from noetl.dsl.model import Step
from noetl.net.draw import Paint
from noetl.net.draw.labels import (
    clean,
    look_of,
    shorten,
    write_badges,
    write_label,
    write_tasks,
)
from noetl.net.draw.layout import lay_out
from noetl.net.draw.layout.graph import Box, Layout, Link, Point, Route
from noetl.net.draw.theme import (
    BADGE_SIZE,
    GUARD_SIZE,
    NAME_SIZE,
    NOTE_SIZE,
    TASK_SIZE,
)
from noetl.net.net import Edge, Net

# Shares of the font size, a little above Helvetica's, so that other fonts fit too.
_NARROW = frozenset("iljtfrI.,:;'|!()[]{} ·")
_WIDE = frozenset("mwMW@%…—→∥")


def measure(text: str, size: float) -> float:
    """Return the width of one line of text, rather too large than too small."""
    return sum(map(_share, text)) * size


def measure_mono(text: str, size: float) -> float:
    """Return the width of one line in a monospaced font."""
    wide = sum(east_asian_width(char) in "WF" for char in text)
    return (len(text) + wide) * 0.61 * size


def _share(char: str) -> float:
    if char in _NARROW:
        return 0.33
    if char in _WIDE:
        return 0.9
    if char.isascii():
        return 0.68 if char.isupper() else 0.58
    return 1.05 if east_asian_width(char) in "WF" else 0.68


@dataclass(frozen=True, slots=True)
class Card:
    step: str
    name: str
    tip: str
    look: str
    badges: tuple[tuple[str, float], ...]
    tasks: tuple[tuple[str, str], ...]
    width: float
    height: float
    top: float = 11.0
    leading: float = 7.0
    is_round: bool = False
    is_terminal: bool = False
    note: str = ""

    @property
    def badges_width(self) -> float:
        return sum(width for _, width in self.badges) + 5 * (len(self.badges) - 1)


def make_card(step: Step, is_entry: bool, note: str = "") -> Card:
    """Measure a step; a step without tasks is round, because it only routes."""
    name = shorten(clean(step.name), 40)
    badges = tuple(
        (text, measure(text, BADGE_SIZE) + 14) for text in write_badges(step)
    )
    tasks = tuple(_split(text) for text in write_tasks(step))
    widths = [
        measure(name, NAME_SIZE) * 1.06,  # bold
        sum(width + 5 for _, width in badges),
        *(measure(f"{label} {kind}", TASK_SIZE) + 6 for label, kind in tasks),
        measure(note, NOTE_SIZE),
    ]
    height = 2 * 11.0 + NAME_SIZE + (TASK_SIZE + 5) * len(tasks)
    if badges:
        height += 7.0 + BADGE_SIZE + 6
    if note:
        height += NOTE_SIZE + 8
    return Card(
        step=step.name,
        name=name,
        tip=clean(step.desc or ""),
        look="entry" if is_entry else "work" if step.tasks else "route",
        badges=badges,
        tasks=tasks,
        width=max(84.0, max(widths) + 30),
        height=height,
        is_round=not step.tasks,
        is_terminal=step.next is None,
        note=note,
    )


def _split(text: str) -> tuple[str, str]:
    label, _, kind = text.partition(": ")
    return label, kind


_RADIUS = 9.0


def draw_curve(points: Sequence[Point]) -> str:
    """Draw a curve, vertical at every corner, so that it meets boxes straight."""
    parts = [f"M{_at(points[0])}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        if abs(x - to_x) < 0.05:
            parts.append(f"V{_coordinate(to_y)}")
        else:
            middle = (y + to_y) / 2
            parts.append(
                f"C{_at((x, middle))} {_at((to_x, middle))} {_at((to_x, to_y))}"
            )
    return "".join(parts)


def draw_wire(points: Sequence[Point]) -> str:
    """Draw a curve to the first bend, then straight lines with round corners."""
    parts = [draw_curve(points[:3])]
    rest = list(points[2:])
    for before, corner, after in zip(rest, rest[1:], rest[2:], strict=False):
        start = _toward(corner, before)
        end = _toward(corner, after)
        parts.append(f"L{_at(start)}Q{_at(corner)} {_at(end)}")
    parts.append(f"L{_at(rest[-1])}")
    return "".join(parts)


def draw_self_loop(middle: Point, width: float) -> str:
    """Draw a line out of the right side of a box and back into it."""
    x, y = middle
    return (
        f"M{_at((x, y - 8))}C{_at((x + width, y - 20))} "
        f"{_at((x + width, y + 20))} {_at((x + 1, y + 8))}"
    )


def _toward(corner: Point, other: Point) -> Point:
    """Return a point a little before the corner, at most half way to the next one."""
    length = dist(corner, other)
    share = min(_RADIUS, length / 2) / length if length else 0.0
    return (
        corner[0] + (other[0] - corner[0]) * share,
        corner[1] + (other[1] - corner[1]) * share,
    )


def _at(point: Point) -> str:
    return f"{_coordinate(point[0])} {_coordinate(point[1])}"


def _coordinate(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


GUARD_LENGTH = 36
LABEL_HEIGHT = GUARD_SIZE + 7
_LOOP_WIDTH = 34.0


class Geometry:
    """A net with its layout: the place of every step, the line of every arc."""

    def __init__(self, net: Net, paint: Paint) -> None:
        self.net = net
        self.edges = net.edges
        self.cards = {
            name: make_card(step, name == net.entry, paint.notes.get(name, ""))
            for name, step in net.steps.items()
        }
        self._paint = paint

    @cached_property
    def layout(self) -> Layout:
        numbers = {name: number for number, name in enumerate(self.net.steps)}
        cards = list(self.cards.values())
        links = [
            Link(
                numbers[edge.source],
                numbers[edge.target],
                self.label_width(edge),
                look_of(self.net, edge),
            )
            for edge in self.edges
        ]
        boxes = [Box(card.width, card.height, 0.0) for card in cards]
        for link in links:
            if link.source == link.target:
                card, spare = cards[link.source], _LOOP_WIDTH + link.label
                boxes[link.source] = Box(card.width, card.height, spare)
        return lay_out(boxes, links, numbers.get(self.net.entry or "", 0))

    @cached_property
    def corners(self) -> dict[str, Point]:
        """Top left corners of the steps."""
        return dict(zip(self.net.steps, self.layout.boxes, strict=True))

    def label_width(self, edge: Edge) -> float:
        label = write_label(edge, self._paint, GUARD_LENGTH)
        return measure_mono(label, GUARD_SIZE) + 14 if label else 0.0

    def trace(self, edge: Edge, route: Route | None) -> tuple[str, Point | None]:
        """Return the path of an arc as SVG path data, and the middle of its label."""
        if route is not None:
            pen = draw_curve if route.is_curve else draw_wire
            return pen(route.points), route.label_at
        card, (x, y) = self.cards[edge.source], self.corners[edge.source]
        middle = (x + card.width, y + card.height / 2)
        label = self.label_width(edge)
        at = (middle[0] + _LOOP_WIDTH - 8 + label / 2, middle[1]) if label else None
        return draw_self_loop(middle, _LOOP_WIDTH - 8), at
