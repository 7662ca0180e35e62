"""Names of executions: UUIDs in the order of time, with the mark of a server."""

from __future__ import annotations

from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.engine.ids import server_id_of
from noetl.wiring.identifiers import new_execution_id


@pytest.mark.spec("EVT-08")
@given(st.integers(0, 0xFFF))
def test_a_mark_is_part_of_a_uuid(mark: int) -> None:
    name = UUID(new_execution_id(mark))
    assert (name.version, name.variant) == (7, RFC_4122)
    assert int(server_id_of(str(name)), 16) == mark


def test_what_no_server_names_has_any_mark() -> None:
    names = {new_execution_id() for _ in range(100)}
    assert len(names) == 100
    assert len({server_id_of(each) for each in names}) > 50
