"""``/api/executions/{id}/fork`` and ``/retry``."""

from __future__ import annotations

from typing import Any

import pytest
from servers import HELLO, Answer, Api, Running, playbook

pytestmark = pytest.mark.spec("SRV-01", "SRV-03", "S-46")

TEXT = """
- step: first
  tool:
    kind: noop
    spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: 1}}}}]}}
  next: {arcs: [{step: second}]}
- step: second
  tool: {kind: python, code: "result = 10 // divisor", args: {divisor: "{{ workload.by }}"}}
  next: {arcs: [{step: last, when: "{{ event.name == 'step.done' }}",
    args: {x: "{{ event.payload.result }}"}}]}
- step: last
  tool: {kind: noop, result: "{{ args.x + ctx.n }}"}
"""  # noqa: E501
FAILS = playbook("fails", TEXT, "workload: {by: 0}\n")


@pytest.fixture(scope="module")
def failed(running: Running) -> str:
    document = Api(running.url, running.token).run(FAILS)
    assert document["status"] == "failed"
    name: str = document["execution_id"]
    return name


def order(api: Api, execution_id: str, verb: str, **body: Any) -> Answer:
    return api.post(f"/api/executions/{execution_id}/{verb}", body)


def test_what_failed_runs_again_with_another_input(api: Api, failed: str) -> None:
    answer = order(api, failed, "retry", workload={"by": 2})

    assert answer.status == 201, answer.body
    name = answer.body["execution_id"]
    assert answer.headers["location"] == f"/api/executions/{name}"
    done = api.finish(name)
    assert (done["status"], done["result"]) == ("completed", 6)
    assert done["forked_from"]["execution_id"] == failed
    kept = {step["step"]: step["kept"] for step in done["steps"]}
    assert kept == {"first": True, "second": False, "last": False}
    assert api.get(f"/api/executions/{failed}").body["status"] == "failed"


@pytest.mark.parametrize("verb", ["fork", "retry"])
def test_who_asked_for_it_is_in_its_log_and_in_the_audit(
    api: Api, failed: str, verb: str
) -> None:
    body = {"workload": {"by": 2}} | ({"at": 4} if verb == "fork" else {})

    name = order(api, failed, verb, **body).body["execution_id"]

    [first] = api.get(f"/api/executions/{name}/events?limit=1").body["events"]
    caller, began = first["payload"]["caller"], api.start(HELLO)
    [started] = api.get(f"/api/executions/{began}/events?limit=1").body["events"]
    assert (caller["principal"], caller["address"]) == ("local", "127.0.0.1")
    assert caller.keys() == started["payload"]["caller"].keys()
    assert len(caller["sha256"]) == 64
    again = order(api, failed, verb, **body).body["execution_id"]
    [other] = api.get(f"/api/executions/{again}/events?limit=1").body["events"]
    assert other["payload"]["caller"] == caller, "they asked for the same"
    [line] = api.get(f"/api/audit?action={verb}_execution&limit=1").body["entries"]
    assert (line["principal"], line["status"]) == ("local", 201)
    assert line["target"] == {"execution_id": failed}


def test_a_fork_of_a_fork_has_its_own_caller(
    api: Api, running: Running, failed: str
) -> None:
    first = order(api, failed, "fork", at=4).body["execution_id"]
    api.finish(first)
    other = running.person("petra", "operator")

    second = order(other, first, "fork", at=4).body["execution_id"]

    events = api.get(f"/api/executions/{second}/events").body["events"]
    callers = [e["payload"]["caller"] for e in events if "caller" in e["payload"]]
    assert [each["principal"] for each in callers] == ["petra"]


def test_a_step_and_what_came_after_it(api: Api, failed: str) -> None:
    answer = order(api, failed, "retry", step="first", workload={"by": 5})

    done = api.finish(answer.body["execution_id"])
    assert done["result"] == 3
    assert not any(step["kept"] for step in done["steps"])


def test_a_fork_goes_on_from_an_event_with_other_values(api: Api, failed: str) -> None:
    events = api.get(f"/api/executions/{failed}/events").body["events"]
    [at] = [
        event["seq"]
        for event in events
        if event["name"] == "step.scheduled" and event["step"] == "second"
    ]

    answer = order(api, failed, "fork", at=at, workload={"by": 1}, ctx={"n": 100})

    assert answer.status == 201, answer.body
    assert answer.body["at"] <= at
    assert api.finish(answer.body["execution_id"])["result"] == 110


def test_a_newer_playbook_takes_over(api: Api, failed: str) -> None:
    mended = playbook("fails", TEXT.replace("10 //", "30 //"), "workload: {by: 3}\n")

    answer = order(api, failed, "retry", playbook=mended)

    assert answer.status == 201, answer.body
    assert api.finish(answer.body["execution_id"])["result"] == 11


