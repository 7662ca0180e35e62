"""The contract of the rows of a catalog."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import msgspec
import pytest

from noetl.errors import VersionTaken
from noetl.ports import CatalogRows, Registered

pytestmark = pytest.mark.spec("S-62")


_numbers = count()


def row(number: int, path: str = "a/b", version: str = "", **more: Any) -> Registered:
    return Registered(
        playbook_id=f"p{next(_numbers)}",
        path=path,
        version=version,
        name="orders",
        sha256=f"{number:064}",
        source="0" * 64,
        registered_at="2026-11-15T08:00:00.000000Z",
        **more,
    )


async def test_what_is_added_is_found(rows: CatalogRows) -> None:
    added = await rows.add(
        row(1, version="1.0", registered_by="ann", extensions=("legacy",))
    )

    assert await rows.get(added.playbook_id) == added
    assert await rows.find("a/b", "1.0") == added
    assert await rows.find("a/b", None) == added
    assert await rows.find("a/b", "2.0") is None
    assert await rows.find("a", None) is None
    assert await rows.get("nobody") is None


@pytest.mark.spec("S-43")
async def test_versions_are_in_their_own_order(rows: CatalogRows) -> None:
    for number, version in enumerate(["1.9", "2.0", "1.10", "beta", "10"]):
        await rows.add(row(number, version=version))

    found = [each.version for each in await rows.versions("a/b")]

    assert found == ["10", "2.0", "1.10", "1.9", "beta"]
    latest = await rows.find("a/b", None)
    assert latest is not None
    assert latest.version == "10"
    assert len(await rows.versions("a/b", limit=2)) == 2


async def test_without_a_version_there_are_numbers(rows: CatalogRows) -> None:
    given = [row(1), row(1), row(2), row(1), row(3, version="7.5"), row(4)]

    added = [await rows.add(each) for each in given]

    assert [each.version for each in added] == ["1", "1", "2", "3", "7.5", "8"]
    assert added[1] == added[0]


async def test_a_version_is_never_another_playbook(rows: CatalogRows) -> None:
    first = await rows.add(row(1, version="1"))
    other = msgspec.structs.replace(row(1, version="1"), playbook_id="again")

    assert await rows.add(other) == first
    with pytest.raises(VersionTaken, match="version 1 of 'a/b'"):
        await rows.add(row(2, version="1"))
    assert await rows.find("a/b", "1") == first


async def test_of_many_at_once_each_has_a_number_of_its_own(rows: CatalogRows) -> None:
    added = await asyncio.gather(*(rows.add(row(number)) for number in range(10)))

    assert sorted(int(each.version) for each in added) == list(range(1, 11))


async def test_a_listing_has_the_latest_of_each_path(rows: CatalogRows) -> None:
    for path in ("b/1", "a/2", "a/1", "A/1"):
        for number in (1, 2):
            await rows.add(row(number, path))

    found = await rows.latest()

    assert [(each.path, each.version) for each in found] == [
        ("A/1", "2"),
        ("a/1", "2"),
        ("a/2", "2"),
        ("b/1", "2"),
    ]
    assert [each.path for each in await rows.latest(prefix="a/")] == ["a/1", "a/2"]
    assert [each.path for each in await rows.latest(after="a/1", limit=1)] == ["a/2"]
    assert list(await rows.latest(prefix="%")) == []
