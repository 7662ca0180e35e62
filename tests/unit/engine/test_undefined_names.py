"""Names that conditions read and nothing gave: recorded with the decision (S-73)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from noetl.engine.endings import no_arc_fired
from noetl.engine.execution_document import Document
from noetl.engine.reports.accept import Fact
from noetl.engine.reports.checks import Malformed, check_shapes
from noetl.engine.secrets.handles import Secrets
from noetl.templates.limits import MISSING

Run = Callable[..., Any]

ARC = """
- step: first
  tool: [{call: {kind: noop}}]
  next: {spec: {mode: inclusive}, arcs: [%s]}
- {step: second, tool: {kind: noop}}
"""
GATE = """
- step: first
  tool: [{call: {kind: noop}}]
  next: {arcs: [{step: second, args: {region: eu}}]}
- step: second
  spec: {policy: {admit: {rules: [%s]}}}
  tool: {kind: noop}
"""
RULES = """
- step: first
  tool: [{call: {kind: noop, spec: {policy: {rules: [%s]}}}}]
"""


def arcs(*guards: str) -> str:
    return ARC % ", ".join(f'{{step: second, when: "{{{{ {g} }}}}"}}' for g in guards)


def gate(*guards: str) -> str:
    rules = (f'{{when: "{{{{ {g} }}}}", then: {{allow: true}}}}' for g in guards)
    return GATE % ", ".join(rules)


def rules(*guards: str, do: str = "fail") -> str:
    each = (f'{{when: "{{{{ {g} }}}}", then: {{do: {do}}}}}' for g in guards)
    return RULES % ", ".join(each)


def read(execution: Any, name: str) -> tuple[list[str], dict[str, str]]:
    """The undefined names of the only event with this name, and their nearest ones."""
    payload = execution.event(name).payload
    return payload.get("undefined", []), payload.get("nearest", {})


SPELLED = "event.payload.result.statsu"


@pytest.mark.spec("S-73")
@pytest.mark.parametrize(
    ("workflow", "event", "found"),
    [
        pytest.param(
            arcs(f"{SPELLED} == 'good'"),
            "next.evaluated",
            ([SPELLED], {SPELLED: "status"}),
            id="a guard",
        ),
        pytest.param(
            arcs("evnt.name == 'step.done'", f"{SPELLED}.code > 1"),
            "next.evaluated",
            (["evnt.name", SPELLED], {"evnt.name": "event", SPELLED: "status"}),
            id="all guards; the first part that is missing",
        ),
        pytest.param(
            gate("args.regoin == 'eu'"),
            "step.skipped",
            (["args.regoin"], {"args.regoin": "region"}),
            id="an admission rule",
        ),
        pytest.param(
            rules("outcome.eror.kind == 'timeout'"),
            "task.done",
            (["outcome.eror"], {"outcome.eror": "error"}),
            id="a rule of a task",
        ),
        pytest.param(
            rules("_outcomes.call.visits > 2", do="skip"),
            "task.done",
            (["_outcomes.call.visits"], {}),
            id="a rule that is evaluated before the call; nothing is near",
        ),
    ],
)
def test_a_condition_that_reads_an_undefined_name(
    run: Run, workflow: str, event: str, found: tuple[list[str], dict[str, str]]
) -> None:
    execution = run(workflow, script={"call": [{"status": "good"}]})

    assert read(execution, event) == found


@pytest.mark.spec("S-73", "S-30")
@pytest.mark.parametrize(
    "guard",
    [
        pytest.param("event.payload.result.status == 'bad'", id="a name that is there"),
        pytest.param("ctx.n | default(0) > 1", id="default"),
        pytest.param("ctx.a.b | d(0) > 1", id="default of a part of it"),
        pytest.param("ctx.n is defined and ctx.n > 1", id="is defined"),
        pytest.param("not (ctx.n is undefined)", id="is undefined"),
        pytest.param(
            "event.name == 'step.failed' and ctx.n > 1", id="a part that is not read"
        ),
        pytest.param("event.payload.result.list | first", id="an empty list"),
        pytest.param("'yes' if event.name == 'step.failed'", id="an if without else"),
        pytest.param(
            "event.payload.result.items | selectattr('x') | list | length > 5",
            id="attributes of items",
        ),
    ],
)
def test_a_condition_that_handles_the_absence_records_nothing(
    run: Run, guard: str
) -> None:
    result = {"status": "good", "list": [], "items": [{"y": 1}]}
    execution = run(arcs(guard), script={"call": [result]})

    assert read(execution, "next.evaluated") == ([], {})


@pytest.mark.spec("S-73")
def test_the_error_of_a_success_is_null_and_not_a_missing_name(run: Run) -> None:
    workflow = rules("outcome.error.retryable", "outcome.error.kind == 'timeout'")
    execution = run(workflow)

    assert read(execution, "task.done") == ([], {})


@pytest.mark.spec("S-73", "S-67")
def test_names_of_secrets_are_not_offered(run: Run) -> None:
    root = "keychain: [{name: crm, kind: env, variable: CRM}]\n"
    execution = run(arcs("keychain.cmr == 'x'"), root)

    assert read(execution, "next.evaluated")[1] == {}


@pytest.mark.spec("S-73", "S-41")
def test_names_inside_a_sealed_value_are_not_offered(run: Run) -> None:
    account = {"secret": "h1"}
    sealed = Secrets(sealed={"h1": {"pin-4711": 1}})
    workflow = arcs("workload.account['pin-471'] == 1")
    execution = run(workflow, f"workload: {{account: {account}}}\n", secrets=sealed)
    names, nearest = read(execution, "next.evaluated")

    assert names == ["workload.account['pin-471']"]
    assert nearest == {}


@pytest.mark.spec("S-73")
def test_at_most_twenty_names_of_bounded_length_are_recorded(run: Run) -> None:
    guards = [f"ctx.{'n' * 300}{number}" for number in range(MISSING + 5)]
    names, _ = read(run(arcs(*guards, "ctx.z")), "next.evaluated")
    one, _ = read(run(arcs("ctx.n", "ctx.n > 1")), "next.evaluated")

    assert 1 <= len(names) <= MISSING
    assert max(map(len, names)) <= 201
    assert one == ["ctx.n"]


@pytest.mark.spec("S-73")
def test_twenty_different_names_are_the_most(run: Run) -> None:
    names, _ = read(run(arcs(*(f"ctx.n{n}" for n in range(30)))), "next.evaluated")

    assert names == [f"ctx.n{number}" for number in range(MISSING)]


@pytest.mark.spec("S-73")
def test_the_step_after_which_no_arc_fired_names_them(run: Run) -> None:
    execution = run(arcs(f"{SPELLED} == 'good'"), script={"call": [{"status": "good"}]})
    lost = no_arc_fired(execution.event("next.evaluated"))
    both = run(arcs("ctx.a == 1", "ctx.b == 1")).event("next.evaluated")
    mixed = run(arcs("ctx.a == 1", "1 / 0 > 1")).event("next.evaluated")
    alone, several = no_arc_fired(both), no_arc_fired(mixed)

    assert lost is not None
    assert lost.words() == (
        f"no arc fired; its guard read {SPELLED}, which nothing gave (nearest: status)"
    )
    assert alone is not None
    assert "its guards read ctx.a and ctx.b, which nothing gave" in alone.words()
    assert several is None  # it failed


@pytest.mark.spec("S-73")
def test_the_document_lists_each_place_and_name_once(run: Run) -> None:
    workflow = """
