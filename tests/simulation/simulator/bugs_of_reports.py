"""Planted bugs of reports and commits."""

from __future__ import annotations

import asyncio
from typing import Any

from noetl.adapters.stores.memory import store as memory_store
from noetl.engine.reports import accept
from noetl.errors import LogConflict, StoreError
from noetl.runtime.executions import (
    after_commit,
    assignment,
    inbox,
    loaded,
)
from noetl.runtime.worker import (
    tool_call,
)
from noetl.runtime.worker_protocol import reports

from .patching import Patch
from .planting import bug


@bug(
    "report accepted twice",
    "The outcome of a task that has ended is recorded again, and so is its next one.",
    kinds=("flaky store", "crash server"),
    paths=("retry", "recaller", "nested", "cycle"),
)
def _(patch: Patch) -> None:
    patch.set(accept, "_check", lambda progress, fact: None)
    patch.wrap(
        reports.WorkerReports,
        "_report",
        lambda real: (
            lambda self, lease, reported, each, wants: real(self, lease, 0, each, wants)
        ),
    )


@bug(
    "answer before commit",
    "A server answers a report, and stores it afterwards.",
    held_back=True,
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        async def commit(self: Any, *given: Any) -> None:
            store = self._store

            class Hasty:
                shared = True

                def __getattr__(self, name: str) -> Any:
                    return getattr(store, name)

                async def commit(self, transitions: Any) -> None:
                    task = asyncio.ensure_future(store.commit(transitions))
                    task.add_done_callback(lambda done: done.exception())

            self._store = Hasty()
            try:
                await real(self, *given)
            finally:
                self._store = store

        return commit

    patch.wrap(inbox.ExecutionInbox, "_commit_batch", make)


@bug(
    "stop without a commit",
    "A worker is sent away on a state that may be outdated.",
    kinds=("pause", "freeze server"),
    paths=("chain", "parallel", "cycle", "nested"),
)
def _(patch: Patch) -> None:
    patch.set(inbox, "_changes_store", lambda item: item.disarm is not None)


@bug("failed commit taken for stored", "An error of a commit is swallowed.")
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        async def commit(self: Any, *given: Any) -> None:
            try:
                await real(self, *given)
            except LogConflict:
                raise
            except StoreError as error:
                if error.kind not in ("store.unreachable", "store.busy", "store.io"):
                    raise
                for item in given[2]:
                    inbox._reply(item)

        return commit

    patch.wrap(inbox.ExecutionInbox, "_commit_batch", make)


@bug(
    "decision on an unrestored state",
    "After a refused commit the inbox decides on the state that was not stored.",
    kinds=("damage", "flaky store"),
    paths=("parallel", "nested", "slots", "callers"),
)
def _(patch: Patch) -> None:
    async def restore(self: Any, execution_id: str, live: Any, error: Any) -> None:
        try:
            live.state = await loaded.fold(self._store, execution_id)
        except Exception:
            self._cache.drop(execution_id)

    patch.set(inbox.ExecutionInbox, "_restore", restore)


@bug("cache without position", "A commit is accepted at any position of the log.")
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def refuse(transitions: Any, position: Any, *more: Any) -> None:
            ends = {x.execution_id: x.log.after for x in transitions}
            real(transitions, lambda name: ends[name], *more)

        return refuse

    patch.wrap(memory_store, "refuse_stale", make)


@bug(
    "seen before the commit",
    "Watchers are shown events before they are stored.",
    held_back=True,
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        async def commit(self: Any, *given: Any) -> None:
            store = self._store
            reactions = self._after_commit._reactions
            [watchers] = [
                each.react
                for each in reactions
                if isinstance(each.react, after_commit.NotifyWatchers)
            ]

            class Early:
                shared = True

                def __getattr__(self, name: str) -> Any:
                    return getattr(store, name)

                async def commit(self, transitions: Any) -> None:
                    for each in transitions:
                        if each.log.events:
                            for watcher in watchers._watchers:
                                watcher(each.log.events)
                    await store.commit(transitions)

            self._store = Early()
            try:
                await real(self, *given)
            finally:
                self._store = store

        return commit

    patch.wrap(inbox.ExecutionInbox, "_commit_batch", make)


@bug("effect before its record", "A tool is called before its start is recorded.")
def _(patch: Patch) -> None:
    patch.set(tool_call.Invocation, "has_effect", property(lambda self: False))


@bug(
    "attempts counted by the worker",
    "A worker begins to count attempts at one when it takes a pipeline.",
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def item(*given: Any, **named: Any) -> Any:
            work = real(*given, **named)
            work.progress.attempt = 1
            return work

        return item

    patch.wrap(assignment, "make_work_item", make)


@bug("doubt is not recorded", "A second owner begins an attempt as if it were new.")
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def emit(batch: Any, command: Any, name: str, payload: Any) -> None:
            if name == "task.started":
                command.progress.started = False
            real(batch, command, name, payload)

        return emit

    patch.wrap(accept, "_emit_task", make)
