"""The newer vocabulary of the dialect ``classic``: what each form becomes."""

from __future__ import annotations

from typing import Any

import pytest

from noetl import load
from noetl.dsl.canonical import canonical
from noetl.templates import compile_value

ON = frozenset({"classic"})
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"
END = "  - step: end\n    tool: {kind: noop, result: '%s'}\n"
PATCHED = "{'status': outcome.status, 'data': %s, 'error': outcome.error}"

pytestmark = pytest.mark.spec("S-01")


def steps(text: str, extensions: frozenset[str] = ON) -> Any:
    loaded = load(f"{HEAD}workflow:\n{text}", extensions=extensions)
    assert loaded.playbook is not None, [d.message for d in loaded.diagnostics]
    return {each["step"]: each for each in canonical(loaded.playbook)["workflow"]}


def task(step: Any, place: int = -1) -> Any:
    [body] = step["tool"][place].values()
    return body


def directive(body: Any, rule: int = -1) -> Any:
    found = body["spec"]["policy"]["rules"][rule]
    return found.get("else", found)["then"]


@pytest.mark.spec("POL-05")
def test_set_of_a_task_keeps_its_error_a_failure() -> None:
    [step] = steps(
        "  - step: start\n    tool:\n      kind: python\n      code: result = 1\n"
        "      set: {ctx.a: '{{ output.data }}', b: 1, ctx: {c: 2}}\n"
    ).values()
    body = task(step)

    assert directive(body, 0) == {"do": "fail"}
    assert directive(body)["set_ctx"] == {"a": "{{ outcome.result }}", "b": 1, "c": 2}


@pytest.mark.spec("POL-10", "POL-11")
def test_set_of_a_directive_and_of_its_task_are_one_patch() -> None:
    [step] = steps(
        "  - step: start\n    loop: {in: [1], iterator: n}\n    tool:\n"
        "      kind: noop\n      set: {iter.b: '{{ output.status }}'}\n"
        "      spec: {policy: {rules: [{else: {then: {do: continue, set: "
        "{iter.a: 1, ctx.c: 2}}}}]}}\n"
    ).values()

    assert directive(task(step)) == {
        "do": "continue",
        "set_ctx": {"c": 2},
        "set_iter": {"a": 1, "b": "{{ outcome.status }}"},
    }


def test_a_bare_key_belongs_to_the_iteration_where_iterations_run_at_once() -> None:
    [step] = steps(
        "  - step: start\n    loop: {in: [1], iterator: n, spec: {mode: parallel}}\n"
        "    tool: {kind: noop, result: 1, set: {a: '{{ output.data }}'}}\n"
    ).values()

    assert directive(task(step))["set_iter"] == {"a": "{{ outcome.result }}"}


def test_set_of_a_step_ends_every_way_out_of_its_pipeline() -> None:
    [step] = steps(
        "  - step: start\n    set_ctx: {a: 1}\n    tool:\n"
        "      - {name: one, kind: noop, spec: {policy: {rules: "
        "[{when: '{{ true }}', then: {do: break}}]}}}\n"
        "      - {name: two, kind: noop}\n"
    ).values()

    assert directive(task(step, 0), 0)["set_ctx"] == {"a": 1}
    assert directive(task(step, 1))["set_ctx"] == {"a": 1}


@pytest.mark.spec("S-06")
def test_set_of_an_arc_is_applied_on_the_way() -> None:
    found = steps(
        "  - step: start\n    tool: {kind: noop, result: 1}\n"
        "    next: {arcs: [{step: end, set: {ctx.a: '{{ output.data }}'}}]}\n"
        + END
        % "{{ ctx.a }}"
    )
    [arc] = found["start"]["next"]["arcs"]

    assert arc == {
        "step": "start_set_1",
        "args": {"_set": {"a": "{{ event.payload.result }}"}},
    }
    relay = found["start_set_1"]
    assert directive(task(relay))["set_ctx"] == {"a": "{{ args._set['a'] }}"}
    assert [each["step"] for each in relay["next"]["arcs"]] == ["end"]


@pytest.mark.parametrize(
    ("read", "becomes"),
    [
        ("fetch.v", "_outcomes.fetch.result.v"),
        (
            "fetch.data.v",
            "(_outcomes.fetch.result.data | default(_outcomes.fetch.result)).v",
        ),
        ("output.data.v", "_outcomes.fetch.result.v"),
        ("output.v", "_outcomes.fetch.result.v"),
        ("output.status", "_outcomes.fetch.status"),
        ("input.most", "workload.most"),
        ("job.execution_id", "execution_id"),
        ("iter.a", "ctx.a"),
    ],
)
def test_names_in_a_later_task(read: str, becomes: str) -> None:
    [step] = steps(
        "  - step: start\n    input: {most: '{{ workload.most }}'}\n    tool:\n"
        "      - {name: fetch, kind: python, code: result = 1}\n"
        f"      - {{name: last, kind: noop, result: '{{{{ {read} }}}}'}}\n"
    ).values()

    assert task(step)["result"] == f"{{{{ {becomes} }}}}"


