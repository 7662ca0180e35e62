"""The services of one server that the routes use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from noetl.access.audit import Audit
from noetl.access.oidc import Provider
from noetl.access.rate_limit import (
    HOOK_RATE,
    PUBLIC_RATE,
    REVIEW_RATE,
    TokenBucket,
)
from noetl.access.request_guard import Proxies, RequestGuard
from noetl.adapters.accounts.passwords import Argon2Passwords
from noetl.adapters.catalogs.catalog import RegisteredCatalog
from noetl.adapters.processes.isolation import Isolation, State
from noetl.api.http.quotas import Connections, Quotas
from noetl.api.http.server import known_names
from noetl.api.metrics import Metrics
from noetl.dsl.grammar.keychain import KeychainKind
from noetl.dsl.tool_kinds import Kinds
from noetl.ports import Clock, TaskLogs
from noetl.ports.keychain import Keychain, KeyRotation
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.subscriptions import Subscriptions
from noetl.runtime.values.ownership import Owners
from noetl.runtime.worker_protocol.gateway import WorkerGateway
from noetl.runtime.worker_protocol.worker_registry import PoolQueries, WorkerRegistry
from noetl.service.access.accounts import AccountService
from noetl.service.access.authenticate import Access, Authenticator, Tenancy
from noetl.service.access.device_sign_in import CommandSignIns
from noetl.service.access.sign_in import SignInService
from noetl.service.authoring import Authoring, Suites
from noetl.service.catalog import CatalogService
from noetl.service.executions.answer_links import AnswerLinks
from noetl.service.executions.control import ExecutionControl
from noetl.service.executions.forks import ForkService
from noetl.service.executions.inbox import InboxQueries, Questions
from noetl.service.executions.path_limits import PathLimits
from noetl.service.executions.queries import ExecutionQueries
from noetl.service.executions.results import Results
from noetl.service.executions.start import ExecutionStarter
from noetl.service.executions.task_logs import TaskLogQueries
from noetl.service.executions.views.context import CtxChanges
from noetl.service.executions.views.graphs import Graphs, PlaybooksThatRan
from noetl.service.executions.views.head import Heads
from noetl.service.executions.views.iterations import Iterations
from noetl.service.executions.views.runs import Runs
from noetl.service.executions.views.search import EventSearch
from noetl.service.executions.views.states import States
from noetl.service.executions.views.tallies import LogTallies
from noetl.service.executions.views.track import Tracks
from noetl.service.executions.views.why import Explanations
from noetl.service.live import LiveFeed
from noetl.service.retention.sweeper import Sweeper
from noetl.service.telemetry.exports import Exports
from noetl.service.triggers.admin import TriggerAdmin
from noetl.service.triggers.backfills import Backfills
from noetl.service.triggers.scheduler import TriggerScheduler
from noetl.service.triggers.webhooks import WebhookReceiver
from noetl.wiring.backend import Backend, make_provider
from noetl.wiring.home_logs import HomeHistory
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
    command_logins: CommandSignIns
    history: HomeHistory
    inbox: InboxQueries
    answers: AnswerLinks | None
    live: LiveFeed
    pools: PoolQueries
    starting: ExecutionStarter
    looking: ExecutionQueries
    graphs: Graphs
    heads: Heads
    tracks: Tracks
    runs: Runs
    iterations: Iterations
    states: States
    explanations: Explanations
    ctx_changes: CtxChanges
    event_search: EventSearch
    steering: ExecutionControl
    forking: ForkService
    results: Results
    task_logs: TaskLogQueries
    playbooks: CatalogService
    authoring: Authoring
    suites: Suites
    scheduler: TriggerScheduler
    arranging: TriggerAdmin
    receiving: WebhookReceiver
    backfills: Backfills
    gateway: WorkerGateway
    roll: WorkerRegistry
    keychain: Keychain
    rotation: KeyRotation | None
    keychain_kinds: Mapping[str, KeychainKind]
    streams: Subscriptions
    metrics: Metrics
    exports: Exports
    pace: TokenBucket
    claims: TokenBucket
    hook_pace: TokenBucket
    public_pace: TokenBucket
    review_pace: TokenBucket
    quotas: Quotas
    sweeper: Sweeper
    mark: str
    ready: Callable[[], Awaitable[str | None]]
    isolation: Callable[[], Awaitable[State]]
    runs_code: Callable[[str], bool]


def make_services(
    backend: Backend,
    options: Options,
    orchestrator: Orchestrator,
    catalog: RegisteredCatalog,
    clock: Clock,
    *,
    history: HomeHistory,
    task_logs: TaskLogs,
    access: Access,
    kinds: Kinds,
    metrics: Metrics,
    exports: Exports,
    quotas: Quotas,
    streams: Subscriptions,
    sweeper: Sweeper,
    tenancy: Tenancy,
    isolation: Isolation,
    server_id: int,
    ready: Callable[[], Awaitable[str | None]],
) -> Services:
    """Make the services of a server over its backend and its orchestrator."""
    accounts, sessions = backend.accounts, backend.sessions
    passwords = Argon2Passwords()
    people = AccountService(accounts, sessions, passwords, clock)
    logins = SignInService(accounts, sessions, passwords, clock)
    roll = WorkerRegistry(backend.records, clock)
    blobs, new_id = backend.results.own, partial(new_execution_id, server_id)
    steering = ExecutionControl(orchestrator)
    questions = Questions(backend.store)
    answers = AnswerLinks(questions, backend.cipher, accounts, steering)
    live = LiveFeed(history, history.shows)
    orchestrator.watch(streams.note)
    orchestrator.watch(live.note)
    limits = PathLimits(options.path_limits, backend.store, clock)
    starting = ExecutionStarter(
        orchestrator,
        blobs,
        catalog,
        new_id,
        extensions=options.extensions,
        kinds=kinds,
        limits=limits,
    )
    playbooks = CatalogService(
        backend.catalog_rows,
        blobs,
        clock,
        new_id,
        extensions=options.extensions,
        kinds=kinds,
    )
    looking = ExecutionQueries(history, blobs)
    pools = PoolQueries(backend.store, roll, clock)
    tallies = LogTallies(history)
    ran = PlaybooksThatRan(history, catalog)
    runs = Runs(history, tallies, ran)
    states = States(history)
    scheduler = TriggerScheduler(
        backend.triggers,
        orchestrator,
        starting,
        ExecutionQueries(backend.store, blobs),
        backend.cipher,
        clock,
        new_id,
        metrics.note_slots,
    )
    return Services(
        access=access,
        audit=backend.audit,
        provider=make_provider(options.oidc, backend, clock),
        people=people,
        logins=logins,
        command_logins=CommandSignIns(logins, people, backend.cipher, clock),
        history=history,
        inbox=InboxQueries(backend.store, questions),
        answers=answers if options.answer_links else None,
        live=live,
        pools=pools,
        starting=starting,
        looking=looking,
        graphs=Graphs(history, catalog),
        heads=Heads(history, tallies),
        tracks=Tracks(tallies),
        runs=runs,
        iterations=Iterations(history, runs),
        states=states,
        ctx_changes=CtxChanges(history, states),
        event_search=EventSearch(history),
        explanations=Explanations(
            history, backend.store, pools, states, runs, tallies, ran
        ),
        steering=steering,
        forking=ForkService(orchestrator, backend.store, catalog, new_id, limits),
        results=Results(history, Owners(history, blobs), blobs),
        task_logs=TaskLogQueries(task_logs),
        playbooks=playbooks,
        authoring=Authoring(playbooks, kinds),
        suites=Suites(options.extensions),
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
        roll=roll,
        keychain=backend.keychain,
        rotation=backend.rotation,
        keychain_kinds=kinds.keychain,
        streams=streams,
        metrics=metrics,
        exports=exports,
        pace=TokenBucket(options.start_rate),
        claims=TokenBucket(options.claim_rate),
        hook_pace=TokenBucket(HOOK_RATE),
        public_pace=TokenBucket(PUBLIC_RATE),
        review_pace=TokenBucket(REVIEW_RATE),
        quotas=quotas,
        sweeper=sweeper,
        mark=f"{server_id:03x}",
        ready=ready,
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
