"""Large values: out of the log by arithmetic, into templates by a second try."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from noetl.engine.recorder import Batch
from noetl.engine.tasks.scope import Scope
from noetl.engine.values.references import (
    PAYLOAD_LIMIT,
    Values,
    claims_reference,
    find_claim,
    is_reference,
    references_in,
)
from noetl.engine.values.spilling import fit
from noetl.errors import TemplateError, Unloaded
from noetl.templates import compile_template

Run = Callable[..., Any]

encode = msgspec.json.encode
BIG = "x" * 100_000


@pytest.mark.spec("S-48", "RES-02", "RES-04", "C-36")
def test_the_largest_values_go_first_until_the_rest_fits() -> None:
    payload = {"args": {"a": "a" * 50_000, "b": "b" * 30_000, "c": "c" * 100}}

    fitted, blobs = fit(payload, PAYLOAD_LIMIT)

    assert fitted["args"]["b"] == payload["args"]["b"]
    key = hashlib.sha256(encode(payload["args"]["a"])).hexdigest()
    assert fitted["args"]["a"] == {
        "store": "noetl",
        "key": key,
        "size": 50_002,
        "checksum": f"sha256:{key}",
        "schema_hint": "text",
    }
    assert fitted["spilled"] == ["args.a"]
    assert blobs == {key: encode(payload["args"]["a"])}
    assert payload["args"]["a"] == "a" * 50_000  # the original is as it was


@pytest.mark.spec("S-48")
@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"outcome": {"result": [BIG], "meta": {}}}, "outcome.result"),
        ({"set_ctx": {"a.b": BIG}}, "set_ctx.a.b"),
        ({"set_iter": {"a": {"b": BIG}}}, "set_iter.a"),
        ({"items": [BIG]}, "items"),
        ({"item": {"k": BIG}}, "item"),
        ({"fired": [{"args": {"a": 1}}, {"args": {"a": BIG}}]}, "fired.1.args.a"),
        ({"token": {"args": {"a": BIG}}}, "token.args.a"),
        ({"error": {"details": {"body": BIG}}}, "error.details.body"),
        ({"child": {"args": {"rows": BIG}}}, "child.args.rows"),
    ],
)
def test_values_are_stored_elsewhere_the_frame_stays(payload: Any, path: str) -> None:
    fitted, blobs = fit(payload, PAYLOAD_LIMIT)

    assert fitted["spilled"] == [path]
    assert len(encode(fitted)) < PAYLOAD_LIMIT
    assert len(blobs) == 1


def refer(letter: str, size: int = 9) -> dict[str, Any]:
    """A reference of the shape that the server makes."""
    return {"store": "noetl", "key": letter * 64, "size": size}


@pytest.mark.spec("S-48")
def test_only_our_own_mark_claims_to_be_a_reference() -> None:
    assert claims_reference({"deep": [{"store": "noetl", "key": "k"}]})
    assert not claims_reference({"store": "postgres.table", "key": "k"})
    assert not claims_reference({"text": '"store":"noetl"'})


@pytest.mark.spec("S-48", "S-65")
def test_a_tool_that_claims_a_reference_is_refused(run: Run) -> None:
    flow = "- {step: start, tool: [{a: {kind: noop}}]}"
    forged = {"rows": [{"store": "noetl", "key": "0" * 64}]}
    execution = run(flow, script={"a": [forged]})

    assert execution.event("step.failed").payload["error"]["kind"] == "ref.not_owner"


LARGE = """
- step: start
  tool:
    - a: {kind: noop, spec: {policy: {rules: [{else: {then:
        {do: continue, set_ctx: {rows: "{{ outcome.result }}"}}}}]}}}
    - b: {kind: noop, v: "{{ _prev | length }}"}
  next: {arcs: [{step: each, when: "{{ ctx.rows[0].n == 0 }}",
    args: {rows: "{{ ctx.rows }}", ref: "{{ ctx.rows | ref }}"}}]}
- step: each
  spec: {policy: {admit: {rules: [{when: "{{ args.rows | length == 3000 }}",
    then: {allow: true}}]}}}
  loop: {in: "{{ args.rows[:3] }}", iterator: row}
  tool: [{c: {kind: noop, v: "{{ iter.row.n }}"}}]
  next: {arcs: [{step: end, args: {sum: "{{ event.payload.results | sum }}"}}]}
