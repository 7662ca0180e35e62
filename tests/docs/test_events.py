"""The page about events says what the log holds: names, members, sources, statuses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from textwrap import indent

import pytest
from pages.events import ENVELOPE, members
from payloads import check_payloads

from noetl import load
from noetl.engine.decide import (
    Request,
    accept,
    admit_queued,
    pause,
    reject,
    report,
    resume,
)
from noetl.engine.events import EVENTS, Event
from noetl.engine.forks import Fork, start_fork
from noetl.engine.recorder import Recorder
from noetl.engine.reports.accept import Fact
from noetl.engine.simulate import Simulation
from noetl.engine.state import State
from noetl.engine.steps.completion import cancel
from noetl.engine.steps.concurrency import Concurrency, superseded
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.pipeline import Call
from noetl.engine.undone import Undone
from noetl.engine.waits.resume import children_of
from noetl.engine.waits.signals import Sender, receive

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: docs/t}\n"
KEPT = {"task.resumed": {"inherited"}, "workflow.forked": {"again"}}
"""Members that only a host adds, where a fork keeps the event of its origin, and those
of logs of earlier versions."""
RULES = "spec: {policy: {rules: "

FLOWS = [
    f"""
- step: start
  tool:
    - a: {{kind: noop, {RULES}[{{when: "{{{{ _attempt < 2 }}}}",
        then: {{do: retry, delay: 1}}}},
        {{else: {{then: {{do: jump, to: c, set_ctx: {{k: 1}}}}}}}}]}}}}}}
    - b: {{kind: noop}}
    - c: {{kind: noop, {RULES}[{{when: true, then: {{do: skip}}}}]}}}}}}
    - fails: {{kind: noop}}
  next:
    arcs:
      - {{step: gate, when: "{{{{ event.name == 'step.failed' }}}}"}}
      - {{step: gate}}
- step: gate
  spec: {{policy: {{admit: {{rules: [{{else: {{then: {{allow: false}}}}}}]}}}}}}
  tool: {{kind: noop}}
""",
    """
- step: start
  spec: {policy: {failure: best_effort}}
  loop:
    in: [1, 2, 3]
    iterator: x
    loop: {in: "{{ range(iter.x) }}", iterator: y, spec: {mode: parallel}}
  tool:
    kind: noop
    spec: {policy: {rules: [
      {when: "{{ iter.y == 1 }}", then: {do: fail}},
      {else: {then: {do: continue, set_iter: {seen: 1}, set_ctx: {last: 1}}}}]}}
  next: {arcs: [{step: end, when: "{{ 1 / 0 }}"}]}
- {step: end, tool: {kind: noop}}
""",
    """
- step: start
  loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
  tool: {kind: noop, spec: {policy: {rules: [{else: {then:
    {do: continue, set_ctx: {k: "{{ iter.x }}"}}}}]}}}
""",
    """
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}
- {step: a, tool: {kind: noop}, next: {spec: {mode: inclusive},
    arcs: [{step: any}, {step: shut}]}}
- {step: b, tool: {kind: noop}, next: {spec: {mode: inclusive},
    arcs: [{step: any}, {step: shut}]}}
- {step: c, tool: {kind: noop}, next: {arcs: [{step: two}]}}
- {step: any, spec: {join: {mode: any}}, tool: {kind: noop}}
- {step: two, spec: {join: {mode: 2}}, tool: {kind: noop}}
- step: shut
  spec:
    join: {mode: any}
    policy: {admit: {rules: [{when: "{{ 1 / 0 }}", then: {allow: true}}]}}
  tool: {kind: noop}
""",
    """
- step: start
  tool:
    - fails: {kind: noop, spec: {policy: {rules: [
        {when: "{{ outcome.result == 7 }}", then: {do: fail}}]}}}
  next: {arcs: [{step: end, when: "{{ event.payload.result == 7 }}"}]}
- {step: end, tool: {kind: noop}}
""",
    """
