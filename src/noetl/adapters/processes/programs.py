"""Run of a program to its end: command, environment, limits and output."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from noetl.adapters.processes.capture import MAX_KEPT_BYTES, describe_exit, exit_details
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.processes.launcher import Launcher, Order, Process, written
from noetl.adapters.processes.limits import (
    clean_environment,
    read_disk,
    read_isolation,
    read_timeout,
)
from noetl.adapters.processes.sandbox import (
    Sandbox,
    clean_variables,
    enclose,
    limited,
)
from noetl.errors import ToolError
from noetl.ports import ToolCall
from noetl.telemetry.trace_context import VARIABLE
from noetl.types import JSON

_PREFIX = "noetl-script-"
# Other users write to this folder: links are not followed, and pipes do not block.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@contextmanager
def script_file(text: str) -> Iterator[str]:
    """Yield the path of a file with the text; it is locked before it is named."""
    file, path = tempfile.mkstemp()
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        folder, name = os.path.split(path)
        os.rename(path, path := os.path.join(folder, _PREFIX + name))
        with open(file, "w", encoding="utf-8", closefd=False) as writer:
            writer.write(text)
        yield path
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)
        os.close(file)


def sweep_scripts() -> None:
    """Remove unlocked files, left by killed processes: they may contain a secret."""
    with os.scandir(tempfile.gettempdir()) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    for path in left:
        with suppress(OSError):  # it belongs to another user, is locked, or gone
            file = os.open(path, _READ)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(file)


_PARSED = 10 * 1024 * 1024  # maximum bytes of output that is parsed as JSON
_SHOWN = 200
_STREAMS = 3  # the standard ones
# Messages of programs and libraries that get no memory, in several languages.
_STARVED = re.compile(
    r"MemoryError|cannot allocate memory|out of memory|memory exhausted|bad_alloc|"
    r"outofmemory|memory allocation of \d+ bytes failed",
    re.IGNORECASE,
)
_LAST = 4096
_GREW = (-signal.SIGXFSZ, 128 + signal.SIGXFSZ)  # of the program, or of its shell


class Finished(msgspec.Struct, frozen=True):
    """Exit status and output of a program; ``cut`` bytes of stdout were dropped."""

    status: int
    stdout: str
    stderr: str
    cut: int = 0

    def result(self) -> dict[str, JSON]:
        details = exit_details(self.status)
        return {"stdout": self.stdout, "stderr": self.stderr, **details}

    def error(self, starved: str | None = None) -> ToolError:
        """Make the error of a failed program.

        ``starved`` is the message for a program that ran out of memory, if limited.
        """
        if starved is not None and _STARVED.search(self.stderr[-_LAST:]):
            return ToolError("tool.memory", starved, details=self.result())
        if self.status in _GREW:
            message = "a file grew above spec.disk"
            return ToolError("tool.disk", message, details=self.result())
        message = describe_exit(self.status)
        lines = self.stderr.strip().splitlines()
        if lines:
            message += f": {lines[-1][:_SHOWN]}"
        return ToolError("tool.exit", message, details=self.result())

    def parsed(self) -> JSON:
        if self.cut:
            message = (
                f"stdout is longer than {_PARSED} bytes, too long for output: json"
            )
            raise ToolError("tool.contract", message, details=self.result())
        try:
            return msgspec.json.decode(self.stdout)
        except (msgspec.DecodeError, RecursionError) as error:
            message = f"stdout is not JSON: {error}"
            raise ToolError("tool.contract", message, details=self.result()) from None


async def run_program(
    call: ToolCall,
    launcher: Launcher,
    environment: dict[str, str] | None,
    isolation: Isolation,
    memory: int | None,
) -> Finished:
    """Run the program of a ``script`` call. Raises ``ToolError`` on a timeout."""
    required = read_isolation(call.spec) == "required"
    seconds = read_timeout(call.spec)
    disk = read_disk(call.spec)
    folder = read_folder(call)
    with read_command(call) as (command, text):
        readable = [] if text is None else [text]
        sandbox = await isolation.sandbox(
            call.folder, required=required, readable=readable
        )
        order = Order(
            program=command,
            environment=read_environment(call, environment, sandbox),
            folder=folder,
            memory=memory,
            disk=disk,
            filtered=isolation.is_filtered,
        )
        files: list[int] = []
        if sandbox is not None:
            order, files = enclosed(order, sandbox, call)
        is_data = call.spec.get("output") == "json"
        process = await launcher.start(
            order,
            stdin=read_stdin(call),
            limit=_PARSED if is_data else MAX_KEPT_BYTES,
            more=files,
            output=call.output,
        )
        try:
            return await follow(process, seconds)
        finally:
            process.close()


def enclosed(order: Order, sandbox: Sandbox, call: ToolCall) -> tuple[Order, list[int]]:
    """Return the order and the files to run a program in a sandbox.

    Raises ``ToolError`` for a ``cwd`` that the sandbox does not contain.
    """
    folder = order.folder
    if call.inputs.get("cwd") is not None and not sandbox.shows(folder or ""):
        message = "cwd is a folder outside of the sandbox: name it in the "
        raise ToolError("tool.contract", f"{message}setting files.roots")
    program = limited(sandbox, order.program or ())
    found = enclose(sandbox, program, order.environment, folder, _STREAMS)
    started = msgspec.structs.replace(
        order, program=found.program, environment={}, folder=None, filtered=False
    )
    return started, found.files


async def follow(process: Process, seconds: float | None) -> Finished:
    try:
        async with asyncio.timeout(seconds):
            status = await process.wait()
    except (TimeoutError, asyncio.CancelledError) as error:
        process.kill()
        await process.wait()
        if isinstance(error, asyncio.CancelledError):
            raise
        message = f"not done after {seconds:g} s: the process was killed"
        details = collect(process, -9).result()
        raise ToolError("timeout", message, retryable=True, details=details) from None
    return collect(process, status)


def collect(process: Process, status: int) -> Finished:
    process.stdout.drain()
    process.stderr.drain()
    cut = process.stdout.cut
    return Finished(status, process.stdout.take(), process.stderr.take(), cut)


@contextlib.contextmanager
def read_command(call: ToolCall) -> Iterator[tuple[list[str], str | None]]:
    """Yield the command, and the path of the script's file if there is a text."""
    given = [
        name for name in ("script", "command") if call.inputs.get(name) is not None
    ]
    if len(given) != 1:
        raise ToolError("tool.contract", "give either 'script' or 'command'")
    what = call.inputs[given[0]]
    if isinstance(what, list):
        if not what:
            raise ToolError("tool.contract", f"{given[0]} is an empty list")
        yield [as_text(part, given[0]) for part in what], None
        return
    interpreter = call.inputs.get("interpreter") or "sh"
    prefix = interpreter if isinstance(interpreter, list) else str(interpreter).split()
    # Not as an argument: all users can read arguments, and their length is limited.
    with script_file(as_text(what, given[0])) as path:
        yield [*(as_text(part, "interpreter") for part in prefix), path], path


