"""Canonical form: one document for every way of writing the same playbook."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from noetl.dsl.grammar.document import API_VERSION
from noetl.dsl.model import Arc, Loop, Playbook, Router, Step, Task
from noetl.dsl.node import Location
from noetl.dsl.scalars import needs_quotes
from noetl.types import JSON


def canonical(playbook: Playbook) -> dict[str, JSON]:
    """Return the document in canonical shape: labelled tasks, explicit modes."""
    document: dict[str, JSON] = {
        "apiVersion": API_VERSION,
        "kind": "Playbook",
        "metadata": dict(playbook.metadata),
    }
    if playbook.keychain:
        document["keychain"] = [dict(entry.body) for entry in playbook.keychain]
    for key in ("executor", "workload", "workbook"):
        section = getattr(playbook, key)
        if section:
            document[key] = dict(section)
    document["workflow"] = [_step(step) for step in playbook.workflow]
    return _with_rest(document, playbook.at)


def _with_rest(body: dict[str, JSON], at: Location) -> dict[str, JSON]:
    """Keep keys that an extension allows as written; they have no canonical shape."""
    rest = {key: at[key].node.plain() for key in at.child_keys() if key not in body}
    return {
        **body,
        **{key: value for key, value in rest.items() if value not in ({}, [])},
    }


def _step(step: Step) -> dict[str, JSON]:
    body: dict[str, JSON] = {"step": step.name}
    if step.desc is not None:
        body["desc"] = step.desc
    if step.spec:
        body["spec"] = dict(step.spec)
    if step.loop is not None:
        body["loop"] = _loop(step.loop)
    if step.tasks:
        body["tool"] = [{task.label: _task(task)} for task in step.tasks]
    if step.next is not None:
        body["next"] = _router(step.next)
    return _with_rest(body, step.at)


def _loop(loop: Loop) -> dict[str, JSON]:
    spec = {"mode": loop.mode, **loop.body.get("spec", {})}
    body = {"in": loop.body["in"], "iterator": loop.iterator, "spec": spec}
    if loop.inner is not None:
        body["loop"] = _loop(loop.inner)
    return body


def _task(task: Task) -> dict[str, JSON]:
    rest = {k: v for k, v in task.body.items() if k not in ("kind", "spec")}
    body: dict[str, JSON] = {"kind": task.body["kind"], **rest}
    if task.body.get("spec"):
        body["spec"] = task.body["spec"]
    return body


def _router(router: Router) -> dict[str, JSON]:
    spec = {"mode": router.mode, **router.body}
    return {"spec": spec, "arcs": [_arc(arc) for arc in router.arcs]}


def _arc(arc: Arc) -> dict[str, JSON]:
    order = ("step", "when", "args", "spec")
    return {key: arc.body[key] for key in order if key in arc.body}


def digest(playbook: Playbook) -> str:
    """Return the SHA-256 of the canonical form, which omits comments, layout and
    shorthand."""
    import hashlib  # slow to import, and `noetl validate` prints no digest

    text = json.dumps(
        canonical(playbook), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):  # type: ignore[misc]
    """YAML writer whose output the reader reads back; YAML 1.2 decides on quotes."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    style = "'" if needs_quotes(text) else None
    if "\n" in text and text.strip() and not text.startswith((" ", "\n", "\t")):
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_float(dumper: Any, number: float) -> Any:
    text = repr(number)
    if "." not in text:  # 1e+16 needs a point, or PyYAML would write a tag
        text = text.replace("e", ".0e")
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(float, _represent_float)


def to_yaml(document: Mapping[str, JSON]) -> str:
    """Write block-style YAML in the order of the document."""
    text: str = yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=88
    )
    return text
