"""The worker: claims, runs and reports pipelines; it has no endpoint of its own."""

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
from noetl.adapters.network.network import endpoints_of
from noetl.adapters.plugins.enabled import Plugins
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.secrets.aes_gcm import WorkerSeal
from noetl.adapters.tools.registry import make_tools, without_code
from noetl.adapters.worker_http.transport import HttpClient
from noetl.client.tls import Trust, trusted
from noetl.config import (
    DATABASE,
    NATS,
    RESULTS_URL,
    WORKER_PROXY,
    Settings,
    host_policy,
    worker_ceilings,
)
from noetl.dialects import load_validated
from noetl.dsl.model import Playbook
from noetl.errors import ConfigError
from noetl.local.home import Home
from noetl.local.services.nats import Nats
from noetl.local.services.postgres import Postgres
from noetl.ports import Lease
from noetl.runtime.event_loop import SystemClock
from noetl.runtime.worker.executor import Executor
from noetl.runtime.worker.remote_dispatcher import RemoteDispatcher
from noetl.runtime.worker.server_connection import ServerConnection
from noetl.runtime.worker.task_output import LogSender
from noetl.runtime.worker_protocol.messages import codec
from noetl.wiring.result_stores import make_own_blobs

log = logging.getLogger("noetl.worker")

DRAIN = 25.0
"""Seconds that running tools get to finish when the worker stops."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a worker.

    ``policy`` is what its tools may reach, by default the server policy of the
    settings; ``personal`` is the folder of the ``noetl up`` that started it. ``name``
    must be unique; the default is a new name.
    """

    servers: Sequence[str]
    token: str
    pool: str = "default"
    slots: int = 16
    policy: HostPolicy | None = None
    personal: str | None = None
    name: str | None = None


class Worker:
    """Opens outgoing connections only (WKR-01).

    Large results go through the server; with a ``results_url``, which must name the
    servers' own store, they go there directly.
    """

    def __init__(
        self,
        home: Home,
        options: Options,
        settings: Settings,
        plugins: Plugins,
        trust: Trust = lambda url: trusted(),
    ) -> None:
        self.name = options.name or new_name()
        self._kinds = plugins.kinds
        self._stopping = asyncio.Event()
        self._forced = asyncio.Event()
        self._client = HttpClient(
            options.token,
            trust,
            proxy=settings[WORKER_PROXY],
            content_type=codec.media_type,
        )
        at = settings[RESULTS_URL]
        results = (
            str(home.drafts) if at is None else make_own_blobs(home, plugins, settings)
        )
        self._dispatcher = dispatcher = RemoteDispatcher(
            ServerConnection(
                self._client, options.servers, worker=self.name, pool=options.pool
            ),
            self._parse,
            WorkerSeal(options.token),
            results,
            slots=options.slots,
        )
        policy = options.policy or host_policy(
            settings,
            home.folder,
            "server" if options.personal is None else "personal",
            options.personal,
        )
        self._isolation = Isolation(policy, dispatcher.connection.has_accounts)
        ceilings = worker_ceilings(settings)
        self.runs_code = ceilings.runs_code(options.pool)
        self._tools = make_tools(
            options.slots,
            dispatcher.tokens,
            host=policy,
            isolation=self._isolation,
            network=Network(policy.private, own_endpoints(home, options, settings)),
            home=str(home.folder),
            plugins=plugins,
        )
        if not self.runs_code:
            self._tools = without_code(self._tools, options.pool)
        self._executor = Executor(
            dispatcher,
            self._tools,
            SystemClock(),
            owner=self.name,
            slots=options.slots,
            tool_time=ceilings.tool_time,
            logs=LogSender(dispatcher.append_logs),
        )

    async def serve(self) -> None:
        """Work until ``stop``; other workers take over unfinished work."""
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
        """Stop all tools before the leases are released to other workers."""
        for tool in self._tools.values():
            await tool.close()
        if left:
            log.warning("%d pipelines are left to other workers", len(left))
            await self._dispatcher.release(left)
        await self._client.close()

    async def _drain(self) -> None:
        """Wait until no pipeline runs, for at most ``DRAIN`` seconds or a second
        ``stop``."""
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
        """Stop gracefully; the second call stops at once, without loss of data."""
        if self._stopping.is_set():
            self._forced.set()
        self._stopping.set()

    def _parse(self, text: bytes, extensions: Sequence[str]) -> Playbook:
        loaded = load_validated(text, self._kinds, frozenset(extensions))
        if loaded.playbook is None:
            message = "the server's playbook is not valid for this worker; are both of "
            raise ConfigError(f"{message}one version, with the same plug-ins?")
        return loaded.playbook


def own_endpoints(home: Home, options: Options, settings: Settings) -> list[Endpoint]:
    """Return the endpoints that tools must never reach, as far as the worker knows
    them."""
    database = settings[DATABASE] or Postgres(home).address()
    nats = settings[NATS] or Nats(home).place()
    found = [database, nats, *options.servers]
    return [endpoint for each in found for endpoint in endpoints_of(each)]


def new_name() -> str:
    """Return a unique name: machine, process and random digits."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
