"""Kind ``choose``: which guards hold, now or when something happens."""

from __future__ import annotations

from noetl.dsl.grammar.shape import ANY, MAPPING, TEXT, Shape, one_of
from noetl.dsl.kinds import Input, Kind

CHOOSE = Kind(
    name="choose",
    doc="Says which of its guards hold: for one event, or by waiting for events.",
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
        "event": Input(ANY, "The event that the guards are asked about first."),
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
