"""Kinds of problems that only a server has."""

from __future__ import annotations

from noetl.engine.error_kinds.kind import ErrorKind

API = {
    "catalog.version_taken": ErrorKind(
        "Another playbook is registered under this path and version.",
        "Raise `metadata.version`, or leave it out: then versions are numbered.",
    ),
    "execution.state": ErrorKind(
        "The execution is in a state that the order does not fit; `state` says which.",
        "Nothing, if that is what you wanted; else look at the execution.",
    ),
    "execution.quarantined": ErrorKind(
        "The log of the execution cannot be read, or decided on: it was set aside, so "
        "that it harms no other. Nothing is lost, and nothing of it runs.",
        "`details.defect` is its number in the server's log. Repair what that names, "
        "then `noetl resume` takes it back.",
    ),
    "execution.unknown": ErrorKind(
        "There is no such execution, or it is not yours to see.",
        "`noetl list` shows those that are.",
    ),
    "fork.impossible": ErrorKind(
        "An execution cannot be forked, or tried again, as it was asked for; the "
        "message says why.",
        "Keep fewer events, begin at another step, or mend the playbook.",
    ),
    "internal": ErrorKind(
        "The server met a defect of its own.", "Its log has it; report it."
    ),
    "json.invalid": ErrorKind(
        "The body is not strict JSON: a key twice, NaN, nested too deep, cut off.",
        "Send what a JSON library writes.",
    ),
    "query.invalid": ErrorKind(
        "A parameter is unknown, there twice, or out of bounds; `parameter` names it.",
        "The hint lists those of the call.",
    ),
    "request.aborted": ErrorKind(
        "The client left before its body was here.", "Nothing."
    ),
    "request.content_type": ErrorKind(
        "The body is not `application/json`, or compressed.", "Send plain JSON."
    ),
    "request.invalid": ErrorKind(
        "A member of the body is missing, or does not fit.", "The message says which."
    ),
    "request.key_reused": ErrorKind(
        "The idempotency key was used for a request with another body.",
        "A new key for each request, the same only to repeat one.",
    ),
    "place.taken": ErrorKind(
        "A concurrency key has no place left; `on_limit` says what becomes of that.",
        "Nothing.",
    ),
    "request.known": ErrorKind(
        "A request with this key has an execution already; that one is answered.",
        "Nothing.",
    ),
    "request.rate": ErrorKind(
        "One caller asks too often, or holds too much of the server: executions that "
        "were started, streams and waits that are open, bytes of bodies.",
        "Wait for as long as `Retry-After` says.",
    ),
    "request.timeout": ErrorKind("The body did not come in time.", "Send it again."),
    "request.too_large": ErrorKind(
        "The body has more bytes than its call takes (4 MiB at most), or the playbook "
        "more than 1 MiB.",
        "Give large inputs as references to where they are.",
    ),
    "request.unknown_field": ErrorKind(
        "The body has a member that nobody knows. Of a playbook only the workload can "
        "be changed by a request.",
        "The hint lists the members.",
    ),
    "route.method": ErrorKind("The call has another method.", "The hint names it."),
    "route.unknown": ErrorKind("There is no such call.", "`/openapi.json` lists them."),
    "server.busy": ErrorKind(
        "All callers together hold as many streams, or as many bytes of bodies, as the "
        "server grants.",
        "Wait for as long as `Retry-After` says.",
    ),
    "signal.invalid": ErrorKind(
        "The data of a signal do not fit what is waited for. Nothing was recorded; "
        "`problems` lists what is wrong.",
        "Send data that fit: `waits` has the schema.",
    ),
    "signal.unknown": ErrorKind(
        "Nothing in the execution waits for this signal, or may do so later: it has "
        "another name, or its time is over. Nothing was recorded.",
        "`waits` and `noetl list --waiting` say what is waited for; perhaps a child "
        "waits for it.",
    ),
    "store.unavailable": ErrorKind(
        "The store does not answer; `store` says why. What was answered is stored.",
        "Try again after `Retry-After`.",
    ),
}
