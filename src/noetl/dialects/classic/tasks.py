"""Rewriting of tasks: common inputs, then the inputs of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from noetl.dialects.classic.code import rewrite_python, rewrite_script
from noetl.dialects.classic.keychain import by_keychain, credential_of
from noetl.dialects.classic.results import RETURN_STEP
from noetl.dialects.classic.task import (
    Task,
    Uses,
    changed,
    listed,
    made,
    mapping,
    text_of,
)
from noetl.dsl.node import Location, Node, overlay
from noetl.templates import is_template

_KNOBS = {"verify_ssl": "verify", "follow_redirects": "follow_redirects"}
_QUERY = frozenset({"GET", "HEAD", "DELETE"})


def rewrite_http(task: Task) -> None:
    if task.is_done:
        return  # its `data` is already a form
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
    """Decide between a body and a query, by the method where it is known."""
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
    """Return the method; None if only the run determines it."""
    node = task.get("method")
    method = "GET" if node is None else text_of(node) or ""
    return None if is_template(method) else method.upper()


def _is_form(task: Task) -> bool:
    headers = task.get("headers")
    for name, value in headers.entries.items() if headers is not None else ():
        if name.lower() == "content-type":
            return "x-www-form-urlencoded" in str(value.value)
    return False


def rewrite_playbook(task: Task) -> None:
    if "task" in task:
        task.accept("task", "'task', which has no effect,", "name: …")
        task.change({"task": None})
    payload = task.get("payload")
    if payload is not None:
        task.accept("payload", "'payload'", "args: …")
        args = task.get("args")
        both = payload if args is None else overlay(args, payload)
        task.change({"payload": None, "args": both})
    wanted = task.get("return_step")
    if wanted is not None:
        canonical = "let that step be the child's last one"
        task.accept("return_step", "'return_step'", canonical)
        args = task.get("args") or made({}, wanted)
        if not args.is_mapping:
            message = "'return_step' needs 'args' as a mapping"
            task.refuse("return_step", message, "write args: {name: …}")
            return
        named = made({RETURN_STEP: wanted.value}, wanted)
        task.change({"return_step": None, "args": overlay(args, named)})


def rewrite_workbook(task: Task) -> None:
    if "task" in task and "name" not in task:
        task.rename("task", "name")


def rewrite_shell(task: Task) -> None:
    cmds = task.get("cmds")
    if cmds is not None:
        task.accept("cmds", "'cmds'", "script: … with a line for each")
        lines = [text_of(each) for each in cmds.items]
        if text_of(cmds) is not None:
            text = str(cmds.value)
        elif lines and all(line is not None for line in lines):
            text = "\n".join(["set -e", *map(str, lines)])
        else:
            hint = "write cmds: [ls, pwd], or one block of text"
            task.refuse("cmds", "'cmds' must be text, or a list of texts", hint)
            text = ""
        task.change({"cmds": None, "script": made(text, cmds)})
    rewrite_script(task)


_FIELDS = ("db_host", "db_port", "db_user", "db_password", "db_name", "db_schema")
_LAKE = ("catalog_name", "catalog_connection", "data_path", "create_catalog")


def rewrite_postgres(task: Task) -> None:
    own = {key: task.node.entries[key] for key in _FIELDS if key in task}
    if own:
        first = next(iter(own))
        task.accept(first, f"'{first}' beside the inputs", "auth: {host: …, …}")
        auth = mapping(own, task.node)
        task.change({**dict.fromkeys(own), "auth": auth})
    _use_pool(task)
    _rewrite(task)


def rewrite_duckdb(task: Task) -> None:
    if "auth" in task:
        what = "'auth' of duckdb, which reaches no network,"
        task.accept(
            "auth", what, "load with kind http or postgres, hand over by tables"
        )
        task.change({"auth": None})
    _rewrite(task)
    task.set_spec("statements", True)


def rewrite_ducklake(task: Task) -> None:
    """Rewrite as DuckDB with an attached lake in use."""
    task.accept("kind", "'ducklake'", "kind: duckdb with extensions: [ducklake]")
    name = text_of(task.get("catalog_name")) or "lake"
    connection = text_of(task.get("catalog_connection")) or f"{name}.ducklake"
    lake = {"path": connection.removeprefix("ducklake:")}
    data_path = task.get("data_path")
    lake["lake"] = f"{name}_data" if data_path is None else data_path.value
    kind = task.node.entries["kind"]
    task.change(
        {
            **dict.fromkeys(_LAKE),
            "kind": made("duckdb", kind),
            "extensions": made(["ducklake"], kind),
            "attach": made({name: lake}, kind),
        }
    )
    rewrite_duckdb(task)
    command = text_of(task.get("command") or task.get("query"))
    if command is not None:
        task.change({"query": None, "command": made(f'USE "{name}";\n{command}', kind)})


def _rewrite(task: Task) -> None:
    for key in ("commands", "command", "query"):
        node = task.get(key)
        if node is None or not (key == "commands" or node.is_sequence):
            continue
        canonical = "command: … with ';' between the statements"
        task.accept(key, f"'{key}' as several", canonical)
        texts = [text_of(each) for each in node.items]
        if text_of(node) is not None:
            texts = [text_of(node)]
        if not texts or None in texts:
            hint = "write a list of texts, or one block of text"
            task.refuse(key, f"'{key}' holds a value that is not SQL text", hint)
            texts = []
        joined = ";\n".join(str(each).strip().removesuffix(";") for each in texts)
        task.change({key: None, "command": made(joined, node)})
    rewrite_script(task)
    task.set_spec("dialect", "classic")


def _use_pool(task: Task) -> None:
    """Move the sizes of a connection pool; a text is the worker pool, as everywhere."""
    pool = task.get("pool")
    if pool is None:
        return
    if not pool.is_mapping:
        task.to_spec("pool")
        return
    most = pool.entries.get("max_size") or pool.entries.get("max")
    task.accept("pool", "'pool'", "spec: {connections: …}")
    task.node = changed(task.node, {"pool": None})
    if most is not None:
        task.set_spec("connections", most)


_OPERATIONS = {
    "kv_keys": "kv_list",
    "obj_put": "object_put",
    "obj_get": "object_get",
    "js_publish": "publish",
}


def rewrite_transfer(task: Task) -> None:
    """Move the credentials: they are separate inputs only at the top of a task."""
    task.accept("kind", "'transfer'", "a task that reads, and one that writes")
    target = task.get("target")
    columns = target.entries.get("mapping") if target is not None else None
    if target is not None and columns is not None and "mapping" not in task:
        task.change({"target": changed(target, {"mapping": None}), "mapping": columns})
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


_KINDS: Mapping[str, Callable[[Task], None]] = {
    "ducklake": rewrite_ducklake,
    "duckdb": rewrite_duckdb,
    "http": rewrite_http,
    "nats": rewrite_nats,
    "playbook": rewrite_playbook,
    "postgres": rewrite_postgres,
    "python": rewrite_python,
    "script": rewrite_shell,
    "shell": rewrite_shell,
    "transfer": rewrite_transfer,
    "workbook": rewrite_workbook,
}


def rewrite_tool(tool: Location, uses: Uses) -> Node:
    """Rewrite a pipeline of any shape; other values are left to the grammar."""
    if tool.node.is_sequence:
        return listed([rewrite_entry(at, uses) for at in tool.children()], tool.node)
    return rewrite_entry(tool, uses)


def rewrite_entry(at: Location, uses: Uses) -> Node:
    if "kind" in at:
        return rewrite_task(at, uses)
    if "tool" in at and "kind" in at["tool"]:
        return rewrite_task(_lifted(at, uses), uses)
    entries = dict(at.node.entries)
    for label, body in entries.items():
        if "kind" in body.entries:
            entries[label] = rewrite_task(at[label], uses)
    return mapping(entries, at.node) if entries else at.node


def _lifted(at: Location, uses: Uses) -> Location:
    """Move the fields of ``{name, tool: {kind, …}}`` one level up."""
    what = "a task inside 'tool'"
    uses.accept(at.key("tool"), what, "its fields one level up")
    tool = at.node.entries["tool"]
    rest = {key: each for key, each in at.node.entries.items() if key != "tool"}
    node = overlay(mapping(rest, at.node), tool)
    return Location(node, at.parent, at.part)


def _name_credential(task: Task) -> None:
    """Replace ``auth: {credential: name}``, ``auth: {source: credential, key: name}``
    and ``credential: name`` by the name."""
    if "credential" in task and "auth" not in task:
        task.rename("credential", "auth")
    auth = task.get("auth")
    name = credential_of(auth)
    if auth is not None and name is not None:
        task.accept("auth", "'auth' with a 'credential'", "auth: name")
        task.change({"auth": name})


def rewrite_task(at: Location, uses: Uses) -> Node:
    task = Task(at, uses)
    _name_credential(task)
    kind = text_of(at.node.entries.get("kind"))
    rewrite_kind = _KINDS.get(kind or "")
    if rewrite_kind is not None:
        rewrite_kind(task)
        if "timeout" in task:
            task.to_spec("timeout")
    return task.node
