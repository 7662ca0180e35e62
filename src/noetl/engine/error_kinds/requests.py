"""Error kinds that only a server reports."""

from __future__ import annotations

from noetl.engine.error_kinds.kind import ErrorKind

API = {
    "catalog.version_taken": ErrorKind(
        "Another playbook is registered under this path and version.",
        "Raise `metadata.version`, or leave it out: then versions are numbered.",
    ),
    "execution.state": ErrorKind(
        "The state of the execution does not allow the request; `state` has it.",
        "No action if the execution is in the state you want; otherwise inspect it.",
    ),
    "execution.quarantined": ErrorKind(
        "The log of the execution cannot be read or continued. The execution is "
        "quarantined: nothing is lost, and nothing of it runs.",
        "Find the number `details.defect` in the server's log, repair the cause, "
        "then run `noetl resume`.",
    ),
    "execution.unknown": ErrorKind(
        "The execution does not exist, or you may not see it.",
        "`noetl list` shows the executions that you may see.",
    ),
    "fork.impossible": ErrorKind(
        "The execution cannot be forked or retried as requested; the message has "
        "the reason.",
        "Keep fewer events, begin at another step, or correct the playbook.",
    ),
    "internal": ErrorKind(
        "The server failed because of a defect in NoETL.",
        "Report it with the entry of the server's log.",
    ),
    "json.invalid": ErrorKind(
        "The body is not strict JSON: a duplicate key, NaN, nested too deep, or "
        "truncated.",
        "Send what a JSON library writes.",
    ),
    "query.invalid": ErrorKind(
        "A parameter is unknown, repeated, or out of bounds; `parameter` names it.",
        "The hint lists the valid parameters.",
    ),
    "request.aborted": ErrorKind(
        "The client disconnected before its body was received.", "Nothing."
    ),
    "request.content_type": ErrorKind(
        "The body is not `application/json`, or compressed.", "Send plain JSON."
    ),
    "request.invalid": ErrorKind(
        "A member of the body is missing, or its value is not valid.",
        "Correct the member that the message names.",
    ),
    "request.key_reused": ErrorKind(
        "The idempotency key was used for a request with another body.",
        "Use a new key for each request; reuse a key only to repeat the request.",
    ),
    "retention.busy": ErrorKind(
        "A server on the same store is removing old executions already.",
        "Wait until it is done, and repeat the request.",
    ),
    "again.impossible": ErrorKind(
        "`again` does not name the latest execution of the key or slot, or that "
        "execution has not failed.",
        "Name the execution in the problem, or send the request without `again`.",
    ),
    "place.taken": ErrorKind(
        "The concurrency key has no free slot; `on_limit` decides what happens.",
        "Nothing.",
    ),
    "quota.executions": ErrorKind(
        "The team, or the playbook, has as many unfinished executions as the operator "
        "allows (setting `limits_executions`).",
        "Start it again when some of them have finished, or cancel some.",
    ),
    "request.known": ErrorKind(
        "A request with this key has an execution already; the answer is that "
        "execution.",
        "Nothing.",
    ),
    "request.rate": ErrorKind(
        "One caller sends too many requests, or holds too many resources: started "
        "executions, open streams and waits, bytes of bodies.",
        "Wait for the seconds in `Retry-After`.",
    ),
    "request.timeout": ErrorKind(
        "The body was not received in time.", "Send it again."
    ),
    "request.too_large": ErrorKind(
        "The body is larger than the call accepts (4 MiB at most), or the playbook "
        "larger than 1 MiB.",
        "Pass the location of large inputs instead of the inputs.",
    ),
    "request.unknown_field": ErrorKind(
        "The body has an unknown member. A request can change only the workload of "
        "a playbook.",
        "The hint lists the members.",
    ),
    "route.method": ErrorKind(
        "The path does not support the method.", "The hint names it."
    ),
    "route.unknown": ErrorKind(
        "The path does not exist.", "`/openapi.json` lists the paths."
    ),
    "server.busy": ErrorKind(
        "All callers together hold the maximum of streams, or of bytes of bodies.",
        "Wait for the seconds in `Retry-After`.",
    ),
    "signal.invalid": ErrorKind(
        "The data of a signal do not fit the schema of the wait. Nothing was "
        "recorded; `problems` lists the errors.",
        "Send data that fit: `waits` has the schema.",
    ),
    "answer.off": ErrorKind(
        "The server allows no links that answer a question without a sign-in.",
        "Answer on its page; an operator can set `answer_links`.",
    ),
    "answer.invalid": ErrorKind(
        "The link to answer a question was not made by this server, or is not whole.",
        "Copy the whole link, or ask for another one.",
    ),
    "answer.over": ErrorKind(
        "The link has expired, its question was answered or is not asked any more, or "
        "the account that made the link may not answer now. Nothing was recorded.",
        "Look at the execution; ask for another link if it still waits.",
    ),
    "signal.unknown": ErrorKind(
        "No open or later wait of the execution takes this signal: the name "
        "differs, or the wait has ended. Nothing was recorded.",
        "Compare with `waits` and `noetl list --waiting`; a child may wait for it.",
    ),
    "store.unavailable": ErrorKind(
        "The store does not answer; `store` has the reason. Confirmed requests are "
        "stored.",
        "Try again after `Retry-After`.",
    ),
}


