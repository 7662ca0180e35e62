"""Provider ``local``: a simulator on this machine, in processes that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib.util
import os
import re
import secrets
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.processes.limits import clean_environment
from noetl.adapters.processes.pool import Pool
from noetl.adapters.processes.request import Key, Request
from noetl.dsl.diagnostics import did_you_mean
from noetl.errors import ToolError
from noetl.extras import install_command
from noetl.plugins import Circuit, JobStatus
from noetl.types import JSON

_ID = re.compile(r"[0-9a-f]{32}\Z")
_MAX_AGE_S = 30 * 86400.0


class Jobs:
    """``<id>.job`` is the request, ``<id>.end`` the result. Calls block shortly."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self, job: str, body: dict[str, JSON]) -> None:
        """Create a job; does nothing if it exists."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._prune()
        if not self._file(job, "job").exists():
            self._write(self._file(job, "job"), body)

    def read(self, job: str) -> dict[str, JSON]:
        """Return the request of a job. Raises ``ToolError`` if it does not exist."""
        body = self._load(self._file(job, "job"))
        if body is None:
            message = f"the local simulator has no job '{job:.60}' in {self._folder}"
            raise ToolError("quantum.unknown_job", message)
        return body

    def end(self, job: str) -> dict[str, JSON] | None:
        """Return ``{"status": …}`` with the result or the error; None if unfinished."""
        return self._load(self._file(job, "end"))

    def finish(self, job: str, end: dict[str, JSON]) -> bool:
        """Store the end of a job; returns False if it has already ended."""
        if self._file(job, "end").exists():
            return False
        self._write(self._file(job, "end"), end)
        return True

    def is_locked(self, job: str) -> bool:
        """Return whether a process is running the job."""
        with self.lock(job) as free:
            return not free

    @contextlib.contextmanager
    def lock(self, job: str) -> Iterator[bool]:
        """Try to lock the job; yields whether it succeeded.

        The system releases the lock if this process dies.
        """
        try:
            file = os.open(self._file(job, "job"), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            yield False
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield True
        except BlockingIOError:
            yield False
        finally:
            os.close(file)

    def _file(self, job: str, ending: str) -> Path:
        # An id that was not made here could be the path of another file.
        name = job if _ID.match(job) else "none"
        return self._folder / f"{name}.{ending}"

    def _load(self, file: Path) -> dict[str, JSON] | None:
        try:
            return msgspec.json.decode(file.read_bytes(), type=dict)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            message = f"{file} cannot be read: {error}"
            raise ToolError("quantum.failed", message) from None

    def _write(self, file: Path, body: dict[str, JSON]) -> None:
        """Write a file atomically."""
        temporary = file.with_suffix(f".{secrets.token_hex(8)}")
        try:
            with open(temporary, "xb", opener=_private) as stream:
                stream.write(msgspec.json.encode(body))
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, file)
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            message = f"{file} cannot be written: {error.strerror}"
            raise ToolError("quantum.failed", message) from None

    def _prune(self) -> None:
        """Remove jobs that ended more than ``_MAX_AGE_S`` ago."""
        oldest = time.time() - _MAX_AGE_S
        for end in self._folder.glob("*.end"):
            with contextlib.suppress(FileNotFoundError):
                if end.stat().st_mtime < oldest:
                    end.with_suffix(".job").unlink(missing_ok=True)
                    end.unlink()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


_PROGRAM = """
import sys
sys.path[:] = [*sys.path[1:], *folders]
from noetl_quantum.main import answer
result = answer(request)
"""
_PACKAGES = ("qiskit", "qiskit_aer", "qiskit_qasm3_import", "openqasm3", "numpy")
_BESIDES = 2 * 1024**3  # address space for the interpreter, libraries and counts
_KEY = "quantum"  # the processes have no state, so all executions share them


class Refused(msgspec.Struct):
    kind: str
    message: str
    details: dict[str, JSON] = {}


class Answer(msgspec.Struct):
    """Answer of the process: a result or a refusal."""

    result: dict[str, JSON] = {}
    refusal: Refused | None = None


class Simulator:
    """Simulates circuits in parallel, limited by ``slots`` and processors."""

    def __init__(self, slots: int, isolation: Isolation) -> None:
        self._isolation = isolation
        self._folders = import_folders()
        # One thread per process: some libraries would start more at import.
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
        """Send a request. Raises ``ToolError``; a cancellation kills the process."""
        most = self._isolation.memory
        if most is not None:  # the libraries need the other half for themselves
            request = {**request, "memory": min(request["memory"], most // 2)}
        args = {"request": request, "folders": self._folders}
        asked = Request(args=args, code=_PROGRAM, environment={})
        memory = request["memory"] * 5 // 4 + _BESIDES
        sandbox = await self._isolation.sandbox(
            None, readable=self._folders, network=False
        )
        key = Key(_KEY, None, memory, sandbox=sandbox)
        try:
            # The libraries print only warnings, which are dropped.
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
    message = "the simulation needs more memory than spec.memory, or half of the "
    message += "setting limits.memory (NOETL_LIMITS_MEMORY), allows"
    return ToolError("quantum.limit", message)


def import_folders() -> list[str]:
    """Return the folders of the imports, also if the user's site is disabled."""
    folders = [os.path.dirname(os.path.abspath(__file__))]
    for package in _PACKAGES:
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            raise ToolError(
                "quantum.driver",
                f"the local simulator needs the package {package.replace('_', '-')}, "
                f"which is not installed; run: {install_command('quantum')}",
            )
        folders.append(os.path.dirname(os.path.dirname(found.origin)))
    return list(dict.fromkeys(folders))


METHODS = ("automatic", "statevector", "stabilizer", "matrix_product_state")
MAX_SHOTS = 1_000_000
MAX_CHARS = 1024 * 1024
_MEMORY = 1024**3
_POLL_INTERVAL_S = 0.2  # for the cancellation of a job by another process


class LocalProvider:
    """Jobs are files of the home, which every process can continue.

    A job whose process has ended is started again; its seed is part of the job, so the
    counts are the same.
    """

    def __init__(self, slots: int, home: str | None, isolation: Isolation) -> None:
        if home is None:
            message = "the local simulator stores its jobs in NOETL_HOME: set it"
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
                    await asyncio.wait({call}, timeout=_POLL_INTERVAL_S)
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
    if len(circuit.text) > MAX_CHARS:
        message = f"the circuit has {len(circuit.text):,} characters, "
        raise ToolError("quantum.limit", f"{message}more than {MAX_CHARS:,}")
    if circuit.shots > MAX_SHOTS:
        message = f"{circuit.shots:,} shots: the local simulator takes {MAX_SHOTS:,}"
        raise ToolError("quantum.limit", message)
    method = circuit.options.get("method", "automatic")
    for name in circuit.options:
        if name != "method":
            hint = did_you_mean(name, ("method",))
            message = f"options: unknown option '{name:.40}' of provider local; {hint}"
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
