"""Calls that wait inside of a process: none is lost, or run twice, or ends others."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from noetl.adapters.tools.python import PythonTool
from noetl.engine.tasks.outcome import Outcome
from noetl.errors import ToolError
from noetl.ports import ToolCall

Call = Callable[..., ToolCall]
Run = Callable[[ToolCall], Any]

pytestmark = pytest.mark.spec("PIPE-15")

ADD = "def main(x): return x + 1"
SHORT = "import os\ndef main(): return os.getpid()"


def python(call: Call, code: str, **args: Any) -> ToolCall:
    """With a limit of its own, so that it is never handed to a shared process."""
    spec = {"timeout": 30, "memory": "4GiB", **args.pop("spec", {})}
    return call("python", {"code": code, "args": args}, spec=spec)


async def warm(run: Run, call: Call) -> set[int]:
    """Short calls, until a process is handed many of them at once."""
    pids = set()
    for _ in range(40):
        ended = await asyncio.gather(*(run(python(call, SHORT)) for _ in range(8)))
        pids |= {each.result for each in ended}
    return pids


async def gather(run: Run, calls: list[ToolCall]) -> list[Any]:
    return await asyncio.gather(*map(run, calls), return_exceptions=True)


def kinds(ended: list[Any]) -> Counter[str]:
    return Counter(
        each.kind if isinstance(each, ToolError) else each.status for each in ended
    )


PRINT = """
import os, subprocess, sys, time
def main(x):
    way = x // 40 % 6 if x % 40 > 35 else None
    if way == 0: print('print', x)
    if way == 1: print('error', x, file=sys.stderr)
    if way == 2: os.write(1, f'write {x}'.encode())
    if way == 3: subprocess.run(['echo', str(x)])
    if way == 4: sys.stdout.write(str(x) * 9999)
    if way == 5:
        print('early', x, flush=True)
        end = time.perf_counter() + 0.0005
        while time.perf_counter() < end: pass
    if x % 17 == 0: raise ValueError(x)
    return x
"""
LAST = 1200


def printed(x: int) -> tuple[str, str]:
    if x % 40 <= 35:
        return "", ""
    ways = [f"print {x}\n", f"error {x}\n", f"write {x}", f"{x}\n", str(x) * 9999]
    text = [*ways, f"early {x}\n"][x // 40 % 6]
    return ("", text) if text.startswith("error") else (text, "")


def test_output_is_that_of_the_call_which_printed_it(
    call: Call, using: Any, listening: Any
) -> None:
    """Most are silent, so that many are handed over at once; some in a row are not."""
    heard: dict[int, tuple[str, str]] = {}

    def hear(which: ToolCall, out: str, err: str) -> None:
        if "x" in which.inputs["args"]:
            heard[which.inputs["args"]["x"]] = out, err

    async def work(run: Run) -> list[Any]:
        await warm(run, call)
        return await gather(run, [python(call, PRINT, x=x) for x in range(LAST)])

    ended = using(listening(PythonTool(2), hear), work)

    failed = len(range(0, LAST, 17))
    assert kinds(ended) == {"tool.exception": failed, "ok": LAST - failed}
    assert heard == {x: printed(x) for x in range(LAST) if any(printed(x))}


NOTE = """
import os
def main(x, file, how):
    done = os.open(file, os.O_WRONLY | os.O_APPEND)
    os.write(done, f'{x}\\n'.encode())
    if how == 'exit': os._exit(3)
    if how == 'crash': os.abort()
    if how == 'raise': raise SystemExit(3)
    if how == 'kill the launcher': os.kill(os.getppid(), 9)
    if how == 'close': os.closerange(0, 99)
    return x
"""


@pytest.mark.parametrize("how", ["exit", "crash", "raise", "close"])
def test_a_death_takes_down_the_call_that_ran_and_no_other(
    how: str, call: Call, using: Any, tmp_path: Path
) -> None:
    """Each call notes that it began: all did, and each did once."""
    file = tmp_path / "begun"
    file.touch()

    def one(x: int) -> ToolCall:
        return python(
            call, NOTE, x=x, file=str(file), how=how if x % 10 == 3 else "return"
        )

    async def work(run: Run) -> list[Any]:
        await warm(run, call)
        return await gather(run, [one(x) for x in range(200)])

    ended = using(PythonTool(4), work)

    assert kinds(ended) == {"tool.exit": 20, "ok": 180}
    assert sorted(map(int, file.read_text().split())) == list(range(200))


def test_a_launcher_that_dies_loses_no_call_that_had_not_begun(
    call: Call, using: Any, tmp_path: Path
) -> None:
    file = tmp_path / "begun"
    file.touch()

    def one(x: int) -> ToolCall:
        how = "kill the launcher" if x == 7 else "return"
        return python(call, NOTE, x=x, file=str(file), how=how)

    async def work(run: Run) -> list[Any]:
        await warm(run, call)
        return await gather(run, [one(x) for x in range(100)])

    ended = using(PythonTool(4), work)

    assert set(kinds(ended)) <= {"ok", "tool.exit"}
    begun = list(map(int, file.read_text().split()))
    assert len(begun) == len(set(begun))
    for x, each in enumerate(ended):
        assert x in begun or isinstance(each, ToolError)


READ = "def main(pipe): return open(pipe).read()"
WRITE = "def main(pipe): return open(pipe, 'w').write('freed')"


@pytest.mark.parametrize("slots", [2, 8])
def test_a_long_call_delays_no_other_call(
    slots: int, call: Call, using: Any, tmp_path: Path
) -> None:
    """The first waits for the last: in one process, one behind the other, for ever."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)

    async def work(run: Run) -> list[Any]:
        await warm(run, call)
        calls = [python(call, READ, pipe=pipe)]
        calls += [python(call, SHORT) for _ in range(20)]
        return await gather(run, [*calls, python(call, WRITE, pipe=pipe)])

    ended = using(PythonTool(slots), work)

    assert kinds(ended) == {"ok": 22}
    assert ended[0].result == "freed"


