"""Spans of an execution: one tree, the same each time, and few of long loops."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from textwrap import dedent, indent
from typing import Any

import msgspec
import pytest

from noetl import load
from noetl.engine.events import Event
from noetl.engine.ids import span_id_of
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome
from noetl.telemetry.otlp import encode_spans, span_record
from noetl.telemetry.span import Span
from noetl.telemetry.spans import MAX_ITERATIONS, LoopSample, Spans

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
Script = Callable[[Any], Outcome]


def simulate(workflow: str, script: Script | None = None, **more: Any) -> Simulation:
    text = HEAD + "workflow:\n" + indent(dedent(workflow), "  ")
    playbook = load(text).playbook
    assert playbook is not None
    return Simulation(playbook, script or (lambda call: Outcome.ok(1)), **more)


def fold(log: Sequence[Event], page: int = 3, **options: Any) -> dict[str, Span]:
    """Fold a log page by page; the spans by their ids, each of them once."""
    spans, found = Spans(**options), {}
    for start in range(0, len(log), page):
        for span in spans.take(log[start : start + page]):
            assert span.span_id not in found, "a span ends once"
            found[span.span_id] = span
    return found


def names(spans: dict[str, Span]) -> list[str]:
    return [span.name for span in spans.values()]


LOOP = """
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: each}]}
- step: each
  loop: {in: "{{ range(%d) }}", iterator: x}
  tool:
    - fetch: {kind: noop, v: "{{ iter.x }}"}
