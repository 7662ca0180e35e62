"""Kind ``noop``: succeeds, doing nothing."""

from __future__ import annotations

from noetl.dsl.grammar.shape import ANY
from noetl.dsl.kinds import Input, Kind

NOOP = Kind(
    name="noop",
    doc="Succeeds, doing nothing.",
    inputs={"result": Input(ANY, "What it returns (null).")},
    row="PIPE-19",
    result="The input `result`, else null.",
    any_input=True,
)
