"""``noetl fork`` and ``noetl retry``: what was done is kept, the rest runs again."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from demo_api import DemoApi
from stored_log import SqliteLog

SHOP = """
- step: list
  tool:
    kind: http
    url: "{{ workload.api }}/orders?page=2&size=3"
    spec: {policy: {rules: [{else: {then: {do: continue,
      set_ctx: {found: "{{ outcome.result.orders | length }}"}}}}]}}
  next: {arcs: [{step: price}]}
- step: price
  tool: {kind: http, url: "{{ workload.api }}/orders/3"}
  next: {arcs: [{step: order, args: {amount: "{{ event.payload.result.amount }}"}}]}
- step: order
  tool: {kind: http, url: "{{ workload.api }}/orders/{{ workload.order }}"}
  next:
    arcs:
      - step: report
        when: "{{ event.name == 'step.done' }}"
        args: {who: "{{ event.payload.result.customer }}"}
- step: report
  tool: {kind: noop, result: "{{ args.who }} {{ args.amount }} of {{ ctx.found }}"}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[DemoApi]:
    api = DemoApi()
    yield api
    api.stop()


@pytest.fixture
def api(server: DemoApi) -> DemoApi:
    server.post("/reset")
    return server


def shop(shell: Any, api: DemoApi) -> str:
    return str(shell.write("shop", SHOP, f"workload: {{api: {api.url}, order: 99}}\n"))


def forked(shell: Any, *args: str, code: int = 0) -> dict[str, Any]:
    done = shell.noetl(*args, "--json")
    assert done.returncode == code, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def seq_of(shell: Any, execution_id: str, name: str, step: str | None = None) -> int:
    """The last event of this name."""
    found = [
        event["seq"]
        for event in shell.events(execution_id)
        if event["name"] == name and step in (None, event["step"])
    ]
    return int(found[-1])


