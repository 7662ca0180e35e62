"""A real browser without a screen, spoken to in its own protocol.

Debian's package is ``chromium``. Where none is installed, tests that need it are
skipped and say so.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import aiohttp
import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
MOST_SECONDS = 60


class Browser:
    """One page at a time. ``trouble`` collects what a good page never causes."""

    def __init__(self, program: str, profile: Path) -> None:
        self._program = program
        self._profile = profile
        self._runner = asyncio.Runner()
        self._number = 0
        self._seen: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        self._runner.run(self._open())
        return self

    def __exit__(self, *exception: object) -> None:
        self._runner.run(self._close())
        self._runner.close()

    def visit(
        self,
        url: str,
        *,
        width: int = 1280,
        dark: bool = False,
        script: bool = True,
        media: str = "",
    ) -> None:
        """Load a page and wait until it has loaded."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        for address in ("about:blank", url):
            self._seen.clear()
            self.call("Page.navigate", url=address)
            self._runner.run(self._await("Page.loadEventFired"))

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, or of its promise."""
        answer = self.call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        codes = {"Tab": 9, "Enter": 13}
        about = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        text = "\r" if key == "Enter" else ""
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def forget(self) -> None:
        """The trouble so far was wanted."""
        self._seen.clear()

    @property
    def trouble(self) -> list[str]:
        """Dialogs, exceptions, refusals of the content policy, requests elsewhere."""
        found = []
        for message in self._seen:
            method, params = message["method"], message["params"]
            if method in ("Page.javascriptDialogOpening", "Runtime.exceptionThrown"):
                found.append(json.dumps(params)[:300])
            elif method == "Log.entryAdded":
                found.append(params["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file:", "data:", "about:")):
                    found.append(f"request: {url}")
        return found

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._runner.run(self._call(method, params))

    async def _open(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            self._program,
            "--headless=new",
            "--no-sandbox",  # tests may run as root, which Chromium's own one refuses
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-port=0",
            f"--user-data-dir={self._profile}",
            "about:blank",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        async with asyncio.timeout(MOST_SECONDS):
            host = await self._find_host()
            self._session = aiohttp.ClientSession()
            async with self._session.get(f"http://{host}/json") as answer:
                pages = [page for page in await answer.json() if page["type"] == "page"]
            self._socket = await self._session.ws_connect(
                pages[0]["webSocketDebuggerUrl"], max_msg_size=0
            )
            for domain in ("Page", "Log", "Runtime", "Network"):
                await self._call(f"{domain}.enable", {})

    async def _find_host(self) -> str:
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            if found := re.search(rb"ws://([^/]+)/", line):
                return found[1].decode()
        raise AssertionError(f"{self._program} ended before it listened")

    async def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        number = self._number
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(MOST_SECONDS):
            while True:
                message = await self._receive()
                if message.get("id") == number:
                    assert "error" not in message, message
                    result: dict[str, Any] = message["result"]
                    return result

    async def _await(self, method: str) -> None:
        async with asyncio.timeout(MOST_SECONDS):
            while all(message["method"] != method for message in self._seen):
                await self._receive()

    async def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = await self._socket.receive_json()
        if "method" in message:
            self._seen.append(message)
        return message

    async def _close(self) -> None:
        await self._socket.close()
        await self._session.close()
        self._process.terminate()
        await self._process.communicate()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = [program for program in map(shutil.which, NAMES) if program]
    if not found:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    with Browser(found[0], tmp_path_factory.mktemp("browser")) as browser:
        yield browser
