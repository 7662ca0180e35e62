"""The log asked in SQL: three tables, read only, whatever else is going on."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import duckdb
import pytest

from noetl.adapters.analytics.duckdb_copy import require_duckdb
from noetl.adapters.analytics.query import needs_events, needs_results
from noetl.adapters.analytics.tables import TABLES
from noetl.commands.sql import MAX_ROWS
from noetl.errors import ConfigError
from noetl.extras import install_command

from .conftest import Shell

WORKFLOW = """
- step: fetch
  loop: {in: [3, 1, 2], iterator: n}
  tool:
    - ask:
        kind: noop
        result: {n: "{{ iter.n }}", text: "a,b\\"c"}
        spec:
          policy:
            rules:
              - when: "{{ _attempt < iter.n }}"
                then: {do: retry, attempts: 9}
              - else: {then: {do: continue}}
  next: {arcs: [{step: store}]}
- step: store
  tool: {kind: shell, command: exit 7}
"""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A home with one execution that failed and one that was completed."""
    shell = Shell(tmp_path_factory.mktemp("sql"))
    shell.run(shell.write("broken", WORKFLOW), "--label", "team=a")
    shell.run(shell.write("fine", "- {step: a, tool: {kind: noop, result: {x: 1}}}"))
    return shell


def rows(shell: Shell, sql: str) -> list[dict[str, Any]]:
    done = shell.noetl("sql", sql, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.spec("S-72")
def test_executions_are_selected_by_their_labels(asked: Shell) -> None:
    sql = "select playbook, labels from executions where labels->>'$.team' = 'a'"

    assert rows(asked, sql) == [{"playbook": "broken", "labels": {"team": "a"}}]


@pytest.mark.spec("EVT-26")
def test_inherited_events_of_a_fork_are_distinguishable(shell: Shell) -> None:
    flow = """
    - step: first
      tool: {kind: noop}
      next: {arcs: [{step: divide}]}
    - step: divide
      tool: {kind: noop, result: "{{ 6 // workload.n }}"}
    """
    origin = shell.run(shell.write("fork", flow, "workload: {n: 0}\n"))["execution_id"]
    fork = json.loads(shell.noetl("retry", "last", "--set", "n=2", "--json").stdout)

    [line] = rows(shell, "from executions where forked_from is not null")
    found = rows(
        shell,
        "select step, status, kept, duration_ms from results "
        f"where execution_id = '{fork['execution_id']}' and kind = 'step' order by seq",
    )

    assert (line["execution_id"], line["forked_from"]) == (fork["execution_id"], origin)
    keys = ("step", "status", "kept", "duration_ms")
    assert found == [{key: step[key] for key in keys} for step in fork["steps"]]
    assert [each["kept"] for each in found] == [True, False]
    [again] = rows(shell, "select count(*) as n from results where kept")
    assert again == {"n": 1}


@pytest.mark.spec("EVT-26")
def test_events_are_those_of_the_log(asked: Shell) -> None:
    """Every member of every event, as `noetl events --json` prints it."""
    for execution in asked.executions():
        name = execution["execution_id"]
        found = rows(
            asked,
            "select * replace (strftime(timestamp, '%Y-%m-%dT%H:%M:%S.%fZ') as "
            f"timestamp) from events where execution_id = '{name}' order by seq",
        )
        assert found == asked.events(name)


def test_executions_are_those_of_the_listing(asked: Shell) -> None:
    found = rows(asked, "from executions order by execution_id desc")
    listed = asked.executions()

    for row, line in zip(found, listed, strict=True):
        assert row["execution_id"] == line["execution_id"]
        assert row["status"] == line["status"]
        assert row["playbook"] == line["playbook"]["name"]
        assert row["duration_ms"] == line["duration_ms"]
        assert row["error"] == line["error"]
        assert row["events"] == len(asked.events(row["execution_id"]))
    assert (found[1]["error_kind"], found[1]["error_step"]) == ("tool.exit", "store")


def test_results_are_what_ended(asked: Shell) -> None:
    found = rows(
        asked,
        "select kind, step, results.status, attempts, result->>'$.n' as n, "
        "results.error->>'$.kind' as why "
        "from results join executions using (execution_id) "
        "where playbook = 'broken' order by seq",
    )
    assert [tuple(row.values()) for row in found] == [
        ("iteration", "fetch", "done", 3, "3", None),
        ("iteration", "fetch", "done", 1, "1", None),
        ("iteration", "fetch", "done", 2, "2", None),
        ("step", "fetch", "done", 3, None, None),
        ("step", "store", "failed", 1, None, "tool.exit"),
        ("execution", None, "failed", None, None, "tool.exit"),
    ]
    took = rows(asked, "select min(duration_ms) as least from results")
    assert took[0]["least"] >= 0


def test_a_limit_holds_beside_a_subquery(asked: Shell) -> None:
    """Results stand in order without a sorting view, which loses limits."""
    newest = "(select min(execution_id) from executions)"
    found = rows(asked, f"from results where execution_id = {newest} limit 2")
    assert [row["step"] for row in found] == ["fetch", "fetch"]


@pytest.mark.parametrize("table", TABLES)
def test_columns_are_as_they_are_documented(asked: Shell, table: str) -> None:
    found = rows(asked, f"describe {table}")
    documented = {name: column.type for name, column in TABLES[table].columns.items()}
    types = {row["column_name"]: row["column_type"] for row in found}
    zoned = {name: "TIMESTAMP WITH TIME ZONE" for name in types if "_at" in name}
    assert types == {**documented, **zoned} | (
        {"timestamp": "TIMESTAMP WITH TIME ZONE"} if table == "events" else {}
    )


def test_text_output_is_a_table(asked: Shell) -> None:
    done = asked.noetl(
        "sql", "select playbook, events from executions order by playbook"
    )
    head, rule, broken, _ = done.stdout.splitlines()
    assert head.split() == ["playbook", "events"]
    assert set(rule) == {"─", " "}
    assert broken.split()[0] == "broken"
    assert done.stderr == "2 rows\n"


def test_csv_can_be_read_again(asked: Shell) -> None:
    done = asked.noetl(
        "sql", "select step, result from results where kind = 'iteration'", "--csv"
    )
    table = list(csv.reader(done.stdout.splitlines()))
    assert table[0] == ["step", "result"]
    assert json.loads(table[1][1]) == {"n": 3, "text": 'a,b"c'}


def test_a_long_answer_is_cut_in_text_and_whole_in_json(asked: Shell) -> None:
    many = f"select * from range({MAX_ROWS + 500}) t(n)"
    done = asked.noetl("sql", many)
    assert len(done.stdout.splitlines()) == MAX_ROWS + 2
    assert "--json and --csv print them all" in done.stderr
    assert len(rows(asked, many)) == MAX_ROWS + 500


def test_control_characters_stay_off_the_terminal(asked: Shell) -> None:
    done = asked.noetl("sql", "select chr(27) || '[31m' || chr(10) || 'x' as evil")
    assert "\x1b" not in done.stdout
    assert len(done.stdout.splitlines()) == 3


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("selec 1", 'syntax error at or near "selec"\n  selec 1\n  ^'),
        ("select nam from events", 'unknown column "nam"; did you mean "name"?'),
        ("select\n  nam from events", "\n    nam from events\n    ^"),
        ("from evnts", "unknown table evnts; the tables are executions, events"),
        ("delete from events", "only queries are allowed (SELECT"),
        ("create table x (a int)", "only queries are allowed (SELECT"),
        ("set threads = 1", "only queries are allowed"),
        ("copy events to 'x.csv'", "only queries are allowed"),
        ("attach 'x.db'", "only queries are allowed"),
        ("install httpfs", "only queries are allowed"),
        ("update extensions", "only queries are allowed"),
        ("select 1; select 2", "one statement at a time, not 2"),
        (" ", "empty query; the tables are executions, events, results"),
        ("/* nothing */", "the query is empty"),
        ("from read_csv('/etc/passwd')", "can only read the tables of the log"),
        ("from '/etc/passwd'", "unknown table /etc/passwd"),
        ("from glob('/*')", "can only read the tables of the log"),
        ("select 'a'::int", "Could not convert string 'a' to INT32"),
        ("explain analyze delete from events", "read-only"),
    ],
)
def test_what_cannot_be_asked_exits_2_and_says_why(
    asked: Shell, sql: str, said: str
) -> None:
    done = asked.noetl("sql", sql)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_two_outputs_at_once_are_refused(asked: Shell) -> None:
    done = asked.noetl("sql", "select 1", "--json", "--csv")
    assert (done.returncode, "contradicts" in done.stderr) == (2, True)


