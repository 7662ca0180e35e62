"""Results beside the log: listed, fetched, damaged, cleaned up, kept elsewhere."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from s3_peer import KEY, SECRET, S3Peer
from stored_log import unfolded_logs

MAKE = """
- step: make
  tool:
    - rows:
        kind: python
        code: |
          def main():
              return [{"n": n, "text": "x" * 100} for n in range(20_000)]
"""
SMALL = "- {step: only, tool: {kind: noop, result: {a: 1}}}"
OLD = 1_000_000_000


def blobs(home: Path) -> list[Path]:
    folder = home / "results"
    found = [p for p in folder.rglob("*") if p.is_file() and p.name != "lock"]
    return [path for path in found if path.parent.name != "drafts"]


def large(home: Path) -> Path:
    [found] = [path for path in blobs(home) if path.stat().st_size > 1_000_000]
    return found


def age(home: Path) -> None:
    """Nobody can say any more that these were put a moment ago."""
    for path in (home / "results").rglob("*"):
        os.utime(path, (OLD, OLD))


@pytest.fixture(scope="module")
def made(make_shell: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A home in which it was made already; to be looked at only."""
    shell = make_shell(tmp_path_factory.mktemp("made"))
    shell.run(shell.write("make", MAKE))
    return shell


@pytest.mark.spec("RES-03", "RES-04", "C-36", "S-48")
def test_results_of_an_execution_are_listed_and_fetched(shell: Any) -> None:
    execution_id = shell.run(shell.write("make", MAKE))["execution_id"]

    listed = json.loads(shell.noetl("result", "ls", "last", "--json").stdout)

    assert listed["execution_id"] == execution_id
    [rows, *_] = listed["results"]
    assert (rows["step"], rows["task"], rows["there"]) == ("make", "rows", True)
    assert (rows["path"], rows["schema_hint"]) == ("outcome.result", "list")
    assert rows["checksum"] == f"sha256:{rows['key']}"
    line = shell.noetl("result", "ls", execution_id).stdout.splitlines()[0]
    assert line == f"{rows['key']}      2.4 MB  make rows outcome.result"
    fetched = shell.noetl("result", "get", rows["key"]).stdout
    assert len(fetched) == rows["size"]
    assert json.loads(fetched)[19_999]["n"] == 19_999
    assert (
        shell.noetl("result", "get", f"sha256:{rows['key']}:0-7").stdout == '[{"n":0,'
    )


@pytest.mark.spec("S-48")
def test_the_result_of_an_execution_or_a_step_is_fetched_whole(shell: Any) -> None:
    shell.run(shell.write("make", MAKE))

    whole = json.loads(shell.noetl("result", "get", "last").stdout)
    done = shell.noetl("result", "get", "last", "--step", "make", "-o", "out.json")
    said = shell.noetl("result", "get", "last", "-o", "again.json", "--json").stdout

    assert len(whole) == 20_000
    assert json.loads((shell.folder / "out.json").read_text()) == whole
    assert done.stderr == "out.json: 2.4 MB\n"
    again = shell.folder / "again.json"
    assert json.loads(said) == {"output": "again.json", "size": again.stat().st_size}
    assert json.loads(again.read_text()) == whole
    assert sorted(path.name for path in shell.folder.glob(".*")) == []


def test_many_results_of_a_loop_are_fetched_from_the_log(shell: Any) -> None:
    flow = """
    - step: each
      loop: {in: "{{ range(300) }}", iterator: i, spec: {mode: parallel}}
      tool: {kind: noop, result: {n: "{{ iter.i }}", text: "{{ 'x' * 500 }}"}}
    """
    shell.run(shell.write("many", flow))

    fetched = json.loads(shell.noetl("result", "get", "last", "--step", "each").stdout)

    assert [each["n"] for each in fetched] == list(range(300))
    assert "log:" in shell.noetl("result", "ls", "last").stdout


