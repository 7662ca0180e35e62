"""The worker: a pool of slots without endpoints; it claims, works and reports."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from noetl.adapters.host import HostPolicy
from noetl.adapters.network import Endpoint, Network
from noetl.adapters.network.endpoints import endpoints_of
from noetl.adapters.plugins.enabled import Plugins
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.secrets.worker_seal import WorkerSeal
from noetl.adapters.servers.http import HttpTransport
from noetl.adapters.tools.registry import make_tools
from noetl.cluster.nats import Nats
from noetl.cluster.postgres import Postgres
from noetl.config import (
    DATABASE,
    NATS,
    RESULTS_URL,
    Settings,
    host_policy,
    read_settings,
)
from noetl.dialects import load
from noetl.dsl.model import Playbook
from noetl.errors import ConfigError
from noetl.home import Home
from noetl.ports import Lease
from noetl.results import make_blobs
from noetl.runtime.clock import SystemClock
from noetl.runtime.executor import Executor
from noetl.runtime.line import Line
from noetl.runtime.remote import RemoteDispatcher
from noetl.trust import Trust, trusted

log = logging.getLogger("noetl.worker")

DRAIN = 25.0
"""Seconds in which tools may come to their end when the worker stops."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """``policy`` is what its tools may reach, by default what the settings say of a
    server; ``personal`` is the folder of a ``noetl up`` that started it."""

    servers: Sequence[str]
    token: str
    pool: str = "default"
    slots: int = 16
    policy: HostPolicy | None = None
    personal: str | None = None


class Worker:
    """Opens connections only outwards (WKR-01). Large results go by way of the server;
    with a ``results_url``, which must be the servers' own, straight there."""

    def __init__(
        self,
        home: Home,
        options: Options,
        plugins: Plugins,
        trust: Trust = lambda url: trusted(),
    ) -> None:
        self.name = _new_name()
        self._kinds = plugins.kinds
        self._stopping = asyncio.Event()
        self._forced = asyncio.Event()
        self._transport = HttpTransport(options.servers, options.token, trust)
        settings = read_settings()
        at = settings[RESULTS_URL]
        results = str(home.drafts) if at is None else make_blobs(home, plugins)
        self._dispatcher = dispatcher = RemoteDispatcher(
            Line(self._transport),
            self._parse,
            WorkerSeal(options.token),
            results,
            worker=self.name,
            pool=options.pool,
            slots=options.slots,
        )
        policy = options.policy or host_policy(
            settings,
            home.folder,
            "server" if options.personal is None else "personal",
            options.personal,
        )
        self._isolation = Isolation(policy, dispatcher.line.has_accounts)
        self._tools = make_tools(
            options.slots,
            dispatcher.tokens,
            host=policy,
            isolation=self._isolation,
            network=Network(policy.private, own_endpoints(home, options, settings)),
            home=str(home.folder),
            plugins=plugins,
        )
        self._executor = Executor(
            dispatcher,
            self._tools,
            SystemClock(),
            owner=self.name,
            slots=options.slots,
        )

    async def serve(self) -> None:
        """Until ``stop``: what is under way is finished, or another one goes on."""
        log.log(*await self._isolation.describe())
        serving = asyncio.create_task(self._executor.serve())
        stopping = asyncio.create_task(self._stopping.wait())
        left: Sequence[Lease] = ()
        try:
            await asyncio.wait({serving, stopping}, return_when="FIRST_COMPLETED")
            if not serving.done():
                log.info("stopping: what is under way is finished first")
                await self._drain()
                left = self._executor.leases
        finally:
            stopping.cancel()
            serving.cancel()
            try:
                with suppress(asyncio.CancelledError):
                    await serving
            finally:
                await self._close(left)

    async def _close(self, left: Sequence[Lease]) -> None:
        """Tools first: of what is left nothing runs when somebody else takes it."""
        for tool in self._tools.values():
            await tool.close()
        if left:
            log.warning("%d pipelines are left to other workers", len(left))
            await self._dispatcher.release(left)
        await self._transport.close()

    async def _drain(self) -> None:
        """Until nothing is under way, for some time, or until somebody insists."""
        work = {
            asyncio.create_task(self._executor.retire()),
            asyncio.create_task(self._forced.wait()),
        }
        _, unfinished = await asyncio.wait(
            work, timeout=DRAIN, return_when="FIRST_COMPLETED"
        )
        for task in unfinished:
            task.cancel()

    def stop(self) -> None:
        """The first time orderly; the second time at once: nothing is lost by it."""
        if self._stopping.is_set():
            self._forced.set()
        self._stopping.set()

    def _parse(self, text: bytes, extensions: Sequence[str]) -> Playbook:
        loaded = load(text, self._kinds, frozenset(extensions))
        if loaded.playbook is None:
            message = "the server's playbook is not valid for this worker; are both of "
            raise ConfigError(f"{message}one version, with the same plug-ins?")
        return loaded.playbook


def own_endpoints(home: Home, options: Options, settings: Settings) -> list[Endpoint]:
    """What tools must never reach, as far as this worker knows it."""
    database = settings[DATABASE] or Postgres(home).address()
    nats = settings[NATS] or Nats(home).address()
    found = [database, nats, *options.servers]
    return [endpoint for each in found for endpoint in endpoints_of(each)]


def _new_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
