"""What a server keeps, and where: in files of its home, or in PostgreSQL."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from secrets import token_bytes
from typing import TYPE_CHECKING, Protocol, TypeVar

from noetl.access.audit import Audit
from noetl.access.oidc import OidcClient, Provider
from noetl.access.ports import Accounts, Sessions
from noetl.access.roster import Roster
from noetl.adapters.accounts.accounts import SqlAccounts
from noetl.adapters.accounts.audit import SqlAudit
from noetl.adapters.accounts.roster import SqlRoster
from noetl.adapters.accounts.sqlite import TRIGGERS, SqliteFile
from noetl.adapters.catalogs.sqlite import SqliteShelf
from noetl.adapters.network import Network
from noetl.adapters.plugins.enabled import Plugins
from noetl.adapters.secrets.cipher import Cipher
from noetl.adapters.secrets.registry import Providers
from noetl.adapters.secrets.stored import StoredKeychain
from noetl.adapters.sessions.sqlite import SqliteSessions
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.triggers.triggers import SqlTriggers
from noetl.config import RESULTS_URL, read_settings
from noetl.embedded import make_keyring
from noetl.errors import ConfigError, StoreError
from noetl.home import Home
from noetl.ports import Clock, Shelf, Store, Triggers
from noetl.results import make_results
from noetl.runtime.keychain import Keyring
from noetl.runtime.origins import Log
from noetl.runtime.receipts import Receipts
from noetl.runtime.results import Results

if TYPE_CHECKING:
    from noetl.adapters.nats.doorbell import NatsDoorbell
    from noetl.adapters.nats.link import NatsLink


TOKENS_FRESH = 1.0
"""Seconds in which a token that another server has revoked may still be taken here."""


class ServerStore(Store, Log, Protocol):
    """A log that can be checked, too: whoever forks it wants to know."""


T = TypeVar("T")

log = logging.getLogger("noetl.server")

PATIENCE = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Seconds that a server waits, one after the other, for a database when it starts."""


@dataclass(frozen=True, slots=True)
class Backend:
    """``closing`` gives everything back."""

    store: ServerStore
    shelf: Shelf
    results: Results
    keys: Keyring
    keychain: StoredKeychain
    accounts: Accounts
    audit: Audit
    roster: Roster
    sessions: Sessions
    triggers: Triggers
    cipher: Cipher
    receipts: Receipts | None
    closing: AsyncExitStack


async def open_backend(
    home: Home,
    database: str | None,
    plugins: Plugins,
    link: NatsLink | None = None,
    nats: str | None = None,
    *,
    owner: str | None = None,
    network: Network | None = None,
) -> Backend:
    """Sessions are where ``link`` leads, or else in the home (SES-01); ``nats`` may
    keep results. ``owner`` is the database by the role that owns its tables,
    ``network`` what keychain entries may reach. Raises ``StoreError`` or
    ``ConfigError``."""

    async def attempt() -> Backend:
        async with AsyncExitStack() as undo:
            if database is None:
                backend = _open_files(home, plugins, undo, link, nats, network)
            else:
                if owner is not None:
                    await _prepare(owner, database)
                backend = await _open_database(
                    home, database, plugins, undo, link, nats, network
                )
            undo.pop_all()
            return backend

    return await patiently(attempt)


def _open_files(
    home: Home,
    plugins: Plugins,
    undo: AsyncExitStack,
    link: NatsLink | None,
    nats: str | None,
    network: Network | None,
) -> Backend:
    closing = AsyncExitStack()
    undo.push_async_callback(closing.aclose)
    store = SqliteStore.open(home.server_log, threaded=True)
    closing.push_async_callback(store.close)
    shelf = SqliteShelf(home.catalog)
    closing.push_async_callback(shelf.close)
    results = make_results(home, plugins, nats=nats)
    keys = make_keyring(home, plugins, declared_only=True, network=network)
    stored = StoredKeychain(home.keychain, Cipher(home.key))
    file = _open_file(home, closing)
    accounts = SqlAccounts(file, fresh=TOKENS_FRESH)
    audit, roster = SqlAudit(file), SqlRoster(file)
    sessions = SqliteSessions(file) if link is None else _shared_sessions(link)
    standing = SqliteFile.open(home.triggers, TRIGGERS)
    closing.push_async_callback(standing.close)
    known = (accounts, audit, roster, sessions, SqlTriggers(standing))
    sealing = (Cipher(home.key), _receipts(token_bytes(32)))
    return Backend(store, shelf, results, keys, stored, *known, *sealing, closing)


def _open_file(home: Home, closing: AsyncExitStack) -> SqliteFile:
    file = SqliteFile.open(home.accounts)
    closing.push_async_callback(file.close)
    return file


