"""The canonical form: one document and one digest for every way of writing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from noetl import Playbook, load
from noetl.dsl.canonical import canonical, digest, to_yaml
from noetl.dsl.diagnostics import Report
from noetl.dsl.source import read_source
from noetl.types import JSON

Accept = Callable[..., Playbook]

ROOT = Path(__file__).parents[3]
GOOD = sorted([*(ROOT / "tests/playbooks/valid").glob("*.yaml")])
GOOD += sorted(
    path for path in (ROOT / "examples").glob("*.yaml") if ".test" not in path.suffixes
)


@pytest.mark.spec("NEXT-01", "PIPE-03", "SRV-07")
@pytest.mark.parametrize("path", [pytest.param(p, id=p.stem) for p in GOOD])
def test_the_canonical_form_is_its_own(path: Path) -> None:
    first = load(path.read_bytes()).playbook
    assert first is not None
    again = load(to_yaml(canonical(first))).playbook
    assert again is not None
    assert canonical(again) == canonical(first)
    assert digest(again) == digest(first)
    assert to_yaml(canonical(again)) == to_yaml(canonical(first))


def read_back(value: JSON) -> JSON:
    report = Report()
    root = read_source(to_yaml({"workload": value}), report)
    assert root is not None, list(report)
    assert list(report) == []
    return root.plain()["workload"]


awkward = st.sampled_from(
    [
        *("on", "off", "yes", "no", "y", "n", "true", "True", "null", "Null", "~", ""),
        *("1", "1.0", "1e3", "0o7", "0x1F", "007", "+1", "-1", ".5", "5.", "1_000"),
        *(".inf", "-.INF", ".nan", "12:30:45", "2026-01-31", "2026-01-31T00:00:00Z"),
        *(" leading", "trailing ", "  both  ", "\ttab", "tab\t", "a\tb", "#hash"),
        *("a # b", "a: b", "a:", ":a", "- a", "-", "---", "...", "? a", "! a", "&a"),
        *("*a", "@a", "`a", "%a", "|", ">", "[a", "{a", "a]", "a}", "a,b", "'", '"'),
        *("it's", 'say "x"', "\\n", "a\\", "\n", "a\n", "\na", "a\nb", "a\n\nb\n\n"),
        *(" a\nb", "a \n b", "a\r\nb", "\r", "a\u2028b", "a\x85b", "\u2029", "\xa0"),
        *("é", "日本語", "🦀", "\u200d", "\ufeff", "\ufeffa", "a\ufeffb", "\u202e"),
        *("<<", "=", "{{ workload.x }}", "{% if a %}b{% endif %}", "a" * 200),
        *("word " * 40, "long\n" + "line " * 60 + "\n", "  indented\n  block\n"),
        *("#\n", "a\n#b\n", "---\na\n", "a:\n  b\n", "\n\n", " \n ", "a\n \n"),
    ]
)
texts = awkward | st.text(
    st.characters(
        exclude_categories=["Cs", "Cc"],
        exclude_characters="\ufffe\uffff",
        include_characters="\n\t\r\x85",
    ),
    max_size=40,
)
numbers = st.integers(1 - 10**63, 10**64 - 1) | st.floats(
    allow_nan=False, allow_infinity=False
)
trees = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(texts.filter(lambda key: len(key) < 60), inner, max_size=4)
    ),
    max_leaves=20,
)


@pytest.mark.spec("ROOT-01", "S-50")
@settings(deadline=None)
@given(trees)
@example({"<<": {"a": 1}})
@example([1e16, 1e-7, 1e22, -0.0, 5e-324, 1.7976931348623157e308])
@example({"on": "on", "1": 1, "null": None})
def test_what_is_written_is_read_back(value: JSON) -> None:
    back = read_back(value)
    assert back == value
    assert repr(back) == repr(value)  # the types too: 1 is not 1.0 and not True


@pytest.mark.spec("ROOT-01")
@settings(deadline=None)
@given(texts)
def test_every_text_is_read_back(text: str) -> None:
    assert read_back(text) == text


BASE = """
- step: start
  tool:
    - a: {kind: noop, result: 1}
  next:
    arcs:
      - step: end
        when: "{{ ctx.ok }}"
        args: {x: 1, y: 2}
- step: end
  tool: [{b: {kind: noop}}]
