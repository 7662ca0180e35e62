"""Keychain kinds: their secret stores and fields."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class KeychainKind(msgspec.Struct, frozen=True):
    """Keychain kind. ``fields`` maps names to docs; an ``open`` kind takes other
    fields, too."""

    doc: str
    fields: Mapping[str, str]
    open: bool = False


_FORMAT = {
    "format": "`json`: the text is a JSON mapping, read by its fields.",
    "field": "Only this field of the mapping.",
}
_STORED = {
    "provider": "Its store: `stored` (the default), or another kind.",
    "path": "Its path in the provider (the entry's name).",
}

KEYCHAIN: Mapping[str, KeychainKind] = {
    "env": KeychainKind(
        "An environment variable.",
        {"variable": "Its name (the entry's name).", **_FORMAT},
    ),
    "file": KeychainKind(
        "The content of a file, without the line break at its end.",
        {"path": "Its path, seen from the playbook's folder.", **_FORMAT},
    ),
    "secret_manager": KeychainKind(
        "A secret that a provider keeps, by default `noetl keychain set`.",
        {**_STORED, **_FORMAT},
        open=True,
    ),
    "postgres_credential": KeychainKind(
        "A stored credential: `host`, `port`, `user`, `password`, `database`; or "
        "`dsn`. Fields that are written in the entry are laid over it.",
        _STORED,
        open=True,
    ),
    "http_credential": KeychainKind(
        "A stored credential: `username` and `password`, or `token`, or `name` and "
        "`value` of a header. Fields that are written in the entry are laid over it.",
        _STORED,
        open=True,
    ),
    "oauth2": KeychainKind(
        "A token by client credentials: `access_token`, `token_type`, `expires_at`. "
        "Fields that the entry omits are taken from a stored credential.",
        {
            **_STORED,
            "token_url": "The URL of the token endpoint.",
            "client_id": "Who asks.",
            "client_secret": "Its secret, e.g. `{{ keychain.other }}`.",
            "scope": "The scope of the token.",
            "audience": "The audience of the token.",
            "client_auth": "The place of id and secret: `basic` (default) or `body`.",
        },
    ),
    "vault": KeychainKind(
        "A secret of HashiCorp Vault; the token is `VAULT_TOKEN`, or in "
        "`~/.vault-token`.",
        {
            "path": "Below `/v1/`, e.g. `secret/data/app` (the entry's name).",
            "address": "The server (`VAULT_ADDR`).",
            "namespace": "The namespace (`VAULT_NAMESPACE`).",
            "field": "Only this field.",
        },
    ),
    "aws": KeychainKind(
        "A secret of AWS Secrets Manager; needs the extra `aws`.",
        {
            "path": "Its name or ARN (the entry's name).",
            "region": "The region.",
            **_FORMAT,
        },
    ),
    "gcp": KeychainKind(
        "A secret of Google Secret Manager; needs the extra `gcp`.",
        {"path": "`projects/p/secrets/s`, with or without a version.", **_FORMAT},
    ),
    "azure": KeychainKind(
        "A secret of Azure Key Vault; needs the extra `azure`.",
        {
            "path": "Its name (the entry's name).",
            "vault_url": "The vault's address.",
            **_FORMAT,
        },
    ),
}
