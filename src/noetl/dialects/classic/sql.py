"""``postgres``, ``duckdb`` and ``ducklake``: several commands, results of each."""

from __future__ import annotations

from noetl.dialects.classic.nodes import changed, made, mapping, text_of
from noetl.dialects.classic.scripts import rewrite_script
from noetl.dialects.classic.task import Task

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
    """DuckDB with a lake attached, and in use."""
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
            task.refuse(key, f"'{key}' holds something that is no SQL", hint)
            texts = []
        joined = ";\n".join(str(each).strip().removesuffix(";") for each in texts)
        task.change({key: None, "command": made(joined, node)})
    rewrite_script(task)
    task.set_spec("dialect", "classic")


def _use_pool(task: Task) -> None:
    """Sizes of a pool of connections; a text is the worker pool, as everywhere."""
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
