"""One call of DuckDB: its files, its turn at them, its process, its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import importlib.util
import os

import msgspec

from noetl.adapters.files import Files, is_under
from noetl.adapters.processes.environment import clean_environment
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.processes.key import Key
from noetl.adapters.processes.limits import read_timeout
from noetl.adapters.processes.pool import Pool
from noetl.adapters.processes.request import Fault as Ending
from noetl.adapters.processes.request import Request as Asked
from noetl.adapters.processes.sandbox import Sandbox
from noetl.adapters.tools.duck.faults import Fault, explain
from noetl.adapters.tools.duck.gates import Gates
from noetl.adapters.tools.duck.request import Request, read_request
from noetl.adapters.tools.duck.scratch import Bench, Scratch
from noetl.adapters.tools.duck.tables import Files as Stored
from noetl.adapters.tools.duck.tables import Tables, fetch
from noetl.engine.outcome import Outcome
from noetl.errors import ToolError
from noetl.ports import ToolCall
from noetl.types import JSON

# The folder is the playbook's, whose modules must not take the place of others.
_PROGRAM = """
import sys
sys.path[:] = [*sys.path[1:], *folders]
from noetl_child.values import Encoded
from noetl_duck.desk import answer
result = Encoded(answer(request))
"""
_OLDEST = 2
_MEBIBYTE = 1024**2
_BESIDES = 1024 * _MEBIBYTE  # of addresses: the interpreter, the driver, a result
_THREAD = 128 * _MEBIBYTE


class Refused(msgspec.Struct):
    kind: str
    message: str
    details: dict[str, JSON] = {}


class Answer(msgspec.Struct):
    """One of the three."""

    result: JSON = None
    refusal: Refused | None = None
    fault: Fault | None = None


class Client:
    """``home`` is where files for the time of a call are; no SQL can name them there
    if ``host`` hides the home."""

    def __init__(
        self, slots: int, home: str | None, host: Files, isolation: Isolation
    ) -> None:
        self._host = host
        self._isolation = isolation
        filtered = isolation.is_filtered
        self._pool = Pool(slots, clean_environment(), filtered=filtered)
        self._gates = Gates()
        self._bench = Bench(home)
        self._folders = import_folders()

    async def call(self, call: ToolCall) -> Outcome:
        seconds = read_timeout(call.spec)
        try:
            async with asyncio.timeout(seconds) as limit:
                return await self._perform(call)
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"not done after {seconds:g} s: DuckDB was stopped"
            raise ToolError("timeout", message, retryable=True) from None

    async def close(self) -> None:
        await self._pool.close()
        self._bench.close()

    async def _perform(self, call: ToolCall) -> Outcome:
        scratch, place = self._bench.scratch(), None
        if self._isolation.is_on:
            place, scratch = self._bench.place(call.execution_id)
        request: Request | None = None
        try:
            async with contextlib.AsyncExitStack() as stack:
                tables = call.inputs.get("tables")
                files = await fetch(tables, call.drafts, stack)
                # Rows are written here, and that takes a while.
                request = await asyncio.to_thread(
                    self._prepare, call, scratch, files, place
                )
                async with self._gates.entered(request.databases()):
                    sandbox = await self._sandbox(call, request, place)
                    return await self._run(call, request, sandbox)
        finally:
            if request is not None:
                await asyncio.to_thread(remove_parts, request)
            await asyncio.to_thread(scratch.remove)

    def _prepare(
        self, call: ToolCall, scratch: Scratch, files: Stored, place: str | None
    ) -> Request:
        roots = self._host.roots(call.folder, home=True)
        request = read_request(call, roots)
        if place is not None:
            request = moved(request, scratch)
        tables = Tables(roots, scratch, files).read(call.inputs.get("tables"))
        return msgspec.structs.replace(
            request, scratch=scratch.path, tables=list(tables)
        )

    async def _sandbox(
        self, call: ToolCall, request: Request, place: str | None
    ) -> Sandbox | None:
        """One that shows the call's files and no others of the home."""
        if place is None:
            return None
        files = [table.file for table in request.tables]
        stored = sorted(file for file in files if not is_under(file, [place]))
        return await self._isolation.sandbox(
            call.folder,
            readable=[*self._folders, *stored],
            own=[place],
            network=False,
        )

    async def _run(
        self, call: ToolCall, request: Request, sandbox: Sandbox | None
    ) -> Outcome:
        memory = request.memory * 5 // 4 + request.threads * _THREAD + _BESIDES
        args = {"request": msgspec.to_builtins(request), "folders": self._folders}
        asked = Asked(args=args, code=_PROGRAM, environment={})
        key = Key(call.execution_id, request.folder, memory, sandbox=sandbox)
        try:
            # DuckDB prints nothing; what others print is not kept.
            reply = await self._pool.call(key, asked, None)
        except ToolError as error:
            raise crash(error, request) from None
        if reply.fault is not None:
            raise defect(reply.fault, request)
        result = result_of(msgspec.convert(reply.result, Answer), request)
        form = result.pop("stored", None)
        if form is None or call.drafts is None:
            return Outcome.ok(result)
        part = request.rows_file if form == "json" else parts_of(request)[0]
        stored = await call.drafts.adopt(str(part), form)
        return Outcome.ok(result, stored={"rows": stored})