def test_a_question_may_come_from_standard_input(asked: Shell) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "noetl", "sql", "-", "--json"],
        input="select count(*) as n\nfrom executions",
        env={"NOETL_HOME": str(asked.home)},
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout) == {"n": 2}


def test_an_empty_home_has_empty_tables(shell: Shell) -> None:
    for table in TABLES:
        assert rows(shell, f"select count(*) as n from {table}") == [{"n": 0}]


def test_nothing_is_left_behind_and_no_log_is_touched(asked: Shell) -> None:
    before = {path: path.read_bytes() for path in asked.home.glob("log*")}
    rows(asked, "from results")
    assert {path: path.read_bytes() for path in asked.home.glob("log*")} == before
    assert list((asked.home / "tmp").iterdir()) == []


def test_a_run_that_is_under_way_can_be_asked_about(shell: Shell) -> None:
    """And goes on: the question neither waits for it nor holds it up."""
    gate = shell.folder / "go"
    command = f"while [ ! -e {gate} ]; do sleep 0.02; done"
    file = shell.write(
        "slow", f"- {{step: a, tool: {{kind: shell, command: '{command}'}}}}"
    )
    process = shell.start("run", file, "--no-progress")
    shell.await_event(process, "slow", "task.started")

    [found] = rows(
        shell,
        "select x.status, x.events, count(*) as n, max(seq) as last from executions x "
        "join events using (execution_id) group by all",
    )
    gate.touch()
    process.communicate()
    assert process.returncode == 0
    assert found["status"] == "running"
    assert found["events"] == found["n"] == found["last"]


