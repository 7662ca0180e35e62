"""Kind ``wait``: for a time or a signal, holding no worker."""

from __future__ import annotations

from noetl.access.permissions import ROLES
from noetl.dsl.grammar.shape import DURATION, MAPPING, TEXT, list_of, one_of
from noetl.dsl.kinds import Input, Kind
from noetl.dsl.schemas import SCHEMA_WORDS

_NOTES = f"""\
`at` is the next time that the clocks of `zone` show it, by the server's clock. Where
they are put forward, a time that is left out comes as much later (02:30 is 03:30 then);
where they are put back, the first of two counts. So there is one such moment each day.

`schema` is checked when the signal is sent: what does not fit is refused, with a list
of what is wrong, and not recorded. Understood are {SCHEMA_WORDS};
`title`, `description`, `default`, `examples` and `format` are for people.

`roles` are those of which a sender must have one for the playbook's path; `admin` may
always. Without users, as in `noetl run`, anybody may.

Signals are taken in the order in which they came, each once. One that comes before its
wait is kept for it. One that no wait can take any more is refused;
`noetl list --waiting` says what is waited for.
"""

WAIT = Kind(
    name="wait",
    doc="Waits for a duration, a time or a signal, without holding a worker.",
    inputs={
        "for": Input(DURATION, "How long."),
        "until": Input(TEXT, "Until when: RFC 3339."),
        "at": Input(TEXT, "Until a time of day: `09:00`."),
        "zone": Input(TEXT, "The time zone of `at`: `Europe/Berlin`; else UTC."),
        "signal": Input(TEXT, "The signal's name."),
        "timeout": Input(DURATION, "How long a signal is waited for."),
        "schema": Input(MAPPING, "JSON Schema of the signal's data: the form."),
        "roles": Input(
            list_of(one_of(*(name for name in ROLES if name != "worker"))),
            "Who may send the signal, where a server has users.",
        ),
    },
    result="The signal's data, else null.",
    one_of=(("for", "until", "at", "signal"),),
    recorded=True,
    notes=_NOTES,
)
