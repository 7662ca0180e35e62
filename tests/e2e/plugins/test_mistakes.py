"""Plug-ins that are missing, not enabled, broken, or break their promises."""

from __future__ import annotations

import json

import pytest
from plugin_host import Host

DECLARED = """
from noetl.plugins import *
class Tool:
    instant = False
    def has_effect(self, call): return False
    async def run(self, call):
        {body}
    async def close(self): pass
PLUGIN = ToolPlugin(
    api={api}, make=Tool,
    kind=Kind(name="{name}", doc="D.", inputs={inputs}, result="R.", any_input=True),
)
"""
ACME = """
  - step: start
    tool: {name: a, kind: acme}
"""


def tool(
    body: str = "return Outcome.ok(1)",
    *,
    api: int = 1,
    name: str = "acme",
    inputs: str = "{}",
) -> str:
    return DECLARED.format(body=body, api=api, name=name, inputs=inputs)


def add_acme(host: Host, module: str) -> None:
    host.package("noetl-acme", module, tools="acme = noetl_acme:PLUGIN")
    host.environ["NOETL_PLUGINS"] = "noetl-acme"


@pytest.mark.spec("PIPE-21", "VAL-04")
def test_nothing_is_imported_that_is_not_enabled(host: Host) -> None:
    mark = host.folder / "imported"
    host.package(
        "noetl-acme",
        f"open({str(mark)!r}, 'w').close()\n" + tool(),
        tools="acme = noetl_acme:PLUGIN",
        secrets="acme_key = noetl_acme:PLUGIN",
        results="acme = noetl_acme:PLUGIN",
    )
    host.write(ACME, "keychain: [{name: k, kind: acme_key}]\n")

    validated = host.noetl("validate", "t.yaml")
    ran = host.noetl("run", "t.yaml", NOETL_RESULTS_URL="acme://x")
    doctor = host.noetl("doctor")

    hint = "noetl-acme provides it, but is not enabled: add it to the setting plugins"
    assert validated.stdout.count(hint) == 2
    assert "unknown tool kind 'acme'" in validated.stdout
    assert ran.returncode == 2
    assert hint in ran.stderr
    assert "not enabled, not imported: results acme" in doctor.stdout
    assert not mark.exists()


def test_a_store_that_is_not_enabled_is_named(host: Host) -> None:
    host.package("noetl-acme", "", results="acme = noetl_acme:PLUGIN")
    host.write("  - step: start\n    tool: {kind: noop}\n")

    done = host.noetl("run", "t.yaml", NOETL_RESULTS_URL="acme://x")

    assert done.returncode == 2
    assert done.stderr == (
        "noetl: results_url: unknown scheme 'acme:…'; noetl-acme provides it, "
        "but is not enabled: add it to the setting plugins (NOETL_PLUGINS=noetl-acme)\n"
    )


