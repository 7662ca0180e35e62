"""Kinds ``script`` and ``shell``: programs, their output and their end."""

from __future__ import annotations

import asyncio
import os
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.processes.programs import script_file
from noetl.adapters.tools.script import ScriptTool
from noetl.engine.tasks.outcome import Outcome
from noetl.ports import ToolCall

Call = Callable[..., ToolCall]


@pytest.fixture
def run(call: Call, once: Any) -> Callable[..., Outcome]:
    def start(spec: dict[str, Any] | None = None, **inputs: Any) -> Outcome:
        folder = inputs.pop("folder", None)
        given = {"spec": {"timeout": 30, **(spec or {})}, "folder": folder}
        outcome: Outcome = once(ScriptTool(), call("script", inputs, **given))
        return outcome

    return start


Run = Callable[..., Outcome]


def is_there(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


@pytest.mark.spec("PIPE-20")
@pytest.mark.parametrize(
    ("inputs", "stdout"),
    [
        pytest.param(
            {"command": ["echo", "$HOME; x"]}, "$HOME; x\n", id="a list is argv"
        ),
        pytest.param({"command": "echo a | tr a b"}, "b\n", id="a text runs in sh"),
        pytest.param(
            {"script": "echo a\necho b"}, "a\nb\n", id="a script of two lines"
        ),
        pytest.param(
            {"script": "print(1 + 1)", "interpreter": ["python3", "-I"]},
            "2\n",
            id="another interpreter",
        ),
        pytest.param(
            {"script": "echo $0", "interpreter": "bash --norc"},
            None,
            id="with an option",
        ),
        pytest.param(
            {"command": ["echo", 5, True, {"a": 1}]},
            '5 true {"a":1}\n',
            id="values as text",
        ),
        pytest.param(
            {"script": "#" + "x" * 300_000 + "\necho a"},
            "a\n",
            id="a script longer than an argument can be",
        ),
        pytest.param({"script": "cat", "stdin": "text"}, "text", id="stdin is text"),
        pytest.param(
            {"script": "cat", "stdin": {"a": [1]}}, '{"a":[1]}', id="stdin is JSON"
        ),
        pytest.param({"script": "cat"}, "", id="stdin is empty"),
        pytest.param(
            {"script": "cat", "stdin": "x" * 500_000}, "x" * 500_000, id="stdin is long"
        ),
        pytest.param(
            {"script": "true", "stdin": "x" * 500_000}, "", id="stdin is not read"
        ),
        pytest.param(
            {"script": "echo $A$B", "env": {"A": 1, "B": "; exit 3"}},
            "1; exit 3\n",
            id="env is no code",
        ),
        pytest.param(
            {"script": "echo ${HOME-none}", "env": {"HOME": None}},
            "none\n",
            id="env takes away",
        ),
        pytest.param(
            {"script": "echo $NOETL_ACTION_ID $NOETL_ATTEMPT"},
            "a1 1\n",
            id="the action's id",
        ),
        pytest.param(
            {"command": ["printf", "a\\377"]}, "a\ufffd", id="bytes that are no text"
        ),
        pytest.param(
            {"script": "sleep 600 & echo a"}, "a\n", id="a child that stays behind"
        ),
    ],
)
def test_a_program_gives_its_output(
    inputs: dict[str, Any], stdout: str | None, run: Run
) -> None:
    outcome = run(**inputs)

    assert outcome.error is None
    assert outcome.result == {
        "stdout": outcome.result["stdout"] if stdout is None else stdout,
        "stderr": "",
        "exit_code": 0,
    }


@pytest.mark.spec("LEG-STEP-08")
def test_the_kind_shell_is_the_same(call: Call, once: Any) -> None:
    outcome = once(ScriptTool(), call("shell", {"command": "echo a >&2"}))

    assert outcome.result == {"stdout": "", "stderr": "a\n", "exit_code": 0}


@pytest.mark.spec("OUT-04", "OUT-06")
@pytest.mark.parametrize(
    ("inputs", "message", "details"),
    [
        pytest.param(
            {"script": "echo a; echo b >&2; exit 3"},
            "the process ended with exit code 3: b",
            {"stdout": "a\n", "stderr": "b\n", "exit_code": 3},
            id="a code",
        ),
        pytest.param(
            {"script": "kill -TERM $$"},
            "the process was ended by SIGTERM",
            {"stdout": "", "stderr": "", "exit_code": 143, "signal": "SIGTERM"},
            id="a signal",
        ),
        pytest.param(
            {"command": ["no-such-program"]},
            "the process ended with exit code 127: noetl: no-such-program: "
            "No such file or directory",
            {"exit_code": 127},
            id="no program",
        ),
        pytest.param(
            {"command": ["/etc"]},
            "the process ended with exit code 126: noetl: /etc: Permission denied",
            {"exit_code": 126},
            id="no permission",
        ),
        pytest.param(
            {"command": ["echo", "x" * 1_000_000]},
            "the process ended with exit code 126: noetl: echo: Argument list too long",
            {"exit_code": 126},
            id="an argument of 1 MB",
        ),
    ],
)
def test_a_failure_is_an_error_with_the_same_in_details(
    inputs: dict[str, Any], message: str, details: dict[str, Any], run: Run
) -> None:
    outcome = run(**inputs)

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.message) == ("tool.exit", message)
    assert {name: outcome.error.details.get(name) for name in details} == details


