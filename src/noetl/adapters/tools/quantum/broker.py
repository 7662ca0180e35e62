"""Between a call and the provider that it names: submit, look, fetch, cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import get_args

from noetl.adapters.files import Files
from noetl.adapters.plugins.enabled import how_to_enable
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.processes.limits import read_timeout
from noetl.adapters.tools.qubits.local import LocalProvider
from noetl.adapters.tools.qubits.request import read_circuit, read_job, read_provider
from noetl.dsl.diagnostics import did_you_mean
from noetl.engine.outcome import Outcome
from noetl.errors import ToolError
from noetl.plugins import JobStatus, QuantumPlugin, QuantumProvider
from noetl.ports import ToolCall
from noetl.types import JSON

LOCAL = "local"
_OVER = frozenset({"done", "failed", "cancelled"})
_SHORTEST, _LONGEST = 0.02, 5.0  # seconds between two looks at a job that is run


class Broker:
    """Providers are made when they are first named."""

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
        message = f"there is no quantum provider '{name:.40}'; {hint}"
        raise ToolError("quantum.provider", message)


async def _wait(provider: QuantumProvider, job: str, auth: JSON) -> None:
    """Until it is over; whoever does not want to wait any more stops the job."""
    pause = _SHORTEST
    try:
        while await provider.status(job, auth) not in _OVER:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST)
    except asyncio.CancelledError:
        await provider.cancel(job, auth)
        raise


async def _fetch(
    name: str, provider: QuantumProvider, job: str, auth: JSON
) -> dict[str, JSON]:
    status = await provider.status(job, auth)
    if status == "cancelled":
        raise ToolError("quantum.cancelled", f"job {job} was cancelled")
    if status not in _OVER:
        message = f"job {job} is {status}: ask for its status until it is done"
        raise ToolError("quantum.pending", message, retryable=True)
    found = await provider.result(job, auth)
    if status == "failed":
        raise ToolError("quantum.failed", f"job {job} failed")
    return {**_job(name, job, status), **found}


def _job(provider: str, job: str, status: JobStatus) -> dict[str, JSON]:
    """A reference: whoever has it can ask for the rest."""
    if not isinstance(job, str) or status not in get_args(JobStatus):
        message = f"provider {provider} answered {job!r:.40}, {status!r:.40}"
        raise ToolError("tool.contract", message)
    return {"job": job, "provider": provider, "status": status}
