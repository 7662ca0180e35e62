"""``noetl run`` with the kind ``duckdb``."""

from __future__ import annotations

from typing import Any

import pytest

CHAIN = """
- step: load
  tool:
    - rows:
        kind: python
        code: |
          def main():
              return [{"n": n, "text": "x" * 100} for n in range(20_000)]
        spec: {policy: {rules: [{else: {then:
          {do: continue, set_ctx: {rows: "{{ outcome.result }}"}}}}]}}
    - store:
        kind: duckdb
        database: data/rows.duckdb
        tables: {given: "{{ ctx.rows REF }}"}
        command: |
          CREATE TABLE rows AS FROM given;
          SELECT count(*) AS count, sum(n) AS total FROM rows
  next:
    arcs:
      - step: ask
        when: "{{ event.name == 'step.done' }}"
        args: {stored: "{{ event.payload.result.rows[0] }}"}
- step: ask
  tool:
    kind: duckdb
    database: data/rows.duckdb
    query: |
      SELECT n, $stored AS stored FROM rows WHERE n >= $least ORDER BY n LIMIT 1
    params: {least: "{{ workload.least }}", stored: "{{ args.stored }}"}
"""


@pytest.mark.spec("PIPE-14", "S-48", "OUT-01")
@pytest.mark.parametrize("ref", ["", "| ref"], ids=["a value", "a reference"])
def test_large_values_are_stored_and_asked_about(shell: Any, ref: str) -> None:
    folder = shell.folder / "books"
    (folder / "data").mkdir(parents=True)
    file = shell.write("chain", CHAIN.replace("REF", ref), "workload: {least: 10}\n")
    moved = (shell.folder / file).rename(folder / file)

    document = shell.run(str(moved), "--set", "least=19998.5")

    assert document["error"] is None
    stored = {"count": 20_000, "total": sum(range(20_000))}
    assert document["result"]["rows"] == [{"n": 19_999, "stored": stored}]
    assert document["ctx"]["rows"]["store"] == "noetl", "it was a large value"
    assert [path.name for path in (folder / "data").iterdir()] == ["rows.duckdb"]
    assert list((shell.home / "tmp").iterdir()) == []


@pytest.mark.spec("PIPE-14", "S-65")
def test_rules_see_the_kind_of_a_refusal(shell: Any) -> None:
    file = shell.write(
        "hostile",
        """
        - step: read
          tool:
            - passwd:
                kind: duckdb
                query: FROM read_text('/etc/passwd')
                spec: {policy: {rules: [
                  {when: "{{ outcome.error.kind == 'duckdb.external_access' }}",
                   then: {do: jump, to: excuse}},
                  {else: {then: {do: fail}}}]}}
            - excuse: {kind: noop, result: "not allowed"}
        """,
    )

    document = shell.run(file)

    assert (document["status"], document["result"]) == ("completed", "not allowed")
    events = shell.events(document["execution_id"])
    assert "root:" not in repr(events)


@pytest.mark.spec("PIPE-14")
def test_a_deadline_ends_a_query_and_its_process(shell: Any) -> None:
    file = shell.write(
        "endless",
        """
        - step: count
          tool:
            kind: duckdb
            database: a.duckdb
            command: |
              CREATE TABLE t (a INTEGER);
              SELECT count(*) FROM range(10_000_000_000_000) r(i) WHERE i % 7 = 3
        """,
    )

    document = shell.run(file, "--timeout", "1s")
    again = shell.write(
        "again",
        """
        - step: create
          tool: {kind: duckdb, database: a.duckdb, command: "CREATE TABLE t (a INT)"}
        """,
    )

    assert document["status"] == "cancelled"
    assert document["steps"][0]["error"]["kind"] in ("cancelled", "timeout")
    # Nobody holds the file any more, and nothing was committed to it.
    assert shell.run(again)["status"] == "completed"


@pytest.mark.spec("PIPE-14")
def test_a_parallel_loop_writes_one_file(shell: Any) -> None:
    file = shell.write(
        "many",
        """
        - step: write
          loop: {in: "{{ range(12) | list }}", iterator: n,
                 spec: {mode: parallel, max_in_flight: 6}}
          tool:
            kind: duckdb
            database: many.duckdb
            command: |
              CREATE TABLE IF NOT EXISTS t (n INTEGER);
              INSERT INTO t VALUES (?)
            params: ["{{ iter.n }}"]
          next:
            arcs:
              - {step: read, when: "{{ event.name == 'loop.done' }}"}
        - step: read
          tool:
            kind: duckdb
            database: many.duckdb
            query: SELECT list(n ORDER BY n) AS all_of_them FROM t
        """,
    )

    document = shell.run(file)

    assert document["error"] is None
    assert document["result"]["rows"] == [{"all_of_them": list(range(12))}]