@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param({}, id="nothing to run"),
        pytest.param({"script": "a", "command": "b"}, id="two things to run"),
        pytest.param({"command": []}, id="an empty list"),
        pytest.param({"command": ["a\0b"]}, id="a NUL"),
        pytest.param({"script": "a\0b"}, id="a NUL in a script"),
        pytest.param({"command": "a", "env": {"A=B": "c"}}, id="a wrong name in env"),
        pytest.param({"command": "a", "env": {"A": "c\0"}}, id="a NUL in env"),
        pytest.param({"command": "a", "env": ["A"]}, id="an env that is no mapping"),
        pytest.param({"command": "a", "cwd": "nowhere"}, id="no such folder"),
    ],
)
def test_inputs_of_no_use_are_refused(inputs: dict[str, Any], run: Run) -> None:
    outcome = run(**inputs)

    assert outcome.error is not None
    assert outcome.error.kind == "tool.contract"


@pytest.mark.parametrize(
    ("script", "result", "kind"),
    [
        pytest.param("echo '{\"a\": [1]}'", {"a": [1]}, None, id="JSON"),
        pytest.param("echo no", None, "tool.contract", id="no JSON"),
        pytest.param("true", None, "tool.contract", id="nothing"),
        pytest.param("yes 1 | head -c 11000000", None, "tool.contract", id="too long"),
        pytest.param(
            "echo '[1]'; exit 3", None, "tool.exit", id="a failure comes first"
        ),
    ],
)
def test_output_can_be_json(
    script: str, result: Any, kind: str | None, run: Run
) -> None:
    outcome = run({"output": "json"}, script=script)

    assert outcome.result == result
    assert (outcome.error and outcome.error.kind) == kind


def test_much_output_is_cut_in_the_middle_and_says_so(run: Run) -> None:
    tracemalloc.start()
    stdout = run(script="yes | head -c 20000000; echo end").result["stdout"]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(stdout) < 2**20 + 100
    assert peak < 12 * 2**20
    assert f"[… {20_000_004 - 2**20} bytes cut …]" in stdout
    assert stdout.endswith("end\n")


def test_cwd_is_seen_from_the_playbooks_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()

    assert run(script="pwd", folder=str(tmp_path)).result["stdout"] == f"{tmp_path}\n"
    below = run(script="pwd", folder=str(tmp_path), cwd="sub")
    assert below.result["stdout"] == f"{tmp_path}/sub\n"


