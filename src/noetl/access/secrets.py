"""Rules for stored secrets: their bindings to playbooks and their declared fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from noetl.access.permissions import Principal, allows_below, is_pattern, within
from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.grammar.keychain import KeychainKind
from noetl.dsl.node import shorten
from noetl.errors import AccessError
from noetl.types import JSON

EVERYWHERE = "*"
"""The binding of a secret that every playbook may use."""
MAX_BINDINGS = 64
SELECTORS = frozenset({"field", "format"})
"""Fields of an entry that select a part of the resolved value."""
ADDRESSES = frozenset(
    {
        *("address", "audience", "dsn", "host", "hostaddr", "namespace", "port"),
        *("service", "token_url", "url", "vault_url"),
    }
)
"""Fields that name the address to which a credential is sent."""
_ABOUT = frozenset({"name", "kind", "provider"})
_KEPT = frozenset(
    {"secret_manager", "postgres_credential", "http_credential", "oauth2"}
)
"""Keychain kinds whose values are stored."""
_MAX_CHARS = 4096


# -- bindings to paths -------------------------------------------------------------


def read_bindings(texts: Sequence[str]) -> tuple[str, ...]:
    """Check path patterns such as ``finance/*``. Raises ``AccessError``."""
    found = tuple(dict.fromkeys(texts))
    if not 1 <= len(found) <= MAX_BINDINGS:
        raise _wrong(f"a secret needs 1 to {MAX_BINDINGS} paths")
    for text in found:
        if text != EVERYWHERE and not is_pattern(text):
            expected = "a binding must be a path, 'finance/*' or '*'"
            raise _wrong(f"{expected}, found '{shorten(text, 40)}'")
    return (EVERYWHERE,) if EVERYWHERE in found else found


def is_for(bound: Iterable[str], path: str | None) -> bool:
    """Return True if the playbook with this path may use a secret with these
    bindings."""
    return any(
        each == EVERYWHERE or (path is not None and within(path, each))
        for each in bound
    )


def may_manage(principal: Principal, permission: str, bound: Iterable[str]) -> bool:
    """Return True if the permission holds for every binding of the secret."""
    return all(
        allows_below(principal, permission, None if each == EVERYWHERE else each)
        for each in bound
    )


def default_bindings(principal: Principal, permission: str) -> tuple[str, ...]:
    """Return the paths where the permission holds; ``*`` for a grant without a path.

    Empty if the permission holds nowhere.
    """
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


# -- declarations by an admin ------------------------------------------------------


def host_kinds(kinds: Mapping[str, KeychainKind]) -> dict[str, KeychainKind]:
    """Return the kinds that read the host or use a credential of its operator."""
    return {name: kind for name, kind in kinds.items() if name not in _KEPT}


def check_declaration(
    kind: str, fields: Mapping[str, str], kinds: Mapping[str, KeychainKind]
) -> None:
    """Raise ``AccessError`` if the fields do not fit an entry of the kind."""
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
        if not value or len(value) > _MAX_CHARS or not value.isprintable():
            message = f"'{name}' must be text of 1 to {_MAX_CHARS} printable characters"
            raise _wrong(message)
    if kind == "file" and not fields.get("path", "").startswith("/"):
        message = "file needs 'path', and the path must be absolute: a server has no "
        raise _wrong(message + "folder of a playbook")


# -- limits on entries that use a declared secret ----------------------------------


def find_declared(
    kind: str, name: str, fields: Mapping[str, JSON], declared: Mapping[str, str]
) -> tuple[str, frozenset[str]] | None:
    """Find the declared entry that an entry of a host kind refers to.

    ``declared`` maps the names of declared entries that the playbook may use to their
    kinds. Also returns the fields that identified the entry.
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
    """Return the fields of an entry that contradict its declaration or are not in it.

    ``known`` are the fields that the kind reads; None if it may read any. A playbook
    may set a selector unless the declaration sets it.
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
    """Return the addresses of an entry that differ from those of the stored
    credential."""
    return sorted(
        key for key in ADDRESSES & given.keys() if given[key] != kept.get(key)
    )


def _wrong(message: str) -> AccessError:
    return AccessError("request.invalid", message, 422)
