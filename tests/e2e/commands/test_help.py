"""The front of the command line: help, version, and what they cost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

import noetl
from noetl import __version__
from noetl.clictl import COMMANDS

Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.spec("CLI-03")

HEAVY = (
    *("yaml", "jinja2", "jsonschema_rs"),
    *("noetl.dsl.parse", "noetl.templates", "noetl.adapters"),
)


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_every_command(noetl: Run, flag: str) -> None:
    done = noetl(flag)
    assert (done.returncode, done.stderr) == (0, "")
    for name, words in COMMANDS.items():
        assert name in done.stdout
        assert words.split(".")[0][:40] in " ".join(done.stdout.split())


@pytest.mark.parametrize(("verb", "code"), [("run", 2), ("--version", 0)])
def test_commands_that_start_tasks_name_the_system_they_need(
    verb: str, code: int
) -> None:
    program = "import sys; from noetl.clictl import main; sys.platform = 'darwin'; "
    arguments = [sys.executable, "-c", f"{program} main()", verb]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)

    assert done.returncode == code
    assert ("noetl run needs Linux, and this is darwin" in done.stderr) == bool(code)


def test_without_arguments_it_shows_help(noetl: Run) -> None:
    done = noetl()
    assert done.returncode == 2
    assert "validate" in done.stdout + done.stderr


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(noetl: Run, flag: str) -> None:
    done = noetl(flag)
    assert (done.returncode, done.stdout) == (0, f"noetl {__version__}\n")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_commands_help_has_an_example(noetl: Run, name: str) -> None:
    done = noetl(name, "--help")
    assert done.returncode == 0
    assert "Example" in done.stdout
    assert f"  noetl {name}" in done.stdout
    assert "--json" in done.stdout


def test_schema_prints_a_schema(noetl: Run) -> None:
    indented, line = noetl("schema"), noetl("schema", "--json")
    assert (indented.returncode, line.returncode) == (0, 0)
    assert json.loads(indented.stdout) == json.loads(line.stdout)
    assert line.stdout.count("\n") == 1
    assert json.loads(line.stdout)["$schema"].startswith("https://json-schema.org/")


def loaded_by(code: str) -> set[str]:
    """The heavy modules that a child process has after running the code."""
    report = f"\nimport sys; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code + report],
        capture_output=True,
        check=True,
        text=True,
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import noetl", id="import noetl"),
        pytest.param(
            "from noetl.clictl import noetl\nnoetl(['--help'], standalone_mode=False)",
            id="noetl --help",
        ),
        pytest.param(
            "from noetl.clictl import noetl\n"
            "noetl(['--version'], standalone_mode=False)",
            id="noetl --version",
        ),
    ],
)
def test_importing_noetl_is_cheap(code: str) -> None:
    assert loaded_by(code) == set()


def test_the_check_itself_can_fail() -> None:
    assert "yaml" in loaded_by("import noetl; noetl.load('a: 1')")


WAITING = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: a, path: a}
workflow:
  - step: start
    tool: {kind: wait, signal: goSCHEMA}
"""


@pytest.mark.parametrize("schema", ["", ", schema: {}"])
def test_json_schema_is_loaded_by_a_playbook_that_has_one(schema: str) -> None:
    text = WAITING.replace("SCHEMA", schema)
    loaded = loaded_by(f"import noetl; noetl.load({text!r})")
    assert ("jsonschema_rs" in loaded) == bool(schema)


def test_the_public_names_load_on_first_use() -> None:
    code = "import noetl; assert noetl.Playbook and noetl.Diagnostic and noetl.Loaded"
    assert "noetl.dsl.parse" in loaded_by(code)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = noetl.nothing
