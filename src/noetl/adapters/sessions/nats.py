"""Sessions of a cluster, in NATS Key/Value."""

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

from noetl.access.sessions import MAX_VERSIONS, Lifetime, Session, decode, encode
from noetl.adapters.nats.permissions import KEYS_STREAM
from noetl.adapters.nats.permissions import SESSION_KEYS as PREFIX
from noetl.adapters.nats.permissions import SESSIONS as BUCKET
from noetl.errors import AccessError
from noetl.ports.access import StoredSession, Version

SECONDS = 2.0
"""Timeout of a request; short, since a browser waits for the answer."""

_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_EXISTS = 10058  # error code: the stream exists with other settings
_LIMIT_BY_KEY = (2, 11)  # first version of NATS with a TTL per message


class NatsSessions:
    """Two keys for each session (C-42), both with the bucket's TTL.

    The index is written first and deleted last, so that ``invalidate_user`` finds every
    session. ``client`` returns the present connection; calls fail at once while it is
    down.
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

    async def create(self, key: str, session: Session, *, now: float) -> StoredSession:
        async with self._bucket():
            ttl = self._ttl(session, now)
            await self._put(_index(session.user_id, key), b"", ttl)
            revision = await self._put(_main(key), encode(session), ttl)
            return StoredSession(key, revision, session)

    async def get(self, key: str, *, now: float) -> StoredSession | None:
        async with self._bucket() as bucket:
            kept = await _read(bucket, key)
            return kept if kept is not None and kept.session.is_valid(now) else None

    async def touch(
        self, kept: StoredSession, session: Session, *, now: float
    ) -> StoredSession | None:
        async with self._bucket():
            ttl = self._ttl(session, now)
            await self._put(_index(session.user_id, kept.key), b"", ttl)
            try:
                revision = await self._put(
                    _main(kept.key), encode(session), ttl, kept.revision
                )
            except nats.js.errors.KeyWrongLastSequenceError:
                return None
            return StoredSession(kept.key, revision, session)

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
                    continue  # ended, or being created: the index entry must stay
                await bucket.delete(_main(key))
                await bucket.delete(_index(user_id, key))
                ended += 1
            return ended

    async def list_by_user(
        self, user_id: str, *, now: float
    ) -> Sequence[StoredSession]:
        async with self._bucket() as bucket:
            found = [await _read(bucket, key) for key in await self._keys(user_id)]
        valid = [kept for kept in found if kept and kept.session.is_valid(now)]
        return sorted(valid, key=lambda kept: (kept.session.created_at, kept.key))

    async def history(self, key: str) -> Sequence[Version]:
        """Read one version after the other.

        The client's own ``history`` finds nothing if the messages arrive before it
        asks how many there are.
        """
        subject, versions, seq = f"$KV.{BUCKET}.{_main(key)}", list[Version](), 1
        async with self._bucket():
            while True:
                try:
                    found = await self._stream.get_msg(
                        f"{KEYS_STREAM}{BUCKET}", seq=seq, subject=subject, next=True
                    )
                except nats.js.errors.NotFoundError:
                    return versions
                session = decode(found.data) if found.data else None
                versions.append(Version(found.seq or seq, session))
                seq = versions[-1].revision + 1

    @asynccontextmanager
    async def _bucket(self) -> AsyncIterator[KeyValue]:
        """Open the bucket on first use, and raise ``AccessError`` for NATS' errors."""
        try:
            self._renew()
            if not self._client.is_connected:
                raise nats.errors.ConnectionClosedError
            if self._opened is None:
                self._opened = await self._open()
            yield self._opened
        except (nats.errors.Error, OSError, TimeoutError) as error:
            self._opened = None  # the next server may be another one, or empty
            why = type(error).__name__
            message = f"sessions cannot be checked: NATS does not answer ({why})"
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
            history=MAX_VERSIONS,
            ttl=self._lifetime.ttl,
            replicas=self._replicas,
            description="sessions of NoETL",
        )
        try:
            return await self._stream.create_key_value(settings)
        except nats.js.errors.BadRequestError as error:
            if error.err_code != _EXISTS:
                raise
        # The settings have changed since the bucket was created.
        info = await self._stream.stream_info(f"{KEYS_STREAM}{BUCKET}")
        wanted = {"max_age": self._lifetime.ttl, "num_replicas": self._replicas}
        await self._stream.update_stream(info.config, **wanted)
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
        """Return a TTL for the session, None if the server only supports the bucket's.

        The end in the record decides whether a session is valid (SES-05).
        """
        version = self._client.connected_server_version
        if (version.major, version.minor) < _LIMIT_BY_KEY:
            return None
        return max(1.0, math.ceil(session.expires_at - now))

    async def _keys(self, user_id: str) -> list[str]:
        """Return all keys in the index of a user, including deleted ones."""
        filter_ = f"$KV.{BUCKET}.{_index(user_id, '*')}"
        info = await self._stream.stream_info(
            f"{KEYS_STREAM}{BUCKET}", subjects_filter=filter_
        )
        return [subject.rpartition(".")[2] for subject in info.state.subjects or {}]


def _main(key: str) -> str:
    return f"{PREFIX}.{key}"


def _index(user_id: str, key: str) -> str:
    """Return the key in the index; escapes dots and wildcards of foreign user ids."""
    name = _OTHER.sub(lambda found: f"={ord(found[0]):02x}=", user_id)
    return f"{PREFIX}.user.{name or '='}.{key}"


async def _read(bucket: KeyValue, key: str) -> StoredSession | None:
    try:
        entry = await bucket.get(_main(key))
    except nats.js.errors.KeyNotFoundError:
        return None
    if not entry.value or entry.revision is None:
        return None  # a marker of NATS for an expired key
    return StoredSession(key, entry.revision, decode(entry.value))
