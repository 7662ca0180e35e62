"""Kind ``quantum``: jobs on a quantum computer or simulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from noetl.adapters.files import Files
from noetl.adapters.host import HostPolicy, own_host
from noetl.adapters.tools.qubits.notes import NOTES
from noetl.dsl.grammar.shape import MAPPING, TEXT, Field, Shape, integer, one_of
from noetl.dsl.kinds import Input, Kind

if TYPE_CHECKING:
    from noetl.adapters.processes.isolation import Isolation
    from noetl.adapters.tools.qubits.broker import Broker
    from noetl.engine.outcome import Outcome
    from noetl.plugins import QuantumPlugin
    from noetl.ports import ToolCall

_PARAMS = Shape(("mapping", "list"))
_JOB = Shape(("text", "mapping"), words="what submit returned, or its id")
_AUTH = Shape(("text", "mapping"))
_SIZE = Shape(("text", "integer"), words="bytes, or a size such as 512MiB")

QUANTUM = Kind(
    name="quantum",
    doc="Submits, watches, fetches or cancels a quantum job.",
    inputs={
        "operation": Input(
            one_of("submit", "status", "result", "cancel", "run"),
            "What to do.",
            required=True,
        ),
        "provider": Input(TEXT, "Whose machine (the job's, or `local`)."),
        "circuit": Input(TEXT, "The circuit, as OpenQASM 3 or 2."),
        "file": Input(TEXT, "A file with the circuit instead."),
        "shots": Input(integer(1, 1_000_000_000), "How many shots (1,024)."),
        "params": Input(_PARAMS, "Values of the circuit's inputs."),
        "seed": Input(integer(0, 2**31 - 1), "Makes a simulation repeatable."),
        "job": Input(_JOB, "The job of an earlier submit."),
        "options": Input(MAPPING, "The provider's own options."),
        "auth": Input(_AUTH, "The provider's credential, by keychain name."),
    },
    result="The job: `{job, provider, status}`; of `result` and `run`, with `counts`.",
    knobs={
        "memory": Field(_SIZE, "PIPE-10", "Most memory of a simulation (1GiB)."),
    },
    defaults={"timeout": 3600},
    at_most_one=(("circuit", "file"), ("circuit", "job"), ("file", "job")),
    notes=NOTES,
)


class QuantumTool:
    """Asks the provider that a call names. ``home`` is where local jobs are kept."""

    instant = False

    def __init__(
        self,
        slots: int = 8,
        *,
        home: str | None = None,
        host: HostPolicy | None = None,
        plugins: Mapping[str, QuantumPlugin] | None = None,
        isolation: Isolation | None = None,
    ) -> None:
        self._slots = slots
        self._home = home
        self._isolation = isolation
        self._host = host or own_host(home)
        self._plugins = plugins or {}
        self._broker: Broker | None = None

    def has_effect(self, call: ToolCall) -> bool:
        """To simulate twice hurts nobody; other providers send a bill."""
        operation = call.inputs.get("operation")
        if operation == "run" and call.inputs.get("provider") in (None, "local"):
            return False
        return operation in ("submit", "cancel", "run")

    async def run(self, call: ToolCall) -> Outcome:
        if self._broker is None:
            from noetl.adapters.processes.isolation import Isolation
            from noetl.adapters.tools.qubits.broker import Broker

            self._broker = Broker(
                self._slots,
                self._home,
                Files(self._host),
                self._plugins,
                self._isolation or Isolation(self._host),
            )
        return await self._broker.call(call)

    async def close(self) -> None:
        if self._broker is not None:
            await self._broker.close()
            self._broker = None
