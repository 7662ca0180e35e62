"""Row 89: children that are missing, cancelled, too deep, or too many.

Children that are forbidden are in ``tests/security/test_children.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Attempt = Callable[..., Any]

pytestmark = pytest.mark.spec("PIPE-17", "S-37", "S-65")

CHILDREN = 800
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {0}, path: t/{0}}}\n"


class Folder:
    """Playbooks of one family, and ``noetl`` beside them."""

    def __init__(self, path: Path, environ: dict[str, str]) -> None:
        self._path = path
        self._environ = {**environ, "NOETL_HOME": str(path / "home")}

    def write(self, name: str, workflow: str) -> str:
        text = HEAD.format(name) + "workflow:\n" + workflow
        (self._path / f"{name}.yaml").write_text(text)
        return f"{name}.yaml"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "noetl", *arguments],
            cwd=self._path,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def noetl(self, *arguments: str) -> str:
        return self.start(*arguments).communicate()[0]

    def run(self, file: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.noetl("run", file, "--json"))
        return document

    def executions(self, name: str) -> list[str]:
        found = json.loads(self.noetl("list", "--json"))["executions"]
        return [x["execution_id"] for x in found if x["playbook"]["name"] == name]

    def events(self, execution_id: str) -> list[dict[str, Any]]:
        lines = self.noetl("events", execution_id, "--json").splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path, dict(os.environ))


def call(path: str) -> str:
    return f"  - step: start\n    tool: [{{call: {{kind: playbook, path: {path}}}}}]\n"


def test_89_a_child_that_is_not_there(folder: Folder) -> None:
    document = folder.run(folder.write("parent", call("t/nobody")))

    assert document["error"]["kind"] == "playbook.not_found"
    assert "t/nobody" in document["error"]["message"]


def test_a_child_with_a_mistyped_path_names_the_nearest_one(folder: Folder) -> None:
    folder.write("daily", "  - step: start\n    tool: {kind: noop}\n")
    document = folder.run(folder.write("parent", call("t/dayly")))

    assert document["error"]["message"].endswith("; did you mean 't/daily'?")


def test_89_a_playbook_that_calls_itself_ends_at_depth_16(folder: Folder) -> None:
    document = folder.run(folder.write("deep", call("t/deep")))

    assert document["status"] == "failed"
    assert len(folder.executions("deep")) == 16
    kinds = [
        event["payload"]["error"]["kind"]
        for execution in folder.executions("deep")
        for event in folder.events(execution)
        if event["name"] == "step.failed"
    ]
    assert sorted(kinds) == ["playbook.depth"] + ["playbook.failed"] * 15


def test_89_a_child_that_is_cancelled(folder: Folder) -> None:
    folder.write("child", "  - {step: start, tool: [{w: {kind: wait, signal: go}}]}\n")
    process = folder.start("run", folder.write("parent", call("t/child")), "--json")
    while process.poll() is None:
        children = folder.executions("child")
        events = [event for child in children for event in folder.events(child)]
        if "task.suspended" in [event["name"] for event in events]:
            break
    [child] = folder.executions("child")

    folder.noetl("cancel", child)

    document = json.loads(process.communicate()[0])
    assert document["status"] == "failed"
    assert document["error"]["kind"] == "playbook.cancelled"


def test_89_many_children_starve_no_other_execution(folder: Folder) -> None:
    """Beside a loop over children, another branch gets its turns.

    A share of the ten thousand: what counts is the order of the events.
    """
    folder.write("child", "  - {step: start, tool: {kind: python, code: result = 1}}\n")
    chain = "".join(
        f"  - step: turn{n}\n    tool: {{kind: python, code: result = {n}}}\n"
        + (f"    next: {{arcs: [{{step: turn{n + 1}}}]}}\n" if n < 4 else "")
        for n in range(5)
    )
    workflow = (
        "  - step: start\n"
        "    next: {spec: {mode: inclusive}, arcs: [{step: many}, {step: turn0}]}\n"
        "  - step: many\n"
        f'    loop: {{in: "{{{{ range({CHILDREN}) }}}}", iterator: i, '
        "spec: {mode: parallel, max_in_flight: 100}}\n"
        "    tool: [{call: {kind: playbook, path: t/child}}]\n" + chain
    )
    document = folder.run(folder.write("parent", workflow))

    assert document["status"] == "completed", document["error"]
    events = folder.events(document["execution_id"])
    ends = [x for x in events if x["name"] == "step.done"]
    [end] = [x["seq"] for x in ends if x["step"] == "turn4"]
    done = [x for x in events if x["name"] == "loop.iteration.done"]
    assert len(done) == CHILDREN
    assert sum(x["seq"] < end for x in done) < CHILDREN / 2