def test_nothing_of_ours_is_in_the_environment(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_TOKEN", "s3cret")
    monkeypatch.setenv("DATABASE_URL", "s3cret")

    assert "s3cret" not in run(script="env").result["stdout"]


def test_memory_is_bounded(run: Run) -> None:
    code = "x = bytearray(10**10)"
    outcome = run({"memory": "512MiB"}, script=code, interpreter="python3 -I")

    assert outcome.error is not None
    assert outcome.error.kind == "tool.memory"
    assert "more memory than the 512 MiB of spec.memory" in outcome.error.message
    assert outcome.error.details["stderr"].endswith("MemoryError\n")


def test_a_kill_from_outside_names_a_reason(run: Run) -> None:
    for script in ("kill -9 $$", "sh -c 'kill -9 $$'; exit $?"):
        outcome = run(script=script)

        assert outcome.error is not None
        assert outcome.error.kind == "tool.exit"
        assert "has no memory left" in outcome.error.message


def test_without_a_limit_of_memory_stderr_decides_nothing(run: Run) -> None:
    outcome = run(script="echo 'ERROR: out of memory' >&2; exit 1")

    assert outcome.error is not None
    assert outcome.error.kind == "tool.exit"


@pytest.mark.spec("S-35")
def test_a_timeout_kills_the_program_and_all_it_started(
    run: Run, tmp_path: Path
) -> None:
    script = "echo begun; sleep 600 & echo $! > pid; setsid sleep 600"
    outcome = run({"timeout": "500ms"}, script=script, folder=str(tmp_path))

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("timeout", True)
    assert outcome.error.details["stdout"] == "begun\n"
    assert not is_there(int((tmp_path / "pid").read_text()))


def test_being_cancelled_kills_the_program(
    call: Call, using: Any, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    os.mkfifo(file)
    request = call("script", {"script": f"echo $$ > {file}; sleep 600"})

    async def work(run: Any) -> bool:
        running = asyncio.ensure_future(run(request))
        pid = int(await asyncio.to_thread(file.read_text))
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        return is_there(pid)

    assert not using(ScriptTool(), work)


def test_being_cancelled_before_its_start_is_known_kills_the_program_too(
    call: Call, using: Any, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    os.mkfifo(file)
    request = call("script", {"script": f"echo $$ > {file}; sleep 600"})

    async def work(run: Any) -> bool:
        running = asyncio.ensure_future(run(request))
        await asyncio.sleep(0)
        pid = int(file.read_text())  # blocks the loop: nothing else is heard of it
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        return is_there(pid)

    assert not using(ScriptTool(), work)


def test_programs_run_side_by_side(call: Call, using: Any, tmp_path: Path) -> None:
    """Each waits for the other."""
    os.mkfifo(tmp_path / "fifo")

    async def work(run: Any) -> list[Any]:
        both = [
            run(call("script", {"script": script}, folder=str(tmp_path)))
            for script in ("echo hello > fifo", "cat fifo")
        ]
        return [each.result["stdout"] for each in await asyncio.gather(*both)]

    assert using(ScriptTool(), work) == ["", "hello\n"]


def test_an_orphan_lives_as_long_as_the_program_that_left_it(
    call: Call, using: Any, tmp_path: Path
) -> None:
    """Programs that end meanwhile take along what is theirs, and no more."""
    for name in ("begun", "in", "out"):
        os.mkfifo(tmp_path / name)
    script = "(sh -c 'read x < in; echo $x > out' &); echo > begun; cat out"

    async def work(run: Any) -> Any:
        def start(script: str) -> Any:
            return run(call("script", {"script": script}, folder=str(tmp_path)))

        long = asyncio.ensure_future(start(script))
        await start("cat begun")
        await start("echo hello > in")
        return (await long).result["stdout"]

    assert using(ScriptTool(), work) == "hello\n"


@pytest.mark.spec("S-41")
def test_a_text_that_a_killed_process_left_is_removed_by_the_next_one(
    call: Call, using: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hold a secret. That of a process which lives is left alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "noetl-script-left"
    left.write_text("echo secret")
    os.mkfifo(tmp_path / "noetl-script-pipe")
    (tmp_path / "noetl-script-link").symlink_to(__file__)

    async def work(run: Any) -> Any:
        outcome = await run(call("script", {"script": "ls ${0%/*}"}))
        return outcome.result["stdout"].split()

    with script_file("echo somebody else") as other:
        seen = using(ScriptTool(), work)

        assert Path(other).name in seen
        assert len(seen) == 3
        assert left.name not in seen
    assert Path(__file__).exists()
    assert [path.name for path in tmp_path.iterdir()] == ["noetl-script-link"]


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        pytest.param({}, "00-a-b-01", id="of the attempt"),
        pytest.param({"TRACEPARENT": "mine"}, "mine", id="the author's"),
        pytest.param({"TRACEPARENT": None}, "none", id="taken away"),
    ],
)
def test_a_program_gets_the_trace_of_its_attempt(
    call: Call, once: Any, env: dict[str, Any], expected: str
) -> None:
    inputs = {"script": "echo ${TRACEPARENT-none}", "env": env}

    outcome = once(ScriptTool(), call("script", inputs, traceparent="00-a-b-01"))

    assert outcome.result["stdout"].strip() == expected
