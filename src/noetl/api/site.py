"""What the routes have at hand: the services of one server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from noetl.access.audit import Audit
from noetl.access.oidc import Provider
from noetl.adapters.processes.isolation import State
from noetl.adapters.secrets.stored import StoredKeychain
from noetl.api.access import Access
from noetl.api.metrics import Metrics
from noetl.api.pace import Pace
from noetl.api.quotas import Quotas
from noetl.dsl.grammar.keychain import KeychainKind
from noetl.runtime.desk import Desk
from noetl.runtime.logins import Logins
from noetl.runtime.people import People
from noetl.runtime.roll import Roll
from noetl.runtime.streams import Streams
from noetl.service.arranging import Arranging
from noetl.service.backfills import Backfills
from noetl.service.forking import Forking
from noetl.service.looking import Looking
from noetl.service.playbooks import Playbooks
from noetl.service.receiving import Receiving
from noetl.service.results import Results
from noetl.service.starting import Starting
from noetl.service.steering import Steering


@dataclass(frozen=True, slots=True)
class Site:
    """``ready`` says what is missing, if anything is; ``provider`` is of OIDC. The
    ``mark`` is in the names of executions that this server accepts."""

    access: Access
    audit: Audit
    provider: Provider | None
    people: People
    logins: Logins
    starting: Starting
    looking: Looking
    steering: Steering
    forking: Forking
    results: Results
    playbooks: Playbooks
    arranging: Arranging
    receiving: Receiving
    backfills: Backfills
    desk: Desk
    roll: Roll
    keychain: StoredKeychain
    keychain_kinds: Mapping[str, KeychainKind]
    streams: Streams
    metrics: Metrics
    pace: Pace
    claims: Pace
    hook_pace: Pace
    public_pace: Pace
    quotas: Quotas
    mark: str
    ready: Callable[[], Awaitable[str | None]]
    isolation: Callable[[], Awaitable[State]]
