"""Code that shares a process with other executions: what it may do, and what it leaves.

Each trick to leave a value behind is either no contained code, and so gets a process of
its execution, or it leaves nothing: the next execution does the same and sees no trace.
"""

from __future__ import annotations

import asyncio
import builtins
import os
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.processes.noetl_child.isolation import (
    ATTRIBUTES,
    MODULES,
    compile_contained,
)
from noetl.adapters.tools.python import PythonTool
from noetl.ports import ToolCall

Call = Callable[..., ToolCall]

pytestmark = pytest.mark.spec("PIPE-10", "PIPE-15", "SCOPE-02")

CONTAINED = [
    "result = x + 1",
    "def main(a: int, b: float = 2) -> dict:\n  return {'sum': a + b}",
    "import math\nfrom datetime import datetime, timedelta as d\n"
    "result = [math.sqrt(x), (datetime(2026, 1, 1) + d(days=1)).isoformat()]",
    "import json, re\nresult = json.dumps(re.findall(r'[a-z]+', text), indent=1)",
    "from collections import Counter\nresult = Counter(words).most_common(3)",
    "total = 0\nfor row in rows:\n  if row.get('ok'):\n    total += row['n']\n"
    "result = f'{total:>5} {total!r}'",
    "try:\n  result = int(text)\nexcept (ValueError, TypeError) as error:\n"
    "  result = str(error)\nfinally:\n  done = True",
    "from functools import lru_cache\n@lru_cache\ndef fib(n):\n"
    "  return n if n < 2 else fib(n - 1) + fib(n - 2)\nresult = fib(30)",
    "rows.sort(key=lambda row: row['n'], reverse=True)\nresult = rows[:3]",
    "result = {k: v for k, v in data.items() if (n := len(v)) > 1}",
    "print('seen', x)\nraise ValueError('no')",
    "import time\ntime.sleep(0.01)",
]


@pytest.mark.parametrize("code", CONTAINED)
def test_code_that_computes_is_contained(code: str) -> None:
    assert compile_contained(code) is not None