@pytest.mark.parametrize(
    ("enabled", "said"),
    [
        pytest.param("noetl-nobody", "no package of this name", id="not installed"),
        pytest.param("noetl-acmee", "did you mean 'noetl-acme'?", id="misspelt"),
        pytest.param(
            "acme", "acme is provided by the package 'noetl-acme'", id="a kind"
        ),
        pytest.param("click", "the package has no plug-in", id="no plug-in"),
        pytest.param("../x", "'../x' is not the name of a package", id="a path"),
    ],
)
def test_an_enabled_package_must_be_there(host: Host, enabled: str, said: str) -> None:
    add_acme(host, tool())
    host.write(ACME)

    done = host.noetl("validate", "t.yaml", NOETL_PLUGINS=enabled)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("noetl: NOETL_PLUGINS: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_the_file_and_the_line_of_the_setting_are_named(host: Host) -> None:
    host.home.mkdir()
    file = host.home / "config.toml"
    file.write_text('slots = 2\nplugins = ["Noetl_Nobody"]\n')

    done = host.noetl("schema")

    assert done.returncode == 2
    assert done.stderr.startswith(f"noetl: {file}:2: plug-in 'noetl-nobody' is enabled")


@pytest.mark.parametrize(
    ("module", "said"),
    [
        pytest.param(
            "import nowhere_to_be_found\n",
            "cannot be imported: ModuleNotFoundError: No module named",
            id="it raises",
        ),
        pytest.param("raise SystemExit(3)", "imported: SystemExit: 3", id="it exits"),
        pytest.param("", "has no attribute 'PLUGIN'", id="it has no such name"),
        pytest.param(
            tool(api=2),
            "is built for version 2 of the plug-in API, but this NoETL has version 1",
            id="another API",
        ),
        pytest.param(
            "PLUGIN = dict", "must be a ToolPlugin, but is a type", id="another type"
        ),
        pytest.param(
            tool(name="acmee"), "its kind has another name, 'acmee'", id="other name"
        ),
        pytest.param(
            tool(inputs="{'x': 'text'}"), "invalid declaration", id="wrong data"
        ),
        pytest.param(
            tool().replace("make=Tool", "make=1"), "make is not a", id="no factory"
        ),
    ],
)
def test_a_broken_plug_in_is_one_line(host: Host, module: str, said: str) -> None:
    add_acme(host, module)
    host.write(ACME)

    done = host.noetl("validate", "t.yaml")
    doctor = json.loads(host.noetl("doctor", "--json").stdout)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "noetl: NOETL_PLUGINS: plug-in noetl-acme 1.0, tool kind 'acme'"
    )
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    [found] = [c for c in doctor["checks"] if c["check"] == "plug-in noetl-acme"]
    assert found["status"] == "problem"
    assert said in found["message"]


@pytest.mark.parametrize("name", ["http", "timeout", "mode", "result", "Acme", "a-b"])
def test_a_name_that_means_something_else_is_refused(host: Host, name: str) -> None:
    host.package("noetl-acme", tool(name=name), tools=f"{name} = noetl_acme:PLUGIN")

    done = host.noetl("schema", NOETL_PLUGINS="noetl-acme")

    assert done.returncode == 2
    assert f"tool kind '{name}': the name" in done.stderr


def test_two_packages_with_one_name_are_both_named(host: Host) -> None:
    for package in ("noetl-one", "noetl-two"):
        module = package.replace("-", "_")
        host.package(package, tool(), tools=f"acme = {module}:PLUGIN")
    host.write(ACME)

    done = host.noetl("validate", "t.yaml", NOETL_PLUGINS="noetl-one,noetl-two")
    alone = host.noetl("validate", "t.yaml", NOETL_PLUGINS="noetl-two")

    assert done.returncode == 2
    assert done.stderr == (
        "noetl: NOETL_PLUGINS: tool kind 'acme' is provided by two plug-ins, noetl-one "
        "1.0 and noetl-two 1.0; enable one of them\n"
    )
    assert alone.returncode == 0


@pytest.mark.spec("OUT-01", "OUT-04", "PIPE-21")
@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("return {'ok': 1}", "tool.contract", "returned a dict, not an Outcome"),
        ("return Outcome('fine')", "tool.contract", "an Outcome of status 'fine'"),
        ("return Outcome('error')", "tool.contract", "status 'error' with a NoneType"),
        ("return Outcome.ok({'a': b'x'})", "tool.contract", "result.a is a bytes"),
        ("return Outcome.ok(float('nan'))", "tool.contract", "is nan"),
        (
            "raise ToolError('a b', 'x')",
            "tool.contract",
            "which is not a valid error kind",
        ),
        ("raise ToolError('acme.late', 'x')", "acme.late", "x"),
        ("raise RuntimeError('boom')", "tool.contract", "RuntimeError: boom"),
        ("raise SystemExit(3)", "tool.contract", "the tool called exit: 3"),
        ("raise TimeoutError('x')", "tool.contract", "TimeoutError: x"),
        (
            "import asyncio; await asyncio.sleep(600)",
            "timeout",
            "not done after 0.05 s: the call was stopped",
        ),
    ],
)
def test_whatever_a_tool_does_is_an_outcome(
    host: Host, body: str, kind: str, said: str
) -> None:
    add_acme(host, tool(body))
    host.write(
        "  - step: start\n    tool: {name: a, kind: acme, spec: {timeout: 50ms}}\n"
    )

    document = host.run()

    assert document["status"] == "failed"
    assert document["error"]["kind"] == kind
    assert said in document["error"]["message"]


