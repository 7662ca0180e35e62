"""Drawings: one example to the letter, and names that try to break out.

After a wanted change draw it again (``noetl graph orders.yaml -o orders.svg``, and
.dot, .json, .mmd alike) and look at it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import process_time
from xml.etree import ElementTree

import pytest

from noetl.adapters.tools import BUILTIN
from noetl.dsl.load import load
from noetl.net.draw.dot import draw_dot
from noetl.net.draw.json import draw_json
from noetl.net.draw.mermaid import draw_mermaid
from noetl.net.draw.svg import draw_svg
from noetl.net.net import Net, build_net

GOLDEN = Path(__file__).parent / "golden"
PENS = {"mmd": draw_mermaid, "dot": draw_dot, "json": draw_json, "svg": draw_svg}
ReadNet = Callable[[str], Net]


@pytest.mark.parametrize("ending", PENS)
def test_draws_the_example_to_the_letter(ending: str) -> None:
    loaded = load((GOLDEN / "orders.yaml").read_bytes(), BUILTIN)
    assert loaded.playbook is not None

    drawing = PENS[ending](build_net(loaded.playbook))

    assert drawing == (GOLDEN / f"orders.{ending}").read_text(encoding="utf-8")


HOSTILE = [
    pytest.param('"]; evil["', id="a closing quote"),
    pytest.param("</text><script>alert(1)</script>", id="markup"),
    pytest.param("&quot; &#34; #quot; #34;", id="entities"),
    pytest.param("]]>--><!--", id="comments"),
    pytest.param('|"| s0 --> s1', id="an arc of mermaid"),
    pytest.param("\u202eabc\u2028def\u0085", id="invisible characters"),
    pytest.param("}} x {{", id="braces"),
    pytest.param("漢字 🎉 й", id="other scripts"),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_breaks_out_of_its_label(net_of: ReadNet, text: str) -> None:
    inner = json.dumps(text, ensure_ascii=False)
    guard = json.dumps("{{ ctx.a == " + inner + " }}", ensure_ascii=False)
    desc = json.dumps(text, ensure_ascii=False)
    net = net_of(
        f"  - {{step: start, desc: {desc}, next: {{arcs: [{{step: end, when: "
        f"{guard}}}]}}}}\n"
        "  - {step: end, tool: {kind: noop}}\n"
    )
    tags = {element.tag.rpartition("}")[2] for element in _parse(draw_svg(net))}
    assert tags <= {
        *("svg", "title", "style", "defs", "marker", "path", "rect"),
        *("g", "text", "tspan"),
    }
    mermaid = draw_mermaid(net).splitlines()
    assert len(mermaid) == 4 + 2 + 1
    assert mermaid[-1].count('"') == 2
    assert mermaid[-1].endswith('"| s1')
    dot = draw_dot(net).splitlines()
    assert len(dot) == 4 + 2 + 1 + 1
    assert dot[-2].endswith(", style=dashed];")


def _parse(drawing: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(drawing).iter())


def test_json_names_what_programs_ask_for(net_of: ReadNet) -> None:
    net = net_of("""
  - step: start
    loop: {in: [1], iterator: page, spec: {mode: parallel, max_in_flight: 4}}
    tool: [{get: {kind: http, url: 'http://localhost'}}, {keep: {kind: noop}}]
    next: {spec: {mode: inclusive}, arcs: [
      {step: end, when: "{{ ctx.x }}", args: {b: 1, a: 2}}]}
  - step: end
    spec: {join: {mode: 1}, policy: {admit: {rules: [{else: {then: {allow: true}}}]}}}
    tool: {kind: noop}
""")
    assert json.loads(draw_json(net)) == {
        "name": "example",
        "entry": "start",
        "steps": [
            {
                "step": "start",
                "desc": None,
                "tasks": [
                    {"task": "get", "kind": "http"},
                    {"task": "keep", "kind": "noop"},
                ],
                "kinds": ["http", "noop"],
                "loop": {
                    "iterator": "page",
                    "mode": "parallel",
                    "max_in_flight": 4,
                    "loop": None,
                },
                "join": None,
                "admit": False,
                "terminal": False,
            },
            {
                "step": "end",
                "desc": None,
                "tasks": [{"task": "task_1", "kind": "noop"}],
                "kinds": ["noop"],
                "loop": None,
                "join": {"mode": 1, "from": ["start"]},
                "admit": True,
                "terminal": True,
            },
        ],
        "arcs": [
            {
                "from": "start",
                "to": "end",
                "when": "{{ ctx.x }}",
                "mode": "inclusive",
                "args": ["b", "a"],
            }
        ],
    }


def test_three_hundred_steps_are_drawn_within_a_second(net_of: ReadNet) -> None:
    failed = "\"{{ event.name == 'step.failed' }}\""
    steps = "".join(
        f"  - {{step: s{n}, tool: {{kind: http, url: 'http://localhost'}}, next: "
        f"{{arcs: [{{step: end, when: {failed}}}, {{step: s{n + 1}, when: "
        f"'{{{{ ctx.x{n} }}}}'}}, {{step: s{n // 2}}}]}}}}\n"
        for n in range(299)
    )
    net = net_of(
        steps + "  - {step: s299, next: {arcs: [{step: end}]}}\n"
        "  - {step: end, tool: {kind: noop}}\n"
    )
    before = process_time()
    drawing = draw_svg(net)
    assert process_time() - before < 1
    assert drawing.count("data-step=") == 301