REFUSED = {
    "another module": "import os",
    "a module of a package": "import collections.abc",
    "a module of the folder": "import shop",
    "all of a module": "from math import *",
    "a relative import": "from . import x",
    "what a module does not give": "from functools import wraps",
    "the state of a module": "import random\nrandom.seed(1)",
    "a list in a module": "import json\njson.decoder.BACKSLASH['x'] = secret",
    "a module in a module": "import base64\nbase64.re",
    "a module by another name": "import json as j\nk = j\nk.decoder",
    "an import at run time": "__import__('os')",
    "an attribute of a function": "def f(): pass\nf.left = 1",
    "an attribute of a class": "import json\njson.JSONDecodeError.left = 1",
    "an attribute added to": "import math\nmath.pi += 1",
    "an attribute deleted": "import math\ndel math.pi",
    "an attribute as a target": "import math\nfor math.pi in [3]: pass",
    "an attribute in an unpacking": "import math\n(a, *math.pi) = [1, 2]",
    "an attribute of a comprehension": "import math\n[0 for math.pi in [3]]",
    "setattr": "setattr(print, 'left', 1)",
    "setattr by another name": "s = setattr",
    "getattr": "getattr(len, '__self__')",
    "the namespace": "globals()['left'] = 1",
    "the builtins": "__builtins__.left = 1",
    "the builtins as a parameter": "def main(__builtins__): pass",
    "the builtins by a keyword": "dict(__builtins__=1)",
    "the builtins as a global": "def f():\n  global __builtins__\n  __builtins__ = {}",
    "the builtins as a function": "def __builtins__(): pass",
    "the builtins as an error": "try: pass\nexcept ValueError as __builtins__: pass",
    "the builtins as a module": "import math as __builtins__",
    "a loader": "__loader__.load_module('os')",
    "the class of a value": "().__class__.__base__.__subclasses__()",
    "the globals of a function": "import json\njson.dumps.__globals__",
    "the defaults of a function": "import json\njson.dumps.__kwdefaults__['sep'] = 1",
    "the self of a builtin": "print.__self__",
    "a format": "'{0.__class__}'.format(1)",
    "a format by name": "str.format('{0.__globals__}', f)",
    "a format of a mapping": "'{x.__class__}'.format_map({'x': 1})",
    "a formatter": "import string\nstring.Formatter().format('{0.__class__}', 1)",
    "a template": "from string import Template",
    "an attribute getter": "from operator import attrgetter",
    "the frame of a generator": "g = (x for x in [1])\ng.gi_frame.f_back.f_globals",
    "the frame of an exception": (
        "try: 1/0\nexcept Exception as e: e.__traceback__.tb_frame.f_back"
    ),
    "a traceback": "try: 1/0\nexcept Exception as e: raise e.with_traceback(None)",
    "a note on an exception": "ValueError('x').add_note('left')",
    "the code of a function": "def f(): pass\nf.__code__.co_consts",
    "a generator that ends later": (
        "def g():\n  try: yield\n  finally: print(secret)\na = [g()]\na.append(a)\n"
        "next(a[0])"
    ),
    "a delegating generator": "def g(): yield from []",
    "a coroutine": "async def main(): return 1",
    "an asynchronous generator": "async def g():\n  yield 1",
    "a class": "class A: pass",
    "a finalizer": "class A:\n  def __del__(self): print(secret)",
    "a finalizer by type": "type('A', (), {'__del__': print})",
    "a subclass": "class A(dict): pass",
    "a metaclass": "class A(type): pass",
    "an object": "object()",
    "a property": "property(print)",
    "a context": "with x: pass",
    "a class pattern": "match x:\n  case int(__class__=c): pass",
    "a type alias": "def f(x: __annotations__): pass",
    "exec": "exec('import os')",
    "eval": "eval('1')",
    "compile": "compile('1', '', 'eval')",
    "open": "open('/etc/passwd')",
    "input": "input()",
    "exit": "exit()",
    "quit": "quit()",
    "help": "help()",
    "breakpoint": "breakpoint()",
    "the end of the process": "raise SystemExit",
    "an interrupt": "raise KeyboardInterrupt",
    "memory": "memoryview(b'')",
    "an address": "id(1)",
    "vars": "vars()",
    "dir": "dir()",
    "locals": "locals()",
    "super": "super()",
    "letters that are the same": "\uff45\uff58\uff45\uff43('1')",
    "underscores that are the same": "().\uff3f\uff3fclass\uff3f\uff3f",
    "no code": "def main(:",
    "a NUL": "a = '\0'",
    "code that is too deep": "x = " + "(" * 5000 + ")" * 5000,
    "expressions that are too deep": "x = " + "-" * 200_000 + "1",
}


@pytest.mark.parametrize("name", REFUSED)
def test_code_that_reaches_for_more_is_not(name: str) -> None:
    assert compile_contained(REFUSED[name]) is None


def test_of_a_module_nothing_is_reached_but_what_is_listed() -> None:
    for module, names in MODULES.items():
        reached = {name for name in ATTRIBUTES if hasattr(module, name)}
        assert reached <= names, module
        for name in reached:
            value = getattr(module, name)
            assert not isinstance(value, types.ModuleType | dict | list | set), name


def test_of_what_is_reached_nothing_can_be_changed() -> None:
    """Classes and functions of modules, and the builtins: their attributes, too."""
    found = [getattr(m, name, None) for m, names in MODULES.items() for name in names]
    found += [value for name, value in vars(builtins).items() if is_reached(name)]
    assert len(found) > 200
    for value in found:
        for name in ATTRIBUTES:
            reached = getattr(value, name, None)
            mutable = types.ModuleType | dict | list | set | bytearray
            assert not isinstance(reached, mutable), (value, name)


def is_reached(name: str) -> bool:
    return compile_contained(name) is not None


