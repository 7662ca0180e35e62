"""``list``, ``show``, ``events`` and ``replay``: page by page, and while it runs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.commands.local.logs import PAGE
from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.ports import Append, Summary, Transition

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
LONG = HEAD + (
    "workflow:\n"
    "  - step: each\n"
    '    loop: {in: "{{ range(300) }}", iterator: i}\n'
    '    tool: {kind: noop, result: "{{ iter.i }}"}\n'
)
START = "2026-11-15T08:00:00.000000Z"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def noetl(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "noetl", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def write(folder: Path, text: str) -> str:
    (folder / "playbook.yaml").write_text(text)
    return "playbook.yaml"


# -- list ------------------------------------------------------------------------


def store_some(home: Path, log: str, names: str) -> None:
    """Executions of one letter each in a log; capital ones have failed."""

    async def commit() -> None:
        store = SqliteStore.open(home / log)
        for name in names:
            event = Event(
                event_id=f"{name}.1",
                execution_id=name,
                seq=1,
                timestamp=START,
                source="server",
                name="playbook.execution.requested",
                entity_type="playbook",
                parent_id=None,
                entity_id=name,
                status="in_progress",
                payload={"playbook": {}, "trace_id": "0" * 32},
            )
            status = "failed" if name in "bd" else "completed"
            summary = Summary(
                name,
                status,  # type: ignore[arg-type]
                {"path": f"tests/{name}"},
                START,
                labels={"team": "x y" if name in "abg" else "z"},
            )
            transition = Transition(
                execution_id=name, log=Append(0, [event]), summary=summary
            )
            await store.commit([transition])
        await store.close()

    asyncio.run(commit())


@pytest.fixture
def some(folder: Path) -> Path:
    store_some(folder / "home", "log.db", "adf")
    store_some(folder / "home", "log-2.db", "bceg")
    return folder


def listed(*args: str) -> tuple[str, str | None]:
    document = json.loads(noetl("list", "--json", *args).stdout)
    names = "".join(each["execution_id"] for each in document["executions"])
    return names, document["cursor"]


@pytest.mark.spec("SRV-03")
def test_a_listing_goes_through_all_logs_page_by_page(some: Path) -> None:
    assert listed("--limit", "3") == ("gfe", "e")
    assert listed("--limit", "3", "--cursor", "e") == ("dcb", "b")
    assert listed("--limit", "3", "--cursor", "b") == ("a", None)


@pytest.mark.spec("SRV-03")
def test_a_page_that_ends_with_the_last_one_has_no_cursor(some: Path) -> None:
    assert listed("--limit", "7") == ("gfedcba", None)


@pytest.mark.spec("S-72")
def test_a_listing_by_label_goes_through_all_logs_page_by_page(some: Path) -> None:
    assert listed("--label", "team=x y", "--limit", "2") == ("gb", "b")
    assert listed("--label", "team=x y", "--cursor", "b") == ("a", None)
    assert listed("--label", "team=z", "--status", "failed") == ("d", None)
    page = noetl("list", "--limit", "1", "--label", "team=x y")
    following = "noetl list --label 'team=x y' --cursor g"
    assert page.stderr == f"there are more: {following}\n"


@pytest.mark.spec("SRV-03")
def test_a_listing_of_one_status(some: Path) -> None:
    assert listed("--status", "failed") == ("db", None)
    assert listed("--status", "failed", "--limit", "1") == ("d", "d")
    assert listed("--status", "failed", "--limit", "1", "--cursor", "d") == ("b", None)


def test_text_output_says_how_to_see_more(some: Path) -> None:
    done = noetl("list", "--limit", "2")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["ID", "g", "f"]
    assert done.stderr == "there are more: noetl list --cursor f\n"
    failed = noetl("list", "--limit", "1", "--status", "failed")
    assert failed.stderr == "there are more: noetl list --status failed --cursor d\n"
    assert noetl("list", "--cursor", "a").stdout == "no execution matches\n"


@pytest.mark.spec("SRV-03")
def test_a_listing_of_one_path_and_of_a_time(some: Path) -> None:
    assert listed("--path", "tests/c") == ("c", None)
    assert listed("--path", "tests/*", "--limit", "2") == ("gf", "f")
    assert listed("--path", "other/*") == ("", None)
    assert listed("--since", "1h") == ("", None)
    assert listed("--since", START)[0] == "gfedcba"
    more = noetl("list", "--path", "tests/*", "--limit", "1").stderr
    assert more == "there are more: noetl list --path 'tests/*' --cursor g\n"


def test_a_listing_is_a_table_of_short_ids_local_times_and_cut_errors(
    folder: Path,
) -> None:
    long = "x" * 500
    (folder / "child.yaml").write_text(
        HEAD.replace("tests/t", "tests/child")
        + "workflow:\n  - step: start\n"
        + f"    tool: {{kind: shell, command: echo {long} >&2; exit 1}}\n"
    )
    parent = HEAD + (
        "workflow:\n  - step: start\n    tool: {kind: playbook, path: tests/child}\n"
    )
    noetl("run", write(folder, parent), "--json")

    header, child, root = noetl("list").stdout.splitlines()
    lines = json.loads(noetl("list", "--json").stdout)["executions"]

    assert header.split() == ["ID", "STATUS", "STARTED", "TOOK", "PLAYBOOK"]
    short = lines[1]["execution_id"][-8:]
    assert root.startswith(f"{short}  failed  ")
    assert child.startswith(lines[0]["execution_id"][-8:])
    assert f"↳ tests/child  (called by {short})  " in child
    assert re.search(r"  2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d [A-Z]+  [\d.]+ m?s  ", root)
    assert child.endswith("…")
    assert max(map(len, (child, root))) < 170


def test_show_takes_the_end_of_an_id_and_without_one_the_last(folder: Path) -> None:
    (folder / "p.yaml").write_text(
        HEAD + "workflow:\n  - step: start\n    tool: {kind: noop}\n"
    )
    name = json.loads(noetl("run", "p.yaml", "--json").stdout)["execution_id"]
    by_end = noetl("show", name[-8:], "--json")
    default = noetl("show", "--json")
    page = noetl("show", "--html", "page.html")
    swapped = noetl("show", "--html", name[-8:])

    assert json.loads(by_end.stdout)["execution_id"] == name
    assert json.loads(default.stdout)["execution_id"] == name
    assert (page.returncode, (folder / "page.html").exists()) == (0, True)
    assert "write ID before --html" in swapped.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["list", "--since", "yesterday"], "'yesterday' is not a time; write 2h"),
        (["list", "--status", "done"], "'done' is not one of"),
        (["list", "--limit", "0"], "0 is not in the range"),
        (["replay", "g", "--at", "0"], "0 is not in the range"),
        (["replay", "g", "--at", "2"], "the log has events 1 to 1"),
        (["events", "nobody", "--follow"], "no execution 'nobody'"),
    ],
)
def test_a_wrong_call_exits_2(some: Path, args: list[str], said: str) -> None:
    done = noetl(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


# -- a log of several pages ------------------------------------------------------


@pytest.fixture(scope="module")
def long_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long")
    environ = {**os.environ, "NOETL_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "noetl", "run", write(folder, LONG), "--json"]
    subprocess.run(command, cwd=folder, env=environ, check=True, capture_output=True)
    return folder / "home"


@pytest.fixture
def long(long_home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of an execution whose log takes more than two pages."""
    monkeypatch.setenv("NOETL_HOME", str(long_home))
    [only] = json.loads(noetl("list", "--json").stdout)["executions"]
    name: str = only["execution_id"]
    return name


