"""Kind ``quantum``: jobs on a quantum computer or simulator."""

from __future__ import annotations

from noetl.dsl.grammar.shape import MAPPING, TEXT, Shape, integer, one_of
from noetl.dsl.kinds import Input, Kind

_PARAMS = Shape(("mapping", "list"))

QUANTUM = Kind(
    name="quantum",
    doc="Submits, watches, fetches or cancels a quantum job.",
    inputs={
        "operation": Input(
            one_of("submit", "status", "result", "cancel", "run"),
            "What to do.",
            required=True,
        ),
        "provider": Input(TEXT, "Whose machine (the local simulator)."),
        "circuit": Input(TEXT, "The circuit, as OpenQASM."),
        "shots": Input(integer(1, 1_000_000_000), "How many shots."),
        "params": Input(_PARAMS, "Values of the circuit's parameters."),
        "job": Input(Shape(("text", "mapping")), "The job of an earlier submit."),
        "options": Input(MAPPING, "The provider's own options."),
    },
    result="A job reference, or counts.",
    defaults={"timeout": 3600},
)
