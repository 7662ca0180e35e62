"""Why an execution went as it did, and why a step does not go on."""

from __future__ import annotations

from typing import Any

import pytest
from servers import ASKS, Api, Running, playbook

ORDERS = playbook(
    "why",
    """
    - step: start
      tool:
        - call:
            kind: noop
            result: {total: 7, big: "{{ 'x' * 3000 }}"}
            spec:
              policy:
                rules:
                  - when: "{{ outcome.result.total > 10 }}"
                    then: {do: fail}
                  - when: "{{ outcome.result.total > 5 and _attempt == 1 }}"
                    then: {do: continue, set_ctx: {seen: "{{ outcome.result.total }}"}}
                  - else: {then: {do: break}}
      next:
        spec: {mode: inclusive}
        arcs:
          - {step: gated, when: "{{ ctx.seen == 7 and event.payload.result.big }}"}
          - {step: never, when: "{{ ctx.seen == 8 or ctx.unknown is defined }}"}
    - step: gated
      spec:
        policy:
          admit:
            rules:
              - {when: "{{ ctx.seen > 100 }}", then: {allow: true}}
              - {else: {then: {allow: false}}}
      tool: {kind: noop}
    - step: never
      tool: {kind: noop}
      next: {arcs: [{step: after}]}
    - {step: after, tool: {kind: noop}}
    """,
)
LINES = ORDERS.splitlines()
JOINS = playbook(
    "why-join",
    """
    - step: start
      tool: {kind: noop}
      next: {spec: {mode: inclusive}, arcs: [{step: quick}, {step: asks}]}
    - {step: quick, tool: {kind: noop}, next: {arcs: [{step: both}]}}
    - {step: asks, tool: {kind: wait, signal: go}, next: {arcs: [{step: both}]}}
    - {step: both, spec: {join: {mode: all}}, tool: {kind: noop}}
    """,
)


class Asked:
    def __init__(self, api: Api, text: str, **more: Any) -> None:
        self.api = api
        self.execution_id = api.start(text, **more)

    def events(self, name: str) -> list[dict[str, Any]]:
        found = self.api.get(f"/api/executions/{self.execution_id}/events").body
        return [each for each in found["events"] if each["name"] == name]

    def why(self, query: str) -> dict[str, Any]:
        answer = self.api.get(f"/api/executions/{self.execution_id}/why?{query}")
        assert answer.status == 200, answer.body
        body: dict[str, Any] = answer.body
        return body

    def of(self, name: str) -> dict[str, Any]:
        return self.why(f"seq={self.events(name)[0]['seq']}")


@pytest.fixture(scope="module")
def orders(running: Running) -> Asked:
    asked = Asked(Api(running.url, running.token), ORDERS)
    asked.api.finish(asked.execution_id)
    return asked


def saw(considered: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each["value"] for each in considered["saw"]}


def test_an_arc_shows_what_its_guard_saw(orders: Asked) -> None:
    why = orders.of("next.evaluated")

    gated, never = why["considered"]
    assert (gated["what"], gated["verdict"]) == ("gated", "yes")
    assert (never["what"], never["verdict"]) == ("never", "no")
    assert saw(gated)["ctx.seen"] == 7
    assert saw(gated)["event.payload.result.big"]["$cut"] == 3_002
    assert [each["cut"] for each in gated["saw"]] == [False, True]
    assert [each["missing"] for each in never["saw"]] == [False, True]
    assert "step: never" in LINES[never["line"] - 1]
    assert why["decided_by"] == {"rule": 0, "line": gated["line"]}


def test_a_directive_shows_the_rules_that_were_tried(orders: Asked) -> None:
    why = orders.of("task.done")

    first, second, other = why["considered"]
    assert [each["verdict"] for each in why["considered"]] == [
        *("no", "yes", "not_looked_at"),
    ]
    assert saw(first) == {"outcome.result.total": 7}
    assert saw(second) == {"outcome.result.total": 7, "_attempt": 1}
    assert (other["guard"], other["saw"], other["what"]) == (None, [], "break")
    assert "> 5" in LINES[why["decided_by"]["line"] - 1]
    assert why["question"] == "Why continue after call, attempt 1?"


BROKEN = playbook(
    "why-broken",
    """
    - step: start
      tool:
        - call:
            kind: noop
            spec:
              policy:
                rules:
                  - {when: "{{ workload.zero == 1 }}", then: {do: fail}}
                  - {when: "{{ 1 / workload.zero > 1 }}", then: {do: fail}}
                  - else: {then: {do: continue}}
      next:
        arcs:
          - {step: end, when: "{{ 2 / workload.zero > 1 }}"}
          - {step: end, when: "{{ keychain.why_key == 'a' }}"}
    - {step: end, tool: {kind: noop}}
    """,
    root="workload: {zero: 0}\nkeychain: [{name: why_key, kind: secret_manager}]\n",
)


def test_a_guard_that_failed_is_marked(api: Api) -> None:
    kept = {"value": "open sesame", "for": ["tests/why-broken"]}
    assert api.post("/api/keychain/why_key", kept).status in (200, 201)
    asked = Asked(api, BROKEN)
    api.finish(asked.execution_id)

    rules, arcs = asked.of("task.done"), asked.of("next.evaluated")

    assert [each["verdict"] for each in rules["considered"]] == [
        *("no", "error", "not_looked_at"),
    ]
    assert saw(rules["considered"][1]) == {"workload.zero": 0}
    assert rules["considered"][1]["note"]
    assert [each["verdict"] for each in arcs["considered"]] == ["error", "no"]
    assert saw(arcs["considered"][1]) == {"keychain.why_key": "***"}
    assert "sesame" not in str(arcs)


