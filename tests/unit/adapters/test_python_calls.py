"""Calls of user code, without a process: arguments, results, errors, containment."""

from __future__ import annotations

import errno
import functools
import io
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest

from noetl.adapters.processes.noetl_child import calls, faults, output
from noetl.adapters.processes.noetl_child.calls import (
    MODULE,
    Misfit,
    Source,
    call_function,
    find,
    invoke,
    perform,
)
from noetl.adapters.processes.noetl_child.faults import explain, fault


def run(text: str, **args: Any) -> Any:
    try:
        return perform(Source(text), args)
    finally:
        sys.modules.pop(MODULE, None)


def failure(text: str, **args: Any) -> dict[str, Any]:
    with pytest.raises(BaseException) as error:  # noqa: PT011 - any error of the code
        run(text, **args)
    return explain(error.value, "/nowhere", text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("result = a + 1", 2),
        ("def main(a): return a", 1),
        ("def main(a, b=5): return a + b", 6),
        ("def main(*, a, b=5): return a + b", 6),
        ("def main(a, /, **rest): return [a, rest['x']]", [1, 2]),
        ("def main(*all, a): return [all, a]", [(), 1]),
        ("def main(x=0, **rest): return rest", {"a": 1}),
        ("async def main(a): return a", 1),
        ("return a", 1),
        ("import json\nif a:\n    return json.dumps(a)", "1"),
        ("x: int = a\ny: int\nreturn x", 1),
        ("for n in range(3):\n    pass\nreturn n", 2),
        ("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    return str(e)",
         "division by zero"),
        ("match [1, 2]:\n    case [x, *y]:\n        return [q for q in y]", [2]),
        ("def f(): return a\nclass C: pass\nreturn f()", 1),
        ("return (lambda z: z)(a)", 1),
        ("return 7", 7),
        ("main = 5", None),
    ],
)  # fmt: skip
def test_results(text: str, value: Any) -> None:
    assert run(text, **({"a": 1, "x": 2} if "rest[" in text else {"a": 1})) == value


def test_callables_of_any_kind_get_their_arguments() -> None:
    @functools.wraps(run)
    def wrapped(**args: Any) -> Any:
        return args

    assert invoke(wrapped, {"text": "t"}) == {"text": "t"}
    assert invoke(complex, {"real": 1.0}) == 1
    with pytest.raises(Misfit, match="needs 'text', which is not in args"):
        invoke(functools.partial(run), {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def main(b): return b", "main(…) needs 'b', which is not in args (a)"),
        ("def main(b, /): return b", "main(…) needs 'b', which is not in args (a)"),
    ],
)
def test_missing_arguments_are_named(text: str, words: str) -> None:
    with pytest.raises(Misfit) as error:
        run(text, a=1)

    assert str(error.value) == words


def test_functions_are_found_in_modules() -> None:
    assert call_function(("json", "dumps"), {"obj": [1]}) == "[1]"
    with pytest.raises(Misfit, match=r"there is no module 'nowhere\.at_all'"):
        find("nowhere.at_all", "f")
    with pytest.raises(Misfit, match="module 'json' has no function 'nothing'"):
        find("json", "nothing")
    broken = ModuleType("broken_one")
    sys.modules["broken_one"] = broken
    try:
        with pytest.raises(Misfit):
            find("broken_one.part", "f")
    finally:
        del sys.modules["broken_one"]


def test_a_module_that_lacks_another_is_an_error_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(name: str) -> Any:
        raise ModuleNotFoundError("no module named 'other'", name="other")

    monkeypatch.setattr("importlib.import_module", fail)
    with pytest.raises(ModuleNotFoundError):
        find("mine", "f")


# -- errors -------------------------------------------------------------------------


def test_an_error_names_the_line_of_the_code() -> None:
    found = failure("x = 1\ndef main():\n    raise ValueError('bad')")

    assert found["kind"] == "tool.exception"
    assert found["message"] == "ValueError: bad (line 3 of the code)"
    assert found["traceback"].endswith("raise ValueError('bad')\nValueError: bad")


