"""Two teams on one server, and the same things of each: what attacks are aimed at."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from servers import HEAD, Answer, Api

GONE = "01a00000-0000-7000-8000-000000000000"


class Team(NamedTuple):
    """Names and ids of what a team has. ``canary`` is in all of its data."""

    path: str
    canary: str
    playbook_id: str
    execution: str
    done: str
    ref: str
    loop: str
    trigger: str
    schedule: str
    listener: str
    backfill: str
    secret: str


Asking = Callable[[Team], tuple[str, str, Any]]
"""Method, path and body of a call about what a team has."""


def text_of(path: str, canary: str, more: str = "") -> str:
    """Stores a large value and the results of a loop, then waits for a signal."""
    name = path.rpartition("/")[2]
    return f"""{HEAD}metadata: {{name: {name}, path: {path}{more}}}
workload: {{data: {canary}}}
workflow:
- step: start
  tool: {{kind: noop, result: "{{{{ workload.data }}}} {{{{ 'x' * 70000 }}}}"}}
  next: {{arcs: [{{step: each}}]}}
- step: each
  loop: {{in: "{{{{ range(40) }}}}", iterator: i}}
  tool: {{kind: noop, result: "{{{{ workload.data }}}} {{{{ 'y' * 3000 }}}}"}}
  next: {{arcs: [{{step: waits}}]}}
- {{step: waits, tool: {{kind: wait, signal: go}}}}
"""


def make_team(admin: Api, prefix: str, *, sensitive: bool = False) -> Team:
    """Everything that routes can show or change, below this prefix."""
    path, canary = f"{prefix}/books", f"canary-7291-{prefix}"
    text = text_of(path, canary, ", sensitive: true" if sensitive else "")
    registered = _made(admin.post("/api/catalog", {"playbook": text}))
    names = [admin.start(text) for _ in range(2)]
    for each in names:
        admin.await_event(each, "task.suspended")
    _made(admin.post(f"/api/executions/{names[1]}/signal", {"name": "go"}))
    admin.finish(names[1])
    stored = admin.get(f"/api/executions/{names[1]}/results").body["results"]
    keys = [each["key"] for each in stored]
    more = {"playbook": path, "workload": {"data": canary}}
    kinds: dict[str, dict[str, Any]] = {
        "hook": {"webhook": {}},
        "daily": {"schedule": {"cron": "0 4 1 1 *"}},
        "after": {"finished": {"path": f"{prefix}/never"}},
    }
    triggers = {kind: f"{kind}-{prefix}" for kind in kinds}
    for kind, about in kinds.items():
        trigger = {"name": triggers[kind], **more, **about}
        _made(admin.post("/api/triggers", {"trigger": trigger}))
    span = {"trigger": triggers["daily"], "since": "2020-01-01", "until": "2020-02-01"}
    backfill = _made(admin.post("/api/backfills", span))
    kept = {"value": f"{canary}-secret", "for": [f"{prefix}/*"]}
    _made(admin.post(f"/api/keychain/key-of-{prefix}", kept))
    return Team(
        path=path,
        canary=canary,
        playbook_id=registered["playbook_id"],
        execution=names[0],
        done=names[1],
        ref=next(each for each in keys if not each.startswith("log:")),
        loop=next(each for each in keys if each.startswith("log:")),
        trigger=triggers["hook"],
        schedule=triggers["daily"],
        listener=triggers["after"],
        backfill=backfill["backfill_id"],
        secret=f"key-of-{prefix}",
    )


def missing_like(team: Team) -> Team:
    """Ids of the same form that nothing has."""
    return Team(
        path=f"{team.path.partition('/')[0]}/never",
        canary="no canary",
        playbook_id=GONE,
        execution=GONE,
        done=GONE,
        ref="0" * 64,
        loop=f"log:{GONE}-7",
        trigger="no-hook",
        schedule="no-daily",
        listener="no-after",
        backfill=GONE,
        secret="no-key",
    )


def _made(answer: Answer) -> Any:
    assert answer.status in (200, 201), answer.body
    return answer.body


# -- calls, by the names of their routes ---------------------------------------------


def _of_execution(method: str, rest: str, body: Any = None) -> Asking:
    return lambda team: (method, f"/api/executions/{team.execution}{rest}", body)


def _of_done(method: str, rest: str, body: Any = None) -> Asking:
    return lambda team: (method, f"/api/executions/{team.done}{rest}", body)


def _of_trigger(method: str, rest: str, body: Any = None) -> Asking:
    return lambda team: (method, f"/api/triggers/{team.trigger}{rest}", body)


def _of_backfill(method: str, rest: str) -> Asking:
    return lambda team: (method, f"/api/backfills/{team.backfill}{rest}", None)


def _of_path(rest: str) -> Asking:
    return lambda team: ("GET", f"/api/catalog/{team.path}{rest}", None)


def _start(**members: Any) -> Asking:
    """Values that are functions are asked what the team has."""

    def ask(team: Team) -> tuple[str, str, Any]:
        body = {
            name: value(team) if callable(value) else value
            for name, value in members.items()
        }
        return "POST", "/api/executions", body

    return ask


def _text(team: Team) -> str:
    return text_of(team.path, team.canary)


def _trigger(**about: Any) -> Asking:
    """One of a new name for a path; ``finished`` listens to the team's, too."""

    def ask(team: Team) -> tuple[str, str, Any]:
        trigger = {"name": f"new-{team.path.replace('/', '-')}", "playbook": team.path}
        kind = about or {"finished": {"path": team.path}}
        return "POST", "/api/triggers", {"trigger": {**trigger, **kind}}

    return ask