def test_a_denied_token_shows_the_gate(orders: Asked) -> None:
    why = orders.of("step.skipped")

    assert [each["verdict"] for each in why["considered"]] == ["no", "yes"]
    assert saw(why["considered"][0]) == {"ctx.seen": 7}
    assert why["question"] == "Why did gated not begin?"
    assert "a token from start was denied" in why["answer"]


def test_a_step_that_was_not_reached_shows_every_way_in(orders: Asked) -> None:
    never, after = orders.why("step=never"), orders.why("step=after")

    [way] = never["considered"]
    assert (way["what"], way["verdict"]) == ("start -> never", "no")
    assert saw(way)["ctx.seen"] == 7
    assert never["answer"] == "no token has reached it"
    [way] = after["considered"]
    assert (way["what"], way["note"]) == ("never", "it has not run")


def test_a_step_that_has_ended_is_explained_by_its_end(orders: Asked) -> None:
    why = orders.why("step=start")

    assert why["question"] == "Why did start end?"
    assert [each["verdict"] for each in why["considered"]] == [
        *("no", "yes", "not_looked_at"),
    ]
    assert orders.why("step=gated")["question"] == "Why did gated not begin?"


def test_a_failed_step_names_its_error(api: Api) -> None:
    asked = Asked(
        api,
        playbook("why-fails", "- {step: start, tool: {kind: playbook, path: x/y}}"),
    )
    api.finish(asked.execution_id)

    why = asked.why("step=start")
    end = asked.of("workflow.finished")

    assert why["question"] == "Why did start fail?"
    assert why["answer"].startswith("playbook.not_found: ")
    assert end["question"] == "Why is the execution failed?"
    assert end["answer"] in why["answer"]


def test_what_a_join_waits_for(api: Api) -> None:
    asked = Asked(api, JOINS)
    api.await_event(asked.execution_id, "task.suspended")
    api.await_event(asked.execution_id, "token.joined")

    joined, step = asked.of("token.joined"), asked.why("step=both")

    for why in (joined, step):
        sources = {each["what"]: each for each in why["considered"]}
        assert sources["quick"]["verdict"] == "yes"
        assert sources["asks"]["verdict"] == "waiting"
    assert "1 of 2 have come" in joined["answer"]
    assert step["answer"] == "tokens wait there for others"


def test_what_a_step_waits_for_and_what_holds_it(api: Api) -> None:
    asked = Asked(api, ASKS)
    api.await_event(asked.execution_id, "task.suspended")
    waits = asked.why("step=start")
    api.post(f"/api/executions/{asked.execution_id}/pause")
    paused = asked.why("step=start")

    assert [each["what"] for each in waits["considered"]] == ["signal go"]
    assert [each["what"] for each in paused["considered"]] == ["pause", "signal go"]
    assert asked.of("task.suspended")["answer"] == "signal go"
    assert asked.why("step=end")["considered"][-1]["note"] == "it is waiting"


def test_a_place_names_the_execution_that_holds_it(api: Api) -> None:
    place = {"key": "why", "limit": 1}
    first = api.start(ASKS, concurrency=place)
    api.await_event(first, "task.suspended")
    second = Asked(api, ASKS, concurrency=place)

    [considered] = second.why("step=start")["considered"]
    for each in (second.execution_id, first):
        api.post(f"/api/executions/{each}/cancel")

    assert considered["what"] == "place of why"
    assert considered["note"].endswith(f"; held by {first}")


def test_a_step_that_no_worker_takes_names_its_pool(api: Api) -> None:
    text = "- {step: start, tool: {kind: noop, spec: {pool: gpu}}}"
    asked = Asked(api, playbook("gpu", text))

    [considered] = asked.why("step=start")["considered"]
    api.post(f"/api/executions/{asked.execution_id}/cancel")

    assert considered["what"] == "a worker of pool gpu"
    assert considered["note"] == "no worker asks for work of the pool gpu"


def test_every_event_has_an_answer(api: Api, orders: Asked) -> None:
    length = api.get(f"/api/executions/{orders.execution_id}").body["events"]

    for seq in range(1, length + 1):
        why = orders.why(f"seq={seq}")
        assert why["question"].endswith("?")
        assert why["answer"]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("", "seq"),
        ("seq=1&step=start", "seq"),
        ("seq=0", "seq"),
        ("seq=99999", "seq"),
        ("step=nowhere", "step"),
    ],
)
def test_a_question_is_checked(orders: Asked, query: str, parameter: str) -> None:
    answer = orders.api.get(f"/api/executions/{orders.execution_id}/why?{query}")

    assert (answer.status, answer.body["kind"]) == (422, "query.invalid")
    assert answer.body["parameter"] == parameter


def test_changes_of_ctx_are_listed(orders: Asked) -> None:
    path = f"/api/executions/{orders.execution_id}/ctx"
    seq = orders.events("task.done")[0]["seq"]

    whole = orders.api.get(path).body
    before = orders.api.get(f"{path}?to={seq - 1}").body
    later = orders.api.get(f"{path}?from={seq}&to={seq}").body

    [change] = whole["changes"]
    assert (change["seq"], change["step"], change["task"]) == (seq, "start", "call")
    assert (change["key"], change["before"], change["after"]) == ("seen", None, 7)
    assert (change["new"], change["refused"], whole["cursor"]) == (True, None, None)
    assert before["changes"] == []
    assert later == whole
    assert orders.api.get(f"{path}?from=0").status == 422