def refused(shell: Any, *args: str) -> str:
    before = len(shell.executions())
    done = shell.noetl(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert len(shell.executions()) == before
    return str(done.stderr)


@pytest.mark.spec("REP-01", "REP-02", "REP-05")
def test_a_fork_with_a_mended_input_calls_nothing_again(
    shell: Any, api: DemoApi
) -> None:
    origin = shell.run(shop(shell, api))
    at = seq_of(shell, origin["execution_id"], "task.started", "order")
    log = shell.events(origin["execution_id"])

    fork = forked(
        shell, "fork", origin["execution_id"], "--at", str(at), "--set", "order=4"
    )

    assert (origin["status"], fork["status"]) == ("failed", "completed")
    assert fork["result"] == "ada 30 of 3"
    assert fork["workload"]["order"] == 4
    assert [step["kept"] for step in fork["steps"]] == [True, True, False, False]
    assert api.calls() == {
        "GET /orders": {"200": 1},
        "GET /orders/3": {"200": 1},
        "GET /orders/99": {"404": 1},
        "GET /orders/4": {"200": 1},
    }
    assert shell.events(origin["execution_id"]) == log
    lineage = {"execution_id": origin["execution_id"], "seq": at}
    assert fork["forked_from"] == lineage
    assert [each["forked_from"] for each in shell.executions()] == [lineage, None]


@pytest.mark.spec("EVT-01", "REP-01", "REP-05")
def test_a_fork_is_rebuilt_from_its_log_alone(shell: Any, api: DemoApi) -> None:
    origin = shell.run(shop(shell, api))
    fork = forked(
        shell, "retry", origin["execution_id"], "--from", "order", "--set", "order=4"
    )
    name = fork["execution_id"]

    assert shell.noetl("verify", "--execution", "all").returncode == 0
    replayed = json.loads(shell.noetl("replay", name, "--json").stdout)
    assert (replayed["status"], replayed["ctx"]) == ("completed", fork["ctx"])
    shown = json.loads(shell.noetl("show", name, "--json").stdout)
    assert {**shown, "duration_ms": 0} == {**fork, "duration_ms": 0}
    events = shell.events(name)
    assert {event["execution_id"] for event in events} == {name}
    kept = [e for e in shell.events(origin["execution_id"]) if e["name"] == "task.done"]
    mine = [e for e in events if e["name"] == "task.done"]
    assert [e["action_id"] for e in mine[:2]] == [e["action_id"] for e in kept[:2]]
    assert mine[-1]["action_id"] not in [e["action_id"] for e in kept]
    said = shell.noetl("show", name).stdout
    assert f"forked from {origin['execution_id']} at event" in said
    assert f"forked from {origin['execution_id'][-8:]}" in shell.noetl("list").stdout


def test_a_newer_playbook_goes_on_with_what_was_done(shell: Any, api: DemoApi) -> None:
    origin = shell.run(shop(shell, api))
    mended = SHOP.replace("{{ args.who }}", "{{ workload.greeting }}")
    root = "workload: {api: nowhere, order: 7, greeting: hello}\n"
    shell.write("newer", mended, root)

    fork = forked(
        *(shell, "retry", origin["execution_id"], "--from", "order"),
        *("--playbook", "newer.yaml", "--set", f"api={api.url}"),
    )

    assert fork["result"] == "hello 30 of 3"
    assert (fork["workload"]["order"], fork["playbook"]["name"]) == (7, "newer")
    assert api.calls()["GET /orders/3"] == {"200": 1}


def test_given_values_stay_and_newer_defaults_apply(shell: Any) -> None:
    flow = "- {step: a, tool: {kind: noop, result: '{{ workload }}'}}"
    old = shell.write("old", flow, "workload: {a: 1, b: 2, deep: {c: 3, d: 4}}\n")
    shell.write("newer", flow, "workload: {a: 10, b: 20, deep: {c: 30, d: 4}, e: 5}\n")
    shell.run(old, "--set", "b=7", "--set", "deep.d=8")

    fork = forked(shell, "retry", "last", "--from", "a", "--playbook", "newer.yaml")

    assert fork["result"] == {"a": 10, "b": 7, "deep": {"c": 30, "d": 8}, "e": 5}


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        (SHOP.replace("order,", "orders,").replace("step: order\n", "step: orders\n"),
         "no step 'order' any more, and it is running (did you mean 'orders'?)"),
        (SHOP.replace("step: order\n", "step: order\n  loop: {in: [1], iterator: x}\n"),
         "step 'order' is running with no loop, and has a loop now"),
    ],
)  # fmt: skip
def test_a_newer_playbook_that_cannot_take_over_is_refused(
    shell: Any, api: DemoApi, flow: str, words: str
) -> None:
    origin = shell.run(shop(shell, api))["execution_id"]
    at = seq_of(shell, origin, "task.started", "order")
    shell.write("newer", flow)

    said = refused(shell, "fork", origin, "--at", str(at), "--playbook", "newer.yaml")

    assert f"newer.yaml cannot take over at event {at}" in said
    assert words in said


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["fork", "last", "--at", "0"], "events count from 1"),
        (["fork", "last", "--at", "2"], "no step has begun at event 2"),
        (["fork", "last", "--at", "999"], "there is no event 999: the log has 1 to 23"),
        (
            ["fork", "last", "--at", "23"],
            "the execution was finished at event 22: keep fewer events",
        ),
        (["fork", "last", "--at", "21"], "--from order"),
        (["fork", "nobody", "--at", "3"], "no execution 'nobody'"),
        (["retry", "last", "--from", "ordr"], "did you mean 'order'?"),
        (["retry", "last", "--from", "report"], "step 'report' was never reached"),
        (["retry", "last", "--from", "list", "--run", "2"], "has 1 run: there is no"),
        (["retry", "last", "--from", "list", "--set-ctx", "x"], "write it as name="),
    ],
)
def test_a_mistake_is_explained(
    shell: Any, api: DemoApi, args: list[str], words: str
) -> None:
    shell.run(shop(shell, api))

    assert words in refused(shell, *args)


def test_a_dry_run_says_what_would_happen(shell: Any, api: DemoApi) -> None:
    shell.run(shop(shell, api))

    outlook = forked(shell, "retry", "last", "--from", "order", "--dry-run")
    said = shell.noetl(
        "retry", "last", "--from", "order", "--set", "ordr=4", "--dry-run"
    )

    assert [each["step"] for each in outlook["kept"]] == ["list", "price"]
    assert [each["step"] for each in outlook["next"]] == ["order"]
    assert "keep   list: done\n  keep   price: done\n  start  order" in said.stdout
    assert "with other values in workload: ordr" in said.stdout
    assert "workload has no 'ordr', but it has 'order'" in said.stderr
    assert len(shell.executions()) == 1


