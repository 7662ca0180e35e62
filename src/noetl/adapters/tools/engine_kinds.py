"""Kinds that need nothing outside of NoETL: `choose`, `wait`, `playbook`, `workbook`,
which the engine itself runs, and `noop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.access.permissions import ROLES
from noetl.dsl.grammar.records import (
    ANY,
    DURATION,
    MAPPING,
    TEXT,
    Shape,
    list_of,
    one_of,
)
from noetl.dsl.json_schema import (
    FORMATS,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_PARTS,
    SCHEMA_WORDS,
)
from noetl.dsl.tool_kinds import Input, Kind
from noetl.engine.tasks.outcome import Outcome

if TYPE_CHECKING:
    from noetl.ports import ToolCall

_NOTES = f"""\
`at` is the next time that the clocks of `zone` show it, by the server's clock. Where
they are put forward, a time that is left out comes as much later (02:30 is 03:30 then);
where they are put back, the first of two counts. So there is one such moment each day.

`schema` is checked when the signal is sent: data that does not match is refused, with a
list of the errors, and not recorded. It is JSON Schema 2020-12. Supported are
{SCHEMA_WORDS};
`title`, `description`, `default` and `examples` are for people. A `$ref` leads to a
part of the same schema, and not back to itself: nothing is fetched. A `pattern` has no
look-around and no back references, so that it takes linear time. Of formats
{", ".join(FORMATS)}
are checked; any other `format` is for people. A schema has at most {MAX_PARTS:,} parts
(one that `$ref` names counts each time), nested {MAX_DEPTH} deep, and takes at most
{MAX_BYTES:,} bytes.

`roles` are those of which a sender must have one for the playbook's path; `admin` may
always. Without users, as in `noetl run`, every sender may.

Signals are taken in the order of their arrival, each once. A signal that comes before
its wait is kept for it. A signal that no wait can take any more is refused;
`noetl list --waiting` lists the expected signals.
"""

WAIT = Kind(
    name="wait",
    doc="Waits for a duration, a time or a signal, without holding a worker.",
    inputs={
        "for": Input(DURATION, "The duration."),
        "until": Input(TEXT, "The time: RFC 3339."),
        "at": Input(TEXT, "Until a time of day: `09:00`."),
        "zone": Input(TEXT, "The time zone of `at`: `Europe/Berlin`; else UTC."),
        "signal": Input(TEXT, "The signal's name."),
        "timeout": Input(DURATION, "The maximum wait for a signal."),
        "schema": Input(MAPPING, "JSON Schema of the signal's data: the form."),
        "roles": Input(
            list_of(one_of(*(name for name in ROLES if name != "worker"))),
            "The roles that may send the signal, if a server has users.",
        ),
    },
    result="The signal's data, else null.",
    one_of=(("for", "until", "at", "signal"),),
    recorded=True,
    notes=_NOTES,
)


CHOOSE = Kind(
    name="choose",
    doc="Returns which of its guards hold: for one event, or by waiting for events.",
    inputs={
        "when": Input(
            MAPPING,
            "A guard for each name, in order; they may read `event`.",
            True,
            guards=True,
        ),
        "mode": Input(
            one_of("exclusive", "inclusive"),
            "The first guard that holds (default), or all of them.",
            literal=True,
        ),
        "otherwise": Input(
            TEXT, "The name that is chosen if none holds.", literal=True
        ),
        "event": Input(ANY, "The event for which the guards are evaluated first."),
        "wait": Input(
            Shape(("boolean",)),
            "If none holds, wait for signals, timers and events of other steps.",
            literal=True,
        ),
        "timers": Input(
            MAPPING,
            "Timers by name, armed with the first wait; one named `timeout` that no "
            "guard accepts fails the task.",
        ),
        "result": Input(ANY, "What it returns (null)."),
    },
    result="The input `result`; the names are in `outcome.choose.matched`, the event "
    "in `outcome.choose.event`.",
    recorded=True,
)


PLAYBOOK = Kind(
    name="playbook",
    doc="Runs another playbook and waits for its end, without holding a worker.",
    inputs={
        "path": Input(TEXT, "The child's `metadata.path`.", required=True),
        "version": Input(TEXT, "The child's version (the latest)."),
        "args": Input(MAPPING, "The child's workload."),
        "labels": Input(MAPPING, "Labels of the child, besides those of its playbook."),
    },
    row="PIPE-17",
    result="The child's result. `outcome.playbook` has `execution_id` and `status`.",
    recorded=True,
)


WORKBOOK = Kind(
    name="workbook",
    doc="Runs a template of the root `workbook`; other inputs are merged over it.",
    inputs={"name": Input(TEXT, "The template's name.", required=True, literal=True)},
    row="PIPE-18",
    result="As the template's kind.",
    any_input=True,
)

NOOP = Kind(
    name="noop",
    doc="Succeeds, doing nothing.",
    inputs={
        "result": Input(ANY, "What it returns (null)."),
        "note": Input(ANY, "Recorded with its outcome, as `outcome.noop.note`."),
    },
    row="PIPE-19",
    result="The input `result`, else null.",
    any_input=True,
)


class NoopTool:
    """Returns the input ``result``."""

    instant = True

    def has_effect(self, call: ToolCall) -> bool:
        return False

    async def run(self, call: ToolCall) -> Outcome:
        note = {key: call.inputs[key] for key in ("note",) if key in call.inputs}
        return Outcome.ok(call.inputs.get("result"), **note)

    async def close(self) -> None:
        pass
