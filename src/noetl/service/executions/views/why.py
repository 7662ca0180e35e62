"""Why an execution went as it did at an event, and why a step does not go on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from noetl.dsl.model import Playbook
from noetl.engine.events import EVENTS, Event
from noetl.engine.state import State
from noetl.net.net import Net, build_net
from noetl.ports import ConcurrencyIndex, LogReader, Summary
from noetl.report.run_lines import RunLine
from noetl.report.tally import COUNTERS, Tally, look_of
from noetl.report.why import Considered, Decisions, Why, ways_in
from noetl.runtime.executions.placement import DEFAULT_POOL
from noetl.runtime.worker_protocol.worker_registry import PoolQueries
from noetl.service.errors import RequestRefused
from noetl.service.executions.views.graphs import PlaybooksThatRan
from noetl.service.executions.views.runs import Runs
from noetl.service.executions.views.states import States
from noetl.service.executions.views.tallies import LogTallies

AROUND = 500
"""Events before and after an event among which its cause is looked for."""
MAX_WAYS = 20
MAX_HOLDERS = 3
_NONE = [0] * len(COUNTERS)
_TOKENS = COUNTERS.index("tokens")
_ENDS = ("step.done", "step.failed", "loop.iteration.done", "loop.iteration.failed")


class Explanations:
    """Reads the event of a question, the state before it, and the playbook."""

    def __init__(
        self,
        log: LogReader,
        places: ConcurrencyIndex,
        pools: PoolQueries,
        states: States,
        runs: Runs,
        tallies: LogTallies,
        playbooks: PlaybooksThatRan,
    ) -> None:
        self._log = log
        self._places = places
        self._pools = pools
        self._states = states
        self._runs = runs
        self._tallies = tallies
        self._playbooks = playbooks

    async def of_event(self, summary: Summary, seq: int) -> Why:
        """Explain an event. Raises ``RequestRefused`` (``query.invalid``) for one that
        does not exist."""
        name = summary.execution_id
        for event in await self._log.read(name, after=seq - 1, limit=1):
            playbook = await self._playbooks.find(name)
            return await self._explain(name, event, playbook)
        message = f"event {seq} does not exist"
        raise RequestRefused("query.invalid", message, parameter="seq")

    async def _explain(self, name: str, event: Event, playbook: Playbook | None) -> Why:
        decisions = Decisions(playbook)
        match event.name:
            case "next.evaluated":
                return decisions.of_routing(event, await self._before(name, event))
            case "task.done":
                return decisions.of_call(event, await self._before(name, event))
            case "step.scheduled" | "step.skipped":
                return decisions.of_gate(event, await self._before(name, event))
            case "token.joined" if playbook is not None:
                state = await self._states.at(name, event.seq)
                return _of_join(build_net(playbook), event.step or "", state, event.seq)
            case _ if event.name in _ENDS:
                return await self._of_end(name, event, decisions)
            case _:
                return _of_other(event)

    async def _before(self, name: str, event: Event) -> State:
        if event.seq == 1:
            return State()
        return await self._states.at(name, event.seq - 1)

    async def _of_end(self, name: str, event: Event, decisions: Decisions) -> Why:
        """Explain the end of a run or an iteration by its last call."""
        error = event.payload.get("error") or {}
        why = Why(
            f"Why did {_what(event)} {'fail' if error else 'end'}?",
            f"{error.get('kind')}: {error.get('message')}"[:1_000]
            if error
            else "its last task had ended",
            event.seq,
        )
        first = max(0, event.seq - 1 - AROUND)
        size = event.seq - 1 - first
        events = await self._log.read(name, after=first, limit=size) if size else ()
        for call in reversed(events):
            same = call.step_run_id == event.step_run_id
            if (
                call.name == "task.done"
                and same
                and event.iteration_id in (None, call.iteration_id)
            ):
                found = decisions.of_call(call, await self._before(name, call))
                why.decided_by, why.considered = found.decided_by, found.considered
                why.seq = call.seq
                break
        return why

    async def of_step(self, summary: Summary, step: str) -> Why:
        """Explain the present state of a step: why it ended so, or why it does not go
        on."""
        name = summary.execution_id
        aside = summary.status == "quarantined"
        tally = (await self._tallies.latest(name, is_damaged=aside)).tally
        playbook = await self._playbooks.find(name)
        steps = playbook.steps if playbook is not None else {}
        if step not in steps and step not in tally.steps:
            message = f"the playbook has no step '{step[:80]}'"
            raise RequestRefused("query.invalid", message, parameter="step")
        counters = tally.steps.get(step, _NONE)
        look = look_of(counters, has_ended=tally.ended)
        holds = [each async for each in self._holds(name, tally)]
        if look == "waiting":
            question = f"What does {step} wait for?"
            return Why(question, "it waits", None, None, [*holds, *_waits(tally, step)])
        line = await self._runs.last_of(summary, step)
        if line is not None and line.to_seq is not None and look != "ready":
            return await self.of_event(summary, line.to_seq)
        if line is not None and look in ("ready", "running") and line.to_seq is None:
            pool = _pool_of(playbook, step)
            worker = await self._worker(pool) if line.status == "ready" else None
            return _of_open(step, line, holds, worker)
        return await self._not_yet(summary, step, tally, playbook, holds)

    async def _holds(self, name: str, tally: Tally) -> AsyncIterator[Considered]:
        """Yield what holds up the execution as a whole."""
        if tally.paused_at is not None:
            note = f"the execution is paused since {tally.paused_at}"
            yield Considered("pause", "waiting", note=note)
        if tally.queued is not None:
            note = f"it waits for a place of the concurrency key since {tally.queued}"
            holders = await self._holders(name)
            note += f"; held by {', '.join(holders)}" if holders else ""
            yield Considered(f"place of {tally.key}", "waiting", note=note)

    async def _holders(self, name: str) -> list[str]:
        """Return executions that hold its key. They are of the same playbook."""
        concurrency = (await self._states.at(name, None)).concurrency
        line = await self._places.slots_of(concurrency.place) if concurrency else ()
        return [each.execution_id for each in line if not each.queued][:MAX_HOLDERS]

    async def _worker(self, pool: str) -> Considered:
        """Return the worker that a step waits for, with the load of its pool."""
        lines = [each for each in await self._pools.list_all() if each.pool == pool]
        workers = sum(each.workers for each in lines)
        note = f"no worker asks for work of the pool {pool}"
        if pool == DEFAULT_POOL:  # slots of servers themselves are no workers
            note = "every slot is busy, or no worker asks for work"
        if workers:
            slots = sum(each.slots for each in lines)
            note = f"the pool has {workers} workers with {slots} slots in all"
        return Considered(f"a worker of pool {pool}", "waiting", note=note)

    async def _not_yet(
        self,
        summary: Summary,
        step: str,
        tally: Tally,
        playbook: Playbook | None,
        holds: list[Considered],
    ) -> Why:
        """Explain why a step has not begun: every way in, with its last verdict."""
        question = f"Why did {step} not begin?"
        if not tally.ended:
            question = f"Why does {step} not begin?"
        if playbook is None:
            return Why(question, "the playbook is lost", None, None, holds)
        net = build_net(playbook)
        if step == net.entry and not tally.failures:
            return Why(question, "the execution has not begun", None, None, holds)
        considered = [*holds]
        if playbook.steps[step].join is not None and not tally.ended:
            state = await self._states.at(summary.execution_id, None)
            considered += ways_in(net, step, state)
        arcs = net.arcs_to(step)
        for source in [*dict.fromkeys(edge.source for edge in arcs)][:MAX_WAYS]:
            if source in tally.steps:
                considered += await self._way(summary, source, step)
            else:
                considered.append(_not_run(source))
        answer = "no token has reached it" if arcs else "no arc leads to it"
        if tally.steps.get(step, _NONE)[_TOKENS]:
            answer = "tokens wait there for others"
        return Why(question, answer, None, None, considered)

    async def _way(self, summary: Summary, source: str, step: str) -> list[Considered]:
        """Return the last verdicts of the arcs from a step."""
        line = await self._runs.last_of(summary, source)
        if line is None:
            return [_not_run(source)]
        if line.to_seq is None:
            return [Considered(source, "waiting", note=f"it is {line.status}")]
        name = summary.execution_id
        after = max(line.seq - 1, line.to_seq - AROUND)
        size = line.to_seq + AROUND - after
        events = await self._log.read(name, after=after, limit=size)
        routed = [
            event
            for event in events
            if event.name == "next.evaluated" and event.step_run_id == line.run
        ]
        if not routed:
            note = f"it is {line.status}, and its arcs were not evaluated"
            return [Considered(source, "not_looked_at", note=note)]
        playbook = await self._playbooks.find(name)
        why = Decisions(playbook).of_routing(
            routed[-1], await self._before(name, routed[-1])
        )
        found = [each for each in why.considered if each.what == step]
        for each in found:
            each.what = f"{source} -> {step}"
        return found


def _not_run(source: str) -> Considered:
    return Considered(source, "not_looked_at", note="it has not run")


def _what(event: Event) -> str:
    if event.iteration_id is None:
        return event.step or "the step"
    index = event.iteration_id.partition("/")[2]
    return f"iteration {index} of {event.step}"


def _of_join(net: Net, step: str, state: State, seq: int) -> Why:
    join = net.steps[step].join if step in net.steps else None
    if join is None:
        return Why(f"Why did the token at {step} not begin it?", "it was late", seq)
    ways = list(ways_in(net, step, state))
    come = sum(way.verdict == "yes" for way in ways)
    need = join.need if join.need != "all" else "all that can still come"
    answer = f"the join needs {need}; {come} of {len(ways)} have come"
    return Why(f"Why does {step} wait?", answer, seq, None, ways)


def _of_other(event: Event) -> Why:
    payload = event.payload
    error = payload.get("error") or {}
    question = f"Why is there {event.name}?"
    answer = EVENTS[event.name].sentence
    match event.name:
        case "workflow.finished":
            question = f"Why is the execution {payload['status']}?"
            answer = str(error.get("message") or "no token is left")
        case "workflow.cancelled":
            question = "Why was the execution cancelled?"
            answer = payload["message"]
            sender = (payload.get("caller") or {}).get("principal")
            answer += f", by {sender}" if sender else ""
        case "workflow.paused" | "workflow.resumed":
            sender = (payload.get("caller") or {}).get("principal")
            answer += f" By {sender}." if sender else ""
        case "task.suspended":
            question = f"What does {event.task_label} wait for?"
            until = f", until {payload['until']}" if payload["until"] else ""
            named = payload.get("signal") or (payload.get("child") or {}).get("path")
            answer = f"{payload['on']} {named or ''}".strip() + until
        case "task.resumed":
            question = f"What did {event.task_label} wait for?"
            answer = "a signal" if "message" in payload else answer
        case "playbook.request.evaluated" if error:
            question, answer = "Why was the request refused?", error["message"]
        case _:
            pass
    return Why(question, answer[:1_000], event.seq)


def _of_open(
    step: str, line: RunLine, holds: list[Considered], worker: Considered | None
) -> Why:
    if worker is not None:
        answer = "no worker has taken it yet" if not holds else "it is held up"
        ways = holds or [worker]
        return Why(f"Why does {step} not run?", answer, line.seq, None, ways)
    return Why(f"Why is {step} not done?", "it is running", line.seq, None, holds)


def _pool_of(playbook: Playbook | None, step: str) -> str:
    found = playbook.steps.get(step) if playbook is not None else None
    spec = found.tasks[0].spec if found is not None and found.tasks else {}
    return str(spec.get("pool", DEFAULT_POOL))


def _waits(tally: Tally, step: str) -> Iterator[Considered]:
    mine = [wait for wait in tally.waits.values() if wait.step == step]
    for wait in mine[:MAX_WAYS]:
        until = f", until {wait.until}" if wait.until else ""
        what = f"{wait.on} {wait.name or ''}".strip()
        yield Considered(what, "waiting", note=f"since {wait.since}{until}")