async def _open_database(
    home: Home,
    address: str,
    plugins: Plugins,
    undo: AsyncExitStack,
    link: NatsLink | None,
    nats: str | None,
    network: Network | None,
) -> Backend:
    try:
        from noetl.adapters.accounts.postgres import PostgresDatabase
        from noetl.adapters.blobs.rows import PostgresBlobs
        from noetl.adapters.catalogs.postgres import PostgresShelf
        from noetl.adapters.database_roles import judge_role, look_at_role
        from noetl.adapters.postgres import Postgres
        from noetl.adapters.secrets.shared import SealedRows
        from noetl.adapters.stores.postgres import PostgresStore
    except ModuleNotFoundError:
        raise _no_driver() from None
    closing = AsyncExitStack()
    undo.push_async_callback(closing.aclose)
    postgres = Postgres(address)
    closing.push_async_callback(postgres.close)
    store = await PostgresStore.open(postgres)
    warning = judge_role(await look_at_role(postgres))
    if warning is not None:
        log.warning("%s; see NOETL_DATABASE_OWNER in the guide to deploying", warning)
    shelf = await PostgresShelf.open(postgres)
    cipher = Cipher(home.key)
    sealed = SealedRows(postgres, cipher)
    await sealed.open()
    stored = StoredKeychain(home.keychain, cipher)
    providers = Providers(
        stored, plugins=plugins.secrets, declared_only=True, network=network
    )
    keys = Keyring(providers, sealed)
    tables = PostgresDatabase(postgres)
    accounts = SqlAccounts(tables, fresh=TOKENS_FRESH)
    audit, roster = SqlAudit(tables), SqlRoster(tables)
    if link is None:  # SES-01: not in PostgreSQL; each server knows its own
        sessions: Sessions = SqliteSessions(_open_file(home, closing))
    else:
        sessions = _shared_sessions(link)
    rows = PostgresBlobs(postgres, str(home.drafts))
    await rows.open()
    results = make_results(home, plugins, rows=rows, nats=nats)
    triggers = SqlTriggers(PostgresDatabase(postgres, "triggers"))
    known = (accounts, audit, roster, sessions, triggers)
    sealing = (cipher, _receipts(await rows.secret()))
    return Backend(store, shelf, results, keys, stored, *known, *sealing, closing)


async def _prepare(owner: str, database: str) -> None:
    try:
        from noetl.adapters.database_roles import prepare_database
    except ModuleNotFoundError:
        raise _no_driver() from None
    await prepare_database(owner, database)


def _no_driver() -> ConfigError:
    message = "a database needs the package asyncpg; run: pip install '.[postgres]'"
    return ConfigError(f"{message} in a checkout of NoETL")


def _receipts(secret: bytes) -> Receipts | None:
    """None where workers may put and read results without a server."""
    return Receipts(secret) if read_settings()[RESULTS_URL] is None else None


def _shared_sessions(link: NatsLink) -> Sessions:
    from noetl.adapters.sessions.nats import NatsSessions

    return NatsSessions(lambda: link.client)


async def patiently(connect: Callable[[], Awaitable[T]]) -> T:
    """A database that is just being started again need not stop a server."""
    for seconds in PATIENCE:
        try:
            return await connect()
        except StoreError as error:
            if error.kind != "store.unreachable":
                raise
            log.warning("%s: asked again in %g s", error, seconds)
            await asyncio.sleep(seconds)
    return await connect()


def make_link(address: str | None) -> NatsLink | None:
    """Raises ``ConfigError``."""
    if address is None:
        return None
    try:
        from noetl.adapters.nats.link import NatsLink
    except ModuleNotFoundError:
        message = "the setting nats needs the package nats-py; run: pip install"
        raise ConfigError(f"{message} '.[nats]' in a checkout of NoETL") from None
    return NatsLink(address)


def make_doorbell(address: str) -> NatsDoorbell:
    from noetl.adapters.nats.doorbell import NatsDoorbell

    return NatsDoorbell(address)


def make_provider(
    client: OidcClient | None, backend: Backend, clock: Clock
) -> Provider | None:
    """Raises ``ConfigError``."""
    if client is None:
        return None
    try:
        from noetl.adapters.oidc.provider import OidcProvider
    except ModuleNotFoundError:
        message = "sign-in by OIDC needs the package joserfc; run: pip install"
        raise ConfigError(f"{message} '.[server]' in a checkout of NoETL") from None
    from noetl.adapters.oidc.web import Web

    web = Web()
    backend.closing.push_async_callback(web.close)
    return OidcProvider(client, web.ask, clock)
