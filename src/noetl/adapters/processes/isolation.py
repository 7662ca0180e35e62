"""Whether code of playbooks runs in a sandbox at this moment, and in which one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from noetl.adapters.files import Files
from noetl.adapters.host import HostPolicy
from noetl.adapters.processes.environment import clean_environment
from noetl.errors import ToolError

if TYPE_CHECKING:
    from noetl.adapters.processes.probe import Probe
    from noetl.adapters.processes.sandbox import Sandbox

_MANY = 256
_AGAIN = 10.0  # seconds after which a machine without a sandbox is looked at again


State = Literal["sandbox", "refused", "off", "none"]

_OPEN = "isolation: none: code of playbooks runs without a sandbox, and reaches all "
_OPEN += "that this process can, its tokens and keys included"


class Isolation:
    """``has_accounts`` says whether people besides its owner use this server: their
    code is to reach nothing of each other, nor of the server."""

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
        """Whether all code runs in a sandbox, or not at all."""
        setting = self._host.isolation
        return setting == "required" or (setting == "auto" and self._has_accounts())

    @property
    def is_filtered(self) -> bool:
        """Whether code without a sandbox cannot make all system calls."""
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
        """The one for a call, or None if it needs none.

        ``readable`` paths and folders of its ``own``, to write to, are what it needs
        besides those of the policy. Raises ``ToolError`` (``tool.isolation``) if there
        must be one and cannot.
        """
        is_on = self.is_on
        if not is_on and not required:
            return None
        is_usual = is_on and network and not readable and not own
        if is_usual and folder in self._usual:
            return self._usual[folder]
        sandbox = await self._make(folder, required, readable, own, network)
        if is_usual:
            if len(self._usual) >= _MANY:
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
        # On a user's own machine, a call that asks for a sandbox wants to be alone.
        roots = host.roots if self.is_on or not host.own else ()
        return Sandbox(
            probe.program,
            tuple(seen),
            roots,
            host.hidden,
            tuple(own),
            network and host.isolation_network and self.is_on,
            probe.bounded,
        )

    async def state(self) -> State:
        """What happens to code at this moment."""
        if self._host.isolation == "none":
            return "none"
        if not self.is_on:
            return "off"
        return "sandbox" if (await self.probe()).problem is None else "refused"

    async def describe(self) -> tuple[int, str]:
        """The same as a line of a log, with its level."""
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
        """Whether a sandbox can be made here: one is. What works is not tried again."""
        now = time.monotonic()
        known = self._probe
        if known is None or (known.problem is not None and now - self._probed > _AGAIN):
            import asyncio

            from noetl.adapters.processes.probe import look

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
        message = f"{why}, and {probe.problem}; {probe.cure}, or {instead}"
        return ToolError("tool.isolation", message)
