"""What a log says about whose a reference is."""

from __future__ import annotations

import msgspec
import pytest
from memory_blobs import MemoryBlobs

from noetl.engine.events import Event
from noetl.engine.values.references import make_reference
from noetl.errors import BlobNotOwned
from noetl.runtime.values.ownership import Owners
from noetl.types import JSON

pytestmark = pytest.mark.spec("S-48")


class Logs:
    """Logs by the names of their executions."""

    def __init__(self) -> None:
        self.logs: dict[str, list[Event]] = {}

    def add(self, execution_id: str, name: str, **payload: JSON) -> None:
        log = self.logs.setdefault(execution_id, [])
        log.append(
            Event(
                event_id=f"{execution_id}.{len(log)}",
                execution_id=execution_id,
                seq=len(log) + 1,
                timestamp="2026-11-15T08:00:00.000000Z",
                source="server",
                name=name,
                entity_type="task",
                parent_id=None,
                entity_id="t",
                status="success",
                payload=payload,
            )
        )

    def make(self, execution_id: str, reference: JSON) -> None:
        """A task stores a value."""
        outcome = {"result": reference}
        self.add(execution_id, "task.done", outcome=outcome, spilled=["outcome.result"])

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> list[Event]:
        return self.logs.get(execution_id, [])[after:][:limit]


class Home:
    def __init__(self) -> None:
        self.logs = Logs()
        self.blobs = MemoryBlobs()
        self.owners = Owners(self.logs, self.blobs)

    async def store(self, value: JSON) -> dict[str, JSON]:
        """The reference to a stored value."""
        body = msgspec.json.encode(value)
        return make_reference(await self.blobs.put(body), len(body), "text", body)

    async def owns(self, execution_id: str, reference: JSON) -> bool:
        try:
            await self.owners.check(execution_id, reference["key"])
        except BlobNotOwned:
            return False
        return True


@pytest.fixture
def home() -> Home:
    return Home()


async def test_who_made_it_owns_it_and_who_only_names_it_does_not(home: Home) -> None:
    mine, theirs = await home.store("mine"), await home.store("theirs")
    home.logs.add("b", "task.done", outcome={"result": theirs}, spilled=[])
    home.logs.make("a", mine)
    home.logs.add("a", "task.done", set_ctx={"x": theirs}, spilled=["outcome.result"])

    assert await home.owns("a", mine)
    assert not await home.owns("a", theirs)
    assert not await home.owns("b", theirs), "a name is no proof"
    assert not await home.owns("nobody", mine)


async def test_what_comes_later_counts_too(home: Home) -> None:
    mine = await home.store("mine")
    assert not await home.owns("a", mine)

    home.logs.make("a", mine)

    assert await home.owns("a", mine)


async def test_a_key_with_a_dot_in_it_is_found(home: Home) -> None:
    mine = await home.store("mine")
    home.logs.add("a", "workflow.started", ctx={"a.b": mine}, spilled=["ctx.a.b"])

    assert await home.owns("a", mine)


async def test_what_is_inside_of_a_stored_value_proves_nothing(home: Home) -> None:
    """A template may have written the reference that is in it (I-36)."""
    mine, theirs = await home.store("mine"), await home.store("theirs")
    whole = await home.store({"mine": mine, "theirs": theirs})
    home.logs.make("b", theirs)
    home.logs.make("a", mine)
    home.logs.make("a", whole)
    home.logs.add("a", "workflow.started", ctx={"x": whole}, spilled=["ctx.x"])

    assert await home.owns("a", whole)
    assert await home.owns("a", mine)
    assert not await home.owns("a", theirs)


async def test_what_was_stored_for_the_same_event_is_its_own(home: Home) -> None:
    rows, theirs = await home.store("rows"), await home.store("theirs")
    result = await home.store({"rows": rows, "theirs": theirs})
    now = {**result, "made": [rows["key"]]}
    paths = ["outcome.result.rows", "outcome.result"]
    home.logs.add("a", "task.done", outcome={"result": now}, spilled=paths)

    assert await home.owns("a", rows)
    assert not await home.owns("a", theirs)


async def test_a_log_of_an_earlier_version_is_still_read(home: Home) -> None:
    rows = await home.store("rows")
    result = await home.store({"rows": rows})
    paths = ["outcome.result.rows", "outcome.result"]
    home.logs.add("a", "task.done", outcome={"result": result}, spilled=paths)
    home.logs.make("b", result)

    assert await home.owns("a", rows), "its path says that it was stored"
    assert not await home.owns("b", rows)


