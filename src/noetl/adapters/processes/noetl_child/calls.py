"""Calls of user code: a namespace, ``main(…)`` or ``result``, and the value.

They come as frames from the channel, and with permits to begin them.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import json
import os
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .faults import CODE, Misfit
from .isolation import compile_contained

MODULE = "__noetl__"  # a real module: dataclasses and pickle look for it
_ANY_NAME = 0x08  # co_flags of **kwargs
IN, PERMITS = 3, 5
HEADER = struct.Struct("!4sI")
NUMBER = struct.Struct("!Q")
CHUNK = 65536
CLOSED = 71


class Source:
    """Text of code, compiled when it is first run."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._code: CodeType | None = None
        self._contained: bool | None = None

    def is_contained(self) -> bool:
        """Return whether the code cannot leave state behind."""
        if self._contained is None:
            self._code = compile_contained(self.text)
            self._contained = self._code is not None
        return self._contained

    def run(self, names: dict[str, Any]) -> None:
        if self._code is None:
            self._code = _compile(self.text)
        exec(self._code, names)


def perform(source: Source, args: dict[str, Any]) -> Any:
    """Run the code, and its ``main`` if it has one."""
    module = ModuleType(MODULE)
    sys.modules[MODULE] = module
    names = module.__dict__
    names["__builtins__"] = builtins
    names.update(args)
    source.run(names)
    if BODY in names:
        return finish(names[BODY]())
    main = names.get("main")
    if callable(main):
        return finish(invoke(main, args))
    return names.get("result")


def _compile(text: str) -> CodeType:
    # dont_inherit: the `from __future__` of this module must not change user code.
    try:
        return compile(text, CODE, "exec", dont_inherit=True)
    except SyntaxError as error:
        if error.msg != "'return' outside function":
            raise
        return compile(wrapped(text, CODE), CODE, "exec", dont_inherit=True)


def call_function(target: tuple[str, str], args: dict[str, Any]) -> Any:
    return finish(invoke(find(*target), args))


def find(name: str, function: str) -> Callable[..., Any]:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        where = "in the playbook's folder or among the installed packages"
        raise Misfit(f"there is no module '{name}' {where}") from None
    found = getattr(module, function, None)
    if not callable(found):
        raise Misfit(f"module '{name}' has no function '{function}'")
    return found  # type: ignore[no-any-return]


def invoke(function: Callable[..., Any], args: dict[str, Any]) -> Any:
    """Call a function with the arguments that its parameters name, and no others."""
    if type(function) is not FunctionType or hasattr(function, "__wrapped__"):
        return invoke_any(function, args)
    code = function.__code__
    flags = code.co_flags
    count = code.co_argcount
    names = code.co_varnames[: count + code.co_kwonlyargcount]
    if flags & _ANY_NAME or code.co_posonlyargcount:
        return invoke_any(function, args)
    optional = len(function.__defaults__ or ())
    keywords = function.__kwdefaults__ or {}
    given = {}
    for index, name in enumerate(names):
        if name in args:
            given[name] = args[name]
        elif not (
            count - optional <= index < count or (index >= count and name in keywords)
        ):
            raise missing(function, name, args)
    return function(**given)


def invoke_any(function: Callable[..., Any], args: dict[str, Any]) -> Any:
    """Call any callable the same way; slower."""
    import inspect

    positional, named = [], {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            named.update({key: args[key] for key in args if key not in named})
        elif parameter.kind is parameter.VAR_POSITIONAL:
            continue
        elif name in args:
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(args[name])
            else:
                named[name] = args[name]
        elif parameter.default is parameter.empty:
            raise missing(function, name, args)
    return function(*positional, **named)


def missing(function: object, name: str, args: dict[str, Any]) -> Misfit:
    called = getattr(function, "__name__", "main")
    given = ", ".join(sorted(args)) or "nothing"
    return Misfit(f"{called}(…) needs '{name}', which is not in args ({given})")


def finish(value: Any) -> Any:
    """Return the value, or its result if it is awaitable."""
    if not hasattr(value, "__await__"):
        return value
    import asyncio

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())


