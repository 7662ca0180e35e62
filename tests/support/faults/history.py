"""Histories of what clients asked of a cluster and were told, and their checkers.

An operation has the moments of its call and of its answer, by the client's clock. The
outcome ``ok`` was answered as done, ``fail`` was refused, and of ``info`` the client
knows nothing: it may have happened, may still happen, or never. The checkers compare
histories with what the log says in the end; all of them are pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal

import msgspec

Outcome = Literal["ok", "fail", "info"]
ADMISSIONS = frozenset({"step.scheduled", "loop.iteration.started", "task.started"})
"""Events that say of something new that it begins."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a client. ``key`` is the idempotency key of a start, and the data of
    a signal; ``seq`` and ``status`` are what a read has shown."""

    client: str
    what: Literal["start", "cancel", "signal", "read"]
    outcome: Outcome
    began: float
    ended: float
    execution: str | None = None
    key: str | None = None
    seq: int = 0
    status: str | None = None


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a log, as far as clients are concerned with it.

    ``key`` is the one of the request, the data of a signal, or the message that ended
    a wait. ``of`` is the task run, ``until`` when its wait ends. Moments are RFC 3339.
    """

    name: str
    key: str | None = None
    status: str | None = None
    of: str | None = None
    at: str = ""
    until: str | None = None


Logs = Mapping[str, Sequence[Fact]]
"""The events of each stored execution, in the order of the log."""


def check(history: Sequence[Operation], logs: Logs) -> list[str]:
    """Return a sentence for each anomaly."""
    checkers = (check_starts, check_signals, check_cancels)
    found = [wrong for checker in checkers for wrong in checker(history, logs)]
    return [*found, *check_reads(history), *check_answers(history, logs)]


def check_starts(history: Iterable[Operation], logs: Logs) -> Iterator[str]:
    """I-01, I-02: a key has one execution, and an acknowledged one is stored."""
    stored: dict[str, set[str]] = defaultdict(set)
    for execution, facts in logs.items():
        if facts and facts[0].key is not None:
            stored[facts[0].key].add(execution)
    told: dict[str, set[str]] = defaultdict(set)
    outcomes: dict[str, set[Outcome]] = defaultdict(set)
    for each in history:
        if each.what == "start" and each.key is not None:
            outcomes[each.key].add(each.outcome)
            if each.outcome == "ok":
                told[each.key].add(str(each.execution))
    for key, names in told.items():
        for name in sorted(names - stored[key]):
            yield f"key {key}: execution {name} was acknowledged and is not stored"
    for key, names in stored.items():
        if len(names) > 1:
            yield f"key {key} has {len(names)} executions: {', '.join(sorted(names))}"
        if key not in outcomes:
            yield f"key {key} has an execution, and no client has asked for it"
        elif outcomes[key] == {"fail"}:
            yield f"key {key} was refused each time and has an execution"


def check_signals(history: Iterable[Operation], logs: Logs) -> Iterator[str]:
    """A signal that was acknowledged is recorded once, any other at most once."""
    recorded: Counter[tuple[str, str]] = Counter()
    for execution, facts in logs.items():
        for fact in facts:
            if fact.name == "message.received":
                recorded[execution, str(fact.key)] += 1
    sent: set[tuple[str, str]] = set()
    for each in history:
        if each.what != "signal":
            continue
        signal = (str(each.execution), str(each.key))
        sent.add(signal)
        count = recorded[signal]
        of = f"signal {each.key} of execution {each.execution}"
        if each.outcome == "ok" and count == 0:
            yield f"{of} was acknowledged and is not recorded"
        if each.outcome == "fail" and count:
            yield f"{of} was refused and is recorded"
        if count > 1:
            yield f"{of} is recorded {count} times"
    for execution, key in sorted(recorded.keys() - sent):
        yield f"signal {key} of execution {execution} was never sent"


