"""What every store of sessions promises, on the real NATS and on SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import msgspec
import nats
import pytest
from nats.aio.client import Client, ServerVersion
from nats_servers import OTHER as OTHER_USER
from nats_servers import OURS, NatsServer

from noetl.access.sessions import MAX_VERSIONS, Lifetime, Session, encode
from noetl.adapters.nats.permissions import SESSIONS as BUCKET
from noetl.adapters.sessions.nats import NatsSessions
from noetl.adapters.sessions.sqlite import SqliteSessions
from noetl.adapters.sql_database import SqliteFile
from noetl.errors import AccessError
from noetl.ports.access import Sessions, StoredSession

pytestmark = pytest.mark.spec("S-62")

LIFETIME = Lifetime()
NOW = 1_800_000_000.0
KEY = "a" * 64
OTHER = "b" * 64

Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[Sessions]]


@pytest.fixture(params=["nats", "nats with permissions", "sqlite"])
def opening(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    nats_server: NatsServer,
    guarded_nats: NatsServer,
) -> Opening:
    """Opens the same store, from the start of it, as often as a test wants."""
    if request.param == "sqlite":
        return lambda: on_sqlite(tmp_path / "access.db")
    if request.param == "nats with permissions":
        asyncio.run(empty(guarded_nats.place(OTHER_USER)))
        return lambda: on_nats(guarded_nats.place(OURS))
    asyncio.run(empty(nats_server.address))
    return lambda: on_nats(nats_server.address)


@asynccontextmanager
async def on_sqlite(path: Path) -> AsyncIterator[Sessions]:
    file = SqliteFile.open(path)
    try:
        yield SqliteSessions(file)
    finally:
        await file.close()


@asynccontextmanager
async def on_nats(
    address: str, lifetime: Lifetime | None = None
) -> AsyncIterator[NatsSessions]:
    client = await nats.connect(address)
    try:
        yield NatsSessions(lambda: client, lifetime)
    finally:
        await client.close()


async def empty(address: str) -> None:
    """Nothing is left of the tests before: it is asked for until it is not there."""
    client = await nats.connect(address)
    with suppress(nats.js.errors.NotFoundError):
        while True:
            await client.jetstream().delete_stream(f"KV_{BUCKET}")
    await client.close()


def session(number: int = 1, user: str = "u1", now: float = NOW) -> Session:
    return Session(
        session_id=f"s{number}",
        user_id=user,
        email="ann@example.com",
        display_name="Ann",
        roles=("viewer", "operator:finance/*"),
        created_at=now,
        expires_at=LIFETIME.end(now, now),
        last_activity_at=now,
        client_ip="10.0.0.7",
        auth0_id=None,
    )


@pytest.mark.spec("SES-04", "SES-05")
async def test_what_was_created_is_found_until_it_expires(opening: Opening) -> None:
    async with opening() as sessions:
        kept = await sessions.create(KEY, session(), now=NOW)

        assert kept.session == session()
        assert await sessions.get(KEY, now=NOW) == kept
        assert await sessions.get(KEY, now=NOW + LIFETIME.ttl - 0.1) == kept
        assert await sessions.get(KEY, now=NOW + LIFETIME.ttl) is None
        assert await sessions.get(OTHER, now=NOW) is None


async def test_it_is_there_for_the_next_server(opening: Opening) -> None:
    async with opening() as sessions:
        kept = await sessions.create(KEY, session(), now=NOW)
    async with opening() as sessions:
        assert await sessions.get(KEY, now=NOW) == kept


@pytest.mark.spec("SES-06", "SES-09")
async def test_activity_moves_the_end_under_a_new_revision(opening: Opening) -> None:
    async with opening() as sessions:
        kept = await sessions.create(KEY, session(), now=NOW)
        later = NOW + 3600
        renewed = kept.session.renewed(later, LIFETIME)

        touched = await sessions.touch(kept, renewed, now=later)

        assert touched is not None
        assert touched.revision > kept.revision
        assert touched.session.expires_at == later + LIFETIME.ttl
        assert await sessions.get(KEY, now=NOW + LIFETIME.ttl + 60) == touched


@pytest.mark.spec("SES-06")
async def test_an_old_revision_changes_nothing(opening: Opening) -> None:
    async with opening() as sessions:
        kept = await sessions.create(KEY, session(), now=NOW)
        first = kept.session.renewed(NOW + 60, LIFETIME)
        touched = await sessions.touch(kept, first, now=NOW + 60)
        second = kept.session.renewed(NOW + 120, LIFETIME)

        assert await sessions.touch(kept, second, now=NOW + 120) is None
        assert await sessions.get(KEY, now=NOW + 120) == touched


@pytest.mark.spec("SES-06", "S-63")
async def test_of_many_at_once_one_wins_each_revision(opening: Opening) -> None:
    """Eight writers, twenty rounds; whoever loses reads again and goes on."""
    async with opening() as sessions:
        kept = await sessions.create(KEY, session(), now=NOW)
        won: list[int] = []

        async def write(number: int) -> None:
            for round_ in range(20):
                while True:
                    current = await sessions.get(KEY, now=NOW)
                    assert current is not None
                    now = NOW + number + round_ / 100
                    changed = current.session.renewed(now, LIFETIME)
                    after = await sessions.touch(current, changed, now=now)
                    if after is not None:
                        won.append(current.revision)
                        break

        await asyncio.gather(*(write(number) for number in range(8)))

        assert len(won) == 160
        assert len(set(won)) == 160, "two writers won on one revision"
        assert kept.revision in won


@pytest.mark.spec("SES-07")
async def test_an_ended_session_is_gone_and_is_not_revived(opening: Opening) -> None:
    async with opening() as sessions:
        kept = await sessions.create(KEY, session(), now=NOW)
        await sessions.invalidate(KEY)
        await sessions.invalidate(KEY)
        await sessions.invalidate(OTHER)

        assert await sessions.get(KEY, now=NOW) is None
        renewed = kept.session.renewed(NOW + 60, LIFETIME)
        assert await sessions.touch(kept, renewed, now=NOW + 60) is None
        assert await sessions.get(KEY, now=NOW) is None
        assert await sessions.list_by_user("u1", now=NOW) == []


@pytest.mark.spec("SES-08", "C-42")
async def test_the_sessions_of_a_user_are_listed_the_oldest_first(
    opening: Opening,
) -> None:
    async with opening() as sessions:
        assert await sessions.list_by_user("u1", now=NOW) == []
        second = await sessions.create(KEY, session(2, now=NOW + 5), now=NOW + 5)
        first = await sessions.create(OTHER, session(1), now=NOW)
        await sessions.create("c" * 64, session(3, user="u2"), now=NOW)
        await sessions.create("d" * 64, session(4, now=NOW - 1e6), now=NOW)

        assert await sessions.list_by_user("u1", now=NOW + 5) == [first, second]


@pytest.mark.parametrize("user", ["*", ">", "u1.*", "auth0|12", "", "ü", "456"])
async def test_any_user_id_finds_its_own_sessions_alone(
    opening: Opening, user: str
) -> None:
    async with opening() as sessions:
        await sessions.create(OTHER, session(1, user="u1"), now=NOW)
        await sessions.create("c" * 64, session(2, user="u1.x"), now=NOW)
        mine = await sessions.create(KEY, session(3, user=user), now=NOW)

        assert await sessions.list_by_user(user, now=NOW) == [mine]
        assert await sessions.invalidate_user(user) == 1
        assert await sessions.get(OTHER, now=NOW) is not None


async def test_all_sessions_of_a_user_end_at_once(opening: Opening) -> None:
    async with opening() as sessions:
        for number, key in enumerate((KEY, OTHER)):
            await sessions.create(key, session(number), now=NOW)
        others = await sessions.create("c" * 64, session(3, user="u2"), now=NOW)
        await sessions.invalidate(OTHER)

        assert await sessions.invalidate_user("u1") == 1
        assert await sessions.invalidate_user("u1") == 0
        assert await sessions.get(KEY, now=NOW) is None
        assert await sessions.get("c" * 64, now=NOW) == others


@pytest.mark.spec("SES-11")
async def test_the_last_versions_stay_also_of_an_ended_one(
    opening: Opening,
) -> None:
    async with opening() as sessions:
        assert await sessions.history(KEY) == []
        kept: StoredSession | None = await sessions.create(KEY, session(), now=NOW)
        made = [kept]
        for number in range(1, MAX_VERSIONS + 2):
            assert kept is not None
            now = NOW + 60 * number
            kept = await sessions.touch(
                kept, kept.session.renewed(now, LIFETIME), now=now
            )
            made.append(kept)

        versions = await sessions.history(KEY)
        wanted = [(k.revision, k.session) for k in made[-MAX_VERSIONS:] if k]
        assert [(v.revision, v.session) for v in versions] == wanted

        await sessions.invalidate(KEY)
        *before, last = await sessions.history(KEY)
        assert last.session is None
        assert [(v.revision, v.session) for v in before] == wanted[1:]


@pytest.mark.spec("SES-09")
async def test_ending_all_and_signing_in_at_once_leaves_none_unlisted(
    opening: Opening,
) -> None:
    """Whatever a sweep over a user's sessions does not end, the next one finds."""
    async with opening() as sessions:
        keys = [f"{number:064x}" for number in range(12)]
        made = [session(number) for number in range(12)]

        async def sign_in(number: int) -> None:
            await sessions.create(keys[number], made[number], now=NOW)

        await asyncio.gather(
            *(sign_in(number) for number in range(12)),
            *(sessions.invalidate_user("u1") for _ in range(3)),
        )
        alive = [key for key in keys if await sessions.get(key, now=NOW) is not None]

        listed = await sessions.list_by_user("u1", now=NOW)
        assert sorted(kept.key for kept in listed) == sorted(alive)


