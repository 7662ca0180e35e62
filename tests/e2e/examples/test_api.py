"""The demo API keeps what its examples rely on."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any
from urllib.parse import urlencode

import pytest
from demo_api import EXAMPLES, DemoApi

NO_FAULTS: dict[str, Any] = {"plan": []}
TOOLS = [
    {"type": "function", "function": {"name": "list_cities"}},
    {"type": "function", "function": {"name": "list_hotels"}},
]


def test_it_lists_what_it_can_do(api: DemoApi) -> None:
    found = api.get("/").body

    assert "GET /cities/{city}/hotels" in found
    assert all(found.values()), "every call says what it is for"


def test_pages_hold_every_hotel_once(api: DemoApi) -> None:
    api.post("/reset", NO_FAULTS)

    pages = [api.get(f"/cities/rome/hotels?page={n}&size=3").body for n in (1, 2, 3, 4)]

    names = [[hotel["id"] for hotel in page["hotels"]] for page in pages]
    assert names == [
        ["rome-1", "rome-2", "rome-3"],
        ["rome-4", "rome-5", "rome-6"],
        ["rome-7"],
        [],
    ]
    assert [page["has_more"] for page in pages] == [True, True, False, False]


@pytest.mark.parametrize("query", ["page=0", "size=x", "page=-1", "size=101"])
def test_a_wrong_page_is_refused_with_a_reason(api: DemoApi, query: str) -> None:
    api.post("/reset", NO_FAULTS)

    status, body, _ = api.get(f"/orders?{query}")

    assert status == 400
    assert "not a number from 1 to 100" in body["error"]


def test_each_page_fails_by_the_plan_and_then_comes(api: DemoApi) -> None:
    def statuses(path: str) -> list[int]:
        return [api.get(path).status for _ in range(4)]

    assert statuses("/cities/rome/hotels?page=1") == [503, 503, 200, 200]
    assert statuses("/cities/rome/hotels?page=2") == [503, 503, 200, 200]
    assert statuses("/cities/atlantis/hotels") == [503, 503, 404, 404]
    assert statuses("/cities/pompeii/hotels") == [503, 503, 410, 410]
    assert statuses("/orders?page=2") == [200, 200, 200, 200]
    assert statuses("/orders?page=3") == [500, 200, 200, 200]


def test_too_many_requests_come_with_the_time_to_wait(api: DemoApi) -> None:
    status, _, headers = api.get("/orders")

    assert (status, headers["Retry-After"]) == (429, "1")


def test_another_plan_can_be_declared(api: DemoApi) -> None:
    plan = [{"method": "POST", "path": "/results/*", "answers": [502]}]
    api.post("/reset", {"plan": plan})

    assert [api.post("/results/a", 1).status for _ in range(2)] == [502, 201]
    assert api.get("/cities/rome/hotels").status == 200


def test_an_answer_can_get_lost_after_the_work_is_done(api: DemoApi) -> None:
    fault = {"method": "POST", "path": "/results/a", "answers": [502], "late": True}
    api.post("/reset", {"plan": [fault]})

    assert api.post("/results/a", 1).status == 502
    assert api.get("/results/a").body["items"] == [1]


@pytest.mark.parametrize(
    "wishes", [{"plan": [{"path": 1}]}, {"plans": []}, {"chat": []}, "reset"]
)
def test_a_wish_that_makes_no_sense_is_refused(api: DemoApi, wishes: Any) -> None:
    status, body, _ = api.post("/reset", wishes)

    assert status == 400
    assert body["error"].startswith("the body does not fit")


def test_results_are_shown_as_they_were_stored(api: DemoApi) -> None:
    first = api.post("/results/prices", {"rome": 75})
    api.post("/results/prices", [1, 2])

    assert first.status == 201
    assert first.body == {"store": "demo", "key": "prices/1", "size": 12}
    assert api.get("/results/prices").body == {
        "count": 2,
        "items": [{"rome": 75}, [1, 2]],
    }
    assert api.get("/results/other").body == {"count": 0, "items": []}


def test_the_same_idempotency_key_is_stored_once(api: DemoApi) -> None:
    answers = [api.post("/results/a", n, Idempotency_Key="k") for n in (1, 2)]

    assert [answer.status for answer in answers] == [201, 200]
    assert answers[0].body == answers[1].body
    assert api.get("/results/a").body["items"] == [1]


@pytest.mark.parametrize(("number", "status"), [(1, 200), (10, 200), (11, 404)])
def test_an_order_is_there_or_it_is_a_404(
    api: DemoApi, number: int, status: int
) -> None:
    assert api.get(f"/orders/{number}").status == status


@pytest.mark.parametrize(
    ("seconds", "status"), [("0.01", 200), ("x", 400), ("nan", 400), ("1e9", 400)]
)
def test_slow_takes_as_long_as_it_is_asked_to(
    api: DemoApi, seconds: str, status: int
) -> None:
    assert api.get(f"/slow?seconds={seconds}").status == status


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("path", "header", "status"),
    [
        ("/private/basic", basic("demo", "demo-password"), 200),
        ("/private/basic", basic("demo", "wrong"), 401),
        ("/private/basic", "Basic %%%", 401),
        ("/private/bearer", "Bearer demo-token", 200),
        ("/private/bearer", "Bearer wrong", 401),
        ("/private/oauth", "Bearer access-1", 401),
    ],
)
def test_the_demo_api_checks_the_credential(
    api: DemoApi, path: str, header: str, status: int
) -> None:
    answer = api.get(path, Authorization=header)

    assert answer.status == status
    assert ("WWW-Authenticate" in answer.headers) == (status == 401)


CLIENT = {"client_id": "demo-client", "client_secret": "demo-client-secret"}


def token_of(api: DemoApi, form: dict[str, str], **headers: str) -> tuple[int, Any]:
    form = {"grant_type": "client_credentials", **form}
    answer = api.post("/oauth/token", urlencode(form).encode(), **headers)
    return answer.status, answer.body


def test_a_token_serves_three_calls_and_then_a_new_one_is_needed(api: DemoApi) -> None:
    _, first = token_of(api, CLIENT)
    _, second = token_of(api, {}, Authorization=basic(*CLIENT.values()))

    def statuses(token: str, count: int) -> list[int]:
        bearer = f"Bearer {token}"
        paths = ["/private/oauth"] * count
        return [api.get(path, Authorization=bearer).status for path in paths]

    assert first["expires_in"] == 3600
    assert statuses(first["access_token"], 4) == [200, 200, 200, 401]
    assert statuses(second["access_token"], 1) == [200]


def test_a_token_expires_by_the_clock_too(api: DemoApi) -> None:
    api.post("/reset", {"token_seconds": 0})
    _, token = token_of(api, CLIENT)

    bearer = f"Bearer {token['access_token']}"
    assert api.get("/private/oauth", Authorization=bearer).status == 401


@pytest.mark.parametrize(
    ("form", "status", "error"),
    [
        ({**CLIENT, "client_secret": "wrong"}, 401, "invalid_client"),
        ({"client_id": "demo-client"}, 401, "invalid_client"),
        ({**CLIENT, "grant_type": "password"}, 400, "unsupported_grant_type"),
    ],
)
def test_no_token_without_the_right_form(
    api: DemoApi, form: dict[str, str], status: int, error: str
) -> None:
    assert token_of(api, form) == (status, {"error": error})


def test_the_model_follows_its_script(api: DemoApi) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "hotels in Rome?"}]
    called = []
    for _ in range(5):
        prompt = {"model": "demo", "messages": messages, "tools": TOOLS}
        (choice,) = api.post("/v1/chat/completions", prompt).body["choices"]
        messages.append(choice["message"])
        if choice["finish_reason"] == "stop":
            break
        (call,) = choice["message"]["tool_calls"]
        function = call["function"]
        called.append((function["name"], json.loads(function["arguments"])))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "…"})

    assert called == [("list_cities", {}), ("list_hotels", {"city": "rome"})]
    assert "Aurelia" in messages[-1]["content"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"messages": []}, "messages is empty"),
        ({"stream": True}, "answers in one piece"),
        ({"tools": []}, "offer it in tools"),
        ({"model": 5}, "the body does not fit"),
    ],
)
def test_the_model_says_what_is_wrong_with_a_prompt(
    api: DemoApi, change: dict[str, Any], words: str
) -> None:
    prompt = {"model": "demo", "messages": [{"role": "user"}], "tools": TOOLS, **change}

    status, body, _ = api.post("/v1/chat/completions", prompt)

    assert status == 400
    assert words in body["error"]


def test_another_script_can_be_given(api: DemoApi) -> None:
    api.post("/reset", {"chat": [{"say": "no"}]})

    prompt = {"model": "demo", "messages": [{"role": "user", "content": "yes?"}]}
    answer = api.post("/v1/chat/completions", prompt).body

    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "no"}
    assert answer["usage"]["total_tokens"] == 2


def test_calls_are_counted_by_path_and_status_until_a_reset(api: DemoApi) -> None:
    for path in ("/cities", "/cities", "/orders/99", "/nowhere"):
        api.get(path)

    assert api.get("/stats").body == {
        "total": 4,
        "most_at_once": 1,
        "calls": {
            "GET /cities": {"200": 2},
            "GET /nowhere": {"404": 1},
            "GET /orders/99": {"404": 1},
        },
    }
    api.post("/reset")
    assert api.calls() == {}


def test_an_unknown_path_is_an_error_like_the_others(api: DemoApi) -> None:
    assert api.get("/nowhere").body == {"error": "Not Found: /nowhere"}
    assert api.post("/cities").status == 405


def test_the_demo_api_stops_when_asked_to() -> None:
    assert DemoApi().stop() == 0


def test_a_port_that_is_taken_is_said_in_one_line(api: DemoApi) -> None:
    port = api.url.rpartition(":")[2]
    command = [sys.executable, str(EXAMPLES / "api"), "--port", port]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr == f"port {port}: Address already in use; try --port 0\n"


def test_the_first_hotel_has_two_rooms_and_the_next_one_more(api: DemoApi) -> None:
    api.post("/reset", NO_FAULTS)

    totals = [api.get(f"/hotels/rome-{n}/rooms").body["total"] for n in range(1, 8)]

    assert totals == [2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("hotel", "status"),
    [("kyoto-3", 404), ("quito-6", 410), ("rome-8", 404), ("x", 404)],
)
def test_some_hotels_have_no_rooms(api: DemoApi, hotel: str, status: int) -> None:
    assert api.get(f"/hotels/{hotel}/rooms").status == status


def test_the_second_page_of_rooms_fails_once(api: DemoApi) -> None:
    paths = ["/hotels/rome-7/rooms?page=2"] * 2

    assert [api.get(path).status for path in paths] == [503, 200]
