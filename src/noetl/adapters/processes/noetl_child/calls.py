"""One call of user code: a namespace, ``main(…)`` or ``result``, and the value."""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .contained import compile_contained
from .faults import CODE, Misfit
from .returns import BODY, wrapped

MODULE = "__noetl__"  # a real module: dataclasses and pickle look for it
_ANY_NAME = 0x08  # co_flags of **kwargs


class Source:
    """A text of code, compiled when it is first run."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._code: CodeType | None = None
        self._contained: bool | None = None

    def is_contained(self) -> bool:
        """Whether it can leave nothing behind."""
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
    # Not ours to pass on: our own `from __future__` must not change user code.
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
    """Call it with the arguments that its parameters name; the rest is not passed."""
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
    """The same for whatever can be called; rarer, and slower."""
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
    return Misfit(f"{called}(…) needs '{name}', which args does not give ({given})")


def finish(value: Any) -> Any:
    """The value itself, or what it comes to if it is awaitable."""
    if not hasattr(value, "__await__"):
        return value
    import asyncio

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())
