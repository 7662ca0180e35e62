"""Reading and calling: what names, keys, items and methods give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.templates import faults
from noetl.templates.catalog import GLOBALS, METHODS
from noetl.templates.evaluation import Evaluation
from noetl.templates.undefined import Undefined
from noetl.templates.values import Table, look_up
from noetl.types import JSON

Closure = Callable[[Evaluation], Any]
"""A node of a template, ready to be evaluated."""

_KINDS = (("mapping", dict), ("text", str), ("list", list))


def follow(
    start: Closure, keys: list[JSON], paths: list[str], *, load: bool = True
) -> Closure:
    """Read keys one after the other; mappings are the common case.

    Without ``load`` the last of them may give the reference to a value (S-48).
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
    """``value[start:stop:step]``, sized before it is made."""
    for bound in bounds:
        if isinstance(bound, Undefined):
            return bound.used().further(path)
        if bound is not None and not isinstance(bound, int):
            raise faults.wrong(
                f"a slice takes whole numbers, found {faults.kind_of(bound)}"
            )
    if not isinstance(value, list | str):
        return look_up(run, value, None, path, owner)
    if bounds[2] == 0:
        raise faults.wrong("a slice cannot have a step of zero")
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
    """``value.name(...)``, where the kind of value has such a method."""
    kind = next((kind for kind, of in _KINDS if isinstance(value, of)), None)
    if value is None:
        value = look_up(run, value, name, path, owner)
    if isinstance(value, Undefined):
        return value.used()  # S-30: chainable in guards
    methods = METHODS[kind] if kind else {}
    if name not in methods:
        known = f"; its methods: {', '.join(sorted(methods))}" if methods else ""
        raise faults.wrong(
            f"{owner} is {faults.kind_of(value)} and has no method '{name}'{known}"
        )
    return methods[name].apply(run, value, args, named)


def call_range(run: Evaluation, bounds: list[JSON]) -> JSON:
    """``range(...)`` inside a template."""
    for bound in bounds:
        if isinstance(bound, Undefined):
            raise bound.error()
    return GLOBALS["range"].function(run, *bounds)


def refuse_call(callee: Closure, name: str) -> Closure:
    """``name(...)`` for a name that is not a function."""

    def refuse(run: Evaluation) -> JSON:
        value = callee(run)
        if isinstance(value, Undefined):
            raise value.error()
        raise faults.wrong(
            f"{name} is {faults.kind_of(value)}, not a function; only range() and "
            "methods can be called"
        )

    return refuse


def make_mapping(run: Evaluation, pairs: list[tuple[Closure, Closure]]) -> JSON:
    """A literal mapping whose keys are computed, or are not text."""
    made = {}
    for key, value in pairs:
        name = key(run)
        if isinstance(name, Undefined):
            raise name.error()
        if isinstance(name, list | dict):
            raise faults.wrong(f"{faults.kind_of(name)} cannot be a key")
        made[name] = value(run)
    return made if all(isinstance(key, str) for key in made) else Table(made)
