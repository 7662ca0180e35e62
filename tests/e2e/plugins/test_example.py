"""The example package does what it says, in every command that knows kinds."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from plugin_host import EXAMPLE, Host

TITLES = """
  - step: start
    tool: {name: address, kind: slug, text: A Café in Spring}
"""


def test_its_own_tests_pass(example: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(
        command,
        cwd=EXAMPLE,
        env={**os.environ, "PYTHONPATH": str(example), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout


@pytest.mark.spec("PIPE-21", "VAL-04")
def test_a_tool_kind_runs_like_those_that_are_built_in(plugged: Host) -> None:
    plugged.write(TITLES)

    document = plugged.run()

    assert document["status"] == "completed"
    assert document["result"] == {"slug": "a-cafe-in-spring", "words": 4}


@pytest.mark.spec("PIPE-21", "S-50")
def test_its_inputs_and_knobs_are_checked_before_anything_runs(
    plugged: Host,
) -> None:
    plugged.write(
        "  - step: start\n"
        "    tool: {name: a, kind: slug, txt: x, separator: '+',"
        " spec: {max_length: 999}}\n"
    )

    done = plugged.noetl("validate", "t.yaml", "--json")

    [file] = json.loads(done.stdout)["files"]
    messages = [found["message"] for found in file["diagnostics"]]
    assert "kind slug needs the input 'text'" in messages
    assert "kind slug has no input 'txt'" in messages
    assert any("one of -, _" in message for message in messages)
    assert any("max_length" in message for message in messages)


@pytest.mark.spec("PIPE-21", "SPEC-02", "S-52")
def test_its_knobs_come_down_from_the_executor(plugged: Host) -> None:
    plugged.write(TITLES, "executor: {spec: {slug: {max_length: 6}}}\n")

    assert plugged.run()["result"]["slug"] == "a-cafe"


@pytest.mark.spec("PIPE-21", "OUT-04")
def test_its_own_error_kinds_reach_the_policy(plugged: Host) -> None:
    plugged.write("""
  - step: start
    tool:
      - name: a
        kind: slug
        text: "…"
        spec:
          policy:
            rules:
              - when: "{{ outcome.error.kind == 'slug.empty' }}"
                then: {do: continue}
              - else: {then: {do: fail}}
      - name: b
        kind: noop
        result: went on
