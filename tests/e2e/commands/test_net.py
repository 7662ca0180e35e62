"""``noetl graph`` and ``noetl verify`` from the outside."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from noetl import clictl

Write = Callable[..., str]

HEADER = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: example, path: tests/example}
workflow:
"""
SOUND = HEADER + (
    "  - {step: start, next: {arcs: [{step: end}]}}\n"
    "  - {step: end, tool: {kind: noop}}\n"
)
ENDLESS = HEADER + (
    "  - {step: start, next: {arcs: [{step: turn}]}}\n"
    "  - {step: turn, next: {arcs: [{step: turn}]}}\n"
)
INVALID = HEADER + "  - {step: start, next: {arcs: [{step: nowhere}]}}\n"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(clictl.noetl, arguments)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str, name: str = "playbook.yaml") -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write_file


def test_verify_says_what_it_checked(write: Write) -> None:
    result = call("verify", write(SOUND))

    assert result.exit_code == 0
    assert result.output.endswith("playbook.yaml: 2 steps, 1 arc: sound\n")


def test_verify_does_not_call_a_net_with_a_warning_sound(write: Write) -> None:
    arcs = "[{step: never, when: '{{ false }}'}, {step: end}]"
    never = "  - {step: never, tool: {kind: noop}}\n"
    result = call("verify", write(SOUND.replace("[{step: end}]", arcs) + never))

    assert result.exit_code == 0
    assert "no deadlock (" in result.output
    assert "sound" not in result.output.splitlines()[-1]


def test_verify_shows_the_way_to_the_problem(write: Write) -> None:
    result = call("verify", write(ENDLESS))

    assert result.exit_code == 1
    assert "playbook.yaml:6:5: error: step 'turn' is in a cycle" in result.output
    assert "~ start → turn → turn\n" in result.output
    assert "2 steps, 2 arcs: unsound (1 error)" in result.output


def test_verify_shows_the_diagnostics_of_an_invalid_playbook(write: Write) -> None:
    result = call("verify", write(INVALID))

    assert result.exit_code == 1
    assert "VAL-02" in result.output
    assert "invalid: 1 error" in result.output


def test_verify_prints_one_document(write: Write) -> None:
    names = [write(SOUND, "a.yaml"), write(ENDLESS, "b.yaml"), write(INVALID, "c.yaml")]
    result = call("verify", "--json", *names)

    assert result.exit_code == 1
    sound, endless, invalid = json.loads(result.stdout)["files"]
    assert sound == {
        "file": names[0],
        "sound": True,
        "steps": 2,
        "arcs": 1,
        "findings": [],
        "diagnostics": [],
    }
    assert endless["sound"] is False
    assert endless["findings"][0] | {"message": "", "hint": ""} == {
        "code": "S-36",
        "rule": "cycle-without-exit",
        "severity": "error",
        "message": "",
        "path": "workflow[1]",
        "line": 6,
        "column": 5,
        "hint": "",
        "witness": ["start", "turn", "turn"],
    }
    assert invalid["sound"] is False
    assert [each["code"] for each in invalid["diagnostics"]] == ["VAL-02"]


def test_verify_shows_only_the_first_of_many_hints(write: Write) -> None:
    steps = [
        f"  - {{step: s{n}, tool: {{kind: http, url: 'http://localhost'}}, "
        f"next: {{arcs: [{{step: s{n + 1}}}]}}}}\n"
        for n in range(20)
    ]
    steps.append("  - {step: s20, tool: {kind: noop}}\n")
    result = call("verify", write(HEADER + "".join(steps)))

    assert result.exit_code == 0
    assert result.output.count("failure-unhandled") == 3
    assert "and 17 more like this" in result.output


@pytest.mark.parametrize("verb", ["graph", "verify"])
def test_a_missing_file_is_a_wrong_call(verb: str) -> None:
    command = [sys.executable, "-m", "noetl", verb, "missing.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr == "noetl: missing.yaml: no such file\n"


@pytest.mark.parametrize(
    ("options", "start"),
    [
        pytest.param([], "---\ntitle:", id="mermaid by default"),
        pytest.param(["--format", "dot"], "digraph", id="dot"),
        pytest.param(["--format", "svg"], "<svg ", id="svg"),
        pytest.param(["--format", "json"], "{", id="json"),
        pytest.param(["--json"], "{", id="json in short"),
    ],
)
def test_graph_draws(write: Write, options: list[str], start: str) -> None:
    result = call("graph", write(SOUND), *options)

    assert result.exit_code == 0
    assert result.stdout.startswith(start)


def test_graph_draws_into_a_file_by_its_ending(write: Write, tmp_path: Path) -> None:
    target = tmp_path / "picture.svg"
    result = call("graph", write(SOUND), "-o", str(target))

    assert (result.exit_code, result.output) == (0, "")
    assert target.read_text(encoding="utf-8").startswith("<svg ")


def test_graph_refuses_an_invalid_playbook(write: Write) -> None:
    result = call("graph", write(INVALID))

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "VAL-02" in result.stderr


@pytest.mark.parametrize("verb", ["graph", "verify"])
def test_help_has_an_example(verb: str) -> None:
    result = call(verb, "--help")

    assert result.exit_code == 0
    assert f"noetl {verb} playbook.yaml" in result.output
