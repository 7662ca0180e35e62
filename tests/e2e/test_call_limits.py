"""Rates of an embedded run: counted by what the calls leave behind, after a kill as
well."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spec("S-78")

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: rated, path: tests/rated}
workload: {file: ""}
workflow:
  - step: start
    loop:
      in: "{{ range(9) }}"
      iterator: n
      spec: {mode: parallel, max_in_flight: 9, rate: 4/s}
    tool:
      - call:
          kind: shell
          command: "date +%s.%N >> '{{ workload.file }}'"
          spec: {idempotent: true}
"""


def test_a_rate_holds_over_a_kill_and_its_resume(shell: Any, tmp_path: Path) -> None:
    calls, text = tmp_path / "calls", tmp_path / "rated.yaml"
    calls.touch()
    text.write_text(PLAYBOOK.strip())
    started = time.time()
    first = shell.start("run", str(text), "--set", f"file={calls}")
    while calls.read_text().count("\n") < 3:
        assert first.poll() is None
    first.kill()
    first.communicate()
    [execution] = shell.executions("rated")

    resumed = shell.noetl("resume", execution["execution_id"])

    assert resumed.returncode == 0, resumed.stderr
    times = sorted(map(float, calls.read_text().split()))
    assert len(times) >= 9
    # A call may come late on a busy machine, but none before its second.
    assert [at for n, at in enumerate(times) if at < started + n // 4] == []