@pytest.mark.spec("S-65")
@pytest.mark.parametrize(
    ("ref", "said"),
    [
        (
            "../../etc/passwd",
            "ref.not_found: '../../etc/passwd' is not a stored result",
        ),
        ("/etc/passwd", "ref.not_found"),
        ("a" * 5000, "ref.not_found: 'aaaa"),
        ("0" * 64, "ref.not_found: '0000"),
        ("log:nobody", "ref.not_found"),
        ("KEY:100-50", "ref.range: '100-50' is not a range within 2,428,891"),
        ("KEY:0-1000000000000000000", "ref.range"),
        ("KEY:-1-5", "ref.range"),
        ("KEY:", "ref.range"),
        ("KEY:0-99999999999999999999999", "ref.range"),
        ("nope", "no execution 'nope' under"),
        ("last --step mkae", "step 'mkae' has not run; did you mean 'make'?"),
        ("KEY --step make", "--step needs the ID of an execution"),
        ("KEY --output /nowhere/x", "/nowhere/x: cannot be written"),
    ],
)
def test_a_failed_fetch_is_reported_in_one_line(made: Any, ref: str, said: str) -> None:
    key = large(made.home)
    given = ref.replace("KEY", key.parent.name + key.name).split()

    done = made.noetl("result", "get", *given)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("noetl: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


@pytest.mark.spec("S-48", "S-65")
@pytest.mark.parametrize("damage", ["gone", "changed", "cut", "link"])
def test_a_lost_or_changed_result_is_never_given_out(shell: Any, damage: str) -> None:
    shell.run(shell.write("make", MAKE))
    blob = large(shell.home)
    key, body = blob.parent.name + blob.name, blob.read_bytes()
    blob.unlink()
    if damage == "changed":
        blob.write_bytes(body.replace(b"19999", b"20000"))
    elif damage == "cut":
        blob.write_bytes(body[:-1])
    elif damage == "link":
        (shell.folder / "elsewhere").write_bytes(body)
        blob.symlink_to(shell.folder / "elsewhere")
    kind = "ref.corrupt" if damage in ("changed", "cut") else "ref.gone"

    for arguments in (["last"], [key], [f"{key}:0-7"], ["last", "-o", "out.json"]):
        done = shell.noetl("result", "get", *arguments)
        assert (done.returncode, done.stdout[:1]) != (0, "[")
        assert f"noetl: {kind}: " in done.stderr
    assert not (shell.folder / "out.json").exists()
    listed = shell.noetl("result", "ls", "last").stdout.splitlines()[0]
    assert listed.endswith("  gone") == (damage in ("gone", "link"))


@pytest.mark.spec("S-48", "S-65")
@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_a_tool_is_not_given_a_lost_or_changed_result(shell: Any, damage: str) -> None:
    spoil = "p.unlink()" if damage == "gone" else "p.write_bytes(b'[]')"
    flow = f"""
    - step: make
      tool:
        - rows:
            kind: duckdb
            command: SELECT i AS id, repeat('x', 100) AS t FROM range(20000) r(i)
            spec: {{policy: {{rules: [{{else: {{then:
              {{do: continue,
                set_ctx: {{rows: "{{{{ outcome.result | ref }}}}"}}}}}}}}]}}}}
        - spoil:
            kind: python
            args: {{home: "{shell.home}", key: "{{{{ ctx.rows.rows | ref }}}}"}}
            code: |
              import pathlib
              key = key["key"]
              p = pathlib.Path(home) / "results" / key[:2] / key[2:]
              {spoil}
              result = 1
        - count:
            kind: duckdb
            tables: {{t: "{{{{ ctx.rows | ref }}}}"}}
            command: SELECT count(*) AS n FROM t
    """
    document = shell.run(shell.write("spoil", flow))

    error = document["error"]
    assert error["kind"] == ("ref.gone" if damage == "gone" else "ref.corrupt")
    assert (error["task"], error["retryable"]) == ("count", False)
    assert "tables.t: blob" in error["message"]


@pytest.mark.spec("S-48")
def test_what_is_cleaned_is_what_no_log_names(shell: Any) -> None:
    shell.run(shell.write("make", MAKE))
    shell.run(shell.write("small", SMALL))
    named = set(blobs(shell.home))
    orphan = shell.home / "results" / "ab" / ("0" * 62)
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"a crash came between storing and naming")
    draft = shell.home / "results" / "drafts" / "half.draft"
    draft.write_bytes(b"half")

    fresh = json.loads(shell.noetl("clean", "--json").stdout)
    age(shell.home)
    planned = json.loads(shell.noetl("clean", "--dry-run", "--json").stdout)
    still_there = orphan.exists()
    done = shell.noetl("clean")

    assert (fresh["results"]["count"], fresh["drafts"]["count"]) == (0, 0)
    assert planned["results"]["keys"] == ["ab" + "0" * 62]
    assert (planned["dry_run"], planned["executions"], still_there) == (True, [], True)
    said = "removed 0 executions, 1 result (39 bytes) and 1 draft (4 bytes)\n"
    assert done.stdout == said
    assert set(blobs(shell.home)) == named
    assert len(json.loads(shell.noetl("result", "get", "last").stdout)) == 1


