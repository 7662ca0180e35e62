"""The pieces that bench/micro.py counts, each in a process of its own.

python -m parts.pieces NAME MOST TIMES

A piece prepares for MOST repetitions and makes TIMES of them, so that two processes
with one MOST differ in the repetitions alone. Imports are inside: under callgrind every
module that is not needed costs a second.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from noetl.bench import Host
    from noetl.dsl.model import Playbook
    from noetl.engine.events import Event

STEPS = 50
EVENTS = 6 * STEPS + 5
"""Of the log that is folded and replayed: so many steps, a beginning and an end."""
VALIDATED = 30
"""Steps of the playbook that is validated."""


class Piece(NamedTuple):
    """``times`` is how often it is repeated; a repetition is so many ``units``."""

    what: str
    work: Callable[[int, int], Coroutine[None, None, None]]
    times: int
    units: int = 1
    counted: bool = True


async def guard(most: int, times: int) -> None:
    from templates import GUARD, SCOPE

    from noetl.templates import compile_guard

    compiled = compile_guard(GUARD)
    for _ in range(times):
        assert compiled.holds(SCOPE)


async def encode(most: int, times: int) -> None:
    from sqlite_log import identity, transition

    from noetl.adapters.stores.encoding import encode

    group = [transition(identity(1), 0)]
    for _ in range(times):
        encode(group)


async def append(most: int, times: int) -> None:
    from sqlite_log import EVENTS as GROUP
    from sqlite_log import identity, transition

    from noetl.adapters.stores.sqlite import SqliteStore

    groups = [[transition(identity(1), n * GROUP)] for n in range(most)]
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore.open(Path(folder) / "log.db")
        for group in groups[:times]:
            await store.commit(group)
        await store.close()


async def fold(most: int, times: int) -> None:
    from noetl.engine.evolve import replay

    log = simulated()
    assert len(log) == EVENTS
    for _ in range(times):
        assert replay(log).finished


async def replay(most: int, times: int) -> None:
    from noetl.adapters.stores.sqlite import SqliteStore
    from noetl.engine.evolve import replay
    from noetl.engine.state import State
    from noetl.ports import Append, Summary, Transition

    log = simulated()
    name, began = log[0].execution_id, log[0].timestamp
    summary = Summary(name, "completed", {"name": "chain"}, began, began)
    whole = Transition(execution_id=name, log=Append(0, log), summary=summary)
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore.open(Path(folder) / "log.db")
        await store.commit([whole])
        for _ in range(times):
            state = State()
            async for events in store.pages(name):
                replay(events, state)
            assert state.finished
        await store.close()


async def pipeline(most: int, times: int) -> None:
    from noetl.adapters.tools.engine_kinds import NoopTool
    from noetl.engine.runs import begin
    from noetl.engine.state import Frame
    from noetl.engine.tasks.pipeline import Call, Ended, Pipeline
    from noetl.ports import ToolCall
    from noetl.runtime.worker.tool_call import meta_of

    tool = NoopTool()
    tasks = chain().steps["work"].tasks
    frame = Frame("e", "t", "work", "e-1", (), {"x": 1}, {}, {"n": 9}, trace_id="0")
    for _ in range(times):
        moves = Pipeline(tasks, frame, begin(tasks[0].label, None))
        call = moves.next()
        assert isinstance(call, Call)
        called = ToolCall(
            kind="noop",
            inputs=call.inputs,
            spec=call.spec,
            execution_id="e",
            step="work",
            task=call.task.label,
            action_id=call.action_id,
            attempt=call.attempt,
        )
        outcome = await tool.run(called)
        moves.take(outcome, meta_of(frame, call, 1.0, 1.0))
        assert isinstance(moves.next(), Ended)


async def step(most: int, times: int) -> None:
    async with hosted() as host:
        assert await host.execute("chain", times) == times


async def iteration(most: int, times: int) -> None:
    async with hosted() as host:
        assert await host.execute("fanout", times) == times * (times + 1) // 2


async def validation(most: int, times: int) -> None:
    from validate import cold_load, playbook

    text = playbook(VALIDATED)
    for _ in range(times):
        cold_load(text)


async def python(most: int, times: int) -> None:
    from python_calls import TINY, call

    from noetl.adapters.tools.python import PythonTool

    tool = PythonTool(1)
    for x in range(times):
        outcome = await tool.run(call(TINY, x))
        assert outcome.result == x + 1
    await tool.close()


def chain() -> Playbook:
    from noetl.adapters.tools import BUILTIN
    from noetl.bench import playbooks
    from noetl.dialects import load

    loaded = load(playbooks("noop")["chain"], BUILTIN).playbook
    assert loaded is not None
    return loaded


def simulated() -> list[Event]:
    """The log of a chain, without a disk."""
    from noetl.engine.simulate import Simulation
    from noetl.engine.tasks.outcome import Outcome

    run = Simulation(
        chain(),
        lambda call: Outcome.ok(call.inputs["result"]),
        workload={"n": STEPS},
    )
    assert run.run().finished
    return run.log


@asynccontextmanager
async def hosted() -> AsyncIterator[Host]:
    from noetl.bench import Host, playbooks

    with tempfile.TemporaryDirectory() as folder:
        host = Host(Path(folder))
        await host.start(playbooks("noop"))
        try:
            yield host
        finally:
            await host.close()


PIECES = {
    "guard": Piece("a guard, evaluated", guard, 2_000),
    "encode": Piece("an event, encoded", encode, 1_000, 6),
    "append": Piece("six events, appended on SQLite", append, 100),
    "fold": Piece("an event, folded", fold, 30, EVENTS),
    "replay": Piece("an event, read from SQLite and folded", replay, 10, EVENTS),
    "pipeline": Piece("a pipeline of one `noop`, without a log", pipeline, 1_000),
    "step": Piece("a step of a chain, embedded", step, 100),
    "iteration": Piece("an iteration of a parallel loop, embedded", iteration, 256),
    "validation": Piece(f"a playbook of {VALIDATED} steps, validated", validation, 3),
    "python": Piece("a call of python code and back", python, 3_000, counted=False),
}


if __name__ == "__main__":
    gc.disable()  # when it collects depends on what was before
    name, most, times = sys.argv[1:]
    asyncio.run(PIECES[name].work(int(most), int(times)))
