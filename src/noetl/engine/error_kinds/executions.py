"""Kinds of executions, templates, children and workers."""

from __future__ import annotations

from noetl.engine.error_kinds.kind import ErrorKind

EXECUTION = {
    "timeout": ErrorKind(
        "A call, a child or a signal took longer than its timeout, a call longer than "
        "the setting `limits.tool_time` allows, or a step longer than its deadline "
        "(retryable); or the execution longer than its deadline (then it is "
        "cancelled).",
        "Raise the timeout, or retry with a delay; make the work smaller. The setting "
        "is the operator's.",
        None,
    ),
    "cancelled": ErrorKind(
        "The execution was cancelled; a running call was stopped.",
        "No action: a user requested it. Recorded events are kept.",
    ),
    "limit.exceeded": ErrorKind(
        "The execution ran more steps, or a pipeline more tasks, than "
        "`executor.spec.limits` allows; or its log has as many events as the setting "
        "`limits.execution_events` allows.",
        "Look for an endless `jump` or cycle of arcs; move parts of very long work "
        "to child playbooks, which have logs of their own.",
    ),
    "concurrency.taken": ErrorKind(
        "The maximum number of executions with the concurrency key were running, "
        "and `on_limit` is `reject`.",
        "Try again when one of `holders` has ended, or use `on_limit: queue`.",
    ),
    "concurrency.key": ErrorKind(
        "The template of the concurrency key gives no valid key for this workload, "
        "or both the playbook and the request have a key.",
        "Give the input that the template reads; define the key in one place.",
    ),
    "policy.fail": ErrorKind(
        "A rule with `fail` matched a call that succeeded, or a rule retried such a "
        "call until no attempts were left.",
        "Read the rule of the playbook that `directive.rule` of the `task.done` "
        "event names.",
    ),
    "ctx.conflict": ErrorKind(
        "Two iterations of a parallel loop wrote different values to one key of `ctx`.",
        "Return the value as the iteration's result, write a key per iteration, or "
        "make the loop sequential.",
    ),
    "join.unreachable": ErrorKind(
        "A join waits for tokens that can no longer come.",
        "`noetl verify` shows such a path; lower `join.mode` or correct the arcs.",
    ),
    "loop.in_type": ErrorKind(
        "`loop.in` did not yield a list.",
        "Convert it: `| list`, or `| items` for a mapping.",
    ),
    "loop.too_many": ErrorKind(
        "`loop.in` yielded more items than a loop may have.",
        "Loop over pages or ranges of the items.",
    ),
}
TEMPLATES = {
    "template.undefined": ErrorKind(
        "An input used an undefined value; the message names its path.",
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
        "A template used an operation that templates may not use.",
        "Use a filter of the reference, or a python task.",
    ),
}
CHILDREN = {
    "inputs.invalid": ErrorKind(
        "The workload does not fit the inputs that the playbook declares; nothing was "
        "started. `error.problems` lists each input, without its value.",
        "Compare it with `metadata.inputs` of the playbook.",
    ),
    "playbook.invalid": ErrorKind(
        "The playbook is not valid; the diagnostics have the reasons.",
        "`noetl validate` shows them all.",
    ),
    "playbook.failed": ErrorKind(
        "A child playbook failed.",
        "Inspect the child: `noetl show` with the id in `error.details.execution_id`.",
    ),
    "playbook.cancelled": ErrorKind(
        "A child playbook was cancelled, by a user or by its deadline.",
        "No action if a user requested it; otherwise raise the child's deadline.",
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
        "Child playbooks are nested more than 16 deep.",
        "Look for a playbook that calls itself.",
    ),
    "playbook.family": ErrorKind(
        "Too many executions that descend from one root have not finished: the child "
        "was not started.",
        "Call fewer children at a time (`max_in_flight`), look for a playbook that "
        "calls itself, or raise the server's setting `family_limit`.",
    ),
    "poll.timeout": ErrorKind(
        "Polling ended before its condition was met.",
        "Raise `max_attempts` or the deadline of `poll`.",
    ),
}
WORKERS = {
    "lease.lost": ErrorKind(
        "A worker reported about a run that another worker owns by now. The worker "
        "stops, and its report is ignored.",
        "No action: the new owner continues. If it is frequent, check whether workers "
        "are overloaded.",
    ),
    "lease.not_owner": ErrorKind(
        "A worker asked about a run that is leased to another worker or account, or "
        "not leased.",
        "Give each worker a unique name; NoETL's own workers have one.",
    ),
    "worker.version": ErrorKind(
        "A worker asked for work whose version of the worker protocol the server does "
        "not serve.",
        "Upgrade servers first, then workers; the message says which of them is older.",
    ),
    "event.not_allowed": ErrorKind(
        "A worker reported an event that only the server decides, such as the end "
        "of the execution.",
        "Report only steps and tasks that the worker runs.",
    ),
    "event.order": ErrorKind(
        "A worker reported events out of order: the end of a task that has not "
        "begun, or another attempt. The report is refused, and nothing changes.",
        "Report events in the order in which they happen.",
    ),
    "event.id_reused": ErrorKind(
        "A worker used the number of an earlier report for a different one. The "
        "report is refused, and nothing changes.",
        "Use a new number for each report of a lease; reuse a number only to repeat "
        "the report.",
    ),
    "outcome.shape": ErrorKind(
        "A worker reported a malformed outcome or wait. The report is refused, and "
        "nothing changes.",
        "Correct the worker; NoETL's own workers report `tool.contract` for a "
        "malformed result.",
    ),
    "event.too_large": ErrorKind(
        "A worker reported a payload above the limit instead of a reference. The "
        "report is refused, and nothing changes.",
        "Store the value first, and report its reference.",
    ),
    "pool.code_off": ErrorKind(
        "A step with a task of kind `python`, `script` or `shell` names a worker "
        "pool that does not run code. The step does not run.",
        "Name a pool that runs code in `spec.pool`; or let an admin add the pool to "
        "the setting `pools.code` of the servers, and of its workers if they have it.",
    ),
    "worker.defect": ErrorKind(
        "The pipeline failed because of a defect in NoETL. Only this pipeline "
        "fails; `error.details.defect` is the number of the entry in the log of the "
        "worker.",
        "Report the number and the lines of the log.",
    ),
    "worker.lost": ErrorKind(
        "A worker was lost during a call, and the task has `on_in_doubt: fail`; or "
        "five workers in a row were lost during the call, or took the step and "
        "reported nothing. The call is not run again.",
        "Check whether the effect happened, and why the call stops workers.",
    ),
}