ABOUT: dict[str, list[Asking]] = {
    "start_execution": [
        _start(path=lambda team: team.path),
        _start(playbook_id=lambda team: team.playbook_id),
        _start(playbook=_text),
        _start(path=lambda team: team.path, idempotency_key="of-all"),
    ],
    "show_execution": [_of_execution("GET", ""), _of_done("GET", "")],
    "show_state": [
        _of_done("GET", "/state"),
        _of_done("GET", "/state?at=3"),
        _of_done("GET", "/state?parts=ctx,runs,loops,tokens"),
    ],
    "show_execution_playbook": [_of_done("GET", "/playbook")],
    "show_head": [_of_execution("GET", "/head"), _of_done("GET", "/head")],
    "show_track": [_of_done("GET", "/track"), _of_done("GET", "/track?page=0")],
    "list_runs": [
        _of_done("GET", "/runs"),
        _of_execution("GET", "/runs?step=start&status=done,waiting"),
    ],
    "show_run": [
        _of_done("GET", "/runs/1"),
        lambda team: (
            "GET",
            f"/api/executions/{team.done}/runs/{team.done}-2",
            None,
        ),
    ],
    "list_iterations": [
        _of_done("GET", "/runs/2/iterations"),
        _of_done("GET", "/runs/2/iterations?order=duration&status=done"),
    ],
    "explain": [
        _of_done("GET", "/why?seq=5"),
        _of_execution("GET", "/why?step=waits"),
    ],
    "list_ctx_changes": [
        _of_done("GET", "/ctx"),
        _of_done("GET", "/ctx?from=3&to=9"),
    ],
    "show_execution_graph": [_of_done("GET", "/graph")],
    "cancel_execution": [_of_done("POST", "/cancel")],
    "pause_execution": [_of_done("POST", "/pause")],
    "resume_execution": [_of_done("POST", "/resume")],
    "make_answer_link": [_of_done("POST", "/answer-links", {"data": True})],
    "signal_execution": [_of_done("POST", "/signal", {"name": "go"})],
    "fork_execution": [
        _of_done("POST", "/fork", {"at": 5, "dry_run": True}),
        _of_done("POST", "/fork", {"at": 5}),
    ],
    "retry_execution": [_of_done("POST", "/retry", {"step": "start"})],
    "list_vars": [_of_done("GET", "/vars")],
    "list_events": [
        _of_done("GET", "/events"),
        _of_done("GET", "/events?dialect=003"),
        _of_done("GET", "/events?dialect=000&step=start"),
        _of_done("GET", "/events?before=9&find=canary"),
    ],
    "list_logs": [_of_done("GET", "/logs"), _of_done("GET", "/logs?step=start")],
    "list_results": [_of_done("GET", "/results")],
    "list_rows": [
        lambda team: ("GET", f"/api/results/{team.ref}/rows", None),
        lambda team: (
            "GET",
            f"/api/results/{team.ref}/rows?execution_id={team.done}",
            None,
        ),
    ],
    "show_result": [
        lambda team: ("GET", f"/api/results/{team.ref}", None),
        lambda team: ("GET", f"/api/results/{team.loop}", None),
        lambda team: ("GET", f"/api/results/{team.ref}?execution_id={team.done}", None),
    ],
    "register_playbook": [
        lambda team: ("POST", "/api/catalog", {"playbook": _text(team)})
    ],
    "list_versions": [_of_path("/-/versions")],
    "diff_versions": [_of_path("/-/diff")],
    "show_playbook_graph": [_of_path("/-/graph"), _of_path("/-/graph?version=1")],
    "show_form": [_of_path("/-/form"), _of_path("/-/form?version=1")],
    "show_playbook": [_of_path(""), _of_path("?version=1")],
    "make_trigger": [_trigger(webhook={}), _trigger()],
    "show_trigger": [_of_trigger("GET", "")],
    "pause_trigger": [_of_trigger("POST", "/pause")],
    "resume_trigger": [_of_trigger("POST", "/resume")],
    "fire_trigger": [_of_trigger("POST", "/fire", {"payload": {}, "key": "k"})],
    "begin_backfill": [
        lambda team: (
            "POST",
            "/api/backfills",
            {"trigger": team.schedule, "since": "2020-01-01", "until": "2020-02-01"},
        )
    ],
    "show_backfill": [_of_backfill("GET", "")],
    "stop_backfill": [_of_backfill("POST", "/stop")],
    "resume_backfill": [_of_backfill("POST", "/resume")],
    "delete_secret": [lambda team: ("DELETE", f"/api/keychain/{team.secret}", None)],
    "delete_trigger": [_of_trigger("DELETE", "")],
}
"""Routes that show or change what one team has. The last ones change the most."""

