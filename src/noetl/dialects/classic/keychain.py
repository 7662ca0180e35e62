"""Rewriting of keychain entries of other kinds, and of undeclared credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl.dialects.classic.task import (
    Uses,
    changed,
    listed,
    made,
    mapping,
    renamed,
    text_of,
)
from noetl.dialects.template_rewrite import expression_of
from noetl.dsl.node import Location, Node
from noetl.errors import TemplateError
from noetl.templates import compile_template, is_template

_PROVIDERS = {
    "google": "gcp",
    "gcp": "gcp",
    "gsm": "gcp",
    "google_secret_manager": "gcp",
    "amazon": "aws",
    "aws_secrets_manager": "aws",
    "azure_key_vault": "azure",
    "azure_keyvault": "azure",
    "hashicorp": "vault",
    "environment": "env",
    "postgres": "stored",
    "noetl": "stored",
}
_PATHS = ("path", "secret", "secret_name", "ref", "credential")
_OAUTH2 = ("client_id", "client_secret", "scope", "audience")
_DROPPED = ("scope_type", "ttl", "auto_renew", "cache")


def rewrite_keychain(keychain: Location, uses: Uses) -> Node:
    entries: list[Node] = []
    for at in keychain.children():
        entries.extend(_entry(at, uses) if at.node.is_mapping else [at.node])
    return listed(entries, keychain.node)


def _entry(at: Location, uses: Uses) -> Iterator[Node]:
    """Yield the entries that one entry needs, then the entry."""
    kind = text_of(at.node.entries.get("kind"))
    node = changed(at.node, dict.fromkeys(_DROPPED))
    place = Location(node, at.parent, at.part)
    match kind:
        case "secrets" | "secret_manager":
            yield from _secrets(place, uses)
        case "static":
            uses.accept(at["kind"], "'static'", "kind: http_credential with the fields")
            fields = node.entries.get("map") or made({}, node)
            yield _credential(node, fields.entries, ("map",))
        case "bearer" | "credential":
            uses.accept(at["kind"], f"'{kind}'", "kind: http_credential, path: …")
            yield _credential(_with_path(node), {}, ())
        case "oauth2" if {"endpoint", "data"} & node.entries.keys():
            yield _oauth2(place, uses)
        case _:
            yield node


def _credential(node: Node, fields: Mapping[str, Node], gone: tuple[str, ...]) -> Node:
    kind = made("http_credential", node.entries["kind"])
    return changed(node, {**dict.fromkeys(gone), "kind": kind, **fields})


def _with_path(node: Node) -> Node:
    """Return the entry with its path, from any of the older names."""
    for key in _PATHS:
        if key in node.entries:
            value = node.entries[key]
            return changed(node, {**dict.fromkeys(_PATHS), "path": value})
    return node


def _secrets(at: Location, uses: Uses) -> Iterator[Node]:
    node = _with_path(at.node)
    kind = node.entries["kind"]
    if kind.value == "secrets":
        uses.accept(at["kind"], "'secrets'", "kind: secret_manager")
    changes: dict[str, Node | None] = {"kind": made("secret_manager", kind)}
    provider = text_of(node.entries.get("provider"))
    if provider in _PROVIDERS and _PROVIDERS[provider] != provider:
        canonical = f"provider: {_PROVIDERS[provider]}"
        uses.accept(at["provider"], f"the provider '{provider}'", canonical)
        changes["provider"] = made(_PROVIDERS[provider], node.entries["provider"])
    node = changed(node, changes)
    parts = node.entries.get("map")
    if parts is None or not parts.is_mapping:
        yield node
        return
    uses.accept(at.key("map"), "'map'", "an entry for each secret")
    name = str(node.entries["name"].value) if "name" in node.entries else ""
    fields: dict[str, Node] = {}
    for field, path in parts.entries.items():
        part = f"{name}_{field}"
        own: dict[str, Node | None] = {"name": made(part, path), "path": path}
        yield changed(node, {"map": None, **own})
        fields[field] = made(f"{{{{ keychain.{part} }}}}", path)
    own_fields = ("name", "kind")
    about: dict[str, Node] = {
        key: each for key, each in node.entries.items() if key in own_fields
    }
    yield _credential(mapping(about, node), fields, ())


def _oauth2(at: Location, uses: Uses) -> Node:
    """Rewrite a token request as client credentials."""
    node, data = at.node, at.get("data")
    canonical = "token_url: …, client_id: …, client_secret: …"
    uses.accept(at["kind"], "'oauth2' as a request", canonical)
    gone = dict.fromkeys(("endpoint", "method", "headers", "data"))
    changes: dict[str, Node | None] = dict(gone)
    if "endpoint" in node.entries:
        changes["token_url"] = node.entries["endpoint"]
    grant = text_of(data.node.entries.get("grant_type")) if data is not None else None
    if grant not in (None, "client_credentials"):
        message = f"the grant '{grant}' is not supported"
        hint = "use client_credentials, or fetch the token by an http task"
        uses.refuse(at["data"], message, hint)
    fields = data.node.entries if data is not None else {}
    changes |= {key: fields[key] for key in _OAUTH2 if key in fields}
    if fields:
        changes["client_auth"] = made("body", node)
    return changed(node, changes)


def undeclared(root: Location, workflow: Node) -> Iterator[Node]:
    """Yield an entry for each credential that a task names without a declaration."""
    keychain = root.get("keychain")
    entries = keychain.node.items if keychain is not None else []
    known = {text_of(each.entries.get("name")) for each in entries}
    stack = [workflow]
    while stack:
        node = stack.pop()
        stack.extend(reversed([*node.entries.values(), *node.items]))
        auth = node.entries.get("auth")
        name = _name_of(auth, root.node)
        if auth is None or name is None or name in known:
            continue
        known.add(name)
        kind = text_of(node.entries.get("kind")) or text_of(node.entries.get("type"))
        credential = "http_credential" if kind == "http" else "postgres_credential"
        yield made({"name": name, "kind": credential}, auth)


def _name_of(auth: Node | None, root: Node) -> str | None:
    """Return the credential's name: as written, or from the workload's default."""
    text = text_of(auth)
    if text is None or not is_template(text):
        return text
    try:
        template = compile_template(text)
    except TemplateError:
        return None  # the grammar reports the problem
    paths = [reference.path for reference in template.references]
    if ("keychain",) in paths:  # an entry that the other name chooses
        paths.remove(("keychain",))
    if not template.native or len(paths) != 1:
        return None
    [path] = paths
    if path[0] == "keychain":
        return path[1] if len(path) == 2 else None
    node = root.entries.get("workload")
    for part in path[1:] if path[0] == "workload" else path:
        node = node.entries.get(part) if node is not None else None
    return text_of(node)


def credential_of(auth: Node | None) -> Node | None:
    """Return the name of a credential that a mapping names."""
    if auth is None:
        return None
    name = auth.entries.get("credential")
    if name is None and text_of(auth.entries.get("source")) == "credential":
        name = auth.entries.get("key") or auth.entries.get("name")
    return name if text_of(name) is not None else None


def by_keychain(side: Node) -> Node:
    """Return a mapping whose ``auth`` is the credential instead of its name."""
    if "credential" in side.entries and "auth" not in side.entries:
        side = renamed(side, "credential", "auth")
    auth = side.entries.get("auth")
    auth = credential_of(auth) or auth
    name = text_of(auth)
    if auth is None or name is None or "keychain" in name:
        return side
    key = repr(name)
    if is_template(name):
        try:
            key = expression_of(name)
        except TemplateError:
            return side  # the grammar reports the problem
    return changed(side, {"auth": made(f"{{{{ keychain[{key}] }}}}", auth)})
