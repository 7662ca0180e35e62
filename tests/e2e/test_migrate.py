"""``noetl migrate`` as its user has it: files, what is printed, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spec("S-01")

OLD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parcels, path: older/parcels}
vars: {limit: 20}
workload: {parcels: [12, 30]}
workflow:
  # Weigh first,
  - step: weigh
    tool:
      kind: python
      code: |
        result = {"heaviest": max(parcels)}
    case:
      # too heavy for one
      - when: "{{ result.heaviest > vars.limit }}"
        then:
          - next: {to: [{step: carry, with: {people: 2}}]}
      - else:
          - next: {to: [{step: carry, with: {people: 1}}]}

  # then carry.
  - step: carry
    loop: {collection: "{{ parcels }}", element: parcel}
    tool: {kind: noop, result: "{{ parcel }}/{{ weigh.data.heaviest }}: {{ people }}"}
"""


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "parcels.yaml"
        self.file.write_text(OLD)

    def noetl(self, *args: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "noetl", *args],
            cwd=self.path,
            env={**os.environ, "NOETL_HOME": str(self.path / "home")},
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )

    def result(self, *options: str) -> Any:
        done = self.noetl("run", "parcels.yaml", "--json", *options)
        return json.loads(done.stdout)["result"]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_file_is_checked_written_and_done(folder: Folder) -> None:
    before = folder.result("--extensions", "legacy")
    checked = folder.noetl("migrate", "parcels.yaml", "--check")
    unchanged = folder.file.read_text()
    printed = folder.noetl("migrate", "parcels.yaml")
    written = folder.noetl("migrate", "parcels.yaml", "--write")

    assert before == ["12/30: 2", "30/30: 2"]
    assert (checked.returncode, checked.stdout) == (1, "")
    assert checked.stderr == "parcels.yaml: to be rewritten\n"
    assert unchanged == OLD
    assert (written.returncode, written.stdout) == (0, "")
    assert folder.file.read_text() == printed.stdout
    assert (
        "  # Weigh first,\n  # too heavy for one\n  - step: weigh\n" in printed.stdout
    )
    assert folder.result() == before
    again = folder.noetl("migrate", "parcels.yaml", "--check")
    assert (again.returncode, again.stderr) == (0, "parcels.yaml: nothing to rewrite\n")
    assert folder.noetl("migrate", "parcels.yaml").stdout == printed.stdout


def test_an_impossible_migration_is_reported_with_its_line(folder: Folder) -> None:
    shared = OLD.replace("tool: {kind: noop", "tool: &it {kind: noop")
    shared += "  - {step: also, loop: {in: [1], iterator: parcel}, tool: *it}\n"
    folder.file.write_text(shared)
    checked = folder.noetl("migrate", "parcels.yaml", "--check")
    written = folder.noetl("migrate", "parcels.yaml", "--write")
    document = json.loads(folder.noetl("migrate", "parcels.yaml", "--json").stdout)

    assert (checked.returncode, written.returncode) == (1, 0)
    assert "parcels.yaml:14:5: warning: 'case'" in written.stderr
    assert "parcels.yaml:25:11: warning: parts that share text" in written.stderr
    assert "rewritten; 5 forms left to do by hand" in written.stderr
    switch = "executor: {spec: {extensions: [legacy]}}\n"
    assert switch in folder.file.read_text()
    assert folder.file.read_text().replace(switch, "") == shared
    assert (document["changed"], len(document["left"])) == (False, 5)


@pytest.mark.parametrize(
    ("mistake", "expected"),
    [
        (("case:", "cases:"), "<stdin>:13:5: error: unknown key 'cases'"),
        (
            ("{step: carry, with: {people: 2", "{step: cary, with: {people: 2"),
            "'carry'",
        ),
        (("    case:", "   case:"), "error: not valid YAML"),
    ],
)
def test_an_invalid_playbook_is_refused(
    folder: Folder, mistake: tuple[str, str], expected: str
) -> None:
    done = folder.noetl("migrate", "-", "--check", given=OLD.replace(*mistake))

    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr
    assert "<stdin>: not a valid playbook in any dialect\n" in done.stderr
