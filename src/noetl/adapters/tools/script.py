"""Kinds ``script`` and ``shell``: a program and its exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.adapters.files import Files
from noetl.adapters.host import HostPolicy, own_host
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.processes.limits import read_memory, tell_memory
from noetl.dsl.grammar.records import MAPPING, TEXT, Field, Shape, one_of
from noetl.dsl.tool_kinds import Input, Kind
from noetl.engine.tasks.outcome import Outcome

if TYPE_CHECKING:
    from noetl.adapters.processes.launcher import Launcher
    from noetl.ports import ToolCall

_COMMAND = Shape(("text", "list"), words="text for the interpreter, or a list (argv)")
_SIZE = Shape(("text", "integer"), words="bytes, or a size such as 512MiB")
_MEMORY = "Maximum memory per process, up to the setting `limits.memory`, its default."


def _kind(name: str, doc: str) -> Kind:
    return Kind(
        name=name,
        doc=doc,
        inputs={
            "script": Input(TEXT, "Text that the interpreter runs.", query="shell"),
            "command": Input(_COMMAND, "Text, or argv as a list.", query="shell"),
            "interpreter": Input(_COMMAND, "The program that runs the text (`sh`)."),
            "env": Input(MAPPING, "Environment variables."),
            "cwd": Input(TEXT, "The working folder."),
            "stdin": Input(Shape(), "The standard input."),
        },
        row="PIPE-20",
        result="`{stdout, stderr, exit_code}`; a non-zero code is an error outcome.",
        knobs={
            "output": Field(one_of("text", "json"), "PIPE-10", "The format of stdout."),
            "memory": Field(_SIZE, "PIPE-10", _MEMORY),
            "disk": Field(_SIZE, "PIPE-10", "The largest file that it may write."),
            "isolation": Field(
                one_of("fresh", "required"), "PIPE-10", "The level of isolation."
            ),
        },
        defaults={"timeout": 3600, "disk": "64GiB", "isolation": "fresh"},
        one_of=(("script", "command"),),
    )


SCRIPT = _kind("script", "Runs a script or a command.")
SHELL = _kind("shell", "Runs a command in a shell.")


class ScriptTool:
    """Runs each call in a process of its own, with its descendants."""

    instant = False

    def __init__(
        self,
        *,
        environment: dict[str, str] | None = None,
        host: HostPolicy | None = None,
        isolation: Isolation | None = None,
    ) -> None:
        host = host or own_host()
        self._environment = environment
        self._files = Files(host)
        self._isolation = isolation or Isolation(host)
        self._most = self._isolation.memory
        self._launcher: Launcher | None = None

    def has_effect(self, call: ToolCall) -> bool:
        return True

    async def run(self, call: ToolCall) -> Outcome:
        from noetl.adapters.processes.programs import run_program

        call = self._files.placed(call)
        memory = read_memory(call.spec, self._most)
        finished = await run_program(
            call, self._processes(), self._environment, self._isolation, memory
        )
        if finished.status != 0:
            starved = None if memory is None else tell_memory(call.spec, self._most)
            raise finished.error(starved)
        if call.spec.get("output", "text") == "json":
            return Outcome.ok(finished.parsed())
        return Outcome.ok(finished.result())

    async def close(self) -> None:
        if self._launcher is not None:
            await self._launcher.close()
            self._launcher = None

    def _processes(self) -> Launcher:
        if self._launcher is None:
            from noetl.adapters.processes.launcher import Launcher
            from noetl.adapters.processes.programs import sweep_scripts

            sweep_scripts()
            self._launcher = Launcher()
        return self._launcher