- {step: end, tool: [{d: {kind: noop, v: "{{ args.sum + ctx.rows[2999].n }}"}}]}
"""


@pytest.mark.spec("S-48", "RES-01", "RES-03", "SCOPE-05", "ACC-10")
def test_large_values_read_as_themselves_everywhere(run: Run) -> None:
    rows = [{"n": n, "text": "x" * 50} for n in range(3000)]
    script = {"a": [rows], "c": lambda call: call.inputs["v"]}
    execution = run(LARGE, script=script)

    assert execution.state.status == "completed", execution.state.error
    assert execution.seen == [None, 3000, 0, 1, 2, 3 + 2999]
    assert max(len(encode(event)) for event in execution.log) <= PAYLOAD_LIMIT
    assert is_reference(execution.state.ctx["rows"])
    args = execution.events("step.scheduled", step="each")[0].payload["args"]
    assert args["ref"] == args["rows"]


@pytest.mark.spec("S-48")
def test_a_value_that_is_not_there_is_asked_for() -> None:
    values = Values()
    scope = Scope(ctx={"big": refer("a")})
    scope.stored = values
    template = compile_template("{{ ctx.big.a }}")

    with pytest.raises(Unloaded) as asked:
        template.render(scope)
    assert asked.value.references == [scope["ctx"]["big"]]
    values.put("a" * 64, {"a": 1}, 9)

    assert template.render(scope) == 1
    assert compile_template("{{ ctx.big | ref }}").render(scope) == scope["ctx"]["big"]


@pytest.mark.spec("S-48")
def test_a_list_of_references_is_a_list_of_values() -> None:
    values = Values()
    values.put("a" * 64, {"a": 1}, 9)
    reference = refer("a")
    scope = Scope(args={"all": [reference, {"a": 2}]})
    scope.stored = values

    summed = compile_template("{{ args.all | map(attribute='a') | sum }}")
    assert summed.render(scope) == 3


@pytest.mark.spec("S-48", "S-65")
def test_what_cannot_be_loaded_is_an_error_of_its_own_kind() -> None:
    values = Values(limit=100)
    values.miss("a" * 64, "ref.gone", "blob gone is not there")

    with pytest.raises(TemplateError) as caught:
        values.load(refer("a"))
    assert caught.value.kind == "ref.gone"
    with pytest.raises(TemplateError) as caught:
        values.load(refer("b", 101))
    assert caught.value.kind == "template.budget"
    assert "filter ref" in caught.value.message


@pytest.mark.spec("S-48")
def test_old_values_make_room_for_new_ones() -> None:
    values = Values(limit=100)
    for key in ("a", "b", "c"):
        values.put(key * 64, key, 90)
    values.trim()

    assert values.load(refer("c", 90)) == "c"
    values.begin()
    with pytest.raises(Unloaded):
        values.load(refer("a", 90))


@pytest.mark.spec("S-48")
def test_one_evaluation_reads_so_much_and_no_more() -> None:
    values = Values(limit=100)
    for key in ("a", "b"):
        values.put(key * 64, key, 60)
    values.load(refer("a", 60))

    with pytest.raises(TemplateError) as caught:
        values.load(refer("b", 60))
    assert caught.value.kind == "template.budget"
    values.begin()
    assert values.load(refer("b", 60)) == "b"


BIG_A = """
- step: start
  tool:
    - a: {kind: noop, spec: {policy: {rules: [{else: {then:
        {do: continue, set_ctx: {a: "{{ outcome.result }}"}}}}]}}}
    - b: {kind: noop, spec: {policy: {rules: [{else: {then:
        {do: continue, set_ctx: {a.b: 42, a.c.d: 7}}}}]}}}
  next: {arcs: [{step: end, args: {all: "{{ ctx }}", b: "{{ ctx.a.b }}"}}]}
- step: end
  tool:
    - c: {kind: noop, v: "{{ [ctx.a.b, ctx.a.c.d, ctx.a.big | length, args.b] }}"}
    - d: {kind: noop, v: "{{ (ctx.values() | first).big | length }}"}
    - e: {kind: noop, v: "{{ args.all.a.big == ctx.a.big }}"}
