"""The SQL for PostgreSQL that pages recommend works on PostgreSQL, more than once."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import asyncpg
import pytest
import yaml
from demo_api import ROOT, Noetl

TABLE = "CREATE TABLE orders (id bigint PRIMARY KEY, {} paid boolean NOT NULL)"


async def ask(address: str, query: str) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(address)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


@pytest.mark.spec("PIPE-13")
@pytest.mark.parametrize(
    ("page", "name", "columns"),
    [
        pytest.param(
            "tutorial/api-to-database.md",
            "shop_postgres.yaml",
            "customer text, amount numeric,",
            id="tutorial",
        ),
        pytest.param("how-to/load-into-postgresql.md", "upsert.yaml", "", id="how-to"),
    ],
)
def test_an_upsert_can_be_repeated(
    page: str, name: str, columns: str, postgres: str, tmp_path: Path
) -> None:
    text = (ROOT / "docs" / page).read_text()
    (block,) = re.findall(rf"```yaml\n# {name}\n(.*?)```", text, re.DOTALL)
    file, noetl = tmp_path / name, Noetl(tmp_path / "home")
    document = yaml.safe_load(block)
    document["keychain"] = [{"name": "shop_db", "kind": "env", "variable": "SHOP_DB"}]
    file.write_text(yaml.safe_dump(document))
    noetl.environ["SHOP_DB"] = postgres
    asyncio.run(ask(postgres, TABLE.format(columns)))

    for paid in ("false", "true"):
        done = noetl("run", str(file), "--json", f"--set=orders=[{order(paid)}]")
        assert (done.returncode, json.loads(done.stdout)["error"]) == (0, None)

    rows = asyncio.run(ask(postgres, "SELECT id, paid FROM orders"))
    assert rows == [(1, True)]


def order(paid: str) -> str:
    return f"{{id: 1, customer: ada, amount: 10, paid: {paid}}}"
