"""Kinds of problems with what starts executions by itself."""

from __future__ import annotations

from noetl.engine.error_kinds.kind import ErrorKind

TRIGGERS = {
    "backfill.range": ErrorKind(
        "A backfill's range cannot be read, ends in the future, or has no slots, or "
        "too many.",
        "The message says which; a backfill has at most 10,000 slots.",
    ),
    "backfill.state": ErrorKind(
        "The backfill is over, so it cannot be stopped or resumed.",
        "Begin another one: it runs what is missing.",
    ),
    "backfill.unknown": ErrorKind(
        "There is no such backfill, or it is not yours to see.",
        "`noetl backfill list` shows those that are.",
    ),
    "trigger.exists": ErrorKind(
        "There is another trigger of this name.",
        "Change it with `--replace`, or delete it first.",
    ),
    "trigger.inputs": ErrorKind(
        "The inputs of an execution, or its key, cannot be made of what came: a "
        "template of the trigger failed. With a key it is on record as an execution "
        "that failed.",
        "The message names the template; give it a default, or send what it reads.",
    ),
    "trigger.invalid": ErrorKind(
        "A trigger's definition does not fit; `path` leads to the member.",
        "The message says what was found, the hint what is expected.",
    ),
    "trigger.kind": ErrorKind(
        "The trigger is of another kind: only a schedule has slots.",
        "Name a schedule.",
    ),
    "trigger.loop": ErrorKind(
        "The trigger would start itself: what it starts would fire it by its end.",
        "The message shows the round; break it, or name playbooks more closely.",
    ),
    "trigger.paused": ErrorKind(
        "A webhook is paused and takes no deliveries.",
        "`noetl trigger resume NAME`; then its sender sends again.",
    ),
    "trigger.unknown": ErrorKind(
        "There is no such trigger, or it is not yours to see.",
        "`noetl trigger list` shows those that are.",
    ),
}
