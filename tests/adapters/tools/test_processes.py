"""Warm processes: shared by the calls of an execution, and ended for good."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.processes.launcher import INTERPRETER, Launcher, Order
from noetl.adapters.processes.pool import Pool
from noetl.adapters.processes.request import Key
from noetl.adapters.tools.python import PythonTool
from noetl.ports import ToolCall

Call = Callable[..., ToolCall]
PARENT = "import os\ndef main(): return os.getppid()"
PID = "import os\ndef main(): return os.getpid()"


def is_alive(pid: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def is_there(pid: int) -> bool:
    """Whether it runs, or is a zombie."""
    return os.path.exists(f"/proc/{pid}")


def python(call: Call, code: str, **more: Any) -> ToolCall:
    return call("python", {"code": code, "args": more.pop("args", {})}, **more)


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        pytest.param({}, {}, True, id="the same execution: shared"),
        pytest.param({}, {"execution_id": "e2"}, False, id="another execution: not"),
        pytest.param({}, {"spec": {"memory": "1GiB"}}, False, id="another limit: not"),
        pytest.param(
            {"spec": {"isolation": "fresh"}},
            {"spec": {"isolation": "fresh"}},
            False,
            id="fresh: not",
        ),
    ],
)
def test_a_process_serves_one_execution(
    first: Any, second: Any, shared: bool, call: Call, using: Any
) -> None:
    async def work(run: Any) -> bool:
        one = await run(python(call, PID, **first))
        two = await run(python(call, PID, **second))
        same: bool = one.result == two.result
        return same

    assert using(PythonTool(4), work) is shared


def test_what_one_call_left_in_disorder_is_tidied_for_the_next(
    call: Call, using: Any, tmp_path: Path, listening: Any
) -> None:
    mess = (
        "import os, sys\nos.chdir('/')\nos.environ['A'] = 'b'\n"
        "sys.path.clear()\nsys.stdout = None\nleft = 1\nresult = os.getpid()"
    )
    look = (
        "import os, sys\nprint('still heard')\n"
        "result = [os.getpid(), os.getcwd(), 'A' in os.environ, len(sys.path) > 1,"
        " 'left' in globals()]"
    )
    heard: list[str] = []

    async def work(run: Any) -> Any:
        pid = (await run(python(call, mess, folder=str(tmp_path)))).result
        return pid, (await run(python(call, look, folder=str(tmp_path)))).result

    tool = listening(PythonTool(1), lambda _, out, err: heard.append(out))
    pid, seen = using(tool, work)

    assert seen == [pid, str(tmp_path), False, True, False]
    assert heard == ["still heard\n"]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import os; os._exit(1)", id="that died"),
        pytest.param(
            "import os; os.close(1); result = os.getpid()", id="without stdout"
        ),
        pytest.param(
            "import threading\n"
            "threading.Thread(target=threading.Event().wait, daemon=True).start()",
            id="with a thread",
        ),
        pytest.param(
            "import os, signal\nif not os.fork(): signal.pause()", id="with a child"
        ),
        pytest.param("import os\nos.fork()\nresult = 1", id="that came back twice"),
        pytest.param(
            "import os, signal\nif not os.fork():\n"
            "  if os.fork(): os._exit(0)\n  signal.pause()\nos.wait()",
            id="with a daemon",
        ),
    ],
)
def test_a_process_that_is_spent_serves_no_other_call(
    code: str, call: Call, using: Any, outcome: Any
) -> None:
    async def work(run: Any) -> tuple[int, int, int]:
        before = (await run(python(call, PID))).result
        await outcome(run(python(call, code)))
        after = (await run(python(call, PID))).result
        again = (await run(python(call, PID))).result
        return before, after, again

    before, after, again = using(PythonTool(2), work)

    assert before != after
    assert after == again


def test_calls_that_wait_get_more_processes_up_to_the_slots(
    call: Call, using: Any, tmp_path: Path
) -> None:
    """Each call waits until three are there: only three processes can meet."""
    meet = (
        "import os, pathlib\ndef main(folder, name):\n"
        "  (pathlib.Path(folder) / name).touch()\n"
        "  while len(os.listdir(folder)) < 3: pass\n"
        "  return os.getpid()"
    )

    async def work(run: Any) -> list[int]:
        calls = [
            run(python(call, meet, args={"folder": str(tmp_path), "name": str(name)}))
            for name in range(9)
        ]
        return [each.result for each in await asyncio.gather(*calls)]

    pids = using(PythonTool(3), work)

    assert len(set(pids)) == 3


def test_many_small_calls_share_few_processes(call: Call, using: Any) -> None:
    async def work(run: Any) -> set[int]:
        pids = set()

        async def repeat() -> None:
            for _ in range(40):
                pids.add((await run(python(call, PID))).result)

        await asyncio.gather(*(repeat() for _ in range(64)))
        return pids

    # How many are started depends on the machine; that it is no process per call not.
    assert len(using(PythonTool(64), work)) < 32


def test_executions_take_turns_when_slots_are_few(call: Call, using: Any) -> None:
    async def work(run: Any) -> set[str]:
        calls = [
            run(python(call, "result = x", args={"x": name}, execution_id=name))
            for name in ("e1", "e2", "e3", "e4") * 3
        ]
        return {each.result for each in await asyncio.gather(*calls)}

    assert using(PythonTool(1), work) == {"e1", "e2", "e3", "e4"}


HIDDEN = (
    "import os, signal, subprocess\n"
    "a = subprocess.Popen(['sleep', '600'])\n"
    "b = subprocess.Popen(['setsid', 'sleep', '600'])\n"
    "r, w = os.pipe()\n"
    "if not os.fork():\n"
    "  os.setsid()\n"
    "  if os.fork(): os._exit(0)\n"
    "  os.write(w, str(os.getpid()).encode())\n"
    "  signal.pause()\n"
    "pids = [os.getpid(), a.pid, b.pid, int(os.read(r, 99))]\n"
    "open(path, 'w').write(repr(pids))\n"
)


@pytest.mark.parametrize(
    ("ending", "spec"),
    [
        pytest.param("result = 1", {}, id="after the call"),
        pytest.param("os._exit(1)", {}, id="after its death"),
        pytest.param("while True: pass", {"timeout": 0.5}, id="after a timeout"),
        pytest.param("1/0", {}, id="after an exception"),
    ],
)
def test_processes_that_code_started_die_with_it(
    ending: str, spec: Any, call: Call, using: Any, outcome: Any, tmp_path: Path
) -> None:
    """A child, one in a session of its own, and a daemon that nobody is parent of."""
    file = tmp_path / "pids"

    async def work(run: Any) -> list[int]:
        request = python(call, HIDDEN + ending, args={"path": str(file)}, spec=spec)
        await outcome(run(request))
        return [pid for pid in read_pids(file) if is_alive(pid)]

    assert using(PythonTool(1), work) == []


def read_pids(file: Path) -> list[int]:
    return [int(part) for part in file.read_text().strip("[]").split(",")]


def test_being_cancelled_kills_the_process_before_it_returns(
    call: Call, using: Any, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    os.mkfifo(file)
    code = "import os\nopen(path, 'w').write(str(os.getpid()))\nwhile True: pass"

    async def work(run: Any) -> bool:
        running = asyncio.ensure_future(
            run(python(call, code, args={"path": str(file)}))
        )
        pid = int(await asyncio.to_thread(file.read_text))
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        return is_alive(pid)

    assert not using(PythonTool(1), work)


def test_of_a_code_that_comes_back_twice_the_original_answers(
    call: Call, using: Any
) -> None:
    code = (
        "import os\nif os.fork():\n  os.wait()\n  result = 'original'\n"
        "else:\n  result = 'copy'"
    )

    async def work(run: Any) -> Any:
        return (await run(python(call, code))).result

    assert using(PythonTool(1), work) == "original"


def test_a_process_is_never_given_to_a_call_that_was_cancelled_just_now() -> None:
    async def main() -> bool:
        pool = Pool(1, {})
        key = Key("e1", None, None)
        try:
            runner = await pool.acquire(key)
            waiting = asyncio.ensure_future(pool.acquire(key))
            await asyncio.sleep(0)
            waiting.cancel()
            pool.release(runner)
            return await pool.acquire(key) is runner
        finally:
            await pool.close()

    assert asyncio.run(main())


def test_no_call_waits_beside_an_idle_process_of_its_key() -> None:
    """A shared process has become idle while a call of another key waits longer than
    the one that it could serve."""

    async def main() -> bool:
        pool = Pool(4, {}, ahead=64)
        shared, own = Key("", None, None, shared=True), Key("e1", None, None)
        try:
            fast = await pool.acquire(shared)
            fast._pace = 1e-5  # as after short calls
            taken = [fast, *[await pool.acquire(shared) for _ in range(63)]]
            busy = await pool.acquire(own)
            calls = [asyncio.ensure_future(pool.acquire(key)) for key in (own, shared)]
            await asyncio.sleep(0)
            loop = asyncio.get_running_loop()
            clock = loop.time
            loop.time = lambda: clock() + 0.15  # type: ignore[method-assign]
            for runner in taken:
                pool.release(runner)
            pool.release(busy)
            _, waiting = await asyncio.wait(calls, timeout=5)
            return not waiting
        finally:
            await pool.close()

    assert asyncio.run(main())


def test_a_call_cancelled_while_queued_uses_up_no_process(
    call: Call, using: Any
) -> None:
    async def work(run: Any) -> Any:
        first = asyncio.ensure_future(run(python(call, PID)))
        waiting = [asyncio.ensure_future(run(python(call, PID))) for _ in range(5)]
        await asyncio.sleep(0)
        for each in waiting[:4]:
            each.cancel()
        await asyncio.wait(waiting)
        return (await first).result, waiting[4].result().result

    first, last = using(PythonTool(1), work)

    assert first == last


def test_closing_ends_everything_and_leaves_no_zombie(
    call: Call, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    os.mkfifo(file)
    code = "import os\nopen(path, 'w').write(str(os.getpid()))\nwhile True: pass"

    async def main() -> list[int]:
        tool = PythonTool(2)
        idle = (await tool.run(python(call, PID, execution_id="e0"))).result
        parent = (await tool.run(python(call, PARENT, execution_id="e0"))).result
        busy = asyncio.ensure_future(
            tool.run(python(call, code, args={"path": str(file)}))
        )
        pid = int(await asyncio.to_thread(file.read_text))
        await tool.close()
        await asyncio.wait({busy})
        assert busy.exception() is not None
        return [each for each in (idle, parent, pid) if is_there(each)]

    assert asyncio.run(main()) == []


def test_a_tool_works_again_after_its_launcher_was_killed(
    call: Call, using: Any, outcome: Any
) -> None:
    async def work(run: Any) -> Any:
        code = "import os; os.kill(os.getppid(), 9)\nwhile True: pass"
        await outcome(run(python(call, code)))
        return (await run(python(call, "result = 5"))).result

    assert using(PythonTool(1), work) == 5


def test_large_arguments_and_results_pass(call: Call, using: Any) -> None:
    async def work(run: Any) -> Any:
        args = {"rows": ["x" * 1000] * 5000}
        return (await run(python(call, "result = rows", args=args))).result

    assert using(PythonTool(1), work) == ["x" * 1000] * 5000


def test_idle_processes_are_pooled_once_more_than_one_was_needed(
    call: Call, using: Any
) -> None:
    """A spare is forked and nobody's: it serves whom it is given to, like any other."""
    look = "import os\nresult = [os.getpid(), os.getcwd(), os.environ['A']]"

    async def work(run: Any) -> tuple[list[Any], set[int]]:
        parent = (await run(python(call, PARENT, execution_id="e0"))).result
        await run(python(call, look, execution_id="e1"))
        while len(ready := children_of(parent)) < 5:  # one is shared, two are spares
            await asyncio.to_thread(os.stat, "/")
        found = await run(python(call, look, execution_id="e2", folder="/usr"))
        return found.result, ready

    (pid, folder, value), ready = using(PythonTool(8, environment={"A": "b"}), work)

    assert pid in ready
    assert (folder, value) == ("/usr", "b")