- step: start
  tool: {kind: noop, spec: {policy: {rules: [
    {when: "{{ outcome.reslt }}", then: {do: fail}}]}}}
  next: {arcs: [{step: end, when: "{{ not event.payload.reslt }}"}]}
- step: end
  spec: {policy: {admit: {rules: [{when: "{{ event.nam }}", then: {allow: true}}]}}}
  tool: {kind: noop}
""",
    """
- step: start
  loop: {in: [1], iterator: x}
  tool: [{fails: {kind: noop}}]
""",
    """
- step: start
  spec: {deadline: 1d}
  loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
  tool:
    - ask: {kind: wait, signal: go, timeout: 1m, spec: {policy: {rules: [
        {else: {then: {do: continue}}}]}}}
    - sure: {kind: wait, signal: go, timeout: 1m, schema: {type: 'null'},
        roles: [admin], spec: {policy: {rules: [{else: {then: {do: continue}}}]}}}
    - nap: {kind: wait, for: 1}
    - morning: {kind: wait, at: "09:00", zone: Europe/Berlin}
    - child: {kind: playbook, path: docs/child}
""",
    """
- step: start
  loop: {in: [1], iterator: x}
  tool:
    - pick: {kind: choose, wait: true, timers: {late: 1m},
        when: {go: "{{ event.data.type == 'go' }}"}}
  next: {arcs: [{step: end}]}
- step: end
  tool: {kind: choose, when: {never: false}}
""",
]


def answer(call: Call) -> Outcome | None:
    if call.task.kind == "playbook":
        return None  # it is waited for
    if call.task.label == "fails":
        return Outcome.failed("timeout", "scripted")
    return Outcome.ok()


class Watched(Simulation):
    """A simulation that takes orders, and whose workers get lost.

    A child is waited for, and another playbook's end is its answer.
    """

    def step(self) -> bool:
        moved = super().step()
        for command, child in list(children_of(self.state)):
            ended = {"status": "completed", "result": 1, "error": None}
            self.answer(command, child["execution_id"], ended)
        return moved

    def order(self, command: Callable[..., None], *args: object) -> None:
        self._settle(lambda batch: command(batch, *args))

    def lose_owners(self) -> None:
        """Somebody begins each pipeline, and is never heard of again."""
        for run in list(self.state.runs.values()):
            if run.progress is not None:
                fact = Fact("task.started", run.progress.label, 1)
                self.order(report, run.id, [fact])


def corpus() -> Iterator[Event]:
    for flow in FLOWS:
        text = HEAD + "workflow:\n" + indent(flow, "  ")
        for cancelled in (False, True):
            yield from played(text, cancelled=cancelled)
    yield from asked()
    yield from queued()
    yield from forked()
    yield from retried()


def played(text: str, *, cancelled: bool) -> list[Event]:
    playbook = load(text).playbook
    assert playbook is not None, load(text).diagnostics
    execution = Watched(playbook, answer)
    execution.start()
    caller = {"principal": "ann", "address": "192.0.2.7"} if cancelled else None
    if "signal: go" in text or "kind: choose" in text:
        execution.order(receive, "go", None, Sender("ada", ["admin"]), caller)
    if "signal: go" in text:
        execution.signal("go")
    execution.order(pause, caller)
    execution.order(resume, caller)
    if cancelled:
        execution.step()
        execution.order(cancel, None, caller)
    else:
        execution.lose_owners()
    while execution.step():
        pass
    assert execution.state.finished
    return execution.log


def asked() -> list[Event]:
    """A child's request, and one that was refused."""
    parent = {"execution_id": "p", "command_id": "p-1", "depth": 1, "iter": None}
    caller = {"principal": "ann", "address": "192.0.2.7"}
    caller |= {"idempotency_key": None, "sha256": "…"}
    who = {"principal": "ann", "user_id": "1", "scopes": ["viewer"]}
    request = Request(
        "c",
        {"name": "c"},
        {},
        parent=parent,
        trace_parent="00f067aa0ba902b7",
        caller=caller,
        initiator=who,
        labels={"team": "sales"},
    )
    recorder = Recorder(State())
    reject(recorder, request, {"kind": "playbook.invalid", "message": "no"})
    return recorder.events


