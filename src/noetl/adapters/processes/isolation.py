"""Isolation of code of playbooks: whether it needs a sandbox, and its limits."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from noetl.adapters.files import Files
from noetl.adapters.host import HostPolicy
from noetl.adapters.processes.limits import clean_environment
from noetl.errors import ToolError

if TYPE_CHECKING:
    from noetl.adapters.processes.sandbox import Probe, Sandbox

_MAX_CACHED = 256
_PROBE_INTERVAL_S = 10.0  # while sandboxes do not work on this machine


State = Literal["sandbox", "refused", "off", "none"]

_OPEN = "isolation: none: code of playbooks runs without a sandbox, and can read all "
_OPEN += "that this process can, including its tokens and keys"


class Isolation:
    """Decides whether a call needs a sandbox.

    ``has_accounts`` returns whether several users share this server: their code must
    reach nothing of each other, nor of the server.
    """

    def __init__(
        self,
        host: HostPolicy,
        has_accounts: Callable[[], bool] = lambda: False,
        *,
        path: str | None = None,
    ) -> None:
        self._host = host
        self._files = Files(host)
        self._has_accounts = has_accounts
        self._path = path
        self._probe: Probe | None = None
        self._probed = 0.0
        self._usual: dict[str | None, Sandbox] = {}  # by folder, while isolation is on

    @property
    def is_on(self) -> bool:
        """True if code may run in a sandbox only."""
        setting = self._host.isolation
        return setting == "required" or (setting == "auto" and self._has_accounts())

    @property
    def memory(self) -> int | None:
        """Maximum memory of a process of code in bytes, None for no limit."""
        return self._host.memory

    @property
    def is_filtered(self) -> bool:
        """True if the system calls of code without a sandbox are filtered."""
        return self._host.isolation != "none"

    async def sandbox(
        self,
        folder: str | None,
        *,
        required: bool = False,
        readable: Sequence[str] = (),
        own: Sequence[str] = (),
        network: bool = True,
    ) -> Sandbox | None:
        """Return the sandbox of a call, or None if it needs none.

        The call can read the ``readable`` paths and write to its ``own`` folders,
        besides those of the policy. Raises ``ToolError`` (``tool.isolation``) if a
        sandbox is needed and cannot be made.
        """
        is_on = self.is_on
        if not is_on and not required:
            return None
        is_usual = is_on and network and not readable and not own
        if is_usual and folder in self._usual:
            return self._usual[folder]
        sandbox = await self._make(folder, required, readable, own, network)
        if is_usual:
            if len(self._usual) >= _MAX_CACHED:
                self._usual.clear()
            self._usual[folder] = sandbox
        return sandbox

    async def _make(
        self,
        folder: str | None,
        required: bool,
        readable: Sequence[str],
        own: Sequence[str],
        network: bool,
    ) -> Sandbox:
        from noetl.adapters.processes.sandbox import Sandbox

        probe = await self.probe()
        if probe.program is None or probe.problem is not None:
            raise self._refused(probe, required)
        host = self._host
        seen = list(readable)
        of_playbook = self._files.folder(folder)
        if of_playbook is not None:
            seen.append(of_playbook)
        # On a user's own machine, a call that asks for a sandbox gets no folders.
        roots = host.roots if self.is_on or not host.own else ()
        return Sandbox(
            probe.program,
            tuple(seen),
            roots,
            host.hidden,
            tuple(own),
            network and host.isolation_network and self.is_on,
            probe.bounded,
            host.processes,
        )

    async def state(self) -> State:
        """Return the present state of isolation."""
        if self._host.isolation == "none":
            return "none"
        if not self.is_on:
            return "off"
        return "sandbox" if (await self.probe()).problem is None else "refused"

    async def describe(self) -> tuple[int, str]:
        """Return the level and the text of a log line about the state."""
        state = await self.state()
        if state == "none":
            return logging.WARNING, _OPEN
        if state == "off":
            message = "isolation: off until this server has accounts"
            return logging.INFO, message
        if state == "sandbox":
            message = "isolation: where servers have accounts, code runs in a sandbox"
            return logging.INFO, message
        return logging.WARNING, f"isolation: {self._refused(await self.probe(), False)}"

    async def probe(self) -> Probe:
        """Try to start a sandbox; a success is cached, a failure for 10 s."""
        now = time.monotonic()
        known = self._probe
        if known is None or (
            known.problem is not None and now - self._probed > _PROBE_INTERVAL_S
        ):
            import asyncio

            from noetl.adapters.processes.sandbox import look

            path = clean_environment()["PATH"] if self._path is None else self._path
            known = self._probe = await asyncio.to_thread(look, path)
            self._probed = time.monotonic()
        return known

    def _refused(self, probe: Probe, required: bool) -> ToolError:
        if required and not self.is_on:
            why = "spec.isolation: required needs a sandbox"
            instead = "use isolation: fresh"
        else:
            why = "code runs in a sandbox on this server"
            instead = "set isolation: none (NOETL_ISOLATION), which lets code reach all"
            instead += " that the server can"
        message = f"{why}, but {probe.problem}; {probe.cure}, or {instead}"
        return ToolError("tool.isolation", message)


_PR_SET_DUMPABLE = 4


def forbid_tracing() -> None:
    """Forbid debuggers, core files and access by ``/proc`` to this process.

    A program that it executes is not protected.
    """
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
