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
from command_lines import parse

from noetl.config import SETTINGS, TLS_CERT, read_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = ROOT / "docs" / "how-to" / "deploy.md"
GIVEN = {
    "POSTGRES_PASSWORD": "pg",
    "OWNER_PASSWORD": "owner",
    "SERVER_PASSWORD": "server",
    "NATS_PASSWORD": "letters",
    "NOETL_WORKER_TOKEN": "ntl_x",
}
KNOWN = {setting.variable for setting in SETTINGS}


def composed() -> dict[str, Any]:
    text = (DEPLOY / "compose.yaml").read_text()
    found: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{(\w+)[^}]*\}", _filled, text))
    return found


def _filled(found: re.Match[str]) -> str:
    return GIVEN.get(found[1], "noetl.example.com")


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


def test_shipped_files_hold_no_secret_and_no_open_access() -> None:
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


def test_workers_get_no_address_of_nats() -> None:
    services = composed()["services"]
    lines = (DEPLOY / "systemd" / "worker.env").read_text()

    assert not any("NATS" in name for name in services["worker"]["environment"])
    assert "NATS" not in lines
    server = services["server"]["environment"]
    assert server["NOETL_NATS"].startswith("tls://noetl:")
    assert services["nats"]["command"] == ["-c", "/etc/nats/nats.conf"]


def test_nothing_starts_in_the_root_folder() -> None:
    folders = re.findall(r"^WORKDIR (\S+)", (DEPLOY / "Dockerfile").read_text(), re.M)
    assert folders[-1] not in ("/", "/var/lib/noetl")
    for unit in (DEPLOY / "systemd").glob("*.service"):
        service = units(unit)["Service"]
        assert service["WorkingDirectory"] == f"/run/{service['RuntimeDirectory']}"


def test_what_is_installed_is_locked_by_hashes() -> None:
    texts = [(DEPLOY / "Dockerfile").read_text(), PAGE.read_text()]
    for text in texts:
        lines = re.findall(r"\bpip (?:install|wheel) .*", text)
        assert len(lines) >= 3
        for line in lines:
            is_locked = re.search(r"--require-hashes -r \S*\.lock", line)
            is_own = re.search("--no-deps --no-(?:build-isolation|index)", line)
            assert is_locked or is_own, line


def test_images_of_others_are_named_by_version_and_can_be_pinned() -> None:
    document = (DEPLOY / "compose.yaml").read_text()
    example = (DEPLOY / "example.env").read_text()
    named = dict(re.findall(r"\$\{(\w+_IMAGE):-([^}]+)\}", document))

    assert named.keys() == {"PYTHON_IMAGE", "POSTGRES_IMAGE", "NATS_IMAGE"}
    for name, image in named.items():
        assert re.fullmatch(r"[a-z]+:\d+\.\d+(\.\d+)?(-[a-z-]+)?", image)
        assert f"\n{name}={image}\n" in example
    (base,) = re.findall(
        r"^ARG PYTHON=(\S+)", (DEPLOY / "Dockerfile").read_text(), re.M
    )
    assert base == named["PYTHON_IMAGE"]
    assert "@sha256:" in PAGE.read_text(), "the page says how"
    assert not re.search(r"^    image: (?!\"\$|noetl)", document, re.M)


HARDENED = {
    "noetl-server.service": {
        "ProtectKernelTunables": "yes",
        "ProtectProc": "invisible",
        "RestrictNamespaces": "yes",
        "SystemCallFilter": "@system-service",
    },
    "noetl-worker@.service": {"ProtectControlGroups": "yes"},
}


@pytest.mark.parametrize("name", HARDENED)
def test_units_give_a_process_no_more_than_it_needs(name: str) -> None:
    service = units(DEPLOY / "systemd" / name)["Service"]
    expected = {
        "CapabilityBoundingSet": "",
        "LimitCORE": "0",
        "LockPersonality": "yes",
        "PrivateTmp": "yes",
        "ProtectHome": "yes",
        "ProtectSystem": "strict",
        "RestrictSUIDSGID": "yes",
        "SystemCallArchitectures": "native",
        "UMask": "0077",
        **HARDENED[name],
    }

    assert {key: service[key] for key in expected} == expected
    if name.startswith("noetl-worker"):  # bubblewrap needs them
        assert "RestrictNamespaces" not in service
        assert "ProtectKernelTunables" not in service
        assert "AF_NETLINK" in service["RestrictAddressFamilies"]
