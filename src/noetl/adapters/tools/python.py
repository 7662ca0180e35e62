"""Kind ``python``: code in a process of its own."""

from __future__ import annotations

from noetl.dsl.grammar.shape import MAPPING, TEXT, Field, Shape, one_of
from noetl.dsl.kinds import Input, Kind

_MEMORY = Shape(("text", "integer"), words="bytes, or a size such as 512MiB")

PYTHON = Kind(
    name="python",
    doc="Calls `main(…)` of the code, or of a module's function, in a process.",
    inputs={
        "code": Input(
            TEXT,
            "Defines `main(…)`, or assigns `result`. Not a template.",
            literal=True,
        ),
        "args": Input(MAPPING, "The parameters of `main`, and global names."),
        "module": Input(TEXT, "A module on the path, instead of `code`."),
        "function": Input(TEXT, "The function of `module`."),
    },
    row="PIPE-15",
    result="The return value. `outcome.py.exception_type` names a raised exception.",
    knobs={
        "memory": Field(_MEMORY, "PIPE-10", "Most memory of the process."),
        "isolation": Field(
            one_of("warm", "fresh", "required"), "PIPE-10", "How far it is kept apart."
        ),
    },
    defaults={"timeout": 3600, "isolation": "warm"},
    one_of=(("code", "module"),),
)
