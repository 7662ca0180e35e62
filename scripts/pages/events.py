"""The events of the log: the envelope, and what the payload of each holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from noetl.engine.events import NAMES
from pages.markdown import table

ENVELOPE = {
    "event_id": "Unique: `<execution_id>.<seq>`.",
    "execution_id": "The execution.",
    "seq": "Its place in the log, from 1, without gaps. Order is this, not time.",
    "timestamp": "UTC, RFC 3339, microseconds.",
    "source": "`server` decided it, or a `worker` reported it.",
    "name": "One of those below.",
    "entity_type": "playbook, workflow, step, task, loop or next.",
    "entity_id": "Which one: the id of the execution, run, iteration, task or token.",
    "parent_id": "Of a step the execution, of what is inside it the step run.",
    "status": "in_progress, success, error, paused or skipped.",
    "step": "The step's name.",
    "step_run_id": "One firing of a step.",
    "iteration_id": "`<step_run_id>/<index>`, one more index for each inner loop.",
    "task_run_id": "One visit of a task; its retries share it.",
    "task_label": "The task's label.",
    "attempt": "From 1; a retry counts on.",
    "action_id": "The same for all attempts and owners of one effect.",
    "payload": "What only this event has: see below.",
}


class Page(NamedTuple):
    """``members`` of the payload; a question mark: not in every one."""

    members: Mapping[str, str] = {}
    sources: tuple[str, ...] = ()
    """All of them, where there is more than the usual one."""
    statuses: tuple[str, ...] = ()


BOTH = ("worker", "server")
ENDS = ("success", "error")
PLAYBOOK = (
    "`{name, path, version, sha256, source, folder}`: which one, and its text; "
    "`sensitive`, if its data are."
)
TOKENS = "Ids of the tokens that were taken."
GATE = "`{allow, rule}`: the answer, and the position of the rule that gave it; `error`"
CALLER = "`{principal, address}` of whoever asked a server for it."
ERROR = "`{kind, message, retryable, details, task, iteration}`."

EVENTS: Mapping[str, Page] = {
    "playbook.execution.requested": Page(
        {
            "playbook": PLAYBOOK,
            "trace_id": "W3C trace id: its own, or that of whoever called it.",
            "parent?": "`{execution_id, command_id, depth, iter}` of who called it.",
            "fork?": "`{execution_id, seq, started_at, depth, iter, inherited}`: whose "
            "events the log goes on with, up to which one, and when that work began; "
            "`inherited` are the keys of `iter` that the origin could read.",
            "caller?": "`{principal, address, idempotency_key, sha256, trigger}`: who "
            "asked a server, from where, by which key, and the digest of what they "
            "asked for; `trigger`, if it was one: `{name, slot, chain}`.",
            "initiator?": "`{principal, user_id, scopes}`: the account whose rights it "
            "has, and the scopes of the token that was used. A child has that of its "
            "parent, what a trigger starts that of the trigger's owner; what `noetl "
            "run` began has none.",
        }
    ),
    "playbook.request.evaluated": Page(
        {
            "playbook": PLAYBOOK,
            "extensions?": "Dialects that are on.",
            "error?": "Why the request was refused, with the diagnostics.",
        },
        statuses=ENDS,
    ),
    "workflow.started": Page(
        {
            "workload": "The merged workload; it does not change any more.",
            "ctx": "What `ctx` begins with.",
            "token": "`{token_id, step, args}`: the first token.",
            "deadline": "When it is cancelled, or null; null while it is queued.",
            "concurrency?": "`{key, limit, on_limit, of}`: what it needs a place of; "
            "`of` is the playbook whose key it is.",
        }
    ),
    "workflow.queued": Page(
        {"time_limit": "Seconds that it may take once it has a place, or null."}
    ),
    "workflow.admitted": Page({"deadline": "When it is cancelled, or null."}),
    "workflow.forked": Page(
        {
            "from": "`{execution_id, seq}`: the events up to here are that one's.",
            "deadline": "When the fork is cancelled, or null.",
            "deadlines": "When runs that are under way fail, by step run.",
            "workload?": "The whole workload, if it was edited.",
            "set_ctx?": "The patch of `ctx`.",
            "again?": "`{token_id, failed, step, args, event}` of each token that is "
            "put back, because the run or the gate `failed`.",
            "playbook?": PLAYBOOK + " Only if it is a newer one.",
            "steps?": "`{has_arcs, first}` of the steps that are under way, as the "
            "newer playbook has them.",
        }
    ),
    "step.scheduled": Page(
        {
            "tokens": TOKENS,
            "args": "What the run sees as `args`.",
            "admit": f"{GATE} never.",
            "has_arcs": "Whether there is a router to be judged at its end.",
            "first?": "Label of the first task. Not for loops and routing steps.",
            "keep?": "Labels of tasks whose outcomes templates read by `_outcomes`.",
            "late?": "Sources of a join whose tokens are discarded when they come.",
            "deadline?": "When the run fails, if it is not over.",
        }
    ),
    "step.skipped": Page(
        {
            "tokens": TOKENS,
            "args": "What the gate saw as `args`.",
            "admit": f"{GATE} if the gate could not be asked.",
            "late?": "As in `step.scheduled`.",
        }
    ),
    "token.joined": Page(
        {
            "token_id": "The token.",
            "from": "The step that sent it.",
            "discarded?": "True: its round has fired without it.",
        }
    ),
    "step.started": Page({"tokens": TOKENS}, sources=BOTH),
    "task.started": Page(
        {"in_doubt?": "How many owners were lost after they had started this attempt."}
    ),
    "task.done": Page(
        {
            "outcome": "`{status, result, error, meta}` and the kind's helper.",
            "directive": "`{do, rule}`: the verdict, and the position of the rule that "
            "gave it (null: the default). `next`: the label that follows; `to`, "
            "`attempts`, `delay` where they apply.",
            "set_iter?": "The patch of `iter`, rendered.",
            "set_ctx?": "The patch of `ctx`, rendered.",
            "error?": "Why the pipeline failed, if it did.",
            "refused?": "`{key, by}`: this patch of `ctx` was not applied, because "
            "another iteration had written the key.",
        },
        statuses=("success", "error", "skipped"),
    ),
    "task.suspended": Page(
        {
            "on": "What it waits for: delay, timer, signal, playbook or event.",
            "until": "When it goes on by itself, or null.",
            "at?": "The time of day that it waits for.",
            "zone?": "The time zone of `at`.",
            "signal?": "The signal's name.",
            "schema?": "What the signal's data must fit.",
            "roles?": "Of which its sender must have one.",
            "child?": "`{execution_id, path, version, args, iter}` of the playbook.",
            "timers?": "`{id, at}` of each timer of a choice, the next one first.",
        }
    ),
    "task.resumed": Page(
        {
            "answer": "The signal's `data`; the child's `status`, `result`, `error`; "
            "or the `event` that guards accepted, and which (`matched`).",
            "message?": "`seq` of the signal's `message.received`.",
            "missed?": "How many events that came meanwhile were offered with it.",
        }
    ),
    "message.received": Page(
        {
            "name": "The signal's name.",
            "data": "Its data.",
            "by?": "`{name, roles}` of who sent it to a server.",
            "caller?": CALLER,
        }
    ),
    "step.done": Page(
        {"result": "Of the last task; of a loop its results."}, sources=BOTH
    ),
    "step.failed": Page({"error": ERROR}, sources=BOTH),
    "loop.started": Page(
        {
            "total": "How many iterations there will be.",
            "items": "The list, or `{start, stop, step}` of a range.",
            "mode": "sequential or parallel.",
            "iterator": "The iterator's name.",
        }
    ),
    "loop.iteration.started": Page(
        {
            "item": "The element.",
            "first?": "Label of the first task. Not if a loop is inside.",
            "keep?": "As in `step.scheduled`.",
        }
    ),
    "loop.iteration.done": Page(
        {"result": "Of its last task.", "size": "Bytes of the result as JSON."},
        sources=BOTH,
    ),
    "loop.iteration.failed": Page({"error": ERROR}, sources=BOTH),
    "loop.done": Page(
        {
            "total": "All iterations: the sum of the next three.",
            "done": "How many succeeded.",
            "failed": "How many failed.",
            "skipped": "How many were not begun.",
            "results": "In the order of the items, null for those that failed; too "
            "large, a reference to these events of the log.",
        }
    ),
    "next.evaluated": Page(
        {
            "on": "The name of the event that was judged.",
            "mode": "exclusive or inclusive.",
            "arcs": "`{step, fired}` of each arc, `why` it did not, and its `error`.",
            "fired": "`{token_id, step, args}` of each token that goes on.",
            "handled": "Whether an arc with a guard has taken care of a failure.",
            "error?": "Of an arc whose template failed, if nothing fired.",
        }
    ),
    "workflow.cancelled": Page(
        {
            "kind": "`cancelled`, `timeout` or `limit.exceeded`.",
            "message": "Why.",
            "retryable": "False.",
            "details": "Empty.",
            "caller?": CALLER,
        }
    ),
    "workflow.paused": Page({"caller?": CALLER}),
    "workflow.resumed": Page(
        {
            "deadlines": "New moments, by execution or step run: a pause does not "
            "count.",
            "caller?": CALLER,
        }
    ),
    "workflow.finished": Page(
        {
            "status": "completed, failed or cancelled.",
            "error": "The first failure that nobody handled, or null.",
            "result": "Of the last step from which no token went on.",
            "reason?": "Why it was cancelled: `cancelled` or `timeout`.",
        },
        statuses=ENDS,
    ),
    "playbook.processed": Page({"status": "As in `workflow.finished`."}, statuses=ENDS),
}


def events() -> str:
    """The envelope, all names, then each with its payload."""
    about = {name: EVENTS.get(name, Page()) for name in NAMES}
    rows = [
        (
            f"[`{name}`](#{name.replace('.', '')})",
            kind.entity,
            ", ".join(about[name].sources or (kind.source,)),
            ", ".join(about[name].statuses or (kind.status,)),
            kind.doc,
        )
        for name, kind in NAMES.items()
    ]
    parts = [
        "What the log holds, in the order of `seq`. All events have one envelope; the "
        "ids are null where they do not apply.",
        "## The envelope",
        table("| member | meaning |", ((f"`{n}`", d) for n, d in ENVELOPE.items())),
        "## All events",
        "A worker reports what it did; a run that needs no worker (a step that only "
        "routes, a loop as a whole) is started and ended by the server.",
        table("| name | entity | source | status | when |", rows),
        "A payload is at most 64 KiB. Values that would make it larger are stored "
        "elsewhere and replaced by references, the largest first; which ones is said "
        "in the member `spilled`, that any payload may have. Where a fork keeps a "
        "`task.resumed`, `inherited` names the keys in it that the origin could read.",
    ]
    for name, kind in NAMES.items():
        parts += [f"### {name}", f"{kind.doc} {members_of(about[name])}"]
    return "\n\n".join(parts)


def members_of(page: Page) -> str:
    if not page.members:
        return "The payload is empty."
    rows = (
        (f"`{name.rstrip('?')}`" + (" (not always)" if "?" in name else ""), meaning)
        for name, meaning in page.members.items()
    )
    return "Its payload:\n\n" + table("| member | meaning |", rows)
