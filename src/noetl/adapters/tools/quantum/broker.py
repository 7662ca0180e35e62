"""Broker between calls and providers: submit, status, result, cancel, run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import get_args

from noetl.adapters.files import Files, Roots
from noetl.adapters.plugins.enabled import how_to_enable
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.processes.limits import read_memory, read_timeout
from noetl.adapters.tools.quantum.local import LocalProvider
from noetl.dsl.diagnostics import did_you_mean
from noetl.engine.tasks.outcome import Outcome
from noetl.errors import ToolError
from noetl.plugins import Circuit, JobStatus, QuantumPlugin, QuantumProvider
from noetl.ports import ToolCall
from noetl.types import JSON

_SHOTS = 1024
_MAX_BYTES = 1024 * 1024


def read_circuit(call: ToolCall, roots: Roots) -> Circuit:
    """Read the circuit of ``submit`` and ``run``. Raises ``ToolError``."""
    inputs = call.inputs
    text, file = inputs.get("circuit"), inputs.get("file")
    if (text is None) == (file is None):
        operation = inputs.get("operation")
        message = f"operation {operation} needs either 'circuit' or 'file'"
        raise ToolError("tool.contract", message)
    if file is not None:
        text = _read_file(roots, file)
    if not isinstance(text, str):
        raise ToolError("tool.contract", "'circuit' must be text: OpenQASM")
    params = inputs.get("params")
    if params is not None and not isinstance(params, Mapping | list):
        raise ToolError("tool.contract", "'params' must be a mapping or a list")
    options = inputs.get("options") or {}
    if not isinstance(options, Mapping):
        raise ToolError("tool.contract", "'options' must be a mapping")
    return Circuit(
        text=text,
        shots=_number(inputs, "shots", 1) or _SHOTS,
        params=params,
        seed=_number(inputs, "seed", 0),
        options=options,
        memory=read_memory(call.spec),
        timeout=read_timeout(call.spec),
    )


def read_job(call: ToolCall) -> str:
    """Return the id of the job, given as text or as the result of ``submit``."""
    job = call.inputs.get("job")
    if isinstance(job, Mapping):
        job = job.get("job")
    if not isinstance(job, str) or not job:
        operation = call.inputs.get("operation")
        message = f"operation {operation} needs 'job': the result of submit, or its id"
        raise ToolError("tool.contract", message)
    return job


def read_provider(call: ToolCall) -> str:
    """Return the provider of the task, or that of its job."""
    named = call.inputs.get("provider")
    job = call.inputs.get("job")
    if named is None and isinstance(job, Mapping):
        named = job.get("provider")
    if named is None:
        return "local"
    if not isinstance(named, str):
        raise ToolError("tool.contract", "'provider' must be text")
    return named


def _number(inputs: Mapping[str, JSON], name: str, low: int) -> int | None:
    value = inputs.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        expected = f"a whole number of at least {low}"
        message = f"'{name}' must be {expected}, found {value!r:.40}"
        raise ToolError("tool.contract", message)
    return value


def _read_file(roots: Roots, name: JSON) -> str:
    """Read a file below the folders that tools may use."""
    if not isinstance(name, str):
        raise ToolError("tool.contract", "'file' must be the path of a file")
    with roots.open_file(name, "file", "quantum.circuit") as stream:
        try:
            return stream.read(_MAX_BYTES + 1).decode()
        except OSError as error:
            message = f"file: '{name}' cannot be read: {error.strerror}"
            raise ToolError("quantum.circuit", message) from None
        except UnicodeDecodeError:
            message = f"file: '{name}' is not UTF-8 text"
            raise ToolError("quantum.circuit", message) from None


LOCAL = "local"
_FINISHED = frozenset({"done", "failed", "cancelled"})
_MIN_POLL_S, _MAX_POLL_S = 0.02, 5.0  # between two requests for the status of a job


class Broker:
    """Makes each provider on its first use."""

    def __init__(
        self,
        slots: int,
        home: str | None,
        files: Files,
        plugins: Mapping[str, QuantumPlugin],
        isolation: Isolation,
    ) -> None:
        self._isolation = isolation
        self._slots = slots
        self._files = files
        self._home = home
        self._plugins = plugins
        self._providers: dict[str, QuantumProvider] = {}

    async def call(self, call: ToolCall) -> Outcome:
        seconds = read_timeout(call.spec)
        try:
            async with asyncio.timeout(seconds) as limit:
                return Outcome.ok(await self._perform(call))
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"not done after {seconds:g} s"
            raise ToolError("timeout", message, retryable=True) from None

    async def close(self) -> None:
        providers, self._providers = self._providers, {}
        for provider in providers.values():
            await provider.close()

    async def _perform(self, call: ToolCall) -> dict[str, JSON]:
        name, auth = read_provider(call), call.inputs.get("auth")
        operation = call.inputs.get("operation")
        if operation in ("submit", "run"):
            circuit = read_circuit(call, self._files.roots(call.folder))
            provider = self._provider(name)
            if operation == "submit":
                job = await provider.submit(circuit, auth, call.action_id)
                return _job(name, job, "queued")
            key = f"{call.action_id}:{call.attempt}"
            job = await provider.submit(circuit, auth, key)
            await _wait(provider, job, auth)
            return await _fetch(name, provider, job, auth)
        job, provider = read_job(call), self._provider(name)
        if operation == "status":
            return _job(name, job, await provider.status(job, auth))
        if operation == "result":
            return await _fetch(name, provider, job, auth)
        if operation == "cancel":
            await provider.cancel(job, auth)
            return _job(name, job, await provider.status(job, auth))
        known = "submit, status, result, cancel or run"
        message = f"'operation' must be {known}, found {operation!r:.40}"
        raise ToolError("tool.contract", message)

    def _provider(self, name: str) -> QuantumProvider:
        if name not in self._providers:
            self._providers[name] = self._make(name)
        return self._providers[name]

    def _make(self, name: str) -> QuantumProvider:
        if name == LOCAL:
            return LocalProvider(self._slots, self._home, self._isolation)
        if name in self._plugins:
            return self._plugins[name].make()
        hint = how_to_enable("quantum", name)
        hint = hint or did_you_mean(name, {LOCAL, *self._plugins})
        message = f"unknown quantum provider '{name:.40}'; {hint}"
        raise ToolError("quantum.provider", message)


async def _wait(provider: QuantumProvider, job: str, auth: JSON) -> None:
    """Wait until the job has finished; cancels the job if the wait is cancelled."""
    pause = _MIN_POLL_S
    try:
        while await provider.status(job, auth) not in _FINISHED:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _MAX_POLL_S)
    except asyncio.CancelledError:
        await provider.cancel(job, auth)
        raise


async def _fetch(
    name: str, provider: QuantumProvider, job: str, auth: JSON
) -> dict[str, JSON]:
    status = await provider.status(job, auth)
    if status == "cancelled":
        raise ToolError("quantum.cancelled", f"job {job} was cancelled")
    if status not in _FINISHED:
        message = f"job {job} is {status}: ask for its status until it is done"
        raise ToolError("quantum.pending", message, retryable=True)
    found = await provider.result(job, auth)
    if status == "failed":
        raise ToolError("quantum.failed", f"job {job} failed")
    return {**_job(name, job, status), **found}


def _job(provider: str, job: str, status: JobStatus) -> dict[str, JSON]:
    """Return the reference to a job. Raises ``ToolError`` for an invalid answer."""
    if not isinstance(job, str) or status not in get_args(JobStatus):
        message = f"provider {provider} answered {job!r:.40}, {status!r:.40}"
        raise ToolError("tool.contract", message)
    return {"job": job, "provider": provider, "status": status}