def test_a_question_can_be_interrupted(asked: Shell) -> None:
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "noetl", "sql", "--json"),
            "select * from range(1000000000000)",
        ],
        env={"NOETL_HOME": str(asked.home)},
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 130
    assert list((asked.home / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("sql", "events", "results"),
    [
        ("from executions", False, False),
        ('select * from "Events"', True, False),
        ("summarize results", True, True),
        ("from query_table('ev' || 'ents')", True, True),
        ("from query('from ev' || 'ents')", True, True),
    ],
)
def test_only_what_is_asked_for_is_copied(
    sql: str, events: bool, results: bool
) -> None:
    assert (needs_events(sql), needs_results(sql)) == (events, results)


# -- files -----------------------------------------------------------------------


@pytest.mark.spec("EVT-26")
def test_a_parquet_file_holds_the_log(asked: Shell, tmp_path: Path) -> None:
    """Read by DuckDB alone, it is the log: every row, column, order and number."""
    file = tmp_path / "events.parquet"
    done = asked.noetl("events", "all", "--export", "parquet", str(file))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        cursor = connection.execute(
            "select * replace (strftime(timestamp, '%Y-%m-%dT%H:%M:%S.%fZ') as "
            f"timestamp) from '{file}'"
        )
        names = [column[0] for column in cursor.description]
        found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        kinds = dict(
            connection.execute(
                f"select column_name, column_type from (describe from '{file}')"
            ).fetchall()
        )

    expected = [
        event
        for execution in sorted(asked.executions(), key=lambda x: x["execution_id"])
        for event in asked.events(execution["execution_id"])
    ]
    for row in found:
        row["payload"] = json.loads(row["payload"])
    assert found == expected
    assert kinds["payload"] == "JSON"
    assert kinds["timestamp"] == "TIMESTAMP WITH TIME ZONE"
    assert done.stderr == f"{len(expected)} events written to {file}\n"


def test_numbers_and_texts_survive_parquet(shell: Shell) -> None:
    values = {
        "large": 2**62 + 1,
        "small": 1e-7,
        "float": 1.0,
        "text": "\u0000\u202e😀\\\"'\n",
        "deep": [[[[[None, True, {"a": []}]]]]],
    }
    tool = {"kind": "python", "code": f"result = {values!r}"}
    step = json.dumps({"step": "a", "tool": tool}, ensure_ascii=False)
    shell.run(shell.write("odd", f"- {step}"))
    shell.noetl("events", "last", "--export", "parquet", "odd.parquet")
    with duckdb.connect() as connection:
        [(payload,)] = connection.execute(
            f"select payload from '{shell.folder}/odd.parquet' where name = 'step.done'"
        ).fetchall()
    assert json.loads(payload)["result"] == values


@pytest.mark.spec("EVT-26")
def test_json_lines_are_those_that_events_prints(asked: Shell, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    asked.noetl("events", "last", "--export", "jsonl", str(file))
    printed = asked.noetl("events", "last", "--json").stdout

    assert file.read_text() == printed
    assert asked.noetl("events", "last", "--export", "jsonl", "-").stdout == printed
    everything = asked.noetl("events", "all", "--export", "jsonl", "-").stdout
    assert len(everything.splitlines()) > len(printed.splitlines())
    assert everything.endswith(printed)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["last", "--export", "parquet", "-"], "only jsonl can be streamed"),
        (["last", "--export", "parquet", "no/x"], "parquet no/x: the folder /"),
        (["last", "--export", "jsonl", "no/x"], "jsonl no/x: the folder /"),
        (["last", "--export", "parquet", "."], "this is a folder; name a file in it"),
        (["last", "--export", "jsonl", "."], "this is a folder; name a file in it"),
        (["last", "--export", "parquet", ""], "name a file"),
        (["last", "--export", "xml", "x"], "'xml' is not one of 'parquet', 'jsonl'"),
        (["last", "--export", "jsonl"], "requires 2 arguments"),
        (["nobody", "--export", "jsonl", "x"], "no execution 'nobody'"),
        (["last", "--export", "jsonl", "x", "--json"], "--json contradicts --export"),
        (["last", "--export", "jsonl", "x", "-f"], "--follow contradicts --export"),
        (["all"], "the ID all needs --export"),
    ],
)
def test_a_wrong_export_exits_2_and_leaves_no_file(
    asked: Shell, args: list[str], said: str
) -> None:
    before = sorted(asked.folder.iterdir())
    done = asked.noetl("events", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert sorted(asked.folder.iterdir()) == before


def test_a_file_that_was_there_stays_until_the_new_one_is_whole(shell: Shell) -> None:
    shell.run(shell.write("a", "- {step: a, tool: {kind: noop}}"))
    file = shell.folder / "out.jsonl"
    file.write_text("old")
    (shell.home / "log-2.db").write_bytes(b"no database")
    failed = shell.noetl("events", "all", "--export", "jsonl", "out.jsonl")

    assert failed.returncode == 2
    assert file.read_text() == "old"
    (shell.home / "log-2.db").unlink()
    shell.noetl("events", "all", "--export", "jsonl", "out.jsonl")
    assert file.read_text().startswith('{"event_id"')


def test_a_missing_package_is_one_line_that_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", find)
    expected = re.escape(f"not installed; run: {install_command('duckdb')}")
    with pytest.raises(ConfigError, match=expected):
        require_duckdb()
