"""Dialects: what the ``legacy`` extension accepts, and what nothing accepts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl import load

Document = Callable[..., str]
Say = Callable[..., list[tuple[str, str, int, int]]]

LEGACY = frozenset({"legacy"})
STEP = "- step: start\n  tool: {kind: noop}\n"
END = "- step: end\n  tool: {kind: noop}\n"
TASK = "- step: start\n  tool: {kind: noop, KEY}\n"

CONSTRUCTS = [
    pytest.param(
        STEP + "  when: '{{ args.go }}'\n", "", "when", "VAL-08", id="step when"
    ),
    pytest.param(STEP, "vars: {a: 1}\n", "vars", "VAL-05", id="root vars"),
    pytest.param(STEP + "  case: []\n", "", "case", "VAL-17", id="case"),
    pytest.param(STEP + "  retry: {}\n", "", "retry", "VAL-17", id="retry"),
    pytest.param(
        STEP + "  poll: {until: '{{ true }}'}\n", "", "poll", "VAL-17", id="poll"
    ),
    pytest.param(STEP + "  sink: {kind: noop}\n", "", "sink", "VAL-17", id="sink"),
    pytest.param(STEP + "  vars: {}\n", "", "vars", "VAL-19", id="step vars"),
    pytest.param(STEP + "  set_vars: {}\n", "", "set_vars", "VAL-19", id="set_vars"),
    *[
        pytest.param(
            STEP + f"  spec: {{{key}: {value}}}\n", "", key, code, id=f"spec.{key}"
        )
        for key, value, code in (
            ("case_mode", "inclusive", "VAL-17"),
            ("eval_mode", "on_entry", "VAL-17"),
            ("branch_order", "priority", "VAL-17"),
            ("next_policy", "defer", "VAL-17"),
            ("next_mode", "inclusive", "VAL-18"),
            ("on_error", "ignore", "S-52"),
        )
    ],
    pytest.param(
        STEP + "  next: {to: [{step: end}]}\n" + END, "", "to:", "VAL-13", id="next.to"
    ),
    pytest.param(
        STEP + "  next: [{step: end}]\n" + END,
        "",
        "[{step",
        "VAL-13",
        id="next as a list",
    ),
    pytest.param(
        STEP + "  next: {arcs: [{step: end}], priority: 2}\n" + END,
        "",
        "priority",
        "S-50",
        id="next.priority",
    ),
    pytest.param(
        STEP + "  next: {arcs: [{step: end}], policy: defer}\n" + END,
        "",
        "policy",
        "S-50",
        id="next.policy",
    ),
    pytest.param(
        STEP + "  next: {arcs: [{step: end}], spec: {delay: 5s}}\n" + END,
        "",
        "delay",
        "S-52",
        id="next.spec.delay",
    ),
    pytest.param(
        STEP + "  next: {arcs: [{step: end, with: {a: 1}}]}\n" + END,
        "",
        "with",
        "S-50",
        id="with on an arc",
    ),
    pytest.param(
        STEP + "  loop: {in: [1], iterator: x, spec: {batch_size: 3}}\n",
        "",
        "batch_size",
        "S-52",
        id="loop.spec.batch_size",
    ),
    pytest.param(
        STEP + "  loop: {in: [1], iterator: x, spec: {on_error: continue}}\n",
        "",
        "on_error",
        "S-52",
        id="loop.spec.on_error",
    ),
    *[
        pytest.param(
            TASK.replace("KEY", f"{key}: {value}"),
            "",
            f"{key}: {{",
            code,
            id=f"task {key}",
        )
        for key, value, code in (
            ("retry", "{}", "VAL-17"),
            ("poll", "{until: true}", "VAL-17"),
            ("sink", "{kind: noop}", "VAL-17"),
            ("vars", "{}", "VAL-19"),
        )
    ],
    pytest.param(
        TASK.replace("KEY", "spec: {async: true}"), "", "async", "S-52", id="async"
    ),
]


@pytest.mark.spec("S-01", "VAL-24", "C-01", "C-40")
@pytest.mark.parametrize(("steps", "root", "at", "code"), CONSTRUCTS)
def test_legacy_accepts_it_with_a_warning_at_its_place(
    document: Document, say: Say, steps: str, root: str, at: str, code: str
) -> None:
    text = document(steps, root)
    loaded = load(text, extensions=LEGACY)
    assert loaded.valid
    [(found, severity, line, column)] = say(text, extensions=LEGACY)
    assert (found, severity) == ("S-01", "warning")
    assert text.splitlines()[line - 1][column - 1 :].startswith(at)


@pytest.mark.spec("VAL-24", "C-01", "C-40")
@pytest.mark.parametrize(("steps", "root", "at", "code"), CONSTRUCTS)
def test_without_the_extension_it_has_its_own_code(
    document: Document, say: Say, steps: str, root: str, at: str, code: str
) -> None:
    text = document(steps, root)
    [(found, severity, line, column)] = say(text)
    assert found == code
    assert severity == ("warning" if code == "S-52" else "error")
    assert text.splitlines()[line - 1][column - 1 :].startswith(at)


@pytest.mark.spec("S-01", "C-23", "LEG-STEP-06")
def test_the_older_names_of_a_loop(document: Document, say: Say) -> None:
    text = document(STEP + "  loop: {collection: '{{ [1] }}', element: x}\n")
    assert [found[0] for found in say(text, extensions=LEGACY)] == ["S-01", "S-01"]
    assert {found[0] for found in say(text)} == {"VAL-03"}


@pytest.mark.spec("C-32", "LEG-NEXT-15")
@pytest.mark.parametrize(
    "router",
    [
        pytest.param("{to: [{step: a}, {step: b}]}", id="to"),
        pytest.param("[{step: a}, {step: b}]", id="a list"),
    ],
)
def test_older_routers_fork(document: Document, router: str) -> None:
    text = document(
        f"- step: start\n  next: {router}\n"
        "- step: a\n  tool: {kind: noop}\n- step: b\n  tool: {kind: noop}\n"
    )
    playbook = load(text, extensions=LEGACY).playbook
    assert playbook is not None
    found = playbook.workflow[0].next
    assert found is not None
    assert found.mode == "inclusive"
    assert [arc.step for arc in found.arcs] == ["a", "b"]


@pytest.mark.spec("LEG-NEXT-14", "VAL-02")
def test_a_target_may_be_a_template_only_there(document: Document, say: Say) -> None:
    text = document(STEP + "  next: {to: [{step: '{{ ctx.where }}'}]}\n")
    assert load(text, extensions=LEGACY).valid
    plain = text.replace("to:", "arcs:")
    assert [found[0] for found in say(plain)] == ["VAL-02"]


@pytest.mark.spec("C-17", "LEG-CASE-15")
def test_a_case_counts_as_a_body(document: Document, say: Say) -> None:
    text = document("- step: start\n  case: []\n")
    assert [found[0] for found in say(text, extensions=LEGACY)] == ["S-01"]


@pytest.mark.spec("C-34")
def test_flat_names_that_nothing_defines(document: Document, say: Say) -> None:
    text = document("- step: start\n  tool: {kind: noop, result: '{{ order_id }}'}\n")
    assert [found[:2] for found in say(text)] == [("C-34", "warning")]
    assert [found[:2] for found in say(text, extensions=LEGACY)] == [
        ("C-34", "warning")
    ]


@pytest.mark.spec("C-01", "VAL-09", "VAL-14", "VAL-15", "VAL-16", "VAL-24")
@pytest.mark.parametrize(
    ("steps", "code"),
    [
        pytest.param(
            TASK.replace("KEY", "spec: {policy: [{else: {then: {do: fail}}}]}"),
            "VAL-09",
            id="a policy as a list",
        ),
        pytest.param(TASK.replace("KEY", "eval: []"), "VAL-15", id="eval of a task"),
        pytest.param(STEP + "  eval: []\n", "VAL-15", id="eval of a step"),
        pytest.param(TASK.replace("KEY", "expr: x"), "VAL-14", id="expr of a task"),
        pytest.param(STEP + "  expr: x\n", "VAL-14", id="expr of a step"),
        pytest.param(STEP + "  if: x\n", "VAL-16", id="another condition"),
    ],
)
def test_what_no_extension_accepts(
    document: Document, say: Say, steps: str, code: str
) -> None:
    text = document(steps)
    for extensions in (frozenset(), LEGACY, frozenset({"legacy", "classic"})):
        assert (code, "error") in [f[:2] for f in say(text, extensions=extensions)]


@pytest.mark.spec("S-01")
def test_a_playbook_enables_it_itself(document: Document, say: Say) -> None:
    text = document(
        STEP + "  sink: {kind: noop}\n", "executor: {spec: {extensions: [legacy]}}\n"
    )
    assert [found[:2] for found in say(text)] == [("S-01", "warning")]
    playbook = load(text).playbook
    assert playbook is not None
    assert playbook.extensions == LEGACY


@pytest.mark.spec("S-01")
def test_the_operator_denies_one(document: Document, say: Say) -> None:
    root = "executor: {spec: {extensions: [legacy]}}\n"
    text = document(STEP + "  sink: {kind: noop}\n", root)
    denied = frozenset({"-legacy", "legacy"})
    found = load(text, extensions=denied).diagnostics
    assert [(each.code, each.rule) for each in found] == [
        ("S-01", "denied-extension"),
        ("VAL-17", "retired-key"),
    ]
    plain = load(document(STEP), extensions=denied).playbook
    assert plain is not None
    assert plain.extensions == frozenset()


@pytest.mark.spec("S-01")
@pytest.mark.parametrize(
    ("extensions", "found"),
    [
        pytest.param("[lgacy]", ("S-01", "warning", 4, 32), id="a typing error"),
        pytest.param("[5]", ("S-01", "error", 4, 32), id="a number"),
        pytest.param("legacy", ("S-01", "error", 4, 31), id="a word alone"),
        pytest.param("[5, legacy]", ("S-01", "error", 4, 32), id="a number before it"),
    ],
)
def test_extensions_that_are_none(
    document: Document, say: Say, extensions: str, found: tuple[str, str, int, int]
) -> None:
    text = document(STEP, f"executor: {{spec: {{extensions: {extensions}}}}}\n")
    assert say(text) == [found]


@pytest.mark.spec("C-03", "ROOT-08", "VAL-06")
def test_an_extra_root_key_is_allowed_by_name(document: Document, say: Say) -> None:
    text = document(STEP, "x_owner: {team: sales}\n")
    assert [found[0] for found in say(text)] == ["VAL-06"]
    loaded = load(text, extensions=frozenset({"x_owner"}))
    assert loaded.playbook is not None
    assert loaded.diagnostics == ()
    assert loaded.playbook.extras == {"x_owner": {"team": "sales"}}
    declared = document(STEP, "x_owner: 1\nexecutor: {spec: {extensions: [x_owner]}}\n")
    assert say(declared) == []


@pytest.mark.spec("C-03", "VAL-14")
def test_naming_a_refused_key_does_not_allow_it(document: Document, say: Say) -> None:
    text = document(STEP, "expr: 1\n")
    found = say(text, extensions=frozenset({"expr"}))
    assert [each[:2] for each in found] == [("VAL-14", "error")]


@pytest.mark.spec("WARN-04")
@pytest.mark.parametrize(
    ("rest", "warned"),
    [
        pytest.param("  case: []\n", True, id="with case"),
        pytest.param("  spec: {eval_mode: on_event}\n", True, id="with on_event"),
        pytest.param("  spec: {eval_mode: on_entry}\n", False, id="with on_entry"),
        pytest.param("", False, id="of a simple step"),
    ],
)
def test_a_step_that_reacts_is_not_retried_whole(
    document: Document, say: Say, rest: str, warned: bool
) -> None:
    text = document(STEP + "  retry: {scope: step}\n" + rest)
    found = say(text, extensions=LEGACY)
    assert (("WARN-04", "warning", 7, 20) in found) is warned
