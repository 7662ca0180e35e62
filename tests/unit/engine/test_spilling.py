"""What goes into an event, what is stored elsewhere, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from noetl.engine.reports.accept import Fact, fit_facts
from noetl.engine.tasks.outcome import Outcome, Stored
from noetl.engine.values.references import PAYLOAD_LIMIT, Values, is_reference
from noetl.engine.values.spilling import fit, placed
from noetl.errors import PayloadTooLarge, Unloaded

Run = Callable[..., Any]
encode = msgspec.json.encode

MANY = {f"code_{n:04}": "x" * 60 for n in range(3000)}
"""About 230 kB, and none of the values worth a reference."""

END = """
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: end, args: {extra: 1}}]}
- {step: end, tool: [{z: {kind: noop, v: "READ"}}]}
"""


@pytest.mark.spec("S-48", "RES-02")
@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"workload": MANY}, "workload"),
        ({"args": MANY, "tokens": ["t"]}, "args"),
        ({"token": {"token_id": "t", "args": MANY}}, "token.args"),
        ({"fired": [{"step": "a", "args": MANY}]}, "fired.0.args"),
        ({"error": {"kind": "k", "details": MANY}}, "error.details"),
        ({"child": {"path": "p", "args": MANY}}, "child.args"),
        ({"outcome": {"result": MANY, "error": None}}, "outcome.result"),
        ({"data": MANY}, "data"),
        ({"workload": {"args": MANY}}, "workload.args"),
    ],
)
def test_many_small_values_are_stored_together(payload: Any, path: str) -> None:
    fitted, blobs = fit(payload, PAYLOAD_LIMIT)

    assert fitted["spilled"] == [path]
    assert len(encode(fitted)) < 1024
    assert [msgspec.json.decode(body) for body in blobs.values()] == [MANY]


@pytest.mark.spec("S-48")
def test_where_single_values_are_enough_the_names_stay() -> None:
    payload = {"workload": {"a": "a" * 70_000, "b": 1}}

    fitted, _ = fit(payload, PAYLOAD_LIMIT)

    assert fitted["spilled"] == ["workload.a"]
    assert fitted["workload"]["b"] == 1


@pytest.mark.spec("S-48", "SCOPE-05", "ACC-10")
@pytest.mark.parametrize(
    "read",
    [
        "{{ [workload.code_0007, workload | length] }}",
        "{{ [args.code_0007 | default(workload.code_0007), workload | length] }}",
        "{{ [code_0007, workload | length] }}",
    ],
)
def test_a_workload_of_many_names_is_read_as_itself(run: Run, read: str) -> None:
    execution = run(END.replace("READ", read), workload=MANY)

    assert execution.state.status == "completed", execution.state.error
    assert execution.seen[-1] == ["x" * 60, 3000]
    assert is_reference(execution.state.workload)
    assert max(len(encode(event)) for event in execution.log) <= PAYLOAD_LIMIT


ARGS = """
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: middle, args: {MANY}}]}
- step: middle
  tool: {kind: noop}
  next: {arcs: [{step: left}, {step: right, args: {extra: 1}}],
    spec: {mode: inclusive}}
- {step: left, tool: {kind: noop}, next: {arcs: [{step: end}]}}
- {step: right, tool: {kind: noop}, next: {arcs: [{step: end}]}}
- step: end
  spec: {join: {mode: all}}
  tool: [{z: {kind: noop,
    v: "{{ [args.code_0007, code_0008, args.extra, args | length] }}"}}]
"""


@pytest.mark.spec("S-48", "S-06", "ACC-10")
def test_args_of_many_names_are_carried_merged_and_joined(run: Run) -> None:
    many = ", ".join(f"{name}: {value}" for name, value in MANY.items())
    execution = run(ARGS.replace("MANY", many))

    assert execution.state.status == "completed", execution.state.error
    assert execution.seen[-1] == ["x" * 60, "x" * 60, 1, 3001]
    assert max(len(encode(event)) for event in execution.log) <= PAYLOAD_LIMIT


PATCH = """
- step: start
  tool: [{a: {kind: noop, spec: {policy: {rules: [{else: {then:
    {do: continue, set_ctx: SET}}}]}}}}]
