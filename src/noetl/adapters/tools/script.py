"""Kinds ``script`` and ``shell``: a program and its exit code."""

from __future__ import annotations

from noetl.dsl.grammar.shape import MAPPING, TEXT, Field, Shape, one_of
from noetl.dsl.kinds import Input, Kind

_COMMAND = Shape(("text", "list"), words="text for the interpreter, or a list (argv)")
_MEMORY = Shape(("text", "integer"), words="bytes, or a size such as 512MiB")


def _kind(name: str, doc: str) -> Kind:
    return Kind(
        name=name,
        doc=doc,
        inputs={
            "script": Input(TEXT, "Text that the interpreter runs.", query="shell"),
            "command": Input(_COMMAND, "Text, or argv as a list.", query="shell"),
            "interpreter": Input(_COMMAND, "What runs the text (`sh`)."),
            "env": Input(MAPPING, "Environment variables."),
            "cwd": Input(TEXT, "The working folder."),
            "stdin": Input(Shape(), "What the program reads."),
        },
        row="PIPE-20",
        result="`{stdout, stderr, exit_code}`; a non-zero code is an error outcome.",
        knobs={
            "output": Field(one_of("text", "json"), "PIPE-10", "How stdout is read."),
            "memory": Field(_MEMORY, "PIPE-10", "Most memory of the process."),
        },
        defaults={"timeout": 3600},
        one_of=(("script", "command"),),
    )


SCRIPT = _kind("script", "Runs a script or a command.")
SHELL = _kind("shell", "Runs a command in a shell.")
