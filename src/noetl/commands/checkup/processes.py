"""Processes for the code of playbooks: whether they start, and in a sandbox."""

from __future__ import annotations

from noetl.adapters.host import Isolation as Setting
from noetl.adapters.processes.environment import clean_environment
from noetl.adapters.processes.probe import ALLOW, describe, look
from noetl.adapters.tools.python import PythonTool
from noetl.commands.checkup.finding import Finding
from noetl.errors import ToolError
from noetl.ports import ToolCall

_OPEN = "none: code runs without a sandbox, also on a server with accounts"
_CODE = "result = 6 * 7"
_PATIENCE = 30


async def check_processes(setting: Setting = "auto") -> list[Finding]:
    """``setting`` is the operator's of ``isolation``."""
    tool = PythonTool(1)
    try:
        found = [await _check_python(tool), await _check_sandbox(tool)]
    finally:
        await tool.close()
    if setting == "none":
        cure = "unset isolation (NOETL_ISOLATION) where other people's code runs"
        found.append(Finding("isolation", "warning", _OPEN, cure))
    return found


async def _check_python(tool: PythonTool) -> Finding:
    problem = await _try(tool, "fresh")
    if problem is None:
        return Finding("python child", "ok", "starts and answers")
    cure = "look at the limits of this user: ulimit -a"
    return Finding("python child", "problem", problem, cure)


async def _check_sandbox(tool: PythonTool) -> Finding:
    probe = look(clean_environment()["PATH"])
    problem = probe.problem or await _try(tool, "required")
    if problem is None:
        return Finding("sandbox", "ok", describe(probe))
    meaning = "a server with accounts refuses python, script, shell and duckdb"
    cure = f"if you need it: {probe.cure or ALLOW}"
    return Finding("sandbox", "warning", f"{problem}; {meaning}", cure)


async def _try(tool: PythonTool, isolation: str) -> str | None:
    """What is wrong, if anything."""
    call = ToolCall(
        kind="python",
        inputs={"code": _CODE},
        spec={"timeout": _PATIENCE, "isolation": isolation},
        execution_id="doctor",
        step="doctor",
        task="doctor",
        action_id="doctor",
        attempt=1,
    )
    try:
        outcome = await tool.run(call)
    except ToolError as error:
        return " ".join(error.message.split())
    return None if outcome.result == 42 else f"6 * 7 is {outcome.result}"
