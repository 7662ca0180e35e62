"""The ``python`` tool alone: calls in flight, one at a time, and first calls.

python bench/python_calls.py [--calls N]

CPU is that of the worker and of the processes of its calls, apart: on a machine that is
shared, what a call costs says more than how many were made. One at a time it is the
median that counts.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from noetl.adapters.host import HostPolicy
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.tools.engine_kinds import NoopTool
from noetl.adapters.tools.python import PythonTool
from noetl.ports import Tool, ToolCall

TINY = "result = x + 1"
OWN = "import os\nresult = x + 1"  # may leave something behind: not to be shared
LOUD = "print(x)\nresult = x + 1"
FIVE = "import time\ntime.sleep(0.005)\nresult = x + 1"
IN_FLIGHT = 64
ROUNDS = 5


class Used(NamedTuple):
    calls: int
    wall: float
    worker: float
    code: float
    median: float | None = None

    def show(self, name: str) -> None:
        each = self.wall / self.calls if self.median is None else self.median
        print(
            f"{name:<44} {self.calls / self.wall:9,.0f} calls/s"
            f" {each * 1e6:9,.0f} us each,"
            f" CPU us: worker {self.worker / self.calls * 1e6:6,.0f}"
            f" code {self.code / self.calls * 1e6:6,.0f}"
        )


def call(code: str, x: int, execution: str = "e1") -> ToolCall:
    return ToolCall(
        kind="python",
        inputs={"code": code, "args": {"x": x}, "result": x + 1},
        spec={"timeout": 60},
        execution_id=execution,
        step="s",
        task="t",
        action_id="a1",
        attempt=1,
    )


def cpu_of_children() -> float:
    """Of the processes below this one, alive or not."""
    ticks = 0
    below = {os.getpid()}
    for _ in range(3):
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) in below and int(name) not in below:
                below.add(int(name))
                ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


async def measure(work: Callable[[], Awaitable[int]]) -> Used:
    code, worker, wall = cpu_of_children(), time.process_time(), time.perf_counter()
    calls = await work()
    return Used(
        calls,
        time.perf_counter() - wall,
        time.process_time() - worker,
        cpu_of_children() - code,
    )


async def in_flight(tool: Tool, code: str, calls: int) -> Used:
    numbers = iter(range(calls))

    async def repeat() -> None:
        for x in numbers:
            outcome = await tool.run(call(code, x))
            assert outcome.result == x + 1

    async def work() -> int:
        await asyncio.gather(*(repeat() for _ in range(IN_FLIGHT)))
        return calls

    return await measure(work)


async def one_by_one(
    tool: Tool, code: str, calls: int, execution: Callable[[int], str]
) -> Used:
    took = []

    async def work() -> int:
        for x in range(calls):
            began = time.perf_counter()
            await tool.run(call(code, x, execution(x)))
            took.append(time.perf_counter() - began)
        return calls

    used = await measure(work)
    return used._replace(median=statistics.median(took))


async def measure_all(python: Tool, calls: int, where: str = "") -> None:
    await in_flight(python, TINY, 500)
    (await in_flight(python, TINY, calls)).show(f"64 in flight{where}")
    used = await in_flight(python, OWN, calls)
    used.show(f"64 in flight, not to be shared{where}")
    (await in_flight(python, LOUD, calls // 5)).show(f"64 in flight, printing{where}")
    (await in_flight(python, FIVE, calls // 20)).show(f"64 in flight, 5 ms each{where}")
    for code, name in ((TINY, ""), (OWN, ", not to be shared")):
        used = await one_by_one(python, code, calls // 10, lambda x: "e1")
        used.show(f"one at a time{name}{where}")
        used = await one_by_one(
            python, code, calls // 100, lambda x, code=code: f"{len(code)}-{x}"
        )
        used.show(f"an execution each{name}{where}")


async def compare(plain: Tool, sandboxed: Tool, calls: int) -> None:
    """Warm calls in turns: on a machine that is shared, each has the same chances."""
    for code, name in ((TINY, ""), (OWN, ", not to be shared")):
        took: dict[str, list[float]] = {"": [], ", sandbox": []}
        for _ in range(ROUNDS):
            for tool, where in ((plain, ""), (sandboxed, ", sandbox")):
                used = await one_by_one(tool, code, calls // 20, lambda x: "e1")
                took[where].append(used.median or 0.0)
        for where, each in took.items():
            print(f"in turns{name}{where}: {statistics.median(each) * 1e6:,.0f} us")


async def main(calls: int) -> None:
    (await in_flight(NoopTool(), TINY, calls)).show("no process")
    isolation = Isolation(HostPolicy(isolation="required"))
    plain = PythonTool(IN_FLIGHT)
    sandboxed = PythonTool(IN_FLIGHT, isolation=isolation)
    try:
        await measure_all(plain, calls)
        if (await isolation.probe()).problem is not None:
            print("no sandbox can be made here")
            return
        await measure_all(sandboxed, calls, ", sandbox")
        await compare(plain, sandboxed, calls)
    finally:
        await plain.close()
        await sandboxed.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=20_000)
    asyncio.run(main(parser.parse_args().calls))
