"""What was measured as pictures, and as tables on the page about them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from parts.curves import CURVES, Measured, Point
from parts.svg import Panel, draw, show

ROOT = Path(__file__).parents[2]


class Files(NamedTuple):
    pictures: Path
    page: Path


FILES = Files(ROOT / "docs" / "assets", ROOT / "docs" / "explanation" / "scaling.md")


def headings(name: str) -> list[str]:
    curve = CURVES[name]
    return [
        f"| {curve.of} | µs CPU for {curve.unit} | to the first | how many a second "
        f"| memory at its peak | of which since the start | bytes stored for each |",
        "|---|---|---|---|---|---|---|",
    ]


def row(name: str, point: Point, first: Point) -> str:
    stored = "" if point.stored is None else show(point.stored)
    return (
        f"| {CURVES[name].show(point.size)} | {show(point.cpu)} "
        f"| {point.cpu / first.cpu:.2f} x | {show(point.per_second)} "
        f"| {point.memory:,.0f} MB | {point.grew:,.1f} MB | {stored} |"
    )


def write(measured: Mapping[str, Measured], files: Files) -> Iterator[Path]:
    """Write the files; those that were written."""
    files.pictures.mkdir(exist_ok=True)
    text = files.page.read_text(encoding="utf-8")
    for name, found in measured.items():
        picture = files.pictures / f"scaling-{name}.svg"
        picture.write_text(drawn(name, found), encoding="utf-8")
        yield picture
        text = placed(text, name, block(name, found))
    files.page.write_text(text, encoding="utf-8")
    yield files.page


def drawn(name: str, found: Measured) -> str:
    curve, points = CURVES[name], found.points
    sizes = [point.size for point in points]
    panels = [
        Panel(f"µs CPU for {curve.unit}", [point.cpu for point in points]),
        Panel("MB of memory at its peak", [point.memory for point in points]),
    ]
    if curve.timed:
        panels.append(
            Panel("how many a second", [point.per_second for point in points])
        )
    return draw(
        f"The cost of {curve.unit}, by {curve.of}",
        curve.of,
        sizes,
        [curve.show(size) for size in sizes],
        *panels,
    )


def block(name: str, found: Measured) -> str:
    curve, points = CURVES[name], found.points
    lines = [
        f"![µs CPU and memory, by {curve.of}](../assets/scaling-{name}.svg)",
        "",
        *headings(name),
        *(row(name, point, points[0]) for point in points),
        "",
        f"`.venv/bin/python bench/scaling.py {name}`, Python {found.python}, "
        f"{found.cores} cores.",
    ]
    return "\n".join(lines)


def placed(text: str, name: str, block: str) -> str:
    begin, end = f"<!-- figures:begin {name} -->", "<!-- figures:end -->"
    pattern = re.compile(f"{re.escape(begin)}\n.*?{end}", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"the page has no place for {name}: {begin} … {end}")
    return pattern.sub(lambda _: f"{begin}\n\n{block}\n\n{end}", text)
