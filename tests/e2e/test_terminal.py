"""``noetl run`` on a terminal: a live tree, and a summary that stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from terminal import Session

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"


def playbook(folder: Path) -> str:
    """A task that is tried until ``again`` is there, then a loop whose last iteration
    ends when ``go`` is."""
    text = f"""
workflow:
  - step: start
    tool:
      - flaky:
          kind: python
          args: {{file: {folder}/again}}
          code: |
            import os
            def main(file):
                if not os.path.exists(file): raise OSError('no route')
          spec:
            policy:
              rules:
                - when: "{{{{ outcome.status == 'error' }}}}"
                  then: {{do: retry, attempts: 9999, delay: 500ms}}
                - else: {{then: {{do: continue}}}}
    next:
      arcs: [{{step: each, when: "{{{{ event.name == 'step.done' }}}}"}}]
  - step: each
    loop: {{in: "{{{{ range(4) }}}}", iterator: i, spec: {{mode: sequential}}}}
    tool:
      kind: shell
      env: {{I: "{{{{ iter.i }}}}"}}
      command: |
        [ "$I" -lt 3 ] || while [ ! -e {folder}/go ]; do sleep 0.02; done
"""
    (folder / "playbook.yaml").write_text(HEAD + text)
    return str(folder / "playbook.yaml")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "NOETL_HOME": str(tmp_path / "home")}


def test_the_tree_lives_and_its_last_state_stays(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    with Session(["run", playbook(tmp_path)], environ) as session:
        session.read_until("└── ◷ start  ", " of 9999 in ", "no route", " retr")
        (tmp_path / "again").touch()
        lines = session.read_until(
            "└── ", " each ", "━━━━━━━━━━━━━━━─────  75%  3 of 4"
        )
        assert lines[0].startswith("tests/t  ")
        assert "  running  " in lines[0]
        assert lines[1].startswith("├── ✓ start  ")
        (tmp_path / "go").touch()
        code, lines = session.finish()

    assert code == 0
    assert lines[0] == "tests/t", "the last line has status, time and id"
    assert lines[1].startswith("├── ✓ start  ")
    assert "retr" in lines[1]
    assert lines[2].startswith("└── ✓ each   ━━━━━━━━━━━━━━━━━━━━ 100%  4 of 4  ")
    assert lines[3].startswith("completed: 2 steps in ")
    assert sum("each" in line for line in lines) == 1  # drawn often, there once


def test_one_document_goes_to_stdout_and_progress_to_stderr(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    for name in ("again", "go"):
        (tmp_path / name).touch()
    args = ["run", playbook(tmp_path), "--json"]
    with (
        (tmp_path / "out").open("wb") as out,
        Session(args, environ, stdout=out.fileno()) as session,
    ):
        code, lines = session.finish()

    assert code == 0
    assert json.loads((tmp_path / "out").read_text())["status"] == "completed"
    assert lines[2].startswith("└── ✓ each ")


@pytest.mark.spec("S-39")
def test_an_interrupted_run_is_resumed_with_what_it_had(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    (tmp_path / "again").touch()
    with Session(["run", playbook(tmp_path)], environ) as session:
        session.read_until("3 of 4")
        session.child.send_signal(signal.SIGINT)
        session.read_until("  paused  ", "running tasks finish")
        (tmp_path / "go").touch()
        code, lines = session.finish()
    assert code == 130
    message = "pausing: running tasks finish first; press Ctrl-C again to exit now"
    assert lines[:2] == [message, "tests/t"], "above the tree, and nothing is left over"
    assert [line[:8] for line in lines[2:4]] == ["├── ✓ st", "└── ✓ ea"]
    hints = [line for line in lines if "noetl resume" in line]
    assert len(hints) == 1, lines

    with Session(["resume", hints[0].split()[-1]], environ) as session:
        code, lines = session.finish()

    assert code == 0
    assert lines[1].startswith("├── ✓ start  ")  # it ran before, and is still there
    assert "100%  4 of 4" in lines[2]


@pytest.mark.parametrize(
    ("args", "more"),
    [
        pytest.param(["--no-progress"], {}, id="not wanted"),
        pytest.param([], {"TERM": "dumb"}, id="a terminal that cannot"),
    ],
)
def test_no_tree_where_it_does_not_belong(
    tmp_path: Path, environ: dict[str, str], args: list[str], more: dict[str, str]
) -> None:
    for name in ("again", "go"):
        (tmp_path / name).touch()
    given = {**environ, **more}
    with Session(["run", playbook(tmp_path), *args], given) as session:
        code, lines = session.finish()

    assert code == 0
    assert "\x1b[1A" not in session.raw
    assert not any("━" in line for line in lines)
    assert any(line.startswith("completed: 2 steps in ") for line in lines)


def test_a_small_terminal_shows_what_matters(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    steps = [
        f"  - step: s{number}\n    next: {{arcs: [{{step: s{number + 1}}}]}}\n"
        for number in range(30)
    ]
    gate = f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    last = f"  - step: s30\n    tool: {{kind: shell, command: '{gate}'}}\n"
    file = tmp_path / "playbook.yaml"
    file.write_text(HEAD + "workflow:\n" + "".join(steps) + last)

    with Session(["run", str(file)], environ, size=(10, 60)) as session:
        lines = session.read_until("└── ", " s30 ")
        assert [line.split()[1:3] for line in lines[1:4]] == [
            ["…", "24"],
            ["✓", "s24"],
            ["✓", "s25"],
        ]
        assert len(lines) <= 9
        (tmp_path / "go").touch()
        code, lines = session.finish()

    assert code == 0
    assert sum("✓" in line for line in lines) == 31  # the summary has them all
    assert max(map(len, lines)) <= 80


def test_a_pipe_gets_lines(tmp_path: Path, environ: dict[str, str]) -> None:
    for name in ("again", "go"):
        (tmp_path / name).touch()
    command = [sys.executable, "-m", "noetl", "run", playbook(tmp_path)]
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "✓ start: done",
        "↻ each: 4 iterations",
        "✓ each: done",
    ]
