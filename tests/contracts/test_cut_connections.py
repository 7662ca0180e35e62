"""A connection to PostgreSQL that is cut at any message: nothing lost, nothing twice.

``CUT_SEED`` repeats a choice of messages; ``scripts/storage_faults.py`` takes them all.
"""

from __future__ import annotations

import pytest
from crash import cut_connections
from crash.cut_connections import run_cases
from seeds import seed_of

from noetl.adapters.stores.postgres import group_commit

SEED = int(seed_of("CUT_SEED"))
SAMPLE = 40


async def test_a_connection_cut_at_any_message_loses_and_repeats_nothing(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "PATIENCE", group_commit.PATIENCE)
    print(f"CUT_SEED={SEED}")  # noqa: T201

    found = await run_cases(postgres, SEED, SAMPLE)

    assert found["wrong"] == []
    assert found["messages"] > 60
    assert found["cases"] == SAMPLE


async def test_a_store_that_takes_an_unknown_commit_for_a_failed_one_is_noticed(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> bool:
        return False

    monkeypatch.setattr(group_commit, "PATIENCE", group_commit.PATIENCE)
    monkeypatch.setattr(group_commit.Committer, "_is_stored", never)

    found = await run_cases(postgres, 1, 40)

    assert found["wrong"]
    assert found["messages"] < cut_connections.NEVER
