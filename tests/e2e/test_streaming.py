"""Large results pass from postgres to duckdb through the store, not through memory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

ROWS = 60_000
WORK = """
- step: start
  tool:
    - extract:
        kind: postgres
        dsn: "{{ workload.dsn }}"
        command: SELECT id, note FROM orders ORDER BY id
    - total:
        kind: duckdb
        tables: {orders: "{{ _prev | ref }}"}
        command: >-
          SELECT count(*) AS n, sum(id)::BIGINT AS s, max(length(note)) AS l FROM orders
  next: {arcs: [{step: end, args: {total: "{{ event.payload.result.rows[0] }}"}}]}
- {step: end, tool: {kind: noop, result: "{{ args.total }}"}}
"""


async def fill(dsn: str, rows: int, note: str = "repeat(md5(n::text), 20)") -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        f"CREATE TABLE orders AS SELECT n AS id, {note} AS note "
        f"FROM generate_series(1, {rows}) AS n"
    )
    await connection.close()


def blobs(home: Path) -> list[Path]:
    return [p for p in (home / "results").glob("??/*") if p.stat().st_size > 100_000]


@pytest.mark.spec("S-48", "RES-01", "RES-03", "PIPE-13", "PIPE-14")
def test_forty_megabytes_pass_by_reference(shell: Any, postgres: str) -> None:
    asyncio.run(fill(postgres, ROWS))
    file = shell.write("stream", WORK, 'workload: {dsn: ""}\n')
    document = shell.run(file, "--set", f"dsn={postgres}")

    assert document["error"] is None, document["error"]
    total = {"n": ROWS, "s": ROWS * (ROWS + 1) // 2, "l": 640}
    assert document["result"] == total
    [blob] = blobs(shell.home)
    assert blob.stat().st_size > 39_000_000
    events = shell.events(document["execution_id"])
    [extract] = [e for e in events if e["task_label"] == "extract" and e["payload"]][
        -1:
    ]
    result = extract["payload"]["outcome"]["result"]
    assert (result["rowcount"], result["columns"]) == (ROWS, ["id", "note"])
    assert result["rows"]["size"] == blob.stat().st_size
    assert result["rows"]["key"] == blob.parent.name + blob.name
    assert max(len(json.dumps(event)) for event in events) < 64 * 1024
    assert list((shell.home / "results" / "drafts").iterdir()) == []


@pytest.mark.spec("S-48", "PIPE-13")
def test_templates_read_a_streamed_result_as_itself(shell: Any, postgres: str) -> None:
    asyncio.run(fill(postgres, 3000))
    flow = """
    - step: start
      tool:
        - extract:
            kind: postgres
            dsn: "{{ workload.dsn }}"
            command: >-
              SELECT 1 AS one; SELECT id, note FROM orders ORDER BY id;
              SELECT id FROM orders WHERE id < 3
            spec: {policy: {rules: [
              {when: "{{ outcome.result.statements[1].rows | length == 3000 }}",
               then: {do: continue, set_ctx: {all: "{{ outcome.result | ref }}"}}},
              {else: {then: {do: fail}}}]}}
      next: {arcs: [{step: end, when: "{{ ctx.all.statements[1].rows[2999].id > 1 }}"}]}
    - step: end
      tool:
        kind: python
        args: {all: "{{ ctx.all.statements }}"}
        code: "result = [len(each['rows']) for each in all]"
    """
    file = shell.write("read", flow, 'workload: {dsn: ""}\n')
    document = shell.run(file, "--set", f"dsn={postgres}")

    assert document["error"] is None, document["error"]
    assert document["result"] == [1, 3000, 2]


@pytest.mark.spec("S-48", "S-65")
def test_a_forged_row_is_refused_also_in_a_large_result(
    shell: Any, postgres: str
) -> None:
    forged = """CASE n WHEN 20000 THEN '{"store": "noetl", "key": "k"}'::jsonb
        ELSE to_jsonb(repeat('x', 100)) END"""
    asyncio.run(fill(postgres, 20_000, forged))
    document = shell.run(
        shell.write("stream", WORK, 'workload: {dsn: ""}\n'), "--set", f"dsn={postgres}"
    )

    assert document["error"]["kind"] == "ref.not_owner"
    assert blobs(shell.home) == []


@pytest.mark.spec("S-41", "S-48")
def test_secrets_are_masked_in_what_is_streamed(shell: Any, postgres: str) -> None:
    asyncio.run(fill(postgres, 20_000, "repeat('x', 100)"))
    shell._env |= {"PIN": "hush-hush-secret"}
    root = "workload: {dsn: ''}\nkeychain: [{name: pin, kind: env, variable: PIN}]\n"
    flow = """
    - step: start
      tool:
        - extract:
            kind: postgres
            dsn: "{{ workload.dsn }}"
            command: SELECT id, note || $1 AS note FROM orders
            params: ["{{ keychain.pin }}"]
        - copy:
            kind: duckdb
            tables: {t: "{{ _prev | ref }}"}
            command: SELECT id, note || ? AS note FROM t
            params: ["{{ keychain.pin }}"]
    """
    file = shell.write("stream", flow, root)
    document = shell.run(file, "--set", f"dsn={postgres}")

    assert document["error"] is None, document["error"]
    found = [path.read_bytes() for path in blobs(shell.home)]
    assert sorted(body.count(b"***") for body in found) == [20_000, 40_000]
    assert not any(b"hush-hush" in body for body in found)


@pytest.mark.spec("S-48", "PIPE-14")
def test_an_exported_parquet_file_is_a_reference_that_only_tables_read(
    shell: Any,
) -> None:
    flow = """
    - step: start
      tool:
        - make:
            kind: duckdb
            export: {format: parquet}
            command: SELECT i AS id, i % 7 AS d FROM range(50000) r(i)
        - use:
            kind: duckdb
            tables: {t: "{{ _prev | ref }}"}
            command: SELECT d, count(*) AS n FROM t GROUP BY d ORDER BY d LIMIT 1
            spec: {policy: {rules: [{else: {then:
              {do: continue, set_ctx: {first: "{{ outcome.result.rows[0] }}"}}}}]}}
        - again:
            kind: duckdb
            export: {format: parquet}
            command: SELECT 1 AS id
        - wrong: {kind: noop, result: "{{ _prev.rows }}"}
    """
    document = shell.run(shell.write("parquet", flow))

    assert document["ctx"]["first"] == {"d": 0, "n": 7143}
    error = document["error"]
    assert (error["kind"], error["task"]) == ("ref.format", "wrong")
    assert "is a parquet file, not a value" in error["message"]
    keys = json.loads(shell.noetl("result", "ls", "last", "--json").stdout)["results"]
    assert [each["schema_hint"] for each in keys] == ["parquet", "parquet"]
    shell.noetl("result", "get", keys[0]["key"], "-o", "out.parquet")
    assert (shell.folder / "out.parquet").read_bytes().startswith(b"PAR1")


@pytest.mark.spec("S-48", "PIPE-14")
def test_a_large_table_of_mixed_rows_keeps_its_types(shell: Any) -> None:
    """More than is held in memory: it is copied to the disk, in parts."""
    flow = """
    - step: start
      tool:
        - make:
            kind: duckdb
            command: >-
              SELECT i AS id, CASE WHEN i = 39999 THEN 1.5 ELSE i END AS amount,
                     repeat('x', 1000) AS text,
                     CASE WHEN i = 39998 THEN -9223372036854775808 ELSE i END AS wide
              FROM range(40000) r(i)
        - use:
            kind: duckdb
            tables: {t: "{{ _prev | ref }}"}
            command: >-
              SELECT typeof(id) AS a, typeof(amount) AS b, typeof(text) AS c,
                     typeof(wide) AS d, (SELECT max(amount) FROM t) AS m,
                     (SELECT count(*) FROM t AS x JOIN t AS y USING (id)) AS n
              FROM t LIMIT 1
    """
    document = shell.run(shell.write("types", flow))

    assert document["error"] is None, document["error"]
    assert document["result"]["rows"] == [
        {
            "a": "BIGINT",
            "b": "DOUBLE",
            "c": "VARCHAR",
            "d": "BIGINT",
            "m": 39998.0,
            "n": 40000,
        }
    ]
    [blob] = blobs(shell.home)
    assert blob.stat().st_size > 33_554_432
