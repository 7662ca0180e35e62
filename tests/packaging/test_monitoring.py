"""Dashboard, alert rules and the page on metrics name metrics that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from noetl.api.http.quotas import Connections, Quotas, limits_for
from noetl.api.metrics import Metrics

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy/monitoring/alerts.yaml"
DASHBOARD = ROOT / "deploy/monitoring/dashboard.json"
PAGE = ROOT / "docs/reference/metrics.md"


def known() -> dict[str, str]:
    """All metrics of a server and their types, by their names in Prometheus."""
    metrics = Metrics()
    metrics.watch_load(Connections(9, 9), Quotas.of(limits_for(1_000)))
    metrics.watch_executions(Orchestrator(), [])
    metrics.watch_wakeups(lambda: 0.0)
    found = re.findall(r"^# TYPE (\w+) (\w+)$", metrics.text().decode(), re.MULTILINE)
    return {name: kind for name, kind in found if not name.endswith("_created")}


class Orchestrator:
    """As much of an orchestrator as metrics read."""

    def __init__(self) -> None:
        self.cache: dict[str, Any] = {}
        self.sweep = self
        self.stalls = self

    def watch(self, note: object) -> None: ...

    def age(self) -> float:
        return 0.0

    late = 0.0
    count = 0


def named_in(text: str) -> set[str]:
    """The metrics that an expression names; a histogram counts under its own name."""
    kinds = known()
    found = set()
    for name in re.findall(r"\bnoetl_\w+", text):
        stem = re.sub(r"_(bucket|sum|count)$", "", name)
        found.add(stem if kinds.get(stem) == "histogram" else name)
    return found


def expressions() -> dict[str, str]:
    """The expressions of alerts and panels, by their titles."""
    rules = yaml.safe_load(ALERTS.read_text())["groups"]
    found = {each["alert"]: each["expr"] for group in rules for each in group["rules"]}
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            found[f"{panel['title']}: {target['refId']}"] = target["expr"]
    return found


def test_every_metric_of_alerts_and_dashboard_exists() -> None:
    unknown = {
        title: names - known().keys()
        for title, expression in expressions().items()
        if (names := named_in(expression)) - known().keys() or not names
    }

    assert unknown.keys() == {"NoetlServerDown"}, "which asks for `up`"


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(set(cells)) == len(cells)


def test_the_page_on_metrics_lists_all_of_them_with_their_types() -> None:
    rows = re.findall(
        r"^\| `(noetl_\w+)[^|]*\| (\w+) \|", PAGE.read_text(), re.MULTILINE
    )

    assert dict(rows) == known()
    assert len(rows) == len(dict(rows)), "each has one row"


def test_promtool_accepts_the_alert_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: it comes with Prometheus")

    done = subprocess.run(
        [promtool, "check", "rules", str(ALERTS)], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
