"""Stores of a server: files of its home, or PostgreSQL and NATS."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from secrets import token_bytes
from typing import TYPE_CHECKING, Protocol, TypeVar

from noetl.access.audit import Audit
from noetl.access.oidc import OidcClient, Provider
from noetl.adapters.accounts.tables import (
    REMOVING,
    SqlAccounts,
    SqlAudit,
    SqlWorkerRecords,
)
from noetl.adapters.catalogs.sqlite import SqliteCatalogRows
from noetl.adapters.network import Network
from noetl.adapters.plugins.enabled import Plugins
from noetl.adapters.secrets.aes_gcm import AesGcm, Cipher
from noetl.adapters.secrets.registry import Providers
from noetl.adapters.sessions.sqlite import SqliteSessions
from noetl.adapters.sql_database import TRIGGERS, SqliteFile
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.stores.task_log_files import TaskLogFiles
from noetl.adapters.triggers import SqlTriggers
from noetl.config import DATABASE_TIMEOUT, NATS_REPLICAS, RESULTS_URL, Settings
from noetl.errors import ConfigError, StoreError
from noetl.extras import install_command
from noetl.local.home import Home
from noetl.local.services.nats import find_nats, nats_tls
from noetl.ports import (
    Blobs,
    CatalogRows,
    Clock,
    LogVerifier,
    RecordReader,
    Retention,
    Store,
    TaskLogs,
    Triggers,
)
from noetl.ports.access import Accounts, Sessions, WorkerRecords
from noetl.ports.keychain import Keychain, KeyRotation
from noetl.runtime.keychain import Keyring
from noetl.runtime.values.stores import Results
from noetl.runtime.worker_protocol.sealing import UploadReceipts
from noetl.wiring.database_mark import find_restored, keep_mark
from noetl.wiring.keyring import (
    keychain_of,
    make_keyring,
    open_data_keys,
    shared_keychain,
)
from noetl.wiring.result_stores import make_results

if TYPE_CHECKING:
    from noetl.adapters.nats.connection import NatsLink, NatsWakeups
    from noetl.adapters.stores.postgres import PostgresStore


TOKENS_FRESH = 1.0
"""Seconds for which a token that another server revoked may still be accepted."""


class ServerStore(Store, LogVerifier, RecordReader, Protocol):
    """The store of a server; forks verify the log that they begin with, and retention
    walks through all logs."""


T = TypeVar("T")

log = logging.getLogger("noetl.server")

PATIENCE = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Seconds of the successive waits for a database when a server starts."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The open stores of a server; ``closing`` closes them."""

    store: ServerStore
    retention: Retention
    catalog_rows: CatalogRows
    results: Results
    keys: Keyring
    keychain: Keychain
    rotation: KeyRotation | None
    accounts: Accounts
    audit: Audit
    records: WorkerRecords
    sessions: Sessions
    triggers: Triggers
    cipher: AesGcm
    receipts: UploadReceipts | None
    closing: AsyncExitStack
    task_logs: TaskLogs


async def open_backend(
    home: Home,
    database: str | None,
    plugins: Plugins,
    settings: Settings,
    link: NatsLink | None = None,
    nats: str | None = None,
    *,
    owner: str | None = None,
    network: Network | None = None,
    personal: bool = False,
) -> Backend:
    """Open the stores. Raises ``StoreError`` or ``ConfigError``.

    Sessions are in the NATS of ``link``, or else in the home (SES-01); ``nats`` may
    hold results. ``owner`` is the database URL of the role that owns its tables,
    ``network`` the hosts that keychain entries may reach. A ``personal`` server, of
    ``noetl up``, shares the keychain of its home with ``noetl run``.
    """

    async def attempt() -> Backend:
        async with AsyncExitStack() as undo:
            if database is None:
                backend = _open_files(
                    home, plugins, settings, undo, link, nats, network
                )
            else:
                if owner is not None:
                    await prepare(owner, database)
                backend = await _open_database(
                    *(home, database, plugins, settings, undo, link, nats, network),
                    personal=personal,
                )
            undo.pop_all()
            return backend

    return await patiently(attempt)


