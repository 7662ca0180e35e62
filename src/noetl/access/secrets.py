"""Rules for kept secrets: which playbooks may use them, and what those may change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from noetl.access.grants import is_pattern, within
from noetl.access.principal import Principal, allows_below
from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.grammar.keychain import KeychainKind
from noetl.dsl.node import shorten
from noetl.errors import AccessError
from noetl.types import JSON

EVERYWHERE = "*"
"""The binding of a secret that every playbook may use."""
MOST_BINDINGS = 64
SELECTORS = frozenset({"field", "format"})
"""Fields of an entry that only choose a part of what was found."""
ADDRESSES = frozenset(
    {
        *("address", "audience", "dsn", "host", "hostaddr", "namespace", "port"),
        *("service", "token_url", "url", "vault_url"),
    }
)
"""Fields that say where a credential is sent."""
_ABOUT = frozenset({"name", "kind", "provider"})
_KEPT = frozenset(
    {"secret_manager", "postgres_credential", "http_credential", "oauth2"}
)
"""Kinds whose values are stored."""
_LONGEST = 4096


# -- bindings to paths -------------------------------------------------------------


def read_bindings(texts: Sequence[str]) -> tuple[str, ...]:
    """Check path patterns such as ``finance/*``. Raises ``AccessError``."""
    found = tuple(dict.fromkeys(texts))
    if not 1 <= len(found) <= MOST_BINDINGS:
        raise _wrong(f"a secret is for 1 to {MOST_BINDINGS} paths")
    for text in found:
        if text != EVERYWHERE and not is_pattern(text):
            expected = "a secret is for a path, 'finance/*' or '*'"
            raise _wrong(f"{expected}, found '{shorten(text, 40)}'")
    return (EVERYWHERE,) if EVERYWHERE in found else found


def is_for(bound: Iterable[str], path: str | None) -> bool:
    """Whether the playbook with this path may use a secret with these bindings."""
    return any(
        each == EVERYWHERE or (path is not None and within(path, each))
        for each in bound
    )


def may_manage(principal: Principal, permission: str, bound: Iterable[str]) -> bool:
    """Whether the permission holds for every place that the secret is for."""
    return all(
        allows_below(principal, permission, None if each == EVERYWHERE else each)
        for each in bound
    )


def default_bindings(principal: Principal, permission: str) -> tuple[str, ...]:
    """All places where they have the permission: for a grant that holds everywhere,
    every path. Empty if there are none."""
    if allows_below(principal, permission, None):
        return (EVERYWHERE,)
    grants = [*principal.grants, *(principal.limits or ())]
    places = dict.fromkeys(grant.where for grant in grants if grant.where is not None)
    held = [each for each in places if allows_below(principal, permission, each)]
    return tuple(
        each
        for each in held
        if not any(each != other and within(each, other) for other in held)
    )


# -- what an admin declares --------------------------------------------------------


def host_kinds(kinds: Mapping[str, KeychainKind]) -> dict[str, KeychainKind]:
    """Those that read the host or use a credential of its operator."""
    return {name: kind for name, kind in kinds.items() if name not in _KEPT}


def check_declaration(
    kind: str, fields: Mapping[str, str], kinds: Mapping[str, KeychainKind]
) -> None:
    """Raises ``AccessError`` if the fields cannot be those of an entry of the kind."""
    hosts = host_kinds(kinds)
    about = hosts.get(kind)
    if about is None:
        hint = did_you_mean(kind, hosts) or f"kinds: {', '.join(hosts)}"
        cure = "store its value with: noetl keychain set" if kind in _KEPT else hint
        raise _wrong(f"kind '{shorten(kind, 40)}' cannot be declared; {cure}")
    if not about.open and (unknown := sorted(fields.keys() - about.fields.keys())):
        hint = did_you_mean(unknown[0], about.fields) or ""
        raise _wrong(f"{kind} has no field '{shorten(unknown[0], 40)}'; {hint}")
    for name, value in fields.items():
        if not value or len(value) > _LONGEST or not value.isprintable():
            message = f"'{name}' must be text of 1 to {_LONGEST} printable characters"
            raise _wrong(message)
    if kind == "file" and not fields.get("path", "").startswith("/"):
        message = "file needs 'path', and the path must be absolute: a server has no "
        raise _wrong(message + "folder of a playbook")


# -- what a playbook may say about a secret that is not its own --------------------


def find_declared(
    kind: str, name: str, fields: Mapping[str, JSON], declared: Mapping[str, str]
) -> tuple[str, frozenset[str]] | None:
    """The declared entry that an entry of a host kind means.

    ``declared`` are the kinds of the declared entries that the playbook may use, by
    name. Also returns the fields that named the entry: they say nothing else.
    """
    for key in ("path", "variable"):
        if (given := fields.get(key)) and declared.get(str(given)) == kind:
            return str(given), frozenset({key})
    if declared.get(name) == kind:
        return name, frozenset()
    return None


def disagreements(
    given: Mapping[str, JSON], declared: Mapping[str, str], known: Iterable[str] | None
) -> list[str]:
    """Fields of an entry that a declaration states otherwise, or does not state.

    ``known`` are the fields that the kind reads; None if it may read any. A selector
    is the playbook's choice unless the declaration has made it.
    """
    read = set(given) if known is None else set(given) & set(known)
    return sorted(
        key
        for key in read - _ABOUT
        if given[key] is not None
        and given[key] != declared.get(key)
        and not (key in SELECTORS and key not in declared)
    )


def redirections(given: Mapping[str, JSON], kept: Mapping[str, JSON]) -> list[str]:
    """Addresses of an entry that are not those of the kept credential under it."""
    return sorted(
        key for key in ADDRESSES & given.keys() if given[key] != kept.get(key)
    )


def _wrong(message: str) -> AccessError:
    return AccessError("request.invalid", message, 422)
