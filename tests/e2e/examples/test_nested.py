"""Loops in loops and playbooks in playbooks, run by ``noetl run`` on the demo API."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from demo_api import DemoApi, Noetl

HOTELS = {"cairo": 2, "kyoto": 4, "lima": 5, "oslo": 3, "quito": 6, "rome": 7}


@pytest.mark.spec("LOOP-23", "LOOP-25", "LOOP-26", "ACC-04", "ACC-08", "C-25")
def test_rooms_reads_every_page_of_every_hotel_and_stores_by_status(
    noetl: Noetl, api: DemoApi
) -> None:
    document = noetl.run("rooms.yaml", api=api.url, patience="5ms")

    assert (document["exit_code"], document["status"]) == (0, "completed")
    assert document["result"] == {"open": 25, "closed": 1, "lost": 1, "rooms": 99}
    stored = api.get("/results/rooms").body["items"]
    found = [room["id"] for page in stored for room in page["rooms"]]
    assert len(set(found)) == len(found) == 99
    # The pages of one hotel came in order, and say the city of the outer loop.
    for page in stored:
        assert page["hotel"].startswith(f"{page['city']}-")
    for hotel in {page["hotel"] for page in stored}:
        mine = [r["id"] for p in stored if p["hotel"] == hotel for r in p["rooms"]]
        assert mine == [f"{hotel}/{number}" for number in range(1, len(mine) + 1)]
    cities = Counter(hotel.partition("-")[0] for hotel in {p["hotel"] for p in stored})
    assert cities == HOTELS | {"kyoto": 3, "quito": 5}
    closed = [{"city": "kyoto", "hotel": "kyoto-3"}]
    assert api.get("/results/closed").body["items"] == closed
    assert api.calls()["GET /hotels/quito-6/rooms"] == {"410": 1}
    assert api.calls()["GET /hotels/rome-7/rooms"] == {"200": 3, "503": 1}


@pytest.mark.spec("PIPE-17", "S-37")
def test_sub_playbooks_calls_a_child_for_each_city(noetl: Noetl, api: DemoApi) -> None:
    document = noetl.run("sub_playbooks.yaml", api=api.url, patience="5ms")

    assert (document["exit_code"], document["status"]) == (0, "completed")
    assert document["result"] == {
        "nights": [
            {"city": "oslo", "hotel": "Fjord", "price": 75},
            {"city": "atlantis", "hotel": "a tent", "price": 0},
            {"city": "rome", "hotel": "Aurelia", "price": 75},
        ],
        "price": 150,
    }
    listed = json.loads(noetl("list", "--json").stdout)["executions"]
    ended = Counter((each["playbook"]["name"], each["status"]) for each in listed)
    assert ended == {
        ("sub_playbooks", "completed"): 1,
        ("cheapest_hotel", "completed"): 2,
        ("cheapest_hotel", "failed"): 1,
    }


def test_the_child_runs_alone(noetl: Noetl, api: DemoApi) -> None:
    document = noetl.run(
        "cheapest_hotel.yaml", api=api.url, city="lima", patience="10ms"
    )

    assert document["result"]["name"] == "Miraflores"
