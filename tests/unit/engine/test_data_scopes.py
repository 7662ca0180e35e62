"""Which data goes where: iter for one item, ctx across steps, references for much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from noetl import load

Run = Callable[..., Any]


@pytest.mark.spec("SCOPE-10", "SCOPE-06", "SCOPE-02")
def test_what_iter_holds_ends_with_the_item_and_what_ctx_holds_does_not(
    run: Run,
) -> None:
    execution = run(
        """
        - step: start
          loop: {in: [a, b], iterator: item}
          tool:
            - write:
                kind: noop
                v: "{{ [iter.mine is defined, ctx.ours | default(none)] }}"
                spec: {policy: {rules: [{else: {then: {do: continue,
                  set_iter: {mine: 1}, set_ctx: {ours: "{{ iter.item }}"}}}}]}}
            - read: {kind: noop, v: "{{ [iter.mine, ctx.ours] }}"}
          next: {arcs: [{step: end}]}
        - step: end
          tool: [{last: {kind: noop, v: "{{ [mine is defined, ctx.ours] }}"}}]
        """
    )

    assert execution.seen == [
        [False, None],
        [1, "a"],
        [False, "a"],
        [1, "b"],
        [False, "b"],
    ]
    assert execution.state.ctx == {"ours": "b"}


WRITING = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: t, path: tests/t}}
workflow:
  - step: start
    {loop}
    tool: {{kind: noop, spec: {{policy: {{rules: [{{else: {{then:
      {{do: continue, {patch}: {{k: 1}}}}}}}}]}}}}}}
"""
PARALLEL = "loop: {in: [1], iterator: x, spec: {mode: parallel}}"


@pytest.mark.spec("SCOPE-10", "WARN-02", "S-22")
@pytest.mark.parametrize(
    ("loop", "patch", "codes"),
    [
        pytest.param(PARALLEL, "set_iter", [], id="iter in a loop"),
        pytest.param(PARALLEL, "set_ctx", ["WARN-02"], id="ctx in a parallel loop"),
        pytest.param("", "set_ctx", [], id="ctx outside"),
        pytest.param("", "set_iter", ["S-22"], id="iter outside"),
    ],
)
def test_the_validator_sends_writes_to_the_right_place(
    loop: str, patch: str, codes: list[str]
) -> None:
    loaded = load(WRITING.format(loop=loop, patch=patch))

    assert [found.code for found in loaded.diagnostics] == codes


REFERENCE = {"store": "s3", "key": "b/rows.parquet", "size": 7_000_000, "checksum": "0"}


@pytest.mark.spec("SCOPE-05", "SCOPE-04", "RES-06")
def test_a_storage_task_returns_a_reference_and_ctx_keeps_it_across_steps(
    run: Run,
) -> None:
    execution = run(
        """
        - step: start
          tool:
            - fetch: {kind: http, url: "http://x"}
            - store:
                kind: python
                args: {rows: "{{ _prev }}"}
                code: "def main(rows): return put(rows)"
                spec: {policy: {rules: [{else: {then: {do: continue,
                  set_ctx: {rows: "{{ outcome.result }}"}}}}]}}
          next: {arcs: [{step: end}]}
        - step: end
          tool: [{read: {kind: noop, v: "{{ ctx.rows.store }}/{{ ctx.rows.key }}"}}]
        """,
        script={"fetch": ["x" * 70_000], "store": [REFERENCE]},
    )
    patches = [e.payload["set_ctx"] for e in execution.log if "set_ctx" in e.payload]

    assert execution.seen[-1] == "s3/b/rows.parquet"
    assert execution.state.ctx == {"rows": REFERENCE}
    assert patches == [{"rows": REFERENCE}]
    assert len(msgspec.json.encode(execution.event("step.done", "start"))) < 2_000


@pytest.mark.spec("RES-06", "VAL-04", "VAL-17")
@pytest.mark.parametrize(
    ("step", "code"),
    [
        pytest.param("{step: start, tool: {kind: sink}}", "VAL-04", id="no kind"),
        pytest.param("{step: start, sink: {}, tool: {kind: noop}}", "VAL-17", id="key"),
    ],
)
def test_there_is_no_sink(step: str, code: str) -> None:
    head = WRITING.format(loop="", patch="x").partition("  - step")[0]
    loaded = load(f"{head}  - {step}\n")

    assert not loaded.valid
    assert code in [found.code for found in loaded.diagnostics]
