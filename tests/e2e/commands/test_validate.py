"""``noetl validate``: exit codes, one JSON document, folders, standard input."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.spec("SRV-06")


def write(folder: Path, name: str, content: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return str(path)


def test_a_valid_playbook_exits_0(noetl: Run, tmp_path: Path, good: str) -> None:
    name = write(tmp_path, "p.yaml", good)
    done = noetl("validate", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{name}: valid: 1 step\n"


def test_an_invalid_playbook_exits_1(noetl: Run, tmp_path: Path, bad: str) -> None:
    name = write(tmp_path, "p.yaml", bad)
    done = noetl("validate", name)
    assert done.returncode == 1
    assert done.stdout == (
        f"{name}:6:26: error: arc to unknown step 'strat' [VAL-02 arc-target]\n"
        "    6 |     next: {arcs: [{step: strat}]}\n"
        "      |                          ^^^^^\n"
        "      = did you mean 'start'?\n"
        "\n"
        f"{name}: invalid: 1 error\n"
    )


def test_one_of_several_invalid_exits_1(
    noetl: Run, tmp_path: Path, good: str, bad: str
) -> None:
    names = [write(tmp_path, "a.yaml", good), write(tmp_path, "b.yaml", bad)]
    done = noetl("validate", *names)
    assert done.returncode == 1
    assert f"{names[0]}: valid" in done.stdout
    assert f"{names[1]}: invalid" in done.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        pytest.param(["validate"], "Missing argument", id="no path"),
        pytest.param(["validate", "nowhere.yaml"], "no such file", id="a missing file"),
        pytest.param(["validate", "x" * 300], "cannot be read", id="an endless name"),
        pytest.param(
            ["validate", "/etc/hostname/x.yaml"], "cannot be read", id="below a file"
        ),
        pytest.param(["validate", "--fix", "x"], "No such option", id="an option"),
        pytest.param(["validat", "x"], "Did you mean 'validate'?", id="a typing error"),
        pytest.param(["zzz"], "unknown command 'zzz'", id="an unknown command"),
        pytest.param(
            ["validate", "--extensions", "lgacy", "-"], "legacy?", id="an extension"
        ),
        pytest.param(
            ["validate", "--extensions", "a b", "-"], "'a b'", id="no extension name"
        ),
    ],
)
def test_a_wrong_call_exits_2_with_one_sentence(
    noetl: Run, args: list[str], said: str
) -> None:
    done = noetl(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_cannot_be_read_exits_2(noetl: Run, tmp_path: Path) -> None:
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    done = noetl("validate", str(loop))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"noetl: {loop}: cannot be read: ")


def test_a_wrong_call_prints_no_json(noetl: Run) -> None:
    done = noetl("validate", "--json", "nowhere.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "noetl: nowhere.yaml: no such file\n"


def test_json_is_one_document_of_the_agreed_shape(
    noetl: Run, tmp_path: Path, good: str, bad: str
) -> None:
    names = [write(tmp_path, "a.yaml", good), write(tmp_path, "b.yaml", bad)]
    done = noetl("validate", "--json", *names)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count("\n") == 1
    document = json.loads(done.stdout)
    first, second = document["files"]
    assert (first["file"], first["valid"], first["diagnostics"]) == (names[0], True, [])
    assert (second["file"], second["valid"]) == (names[1], False)
    assert second["diagnostics"] == [
        {
            "code": "VAL-02",
            "rule": "arc-target",
            "severity": "error",
            "message": "arc to unknown step 'strat'",
            "path": "workflow[0].next.arcs[0].step",
            "line": 6,
            "column": 26,
            "hint": "did you mean 'start'?",
        }
    ]


def test_json_reports_every_problem_in_one_pass(noetl: Run) -> None:
    text = (
        "apiVersion: noetl.io/v1\n"
        "kind: Playbook\n"
        "metadata: {name: t}\n"
        "workflow:\n"
        "  - step: start\n"
        "    when: x\n"
        "    tool: {kind: pithon}\n"
        "    next: [{step: a}]\n"
        "  - step: start\n"
        "    tool: {kind: http, ulr: x}\n"
    )
    [file] = json.loads(noetl("validate", "--json", "-", stdin=text).stdout)["files"]
    found = [(each["code"], each["line"]) for each in file["diagnostics"]]
    assert found == [
        ("VAL-07", 1),
        ("VAL-07", 3),
        ("VAL-08", 6),
        ("VAL-04", 7),
        ("VAL-13", 8),
        ("VAL-01", 9),
        ("S-50", 10),
        ("S-50", 10),
    ]


def test_standard_input(noetl: Run, good: str, bad: str) -> None:
    done = noetl("validate", "-", stdin=good)
    assert (done.returncode, done.stdout) == (0, "<stdin>: valid: 1 step\n")
    assert noetl("validate", "-", stdin=bad).returncode == 1
    assert noetl("validate", "-", stdin="").returncode == 1


def test_folders_check_playbooks_and_count_the_rest(
    noetl: Run, tmp_path: Path, good: str, bad: str
) -> None:
    write(tmp_path, "a.yaml", good)
    write(tmp_path, "deep/er/b.yml", bad)
    write(tmp_path, "quoted.yaml", good.replace("kind: Playbook", '"kind": "Playbook"'))
    write(tmp_path, "comment.yaml", "# hello\n---\n" + good)
    write(tmp_path, "bom.yaml", "\ufeff" + good)
    write(tmp_path, "flow.yaml", '{\n  "apiVersion": "noetl.io/v2"\n}\n')
    write(tmp_path, "broken.yaml", "kind: Playbook\na: [\n")
    write(tmp_path, "indented.yaml", "\n".join("  " + x for x in good.splitlines()))
    write(tmp_path, "compose.yaml", "services: {}\n")
    write(tmp_path, "nested.yaml", "job:\n  kind: Playbook\n")
    write(tmp_path, "other.yaml", "apiVersion: v1\nkind: PlaybookRun\n")
    write(tmp_path, "notes.txt", good)
    done = noetl("validate", "--json", str(tmp_path))
    document = json.loads(done.stdout)
    names = [Path(each["file"]).name for each in document["files"]]
    assert names == [
        "a.yaml",
        "bom.yaml",
        "broken.yaml",
        "comment.yaml",
        "b.yml",
        "flow.yaml",
        "indented.yaml",
        "quoted.yaml",
    ]
    assert document["skipped"] == 3
    assert done.returncode == 1
    assert "skipped 3 YAML files that are not playbooks" in (
        noetl("validate", str(tmp_path)).stdout
    )


def test_a_folder_of_white_space_is_skipped_at_once(noetl: Run, tmp_path: Path) -> None:
    # Each of these once took the search for the two keys minutes.
    write(tmp_path, "lines.yaml", "\n" * 500_000)
    write(tmp_path, "spaces.yaml", " " * 500_000)
    write(tmp_path, "comments.yaml", "#\n" * 250_000)
    document = json.loads(noetl("validate", "--json", str(tmp_path)).stdout)
    assert document == {"files": [], "skipped": 3}


def test_a_folder_without_playbooks(noetl: Run, tmp_path: Path) -> None:
    done = noetl("validate", str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "no playbooks found\n"
    document = json.loads(noetl("validate", "--json", str(tmp_path)).stdout)
    assert document == {"files": [], "skipped": 0}


def test_a_named_file_is_checked_whatever_it_is(noetl: Run, tmp_path: Path) -> None:
    name = write(tmp_path, "compose.yaml", "services: {}\n")
    assert noetl("validate", name).returncode == 1


def test_strict_turns_warnings_into_errors(noetl: Run, good: str) -> None:
    text = good.replace("    tool: {kind: noop}\n", "")
    lenient = noetl("validate", "-", stdin=text)
    strict = noetl("validate", "--strict", "-", stdin=text)
    assert (lenient.returncode, strict.returncode) == (0, 1)
    assert ": warning: " in lenient.stdout
    assert ": error: " in strict.stdout
    assert "<stdin>: valid: 1 step, 1 warning\n" in lenient.stdout


@pytest.mark.spec("S-01")
def test_extensions_by_flag_and_by_environment(noetl: Run, good: str) -> None:
    text = good + "    sink: {kind: noop}\n"
    assert noetl("validate", "-", stdin=text).returncode == 1
    by_flag = noetl("validate", "--extensions", "legacy", "-", stdin=text)
    by_setting = noetl("validate", "-", stdin=text, NOETL_EXTENSIONS="legacy,classic")
    assert (by_flag.returncode, by_setting.returncode) == (0, 0)
    assert "[S-01 dialect]" in by_flag.stdout
    assert by_flag.stdout == by_setting.stdout
    wrong = noetl("validate", "-", stdin=text, NOETL_EXTENSIONS="leagcy")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("noetl: NOETL_EXTENSIONS: unknown extension")


@pytest.mark.spec("C-03")
def test_an_extra_root_key_by_flag(noetl: Run, good: str) -> None:
    text = good + "x_team: sales\n"
    assert noetl("validate", "-", stdin=text).returncode == 1
    done = noetl("validate", "--extensions", " legacy , x_team ,", "-", stdin=text)
    assert done.returncode == 0


@pytest.mark.spec("SRV-07")
def test_canonical_prints_yaml_and_nothing_else(noetl: Run, good: str) -> None:
    done = noetl("validate", "--canonical", "-", stdin=good)
    assert done.returncode == 0
    assert done.stdout.startswith("apiVersion: noetl.io/v2\nkind: Playbook\n")
    assert "- task_1:\n" in done.stdout
    assert done.stderr == "<stdin>: valid: 1 step\n"
    again = noetl("validate", "--canonical", "-", stdin=done.stdout)
    assert again.stdout == done.stdout


@pytest.mark.spec("SRV-07")
def test_canonical_in_json(noetl: Run, good: str) -> None:
    done = noetl("validate", "--canonical", "--json", "-", stdin=good)
    [file] = json.loads(done.stdout)["files"]
    assert file["canonical"]["workflow"] == [
        {"step": "start", "tool": [{"task_1": {"kind": "noop"}}]}
    ]
    assert len(file["sha256"]) == 64


def test_canonical_of_an_invalid_playbook_prints_none(noetl: Run, bad: str) -> None:
    done = noetl("validate", "--canonical", "-", stdin=bad)
    assert (done.returncode, done.stdout) == (1, "")
    assert "arc to unknown step" in done.stderr


def test_canonical_needs_one_file(noetl: Run, tmp_path: Path, good: str) -> None:
    names = [write(tmp_path, name, good) for name in ("a.yaml", "b.yaml")]
    assert noetl("validate", "--canonical", *names).returncode == 2


def test_a_file_name_with_bytes_and_escapes(
    noetl: Run, tmp_path: Path, bad: str
) -> None:
    odd = os.fsdecode(b"odd\xff\x1b[31m.yaml")
    (tmp_path / odd).write_text(bad)
    done = noetl("validate", str(tmp_path))
    assert done.returncode == 1
    assert "odd\ufffd\ufffd[31m.yaml:6:26: error" in done.stdout
    assert "\x1b" not in done.stdout
    document = noetl("validate", "--json", str(tmp_path))
    assert len(json.loads(document.stdout)["files"]) == 1


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("tests/dayly", "did you mean 'tests/daily'?"),
        ("tests/daily", None),
        ("other/thing", None),
        ("{{ workload.dayly }}", None),
    ],
)
def test_a_child_path_is_compared_with_the_playbooks_of_the_folder(
    noetl: Run, tmp_path: Path, good: str, path: str, hint: str | None
) -> None:
    write(tmp_path, "deep/daily.yaml", good.replace("tests/t", "tests/daily"))
    call = f"{{kind: playbook, path: {path!r}}}"
    parent = write(tmp_path, "parent.yaml", good.replace("{kind: noop}", call))

    done = noetl("validate", "--json", parent)
    [file] = json.loads(done.stdout)["files"]
    found = [each for each in file["diagnostics"] if each["rule"] == "child-path"]

    assert file["valid"]
    assert [each["hint"] for each in found] == ([] if hint is None else [hint])
    assert all((each["severity"], each["line"]) == ("hint", 6) for each in found)
