"""Writes the manifests of Kubernetes from the chart and its values.

    python scripts/manifests.py

The chart uses a small part of the language of helm's templates, which this program
renders: values and names, ``range`` over a mapping, ``if``, and the functions ``quote``
and ``toJson``. Anything else is an error here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy" / "helm" / "noetl"
MANIFESTS = ROOT / "deploy" / "kubernetes" / "noetl.yaml"
HEAD = """# Written by scripts/manifests.py from deploy/helm/noetl: change the chart.
# What to make before: docs/how-to/deploy.md.
"""
_TAG = re.compile(r"(\s*)\{\{(-?) (.*?) (-?)\}\}(\s*)", re.S)
_RANGE = re.compile(r"range \$(\w+), \$(\w+) := (\S+)")


def render(chart: Path, values: Mapping[str, Any], release: str = "noetl") -> str:
    """Render all templates. Raises ``ValueError``."""
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    root = {"Values": values, "Release": {"Name": release}, "Chart": about}
    texts = []
    for file in sorted((chart / "templates").glob("*.yaml")):
        parts = iter(_split(file.read_text(encoding="utf-8")))
        texts.append(
            "".join(_render(parts, {"$": root, "": root})).strip("\n").lstrip("-\n")
        )
    return "\n---\n".join(texts) + "\n"


def _split(text: str) -> Iterator[tuple[str, str]]:
    """Yield pairs: ``text`` or ``tag``, and what it says."""
    at = 0
    for found in _TAG.finditer(text):
        before, trims, tag, trims_after, after = found.groups()
        yield "text", text[at : found.start()] + ("" if trims else before)
        yield "tag", tag
        at = found.end() if trims_after else found.end() - len(after)
    yield "text", text[at:]


def _render(parts: Iterator[tuple[str, str]], names: dict[str, Any]) -> Iterator[str]:
    """Render up to the ``end`` of the block that ``parts`` are in."""
    for kind, said in parts:
        if kind == "text":
            yield said
        elif said == "end":
            return
        elif said.startswith(("range ", "if ")):
            block = list(_block(parts))
            if match := _RANGE.fullmatch(said):
                key, value, path = match.groups()
                for name, each in sorted((_find(path, names) or {}).items()):
                    found = {f"${key}": name, f"${value}": each, "": each}
                    inner = names | found
                    yield from _render(iter(block), inner)
            elif _find(said.removeprefix("if "), names):
                yield from _render(iter(block), names)
        else:
            yield _value(said, names)


def _block(parts: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    depth = 1
    for kind, said in parts:
        depth += kind == "tag" and said.startswith(("range ", "if "))
        depth -= kind == "tag" and said == "end"
        if not depth:
            return
        yield kind, said
    raise ValueError("a block has no end")


def _value(said: str, names: Mapping[str, Any]) -> str:
    path, *functions = said.split(" | ")
    found = _find(path, names)
    if functions == ["toJson"]:
        return json.dumps(found)
    if functions == ["quote"]:
        return json.dumps(str(found), ensure_ascii=False)
    if functions or not isinstance(found, str | int):
        raise ValueError(f"{{{{ {said} }}}} cannot be rendered")
    return str(found)


def _find(path: str, names: Mapping[str, Any]) -> Any:
    first, *rest = path.split(".")
    found = names[first]
    for name in rest:
        if not isinstance(found, Mapping) or name not in found:
            raise ValueError(f"{path}: there is no {name}")
        found = found[name]
    return found


def manifests() -> str:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return HEAD + render(CHART, values)


if __name__ == "__main__":
    MANIFESTS.write_text(manifests(), encoding="utf-8")
