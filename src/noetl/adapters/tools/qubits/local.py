"""Provider ``local``: a simulator on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from hashlib import sha256
from pathlib import Path

from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.tools.qubits.client import Simulator
from noetl.adapters.tools.qubits.jobs import Jobs
from noetl.dsl.diagnostics import did_you_mean
from noetl.errors import ToolError
from noetl.plugins import Circuit, JobStatus
from noetl.types import JSON

METHODS = ("automatic", "statevector", "stabilizer", "matrix_product_state")
MOST_SHOTS = 1_000_000
LONGEST = 1024 * 1024
_MEMORY = 1024**3
_GLANCE = 0.2  # seconds after which a job that another process cancelled is stopped


class LocalProvider:
    """Jobs are files of the home: whichever process is asked for one goes on with it.

    A job that nobody works on, because its process has ended, is begun again; its seed
    is part of it, so the counts are the same.
    """

    def __init__(self, slots: int, home: str | None, isolation: Isolation) -> None:
        if home is None:
            message = "the local simulator keeps its jobs in a home, and there is none"
            raise ToolError("quantum.provider", message)
        self._simulator = Simulator(slots, isolation)
        self._jobs = Jobs(Path(home) / "quantum")
        self._works: dict[str, asyncio.Task[None]] = {}

    async def submit(self, circuit: Circuit, auth: JSON, key: str) -> str:
        body = _body(circuit)
        await self._simulator.ask({**body, "do": "check"}, circuit.timeout)
        job = sha256(key.encode()).hexdigest()[:32]
        await asyncio.to_thread(self._jobs.create, job, body)
        self._work_on(job)
        return job

    async def status(self, job: str, auth: JSON) -> JobStatus:
        self._jobs.read(job)
        end = self._jobs.end(job)
        if end is not None:
            status: JobStatus = end["status"]
            return status
        if self._jobs.is_locked(job):
            return "running"
        self._work_on(job)
        return "queued"

    async def result(self, job: str, auth: JSON) -> dict[str, JSON]:
        self._jobs.read(job)
        end = self._jobs.end(job) or {}
        if end.get("status") == "failed":
            error = end["error"]
            raise ToolError(error["kind"], error["message"], details=error["details"])
        found: dict[str, JSON] = end.get("result") or {}
        return found

    async def cancel(self, job: str, auth: JSON) -> None:
        self._jobs.read(job)
        await asyncio.to_thread(self._jobs.finish, job, {"status": "cancelled"})
        work = self._works.get(job)
        if work is not None:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def close(self) -> None:
        for work in self._works.values():
            work.cancel()
        await asyncio.gather(*self._works.values(), return_exceptions=True)
        await self._simulator.close()

    def _work_on(self, job: str) -> None:
        if job not in self._works:
            work = asyncio.get_running_loop().create_task(self._work(job))
            self._works[job] = work
            work.add_done_callback(lambda _: self._works.pop(job, None))

    async def _work(self, job: str) -> None:
        with self._jobs.lock(job) as ours:
            if not ours or self._jobs.end(job) is not None:
                return
            body = self._jobs.read(job)
            seconds = body.pop("timeout", None)
            asked = self._simulator.ask({**body, "do": "simulate"}, seconds)
            call = asyncio.ensure_future(asked)
            try:
                while not call.done():
                    await asyncio.wait({call}, timeout=_GLANCE)
                    if not call.done() and self._jobs.end(job) is not None:
                        return
                end = _ended(call)
            finally:
                call.cancel()
                with contextlib.suppress(asyncio.CancelledError, ToolError):
                    await call
            await asyncio.to_thread(self._jobs.finish, job, end)


def _ended(call: asyncio.Future[dict[str, JSON]]) -> dict[str, JSON]:
    try:
        return {"status": "done", "result": call.result()}
    except ToolError as error:
        about = {"kind": error.kind, "message": error.message, "details": error.details}
        return {"status": "failed", "error": about}


def _body(circuit: Circuit) -> dict[str, JSON]:
    if len(circuit.text) > LONGEST:
        message = f"the circuit has {len(circuit.text):,} characters, "
        raise ToolError("quantum.limit", f"{message}more than {LONGEST:,}")
    if circuit.shots > MOST_SHOTS:
        message = f"{circuit.shots:,} shots: the local simulator takes {MOST_SHOTS:,}"
        raise ToolError("quantum.limit", message)
    method = circuit.options.get("method", "automatic")
    for name in circuit.options:
        if name != "method":
            hint = did_you_mean(name, ("method",))
            message = f"options: the local simulator has no '{name:.40}'; {hint}"
            raise ToolError("tool.contract", message)
    if method not in METHODS:
        hint = did_you_mean(str(method), METHODS)
        raise ToolError("tool.contract", f"options.method: {method!r:.40}; {hint}")
    return {
        "circuit": circuit.text,
        "params": circuit.params,
        "shots": circuit.shots,
        "seed": secrets.randbits(31) if circuit.seed is None else circuit.seed,
        "method": method,
        "memory": circuit.memory or _MEMORY,
        "timeout": circuit.timeout,
        "sha256": sha256(circuit.text.encode()).hexdigest(),
    }