"""


def test_each_span_is_inside_of_its_parent() -> None:
    simulation = simulate(LOOP % 3)
    simulation.run()

    spans = fold(simulation.log)

    parents = {
        span.name: spans[span.parent_id].name
        for span in spans.values()
        if span.parent_id is not None
    }
    assert parents == {
        "task_1": "start",
        "start": "tests/t",
        "each": "tests/t",
        "fetch": "each[2]",
        "each[0]": "each",
        "each[1]": "each",
        "each[2]": "each",
    }
    assert sorted(names(spans)).count("fetch") == 3
    assert len({span.trace_id for span in spans.values()}) == 1
    assert {span.status for span in spans.values()} == {"ok"}


def test_the_ids_of_attempts_are_those_of_their_outcomes() -> None:
    simulation = simulate("- {step: start, tool: {kind: noop}}")
    simulation.run()
    done = next(event for event in simulation.log if event.name == "task.done")

    assert span_id_of(done.entity_id, done.attempt) in fold(simulation.log)


@pytest.mark.parametrize("page", [1, 7, 10_000])
def test_a_log_gives_the_same_spans_whatever_its_pages(page: int) -> None:
    simulation = simulate(LOOP % 4)
    simulation.run()

    first, again = fold(simulation.log), fold(simulation.log, page)

    assert list(map(span_record, first.values())) == list(
        map(span_record, again.values())
    )


def fail(call: Any) -> Outcome:
    if call.task.label == "fetch" and call.inputs["v"] % 400 == 7:
        return Outcome.failed("http.server", "the password is on the wall")
    return Outcome.ok(None)


def test_a_long_loop_has_spans_of_its_failed_iterations_only() -> None:
    flow = LOOP % (MAX_ITERATIONS + 1) + "  spec: {policy: {failure: best_effort}}\n"
    simulation = simulate(flow, fail)
    simulation.run()

    spans = fold(simulation.log, 500)

    failed = [name for name in names(spans) if "[" in name]
    assert failed == ["each[7]", "each[407]", "each[807]"]
    assert names(spans).count("fetch") == 3
    each = next(span for span in spans.values() if span.name == "each")
    assert each.attributes["noetl.sampled"] is True
    assert each.attributes["noetl.loop.spans"] == 3
    assert each.attributes["noetl.loop.total"] == MAX_ITERATIONS + 1


def test_slow_iterations_of_a_long_loop_are_kept() -> None:
    sample = LoopSample(MAX_ITERATIONS + 1)

    kept = [sample.keeps(9.0 if n == 50 else 1.0, failed=False) for n in range(100)]

    assert [number for number, is_kept in enumerate(kept) if is_kept] == [50]


def test_a_bounded_number_of_iterations_is_kept() -> None:
    sample = LoopSample(1_000_000)

    assert sum(sample.keeps(1.0, failed=True) for _ in range(5_000)) == 1_000


def test_an_error_has_its_message_unless_the_playbook_is_sensitive() -> None:
    simulation = simulate(LOOP % 8, fail)
    simulation.run()

    told = json.dumps(list(map(span_record, fold(simulation.log).values())))
    hidden = json.dumps(
        list(map(span_record, fold(simulation.log, hides=True).values()))
    )

    assert "on the wall" in told
    assert "on the wall" not in hidden
    assert "http.server" in hidden


def test_no_input_and_no_result_is_in_a_span() -> None:
    secret = "s3cr3t-value"
    flow = (
        "- {step: start, tool: {kind: noop, v: s3cr3t-value}, args: {a: s3cr3t-value}}"
    )
    simulation = simulate(
        flow.replace(", args: {a: s3cr3t-value}", ""),
        lambda call: Outcome.ok(secret),
        workload={},
    )
    simulation.run()

    assert any(secret in str(event.payload) for event in simulation.log)
    assert secret not in str(list(map(span_record, fold(simulation.log).values())))


def test_what_is_open_when_an_execution_is_cancelled_ends_with_it() -> None:
    flow = """
    - step: start
      loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
      tool: [{ask: {kind: wait, signal: go}}]
    """
    simulation = simulate(flow)
    simulation.start()
    while simulation.step():
        pass
    simulation.cancel()

    spans = {span.name: span for span in fold(simulation.log).values()}

    assert spans.keys() == {"start[0]", "start[1]", "start", "ask", "tests/t"}
    assert spans["ask"].attributes["noetl.status"] == "cancelled"
    first = spans["start[0]"]
    assert first.events[0].name == "task.suspended"
    assert first.events[0].attributes["noetl.wait.signal"] == "go"
    assert {span.status for span in spans.values()} == {"error"}
    assert all(span.end == simulation.log[-1].timestamp for span in spans.values())
    assert spans["tests/t"].attributes["noetl.status"] == "cancelled"


def test_a_fork_has_spans_of_its_own_work_and_a_link_to_its_origin() -> None:
    flow = """
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: then}]}}
    - {step: then, tool: {kind: noop}}
    """
    origin = simulate(flow)
    origin.run()
    seq = next(e.seq for e in origin.log if e.name == "next.evaluated")
    fork = simulate(flow, execution_id="fork")
    fork.fork(origin.log, seq)
    while fork.step():
        pass

    spans = fold(fork.log)

    assert sorted(names(spans)) == ["task_1", "tests/t", "then"]
    root = next(span for span in spans.values() if span.name == "tests/t")
    [link] = root.links
    assert link.span_id == span_id_of("sim")
    assert link.trace_id == origin.log[0].payload["trace_id"]
    assert root.trace_id != link.trace_id


def test_the_caller_of_a_request_is_the_parent_of_the_execution() -> None:
    simulation = simulate("- {step: start, tool: {kind: noop}}")
    simulation.run()
    first = simulation.log[0]
    payload = {**first.payload, "trace_id": "a" * 32, "trace_parent": "b" * 16}
    log = [msgspec.structs.replace(first, payload=payload), *simulation.log[1:]]

    spans = fold(log)

    root = next(span for span in spans.values() if span.name == "tests/t")
    assert (root.trace_id, root.parent_id, root.kind) == ("a" * 32, "b" * 16, "server")
    assert {span.trace_id for span in spans.values()} == {"a" * 32}


def test_a_span_is_encoded_as_otlp_says() -> None:
    span = Span("a" * 32, "b" * 16, "load", "2026-11-20T00:00:00.000001Z")
    span.end, span.status = "2026-11-19T23:00:00Z", "ok"
    span.attributes = {"text": "x", "flag": True, "count": 7, "part": 0.5, "all": ["y"]}

    body = json.loads(encode_spans([span_record(span)], {"service.name": "noetl"}))

    [of] = body["resourceSpans"]
    name = {"key": "service.name", "value": {"stringValue": "noetl"}}
    assert of["resource"] == {"attributes": [name]}
    [record] = of["scopeSpans"][0]["spans"]
    assert record["startTimeUnixNano"] == "1795132800000001000"
    assert record["endTimeUnixNano"] == record["startTimeUnixNano"], "never before it"
    assert record["status"] == {"code": 1, "message": ""}
    assert {each["key"]: each["value"] for each in record["attributes"]} == {
        "text": {"stringValue": "x"},
        "flag": {"boolValue": True},
        "count": {"intValue": "7"},
        "part": {"doubleValue": 0.5},
        "all": {"arrayValue": {"values": [{"stringValue": "y"}]}},
    }