def test_a_chain_of_errors_is_shown_from_its_beginning() -> None:
    found = failure(
        "def main():\n"
        "    try:\n        1 / 0\n"
        "    except ZeroDivisionError as e:\n"
        "        raise KeyError('k') from e"
    )

    names = [line for line in found["traceback"].splitlines() if line[0] != " "]
    assert names == ["ZeroDivisionError: division by zero", "KeyError: 'k'"]
    suppressed = failure(
        "def main():\n"
        "    try:\n        1 / 0\n"
        "    except ZeroDivisionError:\n        raise KeyError('k') from None"
    )
    assert "ZeroDivisionError" not in suppressed["traceback"]


def test_deep_tracebacks_are_shortened() -> None:
    found = failure("def f(n):\n    return f(n - 1) if n else 1 / 0\nf(50)")

    assert "… 32 frames …" in found["traceback"]


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("raise MemoryError()", "tool.memory", "needed too much memory"),
        ("raise SystemExit(3)", "tool.exit", "the code called exit(3)"),
        ("raise SystemExit('no')", "tool.exit", "the code called exit(no)"),
        ("raise SystemExit(0)", "tool.contract", "the code called exit(0)"),
        ("import nowhere_at_all", "tool.exception", "pip install nowhere-at-all"),
        ("import json.nowhere", "tool.exception", "No module named 'json.nowhere'"),
        ("import yaml_not", "tool.exception", "pip install yaml-not"),
        ("def (", "tool.exception", "SyntaxError: "),
        ("raise ValueError()", "tool.exception", "ValueError (line 1 of the code)"),
        (
            "class E(Exception):\n    def __str__(self): return 1 / 0\nraise E()",
            "tool.exception",
            "(no text: ZeroDivisionError)",
        ),
    ],
)
def test_kinds_of_errors(text: str, kind: str, words: str) -> None:
    found = failure(text)

    assert (found["kind"], words in found["message"]) == (kind, True)


@pytest.mark.parametrize(
    ("code", "words"),
    [(errno.EFBIG, "a file grew above spec.disk"), (errno.ENOSPC, "the disk is full")],
)
def test_a_full_disk_is_an_error_of_its_own(code: int, words: str) -> None:
    assert explain(OSError(code, "x"), "/")["message"] == f"OSError: {words}"


def test_frames_of_the_folder_are_shown_with_their_files() -> None:
    try:
        invoke(run, {"text": "1 / 0"})
    except ZeroDivisionError as error:
        folder = __file__.rpartition("/")[0]
        found = explain(error, folder, None)

    assert 'File "test_python_calls.py"' in found["traceback"]
    assert found["line"] == 1


def test_long_messages_are_cut_and_can_be_encoded() -> None:
    assert len(fault("x", "y" * 20_000)["message"]) < faults.TEXT + 10
    assert fault("x", "\ud800")["message"] == "\\ud800"


# -- containment --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "contained"),
    [
        ("def main(x): return [x]", True),
        ("result = sum(n for n in range(3))", True),
        ("import os\nresult = 1", False),
        ("open('/etc/passwd')", False),
        ("x.__class__", False),
        ("def main(:", False),
    ],
)
def test_contained_code_is_known(text: str, *, contained: bool) -> None:
    source = Source(text)

    assert [source.is_contained(), source.is_contained()] == [contained] * 2


# -- output -------------------------------------------------------------------------


def test_records_of_logging_are_marked_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.StringIO()
    monkeypatch.setattr(sys, "stderr", printed)
    monkeypatch.setattr(sys, "__stderr__", printed)
    module = ModuleType("logging")
    module.__dict__.update(logging.__dict__)
    own = logging.RootLogger(logging.WARNING)
    module.root, module.basicConfig = own, lambda **options: options  # type: ignore[attr-defined]
    output.set_up_logging(module)
    record = logging.LogRecord("x", 30, "", 1, "one\ntwo", (), None)

    module.lastResort.emit(record)
    monkeypatch.setattr(sys, "stderr", other := io.StringIO())
    module.lastResort.emit(record)

    assert printed.getvalue() == "\x1e30 one\n\x1e30 two\n"
    assert other.getvalue() == "one\ntwo\n"
    assert own.level == logging.INFO
    assert module.basicConfig() is None
    assert module.basicConfig(level=1) == {"level": 1}
    errors: list[Any] = []
    module.lastResort.handleError = errors.append
    monkeypatch.setattr(sys, "stderr", None)
    module.lastResort.emit(record)
    assert errors == [record]


