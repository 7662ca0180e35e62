"""Kind ``python``: calls in real processes, friendly and hostile."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.tools.python import PythonTool
from noetl.engine.tasks.outcome import Meta, Outcome, envelope
from noetl.ports import ToolCall

Call = Callable[..., ToolCall]
Run = Callable[..., Outcome]


@pytest.fixture
def run(call: Call, once: Callable[..., Outcome]) -> Run:
    """``run(code, args, spec)``: one call in a process of its own."""

    def start(
        code: str, args: Any = None, spec: dict[str, Any] | None = None, **more: Any
    ) -> Outcome:
        inputs = {"code": code, **({} if args is None else {"args": args})}
        given = {"spec": {"timeout": 30, **(spec or {})}, **more}
        return once(PythonTool(2), call("python", inputs, **given))

    return start


def error_of(outcome: Outcome) -> tuple[str, str]:
    assert outcome.error is not None, outcome
    return outcome.error.kind, outcome.error.message


@pytest.mark.spec("S-01")
@pytest.mark.parametrize(
    ("code", "args", "result"),
    [
        pytest.param("return a", {"a": 1}, 1, id="at the top"),
        pytest.param("if a:\n  return 1\nreturn 2", {"a": 0}, 2, id="in a branch"),
        pytest.param("a = a + 1\nreturn a", {"a": 1}, 2, id="an argument that is set"),
        pytest.param("b: int = a\nc: int\nreturn b", {"a": 1}, 1, id="annotations"),
        pytest.param(
            "import os.path as p, json\nx = '''\n  y\n'''\n"
            "def f(): return json.dumps(x)\nreturn [f(), p.sep]",
            {},
            ['"\\n  y\\n"', "/"],
            id="functions see what the code sets, and texts are as written",
        ),
        pytest.param(
            "try:\n  1 / 0\nexcept ZeroDivisionError as e:\n  return str(e)",
            {},
            "division by zero",
            id="in a handler",
        ),
    ],
)
def test_code_may_return(run: Run, code: str, args: Any, result: Any) -> None:
    assert run(code, args) == Outcome.ok(result)


@pytest.mark.spec("S-01")
def test_lines_of_code_that_returns_are_those_of_the_code(run: Run) -> None:
    outcome = run("x = 1\n\nif x:\n    raise ValueError('no')\nreturn x")

    assert outcome.error is not None
    assert outcome.error.details["line"] == 4


@pytest.mark.spec("PIPE-15")
@pytest.mark.parametrize(
    ("code", "args", "result"),
    [
        pytest.param("def main(a, b=2): return a + b", {"a": 1}, 3, id="main by name"),
        pytest.param("def main(*, a): return a", {"a": 1}, 1, id="a keyword only"),
        pytest.param("def main(a, /): return a", {"a": 1}, 1, id="a positional only"),
        pytest.param(
            "def main(**all): return all", {"a": 1}, {"a": 1}, id="all of them"
        ),
        pytest.param("def main(): return a", {"a": 1}, 1, id="args are global names"),
        pytest.param("def main(b): return a + b", {"a": 1, "b": 2}, 3, id="both"),
        pytest.param("async def main(a): return a", {"a": 1}, 1, id="an async main"),
        pytest.param("main = lambda a: a", {"a": 1}, 1, id="a lambda"),
        pytest.param(
            "import functools\ndef deco(f):\n"
            "  @functools.wraps(f)\n  def inner(*a, **k): return f(*a, **k)\n"
            "  return inner\n@deco\ndef main(a): return a",
            {"a": 1, "b": 2},
            1,
            id="a decorated main gets what it names",
        ),
        pytest.param("def main(): pass", {}, None, id="no return value is null"),
        pytest.param("x = 1", {}, None, id="neither main nor result is null"),
        pytest.param(
            "result = {'a': (1, 2)}", None, {"a": [1, 2]}, id="a tuple is a list"
        ),
        pytest.param(
            "from datetime import date\ndef main(): return [date(2026, 3, 1), {2, 1}]",
            {},
            ["2026-03-01", [1, 2]],
            id="a date is a text, a set a list",
        ),
        pytest.param(
            "from __future__ import annotations\nfrom dataclasses import dataclass\n"
            "@dataclass\nclass P:\n  x: int\ndef main(): return P(3).x",
            {},
            3,
            id="dataclasses find their module",
        ),
        pytest.param(
            "result = 2**4000 > 0, 10**30", {}, [True, 10**30], id="big numbers"
        ),
        pytest.param("result = 'é\\u0000😀'", {}, "é\0😀", id="any text"),
        pytest.param(
            "import sys\nresult = [sys.stdin.read(), sys.argv]",
            {},
            ["", [""]],
            id="there is nothing to read",
        ),
    ],
)
def test_code_gives_its_value(code: str, args: Any, result: Any, run: Run) -> None:
    outcome = run(code, args)

    assert outcome.error is None
    assert outcome.result == result


@pytest.mark.spec("LEG-STEP-08")
def test_code_that_assigns_result_gives_it(run: Run) -> None:
    assert run("result = {'sum': a + 1}", {"a": 1}).result == {"sum": 2}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param(
            "result = {'items': [1, b'']}", "result.items[1] is a bytes", id="item"
        ),
        pytest.param(
            "result = [{'a b': object()}]", "result[0]['a b'] is an object", id="object"
        ),
        pytest.param("def main(): return b'x'", "result is a bytes", id="bytes"),
        pytest.param("def main(): yield 1", "result is a generator", id="generator"),
        pytest.param("result = {'a': {1: 2}}", "result.a has the key 1", id="a key"),
        pytest.param("result = [float('nan')]", "result[0] is nan", id="NaN"),
        pytest.param(
            "result = {'x': -float('inf')}", "result.x is -inf", id="infinity"
        ),
        pytest.param(
            "a = []\na.append(a)\nresult = a", "result[0] contains itself", id="cycle"
        ),
        pytest.param(
            "a = []\nfor _ in range(9999): a = [a]\nresult = a",
            "nested deeper",
            id="depth",
        ),
        pytest.param(
            "result = ['\\ud800']", "result[0] is text with half", id="surrogate"
        ),
        pytest.param("result = 10**5000", "too many digits", id="a giant number"),
        pytest.param("result = 'x' * (65 * 2**20)", "more than 67108864", id="size"),
        pytest.param("def main(a, b): pass", "main(…) needs 'b'", id="parameter"),
        pytest.param(
            "class main:\n  def __init__(self, b): pass",
            "main(…) needs 'b'",
            id="of a class",
        ),
    ],
)
def test_what_breaks_the_contract_is_named(code: str, said: str, run: Run) -> None:
    kind, message = error_of(run(code, {"a": 1}))

    assert kind == "tool.contract"
    assert said in message


@pytest.mark.spec("OUT-04", "OUT-06", "OUT-12")
@pytest.mark.parametrize(
    ("module", "package"), [("pandaz.io", "pandaz"), ("sklearn", "scikit-learn")]
)
def test_a_missing_package_names_the_interpreter_and_the_command(
    run: Run, module: str, package: str
) -> None:
    kind, message = error_of(run(f"import {module}"))

    python = sys.executable
    assert kind == "tool.exception"
    assert message.startswith("ModuleNotFoundError: No module named ")
    assert f"the code runs with {python}" in message
    assert message.endswith(f"install it there: {python} -m pip install {package}")


def test_a_missing_part_of_a_package_needs_no_installation(run: Run) -> None:
    _, message = error_of(run("import json.nothing"))

    assert (
        message
        == "ModuleNotFoundError: No module named 'json.nothing' (line 1 of the code)"
    )


def test_an_exception_shows_the_users_own_frames(run: Run) -> None:
    code = (
        "import json\n"
        "def parse(text):\n"
        "    return json.loads(text)\n"
        "def main():\n"
        "    return parse('{')\n"
    )
    outcome = run(code)

    assert outcome.error is not None
    assert outcome.error.kind == "tool.exception"
    assert outcome.error.message.startswith("JSONDecodeError: Expecting property name")
    assert outcome.error.details["line"] == 3
    assert outcome.error.details["traceback"].splitlines()[:4] == [
        '  File "<code>", line 5, in main',
        "    return parse('{')",
        '  File "<code>", line 3, in parse',
        "    return json.loads(text)",
    ]
    helper = envelope(outcome, "python", Meta(1, "", "", 1.0))["py"]
    assert helper == {"exception_type": "JSONDecodeError"}


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        pytest.param(
            "def main(:",
            "tool.exception",
            "SyntaxError: invalid syntax (<code>, line 1)",
            id="syntax",
        ),
        pytest.param(
            "if 1:\npass", "tool.exception", "IndentationError: ", id="indentation"
        ),
        pytest.param(
            "a = '\0'", "tool.exception", "SyntaxError: ", id="NUL in the code"
        ),
        pytest.param(
            "raise KeyError('x')",
            "tool.exception",
            "KeyError: 'x' (line 1 of the code)",
            id="a key",
        ),
        pytest.param(
            "class E(Exception):\n  def __str__(self): 1/0\nraise E",
            "tool.exception",
            "E: (no text: ZeroDivisionError)",
            id="an exception without text",
        ),
        pytest.param(
            "raise ValueError('x' * 10**6)",
            "tool.exception",
            "ValueError: xxx",
            id="a long message",
        ),
        pytest.param(
            "def main(): return main()",
            "tool.exception",
            "RecursionError: ",
            id="recursion",
        ),
        pytest.param(
            "raise KeyboardInterrupt",
            "tool.exception",
            "KeyboardInterrupt",
            id="an interrupt",
        ),
        pytest.param(
            "import sys; sys.exit(3)", "tool.exit", "the code called exit(3)", id="exit"
        ),
        pytest.param(
            "import os; os._exit(0)",
            "tool.contract",
            "the process ended with exit code 0 and returned no result",
            id="exit 0",
        ),
        pytest.param(
            "import os; os.abort()",
            "tool.exit",
            "the process was ended by SIGABRT",
            id="abort",
        ),
        pytest.param(
            "import os; os.kill(os.getpid(), 9)",
            "tool.exit",
            "the process was ended by SIGKILL",
            id="kill",
        ),
        pytest.param(
            "import ctypes; ctypes.string_at(0)",
            "tool.exit",
            "the process was ended by SIGSEGV",
            id="a segmentation fault",
        ),
        pytest.param(
            "import os; os.closerange(0, 99)",
            "tool.exit",
            "the process closed the channel",
            id="closed files",
        ),
        pytest.param(
            "import os; os.closerange(3, 9)\n"
            "files = [open('/dev/null', 'w') for _ in range(9)]",
            "tool.exit",
            "the process closed the channel",
            id="a file in place of the channel",
        ),
        pytest.param(
            "import os; os.write(4, b'garbage, garbage')",
            "tool.exit",
            "the process wrote into the channel",
            id="garbage in the channel",
        ),
        pytest.param(
            "import os; os.write(4, b'abcd' + b'\\0\\1\\0\\0')",
            "tool.exit",
            "the process wrote into the channel",
            id="the promise of a frame",
        ),
        pytest.param(
            "import os; os.write(4, b'noe1' + b'\\0\\0\\0\\2{}')",
            "tool.exit",
            "the process wrote into the channel",
            id="a forged reply",
        ),
        pytest.param(
            "import os; os.kill(os.getppid(), 9)\nwhile True: pass",
            "tool.exit",
            "the process was ended by SIGKILL",
            id="the launcher killed",
        ),
    ],
)
def test_a_failure_has_a_stable_kind_and_a_sentence(
    code: str, kind: str, message: str, run: Run
) -> None:
    outcome = run(code)

    assert error_of(outcome)[0] == kind
    assert error_of(outcome)[1].startswith(message)
    assert len(error_of(outcome)[1]) < 9000
    assert len(str(outcome.error and outcome.error.details)) < 20_000


@pytest.mark.spec("S-35")
@pytest.mark.parametrize(
    "code",
    [
        pytest.param("while True: pass", id="a busy loop"),
        pytest.param("import threading; threading.Event().wait()", id="a wait"),
        pytest.param(
            "import signal\nfor n in range(1, 32):\n"
            "  if n not in (9, 19): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
            id="deaf to signals",
        ),
        pytest.param(
            "import os\nwhile True: os.write(1, b'x' * 65536)", id="endless output"
        ),
    ],
)
def test_a_timeout_kills_the_process(code: str, run: Run) -> None:
    outcome = run(f"print('begun', flush=True)\n{code}", spec={"timeout": 0.2})

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("timeout", True)
    assert "0.2 s" in outcome.error.message


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("x = bytearray(10**10)", id="at once"),
        pytest.param("x = []\nwhile True: x.append(bytearray(10**6))", id="bit by bit"),
    ],
)
def test_memory_is_bounded(code: str, run: Run) -> None:
    outcome = run(code, spec={"memory": "256MiB"})

    kind, message = error_of(outcome)
    assert kind == "tool.memory"
    assert "more memory than the 256 MiB of spec.memory" in message


def test_a_size_that_is_none_is_refused(run: Run) -> None:
    assert error_of(run("", spec={"memory": "much"}))[0] == "tool.contract"


@pytest.mark.parametrize(
    ("code", "stdout", "stderr"),
    [
        pytest.param(
            "print('a'); import sys; print('b', file=sys.stderr)",
            "a\n",
            "b\n",
            id="print",
        ),
        pytest.param(
            "import os; os.write(1, b'a\\xff')",
            "a\ufffd",
            "",
            id="bytes that are no text",
        ),
        pytest.param(
            "import subprocess; subprocess.run(['echo', 'a'])",
            "a\n",
            "",
            id="a program",
        ),
        pytest.param("print('\\ud800')", "\\ud800\n", "", id="half a character"),
        pytest.param(
            "import sys; sys.stdout = sys.stderr; print('a')",
            "",
            "a\n",
            id="a replaced stream",
        ),
        pytest.param("import sys; sys.stdout.close()", "", "", id="a closed stream"),
    ],
)
def test_output_is_passed_to_the_callback(
    code: str,
    stdout: str,
    stderr: str,
    call: Call,
    once: Callable[..., Outcome],
    listening: Any,
) -> None:
    heard: list[tuple[str, str]] = []
    tool = listening(PythonTool(1), lambda _, out, err: heard.append((out, err)))
    outcome = once(tool, call("python", {"code": code}))

    assert outcome.status == "ok"
    assert heard == ([(stdout, stderr)] if stdout or stderr else [])


def test_much_output_arrives_to_its_end(call: Call, once: Any, listening: Any) -> None:
    heard: list[str] = []
    tool = listening(PythonTool(1), lambda _, out, err: heard.append(out))
    code = "import os\nfor _ in range(512): os.write(1, b'x' * 65536)\nprint('end')"
    outcome = once(tool, call("python", {"code": code}))

    assert outcome.status == "ok"
    (text,) = heard
    assert text == "x" * 2**25 + "end\n"


def test_an_error_keeps_the_end_of_the_output(run: Run) -> None:
    outcome = run("print('x' * 9999)\nprint('last words')\n1/0")

    assert outcome.error is not None
    assert len(outcome.error.details["stdout"]) == 8192
    assert outcome.error.details["stdout"].endswith("last words\n")


def test_a_module_of_the_playbooks_folder_is_called(
    call: Call, once: Any, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(
        "import os\n"
        "def main(a): return [a, os.getcwd()]\n"
        "def fail(): raise ValueError('no')\n"
    )

    def of(**inputs: Any) -> Outcome:
        outcome: Outcome = once(
            PythonTool(1), call("python", inputs, folder=str(tmp_path))
        )
        return outcome

    assert of(module="shop", args={"a": 1}).result == [1, str(tmp_path)]
    assert of(code="import shop\nresult = shop.main(2)[0]").result == 2
    failed = of(module="shop", function="fail")
    assert failed.error is not None
    assert 'File "shop.py", line 3, in fail' in failed.error.details["traceback"]
    assert error_of(of(module="shop", function="buy")) == (
        "tool.contract",
        "module 'shop' has no function 'buy'",
    )
    assert "no module 'shoe'" in error_of(of(module="shoe"))[1]
    assert of(module="json", function="dumps", args={"obj": [1]}).result == "[1]"


@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param({}, id="nothing to run"),
        pytest.param({"code": "x", "module": "y"}, id="two things to run"),
        pytest.param({"code": 5}, id="code that is no text"),
        pytest.param({"code": "x", "args": [1]}, id="args that are no mapping"),
    ],
)
def test_inputs_of_no_use_are_refused(
    inputs: dict[str, Any], call: Call, once: Any
) -> None:
    assert error_of(once(PythonTool(1), call("python", inputs)))[0] == "tool.contract"


def test_the_environment_is_clean(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_TOKEN", "s3cret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    seen = run("import os; result = dict(os.environ)", action_id="a7", attempt=3).result

    assert {name for name in seen if name.startswith(("NOETL", "AWS"))} == {
        "NOETL_ACTION_ID",
        "NOETL_ATTEMPT",
    }
    assert (seen["NOETL_ACTION_ID"], seen["NOETL_ATTEMPT"]) == ("a7", "3")
    assert "PATH" in seen


def test_the_code_gets_the_trace_of_its_attempt_and_no_earlier_one(run: Run) -> None:
    reads = "import os; result = os.environ.get('TRACEPARENT')"

    assert run(reads, traceparent="00-a-b-01").result == "00-a-b-01"
    assert run(reads).result is None


def test_the_process_is_confined(run: Run) -> None:
    code = (
        "import os, resource\n"
        "status = open('/proc/self/status').read()\n"
        "result = {\n"
        "  'core': resource.getrlimit(resource.RLIMIT_CORE),\n"
        "  'leads': os.getpid() == os.getpgrp() == os.getsid(0),\n"
        "  'rights': 'NoNewPrivs:\\t1' in status,\n"
        "  'files': sorted(int(n) for n in os.listdir('/proc/self/fd'))[:5],\n"
        "}\n"
    )
    result = run(code).result

    assert result["core"] == [0, 0]
    assert result["leads"]
    assert result["rights"]
    assert result["files"] == [0, 1, 2, 3, 4]


def test_isolation_that_is_required_is_never_pretended(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = run("result = 1", spec={"isolation": "required"})

    assert error_of(outcome)[0] == "tool.isolation"
    assert "bubblewrap" in error_of(outcome)[1]


@pytest.fixture
def sandbox() -> None:
    """Bubblewrap, on a machine that lets it work."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed (Debian: apt-get install bubblewrap)")
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no sandbox can be made here: {done.stderr.strip()}")


@pytest.mark.usefixtures("sandbox")
def test_isolation_that_is_required_is_a_sandbox(run: Run, tmp_path: Path) -> None:
    code = (
        "import os\n"
        "def can_write(path):\n"
        "  try: return bool(open(path, 'w'))\n"
        "  except OSError: return False\n"
        "def main(a): return [a, os.getcwd(), can_write('x'),\n"
        "  os.path.exists('/etc/passwd'), os.listdir('/sys/class/net')\n"
        "  if os.path.exists('/sys') else []]"
    )
    spec = {"isolation": "required"}
    outcome = run(code, {"a": 1}, spec, folder=str(tmp_path))

    assert outcome.result == [1, str(tmp_path), False, False, []]
