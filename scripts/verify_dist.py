"""Checks the files of a release against each other; needs nothing but Python.

    python scripts/verify_dist.py FOLDER [COMMIT]

Every file has the hash of SHA256SUMS, no other file is there, and the provenance states
wheel, source archive and bill of materials with the same hashes, and COMMIT.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SUMS = "SHA256SUMS"
PARTS = (".cdx.json", ".provenance.json", ".tar.gz", ".whl")


def problems(folder: Path, commit: str | None) -> Iterator[str]:
    """Yield what is wrong, one sentence each."""
    if not (folder / SUMS).is_file():
        yield f"there is no {SUMS} in {folder}"
        return
    text = (folder / SUMS).read_text(encoding="utf-8")
    lines = re.findall(r"^([0-9a-f]{64})  (\S+)$", text, re.M)
    listed = {name: digest for digest, name in lines}
    there = {file.name for file in folder.iterdir()} - {SUMS}
    for name in sorted(there - listed.keys()):
        yield f"{name} is not listed in {SUMS}"
    for name in sorted(listed):
        if name not in there:
            yield f"{name} is listed in {SUMS} and missing"
        elif hashlib.sha256((folder / name).read_bytes()).hexdigest() != listed[name]:
            yield f"{name} does not have the hash that {SUMS} lists"
    for part in PARTS:
        if sum(name.endswith(part) for name in there) != 1:
            yield f"expected one file *{part}"
    for file in folder.glob("*.provenance.json"):
        statement = json.loads(file.read_text(encoding="utf-8"))
        yield from differences(statement, listed, commit)


def differences(
    statement: dict[str, Any], listed: dict[str, str], commit: str | None
) -> Iterator[str]:
    """Yield where the provenance and the list of hashes disagree."""
    stated = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    for name, digest in sorted(listed.items()):
        if not name.endswith(".provenance.json") and stated.get(name) != digest:
            yield f"the provenance does not state the hash of {name}"
    for name in sorted(stated.keys() - listed.keys()):
        yield f"the provenance states {name}, which is not listed in {SUMS}"
    built_from = statement["predicate"]["buildDefinition"]["resolvedDependencies"][0]
    found = built_from["digest"]["gitCommit"]
    if commit is not None and found != commit:
        yield f"the provenance states commit {found}, expected {commit}"


def main(folder: Path, commit: str | None = None) -> None:
    found = list(problems(folder, commit))
    if found:
        raise SystemExit("\n".join(f"noetl: {each}" for each in found))
    sys.stdout.write(f"{folder}: every file is as {SUMS} and the provenance say\n")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit("usage: verify_dist.py FOLDER [COMMIT]")
    main(Path(sys.argv[1]), *sys.argv[2:])
