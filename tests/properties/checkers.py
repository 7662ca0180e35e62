"""The invariants of an execution as functions over its log (RELIABILITY, part 2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from reference import patched

from noetl.dsl.model import Loop, Playbook
from noetl.engine.events import Event
from noetl.engine.evolve import evolve
from noetl.engine.invariants import audit
from noetl.engine.runs import pipelines
from noetl.engine.state import State

TERMINAL = ("step.done", "step.failed")
ITERATION_ENDS = ("loop.iteration.done", "loop.iteration.failed")


def check_all(playbook: Playbook, log: list[Event]) -> None:
    assert audit(log, playbook) == []
    check_sequence(log)
    check_tokens(log)
    check_routing(playbook, log)
    check_end(log)
    check_terminals(log)
    check_iterations(log)
    check_in_flight(playbook, log)
    check_aggregates(log)
    check_scopes(log)


def check_sequence(log: list[Event]) -> None:
    """I-04: no gap, no duplicate, ids unique."""
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert len({event.event_id for event in log}) == len(log)
    assert len({event.execution_id for event in log}) == 1


def created_tokens(event: Event) -> list[str]:
    if event.name == "workflow.started":
        return [event.payload["token"]["token_id"]]
    if event.name == "next.evaluated":
        return [token["token_id"] for token in event.payload["fired"]]
    return []


def check_tokens(log: list[Event]) -> None:
    """I-11: every token ends once, as admitted, denied or discarded."""
    pending: set[str] = set()
    ended: set[str] = set()
    for event in log:
        for token in created_tokens(event):
            assert token not in pending | ended, f"{token} is made twice"
            pending.add(token)
        gone: list[str] = []
        if event.name in ("step.scheduled", "step.skipped"):
            gone = event.payload["tokens"]
            assert gone, f"event {event.seq} takes no token"
        elif event.name == "token.joined" and event.payload.get("discarded"):
            gone = [event.payload["token_id"]]
        elif event.name == "workflow.cancelled" or ended_badly(event):
            gone = sorted(pending)
        for token in gone:
            assert token in pending, f"{token} ends twice, or was never made"
            pending.remove(token)
            ended.add(token)
    assert not pending, f"lost tokens: {sorted(pending)}"


def ended_badly(event: Event) -> bool:
    return event.name == "workflow.finished" and event.payload["status"] != "completed"


def check_routing(playbook: Playbook, log: list[Event]) -> None:
    """I-12: each boundary is routed once; exclusive fires the first true arc."""
    routed: Counter[tuple[str | None, str]] = Counter()
    boundaries = {
        (event.step_run_id, event.name)
        for event in log
        if event.name in (*TERMINAL, "loop.done") and event.iteration_id is None
    }
    fired_by: Counter[str | None] = Counter()
    for event in log:
        if event.name != "next.evaluated":
            continue
        key = (event.step_run_id, event.payload["on"])
        routed[key] += 1
        assert key in boundaries, f"{key} is routed before it happened"
        router = playbook.steps[event.step or ""].next
        assert router is not None
        answers, fired = event.payload["arcs"], event.payload["fired"]
        assert [answer["step"] for answer in answers] == [a.step for a in router.arcs]
        true = [answer["step"] for answer in answers if answer["fired"]]
        assert [token["step"] for token in fired] == true
        if router.mode == "exclusive":
            assert len(fired) <= 1
        fired_by[event.step_run_id] += bool(fired)
    assert all(count == 1 for count in routed.values()), routed
    assert all(count <= 1 for count in fired_by.values()), "routed on two boundaries"


def check_end(log: list[Event]) -> None:
    """I-14: finished once, last, and nothing is open then."""
    names = [event.name for event in log]
    assert names[-2:] == ["workflow.finished", "playbook.processed"]
    assert names.count("workflow.finished") == names.count("playbook.processed") == 1
    begun = {event.step_run_id for event in log if event.name == "step.scheduled"}
    ended = {event.step_run_id for event in log if event.name in TERMINAL}
    assert begun == ended, f"left open: {begun - ended}"


def check_terminals(log: list[Event]) -> None:
    """I-15: one terminal event for a run, one for an iteration."""
    ends = Counter(event.entity_id for event in log if event.name in TERMINAL)
    ends += Counter(event.entity_id for event in log if event.name in ITERATION_ENDS)
    assert all(count == 1 for count in ends.values()), ends.most_common(3)


def check_iterations(log: list[Event]) -> None:
    """I-22: indices from 0 in order; each ends once, or the loop skipped it."""
    started: dict[str, list[int]] = {}
    begun: set[str] = set()
    ended: set[str] = set()
    opened: Counter[str] = Counter()
    for event in log:
        if event.name == "loop.started":
            opened[event.entity_id] += 1
        elif event.name == "loop.iteration.started":
            loop, index = event.entity_id.rsplit("/", 1)
            started.setdefault(loop, []).append(int(index))
            begun.add(event.entity_id)
        elif event.name in ITERATION_ENDS:
            ended.add(event.entity_id)
    assert all(count == 1 for count in opened.values()), "a collection fixed twice"
    assert begun == ended, f"iterations left open: {sorted(begun ^ ended)}"
    for loop, indices in started.items():
        assert indices == list(range(len(indices))), f"{loop}: {indices}"


def check_in_flight(playbook: Playbook, log: Iterable[Event]) -> None:
    """I-23: never more iterations open than the loop allows."""
    open_: Counter[str] = Counter()
    for event in log:
        if event.name == "loop.iteration.started":
            loop = event.entity_id.rsplit("/", 1)[0]
            open_[loop] += 1
            level = level_of(playbook, event, event.entity_id.count("/") - 1)
            bound = 1
            if level.mode == "parallel":
                bound = level.max_in_flight or 10
            assert open_[loop] <= bound, f"{loop}: {open_[loop]} open, {bound} allowed"
        elif event.name in ITERATION_ENDS:
            open_[event.entity_id.rsplit("/", 1)[0]] -= 1


def level_of(playbook: Playbook, event: Event, depth: int) -> Loop:
    loop = playbook.steps[event.step or ""].loop
    assert loop is not None
    return list(loop.levels())[depth]


def check_aggregates(log: list[Event]) -> None:
    """I-24: loop.done comes last in its loop and is the fold of its iterations."""
    done: dict[str, dict[int, object]] = {}
    failed: dict[str, list[dict[str, Any]]] = {}
    totals: dict[str, int] = {}
    closed: set[str] = set()
    for event in log:
        if event.name == "loop.started":
            totals[event.entity_id] = event.payload["total"]
        elif event.name in ITERATION_ENDS:
            loop, index = event.entity_id.rsplit("/", 1)
            assert loop not in closed, f"an iteration of {loop} after its loop.done"
            if event.name == "loop.iteration.done":
                done.setdefault(loop, {})[int(index)] = event.payload["result"]
            else:
                error = event.payload["error"]
                about = {"kind": error["kind"], "message": error["message"]}
                failed.setdefault(loop, []).append({"index": int(index), **about})
        elif event.name == "loop.done":
            loop = event.entity_id
            assert loop not in closed, f"{loop} is done twice"
            closed.add(loop)
            results, total = done.get(loop, {}), totals[loop]
            errors = failed.get(loop, [])
            expected = {
                "total": total,
                "done": len(results),
                "failed": len(errors),
                "skipped": total - len(results) - len(errors),
                "results": [results.get(index) for index in range(total)],
            }
            if errors:  # S-73
                expected["errors"] = sorted(errors, key=lambda each: each["index"])
                expected["error_kinds"] = Counter(each["kind"] for each in errors)
            assert event.payload == expected
            assert event.payload["skipped"] == 0


def check_scopes(log: list[Event]) -> None:
    """I-25: an iteration's ``iter`` holds its item, its parents and its own patches."""
    state = State()
    iterators: dict[str, str] = {}
    expected: dict[str, dict[str, object]] = {}
    for event in log:
        evolve(state, event)
        name, entity = event.name, event.iteration_id or ""
        if name == "loop.started":
            iterators[event.entity_id] = event.payload["iterator"]
        elif name == "loop.iteration.started":
            loop, index = event.entity_id.rsplit("/", 1)
            scope = {iterators[loop]: event.payload["item"], "index": int(index)}
            if loop in expected:
                scope["parent"] = expected[loop]
            expected[event.entity_id] = scope
        elif name == "task.done" and entity in expected:
            patch = event.payload.get("set_iter", {})
            expected[entity] = patched(expected[entity], patch)
        else:
            continue
        run = state.runs.get(event.step_run_id or "")
        for path, progress in pipelines(run) if run is not None else ():
            where = "/".join([event.step_run_id or "", *map(str, path)])
            assert progress.iter == expected.get(where), f"{event.seq}: {where}"
