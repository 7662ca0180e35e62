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
        "A credential is missing, or does not fit this tool.",
        "Check the keychain entry and `auth` of the task.",
    ),
    "tool.contract": ErrorKind(
        "The call does not fit the tool: contradicting inputs, a knob out of range, "
        "a result that is not JSON, or code that succeeded without a result. Also a "
        "defect of the tool.",
        "Compare the inputs with the reference of the kind.",
    ),
    "tool.exception": ErrorKind(
        "Python code raised an exception; `error.details` has line and traceback, "
        "`outcome.py.exception_type` its name.",
        "Correct the code, or match on the exception's name.",
    ),
    "tool.exit": ErrorKind(
        "A process ended with another code than 0, or by a signal; "
        "`error.details` has its output. Retryable if it could not be started at all. "
        "`error.details.signal` is `SIGKILL` if the kernel ended it because no memory "
        "was left on the machine.",
        "Read `error.details.stderr`.",
        None,
    ),
    "tool.memory": ErrorKind(
        "The code needed more memory than `spec.memory` allows, or the setting "
        "`limits.memory` of the server or worker; the message names the limit. For "
        "`script` and `shell` it is recognized by the output on stderr.",
        "Work in smaller parts, or raise the limit that the message names.",
    ),
    "tool.disk": ErrorKind(
        "The code wrote a file that is larger than `spec.disk` allows, or the disk is "
        "full.",
        "Raise `spec.disk`, write several files, or make room.",
    ),
    "tool.isolation": ErrorKind(
        "Code must run in a sandbox, because the server has accounts or because of "
        "`spec.isolation: required`, and this machine has no sandbox.",
        "Install bubblewrap on the worker and allow user namespaces; or set "
        "`isolation: none` there, which gives code the access of the worker.",
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
        "A body or its headers are larger than the limit of the tool, or expand too "
        "much when they are decompressed.",
        "Request less: pages, ranges, fewer fields.",
    ),
    "http.redirects": ErrorKind(
        "The server sent too many redirects.",
        "Use the final address, or set `follow_redirects: false`.",
    ),
    "http.decode": ErrorKind(
        "The body does not match its headers: malformed JSON, a corrupt or unknown "
        "compression.",
        "Report it to the server's owner.",
    ),
    "http.tls": ErrorKind(
        "The server's certificate is not trusted.",
        "Install its authority on the worker; `verify: false` trusts any server.",
    ),
    "http.url": ErrorKind("The url is malformed, or has no host.", "Correct it."),
    "http.scheme": ErrorKind(
        "The url is neither http nor https.", "Use another kind for it."
    ),
    "http.header": ErrorKind(
        "A method, url or header contains invalid characters.",
        "Remove line breaks and control characters; encode other alphabets.",
    ),
}
SECRETS = {
    "keychain.one_key": ErrorKind(
        "The keychain of this server is in its home, sealed by the file `key` there: "
        "only servers that share a database have keys that change.",
        "Use a server with a database, other than that of `noetl up`.",
    ),
    "keychain.rotating": ErrorKind(
        "The keychain has many older keys that still seal something.",
        "Wait until `noetl keychain keys` shows fewer; the servers' logs say what does "
        "not open.",
    ),
    "keychain.taken": ErrorKind(
        "The name belongs to a secret that the caller may not change.",
        "Choose another name, for example with the team's name in front.",
    ),
    "keychain.unknown": ErrorKind(
        "The server has no secret of this name.",
        "`noetl keychain list --server URL` shows its secrets.",
    ),
    "keychain.unresolved": ErrorKind(
        "A keychain entry could not be resolved; nothing was started. "
        "`error.entries` lists the locations that were searched. For a `secrets` "
        "task: its provider reads the server's host, and no admin has declared the "
        "secret.",
        "Store it with `noetl keychain set`, declare it with `noetl keychain declare`, "
        "or correct provider and path.",
    ),
    "secret.missing": ErrorKind(
        "The provider has no secret of this name, or it is empty.",
        "Check name, provider and path; the message names the location.",
    ),
    "secret.denied": ErrorKind(
        "The provider denies access to the secret, the playbook changes the address "
        "that a stored credential is sent to, or a task requests a secret that its "
        "playbook does not name.",
        "Check the rights of the worker, and its own credential; leave out the fields "
        "that the message names; write the secret's name literally, or declare it in "
        "`keychain`.",
    ),
    "secret.blocked_address": ErrorKind(
        "The entry has an address that the server may not reach.",
        "Ask the operator to allow the address by the setting `network.private`.",
    ),
    "secret.unreachable": ErrorKind(
        "The provider of the secret does not answer, or its answer is malformed.",
        "Retry with a delay; check the address.",
        None,
    ),
    "secret.wrong": ErrorKind(
        "The entry lacks a field, has contradicting fields, or its value is not a "
        "secret.",
        "Compare its fields with the reference of its kind.",
    ),
    "secret.extra": ErrorKind(
        "The kind needs a library that is not installed.",
        "Install the library that the message names.",
    ),
    "secret.*": ErrorKind(
        "The provider of another package could not get the secret.",
        "Read the documentation of the package that provides the kind.",
        None,
        reserved="providers of other packages",
    ),
    "secret.sealed": ErrorKind(
        "A sealed secret cannot be decrypted or stored.",
        "Restore the home's `key`; check its rights and the free space.",
    ),
}
QUANTUM = {
    "nats.missing": ErrorKind(
        "The bucket or object does not exist in NATS.",
        "Write it first, or check its name.",
    ),
    "nats.blocked_address": ErrorKind(
        "NATS is at an address that the worker may not reach.",
        "Ask the operator to allow the address by the setting `network.private`.",
    ),
    "nats.refused": ErrorKind(
        "NATS refused the operation; the message has NATS's reason.",
        "Check names and permissions.",
    ),
    "nats.driver": ErrorKind(
        "The package nats-py is not installed.",
        "`pip install 'noetl-engine[nats]'`; in a checkout: "
        "`pip install -e '.[nats]'`.",
    ),
    "quantum.circuit": ErrorKind(
        "The circuit cannot be parsed (`details` has line and column), has no "
        "measurement, or its file cannot be read.",
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
        "`result` was requested for a job that has not finished.",
        "Check its `status` first, or retry with a delay.",
        True,
    ),
    "quantum.failed": ErrorKind(
        "The job failed, or its files cannot be read or written.",
        "Read the message; submit again if the machine failed.",
    ),
    "quantum.cancelled": ErrorKind(
        "`result` was requested for a job that was cancelled.", "Submit it again."
    ),
    "quantum.unknown_job": ErrorKind(
        "The provider does not know the job: it has another home, or the job ended "
        "a month ago.",
        "Pass on what `submit` returned; check `NOETL_HOME`.",
    ),
    "quantum.provider": ErrorKind(
        "The provider does not exist, or has no home for its jobs.",
        "Enable the plug-in that provides it.",
    ),
    "quantum.driver": ErrorKind(
        "The local simulator's packages are not installed.",
        "`pip install 'noetl-engine[quantum]'`; in a checkout: "
        "`pip install -e '.[quantum]'`.",
    ),
}
