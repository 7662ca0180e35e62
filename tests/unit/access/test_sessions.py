"""A session's record and its end."""

from __future__ import annotations

import json

import msgspec
import pytest

from noetl.access.sessions import Lifetime, Session, decode, encode
from noetl.errors import AccessError

DAY = 24 * 3600.0
START = 1_769_860_800.0  # 2026-01-31T12:00:00Z
LIFETIME = Lifetime()


def session(**changes: float) -> Session:
    made = Session(
        session_id="123",
        user_id="456",
        email="user@example.com",
        display_name="User Name",
        roles=("admin", "developer"),
        created_at=START,
        expires_at=LIFETIME.end(START, START),
        last_activity_at=START,
        client_ip="192.168.1.1",
        auth0_id="auth0|123",
    )
    return msgspec.structs.replace(made, **changes)


@pytest.mark.spec("SES-03")
def test_the_value_is_the_documented_one_and_holds_no_token() -> None:
    assert json.loads(encode(session())) == {
        "session_id": "123",
        "user_id": "456",
        "email": "user@example.com",
        "display_name": "User Name",
        "roles": ["admin", "developer"],
        "created_at": "2026-01-31T12:00:00.000000Z",
        "expires_at": "2026-02-01T12:00:00.000000Z",
        "last_activity_at": "2026-01-31T12:00:00.000000Z",
        "client_ip": "192.168.1.1",
        "auth0_id": "auth0|123",
    }
    assert decode(encode(session())) == session()


def test_a_value_that_another_program_wrote_is_read() -> None:
    value = json.loads(encode(session()))
    value |= {"session_id": 123, "user_id": 456, "created_at": "2026-01-31T12:00:00Z"}

    assert decode(json.dumps(value).encode()) == session()


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"null", b'{"created_at": 5}', b"\xff", b'"x"'],
)
def test_an_unreadable_session_is_invalid(data: bytes) -> None:
    with pytest.raises(AccessError) as e:
        decode(data)

    assert (e.value.kind, e.value.status) == ("session.unreadable", 401)


@pytest.mark.spec("SES-09")
def test_it_ends_a_day_after_the_last_activity_and_after_a_week_at_the_latest() -> None:
    first = session()
    assert first.is_valid(START + DAY - 0.1)
    assert not first.is_valid(START + DAY)

    later = first.renewed(START + 3600, LIFETIME)
    assert later.expires_at == START + 3600 + DAY
    assert later.last_activity_at == START + 3600

    late = first.renewed(START + 6.5 * DAY, LIFETIME)
    assert late.expires_at == START + 7 * DAY


def test_a_clock_that_went_back_does_not_shorten_it() -> None:
    renewed = session().renewed(START + 3600, LIFETIME)

    assert renewed.renewed(START, LIFETIME).expires_at == renewed.expires_at


@pytest.mark.spec("SES-09")
def test_activity_is_noted_at_most_once_a_minute() -> None:
    assert not session().is_due(START + 59.9, LIFETIME)
    assert session().is_due(START + 60, LIFETIME)
