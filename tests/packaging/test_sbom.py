"""The bill of materials: what the locks of deploy name, all of it and nothing else."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy" / "sbom.cdx.json"
TEXT = FILE.read_text(encoding="utf-8")
BILL: dict[str, Any] = json.loads(TEXT)
COMPONENTS: list[dict[str, Any]] = BILL["components"]
ENTRY = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?P<rest>.*)$", re.M)


def locked(lock: str) -> dict[str, tuple[str, list[str]]]:
    text = (ROOT / lock).read_text().replace("\\\n", " ")
    return {
        found["name"]: (
            found["version"],
            re.findall("sha256:([0-9a-f]+)", found["rest"]),
        )
        for found in ENTRY.finditer(text)
    }


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "scripts" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bill_is_fresh(script: ModuleType) -> None:
    assert script.bill() == TEXT, "run: make sbom"


def test_a_changed_lock_makes_another_bill(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deploy").mkdir()
    for name in ("pyproject.toml", *script.LOCKS):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    monkeypatch.setattr(script, "ROOT", tmp_path)
    assert script.bill() == TEXT, "the place of the checkout has no part in it"

    lock = tmp_path / "deploy" / "requirements.lock"
    lock.write_text(re.sub("sha256:.{4}", "sha256:ffff", lock.read_text(), count=1))
    changed = json.loads(script.bill())
    assert changed["serialNumber"] != BILL["serialNumber"]
    assert changed["components"] != COMPONENTS

    lock.write_text(lock.read_text().replace("aiohttp==", "aiohttp==9"))
    with pytest.raises(SystemExit, match=r"aiohttp \S+ is installed, 9\S+ is locked"):
        script.bill()
    lock.write_text("aiohttp>=3\n")
    with pytest.raises(SystemExit, match="expected NAME==VERSION"):
        script.bill()


def test_the_bill_is_complete_and_has_the_hashes_of_the_locks() -> None:
    needed = locked("deploy/requirements.lock")
    building = locked("deploy/build.lock")
    listed = {
        part["name"]: (part["version"], [each["content"] for each in part["hashes"]])
        for part in COMPONENTS
    }

    assert len(needed) > 30
    assert len(listed) == len(COMPONENTS)
    expected = {**building, **needed}
    assert listed == {name: (v, sorted(hs)) for name, (v, hs) in expected.items()}
    running = {part["name"] for part in COMPONENTS if part["scope"] == "required"}
    assert running == needed.keys()


def test_the_bill_has_the_form_of_cyclonedx() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = BILL["metadata"]["component"]

    assert (BILL["bomFormat"], BILL["specVersion"]) == ("CycloneDX", "1.6")
    assert BILL["version"] == 1
    assert uuid.UUID(BILL["serialNumber"].removeprefix("urn:uuid:")).version == 5
    assert (own["name"], own["version"]) == (project["name"], project["version"])
    references = [part["bom-ref"] for part in (own, *COMPONENTS)]
    assert len(references) == len(set(references))
    for part in COMPONENTS:
        assert part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}"
        assert part["type"] == "library"
        assert part["scope"] in ("required", "excluded")
        for each in part["hashes"]:
            assert each["alg"] == "SHA-256"
            assert re.fullmatch("[0-9a-f]{64}", each["content"])


def test_every_package_has_a_licence() -> None:
    for part in COMPONENTS:
        assert part["licenses"], part["name"]
        for each in part["licenses"]:
            said = each.get("expression") or each["license"]["name"]
            assert re.fullmatch(r"[\w.() +-]{3,60}", said), part["name"]
        if any("expression" in each for each in part["licenses"]):
            assert len(part["licenses"]) == 1, "CycloneDX allows one expression"


def test_the_bill_names_no_address_and_no_time() -> None:
    assert "://" not in TEXT
    assert not re.search(r"[\w-]+\.(?:org|com|io|net)\b", TEXT)
    assert "timestamp" not in TEXT


def test_the_image_carries_the_bill() -> None:
    _, _, final = (ROOT / "deploy" / "Dockerfile").read_text().rpartition("\nFROM ")

    assert "\nCOPY deploy/sbom.cdx.json /usr/share/noetl/\n" in final
