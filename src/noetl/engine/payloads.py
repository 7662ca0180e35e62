"""What a ``task.done`` says: the outcome, the directive, the patches."""

from __future__ import annotations

import msgspec

from noetl.engine.outcome import Failure
from noetl.engine.policy import Verdict
from noetl.engine.spilling import names_too_large
from noetl.types import JSON


def too_many_names(verdict: Verdict) -> Failure | None:
    """Of a patch every name is in the event; only values can be stored elsewhere."""
    for name, patch in (("ctx", verdict.set_ctx), ("iter", verdict.set_iter)):
        size = names_too_large(patch) if patch else None
        if patch and size is not None:
            message = (
                f"set_{name} writes {len(patch):,} keys, which take {size:,} "
                "bytes, more than an event holds: write one key with a mapping of them"
            )
            return Failure("limit.exceeded", message)
    return None


def payload_of(outcome: JSON, verdict: Verdict) -> dict[str, JSON]:
    directive: dict[str, JSON] = {"do": verdict.do, "rule": verdict.rule}
    if verdict.to is not None:
        directive["to"] = verdict.to
    if verdict.do == "retry":
        directive |= {"attempts": verdict.attempts, "delay": verdict.delay}
    payload: dict[str, JSON] = {"outcome": outcome, "directive": directive}
    if verdict.set_iter:
        payload["set_iter"] = verdict.set_iter
    if verdict.set_ctx:
        payload["set_ctx"] = verdict.set_ctx
    return payload


def failure_of(
    outcome: JSON, label: str, error: JSON, verdict: Verdict | None = None
) -> dict[str, JSON]:
    """The pipeline ends in failure; ``do: fail`` on success is ``policy.fail``."""
    payload = payload_of(outcome, verdict or Verdict("fail"))
    if error is None:
        number = verdict.rule if verdict is not None else None
        which = "the policy" if number is None else f"rule {number + 1}"
        failure = Failure("policy.fail", f"{which} of task '{label}' says fail")
        error = msgspec.to_builtins(failure)
    payload["error"] = {**error, "task": label}
    return payload


def exhausted(
    outcome: JSON, label: str, verdict: Verdict, attempt: int
) -> dict[str, JSON]:
    """All attempts used up: ``fail``, with the last error's kind (DIR-07, S-11)."""
    error = outcome["error"] or msgspec.to_builtins(
        Failure("policy.fail", f"task '{label}' was retried {attempt} times")
    )
    error = {**error, "details": {**error["details"], "attempts": attempt}}
    ended = msgspec.structs.replace(verdict, do="fail")
    return failure_of(outcome, label, error, ended)
