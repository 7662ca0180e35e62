"""Keys of the root sections."""

from __future__ import annotations

from msgspec.structs import replace

from noetl.dsl.grammar.earlier_forms import (
    CONDITIONS,
    CREDENTIALS,
    DIALECTS,
    NEVER,
    SPEC_CREDENTIALS,
    Retired,
    accepted_as,
)
from noetl.dsl.grammar.records import (
    BOOLEAN,
    DURATION,
    MAPPING,
    POOL,
    RATE,
    SLOTS,
    TEXT,
    TIMEOUT,
    Field,
    Record,
    Shape,
    integer,
    list_of,
    mapping_of,
    one_of,
)

API_VERSION = "noetl.io/v2"
_WORKBOOK = accepted_as(
    "canonical form: workbook: {name: {kind: …}}", "a list of {name, tool}"
)
_DIALECTS = ", ".join(f"`{name}`" for name in DIALECTS)

METADATA = Record(
    "metadata",
    "metadata",
    {
        "name": Field(TEXT, "VAL-07", "The playbook's name.", missing="VAL-07"),
        "path": Field(
            TEXT,
            "VAL-07",
            "Its path in the catalog, e.g. `sales/orders`.",
            missing="VAL-07",
        ),
        "version": Field(TEXT, "ROOT-05", "The author's version, as text."),
        "description": Field(TEXT, "ROOT-05", "The purpose of the playbook."),
        "sensitive": Field(
            BOOLEAN,
            "ROOT-05",
            "True: data of its executions need `payloads:read` on a server.",
        ),
        "labels": Field(
            MAPPING,
            "S-72",
            "Labels of its executions, text by name: `{team: sales}`.",
        ),
        "inputs": Field(
            mapping_of("inputs"),
            "S-72",
            "JSON Schema of `workload`, checked before anything starts.",
        ),
    },
    unknown="warning",
)
INPUTS = Record(
    "inputs",
    "metadata.inputs",
    {
        "type": Field(one_of("object"), "S-72", "Always `object`."),
        "properties": Field(
            MAPPING,
            "S-72",
            "Inputs by name: `type`, `description`, `enum`, `default` and others; an "
            "input with `secret: true` is sealed.",
        ),
        "required": Field(list_of(TEXT), "S-72", "Names of inputs that must be there."),
        "additionalProperties": Field(
            Shape(("boolean", "mapping")),
            "S-72",
            "False: inputs with other names are refused, and not only warned about.",
        ),
    },
    unknown="allow",
)

KEYCHAIN_ENTRY = Record(
    "keychain_entry",
    "a keychain entry",
    {
        "name": Field(
            TEXT,
            "VAL-23",
            "Its name in templates: `keychain.<name>`.",
            missing="VAL-23",
        ),
        "kind": Field(
            TEXT, "VAL-23", "The kind of its secret store.", missing="VAL-23"
        ),
    },
    unknown="allow",
)

EXECUTOR = Record(
    "executor",
    "the executor",
    {
        "profile": Field(
            TEXT, "EXE-02", "The place of execution: `local` or `distributed`."
        ),
        "version": Field(TEXT, "EXE-03", "Runtime version, e.g. `noetl-runtime/2`."),
        "spec": Field(
            mapping_of("executor_spec"), "EXE-04", "Defaults for every step and task."
        ),
    },
    retired=CREDENTIALS,
    unknown="warning",
)

LIMITS = Record(
    "limits",
    "limits",
    {
        "step_runs": Field(
            integer(1, 100_000), "S-36", "Maximum of step runs of one execution."
        ),
        "task_runs": Field(
            integer(1, 1_000_000), "S-36", "Maximum of task runs of one pipeline."
        ),
    },
    unknown="warning",
    unknown_code="S-52",
)


