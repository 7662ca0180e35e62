"""Triggers and backfills as a user has them on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import Api

EXAMPLES = Path(__file__).parents[2] / "examples"
PLAYBOOK = str(EXAMPLES / "daily_report.yaml")


@pytest.fixture
def server(shell: Any) -> Iterator[dict[str, Any]]:
    done = shell.noetl("server", "start", "--port", "0", "--json")
    assert done.returncode == 0, done.stderr
    assert shell.noetl("catalog", "register", PLAYBOOK).returncode == 0
    yield json.loads(done.stdout)
    shell.noetl("server", "stop")


def read(done: Any) -> Any:
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_the_example_triggers_start_the_example(
    shell: Any, server: dict[str, Any]
) -> None:
    nightly = str(EXAMPLES / "triggers" / "nightly.yml")
    recount = str(EXAMPLES / "triggers" / "recount.yml")
    made = read(shell.noetl("trigger", "create", "-f", nightly, "--json"))
    hook = read(shell.noetl("trigger", "create", "-f", recount, "--json"))
    listed = read(shell.noetl("trigger", "list", "--json"))["triggers"]

    assert (made["kind"], made["created"], hook["kind"]) == (
        "schedule",
        True,
        "webhook",
    )
    assert [each["name"] for each in listed] == ["nightly", "recount"]
    sender = Api(server["url"], hook["token"])
    answers = [
        sender.post(hook["hook"], {"id": "r-17", "day": "2026-01-05"}) for _ in range(2)
    ]
    assert len({each.body["execution_id"] for each in answers}) == 1
    shown = shell.noetl("events", answers[0].body["execution_id"], "--follow")
    assert shown.returncode == 0
    document = read(shell.noetl("show", answers[0].body["execution_id"], "--json"))
    assert document["result"] == "report of 2026-01-05: a recount"

    start = ("backfill", "start", "nightly", "--since", "2026-03-27")
    line = read(shell.noetl(*start, "--until", "2026-03-31", "--wait", "--json"))
    assert (line["state"], line["completed"]) == ("finished", 4)
    again = read(shell.noetl("backfill", "status", line["backfill_id"], "--json"))
    assert again == line
    assert read(shell.noetl("backfill", "list", "--json"))["backfills"] == [line]


FRAGILE = """
- step: load
  tool: {kind: shell, command: [test, "{{ workload.good }}", "=", "yes"]}
