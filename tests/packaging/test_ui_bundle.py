"""The web pages in the package are those of ``ui/``, and name no other host."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import shutil
from pathlib import Path
from types import ModuleType

import click
import pytest

from noetl.clictl import noetl

ROOT = Path(__file__).parents[2]
BUNDLE = ROOT / "src" / "noetl" / "ui"
COMMAND = re.compile(r"\bnoetl ([a-z]+)\b(?: ([a-z]+)\b)?([^<\n]*)")
SERVED = re.compile(r"assets/[\w.-]+\.(js|css|svg|png|ico|webp)")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ui", ROOT / "scripts" / "ui.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_built_from_the_sources_beside_them(script: ModuleType) -> None:
    assert script.stale() is None


def test_every_command_that_a_page_shows_exists() -> None:
    shown = []
    for file in (ROOT / "ui" / "src").rglob("*.tsx"):
        shown += COMMAND.findall(file.read_text("utf-8"))
    context = click.Context(noetl)
    unknown = []
    for first, second, rest in shown:
        command = noetl.get_command(context, first)
        if isinstance(command, click.Group):
            command = command.get_command(context, second)
        params = command.params if command is not None else ()
        known = {option for each in params for option in each.opts}
        if command is None or set(re.findall("--[a-z-]+", rest)) - known:
            unknown.append(f"noetl {first} {second}{rest}")

    assert len(shown) > 10
    assert unknown == []


def test_pages_older_than_their_sources_are_reported(
    script: ModuleType, tmp_path: Path
) -> None:
    shutil.copytree(
        ROOT / "ui", tmp_path / "ui", ignore=shutil.ignore_patterns("node_modules")
    )
    assert script.stale(tmp_path / "ui") is None, "tests and packages play no part"

    with (tmp_path / "ui" / "src" / "main.tsx").open("a") as file:
        file.write("\n")

    assert "older than ui/" in script.stale(tmp_path / "ui")


def test_a_built_file_changed_by_hand_is_reported(
    script: ModuleType, tmp_path: Path
) -> None:
    shutil.copytree(BUNDLE, tmp_path / "ui")
    (tmp_path / "ui" / "assets" / "more.js").write_text("1")

    assert "not those that were built" in script.stale(bundle=tmp_path / "ui")


def test_missing_pages_are_reported(script: ModuleType, tmp_path: Path) -> None:
    assert "not built" in script.stale(bundle=tmp_path)


def test_every_built_file_is_one_that_the_server_delivers() -> None:
    files = json.loads((BUNDLE / "manifest.json").read_text())["files"]
    others = {name for name in files if not SERVED.fullmatch(name)}

    assert others == {"index.html", "licenses.md"}


def test_the_shell_holds_no_inline_script_and_no_inline_style() -> None:
    shell = (BUNDLE / "index.html").read_text()

    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", shell)
    assert not re.search(r"(src|href)=\"(?!/assets/)", shell)


def test_the_first_load_is_small() -> None:
    """What the shell names itself, compressed; chunks of pages come when opened."""
    shell = (BUNDLE / "index.html").read_text()
    named = re.findall(r"/(assets/[\w.-]+\.(?:js|css))", shell)
    size = sum(len(gzip.compress((BUNDLE / name).read_bytes())) for name in named)

    assert 0 < size < 180_000


def test_locked_packages_have_hashes_and_no_address() -> None:
    lock = json.loads((ROOT / "ui" / "package-lock.json").read_text())
    packages = {name: each for name, each in lock["packages"].items() if name}

    assert packages
    for name, each in packages.items():
        assert each["integrity"].startswith("sha512-"), name
        assert "resolved" not in each, name
