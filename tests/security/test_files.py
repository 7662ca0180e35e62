"""A server's tools see no file of the host that an operator did not name (row 85)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ducks import Duck
from servers import Api, Running, playbook

from noetl.adapters.files import Files
from noetl.config import host_policy, read_settings
from noetl.errors import ToolError

CANARY = "canary-of-the-host-4711"


def task(tool: dict[str, Any]) -> str:
    return playbook("attack", f"- {json.dumps({'step': 'start', 'tool': tool})}")


def fails(api: Api, tool: dict[str, Any]) -> dict[str, Any]:
    """The error of a task that must not succeed; nothing of the host is in it."""
    document = api.run(task(tool))
    assert document["status"] == "failed", document
    events = api.get(f"/api/executions/{document['execution_id']}/events").body
    assert CANARY not in json.dumps([document, events])
    error: dict[str, Any] = document["error"]
    return error


@pytest.fixture
def author(running: Running) -> Iterator[Api]:
    admin = Api(running.url, running.token)
    yield running.person("file-author", "author:tests/*")
    assert admin.call("DELETE", "/api/users/file-author").status in (200, 204)


@pytest.fixture
def secrets(running: Running, tmp_path: Path) -> list[Path]:
    """Files that no tool may see: of the home, of the disk."""
    found = [running.home.folder / "canary.csv", tmp_path / "canary.csv"]
    for file in found:
        file.write_text(f"a\n{CANARY}\n")
    return [*found, running.home.token, Path("/etc/passwd")]


def test_an_author_reads_no_token_by_sql(author: Api, running: Running) -> None:
    for file in (running.home.token, "pyproject.toml"):
        sql = f"SELECT content FROM read_text('{file}')"
        error = fails(author, {"kind": "duckdb", "command": sql})
        assert error["kind"] == "duckdb.external_access", error
        assert "files.roots" in error["message"], error


@pytest.fixture(scope="module")
def duck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Duck]:
    """The tool as a server has it."""
    home = tmp_path_factory.mktemp("duck") / "home"
    home.mkdir()
    (home / "token").write_text(CANARY)
    duck = Duck(home, host_policy(read_settings({}), home, "server"))
    duck.folder = None
    yield duck
    duck.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT content FROM read_text('{home}/token')",
        "SELECT content FROM read_text('/etc/passwd')",
        "SELECT content FROM read_text('/proc/self/environ')",
        "SELECT content FROM read_text('/proc/{pid}/environ')",
        "SELECT content FROM read_text('pyproject.toml')",
        "FROM 'data.csv'",
        "FROM '{home}/token.csv'",
        "FROM glob('{home}/**')",
        "FROM glob('*')",
        "FROM read_blob('{home}/tmp/duckdb-*/*/*')",
        "COPY (SELECT 1) TO '{home}/written.csv'",
        "COPY (SELECT 1) TO 'written.csv'",
        "ATTACH '{home}/accounts.db'",
        "ATTACH 'accounts.db'",
        "EXPORT DATABASE '{home}/written'",
    ],
)
def test_no_statement_touches_a_file(sql: str, duck: Duck) -> None:
    outcome = duck.run(sql.format(home=duck.home, pid=os.getpid()))

    assert outcome.error is not None
    assert outcome.error.kind == "duckdb.external_access", outcome.error
    assert "files.roots" in outcome.error.message
    assert CANARY not in outcome.error.message
    assert not (duck.home / "written.csv").exists()
    assert not (duck.home / "written").exists()


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        ({"kind": "duckdb", "database": "{}"}, "duckdb.external_access"),
        ({"kind": "duckdb", "attach": {"a": "{}"}}, "duckdb.external_access"),
        ({"kind": "duckdb", "export": "{}.parquet"}, "duckdb.external_access"),
        (
            {"kind": "duckdb", "tables": {"t": {"path": "{}", "format": "csv"}}},
            "duckdb.external_access",
        ),
        (
            {
                "kind": "http",
                "method": "POST",
                "url": "http://192.0.2.1/",
                "files": {"f": {"path": "{}"}},
            },
            "tool.contract",
        ),
        (
            {
                "kind": "postgres",
                "dsn": "postgresql://u@192.0.2.1/d?sslrootcert={}&sslmode=verify-full",
            },
            "pg.tls",
        ),
        (
            {"kind": "quantum", "operation": "run", "file": "{}"},
            "quantum.circuit",
        ),
    ],
)
def test_no_input_names_a_file(
    tool: dict[str, Any], kind: str, author: Api, secrets: list[Path]
) -> None:
    if tool["kind"] in ("duckdb", "postgres"):
        tool = {"command": "SELECT 1", **tool}
    for file in (str(secrets[0]), "pyproject.toml"):
        given = json.loads(json.dumps(tool).replace("{}", file))
        error = fails(author, given)
        assert error["kind"] == kind, (given, error)
        assert "files.roots" in error["message"], (given, error)


def test_a_bulk_load_names_no_file(author: Api, secrets: list[Path]) -> None:
    """The file is looked for when the database answers, so the check is asked here."""
    server = Files(host_policy(read_settings({}), Path("/nowhere"), "server"))
    for file in (*map(str, secrets), "pyproject.toml"):
        with pytest.raises(ToolError, match=r"files\.roots"):
            server.roots(None).open_file(file, "copy_from.path")


def test_a_program_starts_in_no_folder_of_the_host(
    admin: Api, running: Running
) -> None:
    for folder in ("/etc", str(running.home.folder), "tests"):
        error = fails(admin, {"kind": "shell", "command": "pwd", "cwd": folder})
        assert "files.roots" in error["message"], error


@pytest.fixture(scope="module")
def rooted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Duck]:
    """The tool of a server whose operator names a folder with the home in it."""
    root = tmp_path_factory.mktemp("root")
    home = root / "state" / "home"
    home.mkdir(parents=True)
    (root / "data").mkdir()
    (root / "data" / "in.csv").write_text("a\n1\n")
    (root / "top.csv").write_text("a\n2\n")
    (home / "canary.csv").write_text(f"a\n{CANARY}\n")
    (root / "data" / "link.csv").symlink_to(home / "canary.csv")
    (root / "data" / "way").symlink_to(home)
    settings = read_settings({"NOETL_FILES_ROOTS": str(root)})
    duck = Duck(home, host_policy(settings, home, "server"))
    duck.folder = None
    yield duck
    duck.close()


@pytest.mark.parametrize(
    "sql",
    [
        "FROM '{home}/canary.csv'",
        "FROM '{root}/data/link.csv'",
        "FROM '{root}/data/way/canary.csv'",
        "FROM '{root}/data/../state/home/canary.csv'",
        "FROM read_csv('{root}/state/*/canary.csv')",
        "FROM read_csv('{root}/**/canary.csv')",
        "FROM read_csv('{root}/data/*/canary.csv')",
        "COPY (SELECT 1) TO '{home}/written.csv'",
        "COPY (SELECT 1) TO '{root}/data/way/written.csv'",
        "ATTACH '{root}/data/way/new.db'",
        "FROM read_blob('{home}/tmp/*/*/*')",
    ],
)
def test_the_home_is_hidden_below_an_allowed_folder(sql: str, rooted: Duck) -> None:
    home = rooted.home
    outcome = rooted.run(sql.format(home=home, root=home.parent.parent))

    assert outcome.error is not None
    assert outcome.error.kind in ("duckdb.external_access", "duckdb.io"), outcome.error
    assert CANARY not in outcome.error.message
    assert not (home / "written.csv").exists()
    assert not (home / "new.db").exists()


@pytest.mark.parametrize("name", ["database", "export"])
@pytest.mark.parametrize("place", ["state/home", "data/way"])
def test_no_input_leads_into_the_home(name: str, place: str, rooted: Duck) -> None:
    file = rooted.home.parent.parent / place / "x.parquet"
    inputs = {name: str(file)}
    outcome = rooted.run("SELECT 1", **inputs)

    assert outcome.error is not None
    assert outcome.error.kind == "duckdb.external_access"


@pytest.mark.parametrize(
    "sql",
    [
        "FROM '{root}/data/in.csv'",
        "FROM read_csv('{root}/data/in*.csv')",
        "FROM '{root}/top.csv'",
        "COPY (SELECT 1) TO '{root}/data/out.csv'",
        "FROM 'data/in.csv'",
    ],
)
def test_an_allowed_folder_is_read_and_written(sql: str, rooted: Duck) -> None:
    outcome = rooted.run(sql.format(root=rooted.home.parent.parent))

    assert outcome.error is None, outcome.error


def test_the_roles_see_what_is_documented(tmp_path: Path) -> None:
    home, here = tmp_path / "home", tmp_path / "project"
    settings = read_settings({})

    server = host_policy(settings, home, "server")
    personal = host_policy(settings, home, "personal", str(here))
    embedded = host_policy(settings, home, "embedded")

    assert (server.roots, server.private, server.own) == ((), "deny", False)
    assert not server.playbook_folder
    assert (personal.roots, personal.private) == ((str(here),), "allow")
    assert str(home) in server.hidden
    assert str(home) in personal.hidden
    assert embedded.roots == (os.getcwd(),)
    assert (embedded.home, embedded.hidden) == (str(home), ())
