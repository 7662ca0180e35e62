"""Kind ``secrets``: looks a secret up while the workflow runs."""

from __future__ import annotations

from noetl.dsl.grammar.shape import TEXT
from noetl.dsl.kinds import Input, Kind

SECRETS = Kind(
    name="secrets",
    doc="Looks up a secret.",
    inputs={
        "name": Input(TEXT, "The secret's name."),
        "provider": Input(TEXT, "Who keeps it."),
        "path": Input(TEXT, "Where the provider keeps it."),
    },
    row="PIPE-16",
    result="A sealed handle; the value is never logged.",
    defaults={"timeout": 60},
    one_of=(("name", "path"),),
)
