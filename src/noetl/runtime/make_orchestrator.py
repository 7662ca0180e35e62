"""Wires the parts of an orchestrator."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from noetl.engine.limits import Ceilings
from noetl.engine.waits.resume import moments_in
from noetl.ports import Catalog, Clock, Store
from noetl.runtime.dispatcher import Wakeup, WakeupBus
from noetl.runtime.event_loop import DueTimer, Turns, Watchdog
from noetl.runtime.executions.access import AfterLoad, Executions, Recovery
from noetl.runtime.executions.after_commit import (
    AfterCommit,
    EvictFinished,
    NotifyWatchers,
    Reaction,
    RememberLeases,
    SetTimers,
    StopWorkers,
    WakeWorkers,
    concerns_relatives,
    has_concurrency_key,
    is_debugging,
    log_execution,
)
from noetl.runtime.executions.assignment import WorkAssignment
from noetl.runtime.executions.cache import ExecutionCache
from noetl.runtime.executions.child_requests import ChildRequests, FamilyBound
from noetl.runtime.executions.children import ChildExecutions
from noetl.runtime.executions.concurrency import ConcurrencyLimiter
from noetl.runtime.executions.inbox import ExecutionInbox
from noetl.runtime.executions.initiator_rights import AllRights, Rights
from noetl.runtime.executions.loaded import LoadedExecution
from noetl.runtime.executions.placement import DEFAULT_POOL, LEASE_TTL_S, Placement
from noetl.runtime.executions.quarantine import OnError, Quarantine
from noetl.runtime.executions.stalls import StallWatch
from noetl.runtime.executions.start import ExecutionStarter
from noetl.runtime.executions.sweep import FinishedHandlers, Sweep
from noetl.runtime.keychain import Keyring, TaskSecrets
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.values.ownership import Owners
from noetl.runtime.values.stores import Results
from noetl.runtime.worker_protocol.idle_workers import IdleWorkers
from noetl.runtime.worker_protocol.leases import KnownLeases


def make_orchestrator(
    store: Store,
    results: Results,
    catalog: Catalog,
    clock: Clock,
    keys: Keyring,
    *,
    pool: str | None = None,
    ttl: float = LEASE_TTL_S,
    wakeup_bus: WakeupBus | None = None,
    rights: Rights | None = None,
    ceilings: Ceilings | None = None,
    family_limit: int | None = None,
    exports: Sequence[str] = (),
    on_error: OnError = lambda execution_id, error: None,
) -> Orchestrator:
    """Make an orchestrator.

    ``pool`` is the pool of all commands of an embedded run. Without it this is a
    server: it works on all executions of the store, and each step names its pool.
    ``ceilings`` are the operator's limits; ``family_limit`` bounds the unfinished
    executions that descend from one root; ``exports`` are the names of exports that
    take each execution. ``on_error`` is called for executions that a
    server cannot load or decide.

    A commit may start a child, whose start is a commit. So the reactions are listed
    before those parts exist that start executions, and completed at the end.
    """
    is_server = pool is None
    rights, owners = rights or AllRights(), Owners(store, results.own)
    finished, changed = FinishedHandlers(), asyncio.Event()
    turns = Turns()
    timer, wakeup = DueTimer(clock), Wakeup()
    known, idle_workers = KnownLeases(), IdleWorkers(pool or DEFAULT_POOL)
    placement = Placement(
        pool, is_server, ttl, finished.is_awaited, ceilings or Ceilings(), exports
    )
    cache = ExecutionCache(store, catalog, keys, clock)
    quarantine = Quarantine(store, cache, on_error, is_server=is_server)
    reactions: list[Reaction] = []
    after_load: list[AfterLoad] = []
    inbox = ExecutionInbox(
        store,
        results,
        owners,
        clock,
        keys,
        cache,
        placement,
        turns,
        AfterCommit(reactions),
        Watchdog() if is_server else None,
    )
    executions = Executions(store, cache, inbox, quarantine, after_load)
    limiter = ConcurrencyLimiter(store, clock, timer, executions)
    starter = ExecutionStarter(
        store, results.own, clock, keys, executions, limiter, placement, idle_workers
    )
    bound = FamilyBound(store, clock.now, family_limit)
    requests = ChildRequests(store, catalog, owners, rights, bound)
    children = ChildExecutions(
        store, executions, starter, requests, changed, is_server=is_server
    )
    task_secrets = TaskSecrets(keys, cache.get)
    leases = RememberLeases(known, placement) if is_server else None
    watchers = NotifyWatchers()
    wake_workers = WakeWorkers(wakeup, wakeup_bus, placement)
    reactions += [Reaction(leases)] if leases is not None else []
    reactions += [
        Reaction(SetTimers(timer)),
        Reaction(watchers),
        Reaction(log_execution, is_debugging),
        Reaction(StopWorkers(idle_workers)),
        Reaction(children.after_commit, concerns_relatives),
        Reaction(limiter.after_commit, has_concurrency_key),
        Reaction(EvictFinished(cache, changed, is_server=is_server)),
        Reaction(wake_workers),
    ]

    stalls = StallWatch(store, clock, executions, quarantine)

    def set_timers(execution_id: str, loaded: LoadedExecution) -> None:
        for moment in moments_in(loaded.state):
            timer.set(moment)
        if not is_server:  # the last batch of the earlier process may have been cut
            timer.set(loaded.used)

    after_load += [set_timers, children.resume_from_log]
    return Orchestrator(
        store=store,
        results=results,
        clock=clock,
        keys=keys,
        rights=rights,
        owners=owners,
        placement=placement,
        turns=turns,
        known=known,
        task_secrets=task_secrets,
        cache=cache,
        inbox=inbox,
        quarantine=quarantine,
        executions=executions,
        starter=starter,
        recovery=Recovery(executions, quarantine, wakeup, wake_workers),
        assignment=WorkAssignment(
            store=store,
            clock=clock,
            results=results,
            owners=owners,
            # In an embedded run every task may ask for a token.
            tokens=task_secrets if is_server else keys,
            turns=turns,
            wakeup=wakeup,
            idle_workers=idle_workers,
            executions=executions,
            quarantine=quarantine,
            placement=placement,
            leases=leases,
        ),
        children=children,
        limiter=limiter,
        finished=finished,
        sweep=Sweep(
            store,
            clock,
            executions,
            quarantine,
            children,
            limiter,
            finished,
            wakeup,
            stalls,
            is_server=is_server,
        ),
        stalls=stalls,
        timer=timer,
        wakeup=wakeup,
        watchers=watchers,
        idle_workers=idle_workers,
        changed=changed,
    )