def _open_files(
    home: Home,
    plugins: Plugins,
    settings: Settings,
    undo: AsyncExitStack,
    link: NatsLink | None,
    nats: str | None,
    network: Network | None,
) -> Backend:
    closing = AsyncExitStack()
    undo.push_async_callback(closing.aclose)
    store = SqliteStore.open(home.server_log, threaded=True)
    closing.push_async_callback(store.close)
    catalog_rows = SqliteCatalogRows(home.catalog)
    closing.push_async_callback(catalog_rows.close)
    results = make_results(home, plugins, settings, nats=nats)
    keys = make_keyring(home, plugins, declared_only=True, network=network)
    stored = keychain_of(home)
    file = _open_file(home, closing)
    accounts = SqlAccounts(file, fresh=TOKENS_FRESH)
    audit, records = SqlAudit(file), SqlWorkerRecords(file)
    sessions: Sessions = SqliteSessions(file)
    if link is not None:
        sessions = _shared_sessions(link, settings[NATS_REPLICAS])
    standing = SqliteFile.open(home.triggers, TRIGGERS)
    closing.push_async_callback(standing.close)
    known = (accounts, audit, records, sessions, SqlTriggers(standing))
    sealing = (Cipher(home.key), _receipts(token_bytes(32), settings))
    logs = TaskLogFiles(home.task_logs)
    closing.callback(logs.close)
    reading = (store, store.retention, catalog_rows, results, keys, stored, None)
    return Backend(*reading, *known, *sealing, closing, logs)


def _open_file(home: Home, closing: AsyncExitStack) -> SqliteFile:
    file = SqliteFile.open(home.accounts)
    closing.push_async_callback(file.close)
    return file


async def _open_database(
    home: Home,
    address: str,
    plugins: Plugins,
    settings: Settings,
    undo: AsyncExitStack,
    link: NatsLink | None,
    nats: str | None,
    network: Network | None,
    *,
    personal: bool,
) -> Backend:
    try:
        from noetl.adapters.blobs.postgres import PostgresBlobs
        from noetl.adapters.catalogs.postgres import PostgresCatalogRows
        from noetl.adapters.database_roles import judge_role, look_at_role
        from noetl.adapters.postgres import Postgres
        from noetl.adapters.secrets.execution_secrets import SealedRows
        from noetl.adapters.secrets.rotation import Rotation
        from noetl.adapters.sql_database import PostgresDatabase
        from noetl.adapters.stores.postgres import PostgresStore
        from noetl.adapters.stores.postgres.retention import PostgresRetention
        from noetl.adapters.stores.postgres.task_logs import PostgresTaskLogs
    except ModuleNotFoundError:
        raise _no_driver() from None
    closing = AsyncExitStack()
    undo.push_async_callback(closing.aclose)
    postgres = Postgres(address, timeout=settings[DATABASE_TIMEOUT])
    closing.push_async_callback(postgres.close)
    store = await PostgresStore.open(postgres)
    warning = judge_role(await look_at_role(postgres))
    if warning is not None:
        log.warning("%s; see NOETL_DATABASE_OWNER in the guide to deploying", warning)
    restored = await find_restored(home, address, postgres)
    if restored is not None:
        log.warning("%s; see the guide to backups", restored)
    await keep_mark(home, address, postgres)
    closing.push_async_callback(keep_mark, home, address, postgres)
    catalog_rows = await PostgresCatalogRows.open(postgres)
    data_keys, cipher = await open_data_keys(home, postgres, plugins, settings)
    stored = keychain_of(home) if personal else shared_keychain(home, data_keys)
    providers = Providers(
        stored, plugins=plugins.secrets, declared_only=True, network=network
    )
    keys = Keyring(providers, SealedRows(data_keys))
    tables = PostgresDatabase(postgres)
    accounts = SqlAccounts(tables, fresh=TOKENS_FRESH)
    audit, records = SqlAudit(tables, REMOVING), SqlWorkerRecords(tables)
    if link is None:  # SES-01: sessions are not in PostgreSQL; each server has its own
        sessions: Sessions = SqliteSessions(_open_file(home, closing))
    else:
        sessions = _shared_sessions(link, settings[NATS_REPLICAS])
    rows = PostgresBlobs(postgres, str(home.drafts))
    await rows.open()
    results = make_results(home, plugins, settings, rows=rows, nats=nats)
    triggers = SqlTriggers(PostgresDatabase(postgres, "triggers"))
    known = (accounts, audit, records, sessions, triggers)
    sealing = (cipher, _receipts(await rows.secret(), settings))
    logs = PostgresTaskLogs(postgres)
    rotation = None if personal else Rotation(data_keys)
    removing = PostgresRetention(postgres)
    reading = (store, removing, catalog_rows, results, keys, stored, rotation)
    return Backend(*reading, *known, *sealing, closing, logs)


