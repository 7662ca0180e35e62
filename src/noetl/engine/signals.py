"""Signals: checked before they are recorded, in order, each taken once (S-54)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.dsl.diagnostics import nearest
from noetl.dsl.fitting import find_problems
from noetl.dsl.node import shorten
from noetl.engine.batch import Batch
from noetl.engine.callers import Caller, attributed
from noetl.engine.expected import (
    Taker,
    declared_names,
    later_takers,
    present_takers,
)
from noetl.engine.ids import Path
from noetl.engine.listening import listening, offer, offer_missed, told
from noetl.engine.references import admit_later
from noetl.engine.resuming import emit_resumed
from noetl.engine.runs import find_progress, path_of
from noetl.engine.state import Run
from noetl.engine.waits import WaitLine, waits_of
from noetl.errors import SignalRefused, TemplateError
from noetl.types import JSON

_NAMED = 3


class Sender(msgspec.Struct, frozen=True):
    """Who sends a signal, where a server knows its users. Who has the log itself, as
    on the command line, is nobody in particular and may send all."""

    name: str
    roles: list[str]


def receive(
    batch: Batch,
    name: str,
    data: JSON,
    sender: Sender | None = None,
    caller: Caller = None,
) -> None:
    """A signal: for the first pipeline that waits for it, or kept until one does.

    Raises ``SignalRefused``, or ``ForgedReference`` for data that claim to be a stored
    value, before anything is recorded.
    """
    admit_later(data, "data")
    state = batch.state
    if state.finished or state.cancelling is not None:
        return
    taker = _find_taker(batch, name, data, sender)
    payload: dict[str, JSON] = {"name": name, "data": batch.secrets.redact(data)}
    if sender is not None:
        payload["by"] = msgspec.to_builtins(sender)
    payload |= attributed(caller)
    batch.emit("message.received", state.execution_id, payload)
    message = state.messages[-1]
    if taker.command_id is not None:
        run = state.runs[taker.command_id.split("/")[0]]
        _give(batch, run, path_of(taker.command_id), message)
        return
    for run, path in list(listening(state)):
        if offer(batch, run, path, told(message), message=message["seq"]):
            return


def deliver(batch: Batch, run: Run, path: Path) -> None:
    """Give a pipeline that has just begun to wait what came before."""
    waiting = find_progress(run, path).waiting
    if waiting is not None and waiting.on == "event":
        offer_missed(batch, run, path)
        return
    if waiting is None or waiting.on != "signal":
        return
    taker = Taker(waiting.signal, waiting.schema, waiting.roles)
    for message in batch.state.messages:
        if message["name"] == waiting.signal and _takes(batch, taker, message):
            _give(batch, run, path, message)
            return


def _give(batch: Batch, run: Run, path: Path, message: dict[str, JSON]) -> None:
    answer = {"data": message["data"]}
    emit_resumed(batch, run, path, {"answer": answer, "message": message["seq"]})


def _takes(batch: Batch, taker: Taker, message: dict[str, JSON]) -> bool:
    """Whether a signal that was kept fits the wait that has begun."""
    by = message.get("by")
    if by is not None and not _may_send(taker, by["roles"]):
        return False
    if taker.schema is None:
        return True
    try:
        return not find_problems(taker.schema, batch.values.whole(message["data"]))
    except TemplateError:  # it is too large to be looked at, or gone
        return False


def _may_send(taker: Taker, roles: Sequence[str]) -> bool:
    if taker.roles is None or "admin" in roles:
        return True
    return not {*taker.roles}.isdisjoint(roles)


def _find_taker(batch: Batch, name: str, data: JSON, sender: Sender | None) -> Taker:
    """Whoever takes the signal, now or later. Raises ``SignalRefused``."""
    takers = [taker for taker in present_takers(batch) if taker.name == name]
    if not takers:
        every = (*present_takers(batch), *later_takers(batch))
        takers = [taker for taker in every if taker.name in (name, None)]
    if not takers:
        raise _unknown(batch, name)
    allowed = [t for t in takers if sender is None or _may_send(t, sender.roles)]
    if not allowed and sender is not None:
        raise _not_allowed(batch, name, takers[0], sender)
    problems: list[str] = []
    for taker in allowed:
        found = find_problems(taker.schema, data) if taker.schema is not None else []
        if not found:
            return taker
        problems = problems or found
    message = f"the data of signal '{shorten(name)}' do not fit: {'; '.join(problems)}"
    raise SignalRefused("signal.invalid", message, _lines(batch), problems)


def _not_allowed(
    batch: Batch, name: str, taker: Taker, sender: Sender
) -> SignalRefused:
    roles = " or ".join(taker.roles or ())
    message = f"signal '{name}' is for {roles}, and {sender.name} is neither"
    if len(taker.roles or ()) == 1:
        message = f"signal '{name}' is for {roles}, which {sender.name} is not"
    return SignalRefused("auth.role", message, _lines(batch))


def _unknown(batch: Batch, name: str) -> SignalRefused:
    declared = declared_names(batch)
    shown = shorten(name, 60)
    message = f"nothing in this playbook waits for signal '{shown}'"
    similar = nearest(name, declared)
    if name in declared:
        message, similar = f"signal '{shown}' is not waited for any more", None
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
    """``signal 'approval' until …``, ``playbook 'shop/pay', execution …``, a time."""
    until = f" until {wait.until}" if wait.until is not None else ""
    if wait.on == "signal":
        return f"signal '{wait.signal}'{until}"
    if wait.on == "playbook":
        return f"playbook '{wait.playbook}', execution {wait.execution_id}{until}"
    if wait.on == "event":
        return f"an event that fits{until}"
    return f"the time {wait.until}"
