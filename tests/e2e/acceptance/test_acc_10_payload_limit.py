"""ACC-10: events stay under the payload limit; large results are external."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

LIMIT = 64 * 1024
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large, path: acceptance/large}
workflow:
  - step: start
    tool:
      - fetch:
          kind: http
          url: "https://api.example.com/all"
          spec: {policy: {rules: [{else: {then:
            {do: continue, set_ctx: {all: "{{ outcome.result }}"}}}}]}}
    next:
      arcs:
        - step: each
          when: "{{ ctx.all.items | length == 2 }}"
          args: {page: "{{ ctx.all }}", names: "{{ ctx.all.names }}"}
  - step: each
    loop: {in: "{{ args.page.items }}", iterator: item, spec: {mode: parallel}}
    tool:
      - show: {kind: noop, seen: "{{ iter.item.text | length }}"}
    next:
      arcs: [{step: end, args: {sizes: "{{ event.payload.results }}"}}]
  - step: end
    tool:
      - last: {kind: noop, seen: "{{ [args.names.n7, ctx.all.names | length] }}"}
"""


@pytest.mark.spec("ACC-10", "RES-01", "RES-02", "RES-03", "EVT-01")
def test_no_event_is_larger_than_the_limit(
    accept: Any, http: Callable[..., Any]
) -> None:
    names = {f"n{number}": "x" * 50 for number in range(2000)}
    items = [{"text": "a" * 700_000}, {"text": "b" * 100_000}]
    seen: list[Any] = []

    def answer(call: Any) -> Any:
        if call.task.label == "fetch":
            return http(200, {"items": items, "names": names})
        seen.append(call.inputs["seen"])
        return http(200, {"text": "c" * 90_000})

    done = accept(PLAYBOOK, answer)

    assert done.state.status == "completed", done.state.error
    assert seen == [700_000, 100_000, ["x" * 50, 2000]]
    sizes = [len(msgspec.json.encode(event)) for event in done.log]
    assert max(sizes) <= LIMIT
    assert sum(sizes) < LIMIT, "the log holds references, and no bodies"
    assert [event.name for event in done.log if "spilled" in event.payload] != []
