"""What a definition must be to be one: checked when it is made, not when it fires."""

from __future__ import annotations

import re

from noetl.dsl.durations import parse_duration
from noetl.triggers.chains import PATTERN
from noetl.triggers.cron import Cron
from noetl.triggers.definition import Definition, Schedule
from noetl.triggers.inputs import TriggerError, check_templates

LONGEST_JITTER = 3600.0
_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\Z")
_RATE = re.compile(r"([0-9]{1,9})/([smh])\Z")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
MOST_DELIVERIES = 1_000_000
_KINDS = ("webhook", "schedule", "finished")


def check(definition: Definition, now: float) -> None:
    """Raises ``TriggerError`` with the member that does not fit."""
    given = [name for name in _KINDS if getattr(definition, name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        message = f"a trigger has one of {', '.join(_KINDS)}, found {found}"
        raise TriggerError("", message)
    if _PATH.match(definition.path) is None:
        message = f"'{definition.path[:80]}' is no path of a playbook"
        raise TriggerError("playbook", message, "write sales/orders, or sales/orders@2")
    if definition.playbook.endswith("@"):
        raise TriggerError("playbook", "no version follows the @")
    check_templates(definition.kind, definition.workload, "workload")
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
        message = f"'{definition.finished.path[:80]}' is no path of playbooks"
        hint = "write sales/orders, or sales/* for all below"
        raise TriggerError("finished.path", message, hint)


def read_rate(rate: str) -> tuple[int, float]:
    """How many, in so many seconds. Raises ``TriggerError``."""
    found = _RATE.match(rate)
    if found is None or not 1 <= int(found[1]) <= MOST_DELIVERIES:
        message = f"'{rate[:40]}' is no rate"
        hint = f"write 10/s, 100/m or 1000/h, at most {MOST_DELIVERIES:,}"
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
    if cron.next(now) is None:
        message = f"'{schedule.cron}' has no slot within the next 50 years"
        raise TriggerError("schedule.cron", message)