def test_a_queued_call_is_cancelled_without_killing_a_process(
    call: Call, using: Any, tmp_path: Path
) -> None:
    pipe, mark = str(tmp_path / "pipe"), tmp_path / "mark"
    os.mkfifo(pipe)
    block = "import os\ndef main(pipe): return [open(pipe).read(), os.getpid()]"

    async def work(run: Run) -> tuple[set[int], Any, list[Any], Any]:
        pids = await warm(run, call)
        first = asyncio.ensure_future(run(python(call, block, pipe=pipe)))
        touch = python(call, "open(mark, 'w')", mark=str(mark))
        behind = [asyncio.ensure_future(run(touch)) for _ in range(5)]
        others = [asyncio.ensure_future(run(python(call, SHORT))) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for each in behind:
            each.cancel()
        await asyncio.wait(behind)
        await asyncio.to_thread(Path(pipe).write_text, "freed")
        ended = (await first).result
        return pids, ended, [each.cancelled() for each in behind], await others[0]

    pids, (text, pid), cancelled, other = using(PythonTool(1), work)

    assert cancelled == [True] * 5
    assert not mark.exists()
    assert (text, {pid}, {other.result}) == ("freed", pids, pids)


def test_a_timeout_counts_from_the_beginning(call: Call, using: Any) -> None:
    code = "import os, time\ntime.sleep(0.1)"

    async def work(run: Run) -> list[Any]:
        await warm(run, call)
        calls = [python(call, code, spec={"timeout": 0.5}) for _ in range(8)]
        return await gather(run, calls)

    assert kinds(using(PythonTool(1), work)) == {"ok": 8}


def test_behind_a_call_that_times_out_nothing_is_lost(
    call: Call, using: Any, tmp_path: Path
) -> None:
    async def work(run: Run) -> list[Any]:
        await warm(run, call)
        calls = [python(call, "while True: pass", spec={"timeout": 0.1})]
        calls += [python(call, SHORT) for _ in range(20)]
        return await gather(run, calls)

    assert kinds(using(PythonTool(1), work)) == {"timeout": 1, "ok": 20}


def test_behind_a_call_that_litters_the_rest_runs_elsewhere(
    call: Call, using: Any
) -> None:
    litter = (
        "import os, threading\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "result = os.getpid()"
    )

    async def work(run: Run) -> tuple[set[int], list[Any]]:
        pids = await warm(run, call)
        calls = [python(call, litter), *(python(call, SHORT) for _ in range(20))]
        return pids, await gather(run, calls)

    pids, ended = using(PythonTool(1), work)

    assert {ended[0].result} == pids
    assert pids.isdisjoint(each.result for each in ended[1:])


STEAL = """
import os
stolen = b''
while not stolen:
    try: stolen = os.read(5, %d)
    except BlockingIOError: pass
"""


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(STEAL % 9999, id="takes permits"),
        pytest.param(STEAL % 9999 + "while True: pass", id="and never comes back"),
        pytest.param(STEAL % 3, id="takes a part of one"),
        pytest.param("import os\nos.close(5)", id="closes them"),
        pytest.param("import os\nos.read(3, 9999)", id="takes what is sent"),
        pytest.param(
            "import os\nos.set_blocking(5, True)\nwhile True: pass", id="waits for them"
        ),
    ],
)
def test_who_interferes_with_what_waits_harms_his_own_execution_at_most(
    code: str, call: Call, using: Any
) -> None:
    async def work(run: Run) -> tuple[list[Any], Any]:
        await warm(run, call)
        calls = [python(call, code, spec={"timeout": 0.5})]
        calls += [python(call, SHORT) for _ in range(20)]
        ended = await gather(run, calls)
        return ended, (await run(python(call, SHORT))).status

    ended, after = using(PythonTool(1), work)

    assert set(kinds(ended)) <= {"ok", "tool.exit", "timeout"}
    assert after == "ok"


class Timer:
    """What a loop owes to those who wait; uvloop gives no more for what is late."""

    _source_traceback = None

    def __init__(self, handle: asyncio.TimerHandle) -> None:
        self.cancel = handle.cancel


class Terse(asyncio.SelectorEventLoop):
    def call_at(self, when: float, *about: Any, **more: Any) -> Any:
        return Timer(super().call_at(when, *about, **more))


@pytest.mark.spec("PIPE-15", "WKR-02")
@pytest.mark.parametrize("new_loop", [Terse, uvloop.new_event_loop])
def test_no_reply_is_lost_whatever_the_loop_s_timers_say(
    new_loop: Callable[[], asyncio.AbstractEventLoop], call: Call
) -> None:
    async def work() -> list[Outcome]:
        tool, outcomes = PythonTool(1), list[Outcome]()
        for _ in range(40):  # the first ones are one at a time
            calls = [call("python", {"code": ADD, "args": {"x": x}}) for x in range(8)]
            async with asyncio.timeout(30):
                outcomes += await asyncio.gather(*map(tool.run, calls))
        await tool.close()
        return outcomes

    with asyncio.Runner(loop_factory=new_loop) as runner:
        outcomes = runner.run(work())

    assert outcomes == [Outcome.ok(x + 1) for _ in range(40) for x in range(8)]
