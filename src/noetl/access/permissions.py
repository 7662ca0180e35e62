"""Roles and what each of them permits: one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Scope = Literal["path", "pool", "all"]


class Permission(msgspec.Struct, frozen=True):
    """Something a route asks for.

    One of scope ``path`` is about a playbook or its executions, one of ``pool`` about
    a pool of workers, one of ``all`` about the server. ``bearer`` permissions are
    never given to a cookie: a browser has no use for them.
    """

    doc: str
    scope: Scope = "path"
    bearer: bool = False


PERMISSIONS: Mapping[str, Permission] = {
    "playbooks:read": Permission("See registered playbooks and their versions."),
    "executions:read": Permission(
        "See executions, events, states and results; of playbooks that are marked as "
        "sensitive status, times and kinds of errors only."
    ),
    "payloads:read": Permission(
        "See the data of executions whose playbooks are marked as sensitive, too."
    ),
    "executions:run": Permission("Start an execution of a registered playbook."),
    "executions:control": Permission(
        "Cancel, pause, resume, signal, retry and fork an execution."
    ),
    "triggers:read": Permission("See triggers and backfills."),
    "triggers:write": Permission(
        "Make, change, pause, fire and delete triggers; run backfills."
    ),
    "playbooks:write": Permission(
        "Register a playbook, or run one that is not registered."
    ),
    "tools:code": Permission("Register or run playbooks with `python` and the like."),
    "secrets:read": Permission("See the names of secrets, never their values."),
    "secrets:write": Permission("Store and delete secrets; bind them to playbooks."),
    "secrets:declare": Permission(
        "Declare keychain entries that read the host or use its credentials.", "all"
    ),
    "log:export": Permission("Export event logs and the audit of the server."),
    "workers:read": Permission("See pools, workers and their load.", "all"),
    "accounts:manage": Permission("Make, change and end accounts.", "all"),
    "tokens:manage": Permission("Make and end API tokens.", "all", bearer=True),
    "sessions:manage": Permission("See and end the sessions of others.", "all"),
    "work:claim": Permission(
        "Claim, renew and report work of a pool.", "pool", bearer=True
    ),
}


class Role(msgspec.Struct, frozen=True):
    """``takes`` is what may stand behind its name: ``operator:finance/*``."""

    doc: str
    permissions: frozenset[str]
    takes: Scope = "path"


_VIEWER = frozenset(
    {"playbooks:read", "executions:read", "triggers:read", "workers:read"}
)
_OPERATOR = _VIEWER | {
    *("executions:run", "executions:control", "payloads:read", "triggers:write"),
}
_AUTHOR = _OPERATOR | {"playbooks:write"}
_DEVELOPER = _AUTHOR | {"tools:code"}
_EVERYTHING = frozenset(n for n, p in PERMISSIONS.items() if p.scope != "pool")

ROLES: Mapping[str, Role] = {
    "viewer": Role(
        "Reads, except the data of playbooks that are marked as sensitive.", _VIEWER
    ),
    "operator": Role("A viewer who also runs and steers executions.", _OPERATOR),
    "author": Role("An operator who also writes playbooks without code.", _AUTHOR),
    "developer": Role("An author whose playbooks may bring code.", _DEVELOPER),
    "secrets": Role(
        "Keeps the secrets: names and bindings.",
        frozenset({"secrets:read", "secrets:write"}),
    ),
    "auditor": Role(
        "Reads everything that happened, and exports it.",
        _VIEWER | {"payloads:read", "log:export"},
    ),
    "admin": Role("Everything but the work of a worker.", _EVERYTHING, "all"),
    "worker": Role(
        "Works for the pool that it names: `worker:gpu`; `worker:*` is all of them.",
        frozenset({"work:claim"}),
        "pool",
    ),
}