"""


@pytest.mark.spec("S-76", "S-77")
@pytest.mark.usefixtures("server")
def test_failed_slots_and_executions_run_again_on_purpose(shell: Any) -> None:
    """One with ``fire``, the others with a backfill, the rest with ``retry``."""
    file = shell.write("fragile", FRAGILE, "workload: {good: 'no', day: ''}\n")
    assert shell.noetl("catalog", "register", file).returncode == 0
    plan = ("--cron", "0 2 * * *", "--zone", "UTC", "--set", "day={{ slot.date }}")
    create = ("trigger", "create", "t", "--playbook", "tests/fragile", *plan)
    days = ("--since", "2026-01-01", "--until", "2026-01-04", "--wait", "--json")
    assert shell.noetl(*create).returncode == 0
    assert shell.noetl("backfill", "start", "t", *days).returncode == 1
    assert shell.noetl(*create, "--set", "good=yes", "--replace").returncode == 0
    slot = ("trigger", "fire", "t", "--slot", "2026-01-02T02:00")

    said = shell.noetl(*slot)
    again = read(shell.noetl(*slot, "--again", "--json"))
    shell.noetl("events", again["execution_id"], "--follow")
    filled = read(shell.noetl("backfill", "start", "t", *days, "--failed"))
    late = shell.noetl(*slot, "--again")

    assert said.stdout.startswith("failed: ")
    assert "repeat it with --again" in said.stderr
    assert (filled["present"], filled["completed"], filled["failed"]) == (1, 2, 0)
    assert late.returncode == 2
    assert "only what failed or was cancelled is run again" in late.stderr
    failed = ("--status", "failed", "--trigger", "t")
    dry = read(shell.noetl("retry", *failed, "--dry-run", "--json"))
    assert dry == {"done": [], "refused": [], "more": False}  # all slots ran again
    shell.noetl("exec", "tests/fragile", "--wait")
    many = read(shell.noetl("retry", "--path", "tests/*", "--json"))
    assert [line["status"] for line in many["done"]] == ["failed"]
    assert shell.noetl("cancel", "--trigger", "t").stdout == "no execution matches\n"


@pytest.mark.usefixtures("server")
def test_what_show_prints_can_be_a_file(shell: Any, tmp_path: Path) -> None:
    options = ("--webhook", "--key", "{{ payload.id }}", "--set", "day={{ payload.d }}")
    playbook = ("--playbook", "examples/daily_report")
    assert shell.noetl("trigger", "create", "a", *playbook, *options).returncode == 0
    shown = shell.noetl("trigger", "show", "a")
    file = tmp_path / "a.yaml"
    file.write_text(shown.stdout)

    again = read(shell.noetl("trigger", "create", "-f", str(file), "--json"))

    assert again["created"] is False
    paused = read(shell.noetl("trigger", "pause", "a", "--json"))
    resumed = read(shell.noetl("trigger", "resume", "a", "--json"))
    assert (paused["paused"], resumed["paused"]) == (True, False)
    assert read(shell.noetl("trigger", "delete", "a", "--json")) == {"name": "a"}
    assert "no triggers" in shell.noetl("trigger", "list").stdout


@pytest.mark.usefixtures("server")
def test_a_secret_comes_from_a_file_and_is_not_shown(
    shell: Any, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("a secret of the sender\n")
    options = ("--playbook", "examples/daily_report", "--webhook")
    signs = ("--verify", "signature", "--secret-file", str(tmp_path / "secret"))

    made = shell.noetl("trigger", "create", "s", *options, *signs)

    assert made.returncode == 0, made.stderr
    assert "shown only once" not in made.stdout
    assert "a secret of" not in made.stdout + made.stderr


WRONG = [
    ("create", "expected a NAME and --playbook"),
    ("create x --playbook examples/daily_report", "found none of them"),
    ("create x --playbook a --zone UTC", "--zone needs --cron"),
    ("create x --playbook a --webhook --cron 0", "a trigger has one of"),
    ("create x --playbook a --no-overlap", "--no-overlap needs --cron"),
    ("create x --playbook nowhere --webhook", "register it: noetl catalog register"),
    ("create X! --playbook a --webhook", "a name has lower-case letters"),
    ("create x -f nowhere.yaml", "--file is complete"),
    ("create -f nowhere.yaml", "nowhere.yaml: no such file"),
    ("fire nobody", "unknown trigger 'nobody'"),
    ("delete nobody", "noetl trigger list shows all triggers"),
]


@pytest.mark.usefixtures("server")
def test_a_mistake_is_one_line(shell: Any) -> None:
    for arguments, said in WRONG:
        done = shell.noetl("trigger", *arguments.split())
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert said in done.stderr, arguments
        assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: a\nplaybook: b\nwebhok: {}\n", ":3:1: webhok: 'webhok' is not a"),
        ("name: a\nwebhook: {}\n", "playbook: 'playbook' is missing"),
        (
            "name: a\nplaybook: b\nschedule:\n  cron: 0 2 * * *\n  zone: Mars/X\n",
            ":5:3: schedule.zone: unknown time zone 'Mars/X'",
        ),
        (
            "name: a\nplaybook: b\nworkload:\n  x:\n    - '{{ slot }}'\nwebhook: {}\n",
            ":5:7: workload.x[0]: 'slot' is not available in a webhook trigger",
        ),
        ("- a\n", ":1:1: a trigger is a mapping"),
        ("a: 1\na: 2\n", ":2:1: "),
    ],
)
def test_a_wrong_file_is_reported_with_its_position(
    shell: Any, tmp_path: Path, text: str, said: str
) -> None:
    """Before any server is asked."""
    file = tmp_path / "trigger.yaml"
    file.write_text(text)

    done = shell.noetl("trigger", "create", "-f", str(file))

    assert done.returncode == 2
    assert said in done.stderr


def test_without_a_server_it_says_so(shell: Any) -> None:
    done = shell.noetl("trigger", "list")

    assert done.returncode == 3
    assert "noetl server start" in done.stderr
