"""The execution index: listings, requests, and beginnings of ids."""

from __future__ import annotations

import asyncio

import pytest
from store_calls import length

from noetl.errors import RequestKnown, StoreError

pytestmark = pytest.mark.spec("S-62")


@pytest.mark.spec("SRV-03")
async def test_executions_are_listed_newest_first(store, facts):
    for name in "abc":
        await store.commit([facts.transition(name)])
    await store.commit([facts.transition("a", 1, status="failed")])

    assert list(await store.find()) == [
        facts.summary("c"),
        facts.summary("b"),
        facts.summary("a", "failed"),
    ]


@pytest.mark.spec("SRV-03")
async def test_executions_are_found_by_status(store, facts):
    for name in "abcd":
        status = "failed" if name in "ac" else "running"
        await store.commit([facts.transition(name, status=status)])

    found = await store.find(status="failed")

    assert [summary.execution_id for summary in found] == ["c", "a"]


@pytest.mark.spec("SRV-03")
@pytest.mark.parametrize("status", [None, "running"])
async def test_listings_come_in_pages(store, facts, status):
    for number in range(7):
        await store.commit([facts.transition(f"x{number}")])
    pages, before = [], None
    while page := await store.find(status=status, before=before, limit=3):
        pages.append([summary.execution_id for summary in page])
        before = pages[-1][-1]

    assert pages == [["x6", "x5", "x4"], ["x3", "x2", "x1"], ["x0"]]


@pytest.mark.spec("SRV-03")
@pytest.mark.parametrize(
    ("before", "status", "expected"),
    [
        pytest.param("x4", None, ["x2", "x0"], id="one of this log"),
        pytest.param("x3", None, ["x2", "x0"], id="one of another log, in between"),
        pytest.param("x9", None, ["x6", "x4"], id="one that is newer than all"),
        pytest.param("x0", None, [], id="the oldest"),
        pytest.param("a", None, [], id="one that is older than all"),
        pytest.param("x6", "failed", ["x4", "x0"], id="of a status"),
    ],
)
async def test_a_listing_goes_on_before_an_id_of_any_log(
    store, facts, before, status, expected
):
    for number in (0, 2, 4, 6):
        failed = "failed" if number in (0, 4) else "running"
        await store.commit([facts.transition(f"x{number}", status=failed)])

    found = await store.find(before=before, status=status, limit=2)

    assert [summary.execution_id for summary in found] == expected


@pytest.mark.spec("S-72")
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param({"team": "a"}, ["x5", "x4", "x2"], id="one label"),
        pytest.param({"team": "a", "env": "test"}, ["x4", "x2"], id="two labels"),
        pytest.param({"env": "test", "team": "b"}, ["x3"], id="in any order"),
        pytest.param({"team": "c"}, [], id="another value"),
        pytest.param({"a": "team"}, [], id="name and value exchanged"),
    ],
)
async def test_executions_are_found_by_labels(store, facts, wanted, expected):
    for number, labels in enumerate(
        [
            {},
            {"env": "test"},
            {"team": "a", "env": "test"},
            {"team": "b", "env": "test"},
            {"env": "test", "team": "a"},
            {"team": "a", "says": '"labels":{"team":"b"}'},
        ]
    ):
        await store.commit([facts.transition(f"x{number}", labels=labels)])

    found = await store.find(labels=wanted)

    assert [summary.execution_id for summary in found] == expected
    assert all(wanted.items() <= summary.labels.items() for summary in found)


@pytest.mark.spec("S-72")
async def test_a_listing_by_label_has_statuses_and_pages(store, facts):
    for number in range(6):
        labels = {"team": "a" if number != 3 else "b"}
        await store.commit([facts.transition(f"x{number}", labels=labels)])
        await store.commit(
            [facts.transition(f"x{number}", 1, status="failed", labels=labels)]
            if number % 2
            else []
        )

    failed = await store.find(labels={"team": "a"}, status="failed")
    page = await store.find(labels={"team": "a"}, before="x4", limit=2)

    assert [summary.execution_id for summary in failed] == ["x5", "x1"]
    assert [summary.execution_id for summary in page] == ["x2", "x1"]


@pytest.mark.spec("SRV-03")
async def test_one_execution_has_a_line_of_its_own(store, facts):
    await store.commit([facts.transition("x"), facts.transition("y", status="failed")])

    assert (await store.summary("y")).status == "failed"
    with pytest.raises(StoreError) as caught:
        await store.summary("z")
    assert caught.value.kind == "store.missing"


@pytest.mark.spec("SRV-01")
async def test_a_request_is_found_by_its_key(store, facts):
    await store.commit([facts.transition("x", request_key="k")])
    await store.commit([facts.transition("x", 1), facts.transition("y")])

    assert await store.find_request("k") == "x"
    assert await store.find_request("other") is None


@pytest.mark.spec("SRV-01")
async def test_a_request_has_one_execution_whatever_is_repeated(store, facts):
    await store.commit([facts.transition("x", request_key="k")])

    with pytest.raises(RequestKnown):
        await store.commit([facts.transition("y", request_key="k")])

    assert await length(store, "y") == 0
    assert await store.find_request("k") == "x"
    await store.commit([facts.transition("y", request_key="other")])


@pytest.mark.spec("SRV-01")
async def test_of_a_group_with_one_key_twice_nothing_is_stored(store, facts):
    twice = [facts.transition(name, request_key="k") for name in ("x", "y")]

    with pytest.raises(RequestKnown):
        await store.commit(twice)

    assert [await length(store, name) for name in ("x", "y")] == [0, 0]
    assert await store.find_request("k") is None


@pytest.mark.spec("SRV-01")
async def test_of_requests_at_the_same_time_one_wins(store, facts):
    names = [f"x{number}" for number in range(8)]
    commits = [store.commit([facts.transition(n, request_key="k")]) for n in names]

    answers = await asyncio.gather(*commits, return_exceptions=True)

    assert sum(isinstance(answer, RequestKnown) for answer in answers) == 7
    assert [await length(store, name) for name in names].count(1) == 1


async def test_the_beginning_of_an_id_will_do(store, facts):
    for name in ("ab1", "ab2", "abc", "ab", "b"):
        await store.commit([facts.transition(name)])

    assert list(await store.resolve("ab1")) == ["ab1"]
    assert list(await store.resolve("ab")) == ["ab"]
    assert list(await store.resolve("a")) == ["ab", "ab1", "ab2", "abc"]
    assert list(await store.resolve("", limit=2)) == ["ab", "ab1"]
    assert list(await store.resolve("x")) == []
    assert list(await store.resolve("%")) == []


async def test_the_end_of_an_id_will_do_if_none_begins_with_it(store, facts):
    for name in ("ab1", "xb1", "b1c", "ab%"):
        await store.commit([facts.transition(name)])

    assert list(await store.resolve("1")) == ["ab1", "xb1"]
    assert list(await store.resolve("1", limit=1)) == ["ab1"]
    assert list(await store.resolve("b1")) == ["b1c"]
    assert list(await store.resolve("1c")) == ["b1c"]
    assert list(await store.resolve("_")) == []
