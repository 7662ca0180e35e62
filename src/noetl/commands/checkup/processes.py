"""Processes for the code of playbooks: whether they start, and in a sandbox."""

from __future__ import annotations

import shutil

from noetl.adapters.processes.environment import clean_environment
from noetl.adapters.tools.python import PythonTool
from noetl.commands.checkup.finding import Finding
from noetl.errors import ToolError
from noetl.ports import ToolCall

_CODE = "result = 6 * 7"
_PATIENCE = 30


async def check_processes() -> list[Finding]:
    tool = PythonTool(1)
    try:
        return [await _check_python(tool), await _check_sandbox(tool)]
    finally:
        await tool.close()


async def _check_python(tool: PythonTool) -> Finding:
    problem = await _try(tool, "fresh")
    if problem is None:
        return Finding("python child", "ok", "starts and answers")
    cure = "look at the limits of this user: ulimit -a"
    return Finding("python child", "problem", problem, cure)


async def _check_sandbox(tool: PythonTool) -> Finding:
    found = shutil.which("bwrap", path=clean_environment()["PATH"])
    if found is None:
        message = "bubblewrap is not installed; isolation: required is refused"
        cure = "if you need it: apt install bubblewrap"
        return Finding("sandbox", "warning", message, cure)
    problem = await _try(tool, "required")
    if problem is None:
        return Finding("sandbox", "ok", found)
    cure = "allow unprivileged user namespaces on this machine"
    return Finding("sandbox", "warning", f"{found} does not work: {problem}", cure)


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