CHILD = """
- {step: call, tool: {kind: playbook, path: tests/make}}
"""
WAITING = """
- step: make
  tool:
    - rows:
        kind: python
        code: |
          def main():
              return [{"n": n, "text": "y" * 100} for n in range(20_000)]
    - nap: {kind: wait, signal: go}
    - count: {kind: python, args: {rows: "{{ _prev }}"}, code: "result = 1"}
"""


@pytest.mark.spec("S-48")
def test_old_executions_go_with_their_children_and_results(shell: Any) -> None:
    shell.write("make", MAKE)
    shell.run(shell.write("parent", CHILD))
    names = [each["execution_id"] for each in shell.executions()]
    process = shell.start("run", shell.write("waiting", WAITING), "--json")
    waiting = shell.await_event(process, "waiting", "task.suspended")
    age(shell.home)

    locked = json.loads(shell.noetl("clean", "--older-than", "0s", "--json").stdout)
    shell.noetl("pause", waiting)
    process.communicate()
    kept = json.loads(shell.noetl("clean", "--older-than", "1d", "--json").stdout)
    age(shell.home)
    done = json.loads(shell.noetl("clean", "--older-than", "0s", "--json").stdout)

    assert sorted([*locked["executions"], *locked["busy"]]) == sorted(names)
    assert kept["executions"] == []
    assert sorted([*locked["executions"], *done["executions"]]) == sorted(names)
    assert [each["execution_id"] for each in shell.executions()] == [waiting]
    assert len(blobs(shell.home)) == 2, "the text of its playbook, and its rows"
    assert shell.noetl("verify", "--execution", "all").returncode == 0
    shell.noetl("signal", waiting, "go")
    document = json.loads(shell.noetl("resume", waiting, "--json").stdout)
    assert document["status"] == "completed", document["error"]


@pytest.mark.spec("S-48")
def test_a_result_that_two_executions_name_stays_with_the_younger(shell: Any) -> None:
    file = shell.write("make", MAKE)
    first = shell.run(file)["execution_id"]
    second = shell.run(file)["execution_id"]
    age(shell.home)
    log = sqlite3.connect(shell.home / "log.db")
    [[summary]] = log.execute(
        "SELECT summary FROM execution WHERE execution_id = ?", (first,)
    ).fetchall()
    ended = {**json.loads(summary), "finished_at": "2020-01-01T00:00:00.000000Z"}
    log.execute(
        "UPDATE execution SET summary = ? WHERE execution_id = ?",
        (json.dumps(ended), first),
    )
    log.commit()
    log.close()

    done = json.loads(shell.noetl("clean", "--older-than", "30d", "--json").stdout)

    assert done["executions"] == [first]
    assert done["results"]["count"] == 0
    assert len(json.loads(shell.noetl("result", "get", second).stdout)) == 20_000


def test_a_log_that_cannot_be_read_stops_the_cleaning(shell: Any) -> None:
    shell.run(shell.write("make", MAKE))
    age(shell.home)
    before = blobs(shell.home)
    (shell.home / "log-2.db").write_bytes(b"not a database at all, but 100 bytes" * 100)

    done = shell.noetl("clean", "--older-than", "0s")

    assert done.returncode == 2
    assert "log-2.db" in done.stderr
    assert blobs(shell.home) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--older-than", "3 weeks"], "'3 weeks' is not a duration; write 30d"),
        (["--older-than", "-1d"], "is not a duration"),
        (["--older-than", "30"], "'30' has no unit; write 30d"),
        (["everything"], "unexpected extra argument"),
    ],
)
def test_mistakes_in_cleaning_are_reported(
    shell: Any, arguments: list[str], said: str
) -> None:
    done = shell.noetl("clean", *arguments)

    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.spec("RES-07", "S-62")
