"""The agent example, with the model of the demo API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from demo_api import DemoApi, Noetl


def conversation(noetl: Noetl, document: dict[str, Any]) -> list[dict[str, Any]]:
    """What the tools answered, as the model was told."""
    told = []
    for event in noetl.events(document["execution_id"]):
        if event["name"] == "task.done" and event["task_label"] == "answer":
            told.append(event["payload"]["outcome"]["result"])
    return told


@pytest.mark.spec("DIR-09", "POL-15")
def test_the_agent_calls_two_tools_and_concludes(noetl: Noetl, api: DemoApi) -> None:
    document = noetl.run("agent.yaml", api=api.url, patience="5ms")

    assert (document["exit_code"], document["status"]) == (0, "completed")
    assert document["result"]["tool_calls"] == 2
    assert "The Aurelia is the cheapest" in document["result"]["answer"]
    assert api.calls() == {
        "POST /v1/chat/completions": {"200": 3},
        "GET /cities": {"200": 1},
        "GET /cities/rome/hotels": {"503": 2, "200": 1},
    }
    cities, hotels = conversation(noetl, document)
    assert (cities["tool_call_id"], hotels["tool_call_id"]) == ("call_1", "call_2")
    assert len(json.loads(hotels["content"])["hotels"]) == 7


def test_a_mistake_of_the_model_is_returned_to_it(noetl: Noetl, api: DemoApi) -> None:
    script = [
        {"call": "list_hotels", "arguments": {"city": "../orders"}},
        {"call": "list_hotels", "arguments": {"city": "atlantis"}},
        {"say": "I found nothing."},
    ]
    api.post("/reset", {"chat": script, "plan": []})

    document = noetl.run("agent.yaml", api=api.url)

    assert document["result"] == {"answer": "I found nothing.", "tool_calls": 2}
    wrong, unknown = conversation(noetl, document)
    assert "the arguments must be" in wrong["content"]
    assert "404" in unknown["content"]
    assert "GET /orders" not in api.calls()


def test_a_model_that_never_concludes_is_stopped(noetl: Noetl, api: DemoApi) -> None:
    api.post("/reset", {"chat": [{"call": "list_cities"}], "plan": []})

    document = noetl.run("agent.yaml", api=api.url, most_turns=4)

    assert (document["exit_code"], document["error"]["kind"]) == (1, "policy.fail")
    assert api.calls()["POST /v1/chat/completions"] == {"200": 4}