- step: many
  loop: {in: "{{ range(5) }}", iterator: n}
  tool:
    - call:
        kind: noop
        spec: {policy: {rules: [{when: "{{ ctx.stop }}", then: {do: break}}]}}
"""
    document = Document().take(run(workflow).log).as_json()
    [name] = document["undefined_names"]

    assert (name["step"], name["task"], name["name"]) == ("many", "call", "ctx.stop")
    assert document["counts"]["undefined_names"] == 1


@pytest.mark.spec("S-73", "C-05")
def test_replay_reads_the_recorded_names(run: Run) -> None:
    execution = run(arcs(f"{SPELLED} == 'good'"))
    changed = [
        msgspec.structs.replace(event, payload={**event.payload, "undefined": ["x"]})
        if event.name == "next.evaluated"
        else event
        for event in execution.log
    ]
    document = Document().take(changed).as_json()

    assert [each["name"] for each in document["undefined_names"]] == ["x"]


@pytest.mark.spec("S-73")
@pytest.mark.parametrize(
    "names", [["n"] * (MISSING + 1), ["n" * 300], "text", [1]], ids=str
)
def test_a_report_with_unbounded_names_is_refused(names: object) -> None:
    payload = {
        "outcome": {"status": "ok", "result": None},
        "directive": {"do": "continue"},
        "undefined": names,
    }
    fact = Fact("task.done", "call", 1, payload)

    with pytest.raises(Malformed, match="undefined"):
        check_shapes([fact])
    check_shapes([Fact("task.done", "call", 1, {**payload, "undefined": ["ctx.n"]})])
