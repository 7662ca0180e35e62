"""Invariants of loops and their iterations, with memory of the open ones only."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from noetl.engine.events import Event
from noetl.engine.evolve_loops import MAX_ERRORS
from noetl.engine.invariants.books import Books, Check, OpenLoop, parent_of
from noetl.engine.invariants.tokens import open_pipe, refuse_late
from noetl.engine.kept_loops import RESULTS_LIMIT, kept_results
from noetl.engine.runs import path_of
from noetl.engine.steps.loops import expand, most_open
from noetl.engine.values.references import is_reference
from noetl.types import JSON

_encode = msgspec.json.Encoder().encode


def _started(books: Books, event: Event) -> None:
    """I-22: the collection is fixed once."""
    name, payload = event.entity_id, event.payload
    is_inner = event.iteration_id is not None
    if name in books.loops:
        books.blame("I-22", f"the loop {name} begins twice", "one loop.started")
    if is_inner and name not in books.iterations:
        books.blame("I-22", f"the loop {name} begins", "an open iteration around it")
    if not is_inner and event.step_run_id not in books.runs:
        books.blame("I-15", f"the loop {name} begins", "an open step run")
    items, total = payload["items"], payload["total"]
    if not is_reference(items) and len(expand(items)) != total:
        message = f"the loop {name} has {len(expand(items))} items"
        books.blame("I-22", message, f"{total}, its total")
    told, true = payload.get("max_in_flight"), _bound(books, event)
    if told is not None and true is not None and told != true:
        message = f"the loop {name} has max_in_flight {told}"
        books.blame("I-23", message, f"{true}, as the playbook says")
    most = true if told is None else told
    sequential = payload["mode"] == "sequential"
    loop = OpenLoop(total, sequential, most, items, event.seq)
    books.loops[name] = loop
    if "kept" in payload:
        _keep(books, loop, payload["kept"])


def _keep(books: Books, loop: OpenLoop, kept: JSON) -> None:
    """I-48: kept iterations count as done, and are not begun again."""
    ranges = [(first, last) for first, last in kept["ranges"]]
    count = sum(last - first + 1 for first, last in ranges)
    ends = [number for pair in ranges for number in pair]
    if ends != sorted(ends) or (ends and not 0 <= ends[0] <= ends[-1] < loop.total):
        message = f"the kept ranges are {ranges}"
        books.blame("I-48", message, f"ranges in order, below {loop.total}")
    if count != kept["done"]:
        message = f"{kept['done']} iterations are kept as done"
        books.blame("I-48", message, f"{count}, as in its ranges")
    loop.done, loop.kept, loop.exact = kept["done"], ranges[::-1], False
    if is_reference(kept["results"]):
        loop.results = None
    else:
        for index, result in kept_results(kept).items():
            _add(loop, index, result, len(_encode(result)))
    _pass_kept(loop)


def _pass_kept(loop: OpenLoop) -> None:
    while loop.kept and loop.kept[-1][0] <= loop.next:
        loop.next = max(loop.next, loop.kept.pop()[1] + 1)


def _iteration_started(books: Books, event: Event) -> None:
    """I-22, I-23: in the order of the items, no more at once than allowed."""
    name, payload = event.entity_id, event.payload
    refuse_late(books, event)
    loop = books.loops.get(parent_of(name))
    if loop is None or loop.ended:
        books.blame("I-22", f"{name} is begun", "an open loop")
        loop = loop or OpenLoop(0, False, None, items=[], first_seq=0)
    index = path_of(name)[-1]
    if index != loop.next or index >= loop.total:
        message = f"iteration {index} of {loop.total} is begun"
        books.blame("I-22", message, f"iteration {loop.next} of {parent_of(name)}")
    elif not is_reference(loop.items) and expand(loop.items)[index] != payload["item"]:
        books.blame("I-22", f"{name} has another item than its loop", "the same item")
    loop.next, loop.open = index + 1, loop.open + 1
    _pass_kept(loop)
    books.iterations.add(name)
    if loop.most is not None and loop.open > loop.most:
        message = f"{loop.open} iterations of {parent_of(name)} are open"
        books.blame("I-23", message, f"at most {loop.most}")
    if "first" in payload:
        open_pipe(books, name, payload)


def _bound(books: Books, event: Event) -> int | None:
    """Return the largest number of open iterations of a loop that starts, by the
    playbook; without it only that of a sequential loop is known."""
    if event.payload["mode"] == "sequential":
        return 1
    step = books.playbook.steps.get(event.step or "") if books.playbook else None
    levels = list(step.loop.levels()) if step is not None and step.loop else []
    depth = len(path_of(event.entity_id))
    return most_open(levels[depth]) if depth < len(levels) else None


def note_fork(books: Books) -> None:
    """Forget the bounds of open loops: a fork may continue them by a newer playbook."""
    for loop in books.loops.values():
        loop.most = 1 if loop.sequential else None


def _iteration_ended(books: Books, event: Event) -> None:
    """I-15: an iteration ends once, after the loop inside it."""
    name, payload = event.entity_id, event.payload
    if name not in books.iterations:
        message = f"iteration {name} ends twice, or was never begun"
        books.blame("I-15", message, "an open iteration")
        return
    books.iterations.discard(name)
    inner = books.loops.pop(name, None)
    if inner is not None and inner.open:
        message = f"{name} ends with {inner.open} open iterations inside it"
        books.blame("I-22", message, "none")
    loop = books.loops.get(parent_of(name))
    if loop is None:
        return
    loop.open -= 1
    index = path_of(name)[-1]
    if event.name == "loop.iteration.done":
        loop.done += 1
        _add(loop, index, payload["result"], payload["size"])
        return
    loop.failed += 1
    _add(loop, index, None, len("null"))
    loop.kinds[payload["error"]["kind"]] += 1
    if len(loop.errors) < MAX_ERRORS:
        loop.errors.append((index, payload["error"]["kind"]))


def _add(loop: OpenLoop, index: int, result: JSON, size: int) -> None:
    """Keep the result as long as one event can hold all of them."""
    loop.size += size + 1  # and a comma
    if loop.size > RESULTS_LIMIT:
        loop.results = None
    if loop.results is not None:
        loop.results[index] = result


def _done(books: Books, event: Event) -> None:
    """I-24: the end of a loop is the sum of its iterations."""
    name, payload = event.entity_id, event.payload
    loop = books.loops.get(name)
    if loop is None or loop.ended:
        books.blame("I-24", f"the loop {name} ends twice, or never began", "one end")
        return
    loop.ended = True
    if loop.open or loop.next < loop.total:
        message = f"the loop {name} ends after {loop.next} of {loop.total} iterations"
        books.blame("I-24", f"{message}, {loop.open} open", "its last iteration first")
    skipped = loop.total - loop.done - loop.failed
    sums = (loop.total, loop.done, loop.failed, skipped)
    told = tuple(payload[key] for key in ("total", "done", "failed", "skipped"))
    if told != sums:
        message = f"the loop {name} says {told} (total, done, failed, skipped)"
        books.blame("I-24", message, f"{sums}, as its iterations say")
    _judge_errors(books, loop, payload)
    _judge_results(books, event, loop)
    run = books.runs.get(name)
    if run is not None:
        run.loop_result = payload["results"]


def _judge_errors(books: Books, loop: OpenLoop, payload: JSON) -> None:
    if payload.get("error_kinds", {}) != loop.kinds:
        message = f"error_kinds is {payload.get('error_kinds')}"
        books.blame("I-24", message, f"{dict(loop.kinds)}")
    errors = payload.get("errors", [])
    if is_reference(errors):
        return
    if [(each["index"], each["kind"]) for each in errors] != sorted(loop.errors):
        books.blame("I-24", "errors differs from the failed iterations", "the same")


def _judge_results(books: Books, event: Event, loop: OpenLoop) -> None:
    found, name = event.payload["results"], event.entity_id
    if is_reference(found) and found["key"].startswith("log:"):
        span = f"{loop.first_seq}-{event.seq - 1}"
        if (found["key"], found["range"]) != (f"log:{name}", span):
            message = f"the results are those of {found['key']} in {found['range']}"
            books.blame("I-24", message, f"log:{name} in {span}")
        if loop.exact and found["size"] != loop.size:
            message = f"the results have {found['size']} bytes"
            books.blame("I-24", message, f"{loop.size}, the sum of the iterations")
        return
    if loop.results is None:
        return
    results = [loop.results.get(index) for index in range(loop.total)]
    if is_reference(found):
        same = found["key"] == sha256(_encode(results)).hexdigest()
    else:
        same = found == results
    if not same:
        message = "the results are not those of the iterations"
        books.blame("I-24", message, "the results in the order of the items")


CHECKS: dict[str, Check] = {
    "loop.started": _started,
    "loop.iteration.started": _iteration_started,
    "loop.iteration.done": _iteration_ended,
    "loop.iteration.failed": _iteration_ended,
    "loop.done": _done,
}
