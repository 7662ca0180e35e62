"""SVG picture of a net that needs no other program or file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import dist
from unicodedata import east_asian_width
from xml.sax.saxutils import escape, quoteattr

from noetl.dsl.model import Step
from noetl.net.draw.labels import (
    clean,
    look_of,
    shorten,
    write_badges,
    write_guard,
    write_label,
    write_tasks,
)
from noetl.net.draw.layout import lay_out
from noetl.net.draw.layout.graph import Box, Layout, Link, Point, Route
from noetl.net.draw.overlay import PLAIN, Paint
from noetl.net.draw.theme import (
    BADGE_SIZE,
    GUARD_SIZE,
    NAME_SIZE,
    NOTE_SIZE,
    PAINTED_STYLE,
    STYLE,
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


_GUARD_LENGTH = 36
_LOOP_WIDTH = 34.0
_MARKERS = "".join(
    f'<marker id="noetl-{look}" class="head {look}" viewBox="0 0 8 8" refX="7" '
    'refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
    '<path d="M0.5 0.8 7.5 4 0.5 7.2 2.2 4z"/></marker>'
    for look in ("plain", "guarded", "failure", "never")
)


def draw_svg(net: Net, paint: Paint = PLAIN) -> str:
    """Return a self-contained SVG document, deterministic, for light and dark themes.

    With ``paint`` it shows the result of an execution.
    """
    numbers = {name: number for number, name in enumerate(net.steps)}
    edges = net.edges
    cards = [
        make_card(step, name == net.entry, paint.notes.get(name, ""))
        for name, step in net.steps.items()
    ]
    links = [
        Link(
            numbers[edge.source],
            numbers[edge.target],
            _label_width(edge, paint),
            look_of(net, edge),
        )
        for edge in edges
    ]
    boxes = [Box(card.width, card.height, 0.0) for card in cards]
    for link in links:
        if link.source == link.target:
            card, spare = cards[link.source], _LOOP_WIDTH + link.label
            boxes[link.source] = Box(card.width, card.height, spare)
    layout = lay_out(boxes, links, numbers.get(net.entry or "", 0))
    return "\n".join(_compose(net, edges, cards, layout, paint)) + "\n"


def style_of(paint: Paint) -> str:
    """Return the content of the style element, for the hash of a content policy."""
    return STYLE if paint is PLAIN else STYLE + PAINTED_STYLE


def _compose(
    net: Net, edges: tuple[Edge, ...], cards: list[Card], layout: Layout, paint: Paint
) -> Iterator[str]:
    width, height = _number(layout.width), _number(layout.height)
    title = escape(clean(net.name))
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="{"group" if paint.links else "img"}">'
    )
    yield f"<title>{title}</title>"
    yield f"<style>{style_of(paint)}</style>"
    yield f"<defs>{_MARKERS}</defs>"
    yield f'<rect class="paper" width="{width}" height="{height}"/>'
    corners = dict(zip(net.steps, layout.boxes, strict=True))
    by_step = dict(zip(net.steps, cards, strict=True))
    labels: list[str] = []
    for edge, route in zip(edges, layout.routes, strict=True):
        line, label_at = _trace(edge, route, corners, by_step, paint)
        yield _draw_arc(net, edge, line, route is None or route.has_head, paint)
        if label_at is not None:
            labels.append(_draw_label(net, edge, label_at, paint))
    for name, card in by_step.items():
        yield _link(_draw_card(card, corners[name], paint), name, paint)
    yield from labels
    yield "</svg>"


def _trace(
    edge: Edge,
    route: Route | None,
    corners: dict[str, Point],
    cards: dict[str, Card],
    paint: Paint,
) -> tuple[str, Point | None]:
    if route is not None:
        pen = draw_curve if route.is_curve else draw_wire
        return pen(route.points), route.label_at
    card, (x, y) = cards[edge.source], corners[edge.source]
    middle = (x + card.width, y + card.height / 2)
    label = _label_width(edge, paint)
    at = (middle[0] + _LOOP_WIDTH - 8 + label / 2, middle[1]) if label else None
    return draw_self_loop(middle, _LOOP_WIDTH - 8), at


def _label_width(edge: Edge, paint: Paint) -> float:
    label = write_label(edge, paint, _GUARD_LENGTH)
    return measure_mono(label, GUARD_SIZE) + 14 if label else 0.0


def _draw_arc(net: Net, edge: Edge, line: str, has_head: bool, paint: Paint) -> str:
    look = look_of(net, edge)
    guard = write_guard(edge)
    says = f"{clean(edge.source)} → {clean(edge.target)}"
    head = f' marker-end="url(#noetl-{look})"' if has_head else ""
    tip = escape(f"{says} when {guard}" if guard else says)
    return (
        f'<path class="arc {look}{paint.flow(edge)}" '
        f"data-from={_attribute(edge.source)} data-to={_attribute(edge.target)}"
        f'{head} d="{line}">'
        f"<title>{tip}</title></path>"
    )


def _draw_label(net: Net, edge: Edge, at: Point, paint: Paint) -> str:
    label = write_label(edge, paint, _GUARD_LENGTH)
    width, height = _label_width(edge, paint), GUARD_SIZE + 7
    x, y = at[0] - width / 2, at[1] - height / 2
    return (
        f'<g class="guard {look_of(net, edge)}{paint.flow(edge)}">'
        f'<rect x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" '
        f'height="{_number(height)}" rx="{_number(height / 2)}"/>'
        f'<text x="{_number(at[0])}" y="{_number(at[1] + GUARD_SIZE * 0.35)}">'
        f"{escape(label)}</text><title>{escape(write_guard(edge) or '')}</title></g>"
    )


def _link(card: str, step: str, paint: Paint) -> str:
    target = paint.links.get(step)
    if target is None:
        return card
    says = _attribute(" ".join([step, *filter(None, [paint.notes.get(step)])]))
    return f"<a href={quoteattr(target)} aria-label={says}>{card}</a>"


def _draw_card(card: Card, corner: Point, paint: Paint) -> str:
    x, y = corner
    middle = x + card.width / 2
    look = paint.looks.get(card.step)
    classes = f"{card.look} was-{look}" if look else card.look
    parts = [f'<g class="step {classes}" data-step={_attribute(card.step)}>']
    parts += [f"<title>{escape(card.tip)}</title>"] if card.tip else []
    parts += [_draw_frame(corner, card, 0.0)]
    parts += [_draw_frame(corner, card, 3.5)] if card.is_terminal else []
    line = y + card.top + NAME_SIZE * 0.8
    parts.append(_write("name", middle, line, card.name))
    line += NAME_SIZE * 0.2
    if card.badges:
        line += card.leading
        parts += _draw_badges(card, middle, line)
        line += BADGE_SIZE + 5
    for label, kind in card.tasks:
        line += TASK_SIZE + 5
        role = "task" if kind else "task kind"
        parts.append(_write(role, middle, line, label, kind))
    if card.note:
        line += NOTE_SIZE + 8
        parts.append(_write("note", middle, line, card.note))
    return "".join([*parts, "</g>"])


def _draw_frame(corner: Point, card: Card, inset: float) -> str:
    radius = max(2.0, (card.height / 2 if card.is_round else 9.0) - inset)
    return (
        f'<rect class="{"inner" if inset else "frame"}" '
        f'x="{_number(corner[0] + inset)}" y="{_number(corner[1] + inset)}" '
        f'width="{_number(card.width - 2 * inset)}" '
        f'height="{_number(card.height - 2 * inset)}" rx="{_number(radius)}"/>'
    )


def _draw_badges(card: Card, middle: float, top: float) -> Iterator[str]:
    x = middle - card.badges_width / 2
    for text, width in card.badges:
        yield (
            f'<g class="badge"><rect x="{_number(x)}" y="{_number(top)}" '
            f'width="{_number(width)}" height="{BADGE_SIZE + 6}" '
            f'rx="{(BADGE_SIZE + 6) / 2}"/>'
            f'<text x="{_number(x + width / 2)}" '
            f'y="{_number(top + BADGE_SIZE * 0.85 + 3)}">{escape(text)}</text></g>'
        )
        x += width + 5


def _write(role: str, x: float, y: float, text: str, more: str = "") -> str:
    tail = f'<tspan class="kind" dx="5">{escape(more)}</tspan>' if more else ""
    return (
        f'<text class="{role}" x="{_number(x)}" y="{_number(y)}">'
        f"{escape(text)}{tail}</text>"
    )


def _attribute(text: str) -> str:
    return quoteattr(clean(text))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