def test_logging_is_set_up_when_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(output, "set_up_logging", seen.append)
    output.prepare_logging()
    assert seen == [logging]
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.delitem(sys.modules, "logging")
    output.prepare_logging()
    setup = sys.meta_path[0]
    assert isinstance(setup, output.LoggingSetup)
    assert setup.find_spec("json") is None
    spec = setup.find_spec("logging")
    assert spec is not None
    assert setup not in sys.meta_path
    loader: Any = spec.loader
    fresh = ModuleType("logging")
    fresh.__spec__ = spec
    loader.exec_module(fresh)
    assert seen[-1] is fresh


def test_a_stream_is_flushed_after_something_was_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stream:
        def __init__(self) -> None:
            self.texts: list[str] = []
            self.flushed = 0
            self.options: dict[str, Any] = {}

        def write(self, text: str) -> int:
            self.texts.append(text)
            return len(text)

        def flush(self) -> None:
            self.flushed += 1
            raise SystemExit if self.flushed > 1 else ValueError

        def reconfigure(self, **options: Any) -> None:
            self.options = options

    started: list[Any] = []
    monkeypatch.setattr(
        output._thread, "start_new_thread", lambda run, args: started.append(run)
    )
    monkeypatch.setattr(output.os, "register_at_fork", lambda **hooks: None)
    monkeypatch.setattr(output, "sleep", lambda seconds: None)
    stream: Any = Stream()
    flusher = output.Flusher(stream)
    assert stream.write("a") == 1
    stream.write("b")
    flusher._arm()
    stream.write("c")
    flusher._pending.acquire(blocking=False)
    flusher._arm()
    stream.write("d")
    flusher._arm()
    stream.write("e")
    with pytest.raises(SystemExit):
        started[0]()

    assert stream.texts == ["a", "b", "c", "d", "e"]
    assert stream.flushed == 2

    def none_left(run: Any, args: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(output._thread, "start_new_thread", none_left)
    other: Any = Stream()
    output.Flusher(other)
    other.write("x")
    assert other.options == {"line_buffering": True}


# -- the queue of calls -------------------------------------------------------------


class Channel:
    """The worker's ends of the pipes of one process."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.inside, self.frames = os.pipe()
        self.taken, self.permits = os.pipe()
        patch.setattr(calls, "IN", self.inside)
        patch.setattr(calls, "PERMITS", self.taken)

    def send(self, body: Any) -> None:
        data = json.dumps(body).encode()
        os.write(self.frames, calls.HEADER.pack(b"noe1", len(data)) + data)

    def permit(self, number: int) -> None:
        os.write(self.permits, calls.NUMBER.pack(number))

    def close(self) -> None:
        for file in (self.inside, self.frames, self.taken, self.permits):
            with suppress(OSError):
                os.close(file)


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Channel]:
    opened = Channel(monkeypatch)
    yield opened
    opened.close()


def told(number: int, source: int = 1) -> list[Any]:
    return [number, source, {}, None, None]


def test_calls_begin_when_they_may(channel: Channel) -> None:
    inbox = calls.Inbox()
    channel.send({"folder": None})
    assert inbox.order() == {"folder": None}

    channel.send([True, False, {"1": "result = 1"}, [told(1), told(2)]])
    assert inbox.next().number == 1
    channel.permit(2)
    assert inbox.next().number == 2
    channel.permit(9)
    channel.send([False, False, {}, [told(5)]])
    channel.send([True, True, {"1": "result = 2"}, [told(6), told(7, source=0)]])
    sixth = inbox.next()  # the permit is for a later call: the worker took 5 back
    assert (sixth.number, sixth.source and sixth.source.text) == (6, "result = 2")
    inbox.hold()
    channel.send([True, False, {}, [told(8)]])
    eighth = inbox.next()
    assert (eighth.number, eighth.begins) == (8, True)


class Exited(BaseException):
    pass


def test_a_process_whose_worker_is_gone_ends(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []

    def leave(code: int) -> Any:
        codes.append(code)
        raise Exited

    monkeypatch.setattr(calls.os, "_exit", leave)
    inbox = calls.Inbox()
    channel.send([False, False, {"1": "x"}, [told(1)]])
    os.close(channel.permits)
    with pytest.raises(Exited):
        inbox.next()
    os.close(channel.frames)
    with pytest.raises(Exited):
        inbox.order()

    assert codes == [calls.CLOSED, 0]
