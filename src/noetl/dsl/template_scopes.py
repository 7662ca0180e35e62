"""Names that a template may read, by its location."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from noetl.dsl.parse.context import Site
from noetl.dsl.playbook_inputs import declared_inputs

if TYPE_CHECKING:
    from noetl.dsl.node import Location
    from noetl.dsl.parse import Draft

ALWAYS = frozenset({"workload", "keychain", "ctx", "args", "execution_id", "execution"})
LOCALS = frozenset({"_prev", "_task", "_attempt", "_action_id", "_outcomes"})
NAMESPACES = ALWAYS | LOCALS | {"iter", "outcome", "event"}


@cache
def offered(site: Site, depth: int) -> frozenset[str]:
    """Return the namespaces at a location inside ``depth`` loops."""
    if site == "keychain":
        return frozenset({"keychain"})
    if site == "place":
        return frozenset({"workload"})
    names = ALWAYS
    if site in ("input", "policy", "guard"):
        names |= LOCALS
    if site == "policy":
        names |= {"outcome"}
    if site in ("arc", "admit", "guard"):
        names |= {"event"}
    if site == "arc":
        names |= {"_outcomes"}
    if depth > 0:
        names |= {"iter"}
    return names


class Names:
    """Names that the playbook defines: keys of workload, ctx, args and iter."""

    def __init__(self, draft: Draft) -> None:
        playbook = draft.playbook
        self.steps = playbook.steps.keys()
        self._workload = frozenset({*playbook.workload, *declared_inputs(playbook)})
        self._ctx: set[str] = set()
        self._args: set[str] = set()
        self._iter: dict[str, set[str]] = {}
        for step in playbook.workflow:
            local = self._iter.setdefault(step.name, set())
            for level in step.loop.levels() if step.loop else ():
                local.add(level.iterator)
            for task in step.tasks:
                for each in task.rules or ():
                    self._ctx |= _patched(each.then.at, "set_ctx")
                    local |= _patched(each.then.at, "set_iter")
            for arc in step.next.arcs if step.next else ():
                args = arc.at.get("args")
                self._args.update(args.child_keys() if args is not None else ())
        self._shared = self._workload | self._ctx | self._args
        self._keys = {"workload": self._workload, "ctx": frozenset(self._ctx)}

    def defines(self, step: str, name: str) -> bool:
        """Return whether a bare name can resolve in this step: args, ctx, iter,
        workload."""
        return name in self._shared or name in self._iter.get(step, ())

    def flat(self, step: str) -> frozenset[str]:
        """Return all bare names that can resolve in this step."""
        return self._shared | self._iter.get(step, set())

    def iterated(self, step: str) -> frozenset[str]:
        """Return the members of ``iter`` in a step with a loop."""
        return frozenset({*self._iter.get(step, ()), "index", "parent"})

    def keys(self, namespace: str) -> frozenset[str]:
        """Return the keys that the playbook defines in a namespace."""
        return self._keys.get(namespace, frozenset())


def _patched(then: Location, key: str) -> set[str]:
    patch = then.get(key)
    if patch is None:
        return set()
    return {name.split(".")[0] for name in patch.child_keys()}
