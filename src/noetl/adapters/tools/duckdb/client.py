"""Client of DuckDB: prepares a call, runs it in a process, returns the outcome."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import msgspec

from noetl.adapters.files import Files, is_under
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.processes.limits import clean_environment, read_timeout
from noetl.adapters.processes.pool import Pool
from noetl.adapters.processes.request import Fault as Ending
from noetl.adapters.processes.request import Key
from noetl.adapters.processes.request import Request as Asked
from noetl.adapters.processes.sandbox import Sandbox
from noetl.adapters.tools.duckdb.errors import Fault, explain
from noetl.adapters.tools.duckdb.request import Request, read_request
from noetl.adapters.tools.duckdb.tables import Files as Stored
from noetl.adapters.tools.duckdb.tables import Tables, fetch
from noetl.adapters.tools.duckdb.temp_dirs import Bench, Scratch
from noetl.engine.tasks.outcome import Outcome
from noetl.errors import ToolError
from noetl.extras import install_command
from noetl.ports import ToolCall
from noetl.types import JSON

FilePaths = Mapping[str, bool]
"""Paths of files, with True for a writer."""

_WRITER = -1


class _Waiter(msgspec.Struct, eq=False):
    files: FilePaths
    admitted: asyncio.Future[None]


class Gates:
    """Locks within this process; DuckDB's own lock excludes other processes."""

    def __init__(self) -> None:
        self._inside: dict[str, int] = {}  # number of readers, or _WRITER
        self._waiting: list[_Waiter] = []

    @asynccontextmanager
    async def entered(self, files: FilePaths) -> AsyncIterator[None]:
        """Lock all the files together, which prevents deadlocks."""
        waiter = _Waiter(files, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._admit()
        try:
            await waiter.admitted
            yield
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            else:
                self._leave(files)
            self._admit()

    def _admit(self) -> None:
        claimed: set[str] = set()  # by earlier waiters, so that none starves
        for waiter in list(self._waiting):
            if claimed.isdisjoint(waiter.files) and self._is_free(waiter.files.items()):
                self._waiting.remove(waiter)
                self._enter(waiter.files)
                if not waiter.admitted.done():
                    waiter.admitted.set_result(None)
            else:
                claimed.update(waiter.files)

    def _is_free(self, files: Iterable[tuple[str, bool]]) -> bool:
        return all(
            self._inside.get(file, 0) == 0 if writes else self._inside.get(file, 0) >= 0
            for file, writes in files
        )

    def _enter(self, files: FilePaths) -> None:
        for file, writes in files.items():
            self._inside[file] = _WRITER if writes else self._inside.get(file, 0) + 1

    def _leave(self, files: FilePaths) -> None:
        for file, writes in files.items():
            self._inside[file] = 0 if writes else self._inside[file] - 1
            if not self._inside[file]:
                del self._inside[file]


# The first entry is the playbook's folder, whose modules must not replace others.
_PROGRAM = """
import sys
sys.path[:] = [*sys.path[1:], *folders]
from noetl_child.values import Encoded
from noetl_duck.main import answer
result = Encoded(answer(request))
"""
_MIN_VERSION = 2
_MEBIBYTE = 1024**2
_BESIDES = 1024 * _MEBIBYTE  # address space for the interpreter, driver and result
_THREAD = 128 * _MEBIBYTE


class Refused(msgspec.Struct):
    kind: str
    message: str
    details: dict[str, JSON] = {}


class Answer(msgspec.Struct):
    """Answer of the process: one of result, refusal and fault."""

    result: JSON = None
    refusal: Refused | None = None
    fault: Fault | None = None


class Client:
    """``home`` holds the temporary files of calls.

    SQL cannot name them there if ``host`` hides the home.
    """

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
                # On a thread, since rows are written to files.
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
        request = read_request(call, roots, self._isolation.memory)
        if place is not None:
            request = moved(request, scratch)
        tables = Tables(roots, scratch, files).read(call.inputs.get("tables"))
        return msgspec.structs.replace(
            request, scratch=scratch.path, tables=list(tables)
        )

    async def _sandbox(
        self, call: ToolCall, request: Request, place: str | None
    ) -> Sandbox | None:
        """Make a sandbox with the files of the call, but no others of the home."""
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
            # Messages of the library and of extensions; a statement prints nothing.
            reply = await self._pool.call(key, asked, None, call.output)
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
    """Move the files for the result store to the scratch, which a sandbox can write."""
    export = request.export
    if export is not None and export.path is None:
        part = os.path.join(scratch.path, "export")
        export = msgspec.structs.replace(export, part=part)
    rows = request.rows_file
    if rows is not None:
        rows = os.path.join(scratch.path, "rows")
    return msgspec.structs.replace(request, export=export, rows_file=rows)


def parts_of(request: Request) -> list[str]:
    """Return the temporary files, which are moved away after a success."""
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
        raise explain(answer.fault, tell_memory(request))
    result: dict[str, JSON] = answer.result
    return result


def defect(ending: Ending, request: Request) -> ToolError:
    """Report an unexpected error by its type: its text may contain data."""
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
    return explain(Fault("OutOfMemory", ""), tell_memory(request))


def tell_memory(request: Request) -> str:
    """Describe the limit of memory, and a remedy."""
    size = f"{request.memory / _MEBIBYTE:,.0f} MiB"
    if not request.capped:
        return f"{size}: select less, or raise spec.memory"
    half = "half of the setting limits.memory (NOETL_LIMITS_MEMORY)"
    return f"{size}, {half}, which spec.memory cannot exceed: select less"


def import_folders() -> list[str]:
    """Return the folders of the imports, also if the user's site is disabled."""
    from importlib.metadata import version

    folders = [os.path.dirname(os.path.abspath(__file__))]
    for package in ("duckdb", "_duckdb", "msgspec"):
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            raise no_driver("which is not installed")
        folder = os.path.dirname(found.origin)
        is_package = found.submodule_search_locations is not None
        folders.append(os.path.dirname(folder) if is_package else folder)
    installed = version("duckdb")
    if int(installed.partition(".")[0]) < _MIN_VERSION:
        raise no_driver(f"not {installed}")
    return list(dict.fromkeys(folders))


def no_driver(why: str) -> ToolError:
    install = f"run: {install_command('duckdb')}"
    needed = f"the package duckdb, version {_MIN_VERSION} or newer"
    return ToolError("duckdb.driver", f"kind duckdb needs {needed}, {why}; {install}")
