"""A picture of a net as data has what its SVG drawing has."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from noetl.adapters.tools import BUILTIN
from noetl.dsl.load import load
from noetl.net.draw.picture import MAX_GUARD, Picture, make_picture
from noetl.net.draw.svg import draw_svg
from noetl.net.net import Net, build_net

ORDERS = Path(__file__).parent / "golden" / "orders.yaml"
ReadNet = Callable[[str], Net]


@pytest.fixture(scope="module")
def net() -> Net:
    loaded = load(ORDERS.read_bytes(), BUILTIN)
    assert loaded.playbook is not None
    return build_net(loaded.playbook)


@pytest.fixture(scope="module")
def picture(net: Net) -> Picture:
    return make_picture(net, "abc")


def test_boxes_and_paths_are_those_of_the_drawing(net: Net, picture: Picture) -> None:
    drawing = list(ElementTree.fromstring(draw_svg(net)).iter())
    frames = [each.attrib for each in drawing if each.get("class") == "frame"]
    lines = [each.get("d") for each in drawing if "data-from" in each.attrib]

    drawn = [
        [float(each[name]) for name in ("x", "y", "width", "height")] for each in frames
    ]

    assert [[node.x, node.y, node.w, node.h] for node in picture.nodes] == drawn
    assert [arc.path for arc in picture.arcs] == lines


def test_a_node_says_what_its_step_is(picture: Picture) -> None:
    nodes = {node.id: node for node in picture.nodes}
    lines = ORDERS.read_text(encoding="utf-8").splitlines()

    assert picture.entry == "start"
    assert {name: node.kind for name, node in nodes.items()} == {
        **dict.fromkeys(nodes, "step"),
        **{"start": "start", "audit": "end", "end": "end"},
    }
    assert nodes["fetch_orders"].kinds == ["http", "python", "postgres"]
    assert nodes["fetch_orders"].tasks[0] == ("get", "http")
    assert nodes["fetch_orders"].loop
    assert nodes["merge"].join
    assert nodes["audit"].gate
    assert nodes["start"].desc == "Reads the settings and decides what to do."
    for name, node in nodes.items():
        assert re.match(rf"\s+- step: {name}$", lines[node.line - 1]), name


def test_an_arc_has_its_guard_and_its_line(picture: Picture) -> None:
    lines = ORDERS.read_text(encoding="utf-8").splitlines()
    arcs = {arc.id: arc for arc in picture.arcs}
    failed, merge = arcs["fetch_orders/0"], arcs["fetch_orders/1"]
    retry, other = arcs["fetch_customers/0"], arcs["fetch_customers/2"]

    assert (failed.source, failed.to, failed.number) == ("fetch_orders", "failed", 0)
    assert (failed.when, failed.look) == ("step.failed", "failure")
    assert failed.label is not None
    assert failed.label.text == "step.failed"
    assert (retry.source, retry.to) == ("fetch_customers", "fetch_customers")
    assert retry.path.startswith("M")
    assert (other.when, other.label, other.otherwise) == (None, None, True)
    assert not arcs["notify/0"].otherwise, "it is the only one"
    assert not merge.otherwise
    for arc in picture.arcs:
        assert f"step: {arc.to}" in lines[arc.line - 1], arc.id


def test_labels_lie_inside_the_picture(picture: Picture) -> None:
    labels = [arc.label for arc in picture.arcs if arc.label is not None]

    assert labels
    for label in labels:
        assert 0 <= label.x <= label.x + label.w <= picture.width
        assert 0 <= label.y <= label.y + label.h <= picture.height


def test_the_encoded_names_are_those_of_the_page(picture: Picture) -> None:
    arc = msgspec.to_builtins(picture)["arcs"][0]

    assert {"from", "to", "else"} <= arc.keys()


def test_a_long_guard_is_cut(net_of: ReadNet) -> None:
    guard = f'ctx.a == "{"x" * 4_000}"'
    net = net_of(
        "  - step: start\n"
        f"    next: {{arcs: [{{step: end, when: '{{{{ {guard} }}}}'}}]}}\n"
        "  - {step: end, tool: {kind: noop}}\n"
    )

    [arc] = make_picture(net, "").arcs

    assert arc.when is not None
    assert len(arc.when) == MAX_GUARD


def test_an_empty_loop_of_arcs_is_drawn(net_of: ReadNet) -> None:
    """A net of one step without arcs has a picture, too."""
    picture = make_picture(net_of("  - {step: start, tool: {kind: noop}}\n"), "")

    assert [node.kind for node in picture.nodes] == ["start"]
    assert picture.arcs == []