def children_of(pid: int) -> set[int]:
    file = Path(f"/proc/{pid}/task/{pid}/children")
    return {int(child) for child in file.read_text().split()}


WORKER = """
import asyncio, sys
from noetl.adapters.tools.python import PythonTool
from noetl.ports import ToolCall

code = "import os; open(path, 'w').write(str(os.getpid()))\\nwhile True: pass"
call = ToolCall(
    kind="python", inputs={"code": code, "args": {"path": sys.argv[1]}}, spec={},
    execution_id="e1", step="s", task="t", action_id="a1", attempt=1,
)
asyncio.run(PythonTool(1).run(call))
"""


def test_user_code_dies_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    os.mkfifo(file)
    with subprocess.Popen([sys.executable, "-c", WORKER, str(file)]) as worker:
        runner = os.pidfd_open(int(file.read_text()))
        worker.kill()
    try:
        ended, _, _ = select.select([runner], [], [], 10)
    finally:
        os.close(runner)

    assert ended


@pytest.mark.spec("PIPE-15", "WKR-02")
def test_a_worker_that_leaves_without_a_look_at_the_last_answer_leaves_nothing() -> (
    None
):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        program = subprocess.Popen(
            [*INTERPRETER, "launch", str(os.getpid())], stdin=theirs.fileno()
        )
    files = [os.open(os.devnull, os.O_RDWR) for _ in range(5)]
    socket.send_fds(ours, [b'{"server": 1}'], files)
    for file in files:
        os.close(file)
    select.select([ours], [], [], 30)  # it was started: nobody reads that

    ours.close()

    assert program.wait(30) == 0


def test_what_was_handed_to_a_launcher_that_died_may_have_run() -> None:
    """It says nothing any more; so nobody may say that nothing was started."""

    async def main() -> tuple[int, str]:
        launcher = Launcher()
        process = launcher.launch(Order(environment={}, program=["true"]))
        program = launcher._program
        assert program is not None
        program.kill()  # before it can have answered
        await process.started
        status = await process.wait()
        process.close()
        await launcher.close()
        return status, process.failure

    assert asyncio.run(main()) == (-9, "")