async def test_references_inside_of_a_value_are_read_only_by_who_owns_them(
    home: Home,
) -> None:
    mine, theirs = await home.store("mine"), await home.store("theirs")
    fine = await home.store({"inside": [mine]})
    forged = await home.store({"inside": [theirs]})
    for each in (mine, fine, forged):
        home.logs.make("a", each)

    assert await home.owners.whole("a", fine) == {"inside": ["mine"]}
    with pytest.raises(BlobNotOwned):
        await home.owners.whole("a", forged)


async def test_results_of_a_loop_hold_no_value_of_others(home: Home) -> None:
    theirs = await home.store("theirs")
    home.logs.add("a", "loop.started")
    home.logs.add("a", "loop.iteration.done", result=theirs, size=9)
    done = home.logs.logs["a"][1]
    home.logs.logs["a"][1] = msgspec.structs.replace(done, iteration_id="a-1/0")
    results = {"store": "noetl", "key": "log:a-1", "range": "1-2", "size": 9}

    with pytest.raises(BlobNotOwned):
        await home.owners.loader.get(results)


async def test_what_a_child_answers_is_its_parents_if_it_is_the_childs(
    home: Home,
) -> None:
    inner = await home.store("inner")
    deep = await home.store({"inner": inner})
    answer, stolen = await home.store({"deep": deep}), await home.store("stolen")
    for each in (inner, deep, answer):
        home.logs.make("b", each)
    home.logs.make("c", stolen)
    loop = {"store": "noetl", "key": "log:b-1", "range": "1-2", "size": 9}
    for result in (answer, stolen, {"log": loop}):
        told = {"execution_id": "b", "result": result}
        home.logs.add("a", "task.resumed", answer=told)

    for each in (answer, deep, inner, {"key": "log:b-1"}):
        assert await home.owns("a", each), each
    assert not await home.owns("a", stolen), "nobody launders what is another's"
    assert not await home.owns("a", {"key": "log:c-1"})


async def test_what_a_caller_passes_on_is_the_childs(home: Home) -> None:
    item = await home.store("item")
    home.logs.add("a", "task.done", set_iter={"x": item}, spilled=["set_iter.x"])
    parent = {"execution_id": "a", "iter": {"x": item}}
    home.logs.add("b", "playbook.execution.requested", parent=parent)

    assert await home.owns("b", item)


async def test_a_fork_has_what_its_origin_was_given(home: Home) -> None:
    outer, answer, later = [await home.store(f"{n}") for n in range(3)]
    lineage = {"execution_id": "elsewhere", "seq": 2, "iter": {"x": outer}}
    home.logs.add("f", "playbook.execution.requested", fork=lineage)
    for each in (answer, later):
        told = {"execution_id": "elsewhere-too", "result": each}
        home.logs.add("f", "task.resumed", answer=told)

    assert await home.owns("f", outer)
    assert await home.owns("f", answer)
    assert not await home.owns("f", later), "that is after it has gone apart"


async def test_a_fork_has_no_more_than_its_origin_could_read(home: Home) -> None:
    """Its request and its answers say which keys those were, when it was made."""
    outer, forged = await home.store("outer"), await home.store("forged")
    around = {"x": outer, "y": forged}
    lineage = {"execution_id": "elsewhere", "seq": 2, "iter": around}
    proof = {**lineage, "inherited": [outer["key"]]}
    home.logs.add("f", "playbook.execution.requested", fork=proof)
    told = {"execution_id": "elsewhere-too", "result": forged}
    home.logs.add("f", "task.resumed", answer=told, inherited=[])

    assert await home.owns("f", outer)
    assert not await home.owns("f", forged)


async def test_what_can_be_read_by_way_of_a_value_is_what_is_owned(home: Home) -> None:
    mine, theirs = await home.store("mine"), await home.store("theirs")
    whole = await home.store({"mine": mine, "theirs": theirs})
    for each in (mine, whole):
        home.logs.make("a", each)

    found = await home.owners.readable("a", {"deep": [whole, theirs]})

    assert found == [whole["key"], mine["key"]]


async def test_a_forged_key_is_refused(home: Home) -> None:
    for key in (None, 5, "", "log:", "../x"):
        assert not await home.owns("a", {"key": key})
