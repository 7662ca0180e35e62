"""Every record of the canonical language."""

from __future__ import annotations

from noetl.dsl.grammar.document import (
    CONCURRENCY,
    EXECUTOR,
    EXECUTOR_SPEC,
    KEYCHAIN_ENTRY,
    LIMITS,
    METADATA,
    RESULT,
    RESULT_STORE,
    ROOT,
)
from noetl.dsl.grammar.shape import Record
from noetl.dsl.grammar.steps import (
    ADMIT,
    ADMIT_ELSE,
    ADMIT_RULE,
    ADMIT_THEN,
    ARC,
    JOIN,
    LOOP,
    LOOP_POLICY,
    LOOP_SPEC,
    NEXT_SPEC,
    ROUTER,
    STEP,
    STEP_POLICY,
    STEP_SPEC,
)
from noetl.dsl.grammar.tasks import ELSE, RULE, TASK_POLICY, TASK_SPEC, THEN

RECORDS: tuple[Record, ...] = (
    ROOT,
    METADATA,
    KEYCHAIN_ENTRY,
    EXECUTOR,
    EXECUTOR_SPEC,
    CONCURRENCY,
    LIMITS,
    RESULT,
    RESULT_STORE,
    STEP,
    STEP_SPEC,
    STEP_POLICY,
    JOIN,
    ADMIT,
    ADMIT_RULE,
    ADMIT_THEN,
    ADMIT_ELSE,
    LOOP,
    LOOP_SPEC,
    LOOP_POLICY,
    TASK_SPEC,
    TASK_POLICY,
    RULE,
    ELSE,
    THEN,
    ROUTER,
    NEXT_SPEC,
    ARC,
)
