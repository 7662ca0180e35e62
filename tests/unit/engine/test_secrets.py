"""Secrets in templates: read by tools and guards, never by what is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from noetl.engine.secrets.handles import Secrets
from noetl.engine.tasks.outcome import Outcome

Run = Callable[..., Any]

TOKEN = "tok-3f9a7c21"
KEYCHAIN = "keychain: [{name: api, kind: env}, {name: pg, kind: postgres_credential}]\n"
PG = {"host": "db.internal", "user": "noetl", "password": "pw-8d2e61f0"}


def make_secrets() -> Secrets:
    return Secrets({"api": TOKEN, "pg": PG}, {"h1": "fetched-5b1d"})


def recorded(execution: Any) -> str:
    return b"".join(msgspec.json.encode(event) for event in execution.log).decode()


@pytest.mark.spec("KEY-04", "TPL-03", "S-67")
def test_inputs_read_the_keychain_by_name_and_by_field(run: Run) -> None:
    workflow = """
    - step: start
      tool:
        - a: {kind: noop, t: "{{ keychain.api }}", h: "Bearer {{ keychain.api }}"}
        - b: {kind: noop, p: "{{ keychain.pg.password }}", c: "{{ keychain.pg }}"}
    """
    execution = run(workflow, KEYCHAIN, secrets=make_secrets())

    inputs = [call.inputs for call in execution.calls]
    assert inputs[0] == {"t": TOKEN, "h": f"Bearer {TOKEN}"}
    assert inputs[1] == {"p": PG["password"], "c": PG}
    assert TOKEN not in recorded(execution)


@pytest.mark.spec("KEY-04", "S-67")
def test_guards_read_the_keychain(run: Run) -> None:
    workflow = f"""
    - step: start
      tool:
        a:
          kind: noop
          spec:
            policy:
              rules:
                - when: "{{{{ keychain.api == '{TOKEN}' }}}}"
                  then: {{do: continue, set_ctx: {{task: yes}}}}
      next:
        arcs: [{{step: end, when: "{{{{ keychain.api.startswith('tok') }}}}"}}]
    - step: end
      spec:
        policy:
          admit:
            rules:
              - {{when: "{{{{ keychain.pg.password }}}}", then: {{allow: true}}}}
      tool: {{kind: noop, result: reached}}
    """
    execution = run(workflow, KEYCHAIN, secrets=make_secrets())

    assert execution.state.ctx == {"task": "yes"}
    assert [line.step for line in execution.log if line.name == "step.done"] == [
        "start",
        "end",
    ]


@pytest.mark.spec("KEY-05")
def test_no_task_changes_the_keychain(run: Run) -> None:
    workflow = """
    - step: start
      tool:
        - a:
            kind: noop
            spec:
              policy:
                rules:
                  - else: {then: {do: continue, set_ctx: {keychain.api: x, api: y}}}
        - b: {kind: noop, t: "{{ keychain.api }}"}
        - c: {kind: noop, t: "{% set keychain = {'api': 1} %}{{ keychain.api }}"}
        - d: {kind: noop, t: "{{ keychain.api }}"}
    """
    execution = run(workflow, KEYCHAIN, secrets=make_secrets())

    seen = [call.inputs.get("t") for call in execution.calls]
    assert (seen[1], seen[3]) == (TOKEN, TOKEN)


@pytest.mark.spec("S-41")
def test_every_reader_sees_the_redacted_outcome(run: Run) -> None:
    workflow = f"""
    - step: start
      tool:
        - a:
            kind: http
            url: http://x
            spec:
              policy:
                rules:
                  - when: "{{{{ outcome.result.token == '{TOKEN}' }}}}"
                    then: {{do: fail}}
                  - else:
                      then:
                        do: continue
                        set_ctx: {{got: "{{{{ outcome.result }}}}"}}
        - b: {{kind: noop, v: "{{{{ _prev }}}}"}}
    """
    answer = Outcome.ok({"token": TOKEN, "n": 1}, headers={"x-echo": f"<{TOKEN}>"})

    execution = run(workflow, KEYCHAIN, {"a": answer}, secrets=make_secrets())

    clean = {"token": "***", "n": 1}
    assert execution.state.status == "completed"
    assert execution.state.ctx == {"got": clean}
    assert execution.calls[1].inputs == {"v": clean}
    assert '"x-echo":"<***>"' in recorded(execution)
    assert TOKEN not in recorded(execution)


@pytest.mark.spec("S-41")
def test_an_error_is_redacted_whole(run: Run) -> None:
    failure = Outcome.failed(
        "http.client",
        f"401 for {TOKEN}",
        details={"body": {"sent": TOKEN, TOKEN: [f"a{TOKEN}b"]}},
        headers={"x": TOKEN},
    )

    execution = run(
        "- step: start\n  tool: {a: {kind: http, url: 'http://x'}}",
        KEYCHAIN,
        {"a": failure},
        secrets=make_secrets(),
    )

    error = execution.state.error
    assert error["message"] == "401 for ***"
    assert error["details"]["body"] == {"sent": "***", "***": ["a***b"]}
    assert TOKEN not in recorded(execution)


@pytest.mark.spec("S-41")
@pytest.mark.parametrize(
    "word",
    ["ok", "error", "continue", "step.done", "start", "a", "completed", "result"],
)
def test_a_secret_that_is_a_word_of_ours_breaks_nothing(run: Run, word: str) -> None:
    execution = run(
        "- step: start\n  tool: {a: {kind: noop}}",
        KEYCHAIN,
        {"a": {"said": word}},
        secrets=Secrets({"api": word, "pg": word}),
    )

    assert execution.state.status == "completed"
    assert execution.state.result == {"said": "***"}


@pytest.mark.spec("S-41", "PIPE-16")
def test_a_handle_is_opened_for_tools_and_guards_alone(run: Run) -> None:
    workflow = """
    - step: start
      tool:
        - get:
            kind: secrets
            name: x
            spec:
              policy:
                rules:
                  - when: "{{ outcome.result == 'fetched-5b1d' }}"
                    then:
                      do: continue
                      set_ctx:
                        token: "{{ outcome.result }}"
                        deep: {er: ["{{ outcome.result }}"]}
                        text: "Bearer {{ outcome.result }}"
        - use:
            kind: noop
            p: "{{ _prev }}"
            h: "Bearer {{ ctx.token }}"
            c: "{{ ctx.deep }}"
      next:
        arcs:
          - step: end
            when: "{{ ctx.token == 'fetched-5b1d' }}"
            args: {t: "{{ ctx.token }}", s: "{{ ctx.token }}!"}
    - step: end
      loop: {in: "{{ [args.t] }}", iterator: t}
      tool: {kind: noop, t: "{{ iter.t }}", a: "{{ args.t }}"}
    """
    sealed = {"secret": "h1"}

    execution = run(workflow, KEYCHAIN, {"get": sealed}, secrets=make_secrets())

    assert execution.state.ctx == {
        "token": sealed,
        "deep": {"er": [sealed]},
        "text": "Bearer ***",
    }
    _, use, end = execution.calls
    secret = "fetched-5b1d"
    assert use.inputs == {"p": secret, "h": f"Bearer {secret}", "c": {"er": [secret]}}
    assert end.inputs == {"t": secret, "a": secret}
    [scheduled] = [e for e in execution.log if e.name == "step.scheduled"][1:]
    assert scheduled.payload["args"] == {"t": sealed, "s": "***!"}
    assert secret not in recorded(execution)


@pytest.mark.spec("S-41")
def test_what_only_looks_like_a_handle_is_data(run: Run) -> None:
    workflow = """
    - step: start
      tool:
        - a: {kind: noop}
        - b: {kind: noop, v: "{{ _prev }}", w: "{{ _prev.secret }}"}
    """
    forged = {"secret": "nobody-knows"}

    execution = run(workflow, KEYCHAIN, {"a": forged}, secrets=make_secrets())

    assert execution.calls[1].inputs == {"v": forged, "w": "nobody-knows"}


@pytest.mark.spec("KEY-07")
def test_auth_by_name_gives_the_tool_the_credential(run: Run) -> None:
    workflow = """
    - step: start
      tool:
        - a: {kind: http, url: "http://x", auth: api}
        - b: {kind: postgres, query: SELECT 1, auth: pg}
        - c: {kind: http, url: "http://x", auth: "{{ 'a' ~ 'pi' }}"}
    """
    execution = run(workflow, KEYCHAIN, secrets=make_secrets())

    given = [call.inputs["auth"] for call in execution.calls]
    assert given == [{"value": TOKEN}, PG, {"value": TOKEN}]


@pytest.mark.spec("S-41", "S-67")
def test_what_the_server_does_itself_gets_no_secret(run: Run) -> None:
    workflow = """
    - step: start
      tool: {a: {kind: wait, signal: "{{ ctx.name }}", timeout: 1s}}
    """
    execution = run(
        workflow,
        KEYCHAIN,
        secrets=make_secrets(),
        workload={"x": f"a {TOKEN} b"},
    )

    assert execution.state.workload == {"x": "a *** b"}
    assert TOKEN not in recorded(execution)


@pytest.mark.spec("S-41")
def test_a_signal_is_redacted_when_it_comes(prepare: Run) -> None:
    execution = prepare(
        "- step: start\n  tool: {a: {kind: wait, signal: go}}",
        KEYCHAIN,
        secrets=make_secrets(),
    )
    execution.start()
    while execution.step():
        pass

    execution.signal("go", {"said": TOKEN})
    while execution.step():
        pass

    assert execution.state.result == {"said": "***"}
    assert TOKEN not in recorded(execution)


@pytest.mark.spec("S-41")
def test_who_and_where_of_a_credential_are_not_masked() -> None:
    secrets = make_secrets()

    assert secrets.redact("noetl@db.internal: pw-8d2e61f0") == "noetl@db.internal: ***"


@pytest.mark.spec("S-41")
def test_user_and_password_together_are_a_secret_though_short() -> None:
    secrets = Secrets({"web": {"username": "aladdin", "password": "sesame"}})

    assert secrets.redact("YWxhZGRpbjpzZXNhbWU=") == "***"
    assert secrets.redact(["sesame", "opensesame"]) == ["***", "opensesame"]


@pytest.mark.spec("S-41")
def test_the_password_of_an_address_is_a_secret_of_its_own() -> None:
    secrets = Secrets({"db": "postgresql://me:p%40ss-w0rd@db.internal/x"})

    assert secrets.redact("no entry for p@ss-w0rd, p%40ss-w0rd") == (
        "no entry for ***, ***"
    )


@pytest.mark.spec("S-41")
@pytest.mark.parametrize(
    ("secret", "told", "masked"),
    [
        pytest.param(
            "https://hooks.example.com/services/T01/B02/x7Gk2pQ9wLm4",
            "404 Not Found from hooks.example.com/services/T01/B02/x7Gk2pQ9wLm4",
            "404 Not Found from hooks.example.com***",
            id="a webhook without its scheme",
        ),
        pytest.param(
            "https://api.example.com/bot7718:AAx7Gk2pQ9wLm4/send?to=me",
            "bot7718:AAx7Gk2pQ9wLm4 is revoked; send to me",
            "*** is revoked; send to me",
            id="a part of its path",
        ),
        pytest.param(
            "https://store.example.com/a?sp=r&sig=x7Gk2p%2FQ9wLm4",
            "the signature x7Gk2p/Q9wLm4 has expired",
            "the signature *** has expired",
            id="a signed address",
        ),
        pytest.param(
            "Server=db;User=me;Password=x7Gk2pQ9;Port=1",
            "me cannot log in to db with x7Gk2pQ9",
            "me cannot log in to db with ***",
            id="a connection string",
        ),
        pytest.param(
            '{"client_id": "reports-app", "private": {"key": "x7Gk2pQ9"}, "v": 1}',
            ["reports-app", "x7Gk2pQ9", "1"],
            ["reports-app", "***", "1"],
            id="a member of a JSON text",
        ),
        pytest.param(
            "Tok-X7GK2PQ9",
            "no connection to tok-x7gk2pq9.example.com:443",
            "no connection to ***.example.com:443",
            id="the name of a host",
        ),
    ],
)
def test_who_takes_a_secret_apart_tells_no_part_of_it(
    secret: str, told: Any, masked: Any
) -> None:
    secrets = Secrets({"it": secret})

    assert secrets.redact(secret) == "***"
    assert secrets.redact(told) == masked


@pytest.mark.spec("S-41", "S-67")
def test_a_template_that_fails_tells_no_secret(run: Run) -> None:
    secret = "% is a strange and long secret"
    workflow = """
    - step: start
      tool: {a: {kind: noop, v: "{{ keychain.api | format(1) }}"}}
    """
    execution = run(workflow, KEYCHAIN, secrets=Secrets({"api": secret}))

    assert execution.state.error["kind"] == "template.error"
    assert secret[:12] not in recorded(execution)


@pytest.mark.spec("S-41")
@pytest.mark.parametrize(
    "secrets",
    [
        Secrets({"api": TOKEN}),
        Secrets(None, {"h1": TOKEN}),
        Secrets(partial=True),
    ],
    ids=["keychain", "fetched", "partial"],
)
def test_an_execution_with_secrets_is_never_taken_as_one_without(
    secrets: Secrets,
) -> None:
    assert Secrets().is_empty
    assert not secrets.is_empty


@pytest.mark.spec("S-41")
def test_a_secret_learned_while_an_execution_runs_is_masked_from_then_on() -> None:
    secrets = Secrets()
    outcome = Outcome.ok({"said": f"it is {TOKEN}"})

    assert secrets.redact_outcome(outcome) is outcome
    secrets.learn(TOKEN)

    assert not secrets.is_empty
    assert secrets.redact_outcome(outcome).result == {"said": "it is ***"}
