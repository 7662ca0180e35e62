"""Kind ``workbook``: a task template of the playbook's own."""

from __future__ import annotations

from noetl.dsl.grammar.shape import TEXT
from noetl.dsl.kinds import Input, Kind

WORKBOOK = Kind(
    name="workbook",
    doc="Runs a template of the root `workbook`; other inputs are merged over it.",
    inputs={"name": Input(TEXT, "The template's name.", required=True, literal=True)},
    row="PIPE-18",
    result="As the template's kind.",
    any_input=True,
)
