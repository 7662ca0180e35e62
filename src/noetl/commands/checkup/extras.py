"""Optional parts: which of the extras of this installation are there."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from noetl.commands.checkup.finding import Finding

_EXTRA = re.compile(r"""(?P<wanted>[^;]+);.*\bextra\s*==\s*["'](?P<extra>[^"']+)""")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_NOT_FOR_USERS = {"all", "dev", "docs"}


def check_extras() -> Iterator[Finding]:
    try:
        declared = requires("noetl") or []
    except PackageNotFoundError:
        message = "NoETL is not installed as a package; its extras are not known"
        yield Finding("extras", "warning", message, "pip install . in its folder")
        return
    for extra, wanted in sorted(by_extra(declared).items()):
        yield judge_extra(extra, wanted, _is_installed)


def by_extra(declared: Iterable[str]) -> dict[str, list[str]]:
    """The requirements of each extra that is made for users."""
    found: dict[str, list[str]] = {}
    for text in declared:
        match = _EXTRA.match(text)
        if match is not None and match["extra"] not in _NOT_FOR_USERS:
            found.setdefault(match["extra"], []).append(match["wanted"].strip())
    return found


def judge_extra(
    extra: str, wanted: list[str], is_installed: Callable[[str], bool]
) -> Finding:
    missing = [text for text in wanted if not is_installed(_name(text))]
    if not missing:
        return Finding(f"extra {extra}", "ok", "installed")
    packages = " ".join(shlex.quote(text) for text in missing)
    command = f"{sys.executable} -m pip install {packages}"
    return Finding(f"extra {extra}", "ok", f"not installed; to use it: {command}")


def _name(requirement: str) -> str:
    match = _NAME.match(requirement)
    return match[0] if match else requirement


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
