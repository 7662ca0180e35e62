"""Takes the pictures of the web pages that README and documentation show.

    scripts/screenshots.py [folder]

A server of its own, with a home of its own, runs the playbooks of
``scripts/pages/screenshots`` until there is something to see; Chromium takes the
pictures as WebP into ``docs/assets``. ``make screenshots`` calls it.
"""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import environ
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

ROOT = Path(__file__).parent.parent
PLAYBOOKS = ROOT / "scripts" / "pages" / "screenshots"
ASSETS = ROOT / "docs" / "assets"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
NAME, PASSWORD = "ada", "a password for pictures 1"
DESK = ViewportSize(width=1280, height=800)
PHONE = ViewportSize(width=360, height=720)
QUALITY = 82
PATIENCE = 60.0
TURNS = 9
"""Executions of each playbook before the pictures, so that lists have a past."""


class Picture(NamedTuple):
    """A page to take: its address may name executions, ``click`` is pressed first."""

    name: str
    address: str
    shows: str
    theme: str = "light"
    size: ViewportSize = DESK
    click: str | None = None


PICTURES = [
    Picture("ui-execution", "/executions/{failed}?panel=calls", "get #3"),
    Picture("ui-execution-dark", "/executions/{failed}?panel=why", "Why did", "dark"),
    Picture("ui-executions", "/executions", "sales/orders"),
    Picture("ui-loop", "/executions/{loop}?sel=price&tab=events&at=400", "400/"),
    Picture("ui-retry", "/executions/{failed}", "It keeps", click="Retry failed"),
    Picture("ui-data", "/executions/{done}?tab=data&sel=-", "Writers of ctx"),
    Picture("ui-inbox", "/inbox", "pay/approve"),
    Picture("ui-catalog", "/catalog/sales/orders", "sales/orders"),
    Picture("ui-phone", "/executions/{failed}", "404 Not Found", size=PHONE),
]


class Server:
    """Calls of a running server, with the token of its home."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self._token = url, token

    def call(self, method: str, path: str, body: Any = None) -> Any:
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
        }
        data = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise SystemExit(f"noetl: {method} {path}: {answer.status} {text.decode()}")
        return json.loads(text) if text else None

    def run(self, path: str, wait: float = PATIENCE, **workload: Any) -> str:
        """Start a registered playbook, and wait for its end at most ``wait`` s."""
        body = {"path": path, "workload": workload, "labels": {"team": "sales"}}
        answer = self.call("POST", f"/api/executions?wait={wait}", body)
        execution_id: str = answer["execution_id"]
        return execution_id


@contextmanager
def running(home: Path) -> Iterator[Server]:
    """Start a server in a home, and stop it at the end."""
    command = [sys.executable, "-m", "noetl", "server", "start", "--foreground"]
    environment = {**environ, "NOETL_HOME": str(home), "NOETL_PORT": "0"}
    process = subprocess.Popen(
        [*command, "--port", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield Server(find_address(process), (home / "token").read_text().strip())
    finally:
        process.terminate()
        process.wait()


def find_address(process: subprocess.Popen[str]) -> str:
    """Read what the server prints until it names its address."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        for word in line.split():
            if word.startswith("http://"):
                parts = urlsplit(word)
                return f"http://{parts.hostname}:{parts.port}"
    raise SystemExit(f"noetl: the server did not start:\n{said}")


def make_history(server: Server) -> dict[str, str]:
    """Run the playbooks; return the executions that pictures name."""
    for file in sorted(PLAYBOOKS.glob("*.yaml")):
        server.call("POST", "/api/catalog", {"playbook": file.read_text("utf-8")})
    for turn in range(TURNS):
        server.run("sales/orders", order=11 if turn % 4 == 1 else turn)
        server.run("reports/nightly", rows=4 + turn)
    found = {
        "loop": server.run("reports/nightly", rows=240),
        "failed": server.run("sales/orders", order=11),
        "done": server.run("sales/orders", order=3),
    }
    server.run("pay/approve", wait=0, amount=1200)
    return found


def take(browser: Browser, url: str, ids: dict[str, str], picture: Picture) -> bytes:
    context = browser.new_context(
        viewport=picture.size,
        color_scheme="dark" if picture.theme == "dark" else "light",
        reduced_motion="reduce",
        locale="en-US",
        timezone_id="UTC",
        has_touch=picture.size is PHONE,
    )
    try:
        said = {"name": NAME, "password": PASSWORD}
        headers = {"Origin": url}
        context.request.post(f"{url}/api/sessions", data=said, headers=headers)
        page = context.new_page()
        page.goto(url + picture.address.format(**ids))
        if picture.click is not None:
            page.get_by_role("button", name=picture.click).click()
        page.get_by_text(picture.shows).first.wait_for()
        return shoot(page)
    finally:
        context.close()


def shoot(page: Page) -> bytes:
    """Take the page once it has stopped changing."""
    session = page.context.new_cdp_session(page)
    options = {"format": "webp", "quality": QUALITY}
    before, at = b"", time.monotonic()
    while time.monotonic() < at + 10:
        page.wait_for_timeout(400)
        answer = session.send("Page.captureScreenshot", options)
        now = base64.b64decode(answer["data"])
        if now == before:
            break
        before = now
    return before


def main(folder: Path) -> int:
    program = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if program is None:
        raise SystemExit("noetl: no Chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary) / "home"
        with running(home) as server, sync_playwright() as playwright:
            person = {"name": NAME, "roles": ["admin"], "password": PASSWORD}
            server.call("POST", "/api/users", person)
            ids = make_history(server)
            chromium = playwright.chromium.launch(
                executable_path=program, args=["--no-sandbox"]
            )
            for picture in PICTURES:
                image = take(chromium, server.url, ids, picture)
                (folder / f"{picture.name}.webp").write_bytes(image)
                print(f"{picture.name}.webp: {len(image) / 1024:.0f} KiB")
            chromium.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ASSETS))
