"""Whatever the net: reachability is right, analysis and drawings never fail."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nets import read_net

from noetl.net.checks import analyse
from noetl.net.draw.dot import draw_dot
from noetl.net.draw.json import draw_json
from noetl.net.draw.mermaid import draw_mermaid
from noetl.net.draw.svg import draw_svg
from noetl.net.net import Net

FEW = settings(max_examples=60, deadline=None)
SVG = "{http://www.w3.org/2000/svg}"
GUARDS = st.one_of(
    st.sampled_from(
        [
            None,
            True,
            False,
            "{{ ctx.x }}",
            "{{ event.name == 'step.done' }}",
            "{{ event.name == 'step.failed' }}",
            "{{ event.name in ['loop.done', \"step.failed\"] and ctx.y }}",
        ]
    ),
    st.text(
        st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="{}%#\\'"),
        max_size=30,
    ).map(lambda text: "{{ ctx.a == '" + text + "' }}"),
)
TOOLS = st.sampled_from(
    [None, {"kind": "noop"}, {"kind": "http", "url": "http://localhost"}]
)


@st.composite
def workflows(draw: st.DrawFn) -> str:
    size = draw(st.integers(1, 9))
    names = [f"s{number}" for number in range(size)]
    workflow = [draw(steps(name, names)) for name in names]
    return "  " + json.dumps(workflow, ensure_ascii=False)


@st.composite
def steps(draw: st.DrawFn, name: str, names: list[str]) -> dict[str, Any]:
    step: dict[str, Any] = {"step": name, "tool": draw(TOOLS), "spec": {}}
    targets = draw(st.lists(st.sampled_from(names), max_size=4))
    if targets:
        mode = draw(st.sampled_from(["exclusive", "inclusive"]))
        arcs = [draw(arc(target)) for target in targets]
        step["next"] = {"spec": {"mode": mode}, "arcs": arcs}
    if draw(st.integers(0, 3)) == 0:
        step["spec"]["join"] = draw(joins(names))
    if step["tool"] and draw(st.booleans()):
        step["loop"] = {"in": draw(st.sampled_from([[1], "{{ ctx.l }}"]))}
        step["loop"]["iterator"] = "item"
    if draw(st.integers(0, 4)) == 0:
        rule = {"when": draw(st.sampled_from([True, "{{ ctx.g }}"]))}
        rule["then"] = {"allow": draw(st.booleans())}
        step["spec"]["policy"] = {"admit": {"rules": [rule]}}
    return {key: value for key, value in step.items() if value is not None}


@st.composite
def arc(draw: st.DrawFn, target: str) -> dict[str, Any]:
    guard = draw(GUARDS)
    return {"step": target} if guard is None else {"step": target, "when": guard}


@st.composite
def joins(draw: st.DrawFn, names: list[str]) -> dict[str, Any]:
    join: dict[str, Any] = {"mode": draw(st.sampled_from(["all", "any", 1, 2, 5]))}
    if draw(st.booleans()):
        join["from"] = draw(
            st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)
        )
    return join


def walk(net: Net, source: str, target: str, avoiding: str | None) -> bool:
    """The definition, as simple as it can be said."""
    seen: set[str] = set()
    pending = [source]
    while pending:
        step = pending.pop()
        if step == target:
            return True
        if step in seen or (step == avoiding and step != source):
            continue
        seen.add(step)
        pending.extend(net.successors(step))
    return False


@pytest.mark.spec("S-04")
@FEW
@given(workflow=workflows(), data=st.data())
def test_reaches_what_a_naive_walk_reaches(workflow: str, data: st.DataObject) -> None:
    net = read_net(workflow)
    avoiding = data.draw(st.sampled_from([None, *net.steps]))
    for source in net.steps:
        for target in net.steps:
            assert net.reaches(source, target, avoiding) is walk(
                net, source, target, avoiding
            )


@FEW
@given(workflow=workflows())
def test_every_finding_makes_sense(workflow: str) -> None:
    net = read_net(workflow)
    for finding in analyse(net):
        assert finding.message
        assert finding.severity in {"error", "warning", "hint"}
        assert set(finding.witness) <= set(net.steps)
        for source, target in zip(finding.witness, finding.witness[1:], strict=False):
            assert target in net.successors(source)


@FEW
@given(workflow=workflows())
def test_svg_is_xml_with_each_step_once(workflow: str) -> None:
    net = read_net(workflow)
    drawing = draw_svg(net)
    root = ElementTree.fromstring(drawing)
    assert [
        group.get("data-step")
        for group in root.iter(f"{SVG}g")
        if "data-step" in group.attrib
    ] == list(net.steps)
    arcs = [path for path in root.iter(f"{SVG}path") if "data-from" in path.attrib]
    assert len(arcs) == len(net.edges)
    assert "nan" not in drawing
    assert "inf" not in drawing
    assert drawing == draw_svg(net)


@FEW
@given(workflow=workflows())
def test_boxes_do_not_overlap(workflow: str) -> None:
    root = ElementTree.fromstring(draw_svg(read_net(workflow)))
    frames = [
        tuple(float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        for rect in root.iter(f"{SVG}rect")
        if rect.get("class") == "frame"
    ]
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for number, (x, y, w, h) in enumerate(frames):
        assert min(x, y, width - x - w, height - y - h) >= 0
        for a, b, c, d in frames[:number]:
            assert x >= a + c or a >= x + w or y >= b + d or b >= y + h


@FEW
@given(workflow=workflows())
def test_mermaid_is_lines_of_known_shape(workflow: str) -> None:
    net = read_net(workflow)
    label = r'"[^"\n]*"'
    node = re.compile(
        rf"    s\d+(\(\[{label}\]\)|\[\[{label}\]\]|\[{label}\]|{{{{{label}}}}})"
    )
    link = re.compile(rf"    s\d+ (-->|-\.->|-\.-x)(\|{label}\|)? s\d+")
    style = re.compile(r"    linkStyle \d+ stroke:#[0-9a-f]{6}")
    lines = draw_mermaid(net).splitlines()[4:]
    assert all(
        node.fullmatch(x) or link.fullmatch(x) or style.fullmatch(x) for x in lines
    )
    assert sum(node.fullmatch(line) is not None for line in lines) == len(net.steps)
    assert sum(link.fullmatch(line) is not None for line in lines) == len(net.edges)


@FEW
@given(workflow=workflows())
def test_dot_is_lines_of_known_shape(workflow: str) -> None:
    net = read_net(workflow)
    text = r'"([^"\\\n]|\\.)*"'
    value = rf"(\w+|\d+|{text})"
    attributes = rf"\[\w+={value}(, \w+={value})*\]"
    node = re.compile(rf"    s\d+ {attributes};")
    link = re.compile(rf"    s\d+ -> s\d+( {attributes})?;")
    first, *lines, last = draw_dot(net).splitlines()
    assert re.fullmatch(rf"digraph {text} {{", first)
    assert last == "}"
    assert sum(node.fullmatch(line) is not None for line in lines) == len(net.steps)
    assert sum(link.fullmatch(line) is not None for line in lines) == len(net.edges)
    assert len(lines) == 3 + len(net.steps) + len(net.edges)


@FEW
@given(workflow=workflows())
def test_json_holds_every_step_and_arc(workflow: str) -> None:
    net = read_net(workflow)
    document = json.loads(draw_json(net))
    assert [step["step"] for step in document["steps"]] == list(net.steps)
    assert [(arc["from"], arc["to"]) for arc in document["arcs"]] == [
        (edge.source, edge.target) for edge in net.edges
    ]