def test_the_builtins_that_are_reached_are_these() -> None:
    functions = {
        name
        for name, value in vars(builtins).items()
        if is_reached(name)
        and not (isinstance(value, type) and issubclass(value, Exception))
    }

    assert " ".join(sorted(functions)) == (
        "False None True abs all any ascii bin bool bytearray bytes callable chr "
        "complex dict divmod enumerate filter float format frozenset hex int "
        "isinstance iter len list map max min next oct ord pow print range repr "
        "reversed round set slice sorted str sum tuple zip"
    )


def python(call: Call, code: str, execution: str = "e1", **more: Any) -> ToolCall:
    inputs = {"code": code, "args": more.pop("args", {})}
    return call("python", inputs, execution_id=execution, **more)


def processes() -> int:
    """How many run code for us: the children of our children."""
    found = 0
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        inner = Path(f"/proc/{child}/task/{child}/children")
        found += len(inner.read_text().split()) if inner.exists() else 0
    return found


@pytest.mark.parametrize(
    ("code", "more", "count"),
    [
        pytest.param("result = 1", {}, 1, id="contained: one for all"),
        pytest.param(
            "import os\nresult = 1", {}, 5, id="not: one for each, and a judge"
        ),
        pytest.param(
            "result = 1", {"spec": {"memory": "1GiB"}}, 4, id="a limit: one for each"
        ),
    ],
)
def test_executions_share_a_process_for_contained_code_alone(
    code: str, more: Any, count: int, call: Call, using: Any
) -> None:
    before = processes()

    async def work(run: Any) -> int:
        for execution in ("e1", "e2", "e3", "e4"):
            assert (await run(python(call, code, execution, **more))).result == 1
        return processes() - before

    spares = 0 if count == 1 else 2
    assert count <= using(PythonTool(8), work) <= count + spares


TRICKS = {
    "a global": "result = 'left' if 'left' in seen else 'clean'\nleft = 1",
    "a global that is not there": "try: left\nexcept NameError: left = 0\n"
    "left += 1\nresult = left",
    "a default": "def f(x, seen=[]):\n  seen.append(x)\n  return len(seen)\n"
    "result = [f(1), f(2)]",
    "a cache": "from functools import cache\ncalls = []\n@cache\ndef f(x):\n"
    "  calls.append(x)\n  return x\nf(1)\nf(1)\nresult = len(calls)",
    "a main of an earlier call": "result = 1",
    "a result of an earlier call": "x = 1",
    "a builtin by another value": "len = 5\nresult = len",
    "the builtin again": "result = len([1])",
    "a function in place of a builtin": "def sorted(x): return 'left'\n"
    "result = sorted([])",
    "the function again": "result = sorted([2, 1])",
    "a name of a module": "import math\nmath = 5\nresult = math",
    "the module again": "import math\nresult = math.floor(1.5)",
    "garbage": "a = []\na.append(a)\nb = {'a': a}\na.append(b)\nresult = 1",
    "recursion": "def f(n):\n  try: return f(n + 1)\n"
    "  except RecursionError: return n > 100\nresult = f(0)",
    "a walrus": "[y := x for x in [1, 2]]\nresult = y",
    "an error in an error": "try:\n  1/0\nexcept ZeroDivisionError as e:\n"
    "  keep = e\n  try: raise ValueError from e\n  except ValueError: pass\nresult = 1",
    "an iterator": "from itertools import count\nc = count()\nresult = next(c)",
    "a counter": "from collections import Counter\nCounter.fromkeys\n"
    "result = Counter('aab').total() if 0 else Counter('aab')['a']",
    "a half-used generator": "g = (x for x in [1, 2, 3])\nnext(g)\nresult = next(g)",
    "a pattern": "import re\nresult = bool(re.compile('left' + str(n)).match('left1'))",
    "its own arguments": "rows.append(4)\nresult = len(rows)",
}


