"""The page of the Python API, from signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import noetl

INTRO = """\
These names are the Python API, and only these: other modules may change in any version.
[Use NoETL from Python](../how-to/use-from-python.md) has examples. `import noetl` loads
nothing; a name is loaded at its first use."""
FUNCTIONS = ("run", "arun", "load")
CLASSES = ("Execution", "Client", "AsyncClient")
ERRORS = (
    "NoetlError",
    "ConfigError",
    "PlaybookInvalid",
    "ExecutionFailed",
    "Unreachable",
    "Refused",
)


def python_api() -> str:
    parts = [INTRO]
    parts += [_function(name, getattr(noetl, name)) for name in FUNCTIONS]
    parts += [_class(name, getattr(noetl, name)) for name in CLASSES]
    errors = [f"- `{name}`: {_first(getattr(noetl, name))}" for name in ERRORS]
    parts += ["## Errors", "\n".join(errors)]
    return "\n\n".join(parts)


def _function(name: str, function: Any) -> str:
    return f"## {name}\n\n{_signature(f'noetl.{name}', function)}\n\n{_text(function)}"


def _class(name: str, kind: type) -> str:
    parts = [f"## {name}"]
    if name != "Execution":
        parts.append(_signature(f"noetl.{name}", kind))
    parts.append(_text(kind))
    parts += list(_members(kind))
    return "\n\n".join(parts)


def _members(kind: type) -> Iterator[str]:
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            words = inspect.getdoc(member) or ""
            yield f"`{name}`: {_literal(words)}"
        elif inspect.isfunction(member):
            words = inspect.getdoc(member) or f"Like `Client.{name}`."
            yield f"{_signature(name, member)}\n\n{_literal(words)}"


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    rest = [each for each in signature.parameters.values() if each.name != "self"]
    text = str(signature.replace(parameters=rest)).replace("'", "")
    return f"```python\n{name}{text}\n```"


def _text(thing: Any) -> str:
    return _literal(inspect.getdoc(thing) or "")


def _literal(text: str) -> str:
    return text.replace("``", "`")


def _first(thing: Any) -> str:
    return _literal(inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[0])