def test_a_tool_that_cannot_be_made_stops_the_run(host: Host) -> None:
    add_acme(host, tool().replace("make=Tool", "make=lambda: 1 / 0"))
    host.write(ACME)

    done = host.noetl("run", "t.yaml")

    assert done.returncode == 2
    assert done.stderr == (
        "noetl: plug-in, tool kind 'acme': ZeroDivisionError: division by zero\n"
    )


@pytest.mark.spec("KEY-02", "KEY-07")
def test_an_exception_of_a_provider_is_not_shown(host: Host) -> None:
    host.package(
        "noetl-acme",
        """
        from noetl.plugins import *
        class Provider:
            async def get(self, wanted): raise RuntimeError("hunter2 is wrong")
        KIND = KeychainKind("Doc.", {})
        PLUGIN = SecretPlugin(api=1, kind=KIND, make=Provider)
        """,
        secrets="acme = noetl_acme:PLUGIN",
    )
    host.write(
        "  - step: start\n    tool: {kind: noop}\n",
        "keychain: [{name: k, kind: acme}]\n",
    )

    done = host.noetl("run", "t.yaml", NOETL_PLUGINS="noetl-acme")

    assert done.returncode == 2
    said = "the plug-in of kind acme failed with RuntimeError"
    assert said in done.stdout + done.stderr
    assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.spec("RES-07")
def test_a_store_that_returns_something_else_is_found_out(host: Host) -> None:
    host.package(
        "noetl-acme",
        """
        from noetl.plugins import *
        class Store:
            async def put(self, key, data): pass
            async def get(self, key): return b"something else"
        PLUGIN = ResultPlugin(api=1, make=lambda url: Store())
        """,
        results="acme = noetl_acme:PLUGIN",
    )
    host.environ |= {"NOETL_PLUGINS": "noetl-acme", "NOETL_RESULTS_URL": "acme:x"}
    host.write(
        "  - step: start\n"
        "    tool: {kind: python, code: 'result = [0] * 200_000'}\n"
        "    next: {arcs: [{step: on, args: {all: '{{ event.payload.result }}'}}]}\n"
        "  - step: on\n"
        "    tool: {kind: noop, result: '{{ args.all | length }}'}\n"
    )

    document = host.run()

    assert document["status"] == "failed"
    assert document["error"]["kind"] == "ref.corrupt"


def test_an_execution_does_not_go_on_without_its_plug_in(host: Host) -> None:
    add_acme(host, tool())
    host.write(
        "  - step: start\n"
        "    tool:\n"
        "      - {name: w, kind: wait, signal: go}\n"
        "      - {name: a, kind: acme}\n"
    )
    execution_id = host.left("task.suspended")

    without = host.noetl("resume", execution_id, NOETL_PLUGINS="")

    assert without.returncode == 2
    assert "unknown tool kind 'acme' (noetl-acme provides it" in without.stderr


@pytest.mark.spec("QNT-01")
@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("return 'fine'", "tool.contract", "provider acme answered 'j', 'fine'"),
        ("raise RuntimeError('x')", "tool.contract", "RuntimeError: x"),
        ("raise ToolError('acme.busy', 'wait')", "acme.busy", "wait"),
    ],
)
def test_a_quantum_provider_is_held_to_its_promises(
    host: Host, body: str, kind: str, said: str
) -> None:
    host.package(
        "noetl-acme",
        f"""
        from noetl.plugins import *
        class Provider:
            async def status(self, job, auth): {body}
            async def close(self): pass
        PLUGIN = QuantumPlugin(api=1, make=Provider)
        """,
        quantum="acme = noetl_acme:PLUGIN",
    )
    host.write(
        "  - step: start\n"
        "    tool: {kind: quantum, operation: status, provider: acme, job: j}\n"
    )

    without = host.run()["error"]
    document = host.run(NOETL_PLUGINS="noetl-acme")

    assert without["kind"] == "quantum.provider"
    assert "noetl-acme provides it, but is not enabled" in without["message"]
    assert document["error"]["kind"] == kind
    assert said in document["error"]["message"]
