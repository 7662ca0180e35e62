"""The cool-down: `make lock` takes no file that was uploaded in the last seven days."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from threading import Thread

import pytest

ROOT = Path(__file__).parents[2]
OLD = "demo-1.0-py3-none-any.whl"
OLD_BUILT_AGAIN = "demo-1.0-2-py3-none-any.whl"  # pip prefers the higher build number
NEW = "demo-2.0-py3-none-any.whl"
JSON = "application/vnd.pypi.simple.v1+json"
JUST_OLD_ENOUGH, ALMOST = timedelta(days=7, minutes=5), timedelta(days=6, hours=23)


def wheel(name: str) -> bytes:
    version = name.split("-")[1]
    info = f"demo-{version}.dist-info"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        text = f"Metadata-Version: 2.1\nName: demo\nVersion: {version}\n"
        archive.writestr(zipfile.ZipInfo(f"{info}/METADATA"), text)
        text = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(zipfile.ZipInfo(f"{info}/WHEEL"), text)
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "")
    return made.getvalue()


def sha256(name: str) -> str:
    return hashlib.sha256(wheel(name)).hexdigest()


class Index:
    """A package index on loopback: file name -> age, or ``None`` if it does not say."""

    def __init__(self) -> None:
        self.files: dict[str, timedelta | None] = {}
        self.speaks_json = True
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.rpartition("/")[2]
                body = wheel(name) if name else index.page().encode()
                self.send_response(200)
                kind = JSON if index.speaks_json else "text/html"
                self.send_header("Content-Type", "text/plain" if name else kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.thread = Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/simple"

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def page(self) -> str:
        if self.speaks_json:
            files = [self.entry(name) for name in self.files]
            meta = {"api-version": "1.1"}
            return json.dumps({"meta": meta, "name": "demo", "files": files})
        links = ""
        for entry in map(self.entry, self.files):
            moment = entry.get("upload-time")
            told = f' data-upload-time="{moment}"' if moment else ""
            name, hashed = entry["filename"], sha256(str(entry["filename"]))
            links += f'<a href="{name}#sha256={hashed}"{told}>{name}</a>\n'
        return f"<!DOCTYPE html><html><body>{links}</body></html>"

    def entry(self, name: str) -> dict[str, object]:
        found = {"filename": name, "url": name, "hashes": {"sha256": sha256(name)}}
        age = self.files[name]
        if age is not None:
            moment = datetime.fromtimestamp(time.time(), UTC) - age
            found["upload-time"] = f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"
        return found


@pytest.fixture
def index() -> Iterator[Index]:
    index = Index()
    yield index
    index.stop()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "cooldown.py", tmp_path / "scripts")
    (tmp_path / "requirements.lock").write_text("# nothing is locked\n")
    return tmp_path


def take(
    checkout: Path, *options: str, **environ: str
) -> tuple[set[str], subprocess.CompletedProcess[str]]:
    """Ask pip for demo, behind the cool-down; return what it took and what was said."""
    script, into = checkout / "scripts" / "cooldown.py", checkout / "taken"
    command = [sys.executable, script, "pip", "download", "--no-deps", "--quiet"]
    command += ["--no-cache-dir", "--disable-pip-version-check", "--dest", into]
    environ = {"PIP_CONFIG_FILE": "/dev/null", "PATH": "/usr/bin:/bin", **environ}
    done = subprocess.run(
        [*map(str, command), *options, "demo"],
        env=environ,
        capture_output=True,
        text=True,
    )
    return {path.name for path in into.glob("*")}, done


@pytest.mark.parametrize("speaks_json", [True, False], ids=["JSON", "HTML"])
def test_a_fresh_version_is_left_out_and_said(
    index: Index, checkout: Path, speaks_json: bool
) -> None:
    index.speaks_json = speaks_json
    index.files = {OLD: JUST_OLD_ENOUGH, NEW: ALMOST}

    taken, done = take(checkout, "--index-url", index.url)

    assert (done.returncode, taken) == (0, {OLD}), done.stderr
    assert "noetl: demo 2.0 is left out: uploaded 20" in done.stderr
    assert "demo 1.0" not in done.stderr


def test_a_version_of_seven_days_is_taken(index: Index, checkout: Path) -> None:
    index.files = {OLD: timedelta(days=400), NEW: JUST_OLD_ENOUGH}

    taken, done = take(checkout, "--index-url", index.url)

    assert (taken, done.stderr) == ({NEW}, "")


def test_a_fresh_file_of_an_old_version_is_left_out(
    index: Index, checkout: Path
) -> None:
    index.files = {OLD: timedelta(days=400), OLD_BUILT_AGAIN: timedelta(hours=1)}

    taken, done = take(checkout, "--index-url", index.url)

    assert taken == {OLD}
    assert "noetl: demo 1.0 is left out" in done.stderr


@pytest.mark.parametrize("speaks_json", [True, False], ids=["JSON", "HTML"])
def test_a_file_of_unknown_age_is_refused(
    index: Index, checkout: Path, speaks_json: bool
) -> None:
    index.speaks_json = speaks_json
    index.files = {NEW: None}

    taken, done = take(checkout, "--index-url", index.url)

    assert done.returncode != 0
    assert not taken
    assert f"the index does not say when {NEW} was uploaded" in done.stderr
    assert "make lock FRESH=demo" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("age", [timedelta(hours=1), None])
def test_a_package_that_cannot_wait_is_named(
    index: Index, checkout: Path, age: timedelta | None
) -> None:
    index.files = {OLD: JUST_OLD_ENOUGH, NEW: age}

    taken, done = take(checkout, "--index-url", index.url, FRESH="other Demo")

    assert taken == {NEW}
    assert "noetl: demo 2.0 is taken, as FRESH names it" in done.stderr


def test_what_is_locked_stays_locked(index: Index, checkout: Path) -> None:
    index.files = {OLD: JUST_OLD_ENOUGH, NEW: ALMOST}
    pin = f"demo==2.0 --hash=sha256:{sha256(NEW)}\n"
    (checkout / "requirements.lock").write_text(pin)

    taken, done = take(checkout, "--index-url", index.url)

    assert (taken, done.stderr) == ({NEW}, "")


def test_files_in_a_folder_of_the_machine_are_taken(checkout: Path) -> None:
    (checkout / NEW).write_bytes(wheel(NEW))

    taken, done = take(checkout, "--no-index", "--find-links", str(checkout))

    assert (taken, done.stderr) == ({NEW}, "")


def test_locks_are_made_behind_the_cool_down() -> None:
    """`make lock` chooses versions in no other way, and runs on locked tools."""
    script = (ROOT / "scripts" / "lock").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in script.splitlines() if "$work/venv/bin" in line]

    tools, compiled = (" ".join(line.split()) for line in lines)
    assert "--require-hashes -r scripts/lock-tools.lock" in tools
    assert '/bin/python" scripts/cooldown.py piptools compile ' in compiled
