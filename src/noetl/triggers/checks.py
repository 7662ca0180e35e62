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
    if definition.schedule is not None:
        _check_schedule(definition.schedule, now)
    if definition.finished is not None and not PATTERN.match(definition.finished.path):
        message = f"'{definition.finished.path[:80]}' is no path of playbooks"
        hint = "write sales/orders, or sales/* for all below"
        raise TriggerError("finished.path", message, hint)


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
