"""Playbooks of earlier releases run unchanged, with the extension ``classic``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from databases import PASSWORD
from demo_api import DemoApi
from nats_servers import NatsServer
from s3_peer import S3Peer

pytestmark = pytest.mark.spec("S-01")

PLAYBOOKS = Path(__file__).parent / "classic"
PEER = Path(__file__).parents[1] / "support" / "peers" / "http.py"


class Folder:
    """The playbooks in a folder of their own, and ``noetl`` in it."""

    def __init__(self, path: Path) -> None:
        self.path = path / "classic"
        shutil.copytree(PLAYBOOKS, self.path)
        self.environ = {**os.environ, "NOETL_HOME": str(path / "home")}

    def noetl(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "noetl", *args],
            cwd=self.path,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )

    def run(self, name: str, **settings: object) -> dict[str, Any]:
        options = [f"--set={key}={value}" for key, value in settings.items()]
        switch = ["--extensions", "classic", "--json"]
        done = self.noetl("run", f"{name}.yaml", *options, *switch)
        assert done.stdout, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def completed(self, name: str, **settings: object) -> Any:
        document = self.run(name, **settings)
        assert document["status"] == "completed", document["error"]
        return document["result"]

    def keep(self, name: str, **fields: object) -> None:
        """A stored credential."""
        given = [f"--field={key}={value}" for key, value in fields.items()]
        done = self.noetl("keychain", "set", name, *given)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture(scope="module")
def peer() -> Iterator[str]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-I", str(PEER)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as program:
        assert program.stdout is not None
        yield f"http://127.0.0.1:{int(program.stdout.readline())}"
        program.communicate()


@pytest.fixture(scope="module")
def demo() -> Iterator[DemoApi]:
    api = DemoApi()
    yield api
    api.stop()


def served(peer: str, body: bytes, kind: str = "text/plain") -> str:
    return f"{peer}/raw?" + urlencode({"hex": body.hex(), "type": kind})


@pytest.mark.spec("C-21", "C-34", "S-53", "S-69", "SPEC-08")
def test_python_alone(folder: Folder) -> None:
    document = folder.run("python_only")
    steps = {step["step"]: step["result"] for step in document["steps"]}

    assert steps["measure"] == {
        "length": 5.0,
        "largest": 4,
        "run": document["execution_id"],
    }
    assert steps["each"] == [{"n": 0, "v": 12}, {"n": 1, "v": 16}]
    assert document["result"] == {"sum": 28}, document["error"]


NEWER = {
    "nets": [5, 4],
    "sums": 2,
    "list": [7, 9],
    "ids": [7, 9],
    "told": "3 by 2 and 2",
    "count": 5,
    "text": "tax 2",
    "never": None,
    "same": True,
    "start": 2,
    "missing": "nothing",
}


@pytest.mark.spec("C-34", "S-34")
def test_input_output_and_set(folder: Folder) -> None:
    document = folder.run("newer")

    assert document["result"] == NEWER, document["error"]
    assert document["playbook"]["path"] == "newer"
    assert document["ctx"]["rounds"] == 3
    assert document["ctx"]["count"] == document["ctx"]["done"] == 2


def test_migrated_input_output_and_set_need_no_switch(folder: Folder) -> None:
    written = folder.noetl("migrate", "newer.yaml", "--write")
    checked = folder.noetl("validate", "newer.yaml")
    again = folder.noetl("migrate", "newer.yaml", "--check")
    document = json.loads(folder.noetl("run", "newer.yaml", "--json").stdout)

    assert written.stderr.endswith("newer.yaml: rewritten\n"), written.stderr
    assert (checked.returncode, again.returncode) == (0, 0), checked.stdout
    assert document["result"] == NEWER, document["error"]


def test_code_from_elsewhere_and_shell_commands(folder: Folder, peer: str) -> None:
    library = served(peer, b"return {'loud': name.upper()}")
    folder.keep("library_token", token="t-1")

    assert folder.completed("files", library=library) == [
        {"loud": "HELLO, ADA!"},
        "first\nsecond\n",
        "a;b;",
    ]


def test_code_is_fetched_below_the_endpoint_of_its_source(
    folder: Folder, peer: str
) -> None:
    place = served("", b"result = n + 1").removeprefix("/")
    (folder.path / "below.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: b}\n"
        "workflow:\n  - step: start\n    tool: {kind: python, args: {n: 41}, script: "
        f"{{uri: '{place}', source: {{type: http, endpoint: '{peer}/'}}}}}}\n"
    )

    assert folder.completed("below") == 42


def test_code_from_a_file_below_the_current_folder(folder: Folder) -> None:
    below = folder.path / "below"
    below.mkdir()
    text = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: f, path: f}\n"
        "workload: {file: scripts/greet.py}\nworkflow:\n  - step: start\n    tool:\n"
        "      kind: python\n      args: {name: Ada}\n"
        '      script: {uri: "{{ workload.file }}"}\n'
    )
    (below / "f.yaml").write_text(text)

    assert folder.completed("below/f")
    missing = folder.run("below/f", file="scripts/none.py")["error"]
    assert f"looked for {below / 'scripts/none.py'}, " in missing["message"]
    assert str(folder.path / "scripts/none.py") in missing["message"]


def test_what_occurs_twice_in_a_result_is_printed_twice(folder: Folder) -> None:
    (folder.path / "twice.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"
        "workload: {a: [1]}\nworkflow:\n  - step: start\n    tool: {kind: noop, "
        "result: ['{{ workload.a }}', '{{ workload.a }}']}\n"
    )
    done = folder.noetl("run", "twice.yaml", "--no-progress")

    assert done.stdout.endswith("result:\n- - 1\n- - 1\n")


def test_credentials_of_the_original_are_imported(folder: Folder) -> None:
    secret = "p4ss-canary"
    one = {"name": "pg", "type": "postgres", "data": {"db_host": "h", "db_name": "d"}}
    one["data"] |= {"db_password": secret}
    (folder.path / "pg.json").write_text(json.dumps(one))
    (folder.path / "more.yaml").write_text(
        "- {name: bus, type: nats, data: {nats_url: 'nats://h', "
        f"nats_password: {secret}}}}}\n"
        f"- {{name: word, data: {secret}}}\n"
    )
    done = folder.noetl("keychain", "import", "pg.json", "more.yaml", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    (folder.path / "bad.yaml").write_text("name: x\n")
    wrong = folder.noetl("keychain", "import", "bad.yaml")

    assert [(line["name"], line["kind"]) for line in lines] == [
        ("pg", "postgres_credential"),
        ("bus", "http_credential"),
        ("word", "secret_manager"),
    ]
    assert lines[0]["fields"] == ["database", "host", "password"]
    assert lines[1]["fields"] == ["password", "url"]
    assert secret not in done.stdout + done.stderr
    assert wrong.returncode == 2
    assert "a credential needs 'name' and 'data'" in wrong.stderr


@pytest.mark.spec("S-67")
def test_a_caller_chooses_among_declared_credentials_alone(folder: Folder) -> None:
    for name in ("mine", "yours", "theirs"):
        folder.keep(name, host="127.0.0.1", port=1, user=name, password=f"{name}-pass")
    (folder.path / "choose.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: choose}\n"
        "keychain: [{name: yours, kind: postgres_credential}]\n"
        "workload: {db: mine}\nworkflow:\n  - step: start\n    tool: "
        "{kind: postgres, auth: '{{ workload.db }}', command: SELECT 1}\n"
    )
    kinds = {
        name: folder.run("choose", db=name)["error"]
        for name in ("mine", "yours", "theirs")
    }

    assert kinds["mine"]["kind"] == kinds["yours"]["kind"] == "connection"
    assert kinds["theirs"]["kind"] == "auth"
    assert "that the playbook declares under keychain" in kinds["theirs"]["message"]


def test_the_error_names_an_unknown_host(folder: Folder) -> None:
    (folder.path / "host.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: h, path: h}\n"
        "workflow:\n  - step: start\n    tool: {kind: http, "
        "url: 'http://nowhere.invalid/'}\n"
    )
    error = folder.run("host")["error"]

    assert error["kind"] == "connection"
    assert error["message"] == "no host is known by the name 'nowhere.invalid'"


def test_code_from_an_object_store(folder: Folder, s3: S3Peer) -> None:
    s3.objects["/code/jobs/add.py"] = (b"return a + b", s3.now)
    folder.environ |= s3.environment()
    name = "object"
    (folder.path / f"{name}.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\n"
        "metadata: {name: o, path: classic/o}\nworkload: {file: add.py}\n"
        "workflow:\n  - step: start\n    tool:\n      kind: python\n"
        "      args: {a: 1, b: 2}\n"
        '      script: {uri: "s3://code/jobs/{{ workload.file }}"}\n'
    )

    assert folder.completed(name) == 3
    missing = folder.run(name, file="sub.py")["error"]
    assert missing["kind"] == "tool.contract"
    assert "s3://code/jobs/sub.py does not exist" in missing["message"]


def test_an_answer_is_a_mapping_and_pages_are_read(
    folder: Folder, demo: DemoApi
) -> None:
    demo.post("/reset")
    result = folder.completed("web", api=demo.url)

    assert result["kept"] == ["data", "elapsed", "headers", "status_code", "url"]
    assert result["same"] is True
    assert result["orders"][0] > 3
    assert result["stats"] == {"total": 1, "success": 1, "failed": 0}


def test_a_migrated_reader_of_pages_names_its_extension(
    folder: Folder, demo: DemoApi
) -> None:
    demo.post("/reset")
    before = folder.completed("pages", api=demo.url)
    written = folder.noetl("migrate", "pages.yaml", "--write")
    demo.post("/reset")
    setting = f"--set=api={demo.url}"
    after = json.loads(folder.noetl("run", "pages.yaml", setting, "--json").stdout)

    assert before == {"seen": [4, 4, 2], "last": 2}
    assert after["result"] == before, after["error"]
    assert after["playbook"]["path"] == "classic/pages"
    assert "1 form left to do by hand" in written.stderr
    assert "extensions: [classic]" in (folder.path / "pages.yaml").read_text()


def test_every_name_of_a_body(folder: Folder, peer: str) -> None:
    document = folder.run("bodies", peer=f"{peer}/echo")
    assert document["status"] == "completed", document["error"]
    seen = document["ctx"]["seen"]

    assert [each["body"] for each in seen] == [
        '{"a":1}',
        '{"b":2}',
        "c=3",
        '{"d":4}',
        "text",
        '{"e":5}',
        "f=6",
        '{"g":7}',
        "",
    ]
    assert seen[5]["query"] == [["q", "1"]]
    assert sorted(seen[8]["query"]) == [["h", "8"], ["i", "9"]]


@pytest.mark.spec("S-67")
def test_postgres_and_duckdb_give_results_of_each_command(
    folder: Folder, postgres: str
) -> None:
    port = urlsplit(postgres).port
    about = {"db_host": "127.0.0.1", "db_port": port, "db_user": "postgres"}
    folder.keep("pg_tests", **about, db_password=PASSWORD, db_name="postgres")

    assert folder.completed("warehouse") == {
        "count": 3,
        "longest": "Paris",
        "statements": 3,
        "columns": ["total"],
    }


def test_a_credential_may_be_written_by_its_fields(
    folder: Folder, postgres: str
) -> None:
    port = urlsplit(postgres).port
    result = folder.completed("fields", port=port, password=PASSWORD)

    assert result["rows"] == [{"two": 2}]


@pytest.mark.spec("PIPE-17")
def test_a_child_returns_its_last_result_or_the_one_that_is_asked_for(
    folder: Folder,
) -> None:
    assert folder.completed("parent") == {
        "all": [{"last": "aa"}, {"last": "bb"}],
        "first": {"first": "aa"},
    }


def test_retries_and_errors_that_an_arc_handles(folder: Folder, peer: str) -> None:
    document = folder.run("flaky", peer=peer)

    assert document["status"] == "completed", document["error"]
    assert document["result"] == {"problem": "http.client"}
    assert document["steps"][0]["attempts"] == 3


def test_keys_objects_and_messages_of_nats(
    folder: Folder, nats_server: NatsServer
) -> None:
    folder.keep("broker", url=nats_server.address)

    assert folder.completed("messages", nats=nats_server.address) == {
        "keys": ["greeting"],
        "object": [1, 2],
        "told": "success",
    }


def test_a_server_that_is_not_there_is_a_connection_error(folder: Folder) -> None:
    folder.keep("broker", url="nats://127.0.0.1:9")
    document = folder.run("messages", nats="nats://127.0.0.1:9")

    assert document["error"]["kind"] == "connection"
    assert document["error"]["retryable"] is True


def test_rows_move_between_http_postgres_duckdb_and_files(
    folder: Folder, postgres: str, peer: str
) -> None:
    port = urlsplit(postgres).port
    about = {"host": "127.0.0.1", "port": port, "user": "postgres"}
    folder.keep("pg_tests", **about, password=PASSWORD, database="postgres")
    cities = ["Paris", "Rome", "Oslo"]
    rows = [{"id": at, "city": city} for at, city in enumerate(cities)]
    body = json.dumps({"answer": {"rows": rows}}).encode()
    source = served(peer, body, "application/json")

    result = folder.completed("move", rows=source, sink=f"{peer}/echo")

    assert result == {"loaded": 3, "chunks": 2, "names": "Paris,Rome,Oslo"}
    assert (folder.path / "cities.csv").read_text().splitlines()[1] == "0,Paris"


@pytest.mark.spec("S-67", "KEY-02")
def test_older_kinds_of_keychain_entries(
    folder: Folder, peer: str, secret_peer: str
) -> None:
    folder.environ |= {"FIRST_KEY": "key-one-7f", "SECOND_KEY": "s3cret:with/odd+signs"}
    folder.keep("login_of_tests", username="somebody", password="pass-83kd")
    file = folder.path / "secrets.yaml"
    text = file.read_text().replace("TOKEN_URL", f"{secret_peer}/token")
    file.write_text(text.replace("client_id: c1", "client_id: me & you"))

    assert folder.completed("secrets", peer=f"{peer}/echo") == [True, 21, 5, 8, True]


def test_a_lake_needs_its_extension(folder: Folder) -> None:
    document = folder.run("lake")

    assert document["error"]["kind"] == "duckdb.extension"
    assert "'ducklake' is not installed" in document["error"]["message"]


@pytest.mark.parametrize("name", ["python_only", "child"])
def test_a_migrated_playbook_comes_to_the_same(folder: Folder, name: str) -> None:
    before = folder.completed(name)
    checked = folder.noetl("migrate", f"{name}.yaml", "--check")
    written = folder.noetl("migrate", f"{name}.yaml", "--write")

    assert checked.returncode == 1
    assert written.returncode == 0, written.stderr
    assert "left to do by hand" in written.stderr
    assert folder.completed(name) == before
    assert "nothing to rewrite" in folder.noetl("migrate", f"{name}.yaml").stderr


def test_without_anything_left_the_switch_is_gone(folder: Folder) -> None:
    file = folder.path / "small.yaml"
    file.write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\n"
        "metadata: {name: small, path: classic/small}\n"
        "executor: {spec: {extensions: [classic]}}\n"
        "workflow:\n"
        "  - step: start\n    tool: {kind: shell, cmds: [echo one]}\n"
        "    next: {arcs: [{step: last}]}\n"
        '  - step: last\n    tool: {kind: noop, result: "{{ start.stdout }}"}\n'
    )
    before = folder.completed("small")
    folder.noetl("migrate", "small.yaml", "--write")
    after = json.loads(folder.noetl("run", "small.yaml", "--json").stdout)

    assert "classic]" not in file.read_text()
    assert before == after["result"] == "one\n"


def test_migrate_tells_what_it_cannot_read(folder: Folder) -> None:
    (folder.path / "broken.yaml").write_text("workflow: [")
    broken = folder.noetl("migrate", "broken.yaml")
    contradiction = folder.noetl("migrate", "web.yaml", "--write", "--check")
    document = json.loads(folder.noetl("migrate", "web.yaml", "--json").stdout)

    assert (broken.returncode, broken.stdout) == (2, "")
    assert "not a valid playbook" in broken.stderr
    assert contradiction.returncode == 2
    assert document["changed"] is True
    assert "the result of this http task" in document["left"][0]["message"]


@pytest.mark.spec("VAL-24")
def test_without_the_switch_none_of_it_is_silently_something_else(
    folder: Folder,
) -> None:
    for file in sorted(folder.path.glob("*.yaml")):
        done = folder.noetl("validate", "--strict", file.name)
        assert "classic" in done.stdout.replace(str(folder.path), ""), file.name
