"""Prepares a release: the section of its version in CHANGELOG.md, and its number.

    python scripts/release.py VERSION [--write]

It checks the fragments of ``changes/`` and prints the section that they make. With
``--write`` it puts the section into ``CHANGELOG.md``, removes the fragments, and sets
the version of the package, the chart and its image. Commit that, then ``make dist``.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
VERSIONED = {
    "pyproject.toml": r'^version = "(\S+)"$',
    "src/noetl/__init__.py": r'^__version__ = "(\S+)"$',
    "deploy/helm/noetl/Chart.yaml": r"^(?:version|appVersion): (\S+)$",
    "deploy/helm/noetl/values.yaml": r"^image: noetl:(\S+)$",
    "deploy/kubernetes/noetl.yaml": r'"noetl:(\S+)"$',
}
"""Files with the version, and the lines that have it."""
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def order_of(version: str) -> tuple[int, ...]:
    found = _VERSION.fullmatch(version)
    if found is None:
        raise SystemExit(f"noetl: '{version}' is not a version such as 1.2.0")
    return tuple(map(int, found.groups()))


def read_fragments(folder: Path) -> dict[str, list[str]]:
    """Return the texts by kind. Exits if a name or a text is wrong."""
    texts: dict[str, list[str]] = {}
    for file in sorted(folder.glob("*.md")):
        if file.name == "README.md":
            continue
        _, _, kind = file.stem.rpartition(".")
        text = file.read_text(encoding="utf-8").strip()
        if kind not in KINDS or not text:
            kinds = ", ".join(KINDS)
            raise SystemExit(f"noetl: {file.name}: expected a text of {kinds}")
        texts.setdefault(kind, []).append(text)
    if not texts:
        raise SystemExit(f"noetl: nothing has changed: {folder} has no fragments")
    return texts


def section(version: str, texts: dict[str, list[str]]) -> str:
    lines = [f"## {version}", ""]
    for kind in KINDS:
        if kind in texts:
            lines += [f"### {kind.capitalize()}", ""]
            lines += ["- " + text.replace("\n", "\n  ") for text in texts[kind]]
            lines.append("")
    return "\n".join(lines)


def insert(changelog: str, new: str) -> str:
    """Put a section before the newest one."""
    at = changelog.index("\n## ") + 1
    return f"{changelog[:at]}{new}\n{changelog[at:]}"


def renumber(text: str, pattern: str, version: str) -> str:
    def change(found: re.Match[str]) -> str:
        return found[0].replace(found[1], version)

    changed, count = re.subn(pattern, change, text, flags=re.MULTILINE)
    if not count:
        raise SystemExit(f"noetl: no line has the version ({pattern})")
    return changed


def main(root: Path, version: str, *, write: bool) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    if order_of(version) <= order_of(project["version"]):
        raise SystemExit(f"noetl: {version} is not after {project['version']}")
    new = section(version, read_fragments(root / "changes"))
    sys.stdout.write(new)
    texts = {
        name: renumber((root / name).read_text(encoding="utf-8"), pattern, version)
        for name, pattern in VERSIONED.items()
    }
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    texts["CHANGELOG.md"] = insert(changelog, new)
    if not write:
        sys.stderr.write("noetl: nothing was written; add WRITE=1 to write it\n")
        return
    for name, text in texts.items():
        (root / name).write_text(text, encoding="utf-8")
    for file in (root / "changes").glob("*.md"):
        if file.name != "README.md":
            file.unlink()


if __name__ == "__main__":
    reading = argparse.ArgumentParser(description=__doc__)
    reading.add_argument("version")
    reading.add_argument("--write", action="store_true")
    asked = reading.parse_args()
    main(ROOT, asked.version, write=asked.write)