ACCESS = {
    "auth.required": ErrorKind(
        "The request has no credential, or an unknown, expired or revoked one.",
        "Send `Authorization: Bearer ntl_…`, or sign in.",
    ),
    "auth.failed": ErrorKind(
        "The name or the password is wrong, or the account is disabled or has just "
        "been changed.",
        "Try again; an admin can set another password.",
    ),
    "auth.too_many": ErrorKind(
        "One address made too many attempts to sign in.",
        "Wait for the time in the message.",
    ),
    "oidc.no_device": ErrorKind(
        "The OpenID Connect provider has no sign-in for commands (device flow).",
        "Allow it for the client at the provider, or get a token from an admin.",
    ),
    "oidc.off": ErrorKind(
        "The server has no OpenID Connect provider.",
        "Sign in by password, or set `oidc_issuer` and the other OIDC settings.",
    ),
    "oidc.refused": ErrorKind(
        "The OIDC provider refused, or its answer could not be verified.",
        "Sign in again; compare client, issuer and clocks.",
    ),
    "oidc.unreachable": ErrorKind(
        "The OIDC provider does not answer, or its answer is malformed.",
        "Try again later; check the issuer's address.",
    ),
    "auth.role": ErrorKind(
        "The account, or the scopes of its token, do not permit the request.",
        "Ask an admin for the role; the message names the permission.",
    ),
    "host.not_allowed": ErrorKind(
        "A request names a host that is not one of the server, or comes from a page "
        "of another origin.",
        "Use one of the server's host names, or add yours to its settings.",
    ),
    "session.store_down": ErrorKind(
        "Sessions cannot be checked because their store does not answer; they are "
        "refused.",
        "Bring NATS back; meanwhile use an API token.",
    ),
    "session.unknown": ErrorKind(
        "The session does not exist, or you may not end it.",
        "`noetl session list` shows your sessions.",
    ),
    "session.unreadable": ErrorKind(
        "A stored session is not in the format of NoETL.", "Sign in again."
    ),
    "account.name": ErrorKind(
        "The name of the account is not valid.", "Use letters, digits and `._-+@`."
    ),
    "account.password": ErrorKind(
        "A new password is too easily guessed.",
        "Choose a longer one, for example a sentence.",
    ),
    "account.exists": ErrorKind(
        "Another account has that name, or the same identity at the OIDC provider.",
        "Choose another name, or change the existing account.",
    ),
    "account.unknown": ErrorKind(
        "The account or the token does not exist.", "List them."
    ),
    "account.role": ErrorKind(
        "The role does not exist, or cannot be given for this path or pool.",
        "Write `viewer`, `operator:finance/*` or `worker:gpu`.",
    ),
}


TRIGGERS = {
    "backfill.range": ErrorKind(
        "A backfill's range cannot be read, ends in the future, or has no slots, or "
        "too many.",
        "Correct the range; a backfill has 1 to 10,000 slots.",
    ),
    "backfill.state": ErrorKind(
        "The backfill has finished, so it cannot be stopped or resumed.",
        "Start another one: it runs the missing slots.",
    ),
    "backfill.unknown": ErrorKind(
        "The backfill does not exist, or you may not see it.",
        "`noetl backfill list` shows the backfills that you may see.",
    ),
    "trigger.exists": ErrorKind(
        "Another trigger has this name.",
        "Change it with `--replace`, or delete it first.",
    ),
    "trigger.inputs": ErrorKind(
        "A template of the trigger failed for the delivery, so the inputs or the "
        "key of the execution are missing. With a key, a failed execution is "
        "recorded.",
        "The message names the template; give it a default, or send what it reads.",
    ),
    "trigger.invalid": ErrorKind(
        "A trigger's definition is not valid; `path` is the path of the member.",
        "Correct the member; the hint has the expected value.",
    ),
    "trigger.kind": ErrorKind(
        "The trigger is of another kind: only a schedule has slots.",
        "Name a schedule.",
    ),
    "trigger.loop": ErrorKind(
        "The trigger would start itself: the end of its execution would fire it again.",
        "Break the cycle in the message, or name playbooks more exactly.",
    ),
    "trigger.paused": ErrorKind(
        "The webhook is paused and refuses deliveries.",
        "Run `noetl trigger resume NAME`; then the sender must send again.",
    ),
    "run.unknown": ErrorKind(
        "The execution has no step run with this id or number.",
        "`GET /api/executions/{id}/runs` lists the runs.",
    ),
    "trigger.unknown": ErrorKind(
        "The trigger does not exist, or you may not see it.",
        "`noetl trigger list` shows the triggers that you may see.",
    ),
}
