"""A reference workload on real stores, whose file calls a library records.

    python -m crash.workload ROOT [killed | PLANTED BUG]

It runs commands of ``noetl`` one after the other, then several executions on the store
of a server, and changes accounts and the catalog. Each commit that was acknowledged is
marked in the record. Called with ``killed`` it dies in the middle of a run instead; the
next call resumes that run first.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from crash.shim import Shim
from crash.tables import change_tables
from noetl.adapters import sql_database
from noetl.adapters.blobs import files
from noetl.adapters.secrets import private_files
from noetl.adapters.stores.sqlite import SqliteStore, writer
from noetl.adapters.tools import BUILTIN
from noetl.clictl import noetl
from noetl.config import read_settings
from noetl.dsl.load import load
from noetl.embedded import Embedded
from noetl.local.home import Home
from noetl.ports import Transition
from noetl.runtime.executions import transition

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
KEEP = "spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {SET}}}}]}}"
STEPS = (
    HEAD
    + """
metadata: {name: steps, path: tests/steps}
workflow:
  - step: one
    tool:
      kind: noop
      result: 1
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {a: 1}}}}]}}
    next: {arcs: [{step: two}]}
  - step: two
    tool: {kind: noop, result: "{{ 'x' * 90000 }}"}
    next: {arcs: [{step: three}]}
  - step: three
    tool: [{nap: {kind: wait, for: 5ms}}, {end: {kind: noop, result: "{{ ctx.a }}"}}]
"""
)
LOOP = (
    HEAD
    + """
metadata: {name: loop, path: tests/loop}
workload: {count: 20}
workflow:
  - step: each
    loop:
      in: "{{ range(workload.count) }}"
      iterator: i
      spec: {mode: parallel, max_in_flight: 4}
    tool:
      - try:
          kind: http
          url: "http://127.0.0.1:1/"
          spec:
            policy:
              rules:
                - when: "{{ iter.i % 5 == 0 and _attempt < 2 }}"
                  then: {do: retry, attempts: 3, delay: 1ms}
                - else: {then: {do: continue}}
      - keep: {kind: noop, result: "{{ iter.i + 1 }}"}
    next:
      arcs:
        - step: sum
          when: "{{ event.name == 'loop.done' }}"
          args: {all: "{{ event.payload.results }}"}
  - step: sum
    tool: {kind: noop, result: "{{ args.all | sum }}"}
"""
)
WAITS = (
    HEAD
    + """
metadata: {name: waits, path: tests/waits}
workflow:
  - step: wait
    tool: {kind: wait, signal: never}
"""
)
CALLS = (
    HEAD
    + """
metadata: {name: calls, path: tests/calls}
workflow:
  - step: call
    tool: {kind: playbook, path: tests/steps}
"""
)
PLAYBOOKS = {"steps": STEPS, "loop": LOOP, "waits": WAITS, "calls": CALLS}
PLANTED = (
    "a commit is not synced",
    "a value is not synced",
    "a new folder is not synced",
    "a removed journal is not synced",
)
"""Bugs that the images have to show."""
DEADLY = 12
"""The commit after which a process kills itself."""
COMMANDS = (
    ("run", "steps.yaml"),
    ("run", "loop.yaml"),
    ("run", "waits.yaml", "--timeout", "30ms"),
    ("fork", "last", "--at", "4", "--timeout", "30ms"),
    ("run", "calls.yaml"),
    ("run", "loop.yaml", "--set", "count=80"),
)
TOGETHER = 4
"""Executions at once on the store of a server."""


def mark_commits(shim: Shim, deadly: int | None = None) -> None:
    """Put each acknowledged commit into the record: executions and positions. Die after
    the ``deadly`` one."""
    commit, number = SqliteStore.commit, count(1)

    async def marked(self: SqliteStore, transitions: Sequence[Transition]) -> None:
        await commit(self, transitions)
        ends = {each.execution_id: _end(each) for each in transitions}
        shim.mark(json.dumps([self.path.name, ends]))
        if next(number) == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    SqliteStore.commit = marked  # type: ignore[method-assign]


def _end(each: Transition) -> int:
    return each.log.after + len(each.log.events)


def lower_limits() -> None:
    """Make snapshots and checkpoints happen in a short run."""
    transition.SNAPSHOT_EVERY = 60
    writer.CHECKPOINT = 40 * writer.PAGE


def run(*words: str) -> None:
    """Run a command as its user does."""
    said = CliRunner().invoke(noetl, [*words, "--json", "--no-progress"])
    assert said.exit_code in (0, 1), said.output


async def run_together(home: Home, folder: Path, shim: Shim) -> None:
    """Run several executions at once: their commits share transactions."""
    store: Any = SqliteStore.open(home.server_log, threaded=True)
    close, store.close = store.close, _later
    settings = read_settings()
    source = LOOP.encode()
    loaded = load(source, BUILTIN)

    async def work() -> None:
        runtime = Embedded(home, store, str(folder), settings)
        assert await runtime.start(loaded, source, {"count": 15})
        await runtime.finish()
        assert runtime.document()["status"] == "completed"
        await runtime.close()

    await asyncio.gather(*(work() for _ in range(TOGETHER)))
    [done] = await store.find(limit=1)
    for position in (0, None):
        shim.mark(json.dumps([store.path.name, {done.execution_id: position}]))
        if position == 0:
            await store.remove([done.execution_id])
    await close()


async def _later() -> None:
    """Other executions still use the store."""


class _WithoutSync:
    """The module ``os``, with a sync that does nothing."""

    def __getattr__(self, name: str) -> Any:
        return _do_nothing if name == "fsync" else getattr(os, name)


def _do_nothing(_: Any) -> None:
    """Sync nothing."""


def plant(bug: str) -> None:
    """Break the product in one way."""
    match bug:
        case "a commit is not synced":
            writer.Writer._synchronize = _never_full  # type: ignore[method-assign]
        case "a value is not synced":
            files.os = _WithoutSync()  # type: ignore[attr-defined]
        case "a new folder is not synced":
            private_files.sync_folder = _do_nothing
        case "a removed journal is not synced":
            pragmas = sql_database._PRAGMAS
            sql_database._PRAGMAS = pragmas.replace("EXTRA", "FULL")
        case other:
            raise AssertionError(other)


def _never_full(self: writer.Writer, full: bool) -> None:
    self._db.execute("PRAGMA synchronous = NORMAL")


def main(root: Path, *bugs: str) -> None:
    shim = Shim()
    lower_limits()
    folder = root.parent / "playbooks"  # it is not watched, and so not lost
    folder.mkdir(exist_ok=True)
    for name, text in PLAYBOOKS.items():
        (folder / f"{name}.yaml").write_text(text)
    if bugs == ("killed",):
        mark_commits(shim, DEADLY)
        run("run", str(folder / "loop.yaml"))
    mark_commits(shim)
    for bug in bugs:
        plant(bug)
    if not bugs:
        run("resume", "last")
    for verb, file, *more in COMMANDS[:1] if bugs else COMMANDS:
        path = str(folder / file) if file.endswith(".yaml") else file
        run(verb, path, *more)
    home = Home(root / "home")
    if not bugs:
        asyncio.run(run_together(home, folder, shim))
    asyncio.run(change_tables(home, lambda *row: shim.mark(json.dumps(row))))
    shim.mark("end")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