def test_an_event_that_is_half_of_a_decision(shell: Any, api: DemoApi) -> None:
    """The arcs of a step that has ended are judged again; it is not called again."""
    origin = shell.run(shop(shell, api))["execution_id"]
    at = seq_of(shell, origin, "step.done", "price")

    done = shell.noetl("fork", origin, "--at", str(at), "--set", "order=1", "--json")

    assert (
        f"cannot cut at event {at}, inside a decision; cutting at {at - 1}"
        in done.stderr
    )
    assert json.loads(done.stdout)["result"] == "grace 30 of 3"
    assert api.calls()["GET /orders/3"] == {"200": 1}


LOOP = """
- step: each
  loop: {in: "{{ range(workload.n) }}", iterator: i, spec: {mode: parallel}}
  tool:
    - call:
        kind: shell
        command: "echo {{ iter.i }} >> {{ workload.file }}"
    - result: {kind: noop, result: "{{ iter.i * 10 }}"}
  next: {arcs: [{step: sum, args: {all: "{{ event.payload.results }}"}}]}
- step: sum
  tool: {kind: python, args: {all: "{{ args.all }}", f: "{{ workload.factor }}"},
    code: "def main(all, f): return sum(all) * f"}
"""


def test_a_loop_keeps_the_iterations_that_were_over(shell: Any) -> None:
    calls = shell.folder / "calls"
    root = f"workload: {{n: 6, file: {calls}, factor: 1}}\n"
    origin = shell.run(shell.write("loop", LOOP, root))
    name = origin["execution_id"]
    ends = [e for e in shell.events(name) if e["name"] == "loop.iteration.done"]
    at = ends[3]["seq"]

    middle = forked(shell, "fork", name, "--at", str(at), "--set", "factor=2")
    after = forked(shell, "retry", name, "--from", "sum", "--set", "factor=3")

    assert [x["result"] for x in (origin, middle, after)] == [150, 300, 450]
    assert middle["steps"][0]["iterations"]["done"] == 6
    written = calls.read_text().split()
    kept = {
        event["iteration_id"].rpartition("/")[2]
        for event in shell.events(name)[:at]
        if event["name"] == "task.done" and event["task_label"] == "call"
    }
    assert sorted(written) == sorted([*"012345", *(set("012345") - kept)])


LARGE = """
- step: each
  loop: {in: "{{ range(40) }}", iterator: i, spec: {mode: parallel}}
  tool: {kind: noop, result: "{{ [iter.i] * 1000 }}"}
  next: {arcs: [{step: keep, args: {rows: "{{ event.payload.results }}"}}]}
- step: keep
  tool:
    kind: noop
    spec: {policy: {rules: [{else: {then: {do: continue,
      set_ctx: {rows: "{{ args.rows | ref }}", big: "{{ 'x' * 90000 }}"}}}}]}}
  next: {arcs: [{step: size}]}
- step: size
  tool:
    kind: python
    args: {rows: "{{ args.rows }}", big: "{{ ctx.big }}", f: "{{ workload.f }}"}
    code: "def main(rows, big, f): return [len(rows) * f, rows[39][0], len(big)]"
"""


@pytest.mark.spec("S-48")
def test_large_values_of_the_origin_read_as_themselves(shell: Any) -> None:
    shell.run(shell.write("large", LARGE, "workload: {f: 0}\n"))

    fork = forked(shell, "retry", "last", "--from", "size", "--set", "f=1")

    assert fork["result"] == [40, 39, 90_000]
    with closing(sqlite3.connect(shell.home / "log.db")) as db:
        db.execute("DROP TRIGGER batch_is_never_removed")
        db.execute("DELETE FROM batch WHERE key < 2 * 4294967296")  # all of the origin
        db.commit()
    again = forked(
        *(shell, "retry", fork["execution_id"], "--from", "size", "--set", "f=2")
    )
    assert again["result"] == [80, 39, 90_000]


ASK = """
- step: prepare
  tool: {kind: shell, command: "echo 1 >> {{ workload.file }}"}
  next: {arcs: [{step: ask}]}
- step: ask
  tool:
    - wait: {kind: wait, signal: approved}
    - say: {kind: noop, result: "{{ _prev.by }} for {{ workload.what }}"}
"""


