"""Keychain entries of other kinds, and credentials that were never declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl.dialects.classic.nodes import changed, listed, made, mapping, text_of
from noetl.dialects.classic.uses import Uses
from noetl.dsl.node import Node
from noetl.dsl.place import Place
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


def rewrite_keychain(keychain: Place, uses: Uses) -> Node:
    entries: list[Node] = []
    for at in keychain.children():
        entries.extend(_entry(at, uses) if at.node.is_mapping else [at.node])
    return listed(entries, keychain.node)


def _entry(at: Place, uses: Uses) -> Iterator[Node]:
    """One entry, after those that it is made of."""
    kind = text_of(at.node.entries.get("kind"))
    node = changed(at.node, dict.fromkeys(_DROPPED))
    place = Place(node, at.parent, at.part)
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
    """Where it is kept, by whatever name that was given."""
    for key in _PATHS:
        if key in node.entries:
            value = node.entries[key]
            return changed(node, {**dict.fromkeys(_PATHS), "path": value})
    return node


def _secrets(at: Place, uses: Uses) -> Iterator[Node]:
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


def _oauth2(at: Place, uses: Uses) -> Node:
    """A token by client credentials; its request is put together by us."""
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


def undeclared(root: Place, workflow: Node) -> Iterator[Node]:
    """An entry for each credential that a task names and nobody declares."""
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
    """The credential's name: as written, or as the workload's default has it."""
    text = text_of(auth)
    if text is None or not is_template(text):
        return text
    try:
        template = compile_template(text)
    except TemplateError:
        return None  # the grammar says what is wrong with it
    if not template.native or len(template.references) != 1:
        return None
    path = template.references[0].path
    if path[0] == "keychain":
        return path[1] if len(path) == 2 else None
    node = root.entries.get("workload")
    for part in path[1:] if path[0] == "workload" else path:
        node = node.entries.get(part) if node is not None else None
    return text_of(node)
