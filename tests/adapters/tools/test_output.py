"""Output of code is heard while the code runs, and records have their levels."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from noetl.adapters.tools.python import PythonTool, as_printed
from noetl.adapters.tools.script import ScriptTool
from noetl.ports import ToolCall

WAIT = "os.read(os.open(fifo, 0), 1)"


class Waiting:
    """A log that tells when a text was written to it."""

    is_full = False

    def __init__(self) -> None:
        self.data = b""
        self._grown = asyncio.Event()

    def write(self, stream: str, data: bytes) -> None:
        self.data += data
        self._grown.set()

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(20):
            while text not in self.data:
                self._grown.clear()
                await self._grown.wait()


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        pytest.param(
            "python",
            {"code": f"import os\nprint('one')\nprint('two')\n{WAIT}"},
            id="python",
        ),
        pytest.param(
            "python",
            {"code": f"import logging as l, os\nl.info('one')\nl.error('two')\n{WAIT}"},
            id="logging",
        ),
        pytest.param(
            "shell", {"command": "echo one; echo two >&2; cat $F"}, id="shell"
        ),
    ],
)
def test_output_arrives_before_the_call_ends(
    kind: str, inputs: dict[str, Any], call: Any, tmp_path: Any
) -> None:
    """The call ends when it is told to, after its output was heard."""
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)

    async def main() -> None:
        tool: Any = PythonTool(1) if kind == "python" else ScriptTool()
        heard = Waiting()
        if kind == "python":
            asked = call("python", {**inputs, "args": {"fifo": fifo}}, output=heard)
        else:
            asked = call("shell", {**inputs, "env": {"F": fifo}}, output=heard)
        try:
            running = asyncio.ensure_future(tool.run(asked))
            await heard.until(b"one")
            await heard.until(b"two")
            assert not running.done()
            with await asyncio.to_thread(open, fifo, "wb") as end:
                end.write(b"x")
            assert (await running).status == "ok"
        finally:
            await tool.close()

    asyncio.run(main())


def heard_of(code: str, call: Any, once: Any, listening: Any) -> tuple[str, str]:
    heard: list[tuple[str, str]] = [("", "")]

    def hear(_: ToolCall, out: str, err: str) -> None:
        heard.append((out, err))

    once(listening(PythonTool(1), hear), call("python", {"code": code}))
    return heard[-1]


@pytest.mark.parametrize(
    ("code", "stderr"),
    [
        pytest.param("logging.info('x')", "\x1e20 x\n", id="module function"),
        pytest.param("logging.debug('x')", "", id="below the default level"),
        pytest.param(
            "logging.getLogger('a.b').warning('x')", "\x1e30 x\n", id="a logger"
        ),
        pytest.param(
            "log = logging.getLogger('a'); log.setLevel(10); log.debug('x')",
            "\x1e10 x\n",
            id="a level of its own",
        ),
        pytest.param(
            "logging.error('x\\ny')", "\x1e40 x\n\x1e40 y\n", id="several lines"
        ),
        pytest.param(
            "logging.basicConfig(format='%(levelname)s %(msg)s'); logging.info('x')",
            "INFO x\n",
            id="a configuration of its own",
        ),
        pytest.param(
            "logging.getLogger().addHandler(logging.NullHandler()); logging.error('x')",
            "",
            id="a handler of its own",
        ),
    ],
)
def test_records_have_levels_unless_the_code_configures_logging(
    code: str, stderr: str, call: Any, once: Any, listening: Any
) -> None:
    found = heard_of(f"import logging\n{code}", call, once, listening)
    assert found == ("", stderr)


def test_output_of_redirected_streams_has_no_marks(
    call: Any, once: Any, listening: Any
) -> None:
    code = (
        "import contextlib, io, logging\nkept = io.StringIO()\n"
        "with contextlib.redirect_stderr(kept): logging.warning('x')\n"
        "print(repr(kept.getvalue()))"
    )
    assert heard_of(code, call, once, listening) == ("'x\\n'\n", "")


def test_a_forked_copy_prints_beside_the_code(
    call: Any, once: Any, listening: Any
) -> None:
    code = (
        "import multiprocessing as m\nprint('before')\n"
        "p = m.get_context('fork').Process(target=print, args=('inside',))\n"
        "p.start(); p.join(); print('after')"
    )
    out, _ = heard_of(code, call, once, listening)
    assert sorted(set(out.split())) == ["after", "before", "inside"]


def test_an_error_has_records_as_python_prints_them() -> None:
    stderr = "a\n\x1e20 told\n\x1e30 x\n\x1e30 y\nb\n"
    assert as_printed(stderr) == "a\nx\ny\nb\n"