@pytest.mark.spec("S-54", "S-68")
def test_a_running_execution_is_forked_and_left_alone(shell: Any) -> None:
    calls = shell.folder / "calls"
    root = f"workload: {{file: {calls}, what: tea}}\n"
    process = shell.start("run", shell.write("ask", ASK, root), "--json")
    origin = shell.await_event(process, "ask", "task.suspended")
    at = str(seq_of(shell, origin, "task.suspended"))

    other = shell.start("fork", origin, "--at", at, "--set", "what=milk", "--json")
    fork = ""
    while not fork:
        waiting = [x for x in shell.executions("ask") if x["status"] == "waiting"]
        fork = next((x["execution_id"] for x in waiting if x["forked_from"]), "")
    shell.noetl("signal", fork, "approved", "--data", '{"by": "ana"}')
    ended = json.loads(other.communicate()[0])
    assert shell.noetl("show", origin, "--json").returncode == 0
    shell.noetl("signal", origin, "approved", "--data", '{"by": "bob"}')
    first = json.loads(process.communicate()[0])

    assert (ended["result"], first["result"]) == ("ana for milk", "bob for tea")
    assert calls.read_text() == "1\n"


def test_only_what_is_over_is_tried_again(shell: Any) -> None:
    root = f"workload: {{file: {shell.folder / 'calls'}, what: tea}}\n"
    process = shell.start("run", shell.write("ask", ASK, root), "--json")
    origin = shell.await_event(process, "ask", "task.suspended")

    said = refused(shell, "retry", origin, "--from", "ask")
    shell.noetl("cancel", origin)
    process.communicate()
    at = seq_of(shell, origin, "workflow.cancelled")
    cancelled = refused(shell, "fork", origin, "--at", str(at + 1))
    other = shell.start("retry", origin, "--from", "ask", "--json")
    fork = ""
    while not fork:
        waiting = [x for x in shell.executions("ask") if x["status"] == "waiting"]
        fork = next((x["execution_id"] for x in waiting), "")
    shell.noetl("signal", fork, "approved", "--data", '{"by": "eve"}')

    assert f"{origin} has not finished: waiting" in said
    assert f"the execution was cancelled at event {at}" in cancelled
    assert json.loads(other.communicate()[0])["result"] == "eve for tea"


SLOW = """
- step: first
  tool: {kind: shell, command: "echo first >> {{ workload.file }}"}
  next: {arcs: [{step: slow}]}
- step: slow
  tool:
    - sleep:
        kind: shell
        command: "echo slow >> {{ workload.file }}; {{ workload.do }}"
    - say: {kind: noop, result: "{{ workload.do }}"}
"""


@pytest.mark.spec("S-45", "ACC-12")
def test_a_fork_that_was_killed_is_resumed(shell: Any) -> None:
    calls = shell.folder / "calls"
    root = f"workload: {{file: {calls}, do: 'false'}}\n"
    shell.run(shell.write("slow", SLOW, root))
    held = f"while test ! -e {shell.folder}/go; do sleep 0.01; done"

    process = shell.start("retry", "last", "--from", "slow", "--set", f"do={held}")
    fork = ""
    while calls.read_text().count("slow") < 2:
        assert process.poll() is None, process.communicate()
    fork = shell.executions("slow")[0]["execution_id"]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (shell.folder / "go").touch()
    resumed = forked(shell, "resume", fork)

    assert (resumed["status"], resumed["result"]) == ("completed", held)
    assert [step["kept"] for step in resumed["steps"]] == [True, False]
    assert calls.read_text().split() == ["first", "slow", "slow", "slow"]
    started = [e for e in shell.events(fork) if e["name"] == "task.started"]
    assert started[-2]["payload"] == {"in_doubt": 1}
    assert shell.noetl("verify", "--execution", fork).returncode == 0


CHILD = """
- step: start
  tool: {kind: shell, command: "echo {{ execution_id }} >> {{ workload.file }}"}
  next: {arcs: [{step: many}]}
- step: many
  loop: {in: "{{ range(workload.n) }}", iterator: i, spec: {mode: parallel}}
  tool: {kind: noop, result: "{{ [iter.i] * 1000 }}"}
"""
PARENT = """
- step: call
  tool: {kind: playbook, path: tests/child,
    args: {file: "{{ workload.file }}", n: "{{ workload.n }}"}}
  next: {arcs: [{step: size, args: {rows: "{{ event.payload.result | ref }}"}}]}
- step: size
  tool: {kind: python, args: {rows: "{{ args.rows }}", f: "{{ workload.f }}"},
    code: "def main(rows, f): return len(rows) * f"}
"""


