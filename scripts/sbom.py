"""Writes deploy/sbom.cdx.json: the bill of materials of what is deployed (CycloneDX).

Versions and hashes are those of the lock files, licences those of the installed
packages. The same locks give the same bytes: the file has no date and no address.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
import uuid
from importlib.metadata import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "deploy" / "sbom.cdx.json"
# Lock -> what its packages are for, in the words of CycloneDX: "excluded" does not run.
LOCKS = {"deploy/build.lock": "excluded", "deploy/requirements.lock": "required"}
PIN = re.compile(r"^([a-z0-9-]+)==(\S+)((?:\s+--hash=sha256:[0-9a-f]{64})+)$")


def pins(lock: str) -> dict[str, tuple[str, list[str]]]:
    """Read name -> version and sha256 hashes; a line of another form is an error."""
    found = {}
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if not line or line.startswith(("#", "--only-binary ")):
            continue
        match = PIN.match(line)
        if match is None:
            raise SystemExit(f"noetl: {lock}: expected NAME==VERSION --hash…: {line!r}")
        name, version, hashes = match.groups()
        found[name] = (version, sorted(re.findall(r"[0-9a-f]{64}", hashes)))
    return found


def component(name: str, version: str, hashes: list[str], scope: str) -> dict[str, Any]:
    """Describe one locked package; the hashes are those of all files of its version."""
    purl = f"pkg:pypi/{name}@{quote(version)}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "scope": scope,
        "hashes": [{"alg": "SHA-256", "content": each} for each in hashes],
        "licenses": licenses(name, version),
        "purl": purl,
    }


def licenses(name: str, version: str) -> list[dict[str, Any]]:
    """Take the licence expression of a package, or else what it names."""
    known = metadata(name).json
    if known["version"] != version:
        message = f"{name} {known['version']} is installed, {version} is locked"
        raise SystemExit(f"noetl: {message}; run: make setup")
    if expression := known.get("license_expression"):
        return [{"expression": expression}]
    classifiers = [
        each for each in known["classifier"] if each.startswith("License ::")
    ]
    names = [known["license"]] if known.get("license") else classifiers
    return [
        {"license": {"name": str(each).splitlines()[0].rpartition(" :: ")[2]}}
        for each in names
    ]


def bill() -> str:
    """Write the whole document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    parts, sources = {}, b""
    for lock, scope in LOCKS.items():  # what also runs is "required"
        sources += (ROOT / lock).read_bytes()
        for name, (version, hashes) in pins(lock).items():
            parts[name] = component(name, version, hashes, scope)
    own = f"pkg:pypi/{project['name']}@{quote(project['version'])}"
    digest = hashlib.sha256(own.encode() + sources).hexdigest()
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": project["name"],
                "version": project["version"],
                "licenses": [{"expression": project["license"]}],
                "purl": own,
            }
        },
        "components": [parts[name] for name in sorted(parts)],
    }
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


if __name__ == "__main__":
    TARGET.write_text(bill(), encoding="utf-8")
    count = len(json.loads(TARGET.read_text())["components"])
    sys.stdout.write(f"{TARGET.relative_to(ROOT)}: {count} packages\n")