LISTS: dict[str, list[tuple[str, str, Any]]] = {
    "list_executions": [
        ("GET", "/api/executions", None),
        ("GET", "/api/executions?waiting=true", None),
        ("GET", "/api/executions?limit=1", None),
        ("GET", "/api/executions?text=hr&roots=true", None),
        ("GET", "/api/executions?caller=hr", None),
        ("GET", "/api/executions?path=hr/*", None),
        ("GET", "/api/executions?path=hr/books", None),
    ],
    "count_executions": [
        ("GET", "/api/executions/counts", None),
        ("GET", "/api/executions/counts?path=hr/*", None),
    ],
    "list_playbooks": [
        ("GET", "/api/catalog", None),
        ("GET", "/api/catalog?limit=1", None),
        ("GET", "/api/catalog?prefix=hr", None),
        ("GET", "/api/catalog?cursor=hr&limit=1", None),
    ],
    "list_triggers": [("GET", "/api/triggers", None)],
    "list_backfills": [
        ("GET", "/api/backfills", None),
        ("GET", "/api/backfills?trigger=daily-hr", None),
    ],
    "steer_many": [
        ("POST", "/api/executions/bulk", {"action": "cancel", "path": "hr/*"}),
        ("POST", "/api/executions/bulk", {"action": "resume", "status": "waiting"}),
        ("POST", "/api/executions/bulk", {"action": "pause", "path": "hr/books"}),
    ],
    "list_secrets": [("GET", "/api/keychain", None)],
    "list_workers": [("GET", "/api/workers", None)],
    "list_pools": [("GET", "/api/pools", None)],
    "list_questions": [
        ("GET", "/api/inbox", None),
        ("GET", "/api/inbox?mine=false", None),
    ],
    "show_metrics": [("GET", "/metrics", None)],
}
"""Routes that list what a caller may see."""

WHOLE = {
    *("list_audit", "list_users", "add_user", "show_user", "set_roles"),
    *("set_password", "delete_user", "end_sessions", "add_token", "list_tokens"),
    *("revoke_token", "declare_secret", "remove_old", "list_keys", "rotate_keys"),
}
"""Routes that need a role for the whole server: a role for some paths is refused."""

NAMED = {"store_secret"}
"""Routes for names of the whole server: of a name that others have, it is told that it
is taken, and a test of its own looks that nothing else is."""

WORKERS = {
    *("claim_work", "heartbeat", "report_events", "show_source", "show_value"),
    *("fetch_result", "keep_result", "fetch_secret", "fetch_token", "append_logs"),
    "permit_call",
}
"""Routes of workers: no role for a path opens them."""

OTHERS = {
    *("show_openapi", "show_health", "show_readiness", "validate_playbook"),
    *("show_schema", "run_tests"),
    *("sign_in", "sign_out", "show_means", "begin_sign_in", "finish_sign_in"),
    *("begin_login", "finish_login"),
    *("invite", "follow_changes", "show_linked_question", "give_answer"),
    *("show_myself", "list_sessions", "end_session", "receive_delivery"),
}
"""Routes that know nothing of a path, or that ask for a proof of their own."""


def shown(answer: Answer) -> str:
    """All that a caller sees of an answer."""
    body = answer.body
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else None
    return f"{answer.status} {text or json.dumps(body)} {answer.headers}"
