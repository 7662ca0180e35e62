"""Signals: checked before they are recorded, in order, each taken once (S-54)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from noetl.dsl.diagnostics import nearest
from noetl.dsl.json_schema import find_flaws, find_problems
from noetl.dsl.model import Step, Task
from noetl.dsl.node import shorten
from noetl.engine.events import MESSAGE_RECEIVED, Caller, MessageReceived
from noetl.engine.ids import Path
from noetl.engine.recorder import Batch
from noetl.engine.runs import Run, find_progress, path_of, pipelines, run_of
from noetl.engine.times import seconds_of
from noetl.engine.values.references import admit_later
from noetl.engine.waits.resume import (
    WaitLine,
    as_message,
    emit_resumed,
    listening,
    offer,
    offer_missed,
    waiting_in,
    waits_of,
)
from noetl.errors import SignalRefused, TemplateError
from noetl.net.graph_search import explore
from noetl.types import JSON


class SignalWait(msgspec.Struct, frozen=True):
    """A wait for a signal. ``command_id`` is set if it waits now; ``name`` is None if a
    template computes it."""

    name: str | None
    schema: JSON = None
    roles: list[str] | None = None
    command_id: str | None = None


def current_waits(batch: Batch) -> Iterator[SignalWait]:
    """Yield the pipelines that wait for a signal and have not timed out."""
    for command_id, _, waiting in waiting_in(batch.state):
        if waiting.on == "event":  # its guards accept or reject any name
            yield SignalWait(None)
        if waiting.on != "signal":
            continue
        if waiting.until is None or seconds_of(waiting.until) > batch.clock:
            yield SignalWait(waiting.signal, waiting.schema, waiting.roles, command_id)


def later_waits(batch: Batch) -> Iterator[SignalWait]:
    """Yield the waits that the execution may still reach."""
    state, steps = batch.state, batch.net.steps
    begun = [run for run in state.runs.values() if run.step in steps]
    coming = {token.step for token in state.tokens.values()} | set(state.joining)
    coming |= {after for run in begun for after in batch.net.successors(run.step)}
    reachable = explore(coming & steps.keys(), batch.net.successors)
    for name in reachable:
        yield from _signal_waits(steps[name].tasks)
    for run in begun:
        if run.step not in reachable:
            yield from _signal_waits(_tasks_left(steps[run.step], run))


def declared_names(batch: Batch) -> set[str]:
    """Return all signals that the playbook names."""
    every = [task for step in batch.net.steps.values() for task in step.tasks]
    return {wait.name for wait in _signal_waits(every) if wait.name is not None}


def _tasks_left(step: Step, run: Run) -> list[Task]:
    """Return the tasks that the run may still begin; all, if a rule or a loop leads
    back."""
    back = any(
        rule.then.do in ("retry", "jump") for t in step.tasks for rule in t.rules or ()
    )
    if back or run.loop is not None:
        return list(step.tasks)
    left: list[Task] = []
    labels = [task.label for task in step.tasks]
    for _, progress in pipelines(run):
        if progress.label in labels:
            begun = progress.waiting is not None
            left += step.tasks[labels.index(progress.label) + begun :]
    return left


def _signal_waits(tasks: list[Task] | tuple[Task, ...]) -> Iterator[SignalWait]:
    for task in tasks:
        if task.kind == "choose" and task.literals.get("wait"):
            yield SignalWait(None)
        if task.kind == "wait" and "signal" in task.inputs:
            name, schema = _literal(task, "signal"), _literal(task, "schema")
            roles = _literal(task, "roles")
            if schema is not None and find_flaws(schema):
                schema = None
            yield SignalWait(name, schema, roles if isinstance(roles, list) else None)


def _literal(task: Task, name: str) -> JSON:
    """Return a literal input; None if it is rendered from a template."""
    value = task.inputs.get(name)
    return value.render({}) if value is not None and value.literal else None


_NAMED = 3


class Sender(msgspec.Struct, frozen=True):
    """The account that sends a signal to a server. Without a server, as on the command
    line, there is none, and all signals are allowed."""

    name: str
    roles: list[str]


def receive(
    batch: Batch,
    name: str,
    data: JSON,
    sender: Sender | None = None,
    caller: Caller = None,
    command_id: str | None = None,
) -> None:
    """Record a signal: for the first pipeline that waits for it, or kept until one
    does; with ``command_id`` for this pipeline only.

    Raises ``SignalRefused``, or ``ForgedReference`` for data that claim to be a stored
    value, before anything is recorded.
    """
    admit_later(data, "data")
    state = batch.state
    if state.finished or state.cancelling is not None:
        return
    wait = _find_wait(batch, name, data, sender, command_id)
    payload: MessageReceived = {"name": name, "data": batch.secrets.redact(data)}
    if sender is not None:
        payload["by"] = msgspec.to_builtins(sender)
    if caller is not None:
        payload["caller"] = dict(caller)
    batch.emit(MESSAGE_RECEIVED, state.execution_id, payload)
    message = state.messages[-1]
    if wait.command_id is not None:
        run = state.runs[run_of(wait.command_id)]
        _give(batch, run, path_of(wait.command_id), message)
        return
    for run, path in list(listening(state)):
        if offer(batch, run, path, as_message(message), message=message["seq"]):
            return


def deliver(batch: Batch, run: Run, path: Path) -> None:
    """Give kept signals to a pipeline that has just begun to wait."""
    waiting = find_progress(run, path).waiting
    if waiting is not None and waiting.on == "event":
        offer_missed(batch, run, path)
        return
    if waiting is None or waiting.on != "signal":
        return
    wait = SignalWait(waiting.signal, waiting.schema, waiting.roles)
    for message in batch.state.messages:
        if message["name"] == waiting.signal and _fits(batch, wait, message):
            _give(batch, run, path, message)
            return


def _give(batch: Batch, run: Run, path: Path, message: dict[str, JSON]) -> None:
    answer = {"data": message["data"]}
    emit_resumed(batch, run, path, {"answer": answer, "message": message["seq"]})


def _fits(batch: Batch, wait: SignalWait, message: dict[str, JSON]) -> bool:
    """Return whether a kept signal fits the wait."""
    by = message.get("by")
    if by is not None and not _may_send(wait, by["roles"]):
        return False
    if wait.schema is None:
        return True
    try:
        return not find_problems(wait.schema, batch.values.whole(message["data"]))
    except TemplateError:  # too large to read, or removed
        return False


def _may_send(wait: SignalWait, roles: Sequence[str]) -> bool:
    if wait.roles is None or "admin" in roles:
        return True
    return not {*wait.roles}.isdisjoint(roles)


def _find_wait(
    batch: Batch, name: str, data: JSON, sender: Sender | None, command_id: str | None
) -> SignalWait:
    """Return the wait that takes the signal, now or later. Raises ``SignalRefused``."""
    waits = [wait for wait in current_waits(batch) if wait.name == name]
    if command_id is not None:
        waits = [wait for wait in waits if wait.command_id == command_id]
    elif not waits:
        every = (*current_waits(batch), *later_waits(batch))
        waits = [wait for wait in every if wait.name in (name, None)]
    if not waits:
        raise _unknown(batch, name)
    allowed = [t for t in waits if sender is None or _may_send(t, sender.roles)]
    if not allowed and sender is not None:
        raise _not_allowed(batch, name, waits[0], sender)
    problems: list[str] = []
    for wait in allowed:
        found = find_problems(wait.schema, data) if wait.schema is not None else []
        if not found:
            return wait
        problems = problems or found
    message = f"the data of signal '{shorten(name)}' do not fit: {'; '.join(problems)}"
    raise SignalRefused("signal.invalid", message, _lines(batch), problems)


def _not_allowed(
    batch: Batch, name: str, wait: SignalWait, sender: Sender
) -> SignalRefused:
    roles = " or ".join(wait.roles or ())
    message = f"signal '{name}' is for {roles}, and {sender.name} is neither"
    if len(wait.roles or ()) == 1:
        message = f"signal '{name}' is for {roles}, which {sender.name} is not"
    return SignalRefused("auth.role", message, _lines(batch))


def _unknown(batch: Batch, name: str) -> SignalRefused:
    declared = declared_names(batch)
    shown = shorten(name, 60)
    message = f"nothing in this playbook waits for signal '{shown}'"
    similar = nearest(name, declared)
    if name in declared:
        message, similar = f"signal '{shown}' is no longer waited for", None
    message += f"; the execution waits for {_words(waits_of(batch.state))}"
    if similar is not None:
        message += f"; did you mean '{similar}'?"
    return SignalRefused("signal.unknown", message, _lines(batch))


def _lines(batch: Batch) -> list[dict[str, JSON]]:
    return [msgspec.to_builtins(each) for each in waits_of(batch.state)]


def _words(waits: Sequence[WaitLine]) -> str:
    if not waits:
        return "nothing at the moment"
    named = [f"{wait_words(each)} ({each.step}.{each.task})" for each in waits[:_NAMED]]
    rest = len(waits) - _NAMED
    return ", ".join(named) + (f", and {rest} more" if rest > 0 else "")


def wait_words(wait: WaitLine) -> str:
    """Describe a wait: ``signal 'approval' until …``, ``playbook 'shop/pay', execution
    …``."""
    until = f" until {wait.until}" if wait.until is not None else ""
    if wait.on == "signal":
        return f"signal '{wait.signal}'{until}"
    if wait.on == "playbook":
        return f"playbook '{wait.playbook}', execution {wait.execution_id}{until}"
    if wait.on == "event":
        return f"an event that fits{until}"
    return f"the time {wait.until}"
