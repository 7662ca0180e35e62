"""A program run once to its end: what it is started with, and what it left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator

import msgspec

from noetl.adapters.processes.capture import KEPT
from noetl.adapters.processes.endings import describe_exit, exit_details
from noetl.adapters.processes.environment import clean_environment
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.processes.launcher import Launcher, Order, Process, written
from noetl.adapters.processes.limits import (
    read_disk,
    read_isolation,
    read_memory,
    read_timeout,
)
from noetl.adapters.processes.sandbox import Sandbox, clean_variables, enclose
from noetl.adapters.processes.scripts import script_file
from noetl.errors import ToolError
from noetl.ports import ToolCall
from noetl.types import JSON

_PARSED = 10 * 1024 * 1024  # of output that is data, not a log
_SHOWN = 200
_STREAMS = 3  # the standard ones
_GREW = (-signal.SIGXFSZ, 128 + signal.SIGXFSZ)  # itself, or the last of a shell


class Finished(msgspec.Struct, frozen=True):
    """How a program ended and what it printed; of stdout, ``cut`` bytes are lost."""

    status: int
    stdout: str
    stderr: str
    cut: int = 0

    def result(self) -> dict[str, JSON]:
        details = exit_details(self.status)
        return {"stdout": self.stdout, "stderr": self.stderr, **details}

    def error(self) -> ToolError:
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
) -> Finished:
    """Run what a ``script`` call says. Raises ``ToolError`` if it takes too long."""
    required = read_isolation(call.spec) == "required"
    seconds = read_timeout(call.spec)
    memory, disk = read_memory(call.spec), read_disk(call.spec)
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
            limit=_PARSED if is_data else KEPT,
            more=files,
        )
        try:
            return await follow(process, seconds)
        finally:
            process.close()


def enclosed(order: Order, sandbox: Sandbox, call: ToolCall) -> tuple[Order, list[int]]:
    """The same program in a sandbox. Raises ``ToolError`` for a ``cwd`` that is not
    seen there."""
    folder = order.folder
    if call.inputs.get("cwd") is not None and not sandbox.shows(folder or ""):
        message = "cwd is a folder that the sandbox does not show: name it in the "
        raise ToolError("tool.contract", f"{message}setting files.roots")
    found = enclose(sandbox, order.program or (), order.environment, folder, _STREAMS)
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
    """What to execute, and the file of its text: it goes to its interpreter as one,
    whatever its length."""
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
    # Not as an argument: everybody can read those, and they have a limit.
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
    given = call.inputs.get("env") or {}
    if not isinstance(given, dict):
        raise ToolError("tool.contract", "env must be a mapping")
    for name, value in given.items():
        if not name or "=" in name or "\0" in name:
            raise ToolError("tool.contract", f"env: {name!r:.80} is no name")
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = as_text(value, f"env.{name}")
    return variables


def read_folder(call: ToolCall) -> str | None:
    """The working folder: ``cwd`` seen from the playbook's folder, or that itself."""
    cwd = call.inputs.get("cwd")
    if cwd is None:
        return call.folder
    folder = os.path.join(call.folder or os.getcwd(), as_text(cwd, "cwd"))
    if not os.path.isdir(folder):
        raise ToolError("tool.contract", f"cwd: there is no folder '{cwd}'")
    return folder


def read_stdin(call: ToolCall) -> int | None:
    value = call.inputs.get("stdin")
    if value is None:
        return None
    return written(value.encode() if isinstance(value, str) else as_json(value))


def as_text(value: JSON, name: str) -> str:
    """Text as it is, anything else as JSON. A NUL ends an argument: refused."""
    text = value if isinstance(value, str) else as_json(value).decode()
    if "\0" in text:
        raise ToolError("tool.contract", f"{name} contains a NUL character")
    return text


def as_json(value: JSON) -> bytes:
    return msgspec.json.encode(value)
