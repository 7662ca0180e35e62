"""Places of errors: the line of the playbook, the caret, and frames of Python code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl import load
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome
from noetl.report.places import Place, Source

pytestmark = pytest.mark.spec("OUT-04", "S-32")

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: tests/t}
workload: {total: 1, items: [1]}
"""


def source_of(workflow: str) -> tuple[Source, Any]:
    text = HEAD + workflow
    loaded = load(text)
    assert loaded.playbook is not None, loaded.diagnostics
    return Source(loaded.playbook, text, "t.yaml"), loaded.playbook


TEMPLATES = {
    "an input": (
        """\
workflow:
  - step: a
    tool:
      kind: noop
      result:
        deep: ["x", "{{ workload.totl }}"]
""",
        "t.yaml:10:25",
        "workload.totl",
    ),
    "an input of several lines": (
        """\
workflow:
  - step: a
    tool:
      kind: noop
      result: |
        total:
          {{ workload.totl }}
""",
        "t.yaml:11:14",
        "workload.totl",
    ),
    "an input of a workbook task": (
        """\
workflow:
  - step: a
    tool: {kind: workbook, name: w, result: "{{ workload.totl }}"}
workbook:
  w: {kind: noop}
""",
        "t.yaml:7:49",
        "workload.totl",
    ),
    "a rule": (
        """\
workflow:
  - step: a
    tool:
      kind: noop
      spec: {policy: {rules: [{when: "{{ workload.total < 'x' }}",
        then: {do: continue}}]}}
""",
        "t.yaml:9:38",
        "\"{{ workload.total < 'x' }}\"",
    ),
    "a directive": (
        """\
workflow:
  - step: a
    tool:
      kind: noop
      spec:
        policy:
          rules:
            - else:
                then:
                  do: continue
                  set_ctx: {x: "{{ workload.totl }}"}
""",
        "t.yaml:15:36",
        "workload.totl",
    ),
    "a loop": (
        """\
workflow:
  - step: a
    loop: {in: "{{ workload.total < 'x' }}", iterator: each}
    tool: {kind: noop}
""",
        "t.yaml:7:16",
        "\"{{ workload.total < 'x' }}\"",
    ),
    "a guard": (
        """\
workflow:
  - step: a
    tool: {kind: noop}
    next: {arcs: [{step: b, when: "{{ workload.total < 'x' }}"}]}
  - step: b
    tool: {kind: noop}
""",
        "t.yaml:8:35",
        "\"{{ workload.total < 'x' }}\"",
    ),
    "admission": (
        """\
workflow:
  - step: a
    spec: {policy: {admit: {rules: [{when: "{{ workload.total < 'x' }}",
      then: {allow: true}}, {else: {then: {allow: true}}}]}}}
    tool: {kind: noop}
""",
        "t.yaml:7:44",
        "\"{{ workload.total < 'x' }}\"",
    ),
}


def find_error(log: Any) -> dict[str, Any]:
    """Return the first error with details that the log has, wherever it is."""

    def search(value: Any) -> Any:
        if isinstance(value, dict):
            if "kind" in value and "message" in value:
                return value
            value = list(value.values())
        for each in value if isinstance(value, list) else ():
            if (found := search(each)) is not None:
                return found
        return None

    found: dict[str, Any] = next(
        error for event in log if (error := search(event.payload)) is not None
    )
    return found


def with_caret(place: Place) -> tuple[str, str]:
    where, source, caret, *_ = place.as_text()
    start = caret.index("^")
    return where, source[start : start + caret.count("^")]


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_failed_template_is_shown_where_it_stands(name: str) -> None:
    workflow, where, underlined = TEMPLATES[name]
    source, playbook = source_of(workflow)
    simulation = Simulation(playbook, lambda call: Outcome.ok(1))
    simulation.run()
    place = source.place_of(find_error(simulation.log))
    assert place is not None
    assert with_caret(place) == (where, underlined)


