"""The page of keychain kinds, from their declarations."""

from __future__ import annotations

from noetl.dsl.grammar.keychain import KEYCHAIN
from noetl.engine.secrets import PUBLIC
from pages.markdown import table


def keychain() -> str:
    parts = [
        "An entry of `keychain` has a `name`, by which templates and `auth` know it, a "
        "`kind`, and fields that say where the secret is. How they are used is in "
        "[Use secrets](../how-to/secrets.md)."
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
