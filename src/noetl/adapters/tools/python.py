"""Kind ``python``: code in a process of its own."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from noetl.adapters.files import Files
from noetl.adapters.host import HostPolicy, own_host
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.processes.limits import (
    read_disk,
    read_isolation,
    read_memory,
    read_timeout,
    tell_memory,
)
from noetl.adapters.processes.request import Key
from noetl.dsl.grammar.records import MAPPING, TEXT, Field, Shape, one_of
from noetl.dsl.tool_kinds import Input, Kind
from noetl.engine.tasks.outcome import Outcome
from noetl.errors import ToolError
from noetl.telemetry.trace_context import VARIABLE
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.adapters.processes.pool import Pool
    from noetl.adapters.processes.request import Fault, Reply, Request
    from noetl.ports import ToolCall

_SIZE = Shape(("text", "integer"), words="bytes, or a size such as 512MiB")
_MEMORY = "Maximum memory per process, up to the setting `limits.memory`, its default."

_NOTES = """
A result is JSON; dates, decimals, sets and other types become JSON by
[one rule](../how-to/write-python-tasks.md#what-a-task-may-return).

A process runs one call at a time. `warm` ones are kept and run calls of one execution;
more are started while calls wait. `fresh` is a process for each call, `required` a
sandbox around it.

Code that only computes needs no process of its own: if it cannot leave state behind,
its process runs calls of other executions next. Such code has functions and plain
values, and imports only parts of `base64`, `collections`, `datetime`, `functools`,
`itertools`, `json`, `math`, `re`, `string` and `time`. With a class, a generator
function, an attribute that is set, a name with two underscores, `str.format`, any other
import, `memory` or another `isolation`, it gets a process of its execution.
"""

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
        "memory": Field(_SIZE, "PIPE-10", _MEMORY),
        "disk": Field(_SIZE, "PIPE-10", "The largest file that it may write."),
        "isolation": Field(
            one_of("warm", "fresh", "required"), "PIPE-10", "The level of isolation."
        ),
    },
    defaults={"timeout": 3600, "isolation": "warm", "disk": "64GiB"},
    one_of=(("code", "module"),),
    notes=_NOTES,
)

_AHEAD = 64  # maximum number of calls queued in a process
_MAX_CACHED = 1024  # codes for which it is known whether they are contained
_PRINTED = 8192  # characters of each stream in an error
RECORD = "\x1e"  # begins a line of a record of ``logging``; see noetl_child/output.py
_RECORD = re.compile(RECORD + r"(\d\d) ([^\n]*\n?)")
_WARNING = 30


class PythonTool:
    """Runs each call in a process of its execution, at most ``slots`` at a time.

    Contained code, which cannot leave state behind, runs in processes that are shared
    by all executions. These processes report code that is not contained.

    ``environment`` has the variables of the code, by default those of
    ``clean_environment``.
    """

    instant = False

    def __init__(
        self,
        slots: int = 8,
        *,
        environment: dict[str, str] | None = None,
        host: HostPolicy | None = None,
        isolation: Isolation | None = None,
    ) -> None:
        host = host or own_host()
        self._isolation = isolation or Isolation(host)
        self._slots = slots
        self._environment = environment
        self._files = Files(host)
        self._pool: Pool | None = None
        self._most = self._isolation.memory
        self._shared = Key("", None, self._most, shared=True)
        self._alone = count(1)
        self._contained: dict[str, bool] = {}  # by code that was run before

    def has_effect(self, call: ToolCall) -> bool:
        """Return False for contained code, which leaves nothing but its result."""
        code = call.inputs.get("code")
        known = isinstance(code, str) and self._contained.get(code, False)
        return not (known and may_share(call))

    async def run(self, call: ToolCall) -> Outcome:
        call = self._files.placed(call)
        request = read_request(call)
        seconds = read_timeout(call.spec)
        try:
            reply = await self._call_shared(call, request, seconds)
            if reply is None:
                key = await self._key(call)
                named = msgspec.structs.replace(request, environment=names_of(call))
                reply = await self._processes().call(key, named, seconds, call.output)
        except ToolError as error:
            error.details.update(collect(error))
            if error.kind == "tool.memory":
                error.message = tell_memory(call.spec, self._most)
            raise
        printed = collect(reply)
        if reply.fault is not None:
            fault = reply.fault
            if fault.kind == "tool.memory":
                fault.message = tell_memory(call.spec, self._most)
            raise fault_error(fault, printed)
        return Outcome.ok(reply.result)

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    def _processes(self) -> Pool:
        if self._pool is None:
            from noetl.adapters.processes.limits import clean_environment
            from noetl.adapters.processes.pool import Pool

            environment = self._environment
            if environment is None:
                environment = clean_environment()
            filtered = self._isolation.is_filtered
            self._pool = Pool(self._slots, environment, _AHEAD, filtered=filtered)
        return self._pool

    async def _call_shared(
        self, call: ToolCall, request: Request, seconds: float | None
    ) -> Reply | None:
        """Return the reply, or None if the code needs a process of its execution."""
        code = request.code
        if code is None or not may_share(call) or not self._contained.get(code, True):
            return None
        sandbox = await self._isolation.sandbox(None)
        if sandbox is not self._shared.sandbox:
            self._shared = self._shared._replace(sandbox=sandbox)
        reply = await self._processes().call(
            self._shared, request, seconds, call.output
        )
        if len(self._contained) >= _MAX_CACHED:
            self._contained.clear()
        self._contained[code] = not reply.foreign
        return None if reply.foreign else reply

    async def _key(self, call: ToolCall) -> Key:
        isolation = read_isolation(call.spec)
        sandbox = await self._isolation.sandbox(
            call.folder, required=isolation == "required"
        )
        return Key(
            call.execution_id,
            call.folder,
            read_memory(call.spec, self._most),
            read_disk(call.spec),
            sandbox=sandbox,
            alone=0 if isolation == "warm" else next(self._alone),
        )


def collect(ended: Reply | ToolError) -> dict[str, JSON]:
    """Return the end of what a call printed, for the details of its error."""
    stdout: str = getattr(ended, "stdout", "")
    stderr: str = getattr(ended, "stderr", "")
    if RECORD in stderr:
        stderr = as_printed(stderr)
    printed: dict[str, JSON] = {"stdout": stdout, "stderr": stderr}
    return {name: text[-_PRINTED:] for name, text in printed.items() if text}


def as_printed(stderr: str) -> str:
    """Return stderr with records of ``logging`` as Python prints them by itself:
    without marks, and from warnings on."""

    def plain(found: re.Match[str]) -> str:
        return found[2] if int(found[1]) >= _WARNING else ""

    return _RECORD.sub(plain, stderr)


def read_request(call: ToolCall) -> Request:
    """Read the request of a call. Raises ``ToolError`` for invalid inputs."""
    from noetl.adapters.processes.request import Request

    inputs = call.inputs
    args = inputs.get("args")
    if args is not None and not isinstance(args, dict):
        message = f"args must be a mapping, found {type(args).__name__}"
        raise ToolError("tool.contract", message)
    if ("code" in inputs) == ("module" in inputs):
        raise ToolError("tool.contract", "give either 'code' or 'module'")
    for name in ("code", "module", "function"):
        if name in inputs and not isinstance(inputs[name], str):
            raise ToolError("tool.contract", f"{name} must be text")
    target = None
    if "module" in inputs:
        target = (inputs["module"], inputs.get("function") or "main")
    return Request(
        args=args or {},
        code=inputs.get("code"),
        target=target,
    )


def may_share(call: ToolCall) -> bool:
    """Return whether the spec allows a shared process, if the code is contained."""
    spec = call.spec
    return spec.get("isolation", "warm") == "warm" and spec.get("memory") is None


def names_of(call: ToolCall) -> dict[str, str]:
    """Return the variables that identify the call to its code."""
    names = {"NOETL_ACTION_ID": call.action_id, "NOETL_ATTEMPT": str(call.attempt)}
    if call.traceparent is not None:
        names[VARIABLE] = call.traceparent
    return names


def fault_error(fault: Fault, printed: dict[str, JSON]) -> ToolError:
    told = {
        "line": fault.line,
        "traceback": fault.traceback,
        "exit_code": fault.exit_code,
    }
    details = {name: value for name, value in told.items() if value is not None}
    return ToolError(
        fault.kind,
        fault.message,
        details={**details, **printed},
        exception_type=fault.type,
    )
