"""Values too large for an event: stored beside the log, read as themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stored_log import unfolded_logs

MAKE = """
- step: make
  tool:
    - rows:
        kind: python
        code: |
          def main():
              return [{"n": n, "text": "x" * 100} for n in range(20_000)]
        spec: {policy: {rules: [{else: {then:
          {do: continue, set_ctx: {rows: "{{ outcome.result }}"}}}}]}}
    - nap: {kind: wait, signal: go}
    - count:
        kind: python
        args: {rows: "{{ ctx.rows }}"}
        code: "def main(rows): return len(rows)"
  next:
    arcs:
      - step: end
        when: "{{ ctx.rows[19999].n == 19999 }}"
        args: {count: "{{ event.payload.result }}"}
- step: end
  tool: {kind: noop, result: "{{ args.count }}"}
"""


def blobs(home: Path) -> list[Path]:
    found = [path for path in (home / "results").rglob("*") if path.is_file()]
    return [path for path in found if path.stat().st_size > 1_000_000]


def waiting(shell: Any) -> str:
    """An execution that has made its value and waits, its process gone."""
    process = shell.start("run", shell.write("make", MAKE), "--json")
    execution_id: str = shell.await_event(process, "make", "task.suspended")
    shell.noetl("pause", execution_id)
    process.communicate()
    shell.noetl("signal", execution_id, "go")
    return execution_id


@pytest.mark.spec("ACC-10", "S-48", "RES-01", "RES-02")
def test_two_megabytes_pass_by_reference_and_over_a_restart(shell: Any) -> None:
    execution_id = waiting(shell)
    document = json.loads(shell.noetl("resume", execution_id, "--json").stdout)

    assert (document["status"], document["result"]) == ("completed", 20_000)
    assert document["ctx"]["rows"]["store"] == "noetl"
    assert document["ctx"]["rows"]["size"] > 2_000_000
    assert len(blobs(shell.home)) == 1
    events = shell.events(execution_id)
    assert max(len(json.dumps(event)) for event in events) < 64 * 1024
    [(_, logged)] = unfolded_logs(shell.home)
    assert len(logged) < 1_000_000
    assert shell.home.joinpath("log.db").stat().st_size < 1_000_000


@pytest.mark.spec("S-48", "S-65")
@pytest.mark.parametrize(
    ("damage", "kind"), [("gone", "ref.gone"), ("other", "ref.corrupt")]
)
def test_a_blob_that_was_lost_or_changed_is_said(
    shell: Any, damage: str, kind: str
) -> None:
    execution_id = waiting(shell)
    [blob] = blobs(shell.home)
    if damage == "gone":
        blob.unlink()
    else:
        blob.write_bytes(blob.read_bytes().replace(b"19999", b"20000"))

    document = json.loads(shell.noetl("resume", execution_id, "--json").stdout)

    assert (document["status"], document["error"]["kind"]) == ("failed", kind)
    assert document["error"]["task"] == "count"


@pytest.mark.spec("S-12", "S-48")
def test_many_results_of_a_loop_are_read_from_the_log(shell: Any) -> None:
    flow = """
    - step: each
      loop: {in: "{{ range(300) }}", iterator: i, spec: {mode: parallel}}
      tool: {kind: noop, result: {n: "{{ iter.i }}", text: "{{ 'x' * 500 }}"}}
      next: {arcs: [{step: end, when: "{{ event.name == 'loop.done' }}",
        args: {n: "{{ event.payload.results | map(attribute='n') | sum }}",
               size: "{{ event.payload.results | length }}"}}]}
    - {step: end, tool: {kind: noop, result: "{{ [args.n, args.size] }}"}}
    """
    document = shell.run(shell.write("many", flow))

    assert document["result"] == [sum(range(300)), 300]
    assert document["steps"][0]["result"]["key"].startswith("log:")