def events_of(name: str) -> list[Event]:
    lines = noetl("events", name, "--json").stdout.splitlines()
    return [msgspec.json.decode(line, type=Event) for line in lines]


@pytest.mark.spec("EVT-02", "EVT-08")
def test_events_come_in_order_without_a_gap(long: str) -> None:
    events = events_of(long)
    assert len(events) > 2 * PAGE
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    lines = noetl("events", long).stdout.splitlines()
    assert [int(line.split()[0]) for line in lines] == [each.seq for each in events]


@pytest.mark.spec("REP-01", "REP-03")
@pytest.mark.parametrize("at", [1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, None])
def test_a_replay_ends_at_the_given_event(long: str, at: int | None) -> None:
    args = [] if at is None else ["--at", str(at)]
    document = json.loads(noetl("replay", long, "--json", *args).stdout)
    expected = replay(events_of(long)[:at])
    assert document["seq"] == expected.seq
    assert document["status"] == expected.status
    loops = {name: run.loop.done for name, run in expected.runs.items() if run.loop}
    assert {name: loop["done"] for name, loop in document["loops"].items()} == loops


def test_show_counts_over_all_pages(long: str) -> None:
    document = json.loads(noetl("show", long, "--json").stdout)
    assert document["events"] == len(events_of(long))
    [step] = document["steps"]
    assert step["iterations"] == {"total": 300, "done": 300, "failed": 0, "skipped": 0}


# -- events --follow -------------------------------------------------------------


@pytest.fixture
def waiting(folder: Path) -> Iterator[tuple[str, Path]]:
    """A run whose step goes on when the file appears: its id and the file."""
    gate = folder / "go"
    text = HEAD + (
        "workflow:\n"
        "  - step: start\n"
        "    tool:\n"
        "      kind: shell\n"
        f"      command: while [ ! -e {gate} ]; do sleep 0.02; done\n"
    )
    command = [sys.executable, "-m", "noetl", "run", write(folder, text)]
    process = subprocess.Popen(
        [*command, "--no-progress"], stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        found: list[Any] = []
        while not found:
            assert process.poll() is None
            found = json.loads(noetl("list", "--json").stdout)["executions"]
        yield found[0]["execution_id"], gate
    finally:
        gate.touch()
        process.wait()


def follow(*args: str) -> subprocess.Popen[str]:
    """As a terminal starts it: Ctrl-C counts, even if it does not for the tests."""
    command = [sys.executable, "-m", "noetl", "events", *args, "--follow"]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@pytest.mark.spec("EVT-01")
def test_events_are_followed_to_the_end(waiting: tuple[str, Path]) -> None:
    name, gate = waiting
    lines = []
    with follow(name[:13], "--json") as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(json.loads(line))
            if lines[-1]["name"] == "task.started":
                gate.touch()  # what follows did not happen before this was printed
    assert process.returncode == 0
    assert lines[-1]["name"] == "playbook.processed"
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))


def test_following_in_text_ends_with_the_execution(
    waiting: tuple[str, Path],
) -> None:
    name, gate = waiting
    with follow(name) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        gate.touch()
        rest = process.stdout.read().splitlines()
    assert process.returncode == 0
    assert "playbook.execution.requested" in first
    assert "playbook.processed" in rest[-1]


def test_following_can_be_interrupted(waiting: tuple[str, Path]) -> None:
    name, _ = waiting
    with follow(name) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 130


def test_a_log_that_is_being_created_does_not_fail_a_reader(some: Path) -> None:
    (some / "home" / "log-3.db").touch()
    assert listed("--limit", "2") == ("gf", "f")
