"""Kinds of errors: when each happens, and what to do about it.

Playbooks match on a kind, so it is declared here before code makes it. A name that
ends in ``.*`` stands for all kinds that begin so.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class ErrorKind(msgspec.Struct, frozen=True):
    """``retryable`` is what ``outcome.error`` says; None where it depends on the case.

    ``reserved`` names the part that will make it; until then nothing does.
    """

    doc: str
    remedy: str
    retryable: bool | None = False
    reserved: str | None = None


_EXECUTION = {
    "timeout": ErrorKind(
        "A call, a child or a signal took longer than its timeout, or a step longer "
        "than its deadline (retryable); or the execution longer than its deadline "
        "(then it is cancelled).",
        "Raise the timeout, or retry with a delay; make the work smaller.",
        None,
    ),
    "cancelled": ErrorKind(
        "The execution was cancelled; a call under way was stopped.",
        "Nothing: somebody wanted it. What was recorded before stays.",
    ),
    "limit.exceeded": ErrorKind(
        "The execution ran more steps, or a pipeline more tasks, than "
        "`executor.spec.limits` allows.",
        "Look for a `jump` or a cycle of arcs without an end.",
    ),
    "policy.fail": ErrorKind(
        "A rule said `fail` after a call that succeeded, or retried such a call until "
        "its attempts were used up.",
        "It is the playbook's own verdict: read the rule that `directive.rule` of the "
        "`task.done` event names.",
    ),
    "ctx.conflict": ErrorKind(
        "Two iterations of a parallel loop wrote different values to one key of `ctx`.",
        "Return the value as the iteration's result, write a key per iteration, or "
        "make the loop sequential.",
    ),
    "join.unreachable": ErrorKind(
        "A join waits for tokens that can no longer come.",
        "`noetl verify` shows a path that ends so; lower `join.mode` or correct the "
        "arcs.",
    ),
    "loop.in_type": ErrorKind(
        "`loop.in` did not yield a list.",
        "Turn it into one: `| list`, or `| items` for a mapping.",
    ),
    "loop.too_many": ErrorKind(
        "`loop.in` yielded more items than a loop may have.",
        "Loop over pages or ranges of the items.",
    ),
}
_TEMPLATES = {
    "template.undefined": ErrorKind(
        "An input used a value that nothing defines; the message names its path.",
        "Give it a value, or write `| default(…)`.",
    ),
    "template.error": ErrorKind(
        "A template could not be evaluated: a wrong type, a division by zero, a "
        "filter that refuses its value.",
        "Correct the template; `noetl show` names the step and the task.",
    ),
    "template.budget": ErrorKind(
        "A template took too many steps, or made a value that is too large.",
        "Do the work in a python task.",
    ),
    "template.forbidden": ErrorKind(
        "A template asked for something that templates may not do.",
        "Use a filter of the reference, or a python task.",
    ),
}
_TOOLS = {
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
        "result that is not JSON. Also a tool that broke its own rules.",
        "Compare the inputs with the reference of the kind.",
    ),
    "tool.exception": ErrorKind(
        "Python code raised an exception; `error.details` has line and traceback, "
        "`outcome.py.exception_type` its name.",
        "Correct the code, or match on the exception's name.",
    ),
    "tool.exit": ErrorKind(
        "A process ended with another code than 0, or without a result; "
        "`error.details` has its output. Retryable if it could not be started at all.",
        "Read `error.details.stderr`.",
        None,
    ),
    "tool.memory": ErrorKind(
        "The code needed more memory than `spec.memory` allows.",
        "Raise `spec.memory`, or work in smaller parts.",
    ),
    "tool.isolation": ErrorKind(
        "`spec.isolation: required` on a machine that has no sandbox.",
        "Install bubblewrap on the worker, or use `isolation: fresh`.",
    ),
}
_HTTP = {
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
        "Ask the operator to allow the address.",
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
_CHILDREN = {
    "playbook.invalid": ErrorKind(
        "The playbook is not valid; the diagnostics say why.",
        "`noetl validate` shows them all.",
    ),
    "playbook.failed": ErrorKind(
        "A child playbook failed or was cancelled.",
        "Look at it: `noetl show` with `outcome.playbook.execution_id`.",
    ),
    "playbook.not_found": ErrorKind(
        "No playbook has this path and version.",
        "Register it, or name its folder with `--playbooks`.",
    ),
    "playbook.depth": ErrorKind(
        "Children of children, more than 16 deep.",
        "Look for a playbook that calls itself.",
    ),
    "poll.timeout": ErrorKind(
        "Polling ended before its condition was met.",
        "Raise `max_attempts` or the deadline of `poll`.",
        reserved="the extension `legacy`",
    ),
}
_DATABASES = {
    "pg.*": ErrorKind(
        "PostgreSQL refused the statement; `outcome.pg` has the code.",
        "Match on `outcome.pg.sqlstate`.",
        None,
    ),
    "duckdb.*": ErrorKind(
        "DuckDB refused the statement for a reason that is none of those below: "
        "`duckdb.error`.",
        "Correct the statement or its parameters.",
    ),
    "duckdb.syntax": ErrorKind(
        "The SQL cannot be parsed.", "Correct it where `details.line` says."
    ),
    "duckdb.undefined": ErrorKind(
        "A table, column or function does not exist.",
        "Correct the name; a database in memory is empty in every call.",
    ),
    "duckdb.duplicate": ErrorKind(
        "What the SQL creates exists already.",
        "Write `CREATE TABLE IF NOT EXISTS` or `CREATE OR REPLACE`.",
    ),
    "duckdb.binder": ErrorKind(
        "The SQL does not fit together: types, arguments, grouping.",
        "Correct it; cast where the message asks for it.",
    ),
    "duckdb.catalog": ErrorKind(
        "An object of the database is in the way: of another type, or still in use.",
        "Drop what depends on it first.",
    ),
    "duckdb.constraint": ErrorKind(
        "A key, a check, or NOT NULL is violated.",
        "Correct the data, or write `ON CONFLICT`.",
    ),
    "duckdb.data": ErrorKind(
        "A value does not fit: a cast, a range, a malformed file. The value is not "
        "shown.",
        "Use `TRY_CAST`, or look at the data.",
    ),
    "duckdb.io": ErrorKind(
        "A file is missing, is no database, or cannot be read or written.",
        "Check the path: a relative one begins in the playbook's folder.",
    ),
    "duckdb.external_access": ErrorKind(
        "A file is outside of the allowed folders, also by a link.",
        "Put it below the playbook's folder, the current one or `NOETL_HOME`.",
    ),
    "duckdb.forbidden": ErrorKind(
        "The SQL wants to change a setting, or to install or load an extension.",
        "Use the knobs under `spec`, and the input `extensions`.",
    ),
    "duckdb.extension": ErrorKind(
        "An extension of the input `extensions` is not installed.",
        "Install it on the machine; nothing is downloaded.",
    ),
    "duckdb.locked": ErrorKind(
        "Another process has the database file open.",
        "Retry with a delay; only readers can share a file.",
        True,
    ),
    "duckdb.conflict": ErrorKind(
        "Two transactions changed the same thing.", "Retry.", True
    ),
    "duckdb.transaction": ErrorKind(
        "A transaction was left open, or a command does not fit into it.",
        "End it with `COMMIT`; one transaction writes to one database file.",
    ),
    "duckdb.out_of_memory": ErrorKind(
        "DuckDB needs more memory, or disk in its place, than it may have.",
        "Select less, or raise `spec.memory`.",
    ),
    "duckdb.too_large": ErrorKind(
        "The result has more rows or bytes than `spec.max_rows` and `spec.max_bytes` "
        "allow.",
        "Aggregate, select less, or write a file with `export`.",
    ),
    "duckdb.unsupported": ErrorKind(
        "DuckDB cannot do it, or a value cannot be returned from there.",
        "Cast such a column: `column::VARCHAR`.",
    ),
    "duckdb.driver": ErrorKind(
        "The package duckdb is not installed.",
        "In a checkout: `pip install '.[duckdb]'`.",
    ),
    "duckdb.internal": ErrorKind(
        "DuckDB failed in itself; its process may have crashed.",
        "Retry once; then report it to DuckDB.",
    ),
}
_QUANTUM = {
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
_SECRETS = {
    "keychain.unresolved": ErrorKind(
        "A keychain entry could not be resolved; nothing was started. `error.entries` "
        "says for each where it was looked for.",
        "Store it with `noetl keychain set`, or correct provider and path.",
    ),
    "secret.missing": ErrorKind(
        "Nobody keeps a secret of this name, or it is empty.",
        "Check name, provider and path; the message says where it was looked for.",
    ),
    "secret.denied": ErrorKind(
        "Who keeps the secret does not give it to us.",
        "Check the rights of the worker, and its own credential.",
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
_REFERENCES = {
    "ref.gone": ErrorKind(
        "A large value is not in its store any more.",
        "Restore the store, or run again.",
    ),
    "ref.corrupt": ErrorKind(
        "A large value is not what was stored.",
        "Restore the store from a copy; check the disk.",
    ),
    "ref.not_found": ErrorKind(
        "There is no such result, and no log names one.",
        "`noetl result ls ID` lists those of an execution.",
    ),
    "ref.range": ErrorKind(
        "A range of bytes ends before it begins, or behind the end.",
        "Ask for `KEY:FIRST-LAST` within the size, counted from 0.",
    ),
    "ref.format": ErrorKind(
        "A template reads a stored file that is no JSON, such as Parquet.",
        "Read it as a table of a `duckdb` task, or get it with `noetl result get`.",
    ),
    "ref.not_owner": ErrorKind(
        "A tool returned a reference that only NoETL may make (`store: noetl`).",
        "Return the value itself, or name another store.",
    ),
}
_WORKERS = {
    "lease.lost": ErrorKind(
        "A worker reported about a run that is somebody else's by now. It stops, and "
        "nothing of it counts.",
        "Nothing: the new owner goes on. Often: see whether workers are overloaded.",
    ),
    "event.too_large": ErrorKind(
        "A worker reported a payload above the limit instead of a reference. It is "
        "refused, and nothing changes.",
        "The worker stores the value first; NoETL's own do.",
    ),
    "worker.lost": ErrorKind(
        "A worker died in the middle of a call, and the task says "
        "`on_in_doubt: fail`: it is not run twice.",
        "Find out whether the effect happened, then run again.",
    ),
}
_STORE = {
    "store.locked": ErrorKind(
        "Another process writes this log.", "Wait for it, or use another `NOETL_HOME`."
    ),
    "store.busy": ErrorKind(
        "Another program keeps the database locked.", "End that program."
    ),
    "store.full": ErrorKind("The disk, or the quota, is full.", "Make room."),
    "store.io": ErrorKind("The disk reports an error.", "Check disk and mount."),
    "store.denied": ErrorKind(
        "A store elsewhere refuses the credential, or there is none.",
        "Set the variables that its client reads; check the rights to read, write, "
        "list and delete.",
    ),
    "store.unlisted": ErrorKind(
        "A plug-in keeps the results, and cannot say which it has.",
        "Clean them up with the means of that store.",
    ),
    "store.unreachable": ErrorKind(
        "A store elsewhere, or the database server, does not answer. If a tool needs "
        "it, the call may be tried again.",
        "Check its address and the network.",
        None,
    ),
    "store.readonly": ErrorKind(
        "The log cannot be written.", "Check the rights of its files and folder."
    ),
    "store.network_fs": ErrorKind(
        "The log would be on a network file system, whose locks do not hold.",
        "Put `NOETL_HOME` on a local disk.",
    ),
    "store.missing": ErrorKind(
        "There is no such log, or no such execution in it.", "`noetl list` shows them."
    ),
    "store.corrupt": ErrorKind(
        "The file is no log of NoETL, or is damaged.", "Restore it from a copy."
    ),
    "store.migration": ErrorKind(
        "A migration stopped half-way.", "Restore it from a copy."
    ),
    "store.version": ErrorKind(
        "The log is of another version than this NoETL can read.",
        "Install the newer version; the next `noetl run` brings up an older log.",
    ),
    "store.closed": ErrorKind(
        "The store was closed already.", "A defect: report it with the log."
    ),
    "store.conflict": ErrorKind(
        "Somebody appended first; the decision is made again.", "Nothing."
    ),
    "store.sequence": ErrorKind(
        "Events are not numbered one after the other.",
        "A defect: report it with the log.",
    ),
    "store.encoding": ErrorKind(
        "An event cannot be written down.", "A defect: report it with the log."
    ),
    "store.foreign": ErrorKind(
        "An execution planned work for another one.",
        "A defect: report it with the log.",
    ),
    "store.error": ErrorKind("The database reports something else.", "Read it."),
    "log.hash_mismatch": ErrorKind(
        "The log was changed after it was written.",
        "Restore it from a copy; find out who changed it.",
    ),
}
_ACCESS = {
    "auth.required": ErrorKind(
        "No credential came along, or none that is valid: unknown, expired, revoked.",
        "Send `Authorization: Bearer ntl_…`, or sign in.",
    ),
    "auth.failed": ErrorKind(
        "The name or the password is wrong, or the account is disabled or has just "
        "been changed.",
        "Try again; an admin can set another password.",
    ),
    "auth.too_many": ErrorKind(
        "Too many attempts to sign in, of one address.",
        "Wait as long as the message says.",
    ),
    "oidc.refused": ErrorKind(
        "The OIDC provider refused, or what it answered is not to be trusted.",
        "Begin the sign-in again; compare client, issuer and clocks.",
    ),
    "oidc.unreachable": ErrorKind(
        "The OIDC provider does not answer, or not as it should.",
        "Try again later; check the issuer's address.",
    ),
    "auth.role": ErrorKind(
        "The account, or the scopes of its token, do not permit it.",
        "Ask an admin for the role; the message names the permission.",
    ),
    "host.not_allowed": ErrorKind(
        "A request names a host that this server is not, or comes from a page of "
        "another origin.",
        "Use one of the server's names, or add yours to them.",
    ),
    "session.store_down": ErrorKind(
        "Sessions cannot be checked, for their store does not answer: nobody is "
        "signed in.",
        "Bring NATS back; meanwhile use an API token.",
    ),
    "session.unreadable": ErrorKind(
        "A stored session is not one of NoETL.", "Sign in again."
    ),
    "account.name": ErrorKind(
        "A text cannot be the name of an account.", "Use letters, digits and `._-+@`."
    ),
    "account.password": ErrorKind(
        "A new password is too easily guessed.",
        "Take a longer one: a sentence will do.",
    ),
    "account.exists": ErrorKind(
        "Another account has that name, or is that person for the OIDC provider.",
        "Take another name, or change the account that is there.",
    ),
    "account.unknown": ErrorKind(
        "There is no such account, or no such token.", "List them."
    ),
    "account.role": ErrorKind(
        "There is no such role, or not at such a place.",
        "Write `viewer`, `operator:finance/*` or `worker:gpu`.",
    ),
}

ERROR_KINDS: Mapping[str, Mapping[str, ErrorKind]] = {
    "Executions": _EXECUTION,
    "Templates": _TEMPLATES,
    "Tools": _TOOLS,
    "HTTP": _HTTP,
    "Playbooks": _CHILDREN,
    "Databases": _DATABASES,
    "Quantum jobs": _QUANTUM,
    "Credentials": _SECRETS,
    "Large values": _REFERENCES,
    "Workers": _WORKERS,
    "The log": _STORE,
    "Access": _ACCESS,
}
"""By section of the reference page; those of the log and of access never are outcomes:
the command ends, or the request is refused."""


def remedy_of(kind: str) -> str | None:
    """What to do about an error of this kind; None for one that is not declared."""
    for section in ERROR_KINDS.values():
        for name, each in section.items():
            if name == kind or (name.endswith(".*") and kind.startswith(name[:-1])):
                return each.remedy
    return None
