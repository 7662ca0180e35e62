"""Sessions in NATS Key/Value: the cluster's."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext, api
from nats.js.kv import KeyValue

from noetl.access.ports import Kept, Version
from noetl.access.sessions import HISTORY, Lifetime, Session, decode, encode
from noetl.errors import AccessError

BUCKET = "noetl_sessions"
PREFIX = "noetl.sessions"
SECONDS = 2.0
"""How long an answer is waited for: whoever asks sits before a browser."""

_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_EXISTS = 10058  # a stream of that name, with other settings
_LIMIT_BY_KEY = (2, 11)  # the first version in which each message has a TTL of its own


class NatsSessions:
    """Two keys for each session (C-42), both with the bucket's TTL.

    The index is written first and deleted last: whoever ends all sessions of a user
    finds each of them. ``client`` says which connection there is now: one that is down
    is not waited for.
    """

    def __init__(
        self,
        client: Callable[[], Client],
        lifetime: Lifetime | None = None,
        replicas: int = 1,
    ) -> None:
        self._find_client = client
        self._client = client()
        self._stream: JetStreamContext = self._client.jetstream(timeout=SECONDS)
        self._lifetime = lifetime or Lifetime()
        self._replicas = replicas
        self._opened: KeyValue | None = None

    async def create(self, key: str, session: Session, *, now: float) -> Kept:
        async with self._bucket():
            ttl = self._ttl(session, now)
            await self._put(_index(session.user_id, key), b"", ttl)
            revision = await self._put(_main(key), encode(session), ttl)
            return Kept(key, revision, session)

    async def get(self, key: str, *, now: float) -> Kept | None:
        async with self._bucket() as bucket:
            kept = await _read(bucket, key)
            return kept if kept is not None and kept.session.is_valid(now) else None

    async def touch(self, kept: Kept, session: Session, *, now: float) -> Kept | None:
        async with self._bucket():
            ttl = self._ttl(session, now)
            await self._put(_index(session.user_id, kept.key), b"", ttl)
            try:
                revision = await self._put(
                    _main(kept.key), encode(session), ttl, kept.revision
                )
            except nats.js.errors.KeyWrongLastSequenceError:
                return None
            return Kept(kept.key, revision, session)

    async def invalidate(self, key: str) -> None:
        async with self._bucket() as bucket:
            kept = await _read(bucket, key)
            if kept is not None:
                await bucket.delete(_main(key))
                await bucket.delete(_index(kept.session.user_id, key))

    async def invalidate_user(self, user_id: str) -> int:
        async with self._bucket() as bucket:
            ended = 0
            for key in await self._keys(user_id):
                if await _read(bucket, key) is None:
                    continue  # ended, or about to be created: then it stays findable
                await bucket.delete(_main(key))
                await bucket.delete(_index(user_id, key))
                ended += 1
            return ended

    async def list_by_user(self, user_id: str, *, now: float) -> Sequence[Kept]:
        async with self._bucket() as bucket:
            found = [await _read(bucket, key) for key in await self._keys(user_id)]
        valid = [kept for kept in found if kept and kept.session.is_valid(now)]
        return sorted(valid, key=lambda kept: (kept.session.created_at, kept.key))

    async def history(self, key: str) -> Sequence[Version]:
        async with self._bucket() as bucket:
            try:
                entries = await bucket.history(_main(key))
            except nats.js.errors.NoKeysError:
                return []
            return [
                Version(entry.revision or 0, _value(entry.operation, entry.value))
                for entry in entries
            ]

    @asynccontextmanager
    async def _bucket(self) -> AsyncIterator[KeyValue]:
        """The bucket, made when it is first needed; NATS' troubles as ours."""
        try:
            self._renew()
            if not self._client.is_connected:
                raise nats.errors.ConnectionClosedError
            if self._opened is None:
                self._opened = await self._open()
            yield self._opened
        except (nats.errors.Error, OSError, TimeoutError) as error:
            self._opened = None  # it may be another server, or an empty one, next time
            why = type(error).__name__
            message = f"sessions cannot be checked, for NATS does not answer ({why})"
            hint = "API tokens still work"
            raise AccessError("session.store_down", f"{message}; {hint}", 401) from None

    def _renew(self) -> None:
        client = self._find_client()
        if client is not self._client:
            self._client, self._opened = client, None
            self._stream = client.jetstream(timeout=SECONDS)

    async def _open(self) -> KeyValue:
        settings = api.KeyValueConfig(
            bucket=BUCKET,
            history=HISTORY,
            ttl=self._lifetime.ttl,
            replicas=self._replicas,
            description="sessions of NoETL",
        )
        try:
            return await self._stream.create_key_value(settings)
        except nats.js.errors.BadRequestError as error:
            if error.err_code != _EXISTS:
                raise
        # The lifetime was changed since it was made.
        info = await self._stream.stream_info(f"KV_{BUCKET}")
        await self._stream.update_stream(info.config, max_age=self._lifetime.ttl)
        return await self._stream.key_value(BUCKET)

    async def _put(
        self, key: str, value: bytes, ttl: float | None, after: int | None = None
    ) -> int:
        headers = {}
        if after is not None:
            headers[api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value] = str(after)
        try:
            subject = f"$KV.{BUCKET}.{key}"
            answer = await self._stream.publish(
                subject, value, headers=headers, msg_ttl=ttl
            )
        except nats.js.errors.APIError as error:
            if error.err_code in (10071, 10164):
                raise nats.js.errors.KeyWrongLastSequenceError from None
            raise
        return answer.seq

    def _ttl(self, session: Session, now: float) -> float | None:
        """Its own end, where the server can; else the bucket's age does the cleaning.

        Either way the end that is in the record decides (SES-05).
        """
        version = self._client.connected_server_version
        if (version.major, version.minor) < _LIMIT_BY_KEY:
            return None
        return max(1.0, math.ceil(session.expires_at - now))

    async def _keys(self, user_id: str) -> list[str]:
        """All that the index has, deleted ones among them."""
        filter_ = f"$KV.{BUCKET}.{_index(user_id, '*')}"
        info = await self._stream.stream_info(f"KV_{BUCKET}", subjects_filter=filter_)
        return [subject.rpartition(".")[2] for subject in info.state.subjects or {}]


def _main(key: str) -> str:
    return f"{PREFIX}.{key}"


def _index(user_id: str, key: str) -> str:
    """An id of somebody else's making must not be a pattern, or two names."""
    name = _OTHER.sub(lambda found: f"={ord(found[0]):02x}=", user_id)
    return f"{PREFIX}.user.{name or '='}.{key}"


async def _read(bucket: KeyValue, key: str) -> Kept | None:
    try:
        entry = await bucket.get(_main(key))
    except nats.js.errors.KeyNotFoundError:
        return None
    if not entry.value or entry.revision is None:
        return None  # a marker that the server left at an expiry
    return Kept(key, entry.revision, decode(entry.value))


def _value(operation: str | None, value: bytes | None) -> Session | None:
    return decode(value) if operation is None and value else None
