"""Forks: a new execution that begins with the events of another one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import msgspec

from noetl.dsl.model import Step
from noetl.engine import ids
from noetl.engine.batch import Batch, Recorder
from noetl.engine.callers import Caller, attributed
from noetl.engine.context import unfold
from noetl.engine.decide import go_on
from noetl.engine.events import Event
from noetl.engine.limits import deadline_of
from noetl.engine.renaming import Renaming
from noetl.engine.state import LoopState, Run, State
from noetl.engine.times import rfc3339
from noetl.engine.tracing import trace_id_of
from noetl.types import JSON


class Fork(msgspec.Struct, frozen=True):
    """What somebody asked for: ``origin`` up to ``seq``, and what shall be different.

    ``workload`` is the whole of it, where it is edited. With ``newer``, ``playbook``
    is not the one that the kept events were made with. ``again`` are failures that
    nobody handled, by the name they have in the origin: the token that each of them
    had taken, ``{step, args, event}``, is put back. ``timeout`` is in seconds.
    ``caller`` is who asked a server, ``initiator`` the account whose rights it has.
    """

    execution_id: str
    origin: str
    seq: int
    playbook: dict[str, JSON]
    newer: bool = False
    workload: dict[str, JSON] | None = None
    set_ctx: dict[str, JSON] = msgspec.field(default_factory=dict)
    again: dict[str, dict[str, JSON]] = msgspec.field(default_factory=dict)
    timeout: float | None = None
    caller: Caller = None
    initiator: dict[str, JSON] | None = None


def ask(
    recorder: Recorder, fork: Fork, first: Event, inherited: Sequence[str] = ()
) -> None:
    """The request for the fork. It stands where that for its origin stood.

    ``inherited`` are the keys that its origin could read of what it was called with.

    Whoever had called the origin waits for nothing from a fork: it has no parent, but
    it is as deep, and sees the iteration that it was called from.
    """
    recorder.state.execution_id = fork.execution_id
    earlier, parent = first.payload.get("fork"), first.payload.get("parent")
    depth, outer = 1, None
    if parent is not None:
        depth, outer = parent["depth"] + 1, parent["iter"]
    if earlier is not None:
        depth, outer = earlier["depth"], earlier["iter"]
    lineage: dict[str, JSON] = {
        "execution_id": fork.origin,
        "seq": fork.seq,
        "started_at": first.timestamp if earlier is None else earlier["started_at"],
        "depth": depth,
        "iter": outer,
        "inherited": list(inherited),
    }
    asked = {
        "playbook": fork.playbook,
        "trace_id": trace_id_of(fork.execution_id),
        "fork": lineage,
        **attributed(fork.caller),
    }
    if fork.initiator is not None:
        asked["initiator"] = fork.initiator
    recorder.emit("playbook.execution.requested", fork.execution_id, asked)


def is_firm(state: State, last: Event) -> bool:
    """Whether a log that ends with this event can be gone on with.

    Some events only say half of what was decided: a step has ended, and its arcs are
    judged next. Just before those nothing that was done is lost, and the decision is
    made again.
    """
    if not state.token_count:
        return False
    if last.name == "next.evaluated" and last.payload["on"] == "loop.done":
        return False
    return not any(map(_is_half_made, state.runs.values()))


def _is_half_made(run: Run) -> bool:
    if run.boundary is not None or (run.progress is None and run.loop is None):
        return True
    return run.loop is not None and _has_empty(run.loop)


def _has_empty(loop: LoopState) -> bool:
    """Whether an iteration in it has neither a pipeline nor a loop, as yet."""
    for iteration in loop.open.values():
        if iteration.loop is not None:
            if _has_empty(iteration.loop):
                return True
        elif iteration.progress is None:
            return True
    return False


def is_idle(state: State) -> bool:
    """Whether nothing would follow: no token, nothing under way."""
    return not (state.tokens or state.runs or state.joining)


def go_apart(batch: Batch, fork: Fork) -> None:
    """Record the fork, and decide what follows; the state is the kept events folded."""
    state, playbook = batch.state, batch.playbook
    limit = deadline_of(playbook, fork.timeout)
    payload: dict[str, JSON] = {
        "from": {"execution_id": fork.origin, "seq": fork.seq},
        "deadline": None if limit is None else rfc3339(batch.clock + limit),
        "deadlines": {
            run.id: rfc3339(batch.clock + deadline)
            for run in state.runs.values()
            if (deadline := playbook.steps[run.step].deadline) is not None
        },
    }
    if fork.newer:
        payload["playbook"] = fork.playbook
        payload["steps"] = {
            run.step: _shape(playbook.steps[run.step]) for run in state.runs.values()
        }
    # A short secret is left alone here: it would change inputs that happen to equal it.
    if fork.workload is not None:
        payload["workload"] = batch.secrets.redact(fork.workload, short=False)
    if fork.set_ctx:
        patch = unfold(state.ctx, fork.set_ctx, batch.values.fetch)
        payload["set_ctx"] = batch.secrets.redact(patch, short=False)
    if fork.again:
        rename = Renaming(fork.origin, fork.execution_id)
        numbers = count(state.token_count + 1)
        payload["again"] = [
            {
                "token_id": ids.token_id(fork.execution_id, next(numbers)),
                "failed": rename.name(failed),
                **token,
            }
            for failed, token in fork.again.items()
        ]
    batch.emit("workflow.forked", fork.execution_id, payload)
    go_on(batch)


def _shape(step: Step) -> dict[str, JSON]:
    """What open runs know of their step."""
    first = step.tasks[0].label if step.tasks else None
    return {"has_arcs": step.next is not None, "first": first}