def check_cancels(history: Sequence[Operation], logs: Logs) -> Iterator[str]:
    """I-32: a cancellation has one place in the log. Nothing is admitted after it, and
    nothing that was read later denies it."""
    asked: set[str] = set()
    told: dict[str, float] = {}
    places: dict[str, int] = {}
    for each in history:
        if each.what == "cancel":
            asked.add(str(each.execution))
            if each.outcome == "ok":
                name = str(each.execution)
                told[name] = min(each.ended, told.get(name, each.ended))
    for execution, facts in logs.items():
        names = [fact.name for fact in facts]
        if "workflow.cancelled" not in names:
            if execution in told and facts[-1].name != "playbook.processed":
                yield f"execution {execution}: the cancellation is not recorded"
            continue
        if execution not in asked:
            yield f"execution {execution} is cancelled, and no client has asked for it"
        place = names.index("workflow.cancelled")
        places[execution] = place + 1
        late = ADMISSIONS.intersection(names[place:])
        if late:
            yield f"execution {execution}: {min(late)} after the cancellation"
    for each in history:
        if each.what != "read" or each.outcome != "ok" or each.execution not in told:
            continue
        place = places.get(each.execution, 0)
        if each.began > told[each.execution] and each.seq < place:
            yield (
                f"execution {each.execution} was read at {each.seq} after its "
                f"cancellation at {place} was acknowledged"
            )


def check_reads(history: Iterable[Operation]) -> Iterator[str]:
    """A client never sees an execution go back, and sees it from its start on."""
    shown: dict[tuple[str, str], Operation] = {}
    for each in sorted(history, key=lambda one: (one.began, one.ended)):
        known = (each.client, str(each.execution))
        if each.what == "start" and each.outcome == "ok":
            shown.setdefault(known, each)
        if each.what != "read" or known not in shown:
            if each.what == "read" and each.outcome == "ok":
                shown[known] = each
            continue
        last = shown[known]
        of = f"client {each.client}: execution {each.execution}"
        if each.outcome == "fail":
            yield f"{of} is not found, and was there before"
        elif each.outcome == "ok":
            if each.seq < last.seq:
                yield f"{of} went back from {last.seq} to {each.seq}"
            shown[known] = each


def check_answers(history: Iterable[Operation], logs: Logs) -> Iterator[str]:
    """I-03: what was shown is in the log, and an end that was shown is the end."""
    for each in history:
        if each.what != "read" or each.outcome != "ok":
            continue
        facts = logs.get(str(each.execution), ())
        of = f"execution {each.execution} was read at {each.seq}"
        if each.seq > len(facts):
            yield f"{of}, and its log ends at {len(facts)}"
        elif each.status in ("completed", "failed", "cancelled"):
            end = facts[-1].status
            if each.status != end:
                yield f"{of} as {each.status}, and is {end}"


def check_timers(logs: Logs) -> Iterator[str]:
    """I-28: no wait ends early by the clock of the server that ends it."""
    for execution, facts in logs.items():
        waits: dict[str | None, str] = {}
        for fact in facts:
            if fact.name == "task.suspended" and fact.until is not None:
                waits[fact.of] = fact.until
            elif fact.name == "task.resumed":
                until = waits.pop(fact.of, None)
                if until is None or fact.key is not None:
                    continue
                if datetime.fromisoformat(fact.at) < datetime.fromisoformat(until):
                    yield f"execution {execution}: a wait until {until} ended {fact.at}"


def check_ledger(
    calls: Mapping[tuple[str, int], int],
    begun: Mapping[tuple[str, int], int],
    ended: Iterable[tuple[str, int]],
) -> Iterator[str]:
    """The log against a peer that writes down its calls, by execution and index.

    I-17: no call without a start on record; an effect that has ended has happened.
    """
    for action, count in calls.items():
        if count > begun.get(action, 0):
            execution, index = action
            yield (
                f"{execution}: effect {index} happened {count} times, "
                f"the log knows of {begun.get(action, 0)}"
            )
    for action in ended:
        if not calls.get(action):
            execution, index = action
            yield f"{execution}: effect {index} has ended and never happened"
