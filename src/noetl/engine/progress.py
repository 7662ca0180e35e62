"""Where a pipeline stands, folded from its recorded tasks: the same on every side.

The worker moves it forward live, the server folds it from ``task.done`` events, and a
new owner of the run starts from it. There is no other record of a pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from noetl.engine.context import apply_patch
from noetl.types import JSON


class Progress(msgspec.Struct):
    """``label`` is the task to run next, None once the pipeline has ended.

    ``due`` is when a retry may begin, as text like every time in the log; ``in_doubt``
    counts owners that were lost after ``task.started`` of this attempt.
    """

    label: str | None
    attempt: int = 1
    visits: dict[str, int] = msgspec.field(default_factory=dict)
    started: bool = False
    in_doubt: int = 0
    delay: float = 0.0
    prev: JSON = None
    result: JSON = None
    iter: dict[str, JSON] | None = None
    tasks: int = 0
    end: Literal["done", "failed"] | None = None
    error: dict[str, JSON] | None = None


def begin(first: str, iteration: dict[str, JSON] | None) -> Progress:
    """A pipeline before its first task."""
    return Progress(first, visits={first: 1}, iter=iteration)


def note_started(progress: Progress) -> None:
    if progress.started:
        progress.in_doubt += 1
    progress.started = True
    progress.delay = 0.0


def note_done(progress: Progress, payload: Mapping[str, JSON]) -> None:
    """Apply one ``task.done``: patches, ``_prev``, the program counter."""
    directive, result = payload["directive"], payload["outcome"]["result"]
    do = directive["do"]
    if payload.get("set_iter") and progress.iter is not None:
        progress.iter = apply_patch(progress.iter, payload["set_iter"])
    if do not in ("retry", "skip"):
        progress.prev = result
    if do != "skip":
        progress.result = result
    progress.tasks += 1
    progress.started, progress.in_doubt = False, 0
    if do == "retry":
        progress.attempt += 1
        progress.delay = directive["delay"]
        return
    label = directive.get("next")
    progress.label, progress.attempt = label, 1  # S-14: a visit counts from one
    if label is not None:
        progress.visits[label] = progress.visits.get(label, 0) + 1
    else:
        progress.end = "failed" if do == "fail" else "done"
        progress.error = payload.get("error")
