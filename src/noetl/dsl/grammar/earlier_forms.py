"""Forms and keys of earlier releases: what accepts or replaces each."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from noetl.dsl.node import Node

RETIRED_KEYS, OLDER_FORMS = "legacy", "classic"
DIALECTS = (RETIRED_KEYS, OLDER_FORMS)


class Retired(msgspec.Struct, frozen=True):
    """Key of an earlier draft, and its replacement."""

    code: str
    replacement: str
    dialect: str | None = RETIRED_KEYS  # the extension that still accepts it
    message: str = "is not part of the language"


_CONDITION = Retired(
    "VAL-16",
    'write the condition as when: "{{ … }}"',
    dialect=None,
    message="is not a condition keyword; 'when' is the only one",
)
CONDITIONS = dict.fromkeys(
    ("if", "unless", "condition", "conditions", "cond", "only_if", "skip_if"),
    _CONDITION,
)
NEVER = {
    "expr": Retired("VAL-14", 'write the condition as when: "{{ … }}"', dialect=None),
    "eval": Retired(
        "VAL-15", "write outcome rules under spec.policy.rules", dialect=None
    ),
}


_CREDENTIAL = Retired(
    "VAL-23",
    "declare it under root 'keychain', name it on a task by 'auth'",
    dialect=None,
    message="under executor: credentials do not belong here",
)
CREDENTIALS = dict.fromkeys(
    (
        *("keychain", "credentials", "credential", "secrets", "secret", "auth"),
        *("password", "passwords", "token", "tokens", "api_key"),
    ),
    _CREDENTIAL,
)

# Under executor.spec, `secrets` holds the knobs of the kind of that name (S-52).
SPEC_CREDENTIALS = {k: v for k, v in CREDENTIALS.items() if k != "secrets"}

# Keys that belong to one scope and do not descend to tasks (S-52).
SCOPE_OWNED: dict[str, str] = {
    "mode": "loop.spec or next.spec",
    "max_in_flight": "loop.spec",
    "admit": "step.spec.policy",
    "exec": "loop.spec.policy",
    "join": "step.spec",
    "deadline": "executor.spec or step.spec",
    "limits": "executor.spec",
    "extensions": "executor.spec",
    "failure": "step.spec.policy",
    "timers": "step.spec",
}


def or_enabled(replacement: str, dialect: str = RETIRED_KEYS) -> str:
    """Return the hint for a key of an earlier draft."""
    return f"{replacement}, or enable the extension '{dialect}'"


def accepted(canonical: str) -> str:
    """Return the hint for an older form: the canonical form, or the extension."""
    return accepted_as(f"canonical form: {canonical}", "it as it is")


def accepted_as(advice: str, what: str) -> str:
    return f"{advice} (the extension '{OLDER_FORMS}' accepts {what})"


def accepts_older_forms(extensions: Collection[str]) -> bool:
    return OLDER_FORMS in extensions


_COMMANDS = "command: … with ';' between the statements"
_SCRIPT = "code or text in the playbook itself"
_TIMEOUT = "spec: {timeout: …}"
_FIELDS = dict.fromkeys(
    ("db_host", "db_port", "db_user", "db_password", "db_name", "db_schema"),
    "auth: {host: …, port: …, user: …, password: …, database: …}",
)

_NAMED = "args: … of python, playbook and workbook; the kind's own inputs otherwise"
_PATCH = "spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: …}}}]}}"
EVERY_KIND: Mapping[str, str] = {
    "input": _NAMED,
    "with": _NAMED,
    "set": _PATCH,
    "set_ctx": _PATCH,
    "credential": "auth: …",
    "assert": "a policy rule with do: fail",
    "output": "nothing: large results are stored by themselves",
}
"""Keys of tasks of any kind, with their canonical form."""

INPUTS: Mapping[str, Mapping[str, str]] = {
    "http": {
        "payload": "json: …",
        "form": "data: …",
        "verify_ssl": "spec: {verify: …}",
        "follow_redirects": "spec: {follow_redirects: …}",
        "timeout": _TIMEOUT,
    },
    "python": {
        "libs": "import … at the start of the code",
        "script": f"code: …, or module: and function: ({_SCRIPT})",
        "timeout": _TIMEOUT,
    },
    "postgres": {
        **_FIELDS,
        "commands": _COMMANDS,
        "command": _COMMANDS,
        "query": _COMMANDS,
        "script": f"command: … ({_SCRIPT})",
        "pool": "spec: {connections: …}",
        "timeout": _TIMEOUT,
    },
    "duckdb": {
        "commands": _COMMANDS,
        "command": _COMMANDS,
        "query": _COMMANDS,
        "script": f"command: … ({_SCRIPT})",
        "auth": "rows by tables: …, from a task that reads them",
        "timeout": _TIMEOUT,
    },
    "shell": {
        "cmds": "script: … with a line for each",
        "script": f"script: … ({_SCRIPT})",
        "timeout": _TIMEOUT,
    },
    "playbook": {
        "payload": "args: …",
        "return_step": "let that step be the child's last one",
        "timeout": _TIMEOUT,
    },
}
"""Inputs of earlier releases by kind, with their canonical form."""

KINDS: Mapping[str, str] = {
    "nats": "a python task, or a plug-in of your own",
    "transfer": "a task that reads the rows, and one that writes them",
    "ducklake": "kind: duckdb with extensions: [ducklake]",
}

KEYCHAIN: Mapping[str, str] = {
    "secrets": "kind: secret_manager",
    "credential": "kind: http_credential or postgres_credential, path: …",
    "bearer": "kind: http_credential with token: …",
    "static": "kind: http_credential with the fields themselves",
}
KEYCHAIN_FIELDS: Mapping[str, str] = {
    "endpoint": "token_url: …",
    "method": "nothing: tokens are requested by POST",
    "headers": "nothing: the request is made by NoETL",
    "data": "client_id: …, client_secret: …, scope: …",
    "auto_renew": "nothing: a secrets task always reads the secret again",
}

NAMES: Mapping[str, str] = {
    "loop_index": "iter.index",
    "job": "execution_id",
    "output": "outcome in a policy, _prev in an input, event.payload in an arc",
    "input": "the value itself, or args that an arc gives",
}
EVENTS: Mapping[str, str] = {"call.done": "step.done", "call.error": "step.failed"}


def older_input(kind: str, key: str, node: Node) -> str | None:
    """Return the hint for an input with an unknown name or an unknown shape."""
    own = INPUTS.get("shell" if kind == "script" else kind, {})
    canonical = own.get(key, EVERY_KIND.get(key))
    if canonical is None:
        return None
    several = key in ("command", "query")
    if several and not node.is_sequence:
        return None
    return accepted(canonical)