"""


@pytest.mark.spec("SRV-07")
@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param("\n- step", "\n# note\n- step", id="comments"),
        pytest.param("{x: 1, y: 2}", "{y: 2, x: 1}", id="order of keys"),
        pytest.param("[{b: {kind: noop}}]", "{b: {kind: noop}}", id="shape of a task"),
        pytest.param('"', "'", id="quotes"),
        pytest.param("next:\n", "next:\n    spec: {mode: exclusive}\n", id="defaults"),
        pytest.param("x: 1", "x: 0x1", id="notation of numbers"),
        pytest.param(
            "- a: {kind: noop, result: 1}",
            "- name: a\n      kind: noop\n      result: 1",
            id="layout",
        ),
        pytest.param("{kind: noop}}]", "{kind: noop, spec: {}}}]", id="an empty spec"),
    ],
)
def test_the_digest_ignores_what_means_nothing(
    accept: Accept, written: str, otherwise: str
) -> None:
    assert written in BASE
    steps = BASE.replace(written, otherwise)
    assert digest(accept(steps)) == digest(accept(BASE))


@pytest.mark.spec("SRV-07")
@pytest.mark.parametrize(
    ("steps", "root"),
    [
        pytest.param(BASE.replace("result: 1", "result: 2"), "", id="an input"),
        pytest.param(BASE.replace("result: 1", "result: '1'"), "", id="a type"),
        pytest.param(BASE.replace("result: 1", "result: 1.0"), "", id="a float"),
        pytest.param(BASE.replace("a: {kind", "c: {kind"), "", id="a label"),
        pytest.param(BASE.replace("ctx.ok", "ctx.no"), "", id="a guard"),
        pytest.param(BASE.replace("x: 1", "x: 3"), "", id="an argument"),
        pytest.param(
            BASE.replace("  next:\n", "  next:\n    spec: {mode: inclusive}\n"),
            "",
            id="the mode",
        ),
        pytest.param(
            BASE.replace("  tool: [{b", "  desc: last\n  tool: [{b"),
            "",
            id="a description",
        ),
        pytest.param(BASE, "workload: {x: 1}\n", id="the workload"),
        pytest.param(BASE, "executor: {spec: {pool: p}}\n", id="the executor"),
        pytest.param(BASE, "keychain: [{name: k, kind: env}]\n", id="the keychain"),
        pytest.param(BASE, "workbook: {w: {kind: noop}}\n", id="the workbook"),
    ],
)
def test_the_digest_changes_with_the_meaning(
    accept: Accept, steps: str, root: str
) -> None:
    assert digest(accept(steps, root)) != digest(accept(BASE))


@pytest.mark.spec("ROOT-06")
def test_the_order_of_steps_counts(accept: Accept) -> None:
    one = "- step: a\n  next: {arcs: [{step: b, when: '{{ ctx.x }}'}]}\n"
    two = "- step: b\n  next: {arcs: [{step: a}]}\n"
    assert [step.name for step in accept(one + two).workflow] == ["a", "b"]
    assert digest(accept(one + two)) != digest(accept(two + one))


@pytest.mark.spec("NEXT-01", "PIPE-03", "C-25")
def test_the_canonical_document(accept: Accept) -> None:
    playbook = accept(
        """
        - step: start
          next: {arcs: [{args: {n: 1}, step: work}]}
          desc: first
        - tool: {url: "https://example.com", kind: http, spec: {pool: p}}
          loop: {iterator: x, loop: {iterator: y, in: [2]}, in: [1]}
          step: work
        """,
        "workload: {b: 1, a: 2}\n",
    )
    assert to_yaml(canonical(playbook)) == (
        "apiVersion: noetl.io/v2\n"
        "kind: Playbook\n"
        "metadata:\n"
        "  name: t\n"
        "  path: tests/t\n"
        "workload:\n"
        "  b: 1\n"
        "  a: 2\n"
        "workflow:\n"
        "- step: start\n"
        "  desc: first\n"
        "  next:\n"
        "    spec:\n"
        "      mode: exclusive\n"
        "    arcs:\n"
        "    - step: work\n"
        "      args:\n"
        "        n: 1\n"
        "- step: work\n"
        "  loop:\n"
        "    in:\n"
        "    - 1\n"
        "    iterator: x\n"
        "    spec:\n"
        "      mode: sequential\n"
        "    loop:\n"
        "      in:\n"
        "      - 2\n"
        "      iterator: y\n"
        "      spec:\n"
        "        mode: sequential\n"
        "  tool:\n"
        "  - task_1:\n"
        "      kind: http\n"
        "      url: https://example.com\n"
        "      spec:\n"
        "        pool: p\n"
    )


@pytest.mark.spec("S-01", "S-43")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("vars: {a: 1}", "vars: {a: 2}", id="root vars"),
        pytest.param("vars: {a: 0}", "vars: {}", id="vars and none"),
    ],
)
def test_what_a_dialect_allows_counts_in_the_digest(one: str, other: str) -> None:
    def sha(line: str) -> str:
        text = (
            "apiVersion: noetl.io/v2\nkind: Playbook\n"
            "metadata: {name: a, path: tests/a}\n"
            f"{line}\n"
            "workflow:\n  - step: start\n    case: []\n    tool: {kind: noop}\n"
        )
        playbook = load(text, extensions=frozenset({"legacy"})).playbook
        assert playbook is not None
        return digest(playbook)

    assert sha(one) != sha(other)
