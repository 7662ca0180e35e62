"""Reader of definitions, and the checks when one is created."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from msgspec import UNSET

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.times import parse_duration
from noetl.triggers.cron import Cron
from noetl.triggers.definition import (
    Alert,
    Definition,
    Finished,
    Part,
    Places,
    Schedule,
    Webhook,
)
from noetl.triggers.inputs import TriggerError, check_templates
from noetl.types import JSON

_PARTS: dict[str, type[Part]] = {
    "webhook": Webhook,
    "schedule": Schedule,
    "finished": Finished,
    "concurrency": Places,
}
_PLACE = re.compile(r" - at `\$\.?([^`]*)`")
_MISSING = re.compile(r"missing required field `([^`]*)`")


def read_definition(document: JSON) -> Definition:
    """Read a definition. Raises ``TriggerError``."""
    if not isinstance(document, dict):
        message = "a trigger is a mapping with name, playbook and what starts it"
        raise TriggerError("", message)
    _check_names(document, Definition, "")
    for name, part in _PARTS.items():
        inner = document.get(name)
        if isinstance(inner, dict):
            _check_names(inner, part, f"{name}.")
    try:
        return msgspec.convert(document, Definition)
    except msgspec.ValidationError as error:
        raise _explained(str(error)) from None


def _check_names(found: dict[str, JSON], part: type[Part], place: str) -> None:
    known = part.__struct_fields__
    for name in found:
        if name not in known:
            message = f"'{name[:40]}' is not a member of a trigger"
            raise TriggerError(f"{place}{name}", message, did_you_mean(name, known))


def _explained(text: str) -> TriggerError:
    place = _PLACE.search(text)
    path = place[1] if place else ""
    if missing := _MISSING.search(text):
        path = f"{path}.{missing[1]}" if path else missing[1]
        return TriggerError(path, f"'{path}' is missing")
    message = _PLACE.sub("", text)
    hint = None
    if path == "name":
        message = "a name has lower-case letters, digits, '.', '_' and '-', at most 63"
        hint = "write it as nightly-orders"
    return TriggerError(path, message[:1].lower() + message[1:], hint)


MAX_CHAIN = 8
"""Maximum length of a chain of executions that start each other."""

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
PATTERN = re.compile(rf"{_NAME}(/{_NAME})*(/\*)?\Z")


def covers(pattern: str, path: str) -> bool:
    """Return whether a pattern covers a path: ``sales/*`` covers all below
    ``sales``."""
    if pattern.endswith("/*"):
        return path.startswith(pattern[:-1])
    return path == pattern


def starts_after(definition: Definition, path: str | None, status: str) -> bool:
    """Return whether the end of such an execution starts one."""
    finished = definition.finished
    if finished is None or path is None:
        return False
    return status in finished.status and covers(finished.path, path)


def find_loop(new: Definition, others: Iterable[Definition]) -> list[str] | None:
    """Return the playbooks by which the new one would start itself again, if any.

    Statuses are ignored: the status of a future execution is not known.
    """
    triggers = [each for each in others if each.finished and each.name != new.name]
    triggers.append(new)
    way: dict[str, str | None] = {new.path: None}
    open_ = [new.path]
    while open_:
        path = open_.pop()
        for each in triggers:
            if each.finished is None or not covers(each.finished.path, path):
                continue
            if each is new:
                return [*_way_to(path, way), new.path]
            if each.path not in way:
                way[each.path] = path
                open_.append(each.path)
    return None


def _way_to(path: str, way: dict[str, str | None]) -> list[str]:
    found: list[str] = []
    step: str | None = path
    while step is not None:
        found.insert(0, step)
        step = way[step]
    return found


LONGEST_JITTER = 3600.0
_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\Z")
_RATE = re.compile(r"([0-9]{1,9})/([smh])\Z")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
MAX_DELIVERIES = 1_000_000
_KINDS = ("webhook", "schedule", "finished")


def check(definition: Definition, now: float) -> None:
    """Raise ``TriggerError`` with the member that does not fit."""
    given = [name for name in _KINDS if getattr(definition, name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        message = f"a trigger has one of {', '.join(_KINDS)}, found {found}"
        raise TriggerError("", message)
    if _PATH.match(definition.path) is None:
        message = f"'{definition.path[:80]}' is not a playbook path"
        raise TriggerError("playbook", message, "write sales/orders, or sales/orders@2")
    if definition.playbook.endswith("@"):
        raise TriggerError("playbook", "no version follows the @")
    check_templates(definition.kind, definition.workload, "workload")
    check_templates(definition.kind, definition.labels or {}, "labels")
    if definition.webhook is not None and definition.webhook.key is not None:
        check_templates("webhook", definition.webhook.key, "webhook.key")
    if definition.webhook is not None and definition.webhook.rate is not None:
        read_rate(definition.webhook.rate)
    if definition.concurrency is not None:
        key = definition.concurrency.key
        check_templates(definition.kind, key, "concurrency.key", ("workload",))
    if definition.schedule is not None:
        _check_schedule(definition.schedule, now)
    if definition.finished is not None and not PATTERN.match(definition.finished.path):
        message = f"'{definition.finished.path[:80]}' is not a path of playbooks"
        hint = "write sales/orders, or sales/* for all below"
        raise TriggerError("finished.path", message, hint)


def _check_alert(alert: Alert) -> None:
    if _PATH.match(alert.playbook.partition("@")[0]) is None:
        message = f"'{alert.playbook[:80]}' is not a playbook path"
        raise TriggerError("schedule.alert.playbook", message, "write alerts/chat")
    check_templates("schedule", alert.workload, "schedule.alert.workload", ("alert",))
    try:
        parse_duration(alert.after)
    except ValueError as error:
        hint = "write it as 5m or 1h"
        raise TriggerError("schedule.alert.after", str(error), hint) from None


def read_rate(rate: str) -> tuple[int, float]:
    """Return the count and the seconds. Raises ``TriggerError``."""
    found = _RATE.match(rate)
    if found is None or not 1 <= int(found[1]) <= MAX_DELIVERIES:
        message = f"'{rate[:40]}' is not a rate"
        hint = f"write 10/s, 100/m or 1000/h, at most {MAX_DELIVERIES:,}"
        raise TriggerError("webhook.rate", message, hint)
    return int(found[1]), _SECONDS[found[2]]


def _check_schedule(schedule: Schedule, now: float) -> None:
    path, hint = "schedule.zone", "write a name such as Europe/Berlin, or UTC"
    try:
        Cron("* * * * *", schedule.zone)
        path, hint = "schedule.cron", "write it as: 0 2 * * * (daily, at 02:00)"
        cron = Cron(schedule.cron, schedule.zone)
        path, hint = "schedule.jitter", "write it as 30s or 5m"
        jitter = parse_duration(schedule.jitter)
    except ValueError as error:
        raise TriggerError(path, str(error), hint) from None
    if jitter > LONGEST_JITTER:
        raise TriggerError("schedule.jitter", "it is at most an hour", hint)
    if schedule.alert is not UNSET:
        _check_alert(schedule.alert)
    if cron.next(now) is None:
        message = f"'{schedule.cron}' has no slot within the next 50 years"
        raise TriggerError("schedule.cron", message)
