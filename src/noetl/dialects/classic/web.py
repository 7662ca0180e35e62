"""``http``: bodies by other names, knobs beside the inputs, answers as mappings."""

from __future__ import annotations

from noetl.dialects.classic.nodes import changed, made, text_of
from noetl.dialects.classic.task import Task
from noetl.dsl.node import Node, overlay
from noetl.templates import is_template

_KNOBS = {"verify_ssl": "verify", "follow_redirects": "follow_redirects"}
_QUERY = frozenset({"GET", "HEAD", "DELETE"})


def rewrite_http(task: Task) -> None:
    if task.is_done:
        return  # its `data` is a form by now
    for key, knob in _KNOBS.items():
        if key in task:
            task.to_spec(key, knob)
    if "data" in task:
        _place(task, "data")
    if "payload" in task:
        _place(task, "payload")
    if "form" in task:
        task.rename("form", "data")
    task.set_spec("dialect", "classic")


def _place(task: Task, key: str) -> None:
    """A body, or a query where the method has no body; decided here if it can be."""
    value, method = task.node.entries[key], _method(task)
    if value.entries.keys() and value.entries.keys() <= {"query", "body"}:
        query, body = value.entries.get("query"), value.entries.get("body")
        task.accept(key, f"'{key}' with query and body", "params: … and json: …")
        task.change({key: None})
        _add_params(task, query)
        if body is not None:
            task.change({"json": body})
    elif method is None or (method in _QUERY and not value.is_mapping):
        task.accept(key, f"'{key}' by the method", "params: … or json: …")
        task.change({key: None, "payload": value})
    elif method in _QUERY:
        task.accept(key, f"'{key}' as the query", "params: …")
        task.change({key: None})
        _add_params(task, value)
    elif _is_form(task):
        if key != "data":
            task.rename(key, "data")
    elif value.is_mapping or value.is_sequence or is_template(str(value.value)):
        task.accept(key, f"'{key}' as JSON", "json: …")
        task.change({key: None, "json": value})
    else:
        task.accept(key, f"'{key}' as it is", "body: …")
        task.change({key: None, "body": value})


def _add_params(task: Task, query: Node | None) -> None:
    if query is None:
        return
    params = task.get("params") or made({}, query)
    task.change({"params": changed(overlay(params, query), {})})


def _method(task: Task) -> str | None:
    """None where only the run will tell."""
    node = task.get("method")
    method = "GET" if node is None else text_of(node) or ""
    return None if is_template(method) else method.upper()


def _is_form(task: Task) -> bool:
    headers = task.get("headers")
    for name, value in headers.entries.items() if headers is not None else ():
        if name.lower() == "content-type":
            return "x-www-form-urlencoded" in str(value.value)
    return False
