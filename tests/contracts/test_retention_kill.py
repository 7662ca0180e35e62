"""A removal that is killed at any step loses nothing, and archives nothing twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore
from noetl.adapters.stores.sqlite import SqliteStore

SCRIPT = Path(__file__).parents[1] / "support" / "killed_sweep.py"
END = "2026-11-15T08:00:01.000000Z"


async def fill(where: str, facts: Any) -> None:
    if where.startswith("postgresql:"):
        database: Any = Postgres(where)
        store: Any = await PostgresStore.open(database)
    else:
        store = database = SqliteStore.open(where)
    for name in ("a", "b", "c"):
        made = facts.transition(name, count=2, status="completed")
        summary = msgspec.structs.replace(
            made.summary, finished_at=END, parent_id="a" if name == "b" else None
        )
        await store.commit([msgspec.structs.replace(made, summary=summary)])
    await store.commit([facts.transition("runs")])
    await database.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_kill_at_any_step_loses_and_doubles_nothing(
    kind, request, facts, run, tmp_path
):
    where = str(tmp_path / "log.db")
    if kind == "postgres":
        where = request.getfixturevalue("postgres")
    run(fill(where, facts))

    done = subprocess.run(
        [sys.executable, SCRIPT, where, tmp_path],
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )

    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(steps) > 6
    assert [each["killed"] for each in steps[:-1]] == [True] * (len(steps) - 1)
    for each in steps:
        assert {*each["stored"], *each["archived"]} == {"a", "b", "c", "runs"}, each
        assert each["archived"] in ([], ["a", "b", "c"]), each
        assert each["stored"] in (["runs"], ["a", "b", "c", "runs"]), each
    last = {"stored": ["runs"], "archived": ["a", "b", "c"], "faults": 0}
    assert steps[-1] == {**last, "killed": False}
