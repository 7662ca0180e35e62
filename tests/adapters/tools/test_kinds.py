"""The kinds of all documents are there; ``shell`` is ``script`` by another name."""

from __future__ import annotations

import asyncio

import pytest

from noetl import load
from noetl.adapters.tools import BUILTIN
from noetl.adapters.tools.registry import make_tools
from noetl.engine.tasks.outcome import Outcome
from noetl.ports import ToolCall

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
NAMED = {
    "http": "url: 'http://x'",
    "postgres": "query: SELECT 1",
    "duckdb": "query: SELECT 1",
    "python": "code: result = 1",
    "secrets": "name: x",
    "playbook": "path: tests/child",
    "workbook": "name: x",
    "noop": "",
    "script": "command: 'true'",
    "shell": "command: 'true'",
    "quantum": "operation: run, circuit: x",
}
"""Every kind that a document names, with the inputs it needs."""


@pytest.mark.spec("C-37")
@pytest.mark.parametrize("kind", NAMED)
def test_every_kind_of_the_documents_is_registered(kind: str) -> None:
    inputs = f", {NAMED[kind]}" if NAMED[kind] else ""
    tool = f"{{kind: {kind}{inputs}}}"
    text = (
        f"{HEAD}workbook: {{x: {{kind: noop}}}}\nworkflow: [{{step: s, tool: {tool}}}]"
    )
    loaded = load(text)

    assert kind in BUILTIN
    assert loaded.valid, loaded.diagnostics


def test_a_call_that_waits_for_others_has_an_end() -> None:
    """An hour at most, unless the playbook says something else (S-70)."""
    instant = {"choose", "noop", "playbook", "wait", "workbook"}
    limits = {name: kind.defaults.get("timeout") for name, kind in BUILTIN.items()}

    assert {name for name, limit in limits.items() if limit is None} == instant
    for limit in limits.values():
        seconds = limit["total"] if isinstance(limit, dict) else limit
        assert seconds is None or 0 < seconds <= 3600


def call(kind: str, **inputs: str) -> Outcome:
    async def run() -> Outcome:
        tools = make_tools(1)
        request = ToolCall(
            kind=kind,
            inputs=inputs,
            spec={},
            execution_id="e",
            step="s",
            task="t",
            action_id="a",
            attempt=1,
        )
        try:
            return await tools[kind].run(request)
        finally:
            for tool in tools.values():
                await tool.close()

    return asyncio.run(run())


@pytest.mark.spec("C-37", "PIPE-20")
def test_shell_is_a_script_in_a_shell() -> None:
    text = 'printf "%s" "$((6 * 7))"'
    shell = call("shell", command=text)
    script = call("script", script=text, interpreter="sh")

    assert BUILTIN["shell"].inputs.keys() == BUILTIN["script"].inputs.keys()
    assert shell.result == {"stdout": "42", "stderr": "", "exit_code": 0}
    assert shell == script
