"""Builds a release into a folder: wheel, source archive, bill of materials, provenance.

    python scripts/dist.py [FOLDER]

The same commit gives the same bytes on every machine. The provenance is a statement in
the form of in-toto and SLSA; it is not signed: who publishes a release signs it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SBOM = ROOT / "deploy" / "sbom.cdx.json"
SUMS = "SHA256SUMS"
LOCKS = ("requirements.lock", "deploy/build.lock", "deploy/requirements.lock")


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def git(*args: str) -> str:
    done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"noetl: a release is built from a commit: {done.stderr}")
    return done.stdout.strip()


def build(into: Path, epoch: str) -> None:
    """Build wheel and source archive with the locked backend, dated as the commit."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(into.resolve())]
    environ = os.environ | {"SOURCE_DATE_EPOCH": epoch}
    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"noetl: the build failed:\n{done.stderr}")


def provenance(commit: str, epoch: str, built: list[Path]) -> dict[str, Any]:
    """State which files came from which commit, by which locked packages."""
    sources: list[dict[str, Any]] = [
        {"name": "source", "digest": {"gitCommit": commit}}
    ]
    for lock in LOCKS:
        sources.append({"name": lock, "digest": {"sha256": sha256(ROOT / lock)}})
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": file.name, "digest": {"sha256": sha256(file)}} for file in built
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:noetl:make-dist:1",
                "externalParameters": {"SOURCE_DATE_EPOCH": epoch},
                "resolvedDependencies": sources,
            },
            "runDetails": {"builder": {"id": "urn:noetl:scripts/dist.py"}},
        },
    }


def main(into: Path) -> None:
    if changed := git("status", "--porcelain"):
        raise SystemExit(
            "noetl: a release is built from a commit, and these files differ from it; "
            f"commit or remove them:\n{changed}"
        )
    commit, epoch = git("rev-parse", "HEAD"), git("log", "-1", "--format=%ct")
    into.mkdir(parents=True, exist_ok=True)
    if any(into.iterdir()):
        raise SystemExit(f"noetl: {into} is not empty; name a new or an empty folder")
    build(into, epoch)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stem = f"{project['name']}-{project['version']}"
    shutil.copyfile(SBOM, into / f"{stem}.cdx.json")
    statement = provenance(commit, epoch, sorted(into.iterdir()))
    text = json.dumps(statement, indent=2) + "\n"
    (into / f"{stem}.provenance.json").write_text(text, encoding="utf-8")
    lines = [f"{sha256(file)}  {file.name}\n" for file in sorted(into.iterdir())]
    (into / SUMS).write_text("".join(lines), encoding="utf-8")
    sys.stdout.write(f"{into}: {len(lines)} files and {SUMS}, from commit {commit}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "dist")