@pytest.mark.parametrize(
    ("read", "becomes"),
    [
        ("output.data.v", "outcome.result.data.v"),
        ("output.body.v", "outcome.result.data.v"),
        ("output.http.status", "outcome.http.status"),
        ("output", PATCHED % "outcome.result.data"),
    ],
)
def test_names_in_the_rules_of_a_request(read: str, becomes: str) -> None:
    [step] = steps(
        "  - step: start\n    tool: {kind: http, url: 'http://a', "
        f"set: {{ctx.a: '{{{{ {read} }}}}'}}}}\n"
    ).values()

    assert directive(task(step))["set_ctx"] == {"a": f"{{{{ {becomes} }}}}"}


@pytest.mark.parametrize("kind", ["server_error", "client_error", "rate_limit", "auth"])
def test_kinds_of_errors_of_a_request(kind: str) -> None:
    [step] = steps(
        "  - step: start\n    tool: {kind: http, url: 'http://a', spec: {policy: "
        "{rules: [{when: \"{{ output.error.kind == '"
        f"{kind}' }}}}\", then: {{do: retry}}}}]}}}}}}\n"
    ).values()
    when = task(step)["spec"]["policy"]["rules"][0]["when"]

    assert "'rate_limit' if outcome.http.status == 429" in when
    assert when.endswith(f"else outcome.error.kind) == '{kind}' }}}}")


def test_results_of_tasks_and_counts_of_loops_reach_later_steps() -> None:
    found = steps(
        "  - step: start\n    tool:\n"
        "      - {name: one, kind: python, code: result = 1}\n"
        "      - {name: two, kind: python, code: result = 2}\n"
        "    next: [{step: each}]\n"
        "  - step: each\n    loop: {in: [1], iterator: n}\n    tool: {kind: noop}\n"
        "    next: [{step: end}]\n"
        '  - step: end\n    tool: {kind: noop, result: ["{{ start.results.one }}", '
        "'{{ each }}', '{{ each.stats.failed }}', '{{ each | length }}']}\n"
    )
    [arc] = found["start"]["next"]["arcs"]
    [after] = found["each"]["next"]["arcs"]

    assert arc["args"] == {"start_results": {"one": "{{ _outcomes.one.result }}"}}
    assert list(after["args"]) == ["each", "each_stats"]
    assert task(found["end"])["result"] == [
        "{{ start_results.one }}",
        "{{ {'results': each, 'stats': each_stats} }}",
        "{{ each_stats.failed }}",
        "{{ each | length }}",
    ]


def test_the_name_of_a_step_that_may_not_have_run_is_null() -> None:
    found = steps(
        "  - step: start\n    tool: {kind: noop, result: 1}\n    next: {arcs: "
        "[{step: hot, when: '{{ workload.a }}'}, {step: end}]}\n"
        "  - step: hot\n    tool: {kind: noop, result: 1}\n    next: [{step: end}]\n"
        "  - step: end\n    tool: {kind: noop, result: "
        "['{{ hot.x }}', '{{ start }}']}\n"
    )

    assert task(found["end"])["result"] == [
        "{{ hot.x | default(none) }}",
        "{{ start }}",
    ]


@pytest.mark.spec("S-34")
def test_a_template_as_a_key_is_rendered() -> None:
    [step] = steps(
        "  - step: start\n    tool: {kind: noop, result: "
        "{'{{ workload.name }}': {path: 'a{{ workload.n }}'}}}\n"
    ).values()

    assert task(step)["result"] == (
        "{{ {workload.name: {'path': ('a' ~ workload.n)}} }}"
    )


@pytest.mark.spec("S-34")
def test_a_template_in_code_is_a_value_and_never_source_text() -> None:
    [step] = steps(
        "  - step: start\n    tool:\n      kind: python\n      code: |\n"
        "        a = {{ workload.a }}\n"
        "        b = 'x{{ workload.b }}' + f'{{c}}'  # {{ not.this }}\n"
        "        result = [a, b]\n"
    ).values()
    body = task(step)

    assert body["code"] == (
        "a = value_1_\nb = ('x' + str(value_2_)) + f'{{c}}'  # {{ not.this }}\n"
        "result = [a, b]\n"
    )
    assert body["args"] == {
        "value_1_": "{{ workload.a }}",
        "value_2_": "{{ workload.b }}",
    }


