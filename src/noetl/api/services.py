"""The services of one server that the routes use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from noetl.access.audit import Audit
from noetl.access.oidc import Provider
from noetl.access.rate_limit import HOOK_RATE, PUBLIC_RATE, TokenBucket
from noetl.access.request_guard import Proxies, RequestGuard
from noetl.adapters.accounts.passwords import Argon2Passwords
from noetl.adapters.catalogs.catalog import RegisteredCatalog
from noetl.adapters.processes.isolation import Isolation, State
from noetl.adapters.secrets.home_keychain import StoredKeychain
from noetl.api.http.quotas import Connections, Quotas
from noetl.api.http.server import known_names
from noetl.api.metrics import Metrics
from noetl.dsl.grammar.keychain import KeychainKind
from noetl.dsl.tool_kinds import Kinds
from noetl.ports import Backlog, Clock
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.subscriptions import Subscriptions
from noetl.runtime.worker_protocol.gateway import WorkerGateway
from noetl.runtime.worker_protocol.worker_registry import WorkerRegistry
from noetl.service.access.accounts import AccountService
from noetl.service.access.authenticate import Access, Authenticator, Tenancy
from noetl.service.access.sign_in import SignInService
from noetl.service.catalog import CatalogService
from noetl.service.executions.control import ExecutionControl
from noetl.service.executions.forks import ForkService
from noetl.service.executions.queries import ExecutionQueries
from noetl.service.executions.results import Results
from noetl.service.executions.start import ExecutionStarter
from noetl.service.executions.task_logs import TaskLogQueries
from noetl.service.triggers.admin import TriggerAdmin
from noetl.service.triggers.backfills import Backfills
from noetl.service.triggers.scheduler import TriggerScheduler
from noetl.service.triggers.webhooks import WebhookReceiver
from noetl.wiring.backend import Backend, make_provider
from noetl.wiring.identifiers import new_execution_id
from noetl.wiring.server_options import Limits, Options


@dataclass(frozen=True, slots=True)
class Services:
    """Services of a server.

    ``ready`` returns what is missing, or None; ``provider`` is the OIDC provider.
    ``mark`` is part of the ids of executions that this server accepts; ``runs_code``
    returns True if a worker pool may run code.
    """

    access: Access
    audit: Audit
    provider: Provider | None
    people: AccountService
    logins: SignInService
    starting: ExecutionStarter
    looking: ExecutionQueries
    steering: ExecutionControl
    forking: ForkService
    results: Results
    task_logs: TaskLogQueries
    playbooks: CatalogService
    scheduler: TriggerScheduler
    arranging: TriggerAdmin
    receiving: WebhookReceiver
    backfills: Backfills
    gateway: WorkerGateway
    roll: WorkerRegistry
    keychain: StoredKeychain
    keychain_kinds: Mapping[str, KeychainKind]
    streams: Subscriptions
    metrics: Metrics
    pace: TokenBucket
    claims: TokenBucket
    hook_pace: TokenBucket
    public_pace: TokenBucket
    quotas: Quotas
    mark: str
    ready: Callable[[], Awaitable[str | None]]
    backlog: Callable[[], Awaitable[Mapping[str, Backlog]]]
    isolation: Callable[[], Awaitable[State]]
    runs_code: Callable[[str], bool]


def make_services(
    backend: Backend,
    options: Options,
    orchestrator: Orchestrator,
    catalog: RegisteredCatalog,
    clock: Clock,
    *,
    access: Access,
    kinds: Kinds,
    metrics: Metrics,
    quotas: Quotas,
    streams: Subscriptions,
    tenancy: Tenancy,
    isolation: Isolation,
    server_id: int,
    ready: Callable[[], Awaitable[str | None]],
) -> Services:
    """Make the services of a server over its backend and its orchestrator."""
    accounts, sessions = backend.accounts, backend.sessions
    passwords = Argon2Passwords()
    blobs, new_id = backend.results.own, partial(new_execution_id, server_id)
    orchestrator.watch(streams.note)
    starting = ExecutionStarter(
        orchestrator,
        blobs,
        catalog,
        new_id,
        extensions=options.extensions,
        kinds=kinds,
    )
    looking = ExecutionQueries(backend.store, blobs)
    scheduler = TriggerScheduler(
        backend.triggers,
        orchestrator,
        starting,
        looking,
        backend.cipher,
        clock,
        new_id,
    )
    return Services(
        access=access,
        audit=backend.audit,
        provider=make_provider(options.oidc, backend, clock),
        people=AccountService(accounts, sessions, passwords, clock),
        logins=SignInService(accounts, sessions, passwords, clock),
        starting=starting,
        looking=looking,
        steering=ExecutionControl(orchestrator),
        forking=ForkService(orchestrator, backend.store, catalog, new_id),
        results=Results(backend.store, orchestrator.owners, blobs),
        task_logs=TaskLogQueries(backend.task_logs),
        playbooks=CatalogService(
            backend.catalog_rows,
            blobs,
            clock,
            new_id,
            extensions=options.extensions,
            kinds=kinds,
        ),
        scheduler=scheduler,
        arranging=scheduler.arranging,
        receiving=scheduler.receiving,
        backfills=scheduler.backfills,
        gateway=WorkerGateway(
            orchestrator,
            metrics.fenced.inc,
            backend.receipts,
            tenancy,
            backend.task_logs,
        ),
        roll=WorkerRegistry(backend.records, clock),
        keychain=backend.keychain,
        keychain_kinds=kinds.keychain,
        streams=streams,
        metrics=metrics,
        pace=TokenBucket(options.start_rate),
        claims=TokenBucket(options.claim_rate),
        hook_pace=TokenBucket(HOOK_RATE),
        public_pace=TokenBucket(PUBLIC_RATE),
        quotas=quotas,
        mark=f"{server_id:03x}",
        ready=ready,
        backlog=backend.store.count_commands,
        isolation=isolation.state,
        runs_code=orchestrator.placement.ceilings.runs_code,
    )


def make_access(
    options: Options, backend: Backend, clock: Clock, *, tls: bool
) -> Access:
    """Make the check of requests. Behind a proxy, browsers connect by TLS."""
    scheme = "https" if tls or options.behind_proxy else "http"
    door = RequestGuard(known_names(options.host, options.hosts), scheme)
    gate = Authenticator(backend.accounts, backend.sessions, clock)
    proxies = Proxies(options.proxies) if options.behind_proxy else None
    return Access(door, gate, proxies)


def make_connections(options: Options, limits: Limits) -> Connections:
    """Make the limit of connections, in all and of one address."""
    most, of_address = limits.connections, limits.connections_of_address
    if not options.behind_proxy:
        return Connections(most, of_address)
    return Connections(most, of_address, Proxies(options.proxies).is_shared)
