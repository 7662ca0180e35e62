"""What operators begin with: files that parse, and commands and settings that exist."""

from __future__ import annotations

import configparser
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from noetl.clictl import noetl
from noetl.config import SETTINGS, TLS_CERT, read_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = ROOT / "docs" / "how-to" / "deploy.md"
GIVEN = {
    "POSTGRES_PASSWORD": "pg",
    "OWNER_PASSWORD": "owner",
    "SERVER_PASSWORD": "server",
    "NATS_TOKEN": "token",
    "NOETL_WORKER_TOKEN": "ntl_x",
}
KNOWN = {setting.variable for setting in SETTINGS}


def composed() -> dict[str, Any]:
    text = (DEPLOY / "compose.yaml").read_text()
    found: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{(\w+)[^}]*\}", _filled, text))
    return found


def _filled(found: re.Match[str]) -> str:
    return GIVEN.get(found[1], "noetl.example.com")


def parse(words: list[str]) -> None:
    """As the command line does, without doing it. Raises ``click.UsageError``."""
    command: click.Command = noetl
    context = click.Context(command, info_name="noetl", **noetl.context_settings)
    while isinstance(command, click.Group):
        name, *words = words
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name}"
        command = found
    command.make_context(command.name, list(words), parent=context)


def commands() -> Iterator[tuple[str, list[str]]]:
    for name, service in composed()["services"].items():
        checks = service.get("healthcheck", {}).get("test", [])[1:]
        for words in (service.get("command", []), checks):
            if words and words[0] == "noetl":
                yield f"compose {name}", words[1:]
    for unit in sorted((DEPLOY / "systemd").glob("*.service")):
        line = units(unit)["Service"]["ExecStart"].replace("%i", "default")
        program, *words = shlex.split(line)
        assert program == "/opt/noetl/bin/noetl"
        yield unit.name, words
    for line in PAGE.read_text().replace("\\\n", " ").splitlines():
        match = re.search(r"(?:^    |\bserver |/bin/)noetl (\w.*)$", line)
        if match and line.startswith("    "):
            yield f"page: {match[1]}", shlex.split(match[1])


def units(file: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(file.read_text())
    return parser


@pytest.mark.parametrize(("place", "words"), [*commands()])
def test_every_command_exists(
    place: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOETL_CA", raising=False)
    parse(words)
    monkeypatch.delenv("NOETL_CA", raising=False)


def test_there_is_something_to_check() -> None:
    places = [place for place, _ in commands()]

    assert {"compose server", "compose worker"} <= set(places)
    assert sum(place.startswith("page:") for place in places) >= 6
    with pytest.raises(click.UsageError):
        parse(["server", "start", "--forground"])


@pytest.mark.parametrize("service", ["server", "worker"])
def test_settings_of_containers_are_settings(service: str, tmp_path: Path) -> None:
    environ = {
        name: str(value)
        for name, value in composed()["services"][service]["environment"].items()
    }

    assert environ.keys() <= KNOWN
    settings = read_settings({**environ, "NOETL_CONFIG": ""})
    assert settings[TLS_CERT] == (
        Path("/run/tls/cert.pem") if service == "server" else None
    )


@pytest.mark.parametrize("name", ["server.env", "worker.env"])
def test_settings_of_units_are_settings(name: str) -> None:
    lines = (DEPLOY / "systemd" / name).read_text().splitlines()
    environ = dict(line.split("=", 1) for line in lines if line and line[0] != "#")

    assert environ.keys() <= KNOWN
    read_settings(environ)


def test_containers_have_what_they_name() -> None:
    document = composed()
    example = (DEPLOY / "example.env").read_text()
    named = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))

    assert named == set(re.findall(r"^(\w+)=", example, re.MULTILINE))
    for service in document["services"].values():
        assert set(service.get("depends_on", {})) <= document["services"].keys()
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source.startswith("./") or source in document["volumes"]
    built = document["services"]["server"]["build"]
    assert (DEPLOY / built["context"] / built["dockerfile"]).is_file()
    extras = re.search(r"/src\[([a-z,0-9]+)\]", (DEPLOY / "Dockerfile").read_text())
    known = (ROOT / "pyproject.toml").read_text()
    assert extras is not None
    for extra in extras[1].split(","):
        assert re.search(rf"^{extra} = \[", known, re.MULTILINE)


def test_no_secret_and_no_open_door_is_in_them() -> None:
    server = composed()["services"]["server"]["environment"]

    assert {"NOETL_TLS_CERT", "NOETL_TLS_KEY"} <= server.keys()
    assert "ports" not in composed()["services"]["postgres"]
    assert "ports" not in composed()["services"]["nats"]
    for file in DEPLOY.rglob("*"):
        if file.is_file():
            assert not re.search(r"ntl_[0-9a-f]{16}|BEGIN", file.read_text())
    for unit in (DEPLOY / "systemd").glob("*.service"):
        service = units(unit)["Service"]
        assert service["NoNewPrivileges"] == "yes"
        assert service["User"].startswith("noetl")
        assert int(service["TimeoutStopSec"]) > 25
