"""What listings say of playbooks is stored once, also over restarts and refusals."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.errors import LogConflict
from noetl.ports import Transition
from noetl.types import JSON

ABOUT: dict[str, JSON] = {"name": "orders", "sha256": "5" * 64, "source": "2" * 64}


def of(facts: Any, name: str, about: dict[str, JSON], **more: Any) -> Transition:
    transition: Transition = facts.transition(name, **more)
    summary = msgspec.structs.replace(transition.summary, playbook=about)
    return msgspec.structs.replace(transition, summary=summary)


async def test_executions_list_the_playbook_that_they_began_with(store, facts):
    other = {**ABOUT, "sha256": "6" * 64}
    await store.commit([of(facts, "a", ABOUT), of(facts, "b", other)])
    await store.commit([of(facts, "c", ABOUT)])

    listed = {each.execution_id: each.playbook for each in await store.find()}

    assert listed == {"a": ABOUT, "b": other, "c": ABOUT}
    assert (await store.summary("b")).playbook == other


async def test_a_refused_commit_leaves_no_summary_without_its_playbook(store, facts):
    await store.commit([of(facts, "a", {"name": "short"})])
    with pytest.raises(LogConflict):
        await store.commit([of(facts, "a", ABOUT, after=7)])

    await store.commit([of(facts, "b", ABOUT)])

    assert (await store.summary("b")).playbook == ABOUT


async def test_a_status_brings_the_playbook_along(store, facts):
    await store.commit([facts.transition("a")])
    summary = msgspec.structs.replace(await store.summary("a"), playbook=ABOUT)

    await store.set_status(msgspec.structs.replace(summary, status="quarantined"))

    assert (await store.summary("a")).playbook == ABOUT


async def test_a_file_has_one_line_for_a_playbook(facts, tmp_path: Path) -> None:
    for name in ("a", "b"):
        store = SqliteStore.open(tmp_path / "log.db")
        await store.commit([of(facts, name, ABOUT)])
        await store.close()

    db = sqlite3.connect(tmp_path / "log.db")
    assert db.execute("SELECT count(*) FROM playbook_line").fetchone() == (1,)
    db.close()
