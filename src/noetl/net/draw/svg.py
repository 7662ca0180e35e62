"""SVG picture of a net that needs no other program or file."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from noetl.net.draw import PLAIN, Paint
from noetl.net.draw.geometry import GUARD_LENGTH, LABEL_HEIGHT, Card, Geometry
from noetl.net.draw.labels import clean, look_of, write_guard, write_label
from noetl.net.draw.layout.graph import Point
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
    return "\n".join(_compose(Geometry(net, paint), paint)) + "\n"


def style_of(paint: Paint) -> str:
    """Return the content of the style element, for the hash of a content policy."""
    return STYLE if paint is PLAIN else STYLE + PAINTED_STYLE


def _compose(geometry: Geometry, paint: Paint) -> Iterator[str]:
    net, layout = geometry.net, geometry.layout
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
    labels: list[str] = []
    for edge, route in zip(geometry.edges, layout.routes, strict=True):
        line, label_at = geometry.trace(edge, route)
        yield _draw_arc(net, edge, line, route is None or route.has_head, paint)
        if label_at is not None:
            labels.append(_draw_label(geometry, edge, label_at, paint))
    for name, card in geometry.cards.items():
        drawn = _draw_card(card, geometry.corners[name], paint)
        yield _link(drawn, name, paint)
    yield from labels
    yield "</svg>"


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


def _draw_label(geometry: Geometry, edge: Edge, at: Point, paint: Paint) -> str:
    label = write_label(edge, paint, GUARD_LENGTH)
    width, height = geometry.label_width(edge), LABEL_HEIGHT
    x, y = at[0] - width / 2, at[1] - height / 2
    return (
        f'<g class="guard {look_of(geometry.net, edge)}{paint.flow(edge)}">'
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