@pytest.mark.spec("C-42")
async def test_in_nats_a_session_that_is_half_created_stays_findable(
    nats_server: NatsServer,
) -> None:
    """All sessions of its user are ended between its two keys."""
    await empty(nats_server.address)
    async with on_nats(nats_server.address) as sessions:
        await sessions.create(OTHER, session(2), now=NOW)
        client = await nats.connect(nats_server.address)
        bucket = await client.jetstream().key_value(BUCKET)
        await bucket.put(f"noetl.sessions.user.u1.{KEY}", b"")
        assert await sessions.invalidate_user("u1") == 1
        await bucket.put(f"noetl.sessions.{KEY}", encode(session()))
        await client.close()

        (kept,) = await sessions.list_by_user("u1", now=NOW)
        assert kept.key == KEY
        assert await sessions.invalidate_user("u1") == 1


@pytest.mark.spec("SES-02", "C-42")
async def test_in_nats_the_keys_are_those_of_the_specification(
    nats_server: NatsServer,
) -> None:
    await empty(nats_server.address)
    async with on_nats(nats_server.address) as sessions:
        await sessions.create(KEY, session(), now=NOW)

    client = await nats.connect(nats_server.address)
    bucket = await client.jetstream().key_value(BUCKET)
    assert sorted(await bucket.keys()) == [
        f"noetl.sessions.{KEY}",
        f"noetl.sessions.user.u1.{KEY}",
    ]
    async with on_nats(nats_server.address) as sessions:
        await sessions.invalidate(KEY)
    with pytest.raises(nats.js.errors.NoKeysError):
        await bucket.keys()
    await client.close()


