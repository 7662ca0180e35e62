"""``noetl events``: one sentence for each event, at the time at which it happened."""

from __future__ import annotations

import click
import msgspec
import pytest

from noetl import load
from noetl.commands.output.event_views import Sentences
from noetl.dsl.model import Playbook
from noetl.engine.events import Event
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.pipeline import Call
from noetl.engine.times import rfc3339, seconds_of
from noetl.types import JSON

FLOW = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: tests/t}
workflow:
  - step: sync
    tool:
      - fetch:
          kind: noop
          spec: {policy: {rules: [
            {when: "{{ outcome.result == 7 }}", then: {do: fail}},
            {when: "{{ outcome.error.retryable }}",
             then: {do: retry, attempts: 2, delay: 3}},
            {else: {then: {do: continue}}}]}}
      - nap: {kind: wait, for: 1}
"""


def read() -> Playbook:
    playbook = load(FLOW).playbook
    assert playbook is not None
    return playbook


def fails_once(call: Call) -> Outcome:
    if call.attempt > 1:
        return Outcome.ok(5)
    return Outcome.failed("http.server", "500 from the shop", retryable=True)


@pytest.fixture
def log() -> list[Event]:
    """A log of two batches: the first call takes 40 ms, the second one is not timed."""
    execution = Simulation(read(), fails_once)
    execution.run()
    log = execution.log
    begin = seconds_of(log[0].timestamp)
    first = next(event for event in log if event.name == "task.done")
    times = {"started_at": rfc3339(begin + 0.25), "ts": rfc3339(begin + 0.29)}
    return [timed(event, times if event is first else None) for event in log]


def timed(event: Event, times: dict[str, str] | None) -> Event:
    """Replace the times that the worker measured; without ``times``, remove them."""
    if event.name != "task.done":
        return event
    outcome = {**event.payload["outcome"], "meta": times}
    payload = {**event.payload, "outcome": outcome}
    return msgspec.structs.replace(event, payload=payload)


def told(log: list[Event], playbook: Playbook | None = None) -> list[str]:
    return list(Sentences(log[0], playbook).lines(log))


def find(lines: list[str], part: str) -> str:
    [line] = [line for line in lines if part in line]
    return click.unstyle(line)


RULE = "(rule 2, line 11: {{ outcome.error.retryable }})"


@pytest.mark.spec("EVT-01", "S-15")
def test_a_verdict_has_its_rule_and_the_time_of_the_call(
    log: list[Event],
) -> None:
    lines = told(log, read())
    error = "sync.fetch: error http.server: 500 from the shop → retry in 3 s"

    assert find(lines, error).endswith(f"   0.290 s  {error} {RULE}, took 40 ms")
    for begun in ("step.started sync", "sync.fetch begins"):
        assert find(lines, begun).endswith(f"   0.250 s  {begun}")
    assert "took" not in find(lines, "sync.fetch, attempt 2: ok 5")


@pytest.mark.spec("EVT-01")
def test_errors_are_red_and_other_events_are_not(log: list[Event]) -> None:
    red = [line for line in told(log, read()) if "\x1b[31m" in line]

    assert [click.unstyle(line).split(" s  ")[1][:17] for line in red] == [
        "sync.fetch: error"
    ]


@pytest.mark.spec("EVT-01")
def test_a_wait_is_not_shown_as_a_long_call(log: list[Event]) -> None:
    lines = told(log, read())

    assert find(lines, "sync.nap waits: until")
    assert "took" not in find(lines, "sync.nap: ok")


@pytest.mark.spec("EVT-01")
def test_without_the_playbook_names_and_ids_are_left(log: list[Event]) -> None:
    lines = told(log)

    assert len(lines) == len(log)
    assert find(lines, "task.done sync fetch #2")


@pytest.mark.spec("EVT-01")
@pytest.mark.parametrize("meta", [None, [], "x", {"ts": 1}, {"started_at": "soon"}])
def test_a_report_with_odd_times_has_the_time_of_its_commit(
    log: list[Event], meta: JSON
) -> None:
    odd = [timed(event, meta) for event in log]

    assert len(told(odd, read())) == len(log)


@pytest.mark.spec("EVT-01", "S-41")
def test_what_looks_like_a_secret_or_a_control_character_is_not_printed(
    log: list[Event],
) -> None:
    done = next(event for event in log if event.status == "error")
    error = {"kind": "x", "message": "AKIAIOSFODNN7EXAMPLE\x1b[2J\nnext line"}
    outcome = {**done.payload["outcome"], "error": error}
    payload = {**done.payload, "outcome": outcome}
    [line] = Sentences(log[0], read()).lines(
        [msgspec.structs.replace(done, payload=payload, status="success")]
    )

    assert "AKIAIOSFODNN7EXAMPLE" not in line
    assert "\x1b" not in line
    assert "\n" not in line


@pytest.mark.spec("EVT-01")
def test_events_about_steps_of_another_playbook_are_described(
    log: list[Event],
) -> None:
    """A fork with another playbook keeps the events of its origin."""
    other = load(FLOW.replace("step: sync", "step: other")).playbook

    assert len(told(log, other)) == len(log)
