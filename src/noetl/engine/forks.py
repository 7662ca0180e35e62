"""Forks: new executions that begin with the events of another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.model import Playbook, Step
from noetl.engine.decide import continue_after_cut
from noetl.engine.events import (
    EXECUTION_REQUESTED,
    WORKFLOW_FORKED,
    Caller,
    Event,
    ExecutionRequested,
    NextEvaluated,
    StepShape,
    WorkflowForked,
)
from noetl.engine.ids import trace_id_of
from noetl.engine.limits import deadline_of
from noetl.engine.recorder import Batch, Recorder
from noetl.engine.runs import LoopState, Run, loop_paths, pipelines
from noetl.engine.state import State
from noetl.engine.tasks.scope import unfold
from noetl.engine.times import rfc3339
from noetl.engine.undone import Undone
from noetl.engine.values.references import is_reference
from noetl.types import JSON


class Fork(msgspec.Struct, frozen=True):
    """A request for a fork of ``origin`` up to ``seq``, with edits.

    ``workload`` is the whole workload, if it is edited. ``newer`` is set if
    ``playbook`` is not the one of the kept events. ``undone`` are kept events that do
    not count. ``timeout`` is in seconds. ``caller`` is the account that sent the
    request to a server, ``initiator`` the account whose rights the fork has.
    """

    execution_id: str
    origin: str
    seq: int
    playbook: dict[str, JSON]
    newer: bool = False
    workload: dict[str, JSON] | None = None
    set_ctx: dict[str, JSON] = msgspec.field(default_factory=dict)
    undone: Undone | None = None
    timeout: float | None = None
    caller: Caller = None
    initiator: dict[str, JSON] | None = None


def ask(
    recorder: Recorder, fork: Fork, first: Event, inherited: Sequence[str] = ()
) -> None:
    """Record the request for the fork in place of the request for its origin.

    ``inherited`` are the keys that the origin could read of its caller's iteration.

    The fork has no parent: the caller of the origin does not wait for it. It has the
    same depth, and sees the iteration that the origin was called from.
    """
    recorder.state.execution_id = fork.execution_id
    origin: ExecutionRequested = first.payload
    earlier, parent = origin.get("fork"), origin.get("parent")
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
        "trace_id": origin["trace_id"],
    }
    if fork.undone is not None:
        lineage["undone"] = fork.undone.as_json()
    asked: ExecutionRequested = {
        "playbook": fork.playbook,
        "trace_id": trace_id_of(fork.execution_id),
        "fork": lineage,
    }
    if fork.caller is not None:
        asked["caller"] = dict(fork.caller)
    if fork.initiator is not None:
        asked["initiator"] = fork.initiator
    if "labels" in origin:
        asked["labels"] = origin["labels"]
    recorder.emit(EXECUTION_REQUESTED, fork.execution_id, asked)


def is_firm(state: State, last: Event) -> bool:
    """Return whether the fork may begin after this event.

    Some events are inside a decision: a step has ended, and its arcs are evaluated
    next. A fork begins before such an event, and the decision is made again; no
    completed work is lost.
    """
    if not state.token_count:
        return False
    if state.undone is not None and state.undone.covers(last):
        return not any(map(_is_half_made, state.runs.values()))
    if last.name == "next.evaluated":
        routed: NextEvaluated = last.payload
        if routed["on"] == "loop.done":
            return False
    return not any(map(_is_half_made, state.runs.values()))


def _is_half_made(run: Run) -> bool:
    if run.boundary is not None or (run.progress is None and run.loop is None):
        return True
    return run.loop is not None and _has_empty(run.loop)


def _has_empty(loop: LoopState) -> bool:
    """Return whether an iteration has neither a pipeline nor a loop yet."""
    for iteration in loop.open.values():
        if iteration.loop is not None:
            if _has_empty(iteration.loop):
                return True
        elif iteration.progress is None:
            return True
    return False


def is_idle(state: State) -> bool:
    """Return whether nothing would follow: no token and no open run."""
    return not (state.tokens or state.runs or state.joining)


def start_fork(batch: Batch, fork: Fork) -> None:
    """Record the fork and decide what follows, on the state of the kept events."""
    state, playbook = batch.state, batch.playbook
    limit = deadline_of(playbook, fork.timeout)
    payload: WorkflowForked = {
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
    # Short secrets are not masked here: inputs that happen to equal one would change.
    if fork.workload is not None:
        payload["workload"] = batch.secrets.redact(fork.workload, short=False)
    if fork.set_ctx:
        patch = unfold(state.ctx, fork.set_ctx, batch.values.fetch)
        payload["set_ctx"] = batch.secrets.redact(patch, short=False)
    batch.emit(WORKFLOW_FORKED, fork.execution_id, payload)
    continue_after_cut(batch)


def _shape(step: Step) -> StepShape:
    """Return the properties of a step that its open runs depend on."""
    first = step.tasks[0].label if step.tasks else None
    return {"has_arcs": step.next is not None, "first": first}


def find_obstacles(playbook: Playbook, state: State) -> list[str]:
    """Return the obstacles, a sentence each; steps that have finished may be
    missing."""
    return list(dict.fromkeys(_obstacles(playbook, state)))


def _obstacles(playbook: Playbook, state: State) -> Iterator[str]:
    steps = playbook.steps
    for token in state.tokens.values():
        if token.step not in steps:
            yield _missing(playbook, token.step, "a token waits for it")
    for name in state.joining:
        if name not in steps:
            yield _missing(playbook, name, "tokens wait there for others")
        elif steps[name].join is None:
            yield f"step '{name}' has no join any more, and tokens wait in it"
    for run in state.runs.values():
        if run.step not in steps:
            yield _missing(playbook, run.step, "it is running")
        else:
            yield from _changes(steps[run.step], run)


def _missing(playbook: Playbook, name: str, why: str) -> str:
    hint = did_you_mean(name, playbook.steps)
    return f"there is no step '{name}' any more, and {why}" + (
        f" ({hint})" if hint else ""
    )


def _changes(step: Step, run: Run) -> Iterator[str]:
    name, depth = step.name, len(list(step.loop.levels())) if step.loop else 0
    if not step.tasks:
        yield f"step '{name}' has no task any more, and it is running"
        return
    if bool(depth) != (run.loop is not None):
        words = ("no loop", "a loop")
        was, now = words[run.loop is not None], words[bool(depth)]
        yield f"step '{name}' is running with {was}, and has {now} now"
        return
    if any(len(path) >= depth for path in loop_paths(run)):
        yield f"step '{name}' is running with more loops than the {depth} it has now"
        return
    labels = [task.label for task in step.tasks]
    for path, progress in pipelines(run):
        if len(path) != depth:
            yield f"step '{name}' is running with {len(path)} loops, and has {depth}"
        elif progress.tasks and progress.label not in [None, *labels]:
            hint = did_you_mean(progress.label or "", labels)
            yield (
                f"step '{name}' has no task '{progress.label}' any more, which is the "
                "next one in it" + (f" ({hint})" if hint else "")
            )


# -- renaming of the kept events --------------------------------------------------


_LOG = "log:"
_MARK = b'"key":"log:'
_encode = msgspec.json.Encoder().encode


class Renaming:
    """A renaming from the execution id ``old`` to ``new``.

    Ids that the engine makes begin with the id of their execution. They are renamed, so
    that open runs can continue. Values of tools and templates are kept, even if they
    contain the old id, and so is ``action_id``: it identifies the effect that was made.
    """

    def __init__(self, old: str, new: str) -> None:
        self._old = old
        self._new = new

    def name(self, name: str) -> str:
        """Rename an id that was derived from the old one; return any other
        unchanged."""
        rest = name[len(self._old) :]
        if name.startswith(self._old) and (not rest or rest[0] in "-."):
            return self._new + rest
        return name

    def event(self, event: Event) -> Event:
        return msgspec.structs.replace(
            event,
            event_id=f"{self._new}.{event.seq}",
            execution_id=self._new,
            entity_id=self.name(event.entity_id),
            parent_id=self._optional(event.parent_id),
            step_run_id=self._optional(event.step_run_id),
            iteration_id=self._optional(event.iteration_id),
            task_run_id=self._optional(event.task_run_id),
            payload=self._payload(event.payload),
        )

    def _optional(self, name: str | None) -> str | None:
        return None if name is None else self.name(name)

    def _payload(self, payload: dict[str, JSON]) -> dict[str, JSON]:
        changed = {
            key: _MEMBERS[key](self, payload[key]) for key in payload.keys() & _MEMBERS
        }
        payload = {**payload, **changed}
        if _MARK in _encode(payload):
            payload = {key: self._references(value) for key, value in payload.items()}
        return payload

    def _references(self, value: JSON) -> JSON:
        """Redirect references to results of a loop to the log of the fork."""
        if is_reference(value):
            key = value["key"]
            if key.startswith(_LOG):
                return {**value, "key": _LOG + self.name(key.removeprefix(_LOG))}
            return value
        if isinstance(value, dict):
            return {key: self._references(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._references(item) for item in value]
        return value

    def _each(self, names: JSON) -> JSON:
        return [self.name(name) for name in names]

    def _keys(self, mapping: JSON) -> JSON:
        return {self.name(key): value for key, value in mapping.items()}

    def _token(self, token: JSON) -> JSON:
        return {**token, "token_id": self.name(token["token_id"])}

    def _tokens(self, tokens: JSON) -> JSON:
        return [self._token(token) for token in tokens]

    def _again(self, again: JSON) -> JSON:
        tokens = self._tokens(again)
        return [{**token, "failed": self.name(token["failed"])} for token in tokens]

    def _kept(self, kept: JSON) -> JSON:
        if is_reference(kept):
            return kept
        return {**kept, "step_run_id": self.name(kept["step_run_id"])}

    def _writer(self, refused: JSON) -> JSON:
        return {**refused, "by": self.name(refused["by"])}

    def _error(self, error: JSON) -> JSON:
        if not isinstance(error, dict) or "iteration_id" not in error:
            return error
        return {**error, "iteration_id": self.name(error["iteration_id"])}


# The members of payloads that hold ids of the engine.
_MEMBERS = {
    "tokens": Renaming._each,
    "token": Renaming._token,
    "token_id": Renaming.name,
    "fired": Renaming._tokens,
    "again": Renaming._again,
    "refused": Renaming._writer,
    "deadlines": Renaming._keys,
    "error": Renaming._error,
    "kept": Renaming._kept,
}
