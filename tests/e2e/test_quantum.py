"""Quantum jobs outlive the run that submitted them, however it ended."""

from __future__ import annotations

from typing import Any

import pytest

KILLED = """
- step: start
  tool:
    - submit:
        kind: quantum
        operation: submit
        shots: 9
        circuit: |
          OPENQASM 2.0;
          include "qelib1.inc";
          qreg q[1];
          creg c[1];
          x q[0];
          measure q -> c;
        spec:
          policy:
            rules:
              - else: {then: {do: continue, set_ctx: {job: "{{ outcome.result }}"}}}
    - hold: {kind: wait, signal: go}
    - fetch:
        kind: quantum
        operation: result
        job: "{{ ctx.job }}"
        spec:
          policy:
            rules:
              - when: "{{ outcome.error.kind == 'quantum.pending' }}"
                then: {do: retry, attempts: 1000, delay: 50ms}
              - when: "{{ outcome.error }}"
                then: {do: fail}
"""


@pytest.mark.spec("QNT-01", "QNT-02", "QNT-04")
def test_a_killed_run_is_resumed_and_fetches_the_job_it_had(shell: Any) -> None:
    process = shell.start("run", shell.write("killed", KILLED))
    execution_id = shell.await_event(process, "killed", "task.suspended")
    process.kill()
    process.communicate()
    [job] = (shell.home / "quantum").glob("*.job")
    for end in (shell.home / "quantum").glob("*.end"):
        end.unlink()  # as if it had been killed before the simulator was done

    assert shell.noetl("signal", execution_id, "go").returncode == 0
    output = shell.noetl("resume", execution_id, "--json").stdout

    assert '"counts": {"1": 9}' in output
    assert job.stem in output
    assert list((shell.home / "quantum").glob("*.job")) == [job]
