"""``noetl graph --execution``: what an execution did, painted on the net."""

from __future__ import annotations

import json
from typing import Any

import pytest

WORKFLOW = """
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: twice}, {step: aside, when: "{{ workload.aside }}"}]}
- step: twice
  tool: {kind: python, code: "result = 1 / 0"}
  next: {arcs: [{step: end, when: "{{ event.name == 'step.failed' }}"}]}
- {step: aside, tool: {kind: noop}}
- {step: end, tool: {kind: noop}}
"""
ROOT = "workload: {aside: false}\n"


@pytest.fixture
def playbook(shell: Any) -> str:
    name: str = shell.write("painted", WORKFLOW, ROOT)
    shell.run(name)
    return name


def test_steps_say_how_they_ended_and_arcs_how_many_tokens_they_let_through(
    shell: Any, playbook: str
) -> None:
    done = shell.noetl("graph", playbook, "--execution", "last", "--json")

    assert (done.returncode, done.stderr) == (0, "")
    net = json.loads(done.stdout)
    looks = {step["step"]: step["look"] for step in net["steps"]}
    assert looks == {"start": "done", "twice": "failed", "aside": "idle", "end": "done"}
    notes = {step["step"]: step["note"] for step in net["steps"]}
    assert notes["start"].endswith("s"), "a time"
    assert notes["aside"] == "not reached"
    assert [arc["tokens"] for arc in net["arcs"]] == [1, 0, 1]


@pytest.mark.parametrize(
    ("format_", "painted"),
    [
        (
            "svg",
            ["was-done", "was-failed", "was-idle", "plain fired"],
        ),
        (
            "mermaid",
            ["class s0,s3 done", "class s1 failed", "class s2 idle"],
        ),
        ("dot", ['fillcolor="#ffebe9"', 'style="rounded,dashed"', "not reached"]),
    ],
)
def test_every_picture_is_painted(
    shell: Any, playbook: str, format_: str, painted: list[str]
) -> None:
    plain = shell.noetl("graph", playbook, "--format", format_).stdout
    done = shell.noetl("graph", playbook, "--execution", "last", "--format", format_)

    assert (done.returncode, done.stderr) == (0, "")
    for words in painted:
        assert words in done.stdout
        assert words not in plain
    assert "1×" in done.stdout  # noqa: RUF001


def test_a_file_that_has_changed_is_drawn_as_it_ran(shell: Any, playbook: str) -> None:
    shell.write("painted", WORKFLOW.replace("aside", "besides"), ROOT)

    done = shell.noetl("graph", playbook, "--execution", "last", "--json")

    assert done.stderr == f"{playbook} has changed since; drawing the text that ran\n"
    assert "aside" in [step["step"] for step in json.loads(done.stdout)["steps"]]


def test_a_comment_changes_nothing(shell: Any, playbook: str) -> None:
    file = shell.folder / playbook
    file.write_text(file.read_text() + "# later\n")

    assert shell.noetl("graph", playbook, "--execution", "last").stderr == ""


def test_the_ending_of_the_file_decides_the_format(shell: Any, playbook: str) -> None:
    refused = shell.noetl("graph", playbook, "-o", "x.png")
    drawn = shell.noetl("graph", playbook, "-o", "x.mmd")

    assert refused.returncode == 2
    assert (
        "no format for files that end in .png; use one of .svg, .dot" in refused.stderr
    )
    assert not (shell.folder / "x.png").exists()
    assert drawn.returncode == 0
    assert "flowchart" in (shell.folder / "x.mmd").read_text()


def test_an_execution_of_another_playbook_is_refused(shell: Any, playbook: str) -> None:
    other = shell.write("other", "- {step: start, tool: {kind: noop}}\n")

    done = shell.noetl("graph", other, "--execution", "last")

    assert (done.returncode, done.stdout) == (2, "")
    assert "ran 'tests/painted', not 'tests/other', the path of other.yaml" in (
        done.stderr
    )


def test_an_unknown_execution_is_a_wrong_call(shell: Any, playbook: str) -> None:
    done = shell.noetl("graph", playbook, "--execution", "nobody")

    assert (done.returncode, done.stdout) == (2, "")
    assert "no execution 'nobody'" in done.stderr
