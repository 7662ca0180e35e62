"""Kinds of executions, templates, children and workers."""

from __future__ import annotations

from noetl.engine.error_kinds.kind import ErrorKind

EXECUTION = {
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
    "concurrency.taken": ErrorKind(
        "As many executions with its concurrency key were under way as may be, and "
        "`on_limit` is `reject`.",
        "Ask again when one of `holders` has ended, or let it wait: `on_limit: queue`.",
    ),
    "concurrency.key": ErrorKind(
        "The template of a concurrency key makes no key of this workload, or both the "
        "playbook and the request have one.",
        "Give the input that the template reads; say it in one place.",
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
TEMPLATES = {
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
CHILDREN = {
    "playbook.invalid": ErrorKind(
        "The playbook is not valid; the diagnostics say why.",
        "`noetl validate` shows them all.",
    ),
    "playbook.failed": ErrorKind(
        "A child playbook failed.",
        "Look at it: `noetl show` with `outcome.playbook.execution_id`.",
    ),
    "playbook.cancelled": ErrorKind(
        "A child playbook was cancelled, by somebody or by its own deadline.",
        "Nothing, if somebody wanted it; else raise the child's deadline.",
    ),
    "playbook.forbidden": ErrorKind(
        "The account that began the execution may not run the child, or the owner of a "
        "trigger may not run its playbook.",
        "Ask an admin for the role of an operator at the playbook's path.",
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
    ),
}
WORKERS = {
    "lease.lost": ErrorKind(
        "A worker reported about a run that is somebody else's by now. It stops, and "
        "nothing of it counts.",
        "Nothing: the new owner goes on. Often: see whether workers are overloaded.",
    ),
    "lease.not_owner": ErrorKind(
        "A worker asked about a run that was leased to another worker or account, or "
        "to nobody yet.",
        "Give each worker a name of its own; NoETL's own have one.",
    ),
    "worker.version": ErrorKind(
        "A worker asked for work that speaks another version of the workers' protocol "
        "than the server.",
        "Install the same version of NoETL on servers and workers.",
    ),
    "event.not_allowed": ErrorKind(
        "A worker reported what only the server decides, such as how it ends.",
        "A worker reports steps and tasks that it runs; NoETL's own do.",
    ),
    "event.order": ErrorKind(
        "A worker reported what cannot have happened: the end of a task that has not "
        "begun, or another attempt. It is refused, and nothing changes.",
        "A worker reports in the order in which things happen; NoETL's own do.",
    ),
    "event.id_reused": ErrorKind(
        "A worker reported something else under a number that it had used before. It "
        "is refused, and nothing changes.",
        "A new number for each report of a lease, the same only to repeat one.",
    ),
    "outcome.shape": ErrorKind(
        "A worker reported an outcome, or a wait, that is not one. It is refused, and "
        "nothing changes.",
        "Of a tool, NoETL's own workers make the failure `tool.contract` of it.",
    ),
    "event.too_large": ErrorKind(
        "A worker reported a payload above the limit instead of a reference. It is "
        "refused, and nothing changes.",
        "The worker stores the value first; NoETL's own do.",
    ),
    "worker.defect": ErrorKind(
        "NoETL met a defect of its own while it ran the pipeline. Only this pipeline "
        "fails; `error.details.defect` is the number under which the log of the worker "
        "has it.",
        "Report the number and the lines of the log.",
    ),
    "worker.lost": ErrorKind(
        "A worker died in the middle of a call, and the task says "
        "`on_in_doubt: fail`; or the call has cost five workers in a row, or five in "
        "a row took the step and never reported anything. It is not run once more.",
        "Find out whether the effect happened, and what it does to workers.",
    ),
}
