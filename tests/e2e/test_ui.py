"""``noetl ui``: a link that signs in once, on a server that is found or started."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from servers import Answer, Api

HELLO = "- {step: start, tool: {kind: noop, result: 1}}"


@pytest.fixture
def browser(shell: Any) -> Path:
    """A browser that notes what it is told to open."""
    opened = shell.folder / "opened"
    program = shell.folder / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    shell.set(BROWSER=str(program))
    return Path(opened)


@pytest.fixture(autouse=True)
def port(shell: Any) -> Iterator[int]:
    """A free port as the one of the settings; the server is stopped at the end."""
    for name in ("NOETL_DATABASE", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        shell._env.pop(name, None)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        free = bound.getsockname()[1]
    shell.set(NOETL_PORT=str(free))
    yield free
    shell.noetl("server", "stop")


def enter(url: str) -> Answer:
    """Sign in as the page of the link does."""
    parts = urlsplit(url)
    assert parts.path == "/sign-in"
    [code] = parse_qs(parts.fragment)["code"]
    return Api(f"{parts.scheme}://{parts.netloc}", None).post(
        "/api/sessions", {"code": code}
    )


def lines_of(url: str, cookie: str) -> list[dict[str, Any]]:
    parts = urlsplit(url)
    api = Api(f"{parts.scheme}://{parts.netloc}", None)
    found: list[dict[str, Any]] = api.get("/api/executions", Cookie=cookie).body[
        "executions"
    ]
    return found


def test_one_command_shows_the_runs_of_this_home(shell: Any, port: int) -> None:
    run = shell.run(shell.write("hello", HELLO))["execution_id"]

    done = shell.noetl("ui")
    [url] = done.stdout.split()
    entered, again = enter(url), enter(url)

    assert done.returncode == 0
    assert urlsplit(url).port == port
    assert "noetl server stop" in done.stderr
    assert (entered.status, again.status) == (201, 401)
    cookie = entered.headers["set-cookie"].split(";")[0]
    [line] = lines_of(url, cookie)
    assert (line["execution_id"], line["local"]) == (run, True)


def test_a_running_server_is_used(shell: Any, port: int) -> None:
    first = json.loads(shell.noetl("ui", "--json").stdout)
    second = json.loads(shell.noetl("ui", "--json").stdout)
    elsewhere = shell.noetl("ui", "--port", str(port - 1))

    assert (first["started"], second["started"]) == (True, False)
    assert urlsplit(first["url"]).netloc == urlsplit(second["url"]).netloc
    assert enter(second["url"]).status == 201
    assert elsewhere.returncode == 2
    assert "already runs" in elsewhere.stderr


def test_an_execution_is_named_by_a_part_of_its_id(shell: Any) -> None:
    run = shell.run(shell.write("hello", HELLO))["execution_id"]

    for named in ("last", run[-8:], run):
        url = json.loads(shell.noetl("ui", named, "--json").stdout)["url"]
        assert parse_qs(urlsplit(url).query)["next"] == [f"/executions/{run}"]
    unknown = shell.noetl("ui", "01a1e27c-11d0-7000-8000-000000000000")
    file = shell.noetl("ui", "hello.yaml")

    assert (unknown.returncode, file.returncode) == (2, 2)
    assert "no execution '01a1e27c" in unknown.stderr
    assert "noetl run hello.yaml --ui" in file.stderr


def test_another_port_is_taken_if_that_of_the_settings_is_not_free(
    shell: Any, port: int
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        done = shell.noetl("ui", "--no-open")

    assert done.returncode == 0, done.stderr
    assert urlsplit(done.stdout.strip()).port != port


def test_the_browser_of_the_person_opens_the_link(shell: Any, browser: Path) -> None:
    opened = shell.noetl("ui")
    quiet = shell.noetl("ui", "--no-open")

    assert browser.read_text().split() == opened.stdout.split()
    assert "opened in your browser" in opened.stderr
    assert quiet.returncode == 0


def test_a_run_opens_its_own_page(shell: Any, browser: Path) -> None:
    done = shell.noetl("run", shell.write("hello", HELLO), "--ui", "--json")

    document = json.loads(done.stdout)
    [url] = browser.read_text().split()
    [page] = parse_qs(urlsplit(url).query)["next"]
    assert done.returncode == 0
    assert page == f"/executions/{document['execution_id']}"
    assert enter(url).status == 201
    assert document["status"] == "completed"


def test_a_run_goes_on_without_its_page(shell: Any) -> None:
    shell.set(NOETL_HOST="0.0.0.0")  # which needs accounts

    done = shell.noetl("run", shell.write("hello", HELLO), "--ui", "--json")

    assert json.loads(done.stdout)["status"] == "completed", done.stderr
    assert done.returncode == 0
    assert "warning: the web UI cannot be opened" in done.stderr


def test_the_server_of_a_page_is_for_its_owner_alone(shell: Any) -> None:
    shell.noetl("ui", "--json")

    found = json.loads((shell.home / "server.json").read_text())

    assert found["host"] == "127.0.0.1"
    assert found["personal"] == os.path.realpath(shell.folder)