"""


@pytest.mark.spec("S-19", "S-48")
def test_a_dotted_patch_reaches_into_a_large_value(run: Run) -> None:
    execution = run(BIG_A, script={"a": [{"b": 0, "big": BIG}]})

    assert execution.state.status == "completed", execution.state.error
    assert execution.seen[2:] == [[42, 7, 100_000, 42], 100_000, True]


@pytest.mark.spec("S-21", "S-48")
def test_equal_large_values_do_not_conflict(run: Run) -> None:
    flow = """
    - step: start
      loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
      tool: [{a: {kind: noop, spec: {policy: {rules: [{else: {then:
        {do: continue, set_ctx: {big: "{{ outcome.result }}"}}}}]}}}}]
    """
    execution = run(flow, script={"a": [BIG]})

    assert execution.state.status == "completed", execution.state.error


@pytest.mark.spec("S-48", "REP-04")
def test_a_settlement_can_be_tried_again_from_a_snapshot(prepare: Run) -> None:
    """What a host does: the state as it was, the value loaded, the same decision."""
    execution = prepare(LARGE, script={"a": [[{"n": 0, "t": "x" * 90}] * 3000]})
    execution.start()
    execution.step()
    before = encode(execution.state)
    blobs = dict(execution._values._loaded)
    execution._values = Values()  # a host that was restarted
    moved = False
    while not moved:
        try:
            execution.step()
            moved = True
        except Unloaded as needed:
            execution.state = msgspec.json.decode(before, type=type(execution.state))
            for reference in needed.references:
                key = reference["key"]
                execution._values.put(key, blobs[key], reference["size"])

    assert execution.events("step.scheduled", step="each")


@pytest.mark.spec("S-48")
def test_a_batch_gives_its_blobs_to_be_stored_first(prepare: Run) -> None:
    execution = prepare("- {step: start, tool: {kind: noop}}", workload={"a": BIG})
    batches: list[Batch] = []
    make = execution._batch
    execution._batch = lambda: batches.append(make()) or batches[-1]

    execution.start()

    assert [len(blob) for blob in batches[0].blobs.values()] == [100_002]
    assert is_reference(execution.state.workload["a"])


LOOP = {"store": "noetl", "key": "log:e-1/0", "range": "3-9", "size": 9}
MISSHAPEN = {
    "no key": {"store": "noetl", "size": 9},
    "a key that is a mapping": {**refer("a"), "key": {}},
    "a path": {**refer("a"), "key": "../../etc/passwd"},
    "a NUL": {**refer("a"), "key": "a" * 63 + "\0"},
    "a line break": {**refer("a"), "key": "a" * 64 + "\n"},
    "no size": {"store": "noetl", "key": "a" * 64},
    "a negative size": refer("a", -1),
    "a size that is text": {**refer("a"), "size": "9"},
    "a size that is true": {**refer("a"), "size": True},
    "a size that is no whole number": {**refer("a"), "size": 1.5},
    "keys that are no list": {**refer("a"), "refs": "a"},
    "keys that are no text": {**refer("a"), "refs": [5]},
    "made keys that are no text": {**refer("a"), "made": [{}]},
    "no range": {"store": "noetl", "key": "log:e-1", "size": 9},
    "a range that is a number": {**LOOP, "range": 5},
    "a range that ends first": {**LOOP, "range": "100-50"},
    "a range of one number": {**LOOP, "range": "5"},
    "a range of 40 digits": {**LOOP, "range": f"0-{10**40}"},
    "a log of nothing": {**LOOP, "key": "log:"},
    "a log in a folder": {**LOOP, "key": "log:../e-1"},
}


@pytest.mark.spec("S-48", "S-82")
@pytest.mark.parametrize("claim", MISSHAPEN.values(), ids=MISSHAPEN)
def test_what_has_another_shape_is_data_and_still_claims_our_store(claim: Any) -> None:
    values = Values()

    assert not is_reference(claim)
    assert list(references_in({"deep": [claim]})) == []
    assert values.load(claim) is claim
    assert values.whole([claim]) == [claim]
    assert claims_reference({"deep": [claim]})
    assert find_claim({"deep": [claim]}) == "$.deep[0]"


@pytest.mark.parametrize("reference", [refer("a"), refer("0", 0), LOOP])
def test_what_the_server_makes_has_the_shape(reference: Any) -> None:
    assert is_reference(reference)


@pytest.mark.spec("S-82")
@pytest.mark.parametrize(
    ("value", "path"),
    [
        (refer("a"), "$"),
        ({"x": {"y": [1, refer("a")]}}, "$.x.y[1]"),
        ({"a b": {"": refer("a")}}, '$["a b"][""]'),
        ([refer("a"), refer("b")], "$[0]"),
        ({"one": refer("a"), "two": refer("b")}, "$.one"),
        ({"store": "postgres.table", "key": "k"}, None),
        ({"text": '{"store":"noetl"}'}, None),
        (None, None),
    ],
)
def test_the_first_claim_is_found_by_its_path(value: Any, path: str | None) -> None:
    assert find_claim(value) == path


@pytest.mark.spec("S-48")
def test_values_that_refer_to_each_other_again_and_again_are_counted_each_time() -> (
    None
):
    values = Values(limit=10_000)
    values.put("0" * 64, "x", 100)
    for level in range(1, 10):
        below = refer(str(level - 1), 100)
        values.put(str(level) * 64, [below, below], 100)

    assert values.whole([refer("3", 100)]) == [[[["x"] * 2] * 2] * 2]
    with pytest.raises(TemplateError) as caught:
        values.whole([refer("9", 100)])
    assert caught.value.kind == "template.budget"