def test_it_can_be_looked_at_before(api: Api, failed: str) -> None:
    before = len(api.get("/api/executions?limit=1000").body["executions"])

    answer = order(api, failed, "retry", dry_run=True, workload={"by": 2})

    assert answer.status == 200
    assert answer.body["kept"] == [{"step": "first", "status": "done", "runs": 1}]
    assert [each["step"] for each in answer.body["next"]] == ["second"]
    assert answer.body["workload"] == {"by": 2}
    after = len(api.get("/api/executions?limit=1000").body["executions"])
    assert after == before, "nothing was started"


@pytest.mark.parametrize(
    ("verb", "body", "kind", "message"),
    [
        ("fork", {"at": 9999}, "fork.impossible", "there is no event 9999"),
        ("fork", {"at": 1}, "fork.impossible", "no step has begun at event 1"),
        ("fork", {"at": 0}, "request.invalid", "at"),
        ("fork", {}, "request.invalid", "at"),
        ("retry", {"step": "secnod"}, "fork.impossible", "did you mean 'second'"),
        ("retry", {"run": 2}, "fork.impossible", "--run needs a step"),
        ("retry", {"step": "first", "run": 2}, "fork.impossible", "no run 2"),
        ("retry", {"playbook": "a: b"}, "playbook.invalid", "not a valid playbook"),
        ("retry", {"playbook": HELLO}, "fork.impossible", "path is"),
        ("retry", {"workloda": {}}, "request.unknown_field", "workloda"),
        (
            "retry",
            {"workload": {"by": {"store": "noetl", "key": "0" * 64}}},
            *("ref.not_owner", "$.workload.by claims to be a reference"),
        ),
    ],
)
def test_a_mistake_is_explained(
    api: Api, failed: str, verb: str, body: dict[str, Any], kind: str, message: str
) -> None:
    answer = order(api, failed, verb, **body)

    assert answer.body["kind"] == kind, answer.body
    assert message in answer.body["message"]
    assert answer.status in (403, 409, 422)


def test_what_runs_is_not_tried_again(api: Api) -> None:
    waits = playbook("waits", "- {step: start, tool: {kind: wait, signal: go}}")
    name = api.start(waits)
    api.await_event(name, "task.suspended")

    answer = order(api, name, "retry")

    assert (answer.status, answer.body["kind"]) == (409, "fork.impossible")
    assert "has not finished: waiting" in answer.body["message"]
    assert order(api, name, "cancel").status == 200


def test_it_needs_the_right_to_steer_and_for_a_text_to_write(
    running: Running, failed: str
) -> None:
    viewer = running.person("fork-viewer", "viewer")
    operator = running.person("fork-operator", "operator")
    author = running.person("fork-author", "author")

    assert order(viewer, failed, "retry").status == 403
    assert order(operator, failed, "retry", playbook=FAILS).status == 403
    assert order(author, failed, "retry", playbook=FAILS).status == 403, "it has code"
    assert order(operator, failed, "retry", dry_run=True).status == 200


LOOP = playbook(
    "loops",
    """
    - step: work
      spec: {policy: {failure: best_effort}}
      loop: {in: "{{ range(workload.n) | list }}", iterator: x}
      tool:
        - divide: {kind: noop, result: "{{ 6 // (iter.x - workload.bad) }}", spec: {
            policy: {rules: [{when: "{{ outcome.status == 'error' }}",
            then: {do: fail}}, {else: {then: {do: continue}}}]}}}
    """,
)


@pytest.mark.spec("S-76")
def test_a_preview_counts_kept_iterations_and_names_a_changed_collection(
    api: Api,
) -> None:
    body = {"playbook": LOOP, "workload": {"n": 5, "bad": 2}}
    origin = api.post("/api/executions", body).body["execution_id"]
    api.finish(origin)

    def preview(**workload: int) -> Any:
        asked = {"dry_run": True, "workload": workload}
        return api.post(f"/api/executions/{origin}/retry", asked).body["next"]

    [same], [edited], [changed] = preview(), preview(bad=9), preview(n=4)
    made = api.post(f"/api/executions/{origin}/retry", {"workload": {"bad": 9}}).body

    kept = {"total": 5, "kept": 4, "again": 1}
    assert (same["step"], same["iterations"], same["changed"]) == ("work", kept, False)
    assert (edited["iterations"], edited["changed"]) == (kept, False)
    assert (changed["iterations"]["kept"], changed["changed"]) == (0, True)
    document = api.finish(made["execution_id"])
    assert document["result"] == [-3, -6, -1, 6, 3]
    assert document["steps"][0]["iterations"]["done"] == 5
