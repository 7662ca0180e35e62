"""What a person can do at home, done at a server: the same verbs, the same output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from servers import HELLO, Api, Running, playbook

pytestmark = pytest.mark.spec("CLI-01", "SRV-03")

TEXT = """
- step: make
  tool: {kind: noop, result: {rows: "{{ 'row ' * 30000 }}", n: 1}}
  next: {arcs: [{step: divide}]}
- step: divide
  tool: {kind: python, code: "result = 10 // divisor", args: {divisor: "{{ workload.by }}"}}
"""  # noqa: E501
ROWS = "row " * 30_000


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(tmp_path_factory.mktemp("server") / "home")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def failed(running: Running) -> str:
    text = playbook("divides", TEXT, "workload: {by: 0}\n")
    name: str = Api(running.url, running.token).run(text)["execution_id"]
    return name


@pytest.fixture
def there(shell: Any, running: Running) -> Any:
    """A terminal whose commands go to the server."""
    shell.set(NOETL_SERVER=running.url, NOETL_TOKEN=running.token)
    return shell


def test_results_are_listed_and_fetched(there: Any, failed: str) -> None:
    listed = there.noetl("result", "ls", failed[:13])
    document = json.loads(there.noetl("result", "ls", failed, "--json").stdout)
    key = document["results"][0]["key"]
    whole = there.noetl("result", "get", failed, "--step", "make")
    part = there.noetl("result", "get", f"{key}:0-3")
    to_file = there.noetl("result", "get", key, "--output", "rows.json", "--json")

    assert "120.0 kB  make task_1 outcome.result" in listed.stdout
    assert document["execution_id"] == failed
    assert json.loads(whole.stdout) == {"rows": ROWS, "n": 1}
    assert part.stdout == '{"ro'
    size = document["results"][0]["size"]
    assert json.loads(to_file.stdout) == {"output": "rows.json", "size": size}
    written = (there.folder / "rows.json").read_text()
    assert json.loads(written) == {"rows": ROWS, "n": 1}


def test_what_failed_is_tried_again(there: Any, failed: str) -> None:
    outlook = there.noetl("retry", failed, "--set", "by=2", "--dry-run")
    done = there.noetl("retry", failed, "--set", "by=2", "--wait", "--json")
    document = json.loads(done.stdout)
    more = ("--set", "by=5", "--wait", "--no-progress")
    again = there.noetl("fork", failed, "--at", "9", *more)

    assert outlook.returncode == 0, outlook.stderr
    assert "keep   make: done" in outlook.stdout
    assert done.returncode == 0, done.stderr
    assert (document["status"], document["result"]) == ("completed", 5)
    assert document["forked_from"]["execution_id"] == failed
    assert again.returncode == 0, again.stderr
    assert "result: 2" in again.stdout


def test_a_mistyped_path_names_the_nearest_registered_playbook(
    there: Any, running: Running
) -> None:
    (there.folder / "daily.yaml").write_text(HELLO.replace("hello", "daily"))
    registered = there.noetl("catalog", "register", "daily.yaml")
    refused = there.noetl("exec", "tests/dayly")

    assert registered.returncode == 0, registered.stderr
    assert refused.returncode == 2
    assert refused.stderr.endswith("; did you mean 'tests/daily'?\n")


@pytest.mark.spec("S-72")
def test_executions_are_labelled_and_found_by_labels(there: Any) -> None:
    approval = "- {step: start, tool: {kind: wait, signal: go}}"
    there.noetl("catalog", "register", there.write("approval", approval))
    labels = ("--label", "team=a b", "--label", "day=1")
    started = there.noetl("exec", "tests/approval", *labels, "--json")
    other = there.noetl("exec", "tests/approval", "--label", "day=2", "--json")
    execution_id = json.loads(started.stdout)["execution_id"]
    found = [
        json.loads(there.noetl("list", "--json", *options, *labels).stdout)[
            "executions"
        ]
        for options in ((), ("--waiting",), ("--status", "failed"))
    ]
    shown = there.noetl("show", execution_id)

    assert other.returncode == 0, other.stderr
    ids = [[line["execution_id"] for line in lines] for lines in found]
    assert ids == [[execution_id], [execution_id], []]
    assert "labels: day=1, team=a b" in shown.stdout


def test_lines_of_task_logs_are_printed_by_their_range(
    there: Any, running: Running
) -> None:
    talks = "- {step: start, tool: {kind: shell, command: 'printf \"a\\nb\\nc\\n\"'}}"
    api = Api(running.url, running.token)
    name = api.run(playbook("prints", talks))["execution_id"]
    found = [
        [line.rpartition("│ ")[2] for line in done.stdout.splitlines()]
        for options in (["0-1"], ["-2"], ["-1", "--follow"])
        for done in [there.noetl("logs", name, "--lines", *options)]
    ]

    assert found == [["a", "b"], ["b", "c"], ["c"]]


@pytest.mark.spec("S-72", "S-37")
def test_unknown_inputs_of_a_child_are_warned_about_at_the_end(there: Any) -> None:
    child = '- {step: start, tool: {kind: noop, result: "{{ workload.region }}"}}'
    call = "{kind: playbook, path: tests/asked, args: {regoin: us}}"
    parent = f"- {{step: a, loop: {{in: [1, 2], iterator: n}}, tool: {call}}}"
    for name, steps, root in (
        ("asked", child, "workload: {region: eu}\n"),
        ("asks", parent, ""),
    ):
        there.noetl("catalog", "register", there.write(name, steps, root))
    done = there.noetl("exec", "tests/asks", "--wait", "--no-progress")
    document = json.loads(there.noetl("show", "last", "--json").stdout)

    warning = "playbook 'tests/asked': workload has no 'regoin', but it has 'region'"
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"warning: {warning}") == 1
    assert document["warnings"] == [warning]


def test_a_report_is_written(there: Any, failed: str) -> None:
    done = there.noetl("show", failed, "--html", "report.html")

    page = (there.folder / "report.html").read_text()
    assert done.returncode == 0, done.stderr
    assert failed in page
    assert "10 // divisor" in page, "with the text of the playbook"


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_events_are_exported(there: Any, failed: str, form: str) -> None:
    done = there.noetl("events", failed, "--export", form, f"events.{form}")
    lines = there.noetl("events", failed, "--json").stdout.splitlines()

    assert done.returncode == 0, done.stderr
    assert f"{len(lines)} events written" in done.stderr
    if form == "jsonl":
        written = (there.folder / "events.jsonl").read_text().splitlines()
        assert list(map(json.loads, written)) == list(map(json.loads, lines))


def test_the_log_is_asked_in_sql(there: Any, failed: str) -> None:
    query = "select step, count(*) n from events where step is not null group by 1"
    one = there.noetl("sql", f"{query} order by 1", "--execution", failed, "--json")
    all_ = there.noetl("sql", "select count(*) n from executions", "--json")

    rows = [json.loads(line) for line in one.stdout.splitlines()]
    assert [row["step"] for row in rows] == ["divide", "make"], one.stderr
    assert json.loads(all_.stdout)["n"] >= 1
    assert "others with --execution ID" in all_.stderr


@pytest.mark.parametrize("at_home", [True, False], ids=["at home", "at a server"])
def test_a_cursor_that_is_none_is_refused(
    request: pytest.FixtureRequest, at_home: bool
) -> None:
    shell = request.getfixturevalue("shell" if at_home else "there")

    done = shell.noetl("list", "--cursor", "nonsense", "--json")

    assert (done.returncode, done.stdout) == (2, "")
    assert "--cursor: no execution 'nonsense'" in done.stderr
    assert "the id of the last execution on the previous page" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["fork", "{}", "--at", "9999"], "there is no event 9999"),
        (["retry", "{}", "--from", "mkae"], "did you mean 'make'"),
        (["retry", "{}", "--playbooks", "."], "--playbooks cannot be used with"),
        (["retry", "nobody"], "no execution 'nobody' at http://"),
        (["result", "get", "0" * 64], "is not a stored result"),
        (["result", "get", "{}", "--step", "mkae"], "did you mean 'make'"),
        (["sql", "select 1", "--execution", "nobody"], "no execution 'nobody'"),
        (["events", "nobody", "--export", "jsonl", "x"], "no execution 'nobody'"),
    ],
)
def test_a_mistake_is_explained(
    there: Any, failed: str, args: list[str], said: str
) -> None:
    done = there.noetl(*(each.format(failed) for each in args))

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
