"""``python``: modules by alias, arguments as one mapping, code from elsewhere."""

from __future__ import annotations

import keyword

from noetl.dialects.classic.nodes import made, text_of
from noetl.dialects.classic.scripts import rewrite_script
from noetl.dialects.classic.task import Task
from noetl.dsl.code import needs_name, returns_at_top
from noetl.dsl.node import Node


def rewrite_python(task: Task) -> None:
    if "libs" in task:
        _import_libs(task)
    rewrite_script(task)
    code, args = text_of(task.get("code")), task.get("args")
    if code is not None:
        if returns_at_top(code):
            what = "'return' outside of a function"
            task.accept("code", what, "def main(…): … return …")
        if (
            args is not None
            and "input_data" not in args.entries
            and needs_name(code, "input_data")
        ):
            what = "'input_data', all arguments in one"
            task.accept("code", what, "main(a, b, …) with a parameter for each")
            both = {**args.entries, "input_data": args}
            _set_args(task, args, both)
    elif "script" in task and args is not None and "input_data" not in args.entries:
        _set_args(task, args, {**args.entries, "input_data": args})


def _set_args(task: Task, args: Node, entries: dict[str, Node]) -> None:
    node = made({}, args)
    node.value.update(entries)
    node.key_marks = dict.fromkeys(entries, (args.line, args.column))
    node.key_marks |= args.key_marks
    task.change({"args": node})


def _import_libs(task: Task) -> None:
    """``libs: {alias: module}`` are imports before the code."""
    libs, code = task.node.entries["libs"], text_of(task.get("code"))
    task.accept("libs", "'libs'", "import … at the start of the code")
    lines = []
    for alias, module in libs.entries.items():
        name = module.value
        if not (isinstance(name, str) and _is_module(name) and alias.isidentifier()):
            hint = "write libs: {alias: module}"
            task.refuse("libs", f"'{alias}' in 'libs' names no module", hint)
            return
        lines.append(f"import {name} as {alias}")
    if code is None:
        message = "'libs' goes with 'code', and there is none"
        task.refuse("libs", message, "import the modules in the script itself")
        return
    joined = _joined("; ".join(lines), code) if lines else code
    task.change({"libs": None, "code": made(joined, task.node.entries["code"])})


def _is_module(name: str) -> bool:
    return all(
        part.isidentifier() and not keyword.iskeyword(part) for part in name.split(".")
    )


def _joined(imports: str, code: str) -> str:
    """In the first line if nothing stands there, so that lines keep their numbers."""
    first, _, rest = code.partition("\n")
    if not first.strip() or first.lstrip().startswith("#"):
        return f"{imports}\n{rest}"
    return f"{imports}\n{code}"
