"""Tools at work: real processes, and a real server on the loopback interface."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.engine.tasks.outcome import Outcome
from noetl.errors import ToolError
from noetl.ports import Tool, ToolCall
from noetl.ports.task_logs import Level, Stream

PEER = Path(__file__).parents[2] / "support" / "peers" / "http.py"


def build_call(kind: str, inputs: dict[str, Any], **more: Any) -> ToolCall:
    known: dict[str, Any] = {
        "execution_id": "e1",
        "step": "s",
        "task": "t",
        "action_id": "a1",
        "attempt": 1,
        "spec": {"timeout": 30},
    }
    return ToolCall(kind=kind, inputs=inputs, **{**known, **more})


def run_calls(
    tool: Tool, work: Callable[[Callable[[ToolCall], Awaitable[Outcome]]], Any]
) -> Any:
    """Run an async function of ``tool.run``, and close the tool whatever happens."""

    async def main() -> Any:
        try:
            return await work(tool.run)
        finally:
            await tool.close()

    return asyncio.run(main())


class Heard:
    """The log of one call, in memory."""

    is_full = False

    def __init__(self) -> None:
        self.streams = {name: bytearray() for name in ("stdout", "stderr", "log")}

    def write(self, stream: Stream, data: bytes) -> None:
        self.streams[stream] += data

    def log(self, level: Level, text: str) -> None:
        self.streams["log"] += f"{level}: {text}\n".encode()

    def when_stored(self, act: Callable[[], None]) -> None:
        raise AssertionError("it is never full")


class Listening:
    """A tool whose calls have a log; ``hear(call, stdout, stderr)`` gets each that
    printed something."""

    instant = False

    def __init__(self, tool: Tool, hear: Callable[[ToolCall, str, str], None]) -> None:
        self._tool = tool
        self._hear = hear

    def has_effect(self, call: ToolCall) -> bool:
        return self._tool.has_effect(call)

    async def run(self, call: ToolCall) -> Outcome:
        heard = Heard()
        try:
            return await self._tool.run(msgspec.structs.replace(call, output=heard))
        finally:
            out, err, _ = (
                data.decode(errors="replace") for data in heard.streams.values()
            )
            if out or err:
                self._hear(call, out, err)

    async def close(self) -> None:
        await self._tool.close()


@pytest.fixture
def heard() -> Heard:
    """The log of a call: pass it as ``output``."""
    return Heard()


@pytest.fixture(scope="session")
def listening() -> Callable[..., Tool]:
    """``listening(tool, hear)``: hears what each call printed."""
    return Listening


def run_once(tool: Tool, call: ToolCall) -> Outcome:
    """The outcome of one call, as an executor makes it of a ``ToolError``."""

    async def work(run: Callable[[ToolCall], Awaitable[Outcome]]) -> Outcome:
        return await outcome_of(run(call))

    outcome: Outcome = run_calls(tool, work)
    return outcome


async def outcome_of(running: Awaitable[Outcome]) -> Outcome:
    try:
        return await running
    except ToolError as error:
        return Outcome.failed(
            error.kind,
            error.message,
            retryable=error.retryable,
            details=error.details,
            **error.helper,
        )


@pytest.fixture(scope="session")
def call() -> Callable[..., ToolCall]:
    """``call(kind, inputs, spec=…)``: a call with all the rest filled in."""
    return build_call


@pytest.fixture(scope="session")
def once() -> Callable[[Tool, ToolCall], Outcome]:
    return run_once


@pytest.fixture(scope="session")
def using() -> Callable[..., Any]:
    """``using(tool, work)``: several calls of one tool."""
    return run_calls


@pytest.fixture(scope="session")
def outcome() -> Callable[[Awaitable[Outcome]], Awaitable[Outcome]]:
    return outcome_of


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[int]:
    command = [sys.executable, "-I", str(PEER), *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as program:
        assert program.stdout is not None
        yield int(program.stdout.readline())
        program.communicate()  # ends its input, and so the peer


@pytest.fixture(scope="session")
def peer() -> Iterator[str]:
    """The address of the peer."""
    with serving() as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def untrusted_peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The peer with a certificate that nobody vouches for."""
    file = str(tmp_path_factory.mktemp("tls") / "certificate.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-keyout", file, "-out", f"{file}.crt"]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    with open(file, "a") as target:
        target.write(Path(f"{file}.crt").read_text())
    with serving(file) as port:
        yield f"https://127.0.0.1:{port}"


@pytest.fixture
def sql(postgres: str) -> Callable[..., Outcome]:
    """``sql(command, spec, **inputs)``: one call of a tool of its own."""

    def run(
        command: str | None, spec: dict[str, Any] | None = None, **inputs: Any
    ) -> Outcome:
        from noetl.adapters.tools.postgres.tool import PostgresTool

        names = ("folder", "output")
        more = {name: inputs.pop(name) for name in names if name in inputs}
        given = {"dsn": postgres, "command": command, **inputs}
        spec = {"timeout": 30, **(spec or {})}
        return run_once(
            PostgresTool(), build_call("postgres", given, spec=spec, **more)
        )

    return run


@pytest.fixture
def look(postgres: str) -> Callable[[str], list[tuple[Any, ...]]]:
    """``look(query)``: the rows, by the driver alone."""

    async def fetch(query: str) -> list[tuple[Any, ...]]:
        import asyncpg

        connection = await asyncpg.connect(postgres)
        try:
            return [tuple(row) for row in await connection.fetch(query)]
        finally:
            await connection.close()

    return lambda query: asyncio.run(fetch(query))