def queued() -> list[Event]:
    """One with a warning that had to wait, and is replaced by a later one."""
    playbook = load(HEAD + "workflow:\n" + indent(FLOWS[-1], "  ")).playbook
    assert playbook is not None
    execution = Watched(playbook, answer)
    places, warnings = Concurrency("eu", of="docs/t"), ("no input 'regoin'",)
    request = Request("sim", {}, {}, concurrency=places, warnings=warnings)
    execution.order(lambda batch: accept(batch, request, queued=True))
    execution.order(admit_queued)
    execution.order(cancel, superseded(Concurrency("eu", of="docs/t"), "later"))
    return execution.log


def forked() -> list[Event]:
    """A fork with every edit there is."""
    playbook = load(HEAD + "workflow:\n" + indent(FLOWS[-1], "  ")).playbook
    assert playbook is not None
    origin = Watched(playbook, answer)
    origin.start()
    fork = Watched(playbook, answer, execution_id="fork")
    fork.fork(origin.log, len(origin.log))
    edited = Fork("fork", "sim", 4, {}, True, {}, {"k": 1})
    fork.order(start_fork, edited)
    return fork.log


def retried() -> list[Event]:
    """A retry of a loop in which iterations failed."""
    playbook = load(HEAD + "workflow:\n" + indent(FLOWS[1], "  ")).playbook
    assert playbook is not None
    origin = Watched(playbook, answer)
    origin.run()
    at = next(e.seq for e in origin.log if e.name == "workflow.finished") - 1
    fork = Watched(playbook, answer, execution_id="retry")
    fork.fork(origin.log, at, undone=Undone(at, [(1, 1)], [], [1]))
    return fork.log


@pytest.fixture(scope="module")
def log() -> dict[str, list[Event]]:
    named: defaultdict[str, list[Event]] = defaultdict(list)
    for event in corpus():
        named[event.name].append(event)
    return named


@pytest.mark.spec("EVT-02", "EVT-08")
def test_the_envelope_is_documented_member_by_member() -> None:
    assert sorted(ENVELOPE) == sorted(Event.__struct_fields__)


@pytest.mark.parametrize("name", EVENTS)
def test_every_member_of_a_payload_says_what_it_means(name: str) -> None:
    assert EVENTS[name].sentence.endswith(".")
    assert all(meaning.endswith(".") for _, _, meaning in members(EVENTS[name]))


@pytest.mark.spec("EVT-07")
@pytest.mark.parametrize("name", EVENTS)
def test_payloads_have_the_declared_types(
    name: str, log: dict[str, list[Event]]
) -> None:
    check_payloads(log[name])


@pytest.mark.spec("EVT-07")
@pytest.mark.parametrize("name", EVENTS)
def test_the_members_of_a_payload(name: str, log: dict[str, list[Event]]) -> None:
    """Those that are always there always are, the others at least once."""
    found = [set(event.payload) for event in log[name]]
    declared = list(members(EVENTS[name]))
    always = {member for member, is_always, _ in declared if is_always}
    known = {member for member, _, _ in declared}

    assert found, "the corpus has none of these"
    assert set.intersection(*found) >= always
    assert set.union(*found) | KEPT.get(name, set()) == known


@pytest.mark.spec("EVT-03", "EVT-06")
@pytest.mark.parametrize("name", EVENTS)
def test_sources_and_statuses(name: str, log: dict[str, list[Event]]) -> None:
    kind = EVENTS[name]

    assert {e.source for e in log[name]} == set(kind.sources or [kind.source])
    assert {e.status for e in log[name]} == set(kind.statuses or [kind.status])
    assert {e.entity_type for e in log[name]} == {kind.entity}
