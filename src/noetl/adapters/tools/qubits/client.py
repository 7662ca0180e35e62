"""The simulator's processes: circuits go there, counts come back."""

from __future__ import annotations

import importlib.util
import os

import msgspec

from noetl.adapters.processes.environment import clean_environment
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.processes.key import Key
from noetl.adapters.processes.pool import Pool
from noetl.adapters.processes.request import Request
from noetl.errors import ToolError
from noetl.types import JSON

_PROGRAM = """
import sys
sys.path[:] = [*sys.path[1:], *folders]
from noetl_quantum.desk import answer
result = answer(request)
"""
_PACKAGES = ("qiskit", "qiskit_aer", "qiskit_qasm3_import", "openqasm3", "numpy")
_BESIDES = 2 * 1024**3  # of addresses: the interpreter, the libraries, the counts
_KEY = "quantum"  # the processes keep nothing between calls: all executions share them


class Refused(msgspec.Struct):
    kind: str
    message: str
    details: dict[str, JSON] = {}


class Answer(msgspec.Struct):
    """One of the two."""

    result: dict[str, JSON] = {}
    refusal: Refused | None = None


class Simulator:
    """At most so many circuits at once as there are slots and processors."""

    def __init__(self, slots: int, isolation: Isolation) -> None:
        self._isolation = isolation
        self._folders = import_folders()
        # A process has one thread; libraries that start more at import are told so.
        environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        places = max(1, min(slots, os.cpu_count() or 1))
        self._pool = Pool(
            places,
            {**clean_environment(), **environment},
            filtered=isolation.is_filtered,
        )

    async def ask(
        self, request: dict[str, JSON], seconds: float | None
    ) -> dict[str, JSON]:
        """Raises ``ToolError``; being cancelled kills the process."""
        args = {"request": request, "folders": self._folders}
        asked = Request(args=args, code=_PROGRAM, environment={})
        memory = request["memory"] * 5 // 4 + _BESIDES
        sandbox = await self._isolation.sandbox(
            None, readable=self._folders, network=False
        )
        key = Key(_KEY, None, memory, sandbox=sandbox)
        try:
            # What the libraries print are warnings, and nobody's business.
            reply = await self._pool.call(key, asked, seconds)
        except ToolError as error:
            raise _crash(error) from None
        if reply.fault is not None:
            if reply.fault.kind == "tool.memory":
                raise _out_of_memory()
            message = f"the simulator failed with {reply.fault.message:.200}"
            raise ToolError("quantum.failed", message)
        answer = msgspec.convert(reply.result, Answer)
        if answer.refusal is not None:
            found = answer.refusal
            raise ToolError(found.kind, found.message, details=found.details)
        return answer.result

    async def close(self) -> None:
        await self._pool.close()


def _crash(error: ToolError) -> ToolError:
    if error.kind == "tool.memory":
        return _out_of_memory()
    if error.kind == "tool.exit":
        message = f"the simulator's process crashed: {error.message}"
        return ToolError("quantum.failed", message, details=error.details)
    return error


def _out_of_memory() -> ToolError:
    message = "the simulation needs more memory than spec.memory allows"
    return ToolError("quantum.limit", message)


def import_folders() -> list[str]:
    """Where the process finds what it imports, also where the user's site is off."""
    folders = [os.path.dirname(os.path.abspath(__file__))]
    for package in _PACKAGES:
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            raise ToolError(
                "quantum.driver",
                f"the local simulator needs the package {package.replace('_', '-')}, "
                "which is not installed; run: pip install '.[quantum]' in a checkout "
                "of NoETL",
            )
        folders.append(os.path.dirname(os.path.dirname(found.origin)))
    return list(dict.fromkeys(folders))
