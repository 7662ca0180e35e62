"""A home with much in it: a long log, a wide net, many executions.

A server runs the seeds; further executions are copies of their rows, as the engine
would have written them, for starting them is not what is tested.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec
from servers import HEAD, Api, Running

from noetl.adapters.plugins.enabled import Plugins
from noetl.config import read_settings
from noetl.engine.events import Event
from noetl.local.home import Home
from noetl.ports import Append, Summary, Transition
from noetl.wiring.backend import open_backend
from noetl.wiring.identifiers import new_execution_id

GROUP = 500
REACH = 5
"""Steps by which the second arc of a step may jump ahead."""
LOOP = """\
  - step: many
    spec: {policy: {failure: best_effort}}
    loop:
      in: "{{ range(workload.n) }}"
      iterator: x
      spec: {mode: parallel, max_in_flight: 64}
    tool:
      - check:
          kind: noop
          result: "{{ 1 // (iter.x % 1000 - 500) }}"
    next: {arcs: [{step: s0}]}
"""
TOOL = (
    "{kind: noop, spec: {policy: {rules: "
    "[{else: {then: {do: continue, set_ctx: {at: %d}}}}]}}}"
)
ARCS = """\
    next:
      spec: {mode: inclusive}
      arcs:
        - {step: s%d, when: "{{ event.name == 'step.done' }}"}
        - {step: s%d, when: "{{ event.name == 'step.failed' }}"}
"""
SEED = """\
  - {step: start, tool: {kind: noop, result: 1}, next: {arcs: [{step: end}]}}
  - {step: end, tool: {kind: noop, result: "{{ 1 // workload.n }}"}}
"""


class LargeHome(NamedTuple):
    home: Home
    execution_id: str
    """Execution with the long log and the wide net."""
    steps: int


def wide(steps: int, *, loop: bool = False) -> str:
    """Playbook of a chain with a second, guarded arc from each step."""
    text = f"{HEAD}metadata: {{name: large, path: large/all}}\n"
    text += "workload: {n: 1}\nworkflow:\n" + (LOOP if loop else "")
    for at in range(steps - 1):
        ahead = min(at + 2 + at % REACH, steps - 1)
        text += f"  - step: s{at}\n    tool: {TOOL % at}\n{ARCS % (at + 1, ahead)}"
    return text + f"  - {{step: s{steps - 1}, tool: {{kind: noop}}}}\n"


def seed(number: int) -> str:
    about = f"metadata: {{name: seed, path: large/orders{number}}}\n"
    return f"{HEAD}{about}workload: {{n: 1}}\nworkflow:\n{SEED}"


def make(
    api: Api, home: Home, steps: int, iterations: int
) -> tuple[LargeHome, list[str]]:
    """Run the large execution and the seeds of the copies on a server."""
    large = api.start(wide(steps, loop=True), workload={"n": iterations})
    seeds = [
        api.run(seed(number), workload={"n": 0 if number == 1 else 1})["execution_id"]
        for number in range(3)
    ]
    api.finish(large)
    return LargeHome(home, large, steps), seeds


def fill(home: Home, seeds: Sequence[str], count: int) -> None:
    """Add so many copies; no server may run."""
    # In a thread of its own, for the caller's may run Playwright's event loop.
    with ThreadPoolExecutor(1) as threads:
        threads.submit(lambda: asyncio.run(_fill(home, seeds, count))).result()


async def _fill(home: Home, seeds: Sequence[str], count: int) -> None:
    backend = await open_backend(home, None, Plugins(), read_settings())
    try:
        store, known = backend.store, []
        for each in seeds:
            text = msgspec.json.encode(list(await store.read(each))).decode()
            known.append((each, text, await store.summary(each)))
        for begin in range(0, count, GROUP):
            some = range(begin, min(begin + GROUP, count))
            await store.commit([_copy(*known[at % len(known)]) for at in some])
    finally:
        await backend.closing.aclose()


def _copy(old: str, text: str, summary: Summary) -> Transition:
    new = new_execution_id()
    events = msgspec.json.decode(text.replace(old, new), type=list[Event])
    line = msgspec.structs.replace(summary, execution_id=new)
    return Transition(execution_id=new, log=Append(0, events), summary=line)


def prepare(folder: Home, steps: int, iterations: int, executions: int) -> LargeHome:
    """Make the home; the server that does it is stopped again."""
    server = Running(folder.folder)
    try:
        large, seeds = make(Api(server.url, server.token), folder, steps, iterations)
    finally:
        server.stop()
    fill(folder, seeds, executions)
    return large
