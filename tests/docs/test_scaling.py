"""The page about curves shows what was measured, and its pictures can be read."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def parts() -> Iterator[dict[str, ModuleType]]:
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        from parts import curves, page, svg

        yield {"curves": curves, "page": page, "svg": svg}
    finally:
        sys.path.remove(str(ROOT / "bench"))


def test_page_and_pictures_show_what_was_measured(
    parts: dict[str, ModuleType], tmp_path: Path
) -> None:
    page = parts["page"]
    copy = tmp_path / "scaling.md"
    shutil.copy(page.FILES.page, copy)

    found = parts["curves"].stored()
    written = list(page.write(found, page.Files(tmp_path, copy)))

    assert found.keys() == parts["curves"].CURVES.keys()
    for path in written[:-1]:
        kept = page.FILES.pictures / path.name
        assert path.read_text("utf-8") == kept.read_text("utf-8"), (
            "run: .venv/bin/python bench/scaling.py --plot"
        )
    assert copy.read_text("utf-8") == page.FILES.page.read_text("utf-8")


def test_a_page_without_a_place_for_a_curve_is_said(
    parts: dict[str, ModuleType],
) -> None:
    with pytest.raises(SystemExit, match="no place for payload: <!-- figures:begin"):
        parts["page"].placed("# Nothing\n", "payload", "| table |")


@pytest.mark.parametrize(
    "values",
    [[1.0, 2.0, 3.0], [0.4, 90.0, 80_000.0], [5.0, 5.0, 5.0], [0.0, 0.0, 0.0]],
    ids=["linear", "logarithmic", "flat", "nothing"],
)
def test_points_lie_within_the_picture_and_have_their_values(
    parts: dict[str, ModuleType], values: list[float]
) -> None:
    svg = parts["svg"]

    text = svg.draw(
        "t < u", "things", [1, 10, 100], ["1", "10", "100"], svg.Panel("µs", values)
    )

    picture = ElementTree.fromstring(text)
    labels = [each.text for each in picture.iter(f"{SVG}text")]
    dots = list(picture.iter(f"{SVG}circle"))
    assert len(dots) == 3
    for dot in dots:
        assert svg.LEFT <= float(dot.attrib["cx"]) <= svg.WIDTH - svg.RIGHT
        assert svg.TOP <= float(dot.attrib["cy"]) <= svg.TOP + svg.HEIGHT
    assert {svg.show(value) for value in values} <= set(labels)
    assert {"µs", "things (logarithmic)", "10"} <= set(labels)


def test_one_point_is_a_picture_too(parts: dict[str, ModuleType]) -> None:
    svg = parts["svg"]

    text = svg.draw("t", "things", [7], ["7"], svg.Panel("µs", [3.0]))

    assert len(list(ElementTree.fromstring(text).iter(f"{SVG}circle"))) == 1
