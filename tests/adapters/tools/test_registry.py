"""The tools that are built in."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from noetl.adapters.tools import BUILTIN
from noetl.adapters.tools.registry import BUILTIN_TOOLS, KEYED_TOOLS, make_tools
from noetl.engine.waits.suspend import SUSPENDING


@pytest.mark.spec("PIPE-21")
def test_every_declared_kind_can_run() -> None:
    """By a tool, or by the server; a workbook's template has a kind that can."""
    runnable = BUILTIN_TOOLS.keys() | KEYED_TOOLS.keys() | SUSPENDING

    assert runnable | {"workbook"} == BUILTIN.keys()


def test_tools_are_made_for_each_kind_and_can_be_closed_unused() -> None:
    tools = make_tools(2)

    async def close() -> None:
        for tool in tools.values():
            await tool.close()

    asyncio.run(close())
    assert tools.keys() == BUILTIN_TOOLS.keys() | {"nats", "transfer"}


def test_making_tools_loads_no_driver() -> None:
    code = (
        "import sys\n"
        "from noetl.adapters.tools.registry import make_tools\n"
        "make_tools(8)\n"
        "print({'aiohttp', 'asyncio', 'asyncpg', 'subprocess'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout == "set()\n"