@asynccontextmanager
async def reading_database(
    home: Home, address: str, plugins: Plugins, settings: Settings
) -> AsyncIterator[tuple[PostgresStore, Blobs]]:
    """Provide the log of a database and the values that it names, to be read: tables
    are neither made nor changed. Raises ``StoreError`` or ``ConfigError``."""
    try:
        from noetl.adapters.blobs.postgres import PostgresBlobs
        from noetl.adapters.postgres import Postgres
        from noetl.adapters.stores.postgres import PostgresStore
    except ModuleNotFoundError:
        raise _no_driver() from None
    postgres = Postgres(address, timeout=settings[DATABASE_TIMEOUT])
    try:
        rows = PostgresBlobs(postgres, str(home.drafts))
        nats = find_nats(home, settings)
        values = make_results(home, plugins, settings, rows=rows, nats=nats).own
        yield PostgresStore(postgres), values
    finally:
        await postgres.close()


async def prepare(owner: str, database: str) -> None:
    """Bring the tables up to date. Raises ``StoreError`` or ``ConfigError``."""
    try:
        from noetl.adapters.database_roles import prepare_database
    except ModuleNotFoundError:
        raise _no_driver() from None
    await prepare_database(owner, database)


def _no_driver() -> ConfigError:
    hint = f"run: {install_command('postgres')}"
    return ConfigError(f"a database needs the package asyncpg; {hint}")


def _receipts(secret: bytes, settings: Settings) -> UploadReceipts | None:
    """Return None if workers may write and read results without a server."""
    return UploadReceipts(secret) if settings[RESULTS_URL] is None else None


def _shared_sessions(link: NatsLink, replicas: int) -> Sessions:
    from noetl.adapters.sessions.nats import NatsSessions

    return NatsSessions(lambda: link.client, replicas=replicas)


async def patiently(connect: Callable[[], Awaitable[T]]) -> T:
    """Connect, and retry while the database is starting."""
    for seconds in PATIENCE:
        try:
            return await connect()
        except StoreError as error:
            if error.kind != "store.unreachable":
                raise
            log.warning("%s: asked again in %g s", error, seconds)
            await asyncio.sleep(seconds)
    return await connect()


def make_link(address: str | None, settings: Settings) -> NatsLink | None:
    """Return the connection to NATS, or None. Raises ``ConfigError``."""
    if address is None:
        return None
    try:
        from noetl.adapters.nats.connection import NatsLink
    except ModuleNotFoundError:
        message = "the setting nats needs the package nats-py"
        hint = f"run: {install_command('nats')}"
        raise ConfigError(f"{message}; {hint}") from None
    return NatsLink(address, tls=nats_tls(address, settings))


def make_wakeup_bus(address: str, settings: Settings) -> NatsWakeups:
    from noetl.adapters.nats.connection import NatsWakeups

    return NatsWakeups(address, nats_tls(address, settings))


def make_provider(
    client: OidcClient | None, backend: Backend, clock: Clock
) -> Provider | None:
    """Return the OIDC provider, or None. Raises ``ConfigError``."""
    if client is None:
        return None
    try:
        from noetl.adapters.accounts.oidc_provider import OidcProvider
    except ModuleNotFoundError:
        message = "sign-in by OIDC needs the package joserfc"
        hint = f"run: {install_command('server')}"
        raise ConfigError(f"{message}; {hint}") from None
    from noetl.adapters.accounts.oidc_provider import Web

    web = Web()
    backend.closing.push_async_callback(web.close)
    return OidcProvider(client, web.ask, clock)