RESULT = Record(
    "result",
    "result",
    {
        "store": Field(
            mapping_of("result_store"),
            "EXE-06",
            "The store of values that are too large for the log.",
        ),
    },
    unknown="warning",
    unknown_code="S-52",
)
RESULT_STORE = Record(
    "result_store",
    "store",
    {
        "kind": Field(
            TEXT,
            "EXE-06",
            "`file`, `postgres`, `nats_object`, or the scheme of `results_url`",
            missing="EXE-06",
        ),
        "bucket": Field(TEXT, "EXE-06", "The bucket of `nats_object`."),
    },
    unknown="warning",
    unknown_code="S-52",
)
CONCURRENCY = Record(
    "concurrency",
    "executor.spec.concurrency",
    {
        "key": Field(
            TEXT,
            "S-36",
            "A template over `workload`: those with the same one share its places.",
            missing="S-36",
        ),
        "limit": Field(
            integer(1, 10_000), "S-36", "The maximum of executions; 1 by default."
        ),
        "on_limit": Field(
            one_of("queue", "cancel_previous", "reject"),
            "S-36",
            "The treatment of one more; `queue` by default.",
            choice="S-36",
        ),
    },
    unknown="warning",
    unknown_code="S-52",
)


EXECUTOR_SPEC = Record(
    "executor_spec",
    "executor.spec",
    {
        "extensions": Field(
            list_of(TEXT), "S-01", f"Dialects ({_DIALECTS}) and extra root keys."
        ),
        "limits": Field(mapping_of("limits"), "S-36", "Runaway guards."),
        "deadline": Field(DURATION, "S-36", "The maximum duration of the execution."),
        "retention": Field(
            Shape(("number", "text"), words="a duration from 1m on: 30d, 12h or 90m"),
            "EXE-04",
            "The time for which a server that removes old executions keeps those of "
            "this playbook after their end.",
        ),
        "concurrency": Field(
            mapping_of("concurrency"),
            "S-36",
            "The maximum of executions that run at the same time on a server.",
        ),
        "result": Field(
            mapping_of("result"), "EXE-06", "Result store: `{store: {kind, bucket}}`."
        ),
        "sandbox": Field(MAPPING, "EXE-07", "Isolation hints."),
        "resources": Field(MAPPING, "EXE-07", "Resource hints."),
        "telemetry": Field(MAPPING, "EXE-07", "Tracing and metrics defaults."),
        "tracing": Field(MAPPING, "EXE-07", "Tracing defaults."),
        "pool": POOL,
        "timeout": TIMEOUT,
        "rate": RATE,
        "slots": SLOTS,
        "policy": Field(MAPPING, "SPEC-08", "Hints; control directives live on tasks."),
    },
    retired=SPEC_CREDENTIALS,
    unknown="warning",
    unknown_code="S-52",
)

ROOT = Record(
    "playbook",
    "the playbook",
    {
        "apiVersion": Field(
            one_of(API_VERSION),
            "VAL-07",
            "The language version.",
            missing="VAL-07",
            choice="VAL-07",
        ),
        "kind": Field(
            one_of("Playbook"),
            "VAL-07",
            "Always `Playbook`.",
            missing="VAL-07",
            choice="VAL-07",
        ),
        "metadata": Field(
            mapping_of("metadata"), "VAL-07", "Name, path, version.", missing="VAL-07"
        ),
        "keychain": Field(
            list_of(mapping_of("keychain_entry")), "VAL-23", "Credentials it needs."
        ),
        "executor": Field(
            mapping_of("executor"), "ROOT-07", "Runtime defaults for all steps."
        ),
        "workload": Field(MAPPING, "ROOT-07", "Immutable inputs, with their defaults."),
        "workflow": Field(
            list_of(mapping_of("step")), "VAL-07", "The steps.", missing="VAL-07"
        ),
        "workbook": Field(
            replace(MAPPING, hint=_WORKBOOK),
            "ROOT-07",
            "Reusable task templates, by name.",
        ),
    },
    retired={
        "vars": Retired(
            "VAL-05", "put inputs under 'workload', shared state into 'ctx' by set_ctx"
        ),
        **NEVER,
        **CONDITIONS,
    },
    unknown_code="VAL-06",
)
