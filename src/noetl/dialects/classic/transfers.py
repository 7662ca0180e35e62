"""``transfer`` and ``nats``: credentials of the sides, and older operations."""

from __future__ import annotations

from noetl.dialects.classic.nodes import changed, made, text_of
from noetl.dialects.classic.task import Task
from noetl.dsl.node import Node
from noetl.templates import is_template

_OPERATIONS = {
    "kv_keys": "kv_list",
    "obj_put": "object_put",
    "obj_get": "object_get",
    "js_publish": "publish",
}


def rewrite_transfer(task: Task) -> None:
    """Credentials are inputs of their own only at the top of a task."""
    task.accept("kind", "'transfer'", "a task that reads, and one that writes")
    for name in ("source", "target"):
        side = task.get(name)
        if side is not None:
            task.change({name: by_keychain(side)})


def rewrite_nats(task: Task) -> None:
    task.accept("kind", "'nats'", "a python task, or a plug-in of your own")
    node = task.get("operation")
    operation = _OPERATIONS.get(text_of(node) or "")
    if node is not None and operation is not None:
        task.change({"operation": made(operation, node)})


def by_keychain(side: Node) -> Node:
    """A mapping whose ``auth`` is the credential instead of its name."""
    auth = side.entries.get("auth")
    name = text_of(auth)
    if auth is None or name is None or is_template(name):
        return side
    return changed(side, {"auth": made(f"{{{{ keychain['{name}'] }}}}", auth)})