def test_context_has_what_the_code_reads() -> None:
    [step] = steps(
        "  - step: start\n    tool:\n      kind: python\n"
        "      libs: {dt: {from: datetime, import: datetime}}\n"
        "      code: |\n        result = context.get('city') or context['unit']\n"
    ).values()
    body = task(step)

    assert list(body["args"]["context"]) == ["workload", "execution_id", "city", "unit"]
    assert body["code"].startswith("from datetime import datetime as dt\n")


@pytest.mark.parametrize(
    "auth",
    ["credential: pg", "auth: {source: credential, key: pg}", "auth: {credential: pg}"],
)
def test_a_credential_is_named_by_auth(auth: str) -> None:
    [step] = steps(
        f"  - step: start\n    tool: {{kind: postgres, command: SELECT 1, {auth}}}\n"
    ).values()

    assert task(step)["auth"] == "pg"


@pytest.mark.spec("S-67")
def test_each_side_of_a_transfer_has_its_credential_and_its_columns() -> None:
    [step] = steps(
        "  - step: start\n    tool:\n      kind: transfer\n"
        "      source: {type: postgres, credential: one, query: SELECT 1}\n"
        "      target: {type: postgres, auth: '{{ workload.two }}', table: t, "
        "mapping: {a: b}}\n"
    ).values()
    body = task(step)

    assert body["source"]["auth"] == "{{ keychain['one'] }}"
    assert body["target"]["auth"] == "{{ keychain[workload.two] }}"
    assert (body["mapping"], "mapping" in body["target"]) == ({"a": "b"}, False)


@pytest.mark.spec("ROOT-04")
@pytest.mark.parametrize(
    ("metadata", "path"),
    [("{name: t, path: /a/b}", "a/b"), ("{name: nightly}", "nightly")],
)
def test_a_path_may_begin_with_a_slash_or_be_missing(metadata: str, path: str) -> None:
    text = HEAD.replace("{name: t, path: t}", metadata)
    found = load(f"{text}workflow:\n{END % 1}", extensions=ON)

    assert found.playbook is not None
    assert found.playbook.path == path


def test_arguments_of_a_step_are_in_input_data_with_both_dialects() -> None:
    [step] = steps(
        "  - step: start\n    args: {a: 1}\n    tool:\n      kind: python\n"
        "      args: {b: 2}\n      code: |\n"
        "        def main(input_data):\n            return input_data\n",
        frozenset({"classic", "legacy"}),
    ).values()

    assert task(step, 0)["args"]["input_data"] == {"a": 1, "b": 2}


@pytest.mark.spec("C-34")
def test_names_that_nothing_gives_are_warnings_under_the_dialect() -> None:
    found = load(f"{HEAD}workflow:\n{END % '{{ nobody.knows }}'}", extensions=ON)
    [said] = [d for d in found.diagnostics if d.rule == "unknown-name"]

    assert said.message == "nothing defines 'nobody'"
    assert "'classic'" not in (said.hint or "")


@pytest.mark.parametrize(
    "keys",
    [
        "assert: {returns: [a]}",
        "output: {store: kv}",
        "task: other",
    ],
)
def test_notes_have_no_effect(keys: str) -> None:
    [step] = steps(
        f"  - step: start\n    tool: {{kind: playbook, path: a/b, {keys}}}\n"
    ).values()

    assert task(step).keys() <= {"kind", "path", "spec", "args"}


@pytest.mark.parametrize("loop", ["{cursor: {kind: pg}}", "{spec: {mode: cursor}}"])
def test_a_loop_over_a_cursor_is_refused_with_the_form_of_today(loop: str) -> None:
    text = f"  - step: start\n    loop: {loop}\n    tool: {{kind: noop}}\n"
    found = load(f"{HEAD}workflow:\n{text}", extensions=ON)

    assert found.playbook is None
    assert any("do: jump" in (each.hint or "") for each in found.diagnostics)


def test_in_a_condition_the_name_of_a_step_that_may_not_have_run_is_false() -> None:
    found = steps(
        "  - step: start\n    tool: {kind: noop, result: 1}\n    next: {arcs: "
        "[{step: hot, when: '{{ workload.a }}'}, {step: end}]}\n"
        "  - step: hot\n    tool: {kind: noop, result: {x: 1}}\n    next: end\n"
        "  - step: end\n    tool: {kind: noop, result: "
        "[\"{{ 'yes' if hot else 'no' }}\", '{{ hot.x or 7 }}', "
        "'{{ not hot and start == 1 }}', 'so {{ hot.x if hot else 2 }}']}\n"
    )

    end = task(found["end"])["result"]
    values = [compile_value(text).render({"start": 1}) for text in end]
    assert values == ["no", 7, True, "so 2"]
    given = {"start": 1, "hot": {"x": 3}}
    values = [compile_value(text).render(given) for text in end]
    assert values == ["yes", 3, False, "so 3"]


