"""Guards are read only as far as their text is certain."""

from __future__ import annotations

import pytest

from noetl.net.guards import ANY, NO, YES, Verdicts, read_guard
from noetl.templates import compile_guard

DONE = {"name": "step.done", "status": "success"}
FAILED = {"name": "step.failed", "status": "error"}
NOT_TRUE = frozenset({"false", "error"})
NOT_FALSE = frozenset({"true", "error"})


@pytest.mark.spec("NEXT-10", "S-29", "S-32")
@pytest.mark.parametrize(
    ("guard", "done", "failed"),
    [
        pytest.param("{{ true }}", YES, YES, id="a constant is itself"),
        pytest.param("{{ 'off' }}", NO, NO, id="a constant text is judged by S-29"),
        pytest.param("{{ 1 // 0 }}", {"error"}, {"error"}, id="a constant error"),
        pytest.param(
            "{{ event.name == 'step.done' }}", YES, NO, id="an event name is known"
        ),
        pytest.param(
            '{{ "step.failed" == event["name"] }}', NO, YES, id="in any spelling"
        ),
        pytest.param(
            "{{ event.name != 'step.failed' }}", YES, NO, id="unequal is the contrary"
        ),
        pytest.param(
            "{{ event.name in ['step.done', 'loop.done'] }}",
            YES,
            NO,
            id="one of a list",
        ),
        pytest.param(
            "{{ event.name not in ('step.done',) }}", NO, YES, id="none of a tuple"
        ),
        pytest.param("{{ event.status == 'error' }}", NO, YES, id="a status is known"),
        pytest.param("{{ not event.name == 'step.done' }}", NO, YES, id="not swaps"),
        pytest.param(
            "{{ 'x' if event.status == 'error' else true }}",
            YES,
            ANY,
            id="a text inside an expression is left alone",
        ),
        pytest.param("{{ ctx.ready }}", ANY, ANY, id="anything else may be anything"),
        pytest.param(
            "{{ event.payload.result > 3 }}", ANY, ANY, id="other fields are unknown"
        ),
        pytest.param(
            "{{ event.name == 'step.done' and ctx.ready }}",
            ANY,
            NO,
            id="and stops at its first no",
        ),
        pytest.param(
            "{{ ctx.ready and event.name == 'step.done' }}",
            ANY,
            NOT_TRUE,
            id="an unknown before a no may be an error, never a yes",
        ),
        pytest.param(
            "{{ not (ctx.ready and event.name == 'step.done') }}",
            ANY,
            NOT_FALSE,
            id="the contrary of which may be an error, never a no",
        ),
        pytest.param(
            "{{ event.name == 'step.done' or ctx.ready }}",
            YES,
            ANY,
            id="or stops at its first yes",
        ),
    ],
)
def test_reads_what_is_certain(guard: str, done: Verdicts, failed: Verdicts) -> None:
    template = compile_guard(guard)

    assert read_guard(template, DONE) == done
    assert read_guard(template, FAILED) == failed


def test_an_arc_without_guard_always_says_yes() -> None:
    assert read_guard(None, {}) == YES
