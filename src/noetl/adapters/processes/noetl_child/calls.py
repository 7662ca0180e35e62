"""One call of user code: a namespace, ``main(…)`` or ``result``, and the value."""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .faults import CODE, Misfit
from .returns import BODY, wrapped

MODULE = "__noetl__"  # a real module: dataclasses and pickle look for it
KEPT = 256
_POSITIONAL, _ANY_NAME = 0x04, 0x08  # co_flags of *args and **kwargs
_compiled: dict[str, CodeType] = {}


def perform(call: dict[str, Any]) -> Any:
    args = call.get("args") or {}
    if "module" in call:
        function = find(call["module"], call.get("function") or "main")
        return finish(invoke(function, args))
    module = ModuleType(MODULE)
    sys.modules[MODULE] = module
    names = module.__dict__
    names["__builtins__"] = builtins
    names.update(args)
    exec(compiled(call["code"]), names)
    if BODY in names:
        return finish(names[BODY]())
    main = names.get("main")
    if callable(main):
        return finish(invoke(main, args))
    return names.get("result")


def compiled(source: str) -> CodeType:
    code = _compiled.get(source)
    if code is None:
        if len(_compiled) >= KEPT:
            _compiled.clear()
        # Not ours to pass on: our own `from __future__` must not change user code.
        try:
            code = compile(source, CODE, "exec", dont_inherit=True)
        except SyntaxError as error:
            if error.msg != "'return' outside function":
                raise
            tree = wrapped(source, CODE)
            code = compile(tree, CODE, "exec", dont_inherit=True)
        _compiled[source] = code
    return code


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
