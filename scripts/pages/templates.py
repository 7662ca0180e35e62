"""The tables of filters, tests, methods and functions of templates."""

from __future__ import annotations

import json
from collections.abc import Iterable

from noetl.templates.registry import FILTERS, GLOBALS, METHODS, TESTS, Catalog, Entry
from noetl.templates.template import compile_template

DIFFERENCES = (
    "Values are JSON. A tuple is a list, and so is what `map`, `select`, `items()` and "
    "the like give; the keys of a mapping in a result are text.",
    "A template that is one single expression keeps the type of its result; white "
    "space around it is ignored.",
    "As text, null is empty, and lists and mappings are JSON: in `{{ }}` beside other "
    "text, with `~`, and in filters that take text.",
    "`tojson` escapes nothing for HTML and keeps the order of keys.",
    "`a.b` is the key `b`, never a method; `a.items()` is always the method. Other "
    "attributes do not exist.",
    "Access to what is undefined is undefined, at any depth. In a condition it is "
    "false, ordering and `in` with undefined or null are false, arithmetic on it is "
    "undefined. In inputs, using it is an error that names the path; `default`, "
    "`is defined` and `is undefined` may ask about it.",
    "A condition is false if it gives an empty text or false, no, off, 0, none, null.",
    "Not available: `**`, macros, blocks, `include`, `import`, `extends`, `with`, "
    "`filter`, `call`, `do`, recursive loops, `set` blocks, `*args`, names that begin "
    "with two underscores, `%` on text (use `format`), globals other than `range`.",
    "Templates read neither a clock nor random numbers: the same scope gives the same "
    "result.",
)


def reference_markdown() -> str:
    """Return Markdown tables; the results of the examples are computed."""
    lines = "".join(f"- {difference}\n" for difference in DIFFERENCES)
    parts = [f"## What differs from Jinja2\n\n{lines}"]
    parts += [_section("Filters", FILTERS), _section("Tests", TESTS)]
    for kind, methods in METHODS.items():
        parts.append(_section(f"Methods of a {kind}", methods))
    parts.append(_section("Functions", GLOBALS))
    return "\n".join(parts)


def _section(title: str, catalog: Catalog) -> str:
    lines = [f"## {title}", "", "| Name | What it does | Example | Result |"]
    lines.append("|---|---|---|---|")
    for names in _by_function(catalog.values()):
        entry = names[0]
        others = ", ".join(f"`{other.name}`" for other in names[1:])
        name = f"`{entry.signature}`" + (f"; also {others}" if others else "")
        cells = (name, entry.summary, f"`{entry.example}`", f"`{_result(entry)}`")
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return "\n".join(lines) + "\n"


def _by_function(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Group the names of the same function, in alphabetical order."""
    groups: dict[object, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.function, []).append(entry)
    return sorted(groups.values(), key=lambda group: group[0].name)


def _result(entry: Entry) -> str:
    result = compile_template(entry.example).render({"ctx": {}})
    return json.dumps(result, ensure_ascii=False)
