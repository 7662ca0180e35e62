"""Forms of earlier releases: who still accepts each, and what replaces it."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.dsl.grammar.dialects import accepted
from noetl.dsl.node import Node

_COMMANDS = "command: … with ';' between the statements"
_SCRIPT = "code or text in the playbook itself"
_TIMEOUT = "spec: {timeout: …}"
_FIELDS = dict.fromkeys(
    ("db_host", "db_port", "db_user", "db_password", "db_name", "db_schema"),
    "auth: {host: …, port: …, user: …, password: …, database: …}",
)

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
"""By kind: inputs that it has not, or not in that shape, and the canonical form."""

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
    "method": "nothing: tokens are asked for by POST",
    "headers": "nothing: the request is made by NoETL",
    "data": "client_id: …, client_secret: …, scope: …",
    "auto_renew": "nothing: a secrets task asks anew",
}

NAMES: Mapping[str, str] = {"loop_index": "iter.index", "job": "execution_id"}
EVENTS: Mapping[str, str] = {"call.done": "step.done", "call.error": "step.failed"}


def older_input(kind: str, key: str, node: Node) -> str | None:
    """The hint for an input that is unknown, or of a shape that is."""
    canonical = INPUTS.get("shell" if kind == "script" else kind, {}).get(key)
    if canonical is None:
        return None
    several = key in ("command", "query")
    if several and not node.is_sequence:
        return None
    return accepted(canonical)