@pytest.mark.spec("SES-01", "SES-10")
async def test_nats_itself_removes_what_expired(nats_server: NatsServer) -> None:
    """A session that has a second left is gone from the stream when it is over."""
    await empty(nats_server.address)
    async with on_nats(nats_server.address) as sessions:
        short = msgspec.structs.replace(session(), expires_at=NOW + 1)
        await sessions.create(KEY, short, now=NOW)
        await sessions.create(OTHER, session(2), now=NOW)
        client = await nats.connect(nats_server.address)

        async def left() -> int:
            info = await client.jetstream().stream_info(f"KV_{BUCKET}")
            return info.state.messages

        assert await left() == 4
        async with asyncio.timeout(30):
            while await left() > 2:
                pass  # NATS has its own clock; we only look
        # The record says that it is valid still: that NATS has no key decides.
        assert await sessions.get(KEY, now=NOW) is None
        assert await sessions.get(OTHER, now=NOW) is not None
        await client.close()


@pytest.mark.spec("SES-10")
async def test_where_nats_cannot_limit_single_keys_the_bucket_cleans_up(
    nats_server: NatsServer,
) -> None:
    class Older(Client):
        connected_server_version = ServerVersion("2.10.26")

    await empty(nats_server.address)
    client = Older()
    await client.connect(nats_server.address)
    sessions = NatsSessions(lambda: client, Lifetime(ttl=1.0))
    kept = await sessions.create(KEY, session(), now=NOW)
    stream = client.jetstream()
    raw = await stream.get_msg(f"KV_{BUCKET}", seq=kept.revision)
    assert "Nats-TTL" not in (raw.headers or {})

    async with asyncio.timeout(30):
        while (await stream.stream_info(f"KV_{BUCKET}")).state.messages:
            pass  # NATS has its own clock; we only look
    assert await sessions.get(KEY, now=NOW) is None
    await client.close()


