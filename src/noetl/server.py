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
from noetl.access.binding import check_binding
from noetl.access.proxies import Proxies
from noetl.access.requests import Door
from noetl.adapters.accounts.passwords import Argon2Passwords
from noetl.adapters.catalogs.registered import RegisteredCatalog
from noetl.adapters.host import HostPolicy
from noetl.adapters.network import Endpoint, Network
from noetl.adapters.network.endpoints import endpoints_of
from noetl.adapters.plugins.enabled import Plugins
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.secrets.token import make_token
from noetl.adapters.tools.registry import make_tools
from noetl.api.access import Access
from noetl.api.app import make_app
from noetl.api.connections import Connections
from noetl.api.limits import limits_for, raise_descriptors
from noetl.api.listening import HttpServer, bind, check_address, known_names, url_of
from noetl.api.metrics import Metrics
from noetl.api.pace import HOOK_RATE, PUBLIC_RATE, Pace
from noetl.api.quotas import Quotas
from noetl.api.site import Site
from noetl.backends import (
    Backend,
    make_doorbell,
    make_link,
    make_provider,
    open_backend,
    patiently,
)
from noetl.config import host_policy, read_settings
from noetl.embedded import new_execution_id, new_mark
from noetl.engine.times import rfc3339
from noetl.errors import StoreError
from noetl.home import Home
from noetl.options import Options
from noetl.presence import Presence, place_of
from noetl.presence import Server as Announcement
from noetl.runtime.clock import SystemClock
from noetl.runtime.desk import Desk
from noetl.runtime.executor import Executor
from noetl.runtime.gate import Gate
from noetl.runtime.logins import Logins
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.people import People
from noetl.runtime.quarantine import is_defect, number_of
from noetl.runtime.rights import AccountRights
from noetl.runtime.roll import Roll
from noetl.runtime.streams import Streams
from noetl.runtime.tenancy import Tenancy
from noetl.service.forking import Forking
from noetl.service.looking import Looking
from noetl.service.playbooks import Playbooks
from noetl.service.results import Results
from noetl.service.standing import Standing
from noetl.service.starting import Starting
from noetl.service.steering import Steering
from noetl.trust import first_certificate, make_tls

if TYPE_CHECKING:
    from noetl.adapters.nats.link import NatsLink

log = logging.getLogger("noetl.server")

SWEEP = 1.0
"""Seconds between two looks for what is due, also of what a lost process left."""
JOIN = 2.0
"""Seconds that a start waits for NATS."""
DRAIN = 25.0
"""Seconds in which tools may come to their end when the server stops."""


