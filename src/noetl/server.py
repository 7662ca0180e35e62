"""The server: log, catalog, orchestrator, API and workers, wired in one process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from noetl import __version__
from noetl.access.request_guard import check_binding
from noetl.adapters.catalogs.catalog import RegisteredCatalog
from noetl.adapters.host import HostPolicy
from noetl.adapters.network import Endpoint, Network
from noetl.adapters.network.network import endpoints_of
from noetl.adapters.plugins.enabled import Plugins
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.secrets.private_files import make_token
from noetl.adapters.tools.registry import make_tools
from noetl.api.app import make_app
from noetl.api.http.quotas import Quotas, limits_for, raise_descriptors
from noetl.api.http.server import HttpServer, bind, check_address, url_of
from noetl.api.metrics import Metrics
from noetl.api.services import make_access, make_connections, make_services
from noetl.client.tls import first_certificate, make_tls
from noetl.config import Role, Settings, ceilings_of, host_policy
from noetl.engine.limits import Ceilings
from noetl.engine.times import rfc3339
from noetl.errors import StoreError
from noetl.local.home import Home
from noetl.local.process_files import Presence, slot_of
from noetl.local.process_files import Server as Announcement
from noetl.runtime.event_loop import SystemClock
from noetl.runtime.executions.initiator_rights import AccountRights
from noetl.runtime.executions.quarantine import is_defect, number_of
from noetl.runtime.make_orchestrator import make_orchestrator
from noetl.runtime.subscriptions import Subscriptions
from noetl.runtime.worker.executor import Executor
from noetl.runtime.worker.task_output import LogSender
from noetl.service.access.authenticate import Tenancy
from noetl.service.telemetry.exports import Exports
from noetl.wiring.backend import (
    Backend,
    make_link,
    make_wakeup_bus,
    open_backend,
    patiently,
)
from noetl.wiring.exports import make_exports
from noetl.wiring.home_logs import HomeHistory, HomeTaskLogs
from noetl.wiring.identifiers import new_execution_id, new_server_id
from noetl.wiring.retention import make_sweeper
from noetl.wiring.server_options import Options

if TYPE_CHECKING:
    from noetl.adapters.nats.connection import NatsLink

log = logging.getLogger("noetl.server")

SWEEP = 1.0
"""Seconds between two checks for due work and for leases of lost processes."""
JOIN = 2.0
"""Seconds that a start waits for NATS."""
READY_FOR = 1.0
"""Seconds for which an answer of ``/readyz`` is good, so that asking costs little."""
DRAIN = 25.0
"""Seconds that running tools get to finish when the server stops."""


class Server:
    """A complete server: a single node, or one of several on a database."""

    @classmethod
    async def open(
        cls,
        home: Home,
        options: Options,
        settings: Settings,
        plugins: Plugins | None = None,
    ) -> Server:
        """Open a server. Raises ``StoreError`` or ``ConfigError``."""
        check_address(options.host)
        tls = make_tls(options.tls_cert, options.tls_key)
        home.make()
        plugins = plugins or Plugins()
        link = make_link(options.nats, settings)
        role: Role = "server" if options.personal is None else "personal"
        policy = options.policy or host_policy(
            settings, home.folder, role, options.personal
        )
        ceilings = options.ceilings or ceilings_of(settings, role)
        network = Network(policy.private, own_endpoints(options))
        backend = await open_backend(
            home,
            options.database,
            plugins,
            settings,
            link,
            options.nats,
            owner=options.database_owner,
            network=network,
            personal=options.personal is not None,
        )
        options = msgspec.structs.replace(
            options, database_owner=None, policy=policy, ceilings=ceilings
        )
        async with AsyncExitStack() as undo:
            undo.push_async_callback(backend.closing.aclose)
            server = cls(home, options, settings, backend, plugins, link, tls, network)
            undo.callback(server._presence.end)
            await patiently(lambda: server._check_binding(home))
            await server._site.scheduler.completion.refresh()
            undo.pop_all()
        return server

    def __init__(
        self,
        home: Home,
        options: Options,
        settings: Settings,
        backend: Backend,
        plugins: Plugins,
        link: NatsLink | None,
        tls: ssl.SSLContext | None,
        network: Network,
    ) -> None:
        self._network = network
        self._tls = tls
        self._backend = backend
        self._link = link
        self._plugins = plugins
        self._options = options
        self._presence = Presence(home.server)
        self._stopping = asyncio.Event()
        self._http: HttpServer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._clock = SystemClock()
        self._checked_at = -READY_FOR
        self._unwritable: str | None = None
        self._server_id = new_server_id()
        self._new_id = partial(new_execution_id, self._server_id)
        store, results, keys = backend.store, backend.results, backend.keys
        ceilings = options.ceilings or Ceilings()
        catalog = RegisteredCatalog(
            backend.catalog_rows, results.own, options.extensions, kinds=plugins.kinds
        )
        own = None if options.database is not None else home.server_log
        self._history = HomeHistory(
            store, home, lambda: self._tenancy.has_accounts, own
        )
        self._subscriptions = Subscriptions(self._history)
        self._wakeup_bus = None
        if options.nats is not None and options.database is not None:
            self._wakeup_bus = make_wakeup_bus(options.nats, settings)
        metrics = Metrics()
        exports = make_exports(settings)
        self._exports = Exports(exports, store, store, backend.task_logs, self._clock)
        self.orchestrator = make_orchestrator(
            store,
            results,
            catalog,
            self._clock,
            keys,
            ttl=options.lease_ttl,
            wakeup_bus=self._wakeup_bus,
            rights=AccountRights(backend.accounts),
            ceilings=ceilings,
            family_limit=options.family_limit,
            exports=[each.name for each in exports],
            on_error=partial(_tell, metrics, self._subscriptions),
        )
        policy = options.policy or HostPolicy()
        self._tenancy = Tenancy(backend.accounts)
        self._isolation = Isolation(policy, lambda: self._tenancy.has_accounts)
        self._tools = make_tools(
            max(options.slots, 1),
            self.orchestrator.task_secrets,
            host=policy,
            network=network,
            isolation=self._isolation,
            home=str(home.folder),
            plugins=plugins,
        )
        self._executor = Executor(
            self.orchestrator.assignment,
            self._tools,
            self._clock,
            owner=f"server-{os.getpid()}",
            slots=options.slots,
            tool_time=ceilings.tool_time,
            logs=LogSender(backend.task_logs.append),
        )
        limits = options.limits or limits_for(raise_descriptors())
        quotas = Quotas.of(limits)
        self._connections = make_connections(options, limits)
        metrics.watch_load(self._connections, quotas)
        metrics.watch_executions(self.orchestrator, self._subscriptions)
        if self._wakeup_bus is not None:
            metrics.watch_wakeups(self._wakeup_bus.count_missed)
        owner = f"{socket.gethostname()}-{os.getpid()}-{self._server_id:03x}"
        self._sweeper = make_sweeper(home, options, backend, self._clock, owner)
        metrics.watch_retention(self._sweeper)
        self._site = make_services(
            backend,
            options,
            self.orchestrator,
            catalog,
            self._clock,
            history=self._history,
            task_logs=HomeTaskLogs(backend.task_logs, self._history, home),
            access=make_access(options, backend, self._clock, tls=tls is not None),
            kinds=plugins.kinds,
            metrics=metrics,
            exports=self._exports,
            quotas=quotas,
            streams=self._subscriptions,
            sweeper=self._sweeper,
            tenancy=self._tenancy,
            isolation=self._isolation,
            server_id=self._server_id,
            ready=self._ready,
        )

    async def _check_binding(self, home: Home) -> None:
        """Create the home's account, and refuse an unprotected listening address."""
        options, people = self._options, self._site.people
        await people.ensure_home_account(home.identity(), make_token(home.token))
        await self._tenancy.refresh()
        check_binding(
            options.host,
            auth=await people.has_others(),
            tls=self._tls is not None,
            behind_proxy=options.behind_proxy,
        )

    async def serve(self, on_ready: Callable[[str], None]) -> None:
        """Serve until ``stop``; interrupted work is recovered by the next process."""
        try:
            with bind(self._options.host, self._options.port) as bound:
                self._network.own.append(bound.getsockname()[:2])
                await self._serve(bound, on_ready)
        finally:
            for tool in self._tools.values():
                await tool.close()
            await self._sweeper.close()
            for part in (self.orchestrator, self._exports, self._history):
                await part.close()
            await self._backend.closing.aclose()
            self._presence.end()

    def stop(self) -> None:
        """Stop gracefully; the second call stops at once, without loss of data."""
        if self._stopping.is_set() and self._http is not None:
            self._http.force_exit = True
            for task in self._tasks:
                task.cancel()
        self._stopping.set()

    async def _serve(
        self, bound: socket.socket, on_ready: Callable[[str], None]
    ) -> None:
        app = make_app(self._site)
        self._http = http = HttpServer(app, self._connections, self._tls)
        serving = asyncio.create_task(http.serve(sockets=[bound]))
        parts = (self._executor, self.orchestrator, self._sweeper, self._tenancy)
        more = (self._site.scheduler, self._link, self._backend.rotation)
        work = [each.serve for each in (*parts, *more, *self._exports.loops) if each]
        work += [self._tick, self._tidy, self._listen]
        self._tasks = [asyncio.create_task(_tend(each)) for each in work]
        await http.ready.wait()
        await self._join()
        url = url_of(bound, "https" if self._tls else "http")
        self._announce(url)
        log.info("the server is at %s", url, extra={"url": url, "pid": os.getpid()})
        log.log(*await self._isolation.describe())
        on_ready(url)
        await self._stopping.wait()
        log.info("stopping: what is under way is finished first")
        self._subscriptions.close()
        self._site.live.close()
        self._site.gateway.close()
        http.exit()
        await serving
        await self._drain()
        log.info("stopped")

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(0 if self._is_forced() else DRAIN):
                await self._executor.retire()
        except TimeoutError:
            log.warning("tools are still at work: they are stopped, and done again")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _is_forced(self) -> bool:
        return self._http is not None and self._http.force_exit

    def _announce(self, url: str) -> None:
        options, database = self._options, self._options.database
        cert, key = options.tls_cert, options.tls_key
        self._presence.announce(
            Announcement(
                pid=os.getpid(),
                host=options.host,
                behind_proxy=options.behind_proxy,
                tls_cert=str(cert) if cert else None,
                tls_key=str(key) if key else None,
                certificate=first_certificate(cert) if cert else None,
                port=options.port,
                version=__version__,
                started_at=rfc3339(time.time()),
                url=url,
                database=slot_of(database) if database else None,
                personal=options.personal,
            )
        )

    async def _join(self) -> None:
        """Wait for NATS, so that the first sign-in finds the session store."""
        if self._link is not None and not await self._link.wait(JOIN):
            log.warning("NATS does not answer: browsers cannot sign in until it does")

    async def _listen(self) -> None:
        if self._wakeup_bus is not None:
            await self._wakeup_bus.serve(self.orchestrator.wakeup.notify)

    async def _tick(self) -> None:
        while True:
            self.orchestrator.timer.set(self._clock.now())
            await asyncio.sleep(SWEEP)

    async def _tidy(self) -> None:
        """Delete secrets of executions that ended while a lost process stopped."""
        keys = self.orchestrator.keys
        for execution_id in await keys.kept():
            with contextlib.suppress(StoreError):  # the execution is in another log
                summary = await self._backend.store.summary(execution_id)
                if summary.finished_at is not None:
                    await keys.drop(execution_id)

    async def _ready(self) -> str | None:
        if self._stopping.is_set():
            return "the server is stopping"
        now = asyncio.get_running_loop().time()
        if now >= self._checked_at + READY_FOR:  # anyone may ask, as often as they like
            self._checked_at = now
            self._unwritable = await self._why_unwritable()
        return self._unwritable

    async def _why_unwritable(self) -> str | None:
        """Write to the store; return what is wrong with it, or None."""
        try:
            await self._backend.store.check_writable()
        except StoreError as error:
            return f"nothing can be stored: {error}"
        return None


def own_endpoints(options: Options) -> list[Endpoint]:
    """Return the endpoints that tools must never reach, except the listener's."""
    addresses = (options.database, options.database_owner, options.nats)
    return [endpoint for each in addresses for endpoint in endpoints_of(each)]


def _tell(
    metrics: Metrics, subscriptions: Subscriptions, execution_id: str, error: Exception
) -> None:
    """Record that one execution is quarantined; the others continue."""
    if not is_defect(error):
        log.warning("%s", error, extra={"execution_id": execution_id})
        return
    metrics.quarantined.inc()
    subscriptions.wake(execution_id)
    about = {"execution_id": execution_id, "defect": number_of(error)}
    log.error("an execution is set aside", extra=about, exc_info=error)


async def _tend(work: Callable[[], Awaitable[None]]) -> None:
    """Run a background task forever; an error of the store is logged and retried."""
    while True:
        try:
            await work()
            return
        except Exception as error:
            if isinstance(error, StoreError) and error.kind == "store.unreachable":
                log.warning("%s: asked again in %g s", error, SWEEP)
            else:
                log.exception("a defect", extra={"part": work.__qualname__})
            await asyncio.sleep(SWEEP)