BODY = "__noetl_body__"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_INNER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def wrapped(source: str, file: str) -> ast.Module:
    """Wrap the code in a function ``BODY``. Raises ``SyntaxError``."""
    tree = ast.parse(source, file)
    names = sorted(_set_in(tree.body))
    body: list[ast.stmt] = [ast.Global(names)] if names else []
    body += [_plain(statement) for statement in tree.body]
    nothing = ast.arguments([], [], None, [], [], None, [])
    function = ast.FunctionDef(BODY, nothing, body, [])
    if "type_params" in ast.FunctionDef._fields:
        function.type_params = []  # type: ignore[attr-defined,unused-ignore]
    module = ast.Module([function], [])
    return ast.fix_missing_locations(module)


def _plain(statement: ast.stmt) -> ast.stmt:
    """Drop an annotation: a global name cannot be annotated in a function."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        value = statement.value
        if value is None:
            return ast.copy_location(ast.Pass(), statement)
        return ast.copy_location(ast.Assign([statement.target], value), statement)
    return statement


def _set_in(body: Iterable[ast.AST]) -> set[str]:
    names: set[str] = set()
    stack = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, _FUNCTIONS):
            names.add(node.name)
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            names |= {node.name} if node.name else set()
        elif isinstance(node, _INNER):
            continue
        stack.extend(ast.iter_child_nodes(node))
    return names


class Call:
    """Call of code, by its ``source``, or of a function, by its ``target``."""

    __slots__ = ("args", "begins", "environment", "number", "source", "target")

    def __init__(self, begins: bool, source: Source | None, told: list[Any]) -> None:
        self.begins = begins
        self.source = source
        self.number, _, self.args, self.environment, self.target = told


class Inbox:
    """Queue of calls of this process.

    A call may begin if the process was idle when it came, or if there is a permit for
    it. The worker takes a permit back when it gives the call to another process.
    """

    def __init__(self) -> None:
        for file in (IN, PERMITS):
            os.set_inheritable(file, False)
        os.set_blocking(PERMITS, False)
        self._data = bytearray()
        self._calls: deque[Call] = deque()
        self._sources: dict[int, Source] = {}
        self._permit = 0
        self._held = False

    def order(self) -> Any:
        """Read the order, which precedes all calls."""
        return json.loads(self._frame())

    def next(self) -> Call:
        """Wait for the next call; exits the process if the worker is gone."""
        while True:
            while self._calls:
                call = self._calls.popleft()
                if call.begins:
                    self._held = False
                    return call
                if not self._held and self._is_permitted(call.number):
                    return call
            self._fill()

    def hold(self) -> None:
        """Begin no further call before the worker has answered the last report."""
        self._held = True

    def _is_permitted(self, number: int) -> bool:
        if not self._permit:
            try:
                self._permit = NUMBER.unpack(os.read(PERMITS, NUMBER.size))[0]
            except BlockingIOError:
                return False
            except (OSError, struct.error):
                os._exit(CLOSED)
        if self._permit != number:
            return False  # the permit is for a later call
        self._permit = 0
        return True

    def _fill(self) -> None:
        begins, forget, told, calls = json.loads(self._frame())
        if forget:
            self._sources.clear()
        for name, text in told.items():
            self._sources[int(name)] = Source(text)
        for call in calls:
            source = self._sources[call[1]] if call[1] else None
            self._calls.append(Call(begins, source, call))
            begins = False

    def _frame(self) -> bytes:
        data = self._data
        wanted = HEADER.size
        while True:
            if len(data) >= HEADER.size:
                wanted = HEADER.size + HEADER.unpack_from(data)[1]
                if len(data) >= wanted:
                    break
            more = os.read(IN, CHUNK)
            if not more:
                os._exit(0)  # the worker is gone
            data += more
        body = bytes(data[HEADER.size : wanted])
        del data[:wanted]
        return body
