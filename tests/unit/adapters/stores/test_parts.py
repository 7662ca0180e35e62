"""Parts of the stores that need no store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from noetl.adapters.sql_files import statements
from noetl.adapters.stores.batches import FIRST, Row, chain, first_damage, pack_batches
from noetl.adapters.stores.rules import REMEMBERED, Turn, in_turn, once_round
from noetl.adapters.stores.sqlite.connection import filesystem_of, refuse_network
from noetl.adapters.stores.sqlite.schema import SQL, migrations

MOUNTS = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:30 / /srv rw - nfs4 server:/srv rw,vers=4.2
31 30 0:31 / /srv/local rw - ext4 /dev/vdb rw
32 22 0:32 / /mnt/my\040share rw - cifs //host/share rw
33 22 0:33 / /over rw - ext4 /dev/vdc rw
34 33 0:34 / /over rw - fuse.sshfs user@host: rw
35 22 0:35 / broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/log.db", "ext4"),
        ("/srv/log.db", "nfs4"),
        ("/srv/local/log.db", "ext4"),
        ("/srvlocal/log.db", "ext4"),
        ("/mnt/my share/log.db", "cifs"),
        ("/over/log.db", "fuse.sshfs"),
    ],
)
def test_the_innermost_mount_counts(path: str, kind: str) -> None:
    assert filesystem_of(Path(path), MOUNTS) == kind


def test_without_mounts_nothing_is_known(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(
        "noetl.adapters.stores.sqlite.connection._MOUNTS", tmp_path / "no"
    )

    assert filesystem_of(Path("/x"), "") is None
    refuse_network(Path("/x"))


@pytest.mark.parametrize(
    ("hands", "slots", "dealt"),
    [
        ([], 3, ""),
        (["abc"], 2, "ab"),
        (["abc", "xy"], 9, "axbyc"),
        (["abc", "x", "pq"], 4, "axpb"),
        (["abc"], 0, ""),
    ],
)
def test_one_from_each_in_turn(hands: list[str], slots: int, dealt: str) -> None:
    assert "".join(islice(in_turn(hands), slots)) == dealt


def test_a_hand_is_not_looked_at_before_its_turn() -> None:
    looked: list[str] = []

    def hands() -> Iterator[str]:
        for hand in ("ab", "xy"):
            looked.append(hand)
            yield hand

    assert next(in_turn(hands())) == "a"
    assert looked == ["ab"]


@pytest.mark.parametrize(
    ("first", "met"), [(0, [2, 5, 9]), (5, [9, 2, 5]), (6, [9, 2, 5]), (9, [2, 5, 9])]
)
def test_a_round_begins_after_the_last_one(first: int, met: list[int]) -> None:
    def following(at: int) -> tuple[int] | None:
        return next(((each,) for each in (2, 5, 9) if each > at), None)

    assert [number for (number,) in once_round(first, following)] == met


def test_of_the_turns_in_families_the_last_are_remembered() -> None:
    turn = Turn()
    turn.note(1, 1)  # a root without children
    for family in range(2, REMEMBERED + 3):
        turn.note(family, family + 1_000)

    assert turn.family == REMEMBERED + 2
    assert list(turn.executions) == list(range(3, REMEMBERED + 3))


def rows(*bodies: bytes) -> list[Row]:
    batches = [batch for body in bodies for batch in pack_batches([body], "x")]
    return chain(batches, 0, FIRST)


def test_a_chain_depends_on_everything_before() -> None:
    one, two = rows(b"a", b"b"), rows(b"A", b"b")

    assert first_damage(one, 2, one[-1].hash, "x") is None
    assert one[1].hash != two[1].hash


def test_batches_cannot_change_places() -> None:
    first, second = rows(b"a", b"b")
    swapped = [first._replace(body=second.body), second._replace(body=first.body)]

    damage = first_damage(swapped, 2, second.hash, "x")

    assert damage is not None
    assert damage.seq == 1


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [number for number, _ in migrations()] == list(
        range(1, len(migrations()) + 1)
    )


def test_a_trigger_is_one_statement() -> None:
    script = (
        "-- why\nCREATE TABLE a (x);\n\nCREATE TRIGGER t AFTER INSERT ON a\nBEGIN\n"
    )
    script += "  SELECT 1;\nEND;\nPRAGMA user_version;"

    assert [text.split()[-1] for text in statements(script)] == [
        "(x);",
        "END;",
        "user_version;",
    ]


def test_every_query_has_a_text() -> None:
    assert all(SQL.values())
    assert "commit" not in " ".join(SQL.values()).lower()