@pytest.mark.parametrize("name", TRICKS)
def test_an_execution_finds_nothing_of_another(
    name: str, call: Call, using: Any
) -> None:
    """All tricks before it, twice: what another execution gets is the same."""
    args: dict[str, Any] = {"seen": [], "n": 1, "rows": [1]}

    async def work(run: Any) -> list[Any]:
        first = await run(python(call, TRICKS[name], "e0", args=args))
        for execution, trick in enumerate(TRICKS.values()):
            assert compile_contained(trick) is not None
            await run(python(call, trick, f"e{execution}", args=args))
        last = await run(python(call, TRICKS[name], "e99", args=args))
        return [first.result, last.result, processes()]

    before = processes()
    first, last, count = using(PythonTool(8), work)

    assert first == last
    assert count - before == 1


@pytest.mark.parametrize("name", ["__builtins__", "__name__", "__loader__", "len"])
def test_arguments_cannot_put_something_in_the_place_of_builtins(
    name: str, call: Call, using: Any, outcome: Any
) -> None:
    async def work(run: Any) -> Any:
        await outcome(run(python(call, "len([])", "e1", args={name: {"a": 1}})))
        return (await run(python(call, "result = len([1])", "e2"))).result

    assert using(PythonTool(2), work) == 1


def test_printed_output_belongs_to_its_own_call(
    call: Call, using: Any, listening: Any
) -> None:
    heard = []

    async def work(run: Any) -> None:
        calls = [
            run(python(call, "print(x)", f"e{x}", args={"x": x})) for x in range(50)
        ]
        await asyncio.gather(*calls)

    def hear(which: ToolCall, out: str, err: str) -> None:
        heard.append((which.execution_id, out, err))

    using(listening(PythonTool(4), hear), work)

    assert sorted(heard) == sorted((f"e{x}", f"{x}\n", "") for x in range(50))


def test_a_call_that_never_ends_costs_other_executions_nothing(
    call: Call, using: Any, outcome: Any
) -> None:
    async def work(run: Any) -> tuple[str, list[Any]]:
        await run(python(call, "result = x", args={"x": 0}))
        endless = python(call, "while True: pass", "e0", spec={"timeout": 0.3})
        others = [
            run(python(call, "result = x", f"e{x}", args={"x": x}))
            for x in range(1, 30)
        ]
        stuck = asyncio.ensure_future(outcome(run(endless)))
        ended = await asyncio.gather(*others)
        return (await stuck).error.kind, [each.result for each in ended]

    assert using(PythonTool(2), work) == ("timeout", list(range(1, 30)))


def test_a_process_out_of_memory_serves_no_further_call(
    call: Call, using: Any, outcome: Any
) -> None:
    async def work(run: Any) -> tuple[str, int]:
        failed = await outcome(run(python(call, "x = bytearray(10**17)")))
        return failed.error.kind, (await run(python(call, "result = 1", "e2"))).result

    assert using(PythonTool(2), work) == ("tool.memory", 1)


def test_the_folder_gives_no_module_to_a_shared_process(
    call: Call, using: Any, tmp_path: Path
) -> None:
    """``strptime`` imports others when it is first called: never those of a user."""
    for name in ("_strptime", "calendar", "locale", "encodings"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('of the folder')")
    code = (
        "from datetime import datetime\n"
        "result = datetime.strptime('2026', '%Y').year, 'é'.encode('cp1252').hex()"
    )

    async def work(run: Any) -> Any:
        return (await run(python(call, code, folder=str(tmp_path)))).result

    assert using(PythonTool(1), work) == [2026, "e9"]


def test_only_what_was_seen_to_be_contained_has_no_effect(
    call: Call, using: Any
) -> None:
    tool = PythonTool(2)
    codes = ["result = 1", "import os", "open('/dev/null')"]

    async def work(run: Any) -> list[bool]:
        before = [tool.has_effect(python(call, code)) for code in codes]
        assert before == [True] * 3
        for code in codes:
            await run(python(call, code))
        limited = python(call, codes[0], spec={"memory": "1GiB"})
        return [
            *(tool.has_effect(python(call, code)) for code in codes),
            tool.has_effect(limited),
        ]

    assert using(tool, work) == [False, True, True, True]
