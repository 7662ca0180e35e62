"""An execution that completed says what it passed over, in each command and exit
code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from servers import Running, playbook

IGNORING = playbook(
    "ignores",
    """
- step: fetch
  tool:
    - call:
        kind: python
        code: "result = 1 / 0"
        spec: {policy: {rules: [{when: "{{ outcome.result == 7 }}", then: {do: fail}}]}}
  next: {arcs: [{step: end}]}
- step: end
  tool: {kind: noop}
""",
)


@pytest.fixture
def file(shell: Any) -> str:
    (shell.folder / "ignores.yaml").write_text(IGNORING)
    return "ignores.yaml"


@pytest.mark.spec("S-73")
def test_an_ignored_error_is_shown_by_run_show_and_list(shell: Any, file: str) -> None:
    done = shell.noetl("run", file)
    shown = shell.noetl("show", "last")
    listed = shell.noetl("list")
    line = json.loads(shell.noetl("list", "--json").stdout)["executions"][0]

    assert done.returncode == 0
    assert "! fetch: done, 1 error ignored: tool.exception: " in done.stderr
    assert "  1 error ignored\n    fetch.call: tool.exception: " in done.stdout
    assert "1 error ignored: tool.exception: " in shown.stdout.splitlines()[0]
    assert "(1 error ignored)" in listed.stdout
    assert (line["status"], line["ignored_errors"]) == ("completed", 1)


@pytest.mark.spec("S-73")
def test_fail_on_ignored_changes_the_exit_code_alone(shell: Any, file: str) -> None:
    strict = shell.noetl("run", file, "--fail-on", "ignored", "--json")
    unknown = shell.noetl("run", file, "--fail-on", "errors")

    assert strict.returncode == 1
    assert json.loads(strict.stdout)["status"] == "completed"
    assert unknown.returncode == 2
    assert "unknown 'errors'; known: ignored, unreached" in unknown.stderr


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(tmp_path_factory.mktemp("server") / "home")
    yield server
    server.stop()


@pytest.mark.spec("S-73")
def test_exec_with_wait_takes_fail_on(shell: Any, running: Running, file: str) -> None:
    shell.set(NOETL_SERVER=running.url, NOETL_TOKEN=running.token)
    shell.noetl("catalog", "register", file)
    strict = shell.noetl("exec", "tests/ignores", "--wait", "--fail-on", "ignored")
    alone = shell.noetl("exec", "tests/ignores", "--fail-on", "ignored")

    assert strict.returncode == 1, strict.stderr
    assert "1 error ignored" in strict.stdout
    assert alone.returncode == 2
    assert "--fail-on needs --wait" in alone.stderr


@pytest.mark.spec("EVT-01", "S-73")
def test_events_tells_what_happened_and_why_here_and_on_a_server(
    shell: Any, running: Running, file: str
) -> None:
    shell.noetl("run", file)
    told = [shell.noetl("events", "last").stdout]
    raw = shell.noetl("events", "last", "--raw").stdout
    shell.set(NOETL_SERVER=running.url, NOETL_TOKEN=running.token)
    shell.noetl("catalog", "register", file)
    shell.noetl("exec", "tests/ignores", "--wait")
    told.append(shell.noetl("events", "last").stdout)
    told.append(shell.noetl("events", "last", "--follow").stdout)

    error = "fetch.call: error tool.exception: ZeroDivisionError: division by zero"
    for text in told:
        [line] = [line for line in text.splitlines() if error in line]
        assert "→ continue, error ignored (no rule matched)" in line
        assert text.endswith(" s  playbook.processed\n")
    assert error not in raw
    assert "Z task.done fetch call #1\n" in raw


@pytest.mark.spec("WARN-03", "S-08")
def test_run_exec_and_register_print_warnings_and_with_hints_all(
    shell: Any, running: Running, file: str
) -> None:
    at_home = shell.noetl("run", file)
    document = json.loads(shell.noetl("run", file, "--json").stdout)
    shell.set(NOETL_SERVER=running.url, NOETL_TOKEN=running.token)
    registered = shell.noetl("catalog", "register", file)
    started = shell.noetl("exec", "tests/ignores", "--wait", "--hints")

    warning = "no 'else' for 'call': an error that no rule matches is ignored"
    cure = "\"{{ outcome.status == 'error' }}\" with then: {do: fail}"
    for done in (at_home, registered, started):
        assert warning in done.stderr, done.args
        assert cure in done.stderr
    assert "hint" not in at_home.stderr + registered.stderr
    assert "its arcs fire and the execution fails [S-08" in started.stderr
    found = [each["severity"] for each in document["diagnostics"]]
    assert found == ["warning", "hint"]


@pytest.mark.spec("VAL-02")
def test_register_prints_why_a_playbook_was_refused(shell: Any) -> None:
    text = playbook("bad", "- {step: a, tool: {kind: noop}, next: {arcs: [{step: b}]}}")
    (shell.folder / "bad.yaml").write_text(text)
    done = shell.noetl("catalog", "register", "bad.yaml")

    assert done.returncode == 2
    assert "error: arc to unknown step 'b' [VAL-02" in done.stderr


MISSPELLED = playbook(
    "misspells",
    """
- step: first
  tool:
    kind: noop
    result: {status: good}
    spec: {policy: {rules: [
      {when: "{{ outcome.result.statsu == 'bad' }}", then: {do: fail}},
      {when: "{{ ctx.never }}", then: {do: break}},
      {else: {then: {do: continue}}}]}}
""",
)


@pytest.mark.spec("S-73")
def test_a_name_that_a_rule_misspells_is_named_by_run_and_every_one_by_show(
    shell: Any,
) -> None:
    (shell.folder / "misspells.yaml").write_text(MISSPELLED)
    done = shell.noetl("run", "misspells.yaml")
    shown = shell.noetl("show").stdout

    read = "a rule read outcome.result.statsu, which nothing gave (nearest: status)"
    title = "  a condition read a name that nothing gave"
    assert f"{title}\n    first.task_1: {read}\n" in done.stdout
    assert "ctx.never" not in done.stdout
    assert f"    task_1: {read}\n" in shown
    assert "    task_1: a rule read ctx.never, which nothing gave\n" in shown


LOST = playbook(
    "loses",
    """
- step: first
  tool: {kind: noop, result: {status: good}}
  next: {arcs: [{step: second, when: "{{ event.payload.result.statsu == 'good' }}"}]}
- step: second
  tool: {kind: noop}
""",
)


@pytest.mark.spec("S-74")
def test_a_step_that_is_not_reached_is_named_by_run_show_and_list(shell: Any) -> None:
    (shell.folder / "loses.yaml").write_text(LOST)
    done = shell.noetl("run", "loses.yaml")
    strict = shell.noetl("run", "loses.yaml", "--fail-on", "unreached", "--json")
    shown = shell.noetl("show", "last").stdout
    listed = shell.noetl("list").stdout
    document = json.loads(strict.stdout)

    assert done.returncode == 0
    read = "its guard read event.payload.result.statsu, which nothing gave"
    told = f"first: no arc fired; {read} (nearest: status)"
    assert f"! {told}\n" in done.stderr
    assert f"  1 step not reached: second\n    {told}\n" in done.stdout
    assert (strict.returncode, document["status"]) == (1, "completed")
    assert document["not_reached"] == ["second"]
    assert document["counts"]["not_reached"] == 1
    assert [each["step"] for each in document["no_arc_fired"]] == ["first"]
    assert shown.startswith("! first: done in ")
    assert "(1 step not reached)" in listed
