"""Rewriting of ``python`` tasks: modules by alias, one mapping of arguments,
scripts."""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize

from noetl.dialects.classic.keychain import by_keychain
from noetl.dialects.classic.task import Task, changed, made, text_of
from noetl.dsl.node import Node
from noetl.dsl.python_source import needs_name, parse_with, returns_at_top

_CANONICAL = {
    "python": "code: …, or module: and function: of a file beside the playbook",
    "postgres": "command: … with the SQL",
    "duckdb": "command: … with the SQL",
    "shell": "script: … with the text",
    "script": "script: … with the text",
}


def rewrite_script(task: Task) -> None:
    script = task.get("script")
    if script is None or not script.is_mapping:
        return
    kind = task.node.entries["kind"].value
    task.accept("script", "a 'script' with a 'uri'", _CANONICAL[kind])
    if "uri" not in script.entries:
        task.refuse("script", "the script has no 'uri'", "add uri: path/of/the/file")
    source = script.entries.get("source")
    if source is not None:
        task.change({"script": changed(script, {"source": by_keychain(source)})})
    task.set_spec("dialect", "classic")


def rewrite_python(task: Task) -> None:
    if "libs" in task:
        _import_libs(task)
    rewrite_script(task)
    code, args = text_of(task.get("code")), task.get("args")
    if code is not None:
        if returns_at_top(code):
            what = "'return' is outside a function"
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
    """Turn ``libs: {alias: module}`` into imports before the code."""
    libs, code = task.node.entries["libs"], text_of(task.get("code"))
    task.accept("libs", "'libs'", "import … at the start of the code")
    lines = []
    for alias, module in libs.entries.items():
        line = _import_of(alias, module)
        if line is None:
            hint = "write libs: {alias: module}"
            task.refuse("libs", f"'{alias}' in 'libs' does not name a module", hint)
            return
        lines.append(line)
    if code is None:
        message = "'libs' needs 'code', which is missing"
        task.refuse("libs", message, "import the modules in the script itself")
        return
    joined = _joined("; ".join(lines), code) if lines else code
    task.change({"libs": None, "code": made(joined, task.node.entries["code"])})


def _import_of(alias: str, module: Node) -> str | None:
    """Return the import of a module, or of a name in it: ``{from: m, import: n}``."""
    origin = text_of(module.entries.get("from"))
    if origin is None:
        name = text_of(module)
        if name is None or not _is_module(name) or not alias.isidentifier():
            return None
        return f"import {name} as {alias}"
    name = text_of(module.entries.get("import")) or alias
    if not (_is_module(origin) and name.isidentifier() and alias.isidentifier()):
        return None
    return f"from {origin} import {name} as {alias}"


def give_names(task: Task) -> None:
    """Give the code what it reads without arguments: templates, and ``context``."""
    _give_values(task)
    _give_context(task)


def _give_values(task: Task) -> None:
    """Hand the values of templates in the code to it as arguments: they are never
    source text."""
    code, args = text_of(task.get("code")), task.get("args")
    if code is None or "{{" not in code or not (args is None or args.is_mapping):
        return
    found, values = without_templates(code)
    if not values:
        return
    what = "a template in the code"
    task.accept("code", what, "args: {name: '{{ … }}'}, and the name in the code")
    node = task.node.entries["code"]
    given = made(dict(values), node)
    _set_args(
        task,
        args or made({}, node),
        {**(args.entries if args is not None else {}), **given.entries},
    )
    task.change({"code": made(found, node)})


def _give_context(task: Task) -> None:
    """Define ``context``, a mapping of all that the code reads from it by name."""
    code, args = text_of(task.get("code")), task.get("args")
    if code is None or not (args is None or args.is_mapping):
        return
    if (args is not None and "context" in args.entries) or not needs_name(
        code, "context"
    ):
        return
    what = "'context', everything in one mapping,"
    task.accept("code", what, "args: … with a name for each value")
    node = task.node.entries["code"]
    names = {"workload": "{{ workload }}", "execution_id": "{{ execution_id }}"}
    for name in keys_read(code, "context"):
        if name.isidentifier() and name not in names:
            names[name] = f"{{{{ {name} | default(none) }}}}"
    given = made({"context": names}, node)
    kept = "context = {k: v for k, v in context.items() if v is not None}"
    _set_args(
        task,
        args or made({}, node),
        {**(args.entries if args is not None else {}), **given.entries},
    )
    if not defines_main(code):
        task.change({"code": made(_joined(kept, code), node)})


