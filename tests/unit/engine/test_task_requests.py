"""Which secrets a task may request, which handles it may report, what it may read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.reports.accept import Fact
from noetl.engine.runs import Waiting, find_open
from noetl.engine.secrets.given_handles import carried_in, mask_foreign, name_for
from noetl.engine.secrets.handles import Secrets, handle, handles_in
from noetl.engine.secrets.redaction import MASK
from noetl.engine.secrets.task_requests import (
    SecretName,
    credential_named,
    entries_read,
    parts_read,
    secret_named,
)
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.values.references import make_reference
from noetl.errors import SecretError

Run = Callable[..., Any]
FIXED = {"workload": {"team": "data", "n": 7}, "execution_id": "x", "execution": {}}


def task_of(prepare: Run, task: str) -> Any:
    flow = f"- {{step: start, tool: [{{t: {{{task}}}}}]}}"
    entries = (f"{{name: {name}, kind: env}}" for name in ("a", "b", "login", "pg"))
    playbook = prepare(flow, f"keychain: [{', '.join(entries)}]\n").playbook
    return playbook.steps["start"].tasks[0]


# -- the name of a secret ---------------------------------------------------------


@pytest.mark.spec("S-41")
@pytest.mark.parametrize(
    ("inputs", "sent", "named"),
    [
        ("name: db", None, SecretName(name="db")),
        ("name: '{{ workload.team }}'", "other", SecretName(name="data")),
        ("provider: vault, path: kv/a", "x", SecretName(provider="vault", path="kv/a")),
        ("name: '{{ ctx.which }}'", "api", SecretName(name="api")),
    ],
)
def test_a_task_gets_the_secret_that_its_playbook_names(
    prepare: Run, inputs: str, sent: str | None, named: SecretName
) -> None:
    task = task_of(prepare, f"kind: secrets, {inputs}")

    assert secret_named(task, {"api"}, FIXED, sent) == named


@pytest.mark.spec("S-41")
@pytest.mark.parametrize(
    ("task", "sent", "kind", "words"),
    [
        ("kind: noop", None, "secret.denied", "it is not of the kind 'secrets'"),
        (
            "kind: secrets, provider: vault, path: '{{ ctx.p }}'",
            None,
            "secret.denied",
            "its 'path' is a template that reads ctx.p; write it literally, or from",
        ),
        (
            "kind: secrets, provider: vault, name: '{{ ctx.p }}'",
            "api",
            "secret.denied",
            "its 'name' is a template that reads ctx.p; write it literally",
        ),
        (
            "kind: secrets, name: '{{ ctx.p }}'",
            "other",
            "secret.denied",
            "reads ctx.p; declare the entry in 'keychain'",
        ),
        (
            "kind: secrets, name: '{{ workload.n }}'",
            None,
            "secret.wrong",
            "task 't': 'name' must be text",
        ),
        (
            "kind: secrets, name: '{{ 1 // 0 }}'",
            None,
            "secret.wrong",
            "task 't': ",
        ),
    ],
)
def test_a_task_gets_no_secret_that_its_playbook_does_not_name(
    prepare: Run, task: str, sent: str | None, kind: str, words: str
) -> None:
    with pytest.raises(SecretError) as refused:
        secret_named(task_of(prepare, task), {"api"}, FIXED, sent)

    assert (refused.value.kind, words in str(refused.value)) == (kind, True)


# -- OAuth2 credentials -----------------------------------------------------------


OAUTH = {"type": "oauth2", "client_id": "a", "token_url": "https://x/t"}
KEYCHAIN = {"login": OAUTH, "pg": {"type": "postgres", "user": "u"}}


@pytest.mark.spec("S-41")
@pytest.mark.parametrize(
    ("auth", "given", "found"),
    [
        ("login", {}, OAUTH),
        ("'{{ keychain.login }}'", {}, OAUTH),
        ("'{{ ctx.which }}'", OAUTH, OAUTH),
        (
            "{type: oauth2, token_url: '{{ keychain.login.token_url }}', "
            "scope: '{{ ctx.scope }}'}",
            {"scope": "read", "token_url": "https://evil"},
            {"type": "oauth2", "token_url": "https://x/t", "scope": "read"},
        ),
    ],
)
def test_a_task_gets_the_credential_of_its_playbook(
    prepare: Run, auth: str, given: Any, found: Any
) -> None:
    task = task_of(prepare, f"kind: http, url: 'http://x', auth: {auth}")

    assert credential_named(task, KEYCHAIN, FIXED, given) == found


@pytest.mark.spec("S-41")
@pytest.mark.parametrize(
    ("auth", "given", "words"),
    [
        ("", {}, "its playbook gives it no 'auth' of the type 'oauth2'"),
        (", auth: pg", {}, "its playbook gives it no 'auth' of the type 'oauth2'"),
        (", auth: '{{ ctx.which }}'", {"type": "oauth2"}, "no 'auth' of the type"),
        (
            ", auth: {type: oauth2, token_url: '{{ ctx.url }}'}",
            {"token_url": "https://evil"},
            "'auth.token_url' is a template that reads ctx.url; only keychain and",
        ),
        (
            ", auth: {type: oauth2, scope: '{{ ctx.scope }}'}",
            {},
            "'auth.scope' must be text",
        ),
    ],
)
def test_a_task_gets_no_credential_that_a_worker_composed(
    prepare: Run, auth: str, given: Any, words: str
) -> None:
    task = task_of(prepare, f"kind: http, url: 'http://x'{auth}")

    with pytest.raises(SecretError) as refused:
        credential_named(task, KEYCHAIN, FIXED, given)

    assert words in str(refused.value)


# -- what tasks read --------------------------------------------------------------


@pytest.mark.spec("S-41")
@pytest.mark.parametrize(
    ("task", "entries"),
    [
        ("kind: noop, v: '{{ keychain.a }}'", ["a"]),
        ("kind: noop, v: '{{ keychain[ctx.x] }}'", ["a", "b"]),
        ("kind: http, url: 'http://x', auth: b", ["b"]),
        ("kind: http, url: 'http://x', auth: '{{ ctx.x }}'", ["a", "b"]),
        (
            "kind: noop, spec: {timeout: '{{ keychain.b }}', policy: {rules: ["
            "{when: '{{ keychain.a }}', then: {do: retry, delay: 1}}]}}",
            ["a", "b"],
        ),
        (
            "kind: choose, when: {x: '{{ keychain.b }}'}, otherwise: x",
            ["b"],
        ),
        ("kind: noop, v: '{{ ctx.x }}'", []),
    ],
)
def test_entries_that_a_task_reads(prepare: Run, task: str, entries: list[str]) -> None:
    assert entries_read([task_of(prepare, task)], ["a", "b"]) == entries


@pytest.mark.spec("S-41")
@pytest.mark.parametrize(
    ("read", "parts"),
    [
        ("ctx.a", [1]),
        ("ctx", [{"a": 1, "b": 2}]),
        ("ctx.none", []),
        ("args.a", []),
    ],
)
def test_parts_of_ctx_that_a_task_reads(
    prepare: Run, read: str, parts: list[Any]
) -> None:
    task = task_of(prepare, f"kind: noop, v: '{{{{ {read} }}}}'")

    assert parts_read([task], "ctx", {"a": 1, "b": 2}) == parts


def test_a_scope_that_is_stored_elsewhere_is_read_as_a_whole(prepare: Run) -> None:
    reading = task_of(prepare, "kind: noop, v: '{{ ctx.a }}'")
    other = task_of(prepare, "kind: noop")

    assert parts_read([reading], "ctx", "stored") == ["stored"]
    assert parts_read([other], "ctx", "stored") == []


# -- handles in reports -----------------------------------------------------------

READER = "- {step: start, tool: [{a: {kind: noop, v: '{{ workload.mine }}'}}]}"
MINE, OTHER = "1" * 32, "2" * 32


def begun(prepare: Run, workload: Any, flow: str = READER) -> Any:
    execution = prepare(flow, workload=workload, secrets=Secrets(partial=True))
    execution.start()
    return execution


def reported(execution: Any, value: Any) -> Any:
    command = find_open(execution.state.runs, "sim-1")
    facts = [Fact("task.done", "a", 1, {"outcome": {"result": value}})]
    [fact] = mask_foreign(execution._batch(), command, facts)
    return fact.payload["outcome"]["result"]


@pytest.mark.spec("S-41")
def test_a_worker_may_report_the_handles_that_it_was_given(prepare: Run) -> None:
    execution = begun(prepare, {"mine": handle(MINE), "other": handle(OTHER)})
    fetched = handle(name_for("3" * 16, "sim", "start"))
    sound = {"a": [handle(MINE), fetched], "b": "text"}

    assert reported(execution, sound) == sound
    assert reported(execution, "text") == "text"
    assert reported(execution, [{"a": handle(OTHER)}, handle(MINE), 1]) == [
        *({"a": MASK}, handle(MINE), 1),
    ]


@pytest.mark.spec("S-41", "S-48")
def test_handles_inside_of_stored_values_are_given_too(prepare: Run) -> None:
    large = {"h": handle(MINE), "text": "x" * 70_000}
    execution = begun(prepare, {"mine": large})
    [reference] = execution._blobs._blobs
    assert execution.state.spilled
    body = {"h": handle(MINE), "text": ""}
    execution._values.put(reference, body, 10)

    assert reported(execution, handle(MINE)) == handle(MINE)
    assert reported(execution, [handle(MINE), handle(OTHER)]) == [handle(MINE), MASK]


@pytest.mark.spec("S-41", "S-48")
def test_a_stored_value_that_no_template_can_read_gives_no_handle(prepare: Run) -> None:
    execution = begun(prepare, {"mine": ["x" * 70_000]})
    [key] = execution._blobs._blobs
    execution._values.miss(key, "result.gone", "it was removed")

    assert reported(execution, handle(MINE)) == MASK


@pytest.mark.spec("S-41")
def test_the_answer_of_a_wait_may_be_reported(prepare: Run) -> None:
    execution = begun(prepare, {})
    command = find_open(execution.state.runs, "sim-1")
    assert command is not None
    answer = {"data": handle(MINE)}
    command.progress.waiting = Waiting("signal", answer=answer)

    assert answer in carried_in(execution.state, (), command)


# -- handles ----------------------------------------------------------------------


@pytest.mark.spec("S-41")
def test_handles_whose_secret_is_gone_are_found_by_their_path() -> None:
    secrets = Secrets({}, {MINE: "s-5b1d-known"})
    value = {"a": [handle(OTHER), handle(MINE), 1], "b": handle("3" * 32), "c": "x"}

    assert handles_in(value, secrets) == {OTHER: "a.0", "3" * 32: "b"}
    assert list(secrets.held_in(value)) == [(MINE, "s-5b1d-known")]
    assert list(secrets.names) == [MINE]


@pytest.mark.spec("S-41")
def test_without_secrets_nothing_is_masked() -> None:
    secrets, outcome = Secrets(), Outcome.ok("text")

    assert not secrets.hides
    assert secrets.redact_outcome(outcome) is outcome
    assert secrets.redact_text("text") == secrets.redact_lines("text") == "text"
    assert secrets.mask_handles(outcome) is outcome


@pytest.mark.spec("S-41")
def test_a_result_that_nests_too_deep_is_a_failure() -> None:
    deep: Any = [handle(MINE)]
    for _ in range(100_000):
        deep = [deep]
    known = Secrets({}, {MINE: "s-5b1d-known"})

    for judged in (known.redact_outcome, known.mask_handles):
        failed = judged(Outcome.ok(deep))
        assert failed.error is not None
        assert failed.error.message == "the result nests too deep"
    while isinstance(deep, list):  # without recursion
        deep = deep.pop()


@pytest.mark.spec("S-41")
def test_handles_that_a_tool_returns_are_masked() -> None:
    secrets = Secrets({}, {MINE: "s-5b1d-known"})
    failed = Outcome.failed("x", "no", details={"h": [handle(MINE)], "n": 1})

    masked = secrets.mask_handles(failed).error
    assert masked is not None
    assert masked.details == {"h": [MASK], "n": 1}
    assert secrets.mask_handles(Outcome.ok(handle(OTHER))).result == handle(OTHER)
    partial = Secrets(partial=True)
    assert partial.mask_handles(Outcome.ok([handle(OTHER)])).result == [MASK]


@pytest.mark.spec("S-41", "S-48")
def test_templates_open_handles_however_deep() -> None:
    secrets = Secrets({}, {MINE: "s-5b1d-known"})
    value = {"a": [handle(MINE)], "b": ["plain"], "c": {"d": 1}}

    opened = secrets.opening(None).whole(value)

    assert opened == {"a": ["s-5b1d-known"], "b": ["plain"], "c": {"d": 1}}
    assert opened["b"] is value["b"]
    assert secrets.sealing(None).load(handle(MINE)) == handle(MINE)


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        (True, []),
        (None, []),
        (12345678, ["12345678"]),
        (["a-long-secret"], ["a-long-secret"]),
        ({"user": "ana", "password": "s3cret-word"}, ["s3cret-word"]),
    ],
)
def test_texts_of_a_secret_are_masked(value: Any, texts: list[str]) -> None:
    secrets = Secrets({"k": value})

    for text in texts:
        assert secrets.redact(f"<{text}>") == f"<{MASK}>"


def test_a_reference_names_its_value(prepare: Run) -> None:
    assert handles_in(make_reference("0" * 64, 9, "text"), Secrets()) == {}