def test_the_nearest_name_is_the_hint() -> None:
    source, playbook = source_of(TEMPLATES["an input"][0])
    simulation = Simulation(playbook, lambda call: Outcome.ok(1))
    simulation.run()
    place = source.place_of(find_error(simulation.log))
    assert place is not None
    assert place.as_text()[-1] == "      = did you mean 'total'?"


CODE = """\
workflow:
  - step: a
    tool:
      - work:
          kind: python
          code: |
            def half(x):
                return 1 / x

            def main():
                return half(0)
"""
ERROR = {
    "kind": "tool.exception",
    "message": "ZeroDivisionError: division by zero (line 2 of the code)",
    "step": "a",
    "task": "work",
}
TRACE = (
    '  File "<code>", line 5, in main\n    return half(0)\n'
    '  File "shop.py", line 3, in price\n'
    '  File "<code>", line 2, in half\n    return 1 / x\n'
    "ZeroDivisionError: division by zero"
)


def test_frames_have_lines_of_the_file() -> None:
    source, _ = source_of(CODE)
    place = source.place_of({**ERROR, "details": {"line": 2, "traceback": TRACE}})
    assert place is not None
    assert place.as_text() == [
        "t.yaml:15 in main: return half(0)",
        "shop.py:3 in price",
        "t.yaml:12 in half",
        "   12 |                 return 1 / x",
        "      |                 ^^^^^^^^^^^^",
    ]


def test_the_last_five_frames_of_the_error_itself_are_shown() -> None:
    source, _ = source_of(CODE)
    cause = "".join(f'  File "<code>", line 5, in f{n}\n' for n in range(3))
    frames = "".join(f'  File "<code>", line 2, in g{n}\n' for n in range(9))
    trace = f"{cause}KeyError: 'x'\n{frames}ValueError: y"
    place = source.place_of({**ERROR, "details": {"line": 2, "traceback": trace}})
    assert place is not None
    assert [each.function for each in place.frames] == ["g4", "g5", "g6", "g7", "g8"]


def test_code_of_a_workbook_is_found_there() -> None:
    text = """\
workflow:
  - step: a
    tool: {kind: workbook, name: w}
workbook:
  w:
    kind: python
    code: |
      def main():
          return 1 / 0
"""
    source, _ = source_of(text)
    error = {**ERROR, "task": "task_1", "details": {"line": 2, "traceback": ""}}
    place = source.place_of(error)
    assert place is not None
    assert (place.line, place.column) == (13, 11)


def test_a_result_that_is_refused_points_to_the_code() -> None:
    source, _ = source_of(CODE)
    place = source.place_of({**ERROR, "kind": "tool.contract", "details": {}})
    assert place is not None
    assert with_caret(place)[0] == "t.yaml:10:17"


@pytest.mark.parametrize(
    "error",
    [
        {**ERROR, "step": "gone", "details": {"line": 2}},
        {**ERROR, "task": None, "details": {"line": 2}},
        {**ERROR, "kind": "http.server", "details": {}},
        {**ERROR, "details": {"place": {"line": 900, "column": 1}}},
        {**ERROR, "details": {"place": {"line": "x", "column": None}}},
        {"kind": "template.error", "message": "x"},
    ],
)
def test_an_unknown_place_is_none(error: dict[str, Any]) -> None:
    source, _ = source_of(CODE)
    assert source.place_of(error) is None


def test_a_secret_in_the_line_is_masked() -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    source, _ = source_of(CODE.replace("return 1 / x", f"return '{key}' / x"))
    place = source.place_of({**ERROR, "details": {"line": 2, "traceback": TRACE}})
    assert place is not None
    assert key not in "".join(place.as_text())


def test_the_report_shows_the_place(page_of: Callable[..., Any]) -> None:
    page = page_of('- {step: a, tool: {kind: noop, result: "{{ workload.zz }}"}}')
    shown = page.source.partition('<pre class="json">')[2].partition("</pre>")[0]
    assert "workload.zz" in shown