def read_environment(
    call: ToolCall, environment: dict[str, str] | None, sandbox: Sandbox | None
) -> dict[str, str]:
    variables = clean_environment() if environment is None else dict(environment)
    if sandbox is not None:
        variables = clean_variables(variables)
    variables["NOETL_ACTION_ID"] = call.action_id
    variables["NOETL_ATTEMPT"] = str(call.attempt)
    if call.traceparent is not None:
        variables[VARIABLE] = call.traceparent
    given = call.inputs.get("env") or {}
    if not isinstance(given, dict):
        raise ToolError("tool.contract", "env must be a mapping")
    for name, value in given.items():
        if not name or "=" in name or "\0" in name:
            message = f"env: {name!r:.80} is not a valid name of a variable"
            raise ToolError("tool.contract", message)
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = as_text(value, f"env.{name}")
    return variables


def read_folder(call: ToolCall) -> str | None:
    """Return ``cwd``, relative to the playbook's folder, or that folder."""
    cwd = call.inputs.get("cwd")
    if cwd is None:
        return call.folder
    folder = os.path.join(call.folder or os.getcwd(), as_text(cwd, "cwd"))
    if not os.path.isdir(folder):
        raise ToolError("tool.contract", f"cwd: the folder '{cwd}' does not exist")
    return folder


def read_stdin(call: ToolCall) -> int | None:
    value = call.inputs.get("stdin")
    if value is None:
        return None
    return written(value.encode() if isinstance(value, str) else as_json(value))


def as_text(value: JSON, name: str) -> str:
    """Return text as it is and other values as JSON. Raises ``ToolError`` for NUL."""
    text = value if isinstance(value, str) else as_json(value).decode()
    if "\0" in text:
        raise ToolError("tool.contract", f"{name} contains a NUL character")
    return text


def as_json(value: JSON) -> bytes:
    return msgspec.json.encode(value)
