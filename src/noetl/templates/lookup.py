"""Access to names, keys, items and methods in templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.templates import errors
from noetl.templates.evaluation import Evaluation
from noetl.templates.registry import GLOBALS, METHODS
from noetl.templates.undefined import Undefined
from noetl.templates.values import Table, look_up
from noetl.types import JSON

Closure = Callable[[Evaluation], Any]
"""A compiled node of a template."""

_KINDS = (("mapping", dict), ("text", str), ("list", list))


def follow(
    start: Closure, keys: list[JSON], paths: list[str], *, load: bool = True
) -> Closure:
    """Read keys one after the other; mappings are the common case.

    Without ``load`` the last key may yield the reference to a stored value (S-48).
    """
    if not keys:
        return _loaded(start) if load else start

    def read(run: Evaluation) -> JSON:
        value = start(run)
        for position, key in enumerate(keys):
            if run.stored is not None:
                value = run.stored.load(value)
            if isinstance(value, dict):
                try:
                    value = value[key]
                    continue
                except KeyError:
                    pass
            value = look_up(run, value, key, paths[position + 1], paths[position])
        return run.stored.whole(value) if load and run.stored is not None else value

    return read


def _loaded(read: Closure) -> Closure:
    def touch(run: Evaluation) -> JSON:
        value = read(run)
        return value if run.stored is None else run.stored.whole(value)

    return touch


def cut(
    run: Evaluation, value: JSON, bounds: list[JSON], path: str, owner: str
) -> JSON:
    """Evaluate ``value[start:stop:step]``; the size is checked before the slice is
    made."""
    for bound in bounds:
        if isinstance(bound, Undefined):
            return bound.used().further(path)
        if bound is not None and not isinstance(bound, int):
            raise errors.wrong(
                f"a slice takes whole numbers, found {errors.kind_of(bound)}"
            )
    if not isinstance(value, list | str):
        return look_up(run, value, None, path, owner)
    if bounds[2] == 0:
        raise errors.wrong("a slice cannot have a step of zero")
    places = range(*slice(*bounds).indices(len(value)))
    run.size(len(places))
    run.charge(len(places) if isinstance(value, list) else 0)
    return value[slice(*bounds)]


def call_method(
    run: Evaluation,
    value: JSON,
    name: str,
    path: str,
    owner: str,
    args: list[JSON],
    named: dict[str, JSON],
) -> JSON:
    """Call ``value.name(...)``, if the type of the value has that method."""
    kind = next((kind for kind, of in _KINDS if isinstance(value, of)), None)
    if value is None:
        value = look_up(run, value, name, path, owner)
    if isinstance(value, Undefined):
        return value.used()  # S-30: undefined can be chained in guards
    methods = METHODS[kind] if kind else {}
    if name not in methods:
        known = f"; its methods: {', '.join(sorted(methods))}" if methods else ""
        raise errors.wrong(
            f"{owner} is {errors.kind_of(value)} and has no method '{name}'{known}"
        )
    return methods[name].apply(run, value, args, named)


def call_range(run: Evaluation, bounds: list[JSON]) -> JSON:
    """Evaluate ``range(...)`` inside a template."""
    for bound in bounds:
        if isinstance(bound, Undefined):
            raise bound.error()
    return GLOBALS["range"].function(run, *bounds)


def refuse_call(callee: Closure, name: str) -> Closure:
    """Raise the error for ``name(...)`` where the name is not a function."""

    def refuse(run: Evaluation) -> JSON:
        value = callee(run)
        if isinstance(value, Undefined):
            raise value.error()
        raise errors.wrong(
            f"{name} is {errors.kind_of(value)}, not a function; only range() and "
            "methods can be called"
        )

    return refuse


def make_mapping(run: Evaluation, pairs: list[tuple[Closure, Closure]]) -> JSON:
    """Return a literal mapping whose keys are computed, or are not text."""
    made = {}
    for key, value in pairs:
        name = key(run)
        if isinstance(name, Undefined):
            raise name.error()
        if isinstance(name, list | dict):
            raise errors.wrong(f"{errors.kind_of(name)} cannot be a key")
        made[name] = value(run)
    return made if all(isinstance(key, str) for key in made) else Table(made)
