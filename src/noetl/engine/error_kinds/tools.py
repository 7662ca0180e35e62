"""Kinds that several tools share, and those of http, secrets, nats and quantum jobs."""

from __future__ import annotations

from noetl.engine.error_kinds.kind import ErrorKind

TOOLS = {
    "connection": ErrorKind(
        "The peer cannot be reached, or broke the connection.",
        "Retry with a delay; check host, port and network.",
        True,
    ),
    "auth": ErrorKind(
        "A credential is missing, or is none for this tool.",
        "Check the keychain entry and `auth` of the task.",
    ),
    "tool.contract": ErrorKind(
        "The call does not fit the tool: contradicting inputs, a knob out of range, a "
        "result that is not JSON, or code that ended well and gave none. Also a tool "
        "that broke its own rules.",
        "Compare the inputs with the reference of the kind.",
    ),
    "tool.exception": ErrorKind(
        "Python code raised an exception; `error.details` has line and traceback, "
        "`outcome.py.exception_type` its name.",
        "Correct the code, or match on the exception's name.",
    ),
    "tool.exit": ErrorKind(
        "A process ended with another code than 0, or by a signal; "
        "`error.details` has its output. Retryable if it could not be started at all.",
        "Read `error.details.stderr`.",
        None,
    ),
    "tool.memory": ErrorKind(
        "The code needed more memory than `spec.memory` allows.",
        "Raise `spec.memory`, or work in smaller parts.",
    ),
    "tool.disk": ErrorKind(
        "The code wrote a file that is larger than `spec.disk` allows, or the disk is "
        "full.",
        "Raise `spec.disk`, write several files, or make room.",
    ),
    "tool.isolation": ErrorKind(
        "Code must run in a sandbox, because the server has accounts or because of "
        "`spec.isolation: required`, and none can be made on this machine.",
        "Install bubblewrap on the worker and allow user namespaces; or set "
        "`isolation: none` there, which lets code reach what the worker can.",
    ),
}
HTTP = {
    "http.client": ErrorKind(
        "The server answered with a status from 400 to 499. Retryable: 408, 425 and "
        "429.",
        "Correct the request; match on `outcome.http.status`.",
        None,
    ),
    "http.server": ErrorKind(
        "The server answered with a status from 500 on.",
        "Retry with a growing delay.",
        True,
    ),
    "http.status": ErrorKind(
        "The server answered with a status below 400 that `spec.ok_status` does not "
        "name.",
        "Add the status to `spec.ok_status`, or match on it.",
    ),
    "http.blocked_address": ErrorKind(
        "The host resolves to an address that the worker may not reach.",
        "Ask the operator to allow the address by the setting `network.private`.",
    ),
    "http.too_large": ErrorKind(
        "A body or its headers are larger than the tool takes, or grow out of all "
        "proportion when they are unpacked.",
        "Ask for less: pages, ranges, fewer fields.",
    ),
    "http.redirects": ErrorKind(
        "The answer led from redirect to redirect without an end.",
        "Ask for the last address itself, or set `follow_redirects: false`.",
    ),
    "http.decode": ErrorKind(
        "The body is not what its headers say: broken JSON, a corrupt or unknown "
        "compression.",
        "Report it to the server's owner.",
    ),
    "http.tls": ErrorKind(
        "The server's certificate is not trusted.",
        "Install its authority on the worker; `verify: false` trusts everybody.",
    ),
    "http.url": ErrorKind("The url is malformed, or has no host.", "Correct it."),
    "http.scheme": ErrorKind(
        "The url is neither http nor https.", "Use another kind for it."
    ),
    "http.header": ErrorKind(
        "A method, url or header holds characters that it may not hold.",
        "Remove line breaks and control characters; encode other alphabets.",
    ),
}
SECRETS = {
    "keychain.taken": ErrorKind(
        "The name belongs to a secret that the caller may not change.",
        "Choose another name, for example with the team's name in front.",
    ),
    "keychain.unknown": ErrorKind(
        "The server keeps no secret of this name.",
        "`noetl keychain list --server URL` shows those that it does.",
    ),
    "keychain.unresolved": ErrorKind(
        "A keychain entry could not be resolved; nothing was started. `error.entries` "
        "says for each where it was looked for. Of a `secrets` task: its provider "
        "reads the server's host, and no admin has declared that.",
        "Store it with `noetl keychain set`, declare it with `noetl keychain declare`, "
        "or correct provider and path.",
    ),
    "secret.missing": ErrorKind(
        "Nobody keeps a secret of this name, or it is empty.",
        "Check name, provider and path; the message says where it was looked for.",
    ),
    "secret.denied": ErrorKind(
        "Who keeps the secret does not give it to us, the playbook changes where a "
        "kept credential is sent, or a task asks for a secret that its playbook "
        "does not name.",
        "Check the rights of the worker, and its own credential; leave out the fields "
        "that the message names; write the secret's name literally, or declare it in "
        "`keychain`.",
    ),
    "secret.blocked_address": ErrorKind(
        "The entry leads to an address that the server may not reach.",
        "Ask the operator to allow the address by the setting `network.private`.",
    ),
    "secret.unreachable": ErrorKind(
        "Who keeps the secret does not answer, or not well.",
        "Retry with a delay; check the address.",
        None,
    ),
    "secret.wrong": ErrorKind(
        "The entry lacks a field or contradicts itself, or what it leads to is no "
        "secret.",
        "Compare its fields with the reference of its kind.",
    ),
    "secret.extra": ErrorKind(
        "The kind needs a library that is not installed.",
        "Install what the message names.",
    ),
    "secret.*": ErrorKind(
        "A secret could not be had for another reason.",
        "Ask the package that brings the kind.",
        None,
        reserved="providers of other packages",
    ),
    "secret.sealed": ErrorKind(
        "A sealed secret cannot be opened or stored.",
        "Restore the home's `key`; check its rights and the free space.",
    ),
}
QUANTUM = {
    "nats.missing": ErrorKind(
        "NATS has no such bucket or object.", "Write it first, or check its name."
    ),
    "nats.blocked_address": ErrorKind(
        "NATS is at an address that the worker may not reach.",
        "Ask the operator to allow the address by the setting `network.private`.",
    ),
    "nats.refused": ErrorKind(
        "NATS refused the operation; the message has its words.",
        "Check names and permissions.",
    ),
    "nats.driver": ErrorKind(
        "The package nats-py is not installed.",
        "In a checkout: `pip install '.[nats]'`.",
    ),
    "quantum.circuit": ErrorKind(
        "The circuit cannot be read: `details` has line and column; or it measures "
        "nothing; or its file cannot be read.",
        "Correct the OpenQASM.",
    ),
    "quantum.params": ErrorKind(
        "`params` does not fit what the circuit declares as `input`.",
        "Give every input a number, by its name.",
    ),
    "quantum.limit": ErrorKind(
        "Too many qubits for `spec.memory`, too many shots, or too long a circuit.",
        "Make it smaller, raise `spec.memory`, or try another `options.method`.",
    ),
    "quantum.pending": ErrorKind(
        "`result` was asked of a job that is not over.",
        "Ask for its `status` first, or retry with a delay.",
        True,
    ),
    "quantum.failed": ErrorKind(
        "The job failed, or its files cannot be read or written.",
        "Read the message; submit again if it was the machine's fault.",
    ),
    "quantum.cancelled": ErrorKind(
        "`result` was asked of a job that was cancelled.", "Submit it again."
    ),
    "quantum.unknown_job": ErrorKind(
        "The provider knows no such job: another home, or it ended a month ago.",
        "Pass on what `submit` returned; check `NOETL_HOME`.",
    ),
    "quantum.provider": ErrorKind(
        "There is no such provider, or it lacks a home for its jobs.",
        "Enable the plug-in that brings it.",
    ),
    "quantum.driver": ErrorKind(
        "The local simulator's packages are not installed.",
        "In a checkout: `pip install '.[quantum]'`.",
    ),
}
