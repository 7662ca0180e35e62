"""Kind ``quantum``: jobs on a quantum computer or simulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from noetl.adapters.files import Files
from noetl.adapters.host import HostPolicy, own_host
from noetl.dsl.grammar.records import MAPPING, TEXT, Field, Shape, integer, one_of
from noetl.dsl.tool_kinds import Input, Kind

if TYPE_CHECKING:
    from noetl.adapters.processes.isolation import Isolation
    from noetl.adapters.tools.quantum.broker import Broker
    from noetl.engine.tasks.outcome import Outcome
    from noetl.plugins import QuantumPlugin
    from noetl.ports import ToolCall


NOTES = """
### Operations

| operation | needs | result |
|---|---|---|
| `submit` | `circuit` or `file` | the job: `{job, provider, status}` |
| `status` | `job` | the job, with its status now |
| `result` | `job` | the job, with `counts`, `shots`, `seed` and further members |
| `cancel` | `job` | the job, with the status `cancelled`, or that of its earlier end |
| `run` | `circuit` or `file` | as `result`, when it is done |

A status is `queued`, `running`, `done`, `failed` or `cancelled`. `job` is the result of
`submit`, or the id in it. `result` of an unfinished job is the error `quantum.pending`,
which is retryable; `result` of a failed job is its error.

`run` waits, and holds a slot meanwhile. For jobs that take minutes use `submit`, then
`status` with a rule that retries after a delay: a delay of a second or more gives the
slot back ([Quantum profile](../profiles/quantum.md)).

Submitting again for the same action, after a crash or by a rule that retries, returns
the existing job.

### Circuits

OpenQASM 3 or 2, at most 1 MiB; `file` is a path below the playbook's folder. What a
circuit declares as `input float theta;` is filled from `params`, a mapping by names, or
a list in the order of the declarations. The only include files are `stdgates.inc`
and `qelib1.inc`. In a bit string of `counts` the last bit is bit 0, and registers are
separated by blanks.

### The local simulator

Provider `local` simulates on this machine, in a process that `spec.memory` and
`spec.timeout` limit, one thread per circuit. With the same `seed` the counts are the
same in every run with the same versions; without one a seed is drawn, and reported. It
takes up to 1,000,000 shots (1,024 without `shots`), and as many qubits as fit into
`spec.memory`: 26 in 1 GiB. That is never more than half of the
setting `limits.memory`, 27 qubits on a server by default.
`options: {method: stabilizer}` has room for hundreds of qubits if the circuit has
Clifford gates alone; other methods are `automatic`, `statevector` and
`matrix_product_state`.

Jobs are files of `NOETL_HOME/quantum`. Every process can find a job, and continues one
whose process has died. Jobs are removed 30 days after their end.

Other providers come from plug-ins.
"""
"""Text about the kind in the reference, besides its declaration."""


_PARAMS = Shape(("mapping", "list"))
_JOB = Shape(("text", "mapping"), words="the result of submit, or its id")
_AUTH = Shape(("text", "mapping"))
_SIZE = Shape(("text", "integer"), words="bytes, or a size such as 512MiB")

QUANTUM = Kind(
    name="quantum",
    doc="Submits, watches, fetches or cancels a quantum job.",
    inputs={
        "operation": Input(
            one_of("submit", "status", "result", "cancel", "run"),
            "The operation.",
            required=True,
        ),
        "provider": Input(TEXT, "The provider (the job's, or `local`)."),
        "circuit": Input(TEXT, "The circuit, as OpenQASM 3 or 2."),
        "file": Input(TEXT, "A file with the circuit instead."),
        "shots": Input(integer(1, 1_000_000_000), "Number of shots (1,024)."),
        "params": Input(_PARAMS, "Values of the circuit's inputs."),
        "seed": Input(integer(0, 2**31 - 1), "Makes a simulation repeatable."),
        "job": Input(_JOB, "The job of an earlier submit."),
        "options": Input(MAPPING, "The provider's own options."),
        "auth": Input(_AUTH, "The provider's credential, by keychain name."),
    },
    result="The job: `{job, provider, status}`; of `result` and `run`, with `counts`.",
    knobs={
        "memory": Field(_SIZE, "PIPE-10", "Maximum memory of a simulation (1GiB)."),
    },
    defaults={"timeout": 3600},
    at_most_one=(("circuit", "file"), ("circuit", "job"), ("file", "job")),
    notes=NOTES,
)


class QuantumTool:
    """Calls the provider that a call names. ``home`` holds the local jobs."""

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
        """Return False for a local ``run``, which may be repeated at no cost."""
        operation = call.inputs.get("operation")
        if operation == "run" and call.inputs.get("provider") in (None, "local"):
            return False
        return operation in ("submit", "cancel", "run")

    async def run(self, call: ToolCall) -> Outcome:
        if self._broker is None:
            from noetl.adapters.processes.isolation import Isolation
            from noetl.adapters.tools.quantum.broker import Broker

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
