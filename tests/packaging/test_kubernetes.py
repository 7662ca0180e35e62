"""The chart and the manifests: neither helm nor a cluster is needed to check them.

``scripts/manifests.py`` renders what the chart uses of helm's language and refuses the
rest; the shapes are compared with what Kubernetes requires of these kinds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_lines import parse

from noetl.config import SETTINGS

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from manifests import CHART, MANIFESTS, manifests, render  # noqa: E402

KNOWN = {setting.variable for setting in SETTINGS}
SECRETS = {"database", "database-owner", "nats", "key", "worker-token"}
KINDS = {
    "Job": "batch/v1",
    "Service": "v1",
    "PodDisruptionBudget": "policy/v1",
    "Deployment": "apps/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
}
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
GPU = {**VALUES["workers"]["default"], "maxReplicas": 0, "env": {"NOETL_SLOTS": "2"}}
MORE = {**VALUES, "workers": {**VALUES["workers"], "gpu": GPU}}


def documents(values: dict[str, Any]) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(render(CHART, values, "prod")))


DOCUMENTS = documents(MORE)


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for each in DOCUMENTS:
        if "template" in each["spec"]:
            yield each["metadata"]["name"], each["spec"]["template"]["spec"]


def containers() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for _, pod in pods():
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            yield pod, container


def test_the_manifests_are_those_of_the_chart() -> None:
    assert MANIFESTS.read_text() == manifests(), "run scripts/manifests.py"


def test_every_document_is_of_a_known_kind_and_has_its_own_name() -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in DOCUMENTS]

    assert len({*names}) == len(names)
    for each in DOCUMENTS:
        assert each["apiVersion"] == KINDS[each["kind"]]
        assert each["metadata"]["name"].startswith("prod-")
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == "prod"
    assert ("Deployment", "prod-worker-gpu") in names
    assert ("HorizontalPodAutoscaler", "prod-worker-gpu") not in names


def test_selectors_find_the_pods_they_are_for() -> None:
    templates = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in DOCUMENTS
        if each["kind"] == "Deployment"
    }
    for each in DOCUMENTS:
        selector = each["spec"].get("selector")
        if selector is not None:
            wanted = selector.get("matchLabels", selector).items()
            found = [n for n, labels in templates.items() if wanted <= labels.items()]
            assert found == [each["metadata"]["name"]]
        target = each["spec"].get("scaleTargetRef")
        assert target is None or target["name"] in templates


def test_containers_have_no_rights_that_they_do_not_need() -> None:
    for pod, container in containers():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}


def test_what_containers_mount_and_name_exists() -> None:
    for pod, container in containers():
        volumes = {each["name"] for each in pod["volumes"]}
        assert {each["name"] for each in container["volumeMounts"]} <= volumes
        named = [each["name"] for each in container.get("env", [])]
        assert {*named} <= KNOWN
        for each in container.get("env", []):
            source = each.get("valueFrom", {}).get("secretKeyRef")
            assert ("value" in each) != (source is not None)
            assert source is None or source["key"] in SECRETS
            assert source is None or source["name"] == VALUES["secret"]
            assert isinstance(each.get("value", ""), str)
        words = container.get("args", [])
        if words:
            parse(words[1:])


def test_servers_are_asked_by_a_name_that_they_answer_to() -> None:
    [pod] = [pod for name, pod in pods() if name == "prod-server"]
    [container] = pod["containers"]
    environ = {each["name"]: each.get("value") for each in container["env"]}
    hosts = environ["NOETL_HOSTS"].split(",")

    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["httpHeaders"] == [{"name": "Host", "value": hosts[0]}]
        assert (asked["scheme"], asked["port"]) == ("HTTPS", "https")
        assert asked["path"] in ("/readyz", "/healthz")
    assert "prod-server" in hosts
    assert "NOETL_DATABASE_OWNER" not in environ, "the job alone is the owner"


def test_workers_know_a_server_and_nothing_behind_it() -> None:
    for name, pod in pods():
        if "-worker-" in name:
            [container] = pod["containers"]
            environ = {each["name"]: each.get("value") for each in container["env"]}
            assert environ["NOETL_SERVER"] == "https://prod-server:8082"
            assert not {"NOETL_DATABASE", "NOETL_NATS"} & environ.keys()
            assert pod["terminationGracePeriodSeconds"] > 25


def test_workers_grow_with_the_commands_of_their_pool() -> None:
    [scaler] = [e for e in DOCUMENTS if e["kind"] == "HorizontalPodAutoscaler"]
    [metric] = scaler["spec"]["metrics"]

    assert metric["external"]["metric"] == {
        "name": "noetl_commands_ready",
        "selector": {"matchLabels": {"pool": "default"}},
    }
    assert scaler["spec"]["minReplicas"] < scaler["spec"]["maxReplicas"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: {{ .Values.missing }}", "there is no missing"),
        ("a: {{ .Values.server }}", "cannot be rendered"),
        ("a: {{ .Values.host | upper }}", "cannot be rendered"),
        ("{{- if .Values.host }}\na: 1", "no end"),
        (
            "{{- range $a, $b := .Values.workers }}\na: {{ .Values.host }}\n{{- end }}",
            "there is no Values",
        ),
    ],
)
def test_a_mistake_in_a_template_is_found(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("name: x")
    (tmp_path / "templates" / "a.yaml").write_text(text)

    with pytest.raises(ValueError, match=said):
        render(tmp_path, VALUES)
