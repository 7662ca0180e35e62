"""The page of keychain kinds, from their declarations."""

from __future__ import annotations

from noetl.access.secrets import ADDRESSES, host_kinds
from noetl.dsl.grammar.keychain import KEYCHAIN
from noetl.engine.secrets.handles import PUBLIC
from pages.markdown import table


def keychain() -> str:
    hosts = ", ".join(f"`{name}`" for name in host_kinds(KEYCHAIN))
    addresses = ", ".join(f"`{name}`" for name in sorted(ADDRESSES))
    parts = [
        "An entry of `keychain` has a `name`, by which templates and `auth` know it, a "
        "`kind`, and fields that say where the secret is. How they are used is in "
        "[Use secrets](../how-to/secrets.md).",
        f"On a server, {hosts} and kinds of plug-ins work only through entries that "
        "an admin has [declared](../how-to/secrets.md#secrets-on-a-server): `path` (of "
        "`env`, `variable`) or the entry's name is that of a declared entry, and "
        "`field` and `format` choose a part of it. Over a stored credential, no "
        f"address is laid there ({addresses}) that is not the stored one.",
    ]
    for name, kind in KEYCHAIN.items():
        fields = [(f"`{field}`", doc) for field, doc in kind.fields.items()]
        parts += [f"## {name}", kind.doc, table("| field | meaning |", fields)]
    public = ", ".join(f"`{name}`" for name in sorted(PUBLIC))
    parts += [
        "## What is not masked",
        f"Of a credential, the fields that say who and where are no secrets: {public}.",
    ]
    return "\n\n".join(parts)