def _is_module(name: str) -> bool:
    return all(
        part.isidentifier() and not keyword.iskeyword(part) for part in name.split(".")
    )


def _joined(imports: str, code: str) -> str:
    """Put the imports on the first line if it is empty, to keep line numbers."""
    first, _, rest = code.partition("\n")
    if not first.strip() or first.lstrip().startswith("#"):
        return f"{imports}\n{rest}"
    return f"{imports}\n{code}"


def defines_main(code: str) -> bool:
    """Return whether the code defines the function ``main``."""
    tree = parse_with(code, "main")
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return tree is not None and any(
        isinstance(node, kinds) and node.name == "main" for node in tree.body
    )


def keys_read(code: str, name: str) -> list[str]:
    """Return the constant keys that the code reads from the mapping ``name``."""
    tree = parse_with(code, name)
    found: dict[str, None] = {}
    for node in ast.walk(tree) if tree is not None else ():
        key: ast.AST | None = None
        if isinstance(node, ast.Subscript) and _is_name(node.value, name):
            key = node.slice
        elif isinstance(node, ast.Call) and _is_get(node.func, name):
            key = node.args[0] if node.args else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found[key.value] = None
    return list(found)


def _is_get(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.Attribute):
        return False
    return node.attr == "get" and _is_name(node.value, name)


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


_TEMPLATE = re.compile(r"\{\{((?:[^{}]|\{(?!\{)|\}(?!\}))*)\}\}")


def without_templates(code: str) -> tuple[str, dict[str, str]]:
    """Return the code with a name in place of each template, and the templates by name.

    A template inside a string literal becomes the text of its value. Literals with
    braces of their own, such as f-strings, are left alone.
    """
    values: dict[str, str] = {}
    pieces: list[str] = []
    reached = 0
    strings = _strings(code)
    if strings is None:
        return code, {}
    for start, end in strings:
        pieces.append(_named_outside(code[reached:start], values))
        pieces.append(_named_inside(code[start:end], values))
        reached = end
    pieces.append(_named_outside(code[reached:], values))
    return "".join(pieces), values


def _strings(code: str) -> list[tuple[int, int]] | None:
    """Return the positions of string literals; None for code that is not Python."""
    starts = [0]
    for line in code.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[tuple[int, int]] = []
    depth, opened = 0, 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            begin = starts[token.start[0] - 1] + token.start[1]
            finish = starts[min(token.end[0], len(starts)) - 1] + token.end[1]
            name = tokenize.tok_name[token.type]
            if name in ("FSTRING_START", "TSTRING_START"):
                opened = opened if depth else begin
                depth += 1
            elif name in ("FSTRING_END", "TSTRING_END"):
                depth -= 1
                if not depth:
                    found.append((opened, finish))
            elif not depth and name in ("STRING", "COMMENT"):
                found.append((begin, finish))
    except (tokenize.TokenError, SyntaxError, IndexError):
        return None
    return found


def _named_outside(code: str, values: dict[str, str]) -> str:
    return _TEMPLATE.sub(lambda found: _name_of(found, values), code)


def _name_of(found: re.Match[str], values: dict[str, str]) -> str:
    name = f"value_{len(values) + 1}_"
    values[name] = found.group()
    return name


def _named_inside(literal: str, values: dict[str, str]) -> str:
    """Return the literal as a sum of its texts and of the values between them."""
    head = re.match(r"[A-Za-z]*", literal)
    prefix = head.group() if head is not None else ""
    if "{{" not in literal or literal.startswith("#") or set("fFtTbB") & set(prefix):
        return literal
    body = literal[len(prefix) :]
    quote = body[:3] if body[:3] in ('"""', "'''") else body[:1]
    inner = body[len(quote) : -len(quote)]
    texts = _TEMPLATE.split(inner)
    parts: list[str] = []
    matches = list(_TEMPLATE.finditer(inner))
    for place, text in enumerate(texts[::2]):
        if text:
            parts.append(f"{prefix}{quote}{text}{quote}")
        if place < len(matches):
            parts.append(f"str({_name_of(matches[place], values)})")
    return parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"