@pytest.mark.spec("S-37", "S-48")
def test_finished_children_are_reused_and_others_are_called_again(
    shell: Any,
) -> None:
    calls = shell.folder / "calls"
    shell.write("child", CHILD)
    root = f"workload: {{file: {calls}, n: 40, f: 0, what: x}}\n"
    origin = shell.run(shell.write("parent", PARENT, root))["execution_id"]
    at = seq_of(shell, origin, "task.suspended")
    process = shell.start("run", shell.write("ask", ASK, root))
    shell.await_event(process, "ask", "task.suspended")
    process.kill()  # its log is not free any more: forks are in another one
    process.communicate()
    calls.unlink()

    after = forked(shell, "retry", origin, "--from", "size", "--set", "f=1")
    anew = forked(shell, "fork", origin, "--at", str(at), "--set", "f=2")

    assert (after["result"], anew["result"]) == (40, 80)
    called = [each["execution_id"] for each in shell.executions("child")]
    assert calls.read_text().split() == called[:1]
    assert len(called) == 2
    assert (shell.home / "log-2.db").exists()


def test_a_child_is_forked_as_an_execution_of_its_own(shell: Any) -> None:
    calls = shell.folder / "calls"
    shell.write("child", CHILD)
    root = f"workload: {{file: {calls}, n: 2, f: 1}}\n"
    origin = shell.run(shell.write("parent", PARENT, root))
    [child] = shell.executions("child")

    fork = forked(
        *(shell, "retry", child["execution_id"], "--from", "many", "--set", "n=3")
    )

    assert (origin["result"], len(fork["result"])) == (2, 3)
    assert shell.executions("child")[0]["parent_id"] is None


def test_a_damaged_log_can_be_forked_before_the_damage(
    shell: Any, api: DemoApi
) -> None:
    origin = shell.run(shop(shell, api))["execution_id"]
    at = seq_of(shell, origin, "task.started", "price")
    log = SqliteLog(shell.home / "log.db", origin)
    body = log.read(at + 1)
    log.write(at + 1, body.replace(b'"amount":30', b'"amount":31'))

    said = refused(shell, "retry", origin, "--from", "order")
    fork = forked(shell, "fork", origin, "--at", str(at), "--set", "order=1")

    [row] = [row for row in log.rows() if row.first_seq == at + 1]
    events = f"the events {at + 1} to {row.last_seq}"
    assert f"{origin} is damaged: one of {events} is not what was recorded" in said
    assert f"--at {at}" in said
    assert fork["result"] == "grace 30 of 3"


def test_deadlines_begin_anew(shell: Any) -> None:
    flow = """
    - step: a
      spec: {deadline: 1h}
      tool: [{x: {kind: noop}}, {y: {kind: shell, command: "{{ workload.do }}"}}]
    """
    root = "executor: {spec: {deadline: 2h}}\nworkload: {do: 'false'}\n"
    origin = shell.run(shell.write("timed", flow, root))["execution_id"]
    at = str(seq_of(shell, origin, "task.done") - 1)

    edits = ("--set", "do=true", "--timeout", "1h")
    fork = forked(shell, "fork", origin, "--at", at, *edits)
    [event] = [
        e for e in shell.events(fork["execution_id"]) if e["name"] == "workflow.forked"
    ]

    deadline, [(run, moment)] = (
        event["payload"]["deadline"],
        event["payload"]["deadlines"].items(),
    )
    assert fork["status"] == "completed"
    assert run == fork["steps"][0]["step_run_id"]
    assert deadline == moment
    assert event["timestamp"] < moment


LOGIN = """
- step: login
  tool:
    kind: secrets
    provider: env
    name: API_TOKEN
    spec: {policy: {rules: [{else: {then: {do: continue,
      set_ctx: {token: "{{ outcome.result }}"}}}}]}}
  next: {arcs: [{step: ask}]}
- step: ask
  tool: {kind: wait, signal: go}
  next: {arcs: [{step: use}]}
- step: use
  tool:
    kind: python
    args: {t: "{{ ctx.token }}", k: "{{ keychain.api }}"}
    code: "def main(t, k): return [t == 'tok-3f9a7c21', k == 'key-51b2f00d', t]"
"""
KEYCHAIN = "keychain: [{name: api, kind: env, variable: API_KEY}]\n"


def waiting_login(shell: Any) -> Any:
    shell._env |= {"API_TOKEN": "tok-3f9a7c21", "API_KEY": "key-51b2f00d"}
    return shell.start("run", shell.write("login", LOGIN, KEYCHAIN), "--json")


