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
        "A token: `access_token`, `token_type`, `expires_at`. It is kept until it "
        "expires. Fields that the entry omits are taken from a stored credential; a "
        "refresh token that the endpoint replaces is stored there.",
        {
            **_STORED,
            "grant": "`client_credentials` (default), `refresh_token` or `jwt_bearer`.",
            "token_url": "The URL of the token endpoint.",
            "client_id": "The id of the client.",
            "client_secret": "Its secret, e.g. `{{ keychain.other }}`; a public client "
            "with a refresh token has none.",
            "scope": "The scope of the token.",
            "audience": "The audience of the token; of an assertion, its `aud` (the "
            "`token_url`).",
            "client_auth": "The place of id and secret: `basic` (default) or `body`.",
            "refresh_token": "The token of `refresh_token`.",
            "private_key": "The key, in PEM, that signs the assertion of `jwt_bearer`.",
            "issuer": "The `iss` of the assertion: the client or service account.",
            "subject": "The `sub` of the assertion: the user for whom it asks.",
            "algorithm": "`RS256` (default), `ES256` or another of JWS.",
            "key_id": "The `kid` of the assertion.",
        },
    ),
    "vault": KeychainKind(
        "A secret of HashiCorp Vault or OpenBao. The token is `VAULT_TOKEN`, or in "
        "`~/.vault-token`; or a login gives one. Variables may begin with `BAO_`, too.",
        {
            "path": "Below `/v1/`, e.g. `secret/data/app` (the entry's name).",
            "address": "The server (`VAULT_ADDR`).",
            "namespace": "The namespace (`VAULT_NAMESPACE`).",
            "login": "`token` (default), `approle` or `kubernetes` (`VAULT_LOGIN`).",
            "role": "The role, or AppRole's role id (`VAULT_ROLE`).",
            "mount": "The path of the login method (`VAULT_LOGIN_MOUNT`, its name).",
            "secret_file": "The file with AppRole's secret id (`VAULT_SECRET_FILE`; or "
            "`VAULT_SECRET_ID`), or with the token of the pod (its usual place).",
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
