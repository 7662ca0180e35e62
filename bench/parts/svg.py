"""A curve as a picture: panels below each other, one logarithmic axis for all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 720, 190
LEFT, RIGHT, TOP, GAP, BOTTOM = 80, 12, 40, 46, 54
INSET = 36
"""Between the grid's ends and the first and last point."""
STEEP = 20.0
"""From this ratio on, the axis of values is logarithmic, too."""
STYLE = """
svg { font: 12px system-ui, sans-serif; --ink: #1f2328; --soft: #59636e;
  --line: #d1d9e0; --curve: #0a58ca; --paper: #ffffff }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e6edf3; --soft: #9aa4af; --line: #3a424b; --curve: #6cb0ff;
    --paper: #12161b } }
.paper { fill: var(--paper) } text { fill: var(--soft) }
.title { fill: var(--ink); font-size: 14px; font-weight: 600 }
.value { fill: var(--ink); text-anchor: middle; paint-order: stroke;
  stroke: var(--paper); stroke-width: 4px }
.grid { stroke: var(--line) } .curve { stroke: var(--curve); stroke-width: 2; fill: none }
.point { fill: var(--curve) } .end { text-anchor: end } .middle { text-anchor: middle }
"""  # noqa: E501


class Panel(NamedTuple):
    """Values for the sizes of the picture, in this order."""

    label: str
    values: Sequence[float]


class Axis(NamedTuple):
    """The values from ``low`` to ``high``, with these ticks."""

    low: float
    high: float
    ticks: Sequence[float]
    logarithmic: bool

    def place(self, value: float) -> float:
        """Between 0 and 1."""
        if self.logarithmic:
            low, high = math.log10(self.low), math.log10(self.high)
            return (math.log10(value) - low) / (high - low)
        return (value - self.low) / (self.high - self.low)


def draw(
    title: str, of: str, sizes: Sequence[int], names: Sequence[str], *panels: Panel
) -> str:
    """``names`` are the sizes as they are shown below the axis, which is ``of``."""
    height = TOP + len(panels) * (HEIGHT + GAP) - GAP + BOTTOM
    places = [_across(size, sizes) for size in sizes]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
    ]
    for number, panel in enumerate(panels):
        lines += _panel(panel, TOP + number * (HEIGHT + GAP), places)
    floor = height - BOTTOM
    lines += [
        _text(x, floor + 18, name, "middle")
        for x, name in zip(places, names, strict=True)
    ]
    middle = (LEFT + WIDTH - RIGHT) / 2
    lines.append(_text(middle, floor + 40, f"{of} (logarithmic)", "middle"))
    return "\n".join([*lines, "</svg>", ""])


def show(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.3g}"


def _panel(panel: Panel, top: float, places: Sequence[float]) -> Iterator[str]:
    axis = _axis(panel.values)
    yield _text(LEFT, top - 14, panel.label, "title")
    for tick in axis.ticks:
        y = top + HEIGHT * (1 - axis.place(tick))
        yield (
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" '
            f'y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        yield _text(LEFT - 8, y + 4, show(tick), "end")
    heights = [top + HEIGHT * (1 - axis.place(value)) for value in panel.values]
    dots = list(zip(places, heights, strict=True))
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
    yield f'<polyline class="curve" points="{path}"/>'
    for (x, y), value in zip(dots, panel.values, strict=True):
        yield f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
        yield _text(x, y - 10, show(value), "value")


def _across(size: int, sizes: Sequence[int]) -> float:
    """Where a size is, from left to right."""
    width = WIDTH - RIGHT - LEFT - 2 * INSET
    if len(sizes) == 1:
        return LEFT + INSET + width / 2
    first, last = math.log10(sizes[0]), math.log10(sizes[-1])
    return LEFT + INSET + width * (math.log10(size) - first) / (last - first)


def _axis(values: Sequence[float]) -> Axis:
    least, most = min(values), max(values)
    if least > 0 and most / least > STEEP:
        first = math.floor(math.log10(least))
        last = math.ceil(math.log10(most * 1.2))
        ticks = [10.0**power for power in range(first, last + 1)]
        return Axis(ticks[0], ticks[-1], ticks, logarithmic=True)
    most = max(most, 1e-9) * 1.15  # room for the figures above the dots
    step = 10.0 ** math.floor(math.log10(most))
    step = next(part * step for part in (0.2, 0.5, 1, 2) if most / (part * step) <= 6)
    count = math.ceil(most / step)
    ticks = [step * number for number in range(count + 1)]
    return Axis(0.0, ticks[-1], ticks, logarithmic=False)


def _text(x: float, y: float, text: str, name: str) -> str:
    return f'<text class="{name}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