def test_results_are_stored_in_an_object_store(shell: Any, s3: S3Peer) -> None:
    shell._env |= {**s3.environment(), "NOETL_RESULTS_URL": "s3://bucket/noetl"}

    document = shell.run(shell.write("make", MAKE))
    fetched = shell.noetl("result", "get", "last")
    [(_, events)] = unfolded_logs(shell.home)
    cleaned = shell.noetl("clean", "--older-than", "0s", "--json")

    assert document["status"] == "completed", document["error"]
    assert len(json.loads(fetched.stdout)) == 20_000
    assert not (shell.home / "results").exists()
    sizes = [len(body) for name, (body, _) in s3.objects.items() if "/blobs/" in name]
    assert max(sizes) > 2_000_000
    assert len(json.loads(cleaned.stdout)["executions"]) == 1
    assert b"workflow.started" in events
    for secret in (KEY, SECRET):
        assert secret not in json.dumps(document)
        assert secret.encode() not in events


@pytest.mark.spec("RES-07", "S-48")
@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_an_object_that_was_lost_or_changed_is_said(
    shell: Any, s3: S3Peer, damage: str
) -> None:
    shell._env |= {**s3.environment(), "NOETL_RESULTS_URL": "s3://bucket/noetl"}
    shell.run(shell.write("make", MAKE))
    for name, (body, at) in list(s3.objects.items()):
        if len(body) > 1_000_000:
            s3.objects[name] = (body.replace(b"19999", b"20000"), at)
            if damage == "gone":
                del s3.objects[name]

    done = shell.noetl("result", "get", "last")

    assert f"noetl: ref.{'gone' if damage == 'gone' else 'corrupt'}: " in done.stderr
    assert "19998" not in done.stdout


@pytest.mark.spec("RES-07", "S-48")
def test_tools_stream_to_an_object_store_and_read_from_it(
    shell: Any, s3: S3Peer
) -> None:
    shell._env |= {**s3.environment(), "NOETL_RESULTS_URL": "s3://bucket/noetl"}
    flow = """
    - step: start
      tool:
        - make:
            kind: duckdb
            command: SELECT i AS id, repeat('x', 200) AS t FROM range(100000) r(i)
        - use:
            kind: duckdb
            tables: {t: "{{ _prev | ref }}"}
            command: SELECT count(*) AS n, sum(id)::BIGINT AS s FROM t
    """
    document = shell.run(shell.write("stream", flow))

    assert document["error"] is None, document["error"]
    assert document["result"]["rows"] == [{"n": 100_000, "s": 4_999_950_000}]
    assert max(len(body) for body, _ in s3.objects.values()) > 20_000_000
    assert s3.largest_body <= 8 * 1024 * 1024
    assert list((shell.home / "tmp" / "results").iterdir()) == []


def test_a_store_of_two_homes_is_not_cleaned(shell: Any, s3: S3Peer) -> None:
    shell._env |= {**s3.environment(), "NOETL_RESULTS_URL": "s3://bucket/noetl"}
    file = shell.write("make", MAKE)
    shell.run(file)
    mine = dict(shell._env)
    shell._env |= {"NOETL_HOME": str(shell.folder / "other")}
    shell.run(file)
    shell._env = mine
    s3.objects = {name: (body, OLD) for name, (body, _) in s3.objects.items()}

    done = shell.noetl("clean", "--older-than", "0s")

    assert done.returncode == 2
    assert "s3://bucket/noetl holds the results of 1 other homes" in done.stderr
    assert len(shell.executions()) == 1


def test_a_refusing_or_missing_store_is_reported(shell: Any, s3: S3Peer) -> None:
    shell._env |= {**s3.environment(), "NOETL_RESULTS_URL": "s3://bucket/noetl"}
    file = shell.write("make", MAKE)
    s3.refuses = True
    refused = shell.noetl("run", file, "--json")
    shell._env |= {"NOETL_RESULTS_URL": "s3://a:b@bucket"}
    wrong = shell.noetl("run", file, "--json")

    assert (refused.returncode, wrong.returncode) == (2, 2)
    assert "the credential is missing or refused" in refused.stderr
    assert SECRET not in refused.stderr + refused.stdout
    assert "NOETL_RESULTS_URL: it must not contain a credential" in wrong.stderr
