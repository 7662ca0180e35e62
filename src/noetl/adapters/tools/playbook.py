"""Kind ``playbook``: another playbook as a task."""

from __future__ import annotations

from noetl.dsl.grammar.shape import MAPPING, TEXT
from noetl.dsl.kinds import Input, Kind

PLAYBOOK = Kind(
    name="playbook",
    doc="Runs another playbook and waits for its end, without holding a worker.",
    inputs={
        "path": Input(TEXT, "The child's `metadata.path`.", required=True),
        "version": Input(TEXT, "The child's version (the latest)."),
        "args": Input(MAPPING, "The child's workload."),
    },
    row="PIPE-17",
    result="The child's result. `outcome.playbook` has `execution_id` and `status`.",
    recorded=True,
)
