"""Options of a server, and the limits of its requests."""

from __future__ import annotations

from pathlib import Path

import msgspec

from noetl.access.oidc import OidcClient
from noetl.access.rate_limit import CLAIM_RATE, START_RATE
from noetl.adapters.host import HostPolicy
from noetl.engine.limits import Ceilings
from noetl.runtime.executions.child_requests import FAMILY_LIMIT
from noetl.runtime.executions.placement import LEASE_TTL_S

MiB = 1024 * 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Connections, answers that are held open, and bytes of bodies in memory.

    ``streams`` are streams of events and waits for an end; ``claims`` are workers that
    wait for work. The two together leave a quarter of the connections free for
    requests that are answered at once. Bodies of workers have a budget of their own.
    """

    connections: int
    connections_of_address: int
    streams: int
    streams_of_caller: int
    claims: int
    claims_of_caller: int
    body_bytes: int = 48 * MiB
    body_bytes_of_caller: int = 16 * MiB
    worker_body_bytes: int = 32 * MiB


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a server.

    ``start_rate`` is the number of executions per second that one caller may start,
    ``claim_rate`` the claims per second of one worker, ``family_limit`` the unfinished
    executions that may descend from one root.

    ``database`` is the URL of a PostgreSQL; without it all data is in the home.
    ``database_owner`` is its URL with the role that owns the tables, used at the start
    only. ``nats`` is the URL of a NATS server for sessions and for wake-up messages
    between servers on one database.

    ``slots`` is the number of pipelines that the server runs itself; with 0, workers
    run all. ``hosts`` are further host names of the server. ``behind_proxy`` leaves TLS
    to one of ``proxies``; with ``tls_cert`` and ``tls_key`` the server speaks TLS
    itself. ``oidc`` is its registration at a provider. ``limits`` default to values for
    the number of files that the process may open.

    ``retention`` are the seconds for which executions are kept after their end; with
    None they are kept. ``archive`` is the URL to which they are copied before.
    ``audit_retention`` are the seconds for which entries of the audit are kept.

    ``policy`` is what tools may reach and ``ceilings`` are the operator's limits; both
    default to the settings. ``personal`` is the folder of the ``noetl up`` that started
    the server.
    """

    host: str = "127.0.0.1"
    port: int = 8082
    database: str | None = None
    database_owner: str | None = None
    nats: str | None = None
    slots: int = 16
    lease_ttl: float = LEASE_TTL_S
    extensions: frozenset[str] = frozenset()
    start_rate: float = START_RATE
    family_limit: int = FAMILY_LIMIT
    path_limits: tuple[tuple[str, int], ...] = ()
    claim_rate: float = CLAIM_RATE
    answer_links: bool = False
    hosts: frozenset[str] = frozenset()
    behind_proxy: bool = False
    proxies: frozenset[str] = frozenset()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    oidc: OidcClient | None = None
    limits: Limits | None = None
    retention: float | None = None
    archive: str | None = None
    audit_retention: float | None = None
    policy: HostPolicy | None = None
    ceilings: Ceilings | None = None
    personal: str | None = None
