"""The measurement of branches: its parts, its figures and its exceptions."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def scripts() -> dict[str, ModuleType]:
    names = ("coverage_figures", "coverage_page", "measure_coverage")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        return {name: importlib.import_module(name) for name in names}


def test_each_test_file_belongs_to_one_part(scripts: dict[str, ModuleType]) -> None:
    parts = scripts["measure_coverage"].find_parts()
    files = [file for part in parts for file in part.files]

    assert sorted(files) == sorted((ROOT / "tests").rglob("test_*.py"))
    assert len({part.name for part in parts}) == len(parts)


def test_a_part_is_stale_after_a_change_of_what_it_measures(
    scripts: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = scripts["measure_coverage"]
    monkeypatch.setattr(module, "STATE", tmp_path)
    file = tmp_path / "test_it.py"
    file.write_text("pass")
    part, sources = module.Part("it", [file]), {"a.py": "1"}
    assert not part.is_fresh(sources)
    record = module.json.dumps({"sources": sources, "tests": part.digest()})
    (tmp_path / "it.json").write_text(record)

    assert part.is_fresh(sources)
    assert not part.is_fresh({"a.py": "2"})
    file.write_text("pass  # changed")
    assert not part.is_fresh(sources)


@pytest.mark.parametrize(
    ("missed", "share"), [(0, 100.0), (1, 99.99), (20_000, 0.0)], ids=str
)
def test_a_percentage_is_rounded_down(
    scripts: dict[str, ModuleType], missed: int, share: float
) -> None:
    assert scripts["coverage_figures"].Count(20_000, missed, 0, 0).line_share == share


def test_an_area_below_its_bound_is_reported(
    scripts: dict[str, ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    module = scripts["coverage_figures"]
    areas = [module.Area("engine", ("engine/",), 100)]
    whole = module.File(module.Count(10, 0, 4, 0), [])
    part = module.File(module.Count(10, 0, 4, 1), ["7->9"])

    assert not module.report(areas, {"engine/a.py": whole, "api/a.py": part})
    assert module.report(areas, {"engine/a.py": whole, "engine/b.py": part})
    told = capsys.readouterr().err
    assert told == "coverage: engine: below 100 %: 0 lines, 1 branches\n"


def test_an_exception_has_a_reason(
    scripts: dict[str, ModuleType], tmp_path: Path
) -> None:
    module = scripts["coverage_figures"]
    mark = "# pragma: no cover"
    (tmp_path / "a.py").write_text(f"def f():  {mark}: another system only\n    pass\n")

    found = module.find_exceptions(tmp_path)
    assert found == [("a.py", "def f():", "another system only")]
    (tmp_path / "a.py").write_text(f"def f():  {mark}\n    pass\n")
    with pytest.raises(SystemExit, match=r"a.py:1: the exception has no reason"):
        module.find_exceptions(tmp_path)
    assert all(reason for _, _, reason in module.find_exceptions())
