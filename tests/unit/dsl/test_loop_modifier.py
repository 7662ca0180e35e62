"""A loop modifies a step: it is no kind of tool, and needs one."""

from __future__ import annotations

import pytest

from noetl import load
from noetl.adapters.tools import BUILTIN

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
LOOP = "in: [1, 2], iterator: x"


@pytest.mark.spec("LOOP-19", "VAL-04")
@pytest.mark.parametrize("extensions", [[], ["legacy"], ["classic"]])
@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(f"{{kind: loop, {LOOP}}}", id="a task"),
        pytest.param(f"[{{each: {{kind: loop, {LOOP}}}}}]", id="a labelled task"),
        pytest.param(f"[{{name: each, kind: loop, {LOOP}}}]", id="a named task"),
    ],
)
def test_there_is_no_kind_loop(tool: str, extensions: list[str]) -> None:
    text = f"{HEAD}workflow:\n  - {{step: start, tool: {tool}}}\n"
    loaded = load(text, extensions=frozenset(extensions))

    assert not loaded.valid
    assert "VAL-04" in [found.code for found in loaded.diagnostics]
    assert "loop" not in BUILTIN


@pytest.mark.spec("LOOP-19")
def test_a_loop_stands_beside_the_tool_of_a_step() -> None:
    step = f"{{step: start, loop: {{{LOOP}}}, tool: {{kind: noop}}}}"
    playbook = load(f"{HEAD}workflow: [{step}]\n").playbook

    assert playbook is not None
    (step,) = playbook.workflow
    assert step.loop is not None
    assert [task.kind for task in step.tasks] == ["noop"]