@pytest.mark.spec("S-67")
def test_a_credential_of_a_transfer_is_declared_by_the_default_of_its_name() -> None:
    text = (
        f"{HEAD}workload: {{one: pg_a}}\nworkflow:\n  - step: start\n    tool:\n"
        "      kind: transfer\n"
        "      source: {type: postgres, auth: '{{ workload.one }}', query: SELECT 1}\n"
        "      target: {type: postgres, auth: pg_b, table: t}\n"
    )
    playbook = load(text, extensions=ON).playbook

    assert playbook is not None
    assert [entry.name for entry in playbook.keychain] == ["pg_a", "pg_b"]


def test_knobs_of_a_loop_may_stand_beside_its_collection() -> None:
    [step] = steps(
        "  - step: start\n    loop: {in: [1, 2], iterator: i, mode: parallel, "
        "max_in_flight: 3}\n    tool:\n      kind: noop\n"
        "      set: {n: '{{ iter.i }}'}\n"
    ).values()

    assert step["loop"]["spec"] == {"mode": "parallel", "max_in_flight": 3}
    assert directive(task(step))["set_iter"] == {"n": "{{ iter.i }}"}


@pytest.mark.spec("S-67")
@pytest.mark.parametrize(
    "tool",
    [
        "kind: postgres, command: SELECT 1",
        "kind: http, url: 'http://h'",
        "kind: nats, operation: kv_list, bucket: b",
        "kind: python, script: {uri: a.py, source: {type: http, auth: AUTH}}",
    ],
)
def test_a_credential_that_a_template_names_is_declared_by_the_default(
    tool: str,
) -> None:
    auth = "'{{ workload.cred }}'"
    where = tool.replace("AUTH", auth)
    where = where if "AUTH" in tool else f"{tool}, auth: {auth}"
    text = (
        f"{HEAD}workload: {{cred: mine}}\nworkflow:\n"
        f"  - {{step: start, tool: {{{where}}}}}\n"
    )
    playbook = load(text, extensions=ON).playbook

    assert playbook is not None
    assert [entry.name for entry in playbook.keychain] == ["mine"]


@pytest.mark.spec("POL-01")
def test_a_directive_may_stand_beside_its_condition() -> None:
    [step] = steps(
        "  - step: start\n    tool:\n      kind: noop\n      spec: {policy: {rules: ["
        "{when: \"{{ output.status == 'error' }}\", do: retry, attempts: 2}, "
        "{else: {do: continue, set: {n: 1}}}]}}\n"
    ).values()

    assert task(step)["spec"]["policy"]["rules"] == [
        {
            "when": "{{ outcome.status == 'error' }}",
            "then": {"do": "retry", "attempts": 2},
        },
        {"else": {"then": {"do": "continue", "set_ctx": {"n": 1}}}},
    ]


@pytest.mark.spec("S-34")
def test_a_template_in_the_workload_is_warned_about_under_the_dialect() -> None:
    text = f"{HEAD}workload: {{a: {{id: '{{{{ job.uuid }}}}'}}}}\nworkflow:\n{END % 1}"
    found = load(text, extensions=ON).diagnostics
    [warning] = [each for each in found if each.severity == "warning"]

    assert (warning.path, warning.code) == ("workload.a.id", "S-01")
    assert "which stays text" in warning.message


@pytest.mark.spec("VAL-04")
@pytest.mark.parametrize(
    ("kind", "hint"),
    [("agent", "kind: playbook"), ("snowflake", "plug-in"), ("gcs", "kind: http")],
)
def test_a_kind_of_the_original_that_is_missing_has_a_hint(
    kind: str, hint: str
) -> None:
    text = f"{HEAD}workflow:\n  - {{step: start, tool: {{kind: {kind}}}}}\n"
    [found] = load(text, extensions=ON).diagnostics

    assert found.message == f"unknown tool kind '{kind}'"
    assert hint in (found.hint or "")


def test_a_loop_over_an_input_with_the_name_of_its_step_reads_the_input() -> None:
    text = (
        f"{HEAD}workload: {{rows: [1]}}\nworkflow:\n"
        "  - step: rows\n    loop: {in: '{{ rows }}', iterator: row}\n"
        "    tool: {kind: noop}\n    next: [{step: end}]\n"
        "  - step: end\n    tool: {kind: noop, result: '{{ rows }}'}\n"
    )
    playbook = load(text, extensions=ON).playbook

    assert playbook is not None
    [loop, end] = canonical(playbook)["workflow"]
    assert loop["loop"]["in"] == "{{ rows }}"
    assert task(end)["result"] == "{{ {'results': rows, 'stats': rows_stats} }}"