PLANNED = {
    "environment.*": ErrorKind(
        "The environment of a task could not be prepared.",
        "Check its packages, and that its pool allows environments.",
        None,
        reserved="environments",
    ),
    "container.*": ErrorKind(
        "A container could not be run, or ended with an error.",
        "Check its image and the settings of its pool.",
        None,
        reserved="the kind container",
    ),
    "object.*": ErrorKind(
        "An object store refused an operation, or has no such object.",
        "Check the name of the object and the rights of the credential.",
        None,
        reserved="the kinds of object stores",
    ),
    "sql.*": ErrorKind(
        "A database refused a command.",
        "Read the message of the database.",
        None,
        reserved="the kinds of other databases",
    ),
    "llm.*": ErrorKind(
        "A language model refused a request, or its answer does not fit.",
        "Check the request and its limits.",
        None,
        reserved="the kind llm",
    ),
    "mcp.*": ErrorKind(
        "A server of the Model Context Protocol refused a call.",
        "Check the name of its tool and the arguments.",
        None,
        reserved="the kind mcp",
    ),
    "mail.*": ErrorKind(
        "A message could not be sent.",
        "Check the server, its credential and the addresses.",
        None,
        reserved="the kind mail",
    ),
    "nats.*": ErrorKind(
        "NATS refused a message or a request.",
        "Check the subject and the permissions.",
        None,
        reserved="the kind nats",
    ),
}
