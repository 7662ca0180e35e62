"""The model: what the engine gets, with every default filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest

from noetl import Playbook
from noetl.dsl.model import Directive, Loop, Step

Accept = Callable[..., Playbook]
Say = Callable[..., list[tuple[str, str, int, int]]]


def directive(accept: Accept, then: str, loop: str = "") -> Directive:
    playbook = accept(
        f"- step: start\n{loop}"
        "  tool:\n"
        "    - a: {kind: noop, spec: {policy: {rules: [{else: {then: "
        + then
        + "}}]}}}\n"
    )
    rules = playbook.workflow[0].tasks[0].rules
    assert rules is not None
    return rules[0].then


@pytest.mark.spec("S-16", "POL-07", "POL-08")
def test_a_retry_and_its_defaults(accept: Accept) -> None:
    then = directive(accept, "{do: retry}")
    assert (then.do, then.attempts, then.backoff, then.delay) == ("retry", 3, "none", 0)


@pytest.mark.spec("POL-08", "C-26")
def test_a_retry_with_everything(accept: Accept) -> None:
    then = directive(
        accept, "{do: retry, attempts: 5, backoff: exponential, delay: 2m}"
    )
    assert (then.attempts, then.backoff, then.delay) == (5, "exponential", 120)


@pytest.mark.spec("POL-07", "C-18")
@pytest.mark.parametrize("do", ["continue", "break", "fail", "skip", "retry"])
def test_the_directives(accept: Accept, do: str) -> None:
    assert directive(accept, f"{{do: {do}}}").do == do


@pytest.mark.spec("POL-09")
def test_a_jump_knows_its_label(accept: Accept) -> None:
    then = directive(accept, "{do: jump, to: a}")
    assert (then.do, then.to) == ("jump", "a")


@pytest.mark.spec("POL-10", "POL-11")
def test_patches_are_templates(accept: Accept) -> None:
    then = directive(
        accept,
        '{do: continue, set_ctx: {a: "{{ outcome.result + 1 }}", b.c: null}, '
        'set_iter: {page: "{{ iter.page + 1 }}"}}',
        "  loop: {in: [1], iterator: x}\n",
    )
    assert then.set_ctx is not None
    assert then.set_iter is not None
    assert then.set_ctx.render({"outcome": {"result": 1}}) == {"a": 2, "b.c": None}
    assert then.set_iter.render({"iter": {"page": 4}}) == {"page": 5}


@pytest.mark.spec("POL-01", "POL-02", "S-18")
def test_rules_in_order_and_a_fallback_anywhere(accept: Accept) -> None:
    playbook = accept(
        """
        - step: start
          tool:
            - a:
                kind: noop
                spec:
                  policy:
                    rules:
                      - when: "{{ outcome.status == 'ok' }}"
                        then: {do: break}
                      - else: {then: {do: fail}}
                      - when: true
                        then: {do: continue}
            - b: {kind: noop}
        """
    )
    first, second = playbook.workflow[0].tasks
    assert first.rules is not None
    assert [rule.then.do for rule in first.rules] == ["break", "fail", "continue"]
    assert [rule.when is None for rule in first.rules] == [False, True, False]
    assert first.rules[0].when is not None
    assert first.rules[0].when.holds({"outcome": {"status": "ok"}})
    assert second.rules is None  # no policy: ok continues, error fails


STEPS = """
- step: prepare
  next: {arcs: [{step: work}]}
- step: work
  desc: does it
  spec:
    deadline: 5m
    join: {mode: any, from: [prepare]}
    policy:
      failure: best_effort
      admit:
        rules:
          - when: "{{ args.n > 0 }}"
            then: {allow: true}
          - else: {then: {allow: false}}
  loop:
    in: "{{ args.items }}"
    iterator: item
    spec: {mode: parallel, max_in_flight: 4, policy: {exec: distributed}}
  tool: [{a: {kind: noop}}]