class Server:
    """A complete service of one node, or one of several on a database."""

    @classmethod
    async def open(
        cls,
        home: Home,
        options: Options,
        plugins: Plugins | None = None,
    ) -> Server:
        """Raises ``StoreError`` or ``ConfigError``."""
        check_address(options.host)
        tls = make_tls(options.tls_cert, options.tls_key)
        home.make()
        plugins = plugins or Plugins()
        link = make_link(options.nats)
        policy = options.policy or host_policy(
            read_settings(),
            home.folder,
            "server" if options.personal is None else "personal",
            options.personal,
        )
        network = Network(policy.private, own_endpoints(options))
        backend = await open_backend(
            home,
            options.database,
            plugins,
            link,
            options.nats,
            owner=options.database_owner,
            network=network,
        )
        options = msgspec.structs.replace(options, database_owner=None, policy=policy)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(backend.closing.aclose)
            server = cls(home, options, backend, plugins, link, tls, network)
            undo.callback(server._presence.end)
            await patiently(lambda: server._open_door(home))
            await server._standing.hearing.refresh()
            undo.pop_all()
        return server

    def __init__(
        self,
        home: Home,
        options: Options,
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
        self._mark = new_mark()
        self._new_id = partial(new_execution_id, self._mark)
        store, results, keys = backend.store, backend.results, backend.keys
        catalog = RegisteredCatalog(
            backend.shelf, results.own, options.extensions, kinds=plugins.kinds
        )
        self._doorbell = None
        if options.nats is not None and options.database is not None:
            self._doorbell = make_doorbell(options.nats)
        self.orchestrator = Orchestrator(
            store,
            results,
            catalog,
            self._clock,
            keys,
            ttl=options.lease_ttl,
            doorbell=self._doorbell,
            rights=AccountRights(backend.accounts),
        )
        policy = options.policy or HostPolicy()
        self._tenancy = Tenancy(backend.accounts)
        self._isolation = Isolation(policy, self._tenancy.has_accounts)
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
            self.orchestrator,
            self._tools,
            self._clock,
            owner=f"server-{os.getpid()}",
            slots=options.slots,
        )
        self._streams = Streams(store)
        self._limits = options.limits or limits_for(raise_descriptors())
        self._connections = self._make_connections()
        self._site = self._make_site(catalog)

    async def _open_door(self, home: Home) -> None:
        """Let in whoever has the token of the home; others only where it is safe."""
        options, people = self._options, self._site.people
        await people.know_home(home.identity(), make_token(home.token))
        await self._tenancy.refresh()
        check_binding(
            options.host,
            auth=await people.has_others(),
            tls=self._tls is not None,
            behind_proxy=options.behind_proxy,
        )

    def _make_access(self) -> Access:
        options, backend = self._options, self._backend
        scheme = "https" if self._tls or options.behind_proxy else "http"
        door = Door(known_names(options.host, options.hosts), scheme)
        gate = Gate(backend.accounts, backend.sessions, self._clock)
        proxies = Proxies(options.proxies) if options.behind_proxy else None
        return Access(door, gate, proxies)

    def _make_connections(self) -> Connections:
        options, limits = self._options, self._limits
        most, of_address = limits.connections, limits.connections_of_address
        if not options.behind_proxy:
            return Connections(most, of_address)
        return Connections(most, of_address, Proxies(options.proxies).is_shared)

    def _make_standing(self, starting: Starting, looking: Looking) -> Standing:
        backend = self._backend
        return Standing(
            backend.triggers,
            self.orchestrator,
            starting,
            looking,
            backend.cipher,
            self._clock,
            self._new_id,
        )

    def _make_site(self, catalog: RegisteredCatalog) -> Site:
        extensions, metrics = self._options.extensions, Metrics()
        blobs, kinds = self._backend.results.own, self._plugins.kinds
        self.orchestrator.watch(self._streams.note)
        self.orchestrator.watch(metrics.note)
        self.orchestrator.trouble = partial(_tell, metrics, self._streams)
        metrics.gauge(
            "noetl_streams", "Watchers of events.", lambda: float(len(self._streams))
        )
        metrics.gauge(
            "noetl_executions_loaded",
            "Executions in memory; the others are in the store alone.",
            self.orchestrator.count_loaded,
        )
        if self._doorbell is not None:
            metrics.gauge(
                "noetl_doorbells_missed",
                "Rings that NATS did not take; the work was found without them.",
                self._doorbell.count_missed,
            )
        quotas = Quotas.of(self._limits)
        metrics.watch_load(self._connections, quotas)
        accounts, sessions = self._backend.accounts, self._backend.sessions
        passwords = Argon2Passwords()
        starting = Starting(
            self.orchestrator,
            blobs,
            catalog,
            self._new_id,
            extensions=extensions,
            kinds=kinds,
        )
        looking = Looking(self._backend.store, blobs)
        self._standing = standing = self._make_standing(starting, looking)
        return Site(
            access=self._make_access(),
            audit=self._backend.audit,
            provider=make_provider(self._options.oidc, self._backend, self._clock),
            people=People(accounts, sessions, passwords, self._clock),
            logins=Logins(accounts, sessions, passwords, self._clock),
            starting=starting,
            looking=looking,
            steering=Steering(self.orchestrator),
            forking=Forking(
                self.orchestrator, self._backend.store, catalog, self._new_id
            ),
            results=Results(self._backend.store, self.orchestrator.owners, blobs),
            playbooks=Playbooks(
                self._backend.shelf,
                blobs,
                self._clock,
                self._new_id,
                extensions=extensions,
                kinds=kinds,
            ),
            arranging=standing.arranging,
            receiving=standing.receiving,
            backfills=standing.backfills,
            desk=Desk(
                self.orchestrator,
                metrics.fenced.inc,
                self._backend.receipts,
                self._tenancy.has_accounts,
            ),
            roll=Roll(self._backend.roster, self._clock),
            keychain=self._backend.keychain,
            keychain_kinds=kinds.keychain,
            streams=self._streams,
            metrics=metrics,
            pace=Pace(self._options.start_rate),
            claims=Pace(self._options.claim_rate),
            hook_pace=Pace(HOOK_RATE),
            public_pace=Pace(PUBLIC_RATE),
            quotas=quotas,
            mark=f"{self._mark:03x}",
            ready=self._ready,
            isolation=self._isolation.state,
        )

    async def serve(self, on_ready: Callable[[str], None]) -> None:
        """Until ``stop``; what is under way is finished, or found again by the next."""
        try:
            with bind(self._options.host, self._options.port) as bound:
                self._network.own.append(bound.getsockname()[:2])
                await self._serve(bound, on_ready)
        finally:
            for tool in self._tools.values():
                await tool.close()
            await self.orchestrator.close()
            await self._backend.closing.aclose()
            self._presence.end()

    def stop(self) -> None:
        """The first time orderly; the second time at once: nothing is lost by it."""
        if self._stopping.is_set() and self._http is not None:
            self._http.force_exit = True
            for task in self._tasks:
                task.cancel()
        self._stopping.set()

    async def _serve(
        self, bound: socket.socket, on_ready: Callable[[str], None]
    ) -> None:
        self._http = http = HttpServer(
            make_app(self._site), self._connections, self._tls
        )
        serving = asyncio.create_task(http.serve(sockets=[bound]))
        work = (self._executor.serve, self.orchestrator.serve, self._tick, self._tidy)
        links = [self._listen, self._standing.serve, self._tenancy.serve]
        if self._link is not None:
            links.append(self._link.serve)
        self._tasks = [asyncio.create_task(_tend(each)) for each in (*work, *links)]
        await http.ready.wait()
        await self._join()
        url = url_of(bound, "https" if self._tls else "http")
        self._announce(url)
        log.info("the server is at %s", url, extra={"url": url, "pid": os.getpid()})
        log.log(*await self._isolation.describe())
        on_ready(url)
        await self._stopping.wait()
        log.info("stopping: what is under way is finished first")
        self._streams.close()
        self._site.desk.close()
        http.should_exit = True
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
                database=place_of(database) if database else None,
                personal=options.personal,
            )
        )

    async def _join(self) -> None:
        """Who signs in first finds the sessions there, if NATS is."""
        if self._link is not None and not await self._link.wait(JOIN):
            log.warning("NATS does not answer: until it does, nobody can sign in")

    async def _listen(self) -> None:
        if self._doorbell is not None:
            await self._doorbell.serve(self.orchestrator.bell.ring)

    async def _tick(self) -> None:
        while True:
            self.orchestrator.alarm.set(self._clock.now())
            await asyncio.sleep(SWEEP)

    async def _tidy(self) -> None:
        """Secrets of executions that ended in the last moment of a lost process."""
        keys = self.orchestrator.keys
        for execution_id in await keys.kept():
            with contextlib.suppress(StoreError):  # another log's
                summary = await self._backend.store.summary(execution_id)
                if summary.finished_at is not None:
                    await keys.drop(execution_id)

    async def _ready(self) -> str | None:
        if self._stopping.is_set():
            return "the server is stopping"
        try:
            await self._backend.store.find(limit=1)
        except StoreError as error:
            return f"the store does not answer: {error}"
        return None


def own_endpoints(options: Options) -> list[Endpoint]:
    """What tools must never reach; the listener is added when it is bound."""
    addresses = (options.database, options.database_owner, options.nats)
    return [endpoint for each in addresses for endpoint in endpoints_of(each)]


def _tell(
    metrics: Metrics, streams: Streams, execution_id: str, error: Exception
) -> None:
    """One execution is broken; the others go on."""
    if not is_defect(error):
        log.warning("%s", error, extra={"execution_id": execution_id})
        return
    metrics.quarantined.inc()
    streams.wake(execution_id)
    about = {"execution_id": execution_id, "defect": number_of(error)}
    log.error("an execution is set aside", extra=about, exc_info=error)


async def _tend(work: Callable[[], Awaitable[None]]) -> None:
    """What works for all of them must not end because of one of them."""
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
