"""``noetl config``, and settings that reach the commands they are for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
HELLO = HEAD + "workflow:\n  - step: start\n    tool: {kind: noop}\n"


def noetl(
    *args: str, cwd: Path | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "noetl", *args]
    clean = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environ}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=clean, cwd=cwd
    )


def test_it_prints_each_value_with_its_origin(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text('home = "data"\n')
    done = noetl("--config", str(file), "config", "--json", NOETL_SLOTS="4")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["file"] == str(file)
    assert (
        document["settings"]
        | {
            "home": {
                "value": str(tmp_path / "data"),
                "origin": "file",
                "place": f"{file}:1",
                "secret": False,
            },
            "extensions": {
                "value": [],
                "origin": "default",
                "place": None,
                "secret": False,
            },
            "slots": {
                "value": 4,
                "origin": "environment",
                "place": "NOETL_SLOTS",
                "secret": False,
            },
        }
        == document["settings"]
    )


def test_text_output_has_a_line_for_each(tmp_path: Path) -> None:
    done = noetl("config", NOETL_HOME=str(tmp_path), NOETL_SLOT="3")
    assert done.returncode == 0
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["home", str(tmp_path), "environment", "NOETL_HOME"],
        ["extensions", "-", "default"],
        ["slots", "16", "default"],
        ["plugins", "-", "default"],
        ["results_url", "-", "default"],
        ["host", "127.0.0.1", "default"],
        ["port", "8082", "default"],
        ["hosts", "-", "default"],
        ["behind_proxy", "False", "default"],
        ["server", "-", "default"],
        ["token", "-", "default"],
        *[[name, "-", "default"] for name in ("database", "database_owner")],
        ["database_timeout", "30.0", "default"],
        ["nats", "-", "default"],
        ["nats_replicas", "1", "default"],
        *[[name, "-", "default"] for name in ("nats_ca", "nats_cert")],
        *[[name, "-", "default"] for name in ("nats_key", "nats_buckets")],
        ["lease_ttl", "30.0", "default"],
        ["start_rate", "500", "default"],
        ["family_limit", "10000", "default"],
        ["answer_links", "False", "default"],
        ["worker_proxy", "-", "default"],
        ["files_roots", ",".join(sorted([os.getcwd(), str(tmp_path)])), "default"],
        ["network_private", "allow", "default"],
        ["isolation", "auto", "default"],
        ["isolation_network", "False", "default"],
        ["limits_memory", "none", "default"],
        ["limits_processes", "1024", "default"],
        ["pools_code", "*", "default"],
        ["limits_tool_time", "86400.0", "default"],
        ["limits_execution_events", "10000000", "default"],
        *[[name, "-", "default"] for name in ("limits_executions", "retention")],
        *[[name, "-", "default"] for name in ("archive_url", "retention_audit")],
        *[[name, "-", "default"] for name in ("proxies", "tls_cert")],
        *[[name, "-", "default"] for name in ("tls_key", "ca", "keychain_key")],
        *[[name, "-", "default"] for name in ("public_url", "oidc_issuer")],
        *[[f"oidc_client_{name}", "-", "default"] for name in ("id", "secret")],
        ["oidc_roles_claim", "roles", "default"],
        ["oidc_roles", "-", "default"],
        ["log_level", "info", "default"],
        ["log_format", "text", "default"],
        *[[name, "-", "default"] for name in ("otlp_endpoint", "otlp_headers")],
        ["otlp_signals", "logs,traces", "default"],
        ["clickhouse_url", "-", "default"],
    ]
    assert done.stderr == (
        "warning: NOETL_SLOT sets nothing; did you mean NOETL_SLOTS?\n"
    )


def test_the_home_of_a_configuration_file_is_where_a_run_goes(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('home = "data"\nslots = 1\n')
    (tmp_path / "p.yaml").write_text(HELLO)
    done = noetl("--config", "my.toml", "run", "p.yaml", cwd=tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "data" / "log.db").exists()
    found = noetl("list", "--json", NOETL_CONFIG=str(tmp_path / "my.toml"))
    assert len(json.loads(found.stdout)["executions"]) == 1


@pytest.mark.spec("S-01")
def test_an_extension_of_the_home_holds_for_every_playbook(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('extensions = ["lgacy"]\n')
    (tmp_path / "p.yaml").write_text(HELLO)
    done = noetl("validate", str(tmp_path / "p.yaml"), NOETL_HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"noetl: {tmp_path}/config.toml:1: extensions: "
        "unknown extension 'lgacy' (legacy?)\n"
    )


@pytest.mark.spec("S-01")
def test_slots_bound_what_runs_at_once(tmp_path: Path) -> None:
    """With one slot the second iteration starts after the first has ended."""
    (tmp_path / "p.yaml").write_text(
        HEAD + "workflow:\n"
        "  - step: each\n"
        "    loop:\n"
        '      in: "{{ range(6) }}"\n'
        "      iterator: i\n"
        "      spec: {mode: parallel, max_in_flight: 6}\n"
        "    tool: {kind: shell, command: 'true'}\n"
    )
    environ = {"NOETL_HOME": str(tmp_path / "home")}
    done = noetl("run", str(tmp_path / "p.yaml"), "--json", NOETL_SLOTS="1", **environ)
    name = json.loads(done.stdout)["execution_id"]
    lines = noetl("events", name, "--json", **environ).stdout.splitlines()
    names = [json.loads(line)["name"] for line in lines]
    tasks = [name for name in names if name in ("task.started", "task.done")]
    assert tasks == ["task.started", "task.done"] * 6


@pytest.mark.parametrize(
    ("args", "environ", "said"),
    [
        (["--config", "/nowhere"], {}, "'/nowhere' does not exist"),
        ([], {"NOETL_CONFIG": "/nowhere"}, "/nowhere: cannot be read"),
        ([], {"NOETL_SLOTS": "x"}, "NOETL_SLOTS: expected a whole number"),
        ([], {"NOETL_HOME": "~nobody-here/x"}, "NOETL_HOME: this user has no home"),
    ],
)
def test_a_wrong_setting_exits_2(
    args: list[str], environ: dict[str, str], said: str
) -> None:
    done = noetl(*args, "config", "--json", **environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