def moved(request: Request, scratch: Scratch) -> Request:
    """The same with the files for the result store in the scratch: a sandbox shows no
    other place where they could be written."""
    export = request.export
    if export is not None and export.path is None:
        part = os.path.join(scratch.path, "export")
        export = msgspec.structs.replace(export, part=part)
    rows = request.rows_file
    if rows is not None:
        rows = os.path.join(scratch.path, "rows")
    return msgspec.structs.replace(request, export=export, rows_file=rows)


def parts_of(request: Request) -> list[str]:
    """Files that are in their place when all went well, and else of no use."""
    parts = [request.export.part] if request.export is not None else []
    return parts if request.rows_file is None else [*parts, request.rows_file]


def remove_parts(request: Request) -> None:
    for part in parts_of(request):
        with contextlib.suppress(OSError):
            os.unlink(part)


def result_of(answer: Answer, request: Request) -> dict[str, JSON]:
    if answer.refusal is not None:
        refusal = answer.refusal
        raise ToolError(refusal.kind, refusal.message, details=refusal.details)
    if answer.fault is not None:
        raise explain(answer.fault, memory_of(request))
    result: dict[str, JSON] = answer.result
    return result


def defect(ending: Ending, request: Request) -> ToolError:
    """The process did not expect it; what it says may hold data, so it is not told."""
    if ending.kind == "tool.memory":
        return out_of_memory(request)
    message = f"DuckDB's process failed with {ending.type}"
    return ToolError("duckdb.internal", message)


def crash(error: ToolError, request: Request) -> ToolError:
    if error.kind == "tool.memory":
        return out_of_memory(request)
    if error.details.get("signal"):
        message = f"DuckDB's process crashed: {error.message}"
        return ToolError("duckdb.internal", message, details=error.details)
    return error


def out_of_memory(request: Request) -> ToolError:
    return explain(Fault("OutOfMemory", ""), memory_of(request))


def memory_of(request: Request) -> str:
    return f"{request.memory / _MEBIBYTE:,.0f} MiB"


def import_folders() -> list[str]:
    """Where the process finds what it imports, also where the user's site is off."""
    folders = [os.path.dirname(os.path.abspath(__file__))]
    for package in ("duckdb", "_duckdb", "msgspec"):
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            raise no_driver("which is not installed")
        folder = os.path.dirname(found.origin)
        is_package = found.submodule_search_locations is not None
        folders.append(os.path.dirname(folder) if is_package else folder)
    version = importlib.metadata.version("duckdb")
    if int(version.partition(".")[0]) < _OLDEST:
        raise no_driver(f"and not {version}")
    return list(dict.fromkeys(folders))


def no_driver(why: str) -> ToolError:
    install = "run: pip install '.[duckdb]' in a checkout of NoETL"
    message = f"kind duckdb needs the package duckdb, version {_OLDEST} or newer, {why}"
    return ToolError("duckdb.driver", f"{message}; {install}")