@pytest.mark.spec("SES-09")
async def test_another_lifetime_is_taken_over_by_the_bucket(
    guarded_nats: NatsServer,
) -> None:
    ours, other = guarded_nats.place(OURS), guarded_nats.place(OTHER_USER)
    await empty(other)
    async with on_nats(ours) as sessions:
        kept = await sessions.create(KEY, session(), now=NOW)
    async with on_nats(ours, Lifetime(ttl=7200.0)) as sessions:
        assert await sessions.get(KEY, now=NOW) == kept

    client = await nats.connect(other)
    info = await client.jetstream().stream_info(f"KV_{BUCKET}")
    assert info.config.max_age == 7200.0
    assert info.config.max_msgs_per_subject == MAX_VERSIONS
    await client.close()


async def test_a_bucket_that_the_operator_made_is_read_directly(
    guarded_nats: NatsServer,
) -> None:
    await empty(guarded_nats.place(OTHER_USER))
    client = await nats.connect(guarded_nats.place(OTHER_USER))
    await client.jetstream().create_key_value(bucket=BUCKET, direct=True)
    await client.close()
    async with on_nats(guarded_nats.place(OURS)) as sessions:
        kept = await sessions.create(KEY, session(), now=NOW)
        assert await sessions.get(KEY, now=NOW) == kept


@pytest.mark.spec("SES-10")
async def test_sqlite_deletes_expired_sessions_at_a_sign_in(
    tmp_path: Path,
) -> None:
    async with on_sqlite(tmp_path / "access.db") as sessions:
        await sessions.create(KEY, session(), now=NOW)
        await sessions.create(OTHER, session(2), now=NOW + 2 * LIFETIME.ttl)

        assert await sessions.history(KEY) == []
        assert len(await sessions.history(OTHER)) == 1


async def test_without_nats_no_session_is_valid(
    start_nats: Callable[..., NatsServer],
) -> None:
    server = start_nats()
    back = asyncio.Event()

    async def reconnected() -> None:
        back.set()

    client = await nats.connect(
        server.address,
        reconnect_time_wait=0.01,
        max_reconnect_attempts=-1,
        reconnected_cb=reconnected,
    )
    sessions = NatsSessions(lambda: client)
    kept = await sessions.create(KEY, session(), now=NOW)
    server.kill()

    for asking in (
        sessions.get(KEY, now=NOW),
        sessions.create(OTHER, session(), now=NOW),
        sessions.touch(kept, kept.session, now=NOW),
        sessions.list_by_user("u1", now=NOW),
        sessions.invalidate(KEY),
        sessions.invalidate_user("u1"),
        sessions.history(KEY),
    ):
        with pytest.raises(AccessError) as e:
            await asking
        assert (e.value.kind, e.value.status) == ("session.store_down", 401)
        assert "NATS does not answer" in e.value.message

    start_nats(server.port)
    async with asyncio.timeout(30):
        await back.wait()
    assert await sessions.get(KEY, now=NOW) == kept
    await client.close()


async def test_a_wiped_nats_has_no_sessions_and_accepts_new_ones(
    nats_server: NatsServer,
) -> None:
    await empty(nats_server.address)
    async with on_nats(nats_server.address) as sessions:
        await sessions.create(KEY, session(), now=NOW)
        await empty(nats_server.address)

        assert await sessions.get(KEY, now=NOW) is None
        with pytest.raises(AccessError, match="NATS does not answer"):
            await sessions.create(KEY, session(), now=NOW)
        kept = await sessions.create(KEY, session(), now=NOW)
        assert await sessions.get(KEY, now=NOW) == kept


async def test_a_session_that_cannot_be_read_is_none(nats_server: NatsServer) -> None:
    await empty(nats_server.address)
    async with on_nats(nats_server.address) as sessions:
        await sessions.create(OTHER, session(), now=NOW)
        client = await nats.connect(nats_server.address)
        bucket = await client.jetstream().key_value(BUCKET)
        await bucket.put(f"noetl.sessions.{KEY}", b"garbage")
        await client.close()

        with pytest.raises(AccessError, match="cannot be read") as e:
            await sessions.get(KEY, now=NOW)
    assert e.value.status == 401


async def test_a_damaged_file_authenticates_no_account(tmp_path: Path) -> None:
    path = tmp_path / "access.db"
    async with on_sqlite(path) as sessions:
        await sessions.create(KEY, session(), now=NOW)
        path.write_bytes(b"\0" * path.stat().st_size)

        with pytest.raises(AccessError) as e:
            await sessions.get(KEY, now=NOW)
    assert e.value.kind == "session.store_down"