@pytest.mark.spec("S-41", "S-67", "KEY-03")
def test_a_fork_opens_what_its_origin_still_has(shell: Any) -> None:
    process = waiting_login(shell)
    origin = shell.await_event(process, "login", "task.suspended")
    at = str(seq_of(shell, origin, "task.suspended"))
    other = shell.start("fork", origin, "--at", at, "--json")
    fork = ""
    while not fork:
        found = [x for x in shell.executions("login") if x["status"] == "waiting"]
        fork = next((x["execution_id"] for x in found if x["forked_from"]), "")
    shell.noetl("signal", origin, "go")
    first = json.loads(process.communicate()[0])
    shell.noetl("signal", fork, "go")
    second = json.loads(other.communicate()[0])

    assert first["result"] == second["result"] == [True, True, "***"]
    assert list((shell.home / "sealed").iterdir()) == []


@pytest.mark.spec("S-41", "S-67", "KEY-03")
def test_secrets_of_an_origin_that_has_ended_are_gone(shell: Any) -> None:
    process = waiting_login(shell)
    origin = shell.await_event(process, "login", "task.suspended")
    shell.noetl("signal", origin, "go")
    process.communicate()
    fetched = seq_of(shell, origin, "task.done", "login")

    said = refused(shell, "retry", origin, "--from", "use")
    edited = forked(shell, "retry", origin, "--from", "use", "--set-ctx", "token=none")
    del shell._env["API_KEY"]
    unresolved = forked(shell, "retry", origin, "--from", "use", code=2)

    assert "ctx.token holds a secret that task 'task_1' of step 'login' fetched" in said
    assert f"--at {fetched - 1} or earlier" in said
    assert edited["result"] == [False, True, "none"]
    assert unresolved["error"]["kind"] == "keychain.unresolved"
    assert unresolved["forked_from"]["execution_id"] == origin
    assert list((shell.home / "sealed").iterdir()) == []


FAN = """
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}
- step: a
  tool: {kind: shell, command: "echo a >> {{ workload.file }}; {{ workload.do }}"}
  next: {arcs: [{step: end, when: "{{ event.name == 'step.done' }}"}]}
- step: b
  tool: [{nap: {kind: wait, for: 300ms}},
    {say: {kind: shell, command: "echo b >> {{ workload.file }}"}}]
  next: {arcs: [{step: end}]}
- step: c
  spec: {policy: {admit: {rules: [{when: "{{ args.n / workload.n > 0 }}",
    then: {allow: true}}]}}}
  tool: {kind: shell, command: "echo c >> {{ workload.file }}"}
- step: end
  spec: {join: {mode: all}}
  tool: {kind: shell, command: "echo end >> {{ workload.file }}"}
"""


def test_the_page_of_a_fork_shows_the_inherited_events(shell: Any) -> None:
    """What failed and was done again is no failure of the fork."""
    root = "workload: {n: 0}\n"
    flow = """
    - step: first
      tool: {kind: noop, result: 1}
      next: {arcs: [{step: divide}]}
    - step: divide
      tool: {kind: noop, result: "{{ 6 // workload.n }}"}
    """
    origin = shell.run(shell.write("page", flow, root))["execution_id"]
    fork = forked(shell, "retry", "last", "--set", "n=2")

    page = shell.noetl("show", "last", "--html", "-").stdout

    assert fork["status"] == "completed"
    assert f"forked from <code>noetl show {origin}</code> at event" in page
    assert "started directly" not in page
    assert "1 failed" not in page
    assert 'class="card failed"' not in page
    assert page.count('class="took">kept<') == 1
    before = shell.noetl("show", origin, "--html", "-").stdout
    assert 'class="card failed"' in before
    assert "kept" not in before


def test_a_retry_runs_failed_tasks_and_reuses_the_rest(shell: Any) -> None:
    """Also what was done beside it, and after it was begun."""
    calls = shell.folder / "calls"
    flow = FAN.replace("{step: c}", "{step: c, args: {n: 1}}")
    root = f"workload: {{file: {calls}, do: 'false', n: 0}}\n"
    origin = shell.run(shell.write("fan", flow, root))
    assert origin["status"] == "failed"
    assert sorted(calls.read_text().split()) == ["a", "b", "end"]

    outlook = forked(shell, "retry", "last", "--dry-run")
    fork = forked(shell, "retry", "last", "--set", "do='true'", "--set", "n=2")

    assert sorted(each["step"] for each in outlook["next"]) == ["a", "c", "end"]
    assert fork["status"] == "completed"
    assert sorted(calls.read_text().split()[3:]) == ["a", "c", "end"]
    assert shell.noetl("verify", "--execution", "all").returncode == 0
    said = refused(shell, "retry", fork["execution_id"])
    assert "no step" in said
    assert "--from STEP" in said
    assert "--run needs a step" in refused(shell, "retry", "last", "--run", "1")
