"""Approval by signal: as the example says, in two terminals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from demo_api import DemoApi, Noetl

YES = json.dumps({"approved": True, "by": "ada"})


def asked(api: DemoApi) -> dict[str, Any]:
    """The first message in the inbox, as soon as it is there."""
    items: list[dict[str, Any]] = []
    while not items:
        items = api.get("/results/inbox").body["items"]
    return items[0]


def waiting_list(noetl: Noetl) -> str:
    """What `noetl list --waiting` prints once the execution waits for the answer."""
    text = ""
    while "signal 'approval'" not in text:
        text = noetl("list", "--waiting").stdout
    return text


@pytest.mark.spec("S-54", "S-68")
def test_the_one_who_was_asked_answers(noetl: Noetl, api: DemoApi) -> None:
    process = noetl.start("approval.yaml", api=api.url)
    message = asked(api)

    waiting = waiting_list(noetl)
    vague = noetl("signal", message["execution"], "approval", "--set", "approved=yes")
    sent = noetl("signal", message["execution"], "approval", "--data", YES)
    document = json.loads(process.communicate()[0])

    assert (vague.returncode, sent.returncode) == (2, 0)
    assert "'approved' must be true or false, found text" in vague.stderr
    assert "signal 'approval', since" in waiting
    assert "Pay 1200?" in waiting
    assert (message["to"], message["amount"]) == ("clerk", 1200)
    assert document["result"] == "paid, approved by ada"
    payments = api.get("/results/payments").body["items"]
    assert payments == [{"amount": 1200, "by": "ada"}]


@pytest.mark.spec("S-54", "S-45")
def test_it_is_answered_after_a_kill(noetl: Noetl, api: DemoApi) -> None:
    process = noetl.start("approval.yaml", api=api.url)
    execution_id = asked(api)["execution"]
    process.kill()
    process.communicate()

    assert noetl("signal", execution_id, "approval", "--data", YES).returncode == 0
    resumed = json.loads(noetl("resume", execution_id, "--json").stdout)

    assert resumed["result"] == "paid, approved by ada"
    assert api.get("/results/inbox").body["count"] == 1, "nobody is told twice"


@pytest.mark.spec("S-68")
def test_a_server_that_does_not_answer(noetl: Noetl, api: DemoApi) -> None:
    document = noetl.run("approval.yaml", api=api.url, patience="100ms")

    assert document["exit_code"] == 0
    assert document["result"] == "not paid: nobody answered"
    inbox = api.get("/results/inbox").body["items"]
    assert [message["to"] for message in inbox] == ["clerk", "manager"]
    assert api.get("/results/payments").body["count"] == 0


def test_small_amounts_need_no_approval(noetl: Noetl, api: DemoApi) -> None:
    document = noetl.run("approval.yaml", api=api.url, amount=20)

    assert document["result"] == "paid, approved by the rules"
    assert api.get("/results/inbox").body["count"] == 0
