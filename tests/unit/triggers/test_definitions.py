"""What is no trigger is refused when it is made; rounds of triggers are seen."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from noetl.triggers.definition import Definition, Finished
from noetl.triggers.inputs import TriggerError
from noetl.triggers.parse import check, find_loop, starts_after

SCHEDULE = {"cron": "0 2 * * *"}
ALERT = {"playbook": "alerts/chat", "workload": {"t": "{{ alert.slot }}"}, "after": 60}


def read(**members: Any) -> Definition:
    document = {"name": "nightly", "playbook": "sales/orders", **members}
    return msgspec.convert(document, Definition)


@pytest.mark.parametrize(
    "members",
    [
        {"schedule": {**SCHEDULE, "zone": "Europe/Berlin", "jitter": "5m"}},
        {"schedule": SCHEDULE, "workload": {"day": "{{ slot.date }}"}},
        {"schedule": {**SCHEDULE, "alert": {"playbook": "alerts/chat@2"}}},
        {"schedule": {**SCHEDULE, "alert": ALERT}},
        {"webhook": {}, "playbook": "sales/orders@1.2"},
        {"webhook": {"key": "{{ payload.id }}", "verify": "signature"}},
        {"finished": {"path": "sales/*", "status": ["failed", "cancelled"]}},
    ],
)
def test_these_are_triggers(members: dict[str, Any]) -> None:
    check(read(**members), 0.0)


@pytest.mark.parametrize(
    ("members", "path", "message"),
    [
        ({}, "", "found none of them"),
        ({"webhook": {}, "schedule": SCHEDULE}, "", "found webhook and schedule"),
        ({"webhook": {}, "playbook": "../x"}, "playbook", "not a playbook path"),
        ({"webhook": {}, "playbook": "a/b@"}, "playbook", "no version follows"),
        ({"schedule": {"cron": "0 25 * * *"}}, "schedule.cron", "not a valid hour"),
        (
            {"schedule": {**SCHEDULE, "zone": "Mars/X"}},
            "schedule.zone",
            "unknown time zone",
        ),
        ({"schedule": {**SCHEDULE, "jitter": "2h"}}, "schedule.jitter", "an hour"),
        ({"schedule": {**SCHEDULE, "jitter": "soon"}}, "schedule.jitter", "duration"),
        ({"schedule": {"cron": "* * */20 * 1L"}}, "schedule.cron", "50 years"),
        (
            {"schedule": {**SCHEDULE, "alert": {**ALERT, "playbook": "../x"}}},
            "schedule.alert.playbook",
            "not a playbook path",
        ),
        (
            {"schedule": {**SCHEDULE, "alert": {**ALERT, "after": "soon"}}},
            "schedule.alert.after",
            "duration",
        ),
        (
            {
                "schedule": {
                    **SCHEDULE,
                    "alert": {**ALERT, "workload": {"a": "{{ alert.time }}"}},
                }
            },
            "schedule.alert.workload.a",
            "'alert' has no member 'time'",
        ),
        (
            {"schedule": SCHEDULE, "workload": {"a": "{{ alert.slot }}"}},
            "workload.a",
            "'alert' is not available",
        ),
        ({"finished": {"path": "sales*"}}, "finished.path", "not a path of playbooks"),
        (
            {"schedule": SCHEDULE, "workload": {"a": {"b": ["{{ payload.x }}"]}}},
            "workload.a.b[0]",
            "'payload' is not available in a schedule trigger",
        ),
        (
            {"webhook": {}, "workload": {"a": "{{ payload.x"}},
            "workload.a",
            "",
        ),
        ({"webhook": {"key": "{{ slot.date }}"}}, "webhook.key", "'slot'"),
    ],
)
def test_these_are_none(members: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(TriggerError) as caught:
        check(read(**members), 0.0)

    assert caught.value.path == path
    assert message in caught.value.message


def test_a_trigger_without_an_alert_is_read_by_the_version_before() -> None:
    assert b"alert" not in msgspec.json.encode(read(schedule=SCHEDULE))


def test_a_schedule_without_its_package_names_the_package_and_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)

    with pytest.raises(TriggerError) as caught:
        check(read(schedule=SCHEDULE), 0.0)

    assert caught.value.path == "schedule"
    assert "the package cronsim is missing" in caught.value.message
    assert "[server]" in (caught.value.hint or "")


def test_a_trigger_fires_on_the_endings_that_it_names() -> None:
    one = read(finished={"path": "sales/*", "status": ["failed"]})

    assert starts_after(one, "sales/orders", "failed")
    assert not starts_after(one, "sales/orders", "completed")
    assert not starts_after(one, "sales", "failed")
    assert not starts_after(one, "sales2/orders", "failed")
    assert not starts_after(one, None, "failed")
    assert not starts_after(read(webhook={}), "sales/orders", "failed")


def after(name: str, heard: str, playbook: str) -> Definition:
    return Definition(name=name, playbook=playbook, finished=Finished(path=heard))


@pytest.mark.parametrize(
    ("new", "others", "loop"),
    [
        (("n", "a", "a"), [], ["a", "a"]),
        (("n", "x/*", "x/a"), [], ["x/a", "x/a"]),
        (("n", "a", "b"), [("1", "b", "a")], ["b", "a", "b"]),
        (("n", "a", "b"), [("1", "b", "c"), ("2", "c", "a")], ["b", "c", "a", "b"]),
        (("n", "a", "b"), [("1", "b", "c"), ("2", "c", "d")], None),
        (("n", "a", "b"), [("1", "x", "y"), ("2", "y", "x")], None),
        (("n", "a", "b"), [("n", "b", "a")], None),
    ],
)
def test_what_would_go_round_is_seen(new, others, loop) -> None:
    assert find_loop(after(*new), [after(*each) for each in others]) == loop