"""


@pytest.mark.spec("STEP-01", "STEP-02")
def test_a_step_with_everything_and_one_with_nothing(accept: Accept) -> None:
    bare, full = accept(STEPS).workflow
    assert (bare.name, bare.desc, bare.admit, bare.join) == (
        "prepare",
        None,
        None,
        None,
    )
    assert (bare.loop, bare.tasks, bare.deadline) == (None, (), None)
    assert not bare.best_effort
    assert (full.name, full.desc, full.deadline) == ("work", "does it", 300)
    assert full.best_effort
    assert full.next is None
    assert [task.label for task in full.tasks] == ["a"]


@pytest.mark.spec("ADM-01", "ADM-02", "ADM-03")
def test_admission_rules(accept: Accept) -> None:
    bare, full = accept(STEPS).workflow
    assert bare.admit is None
    assert full.admit is not None
    first, fallback = full.admit
    assert first.when is not None
    assert first.when.holds({"args": {"n": 1}})
    assert (first.allow, fallback.allow) == (True, False)
    assert fallback.when is None


@pytest.mark.spec("ADM-07", "ADM-08", "C-38")
@pytest.mark.parametrize(
    ("name", "available"),
    [
        *[(name, True) for name in ("workload", "ctx", "args", "execution_id")],
        *[("event", True), ("iter", False), ("outcome", False), ("_prev", False)],
    ],
)
def test_what_admission_sees(
    document: Callable[..., str], say: Say, name: str, available: bool
) -> None:
    text = document(STEPS.replace("args.n > 0", f"{name} is defined"))
    codes = [found[0] for found in say(text)]
    assert codes == ([] if available else ["C-38"])


@pytest.mark.spec("S-04")
@pytest.mark.parametrize(
    ("join", "need", "sources"),
    [
        pytest.param("{}", "all", None, id="all, of every arc"),
        pytest.param("{mode: all}", "all", None, id="all"),
        pytest.param("{mode: any, from: [prepare]}", "any", ("prepare",), id="any"),
        pytest.param("{mode: 2}", 2, None, id="a number"),
    ],
)
def test_joins(accept: Accept, join: str, need: object, sources: object) -> None:
    steps = STEPS.replace("{mode: any, from: [prepare]}", join)
    found = accept(steps).workflow[1].join
    assert found is not None
    assert (found.need, found.sources) == (need, sources)


@pytest.mark.spec("S-04")
@pytest.mark.parametrize(
    "join",
    [
        pytest.param("{mode: most}", id="another word"),
        pytest.param("{mode: 0}", id="zero"),
        pytest.param("{mode: 1.5}", id="half a token"),
        pytest.param("{mode: true}", id="a boolean"),
        pytest.param("{from: [nobody]}", id="an unknown step"),
        pytest.param("{from: [prepare, prepare]}", id="a step twice"),
        pytest.param("{from: prepare}", id="a step that is no list"),
        pytest.param("[prepare]", id="a list"),
    ],
)
def test_joins_that_are_none(document: Callable[..., str], say: Say, join: str) -> None:
    text = document(STEPS.replace("{mode: any, from: [prepare]}", join))
    assert [found[:2] for found in say(text)] == [("S-04", "error")]


@pytest.mark.spec("LOOP-01", "LOOP-02", "LOOP-04", "LOOP-06")
def test_a_loop_with_everything(accept: Accept) -> None:
    loop = accept(STEPS).workflow[1].loop
    assert loop is not None
    assert loop.items.render({"args": {"items": [1, 2]}}) == [1, 2]
    assert (loop.iterator, loop.mode) == ("item", "parallel")
    assert (loop.max_in_flight, loop.placement) == (4, "distributed")
    assert loop.inner is None


def loop_of(accept: Accept, loop: str) -> Loop:
    steps = f"- step: start\n  loop: {loop}\n  tool: {{kind: noop}}\n"
    found = accept(steps).workflow[0].loop
    assert found is not None
    return found


@pytest.mark.spec("LOOP-02", "LOOP-04", "C-23")
def test_a_literal_list_and_the_defaults(accept: Accept) -> None:
    loop = loop_of(accept, "{in: [1, '{{ 1 + 1 }}', {a: 3}], iterator: x}")
    assert loop.items.render({}) == [1, 2, {"a": 3}]
    assert (loop.mode, loop.max_in_flight, loop.placement) == ("sequential", None, None)


@pytest.mark.spec("C-25")
def test_loops_inside_loops(accept: Accept) -> None:
    outer = loop_of(
        accept,
        "{in: [1], iterator: a, spec: {mode: parallel}, "
        'loop: {in: "{{ iter.a }}", iterator: b, loop: {in: [3], iterator: c}}}',
    )
    assert [level.iterator for level in outer.levels()] == ["a", "b", "c"]
    assert [level.mode for level in outer.levels()] == [
        "parallel",
        "sequential",
        "sequential",
    ]


@pytest.mark.spec("TPL-04", "C-25", "C-38")
def test_an_outer_collection_sees_no_iteration(
    document: Callable[..., str], say: Say
) -> None:
    steps = "- step: start\n  loop: {in: '{{ iter.a }}', iterator: a}\n"
    assert [found[0] for found in say(document(steps + "  tool: {kind: noop}\n"))] == [
        "C-38"
    ]


@pytest.mark.spec("S-02")
@pytest.mark.parametrize(
    ("names", "entry"),
    [
        pytest.param(["a", "start"], "start", id="start, wherever it stands"),
        pytest.param(["a", "b"], "a", id="otherwise the first one"),
    ],
)
def test_the_entry_step(accept: Accept, names: list[str], entry: str) -> None:
    steps = "".join(
        f"- step: {name}\n  next: {{arcs: [{{step: a, when: '{{{{ ctx.x }}}}'}}]}}\n"
        for name in names
    )
    playbook = accept(steps)
    assert playbook.entry is not None
    assert playbook.entry.name == entry
    assert list(playbook.steps) == names


@pytest.mark.spec("ROOT-02", "ROOT-03", "ROOT-04", "ROOT-05", "C-04")
def test_the_head(accept: Accept) -> None:
    playbook = accept("- step: start\n  tool: {kind: noop}\n")
    assert (playbook.name, playbook.path) == ("t", "tests/t")
    assert (playbook.version, playbook.description) == (None, None)


@pytest.mark.spec("ROOT-07", "WRK-04", "KEY-09", "C-02")
def test_optional_sections_are_empty(accept: Accept) -> None:
    playbook = accept("- step: start\n  tool: {kind: noop}\n")
    assert playbook.workload == {}
    assert playbook.executor == {}
    assert playbook.workbook == {}
    assert playbook.keychain == ()


@pytest.mark.spec("KEY-01", "KEY-02", "ROOT-07", "EXE-02", "EXE-03", "EXE-06", "EXE-07")
def test_sections_with_contents(accept: Accept) -> None:
    playbook = accept(
        "- step: start\n  tool: {kind: noop}\n",
        """
        keychain:
          - {name: api, kind: secret_manager, provider: aws, path: x/y}
          - {name: pg, kind: postgres_credential}
        executor:
          profile: local
          version: noetl-runtime/2
          spec:
            result: {store: {kind: nats_object, bucket: b}}
            resources: {cpu: 1}
            telemetry: {level: info}
        workload: {deep: {list: [1, 2.5, null, yes]}}
        """,
    )
    assert [(entry.name, entry.kind) for entry in playbook.keychain] == [
        ("api", "secret_manager"),
        ("pg", "postgres_credential"),
    ]
    assert playbook.workload == {"deep": {"list": [1, 2.5, None, "yes"]}}
    assert playbook.executor["profile"] == "local"


def parts(value: object) -> Iterator[object]:
    """Everything of the model below a playbook."""
    stack = [value]
    while stack:
        here = stack.pop()
        yield here
        if isinstance(here, tuple):
            stack.extend(here)
        elif isinstance(here, msgspec.Struct):
            stack.extend(getattr(here, name) for name in here.__struct_fields__)


@pytest.mark.spec("SRV-07")
def test_nothing_of_it_can_be_assigned(accept: Accept) -> None:
    playbook = accept(STEPS, "keychain: [{name: k, kind: env}]\n")
    structs = [each for each in parts(playbook) if isinstance(each, msgspec.Struct)]
    assert {type(each).__name__ for each in structs} >= {
        *("Playbook", "Step", "Task", "Loop", "Router", "Arc"),
        *("AdmitRule", "Join", "KeychainEntry"),
    }
    for each in structs:
        for name in each.__struct_fields__:
            with pytest.raises(AttributeError):
                setattr(each, name, None)


@pytest.mark.spec("STEP-01")
def test_steps_are_found_by_name(accept: Accept) -> None:
    playbook = accept(STEPS)
    work: Step = playbook.steps["work"]
    assert work is playbook.workflow[1]


@pytest.mark.spec("PIPE-11", "S-33", "S-34")
def test_inputs_are_compiled_and_code_is_not(accept: Accept) -> None:
    [task] = (
        accept(
            "- step: start\n"
            "  tool:\n"
            "    kind: python\n"
            "    code: \"result = '{{ 1 }}'\"\n"
            "    args: {n: '{{ workload.n }}', text: 'n is {{ workload.n }}'}\n",
            "workload: {n: 5}\n",
        )
        .workflow[0]
        .tasks
    )
    assert task.literals == {"code": "result = '{{ 1 }}'"}
    assert task.inputs["args"].render({"workload": {"n": 5}}) == {
        "n": 5,
        "text": "n is 5",
    }