"""


@pytest.mark.spec("S-48", "S-65")
def test_a_patch_of_too_many_names_fails_and_says_what_to_do(run: Run) -> None:
    names = ", ".join(f'k{n}: "{{{{ outcome.result }}}}"' for n in range(900))
    execution = run(PATCH.replace("SET", f"{{{names}}}"), script={"a": ["x" * 100]})

    error = execution.event("step.failed").payload["error"]
    assert error["kind"] == "limit.exceeded"
    assert "set_ctx writes 900 keys" in error["message"]
    assert "one key with a mapping" in error["message"]
    assert execution.state.ctx == {}


@pytest.mark.spec("S-48")
def test_a_patch_of_large_values_is_stored_name_by_name(run: Run) -> None:
    names = ", ".join(f'k{n}: "{{{{ outcome.result }}}}"' for n in range(100))
    execution = run(PATCH.replace("SET", f"{{{names}}}"), script={"a": ["x" * 3000]})

    assert execution.state.status == "completed", execution.state.error
    assert is_reference(execution.state.ctx["k7"])
    assert max(len(encode(event)) for event in execution.log) <= PAYLOAD_LIMIT


@pytest.mark.spec("RES-05", "S-65")
def test_a_report_with_a_large_payload_is_refused_and_changes_nothing(
    prepare: Run,
) -> None:
    execution = prepare("- {step: start, tool: [{a: {kind: noop}}]}")
    execution.start()
    before, position = encode(execution.state), len(execution.log)
    outcome = {"status": "ok", "result": "x" * 5_000_000, "error": None, "meta": {}}
    payload = {"outcome": outcome, "directive": {"do": "continue", "next": None}}
    facts = [
        Fact("step.started"),
        Fact("task.started", "a", 1),
        Fact("task.done", "a", 1, payload),
    ]
    [command] = execution.state.runs

    with pytest.raises(PayloadTooLarge, match="store the value and send a reference"):
        execution.tell(command, facts, elsewhere=True)
    assert PayloadTooLarge.kind == "event.too_large"
    assert (encode(execution.state), len(execution.log)) == (before, position)

    fitted, blobs = fit_facts(facts)  # as a worker does

    assert [len(body) for body in blobs.values()] == [5_000_002]
    execution.tell(command, fitted)
    assert execution.event("task.done").payload["spilled"] == ["outcome.result"]


TAKEN = """
- step: start
  tool:
    - a: {kind: noop, spec: {policy: {rules: [{when: "{{ outcome.result.n == 7 }}",
        then: {do: continue, set_ctx: {rows: "{{ outcome.result | ref }}"}}}]}}}
    - b: {kind: noop, v: "{{ _prev | ref }}"}
"""


@pytest.mark.spec("S-48", "RES-03", "RES-06")
def test_what_a_tool_has_stored_itself_is_a_reference_in_its_result(run: Run) -> None:
    key = "ab" * 32
    answer = Outcome.ok({"n": 7, "rows": None}, stored={"rows": Stored(key, 9)})
    execution = run(TAKEN, script={"a": [answer]})

    reference = {
        "store": "noetl",
        "key": key,
        "size": 9,
        "checksum": f"sha256:{key}",
        "schema_hint": "list",
    }
    assert execution.state.status == "completed", execution.state.error
    done = execution.events("task.done")[0].payload
    assert done["outcome"]["result"] == {"n": 7, "rows": reference}
    assert done["spilled"] == ["outcome.result.rows"]
    assert execution.state.spilled
    assert execution.state.ctx["rows"]["rows"] == reference
    assert execution.seen[-1]["rows"] == reference


@pytest.mark.spec("S-48")
def test_a_value_inside_of_a_stored_value_is_found() -> None:
    inner = {"store": "noetl", "key": "ab" * 32, "size": 9}
    outer = {"store": "noetl", "key": "cd" * 32, "size": 9}
    values = Values()
    values.put("cd" * 32, {"list": [inner]}, 9)

    with pytest.raises(Unloaded) as asked:
        values.whole({"a": outer})
    assert asked.value.references == [inner]
    values.put("ab" * 32, "found", 9)
    assert values.whole({"a": outer}) == {"a": {"list": ["found"]}}


@pytest.mark.spec("S-48", "RES-04")
def test_a_reference_names_what_its_value_refers_to() -> None:
    inner = {"store": "noetl", "key": "cd" * 32, "size": 9}
    fitted, _ = fit({"result": {"a": "x" * 70_000, "b": inner}}, PAYLOAD_LIMIT)

    assert fitted["result"]["refs"] == ["cd" * 32]
    assert "made" not in fitted["result"], "who wrote it is not known"


@pytest.mark.spec("S-48", "S-82")
def test_a_reference_says_which_values_were_stored_with_it() -> None:
    stored = {"store": "noetl", "key": "ab" * 32, "size": 9}
    other = {"store": "noetl", "key": "cd" * 32, "size": 9}
    result = {"rows": stored, "other": other, "pad": "x" * 70_000}
    payload = {"outcome": {"result": result}, "spilled": ["outcome.result.rows"]}

    fitted, _ = fit(payload, PAYLOAD_LIMIT)

    reference = fitted["outcome"]["result"]
    assert reference["refs"] == ["ab" * 32, "cd" * 32]
    assert reference["made"] == ["ab" * 32]
    assert fitted["spilled"] == ["outcome.result.rows", "outcome.result"]


def test_references_are_put_at_their_paths() -> None:
    value = {"a": [{"b": 1, "c": 2}, 3], "d": 4}
    one, two = {"key": "1"}, {"key": "2"}

    assert placed(value, {"a.0.b": one, "d": two}) == {
        "a": [{"b": one, "c": 2}, 3],
        "d": two,
    }
    assert value == {"a": [{"b": 1, "c": 2}, 3], "d": 4}
