"""What a server is told when it starts."""

from __future__ import annotations

from pathlib import Path

import msgspec

from noetl.access.oidc import OidcClient
from noetl.adapters.host import HostPolicy
from noetl.api.limits import Limits
from noetl.api.pace import CLAIMS, RATE
from noetl.runtime.planning import TTL


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """``start_rate`` is how many executions a second one caller may start,
    ``claim_rate`` how often a second one worker may ask for work.

    ``database`` is the address of a PostgreSQL; without it everything is in the home.
    ``database_owner`` is the same one by the role that owns its tables; a server uses
    it when it starts, and then forgets it.
    ``nats`` is where sessions are, and by what servers on one database tell each other
    of new work.
    A server has ``slots`` for workers of its own; with none, others do the work.
    ``hosts`` are names by which clients reach it, besides those of this machine. A
    server ``behind_proxy`` leaves TLS to one of ``proxies``; with ``tls_cert`` and
    ``tls_key`` it speaks TLS itself. ``oidc`` is how its provider knows it. Without
    ``limits`` they follow from how many files the process may open.
    ``policy`` is what its tools may reach, by default what the settings say of a
    server; ``personal`` is the folder of a ``noetl up`` that started it.
    """

    host: str = "127.0.0.1"
    port: int = 8082
    database: str | None = None
    database_owner: str | None = None
    nats: str | None = None
    slots: int = 16
    lease_ttl: float = TTL
    extensions: frozenset[str] = frozenset()
    start_rate: float = RATE
    claim_rate: float = CLAIMS
    hosts: frozenset[str] = frozenset()
    behind_proxy: bool = False
    proxies: frozenset[str] = frozenset()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    oidc: OidcClient | None = None
    limits: Limits | None = None
    policy: HostPolicy | None = None
    personal: str | None = None
