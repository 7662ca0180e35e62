"""What authors see before anything runs: schema, forms, reviews and test runs."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from noetl.adapters.processes.limits import clean_environment
from noetl.dsl.grammar.schema import playbook_schema
from noetl.dsl.input_form import InputForm, make_form
from noetl.dsl.load import Loaded
from noetl.dsl.model import Playbook
from noetl.dsl.tool_kinds import Kinds
from noetl.net.checks import analyse
from noetl.net.draw.picture import Picture, make_picture
from noetl.net.finding import Finding
from noetl.net.net import build_net
from noetl.service.catalog import CatalogService
from noetl.service.errors import RequestRefused
from noetl.testing.parse import parse_suite
from noetl.types import JSON

CPU_SECONDS = 5
REAL_SECONDS = 30.0
MEMORY_BYTES = 1024**3
AT_ONCE = 2
"""Test runs of one server at the same time; others wait."""
NICENESS = 10
"""The processor is for the server first."""
_PLAYBOOK, _SUITE = "playbook.yaml", "playbook.test.yaml"
_PASSED = ("NOETL_HOME", "NOETL_CONFIG", "NOETL_PLUGINS")
"""Variables by which the process finds the plug-ins of this server."""


class Wanted(msgspec.Struct, frozen=True):
    """Parts of a review besides the diagnostics."""

    verify: bool = False
    graph: bool = False
    form: bool = False


class Review(msgspec.Struct, frozen=True):
    """Findings about the net, its drawing, and the form of the inputs; a part
    is None if the request did not ask for it or if the text is invalid."""

    findings: list[Finding] | None = None
    graph: Picture | None = None
    form: InputForm | None = None


class Authoring:
    """Reviews texts on a thread, one at a time."""

    def __init__(self, playbooks: CatalogService, kinds: Kinds) -> None:
        self._playbooks = playbooks
        self._kinds = kinds
        self._schema: bytes | None = None
        self._one_at_a_time = asyncio.Lock()

    def schema(self) -> bytes:
        """Return the JSON Schema of playbooks with the installed tool kinds."""
        if self._schema is None:
            self._schema = msgspec.json.encode(playbook_schema(self._kinds))
        return self._schema

    async def form(self, path: str, version: str | None) -> InputForm:
        """Return the form of a registered version. Raises ``RequestRefused``."""
        found = await self._playbooks.show(path, version)
        loaded = await self._playbooks.validate(found.source)
        if loaded.playbook is None:
            message = (
                f"'{path}' is invalid, so its inputs have no form; "
                "its errors: noetl validate"
            )
            raise RequestRefused("playbook.invalid", message)
        form = await asyncio.to_thread(make_form, loaded.playbook, found.source)
        # A version that the catalog has numbered is not in the text.
        return msgspec.structs.replace(form, version=found.registered.version)

    async def review(self, loaded: Loaded, text: str, wanted: Wanted) -> Review:
        """Return the wanted parts for a text that was validated."""
        if loaded.playbook is None:
            return Review()
        async with self._one_at_a_time:
            return await asyncio.to_thread(
                _review, loaded.playbook, loaded, text, wanted
            )


def _review(playbook: Playbook, loaded: Loaded, text: str, wanted: Wanted) -> Review:
    net = build_net(playbook) if wanted.verify or wanted.graph else None
    known = {(each.line, each.column) for each in loaded.diagnostics}
    findings = graph = None
    if net is not None and wanted.verify:
        findings = [
            each for each in analyse(net) if (each.line, each.column) not in known
        ]
    if net is not None and wanted.graph:
        graph = make_picture(net, "")
    form = make_form(playbook, text) if wanted.form else None
    return Review(findings, graph, form)


class Verdict(msgspec.Struct):
    """The result of one case; ``message`` is its first difference."""

    name: str
    verdict: str
    message: str | None
    ms: float
    line: int


class Tested(msgspec.Struct):
    """Results of a test run. ``diagnostics`` say why the file ``suite`` or ``playbook``
    cannot be read; then no case has run."""

    passed: int
    failed: int
    tests: list[Verdict]
    diagnostics: list[dict[str, JSON]]
    coverage: dict[str, JSON]


class Suites:
    """Runs ``noetl test`` without Python code, on a folder of its own."""

    def __init__(self, extensions: frozenset[str]) -> None:
        self._extensions = extensions
        self._free = asyncio.Semaphore(AT_ONCE)

    async def run(self, playbook: str, suite: str, only: str | None) -> Tested:
        """Return the results. Raises ``RequestRefused`` for a suite that names another
        file, and for tests that need too long."""
        parsed, _ = await asyncio.to_thread(parse_suite, suite)
        if parsed is not None and parsed.playbook is not None:
            # Its folder is the server's: nothing else may be read.
            message = "a test file that is sent names no playbook"
            hint = "remove the key 'playbook'"
            raise RequestRefused("request.invalid", message, hint)
        async with self._free:
            return await asyncio.to_thread(self._run, playbook, suite, only)

    def _run(self, playbook: str, suite: str, only: str | None) -> Tested:
        with TemporaryDirectory(prefix="noetl-tests-") as name:
            folder = Path(name)
            (folder / _PLAYBOOK).write_text(playbook, encoding="utf-8")
            (folder / _SUITE).write_text(suite, encoding="utf-8")
            output = _answer_of(self._command(folder / _SUITE, only), folder)
        try:
            document: dict[str, JSON] = msgspec.json.decode(output)
        except msgspec.DecodeError:
            message = output.decode("utf-8", "replace").strip()[-500:]
            raise RequestRefused("request.invalid", message or "no result") from None
        return _tested(document)

    def _command(self, file: Path, only: str | None) -> list[str]:
        command = [sys.executable, "-m", "noetl", "test", "--json", "--coverage"]
        command += ["--no-code", str(file)]
        if only:
            command += ["-k", only]
        if self._extensions:
            command += ["--extensions", ",".join(sorted(self._extensions))]
        return command


def _answer_of(command: Sequence[str], folder: Path) -> bytes:
    """Return what the process wrote. Raises ``RequestRefused`` if it was too slow."""
    environment = clean_environment()
    for name in _PASSED:
        if name in os.environ:
            environment[name] = os.environ[name]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        _limit(process.pid)
        try:
            output, errors = process.communicate(timeout=REAL_SECONDS)
        except subprocess.TimeoutExpired:
            raise _too_slow() from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise _too_slow()
    return output or errors


def _limit(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
        resource.prlimit(pid, resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
        resource.prlimit(pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _too_slow() -> RequestRefused:
    message = f"the tests need more than {CPU_SECONDS} s"
    hint = "run them on the command line: noetl test FILE"
    return RequestRefused("request.invalid", message, hint)


def _tested(document: dict[str, JSON]) -> Tested:
    [file] = document["files"]
    tests = [
        Verdict(
            case["name"],
            "passed" if case["passed"] else "failed",
            next((each["message"] for each in case["differences"]), None),
            case["duration_ms"],
            case["line"],
        )
        for case in file["cases"]
    ]
    diagnostics = [
        {**each, "file": "playbook" if each["file"].endswith(_PLAYBOOK) else "suite"}
        for each in file["diagnostics"]
    ]
    passed, failed = document["passed"], document["failed"]
    return Tested(passed, failed, tests, diagnostics, document["coverage"])
