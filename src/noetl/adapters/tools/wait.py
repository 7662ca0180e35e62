"""Kind ``wait``: for a time or a signal, holding no worker."""

from __future__ import annotations

from noetl.dsl.grammar.shape import ANY, DURATION, TEXT
from noetl.dsl.kinds import Input, Kind

WAIT = Kind(
    name="wait",
    doc="Waits for a duration, a time or a signal, without holding a worker.",
    inputs={
        "for": Input(DURATION, "How long."),
        "until": Input(TEXT, "Until when: RFC 3339."),
        "signal": Input(TEXT, "The signal's name."),
        "timeout": Input(DURATION, "How long a signal is waited for."),
        "schema": Input(ANY, "JSON Schema of the signal's data."),
    },
    result="The signal's data, else null.",
    one_of=(("for", "until", "signal"),),
    recorded=True,
)