""")

    assert plugged.run()["result"] == "went on"


def test_editors_tests_and_pictures_know_the_kind(plugged: Host) -> None:
    plugged.write(TITLES)
    (plugged.folder / "t.test.yaml").write_text(
        "cases:\n"
        "  - name: scripted\n"
        "    tasks: {start.address: {result: {slug: x}}}\n"
        "    expect: {status: completed, result: {slug: x}}\n"
    )

    schema = json.loads(plugged.noetl("schema").stdout)
    tested = plugged.noetl("test", "t.yaml")

    properties = schema["$defs"]["task_slug"]["properties"]
    assert properties["text"]["description"] == "The text."
    assert (tested.returncode, tested.stderr) == (0, ""), tested.stdout
    assert plugged.noetl("graph", "t.yaml").returncode == 0
    assert plugged.noetl("verify", "t.yaml").returncode == 0


@pytest.mark.spec("KEY-02", "KEY-04")
def test_a_secret_of_a_keychain_kind_is_used_and_never_logged(
    plugged: Host,
) -> None:
    (plugged.folder / ".env").write_text("SHOP_TOKEN=very-secret-indeed\n")
    plugged.write(
        "  - step: start\n"
        "    tool: {kind: python, args: {t: '{{ keychain.shop }}'},"
        " code: 'result = len(t)'}\n",
        "keychain: [{name: shop, kind: dotenv, variable: SHOP_TOKEN}]\n",
    )

    document = plugged.run()

    assert document["result"] == len("very-secret-indeed")
    log = plugged.noetl("events", document["execution_id"], "--json").stdout
    assert "very-secret-indeed" not in log


@pytest.mark.spec("KEY-01", "KEY-02")
def test_fields_of_a_keychain_kind_are_checked(plugged: Host) -> None:
    root = "keychain: [{name: shop, kind: dotenv, varable: SHOP_TOKEN}]\n"
    plugged.write(TITLES, root)

    done = plugged.noetl("validate", "t.yaml")

    assert "keychain kind dotenv does not read 'varable'" in done.stdout
    assert "did you mean 'variable'?" in done.stdout


@pytest.mark.spec("RES-02", "S-48")
def test_large_results_go_to_the_store_and_come_back(plugged: Host) -> None:
    file = plugged.folder / "results.db"
    plugged.environ["NOETL_RESULTS_URL"] = f"sqlite://{file}"
    plugged.write(
        "  - step: start\n"
        "    tool: {kind: python, code: 'result = [0] * 200_000'}\n"
        "    next: {arcs: [{step: on, args: {all: '{{ event.payload.result }}'}}]}\n"
        "  - step: on\n"
        "    tool: {kind: noop, result: '{{ args.all | length }}'}\n"
    )

    document = plugged.run()

    assert (document["status"], document["result"]) == ("completed", 200_000)
    with sqlite3.connect(file) as database:
        [(size,)] = database.execute("SELECT max(length(data)) FROM results").fetchall()
    assert size >= 400_000
    assert not (plugged.home / "results").exists()

    alone = plugged.noetl("clean")
    old = plugged.noetl("clean", "--older-than", "0s")

    assert (alone.returncode, "cannot be listed" in alone.stderr) == (2, True)
    assert (old.returncode, old.stdout.split(",")[0]) == (0, "removed 1 execution")
    assert "kept all results: " in old.stderr
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT count(*) FROM results").fetchone() > (0,)


def test_the_readme_shows_a_playbook_that_runs(plugged: Host) -> None:
    text = (EXAMPLE / "README.md").read_text()
    [playbook] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (plugged.folder / "t.yaml").write_text(playbook)
    (plugged.folder / ".env").write_text("SHOP_TOKEN=very-secret-indeed\n")

    assert plugged.run()["result"]["slug"] == "a-cafe-in-spring"


def test_the_doctor_and_the_settings_name_it(plugged: Host) -> None:
    doctor = json.loads(plugged.noetl("doctor", "--json").stdout)
    settings = json.loads(plugged.noetl("config", "--json").stdout)["settings"]

    [found] = [
        each
        for each in doctor["checks"]
        if each["check"] == "plug-in noetl-example-plugin"
    ]
    assert found["status"] == "ok"
    assert found["message"] == (
        "0.1.0, enabled: secrets dotenv, tools slug, results sqlite"
    )
    assert settings["plugins"]["value"] == ["noetl-example-plugin"]


def test_the_how_to_shows_plug_ins_that_load(host: Host) -> None:
    text = (EXAMPLE.parents[1] / "docs/how-to/write-a-plug-in.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    page = EXAMPLE.parents[1] / "docs/profiles/quantum.md"
    blocks += re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    groups = {"tools": "slug", "secrets": "acme", "results": "acme", "keys": "acme"}
    groups["quantum"] = "acme"
    for block, (group, name) in zip(blocks, groups.items(), strict=True):
        entry = f"{name} = noetl_{group}:PLUGIN"
        host.package(f"noetl-{group}", block, **{group: entry})
    host.environ |= {
        "NOETL_PLUGINS": ",".join(f"noetl-{group}" for group in groups),
        "NOETL_RESULTS_URL": "acme://here",
    }
    host.write(
        "  - step: start\n"
        "    tool:\n"
        "      - {name: a, kind: slug, text: A B}\n"
        "      - {name: b, kind: quantum, operation: run, provider: acme,"
        " circuit: '{{ _prev.slug }}', shots: 5}\n",
        "keychain: [{name: door, kind: acme}]\n",
    )

    assert host.run()["result"]["counts"] == {"0": 5}
