"""The chart, as Helm itself reads and renders it, judged by the schemas of Kubernetes."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest

import dragoman
from dragoman.cli import main as command
from dragoman.config import parse_config
from dragoman.config.settings import RequestLogSettings
from tests.install.sources import ROOT
from tests.install.tools import documents_of, tool, yaml_of

CHART = ROOT / "deploy/helm/dragoman"
CONFIG = """\
[[clients]]
name = "me"
key = "env:CLIENT_ME"

[[upstreams]]
name = "openai"
protocol = "openai_responses"
base_url = "https://api.openai.com/v1"

[[accounts]]
name = "openai-1"
upstream = "openai"
key = "env:OPENAI_API_KEY"

[[routes]]
match = "*"
upstream = "openai"
"""
VALUES: dict[str, Any] = {
    "image": {"repository": "registry.example.com/dragoman"},
    "config": CONFIG,
    "env": [
        {"name": "OPENAI_API_KEY", "secret": "llm-keys", "key": "openai"},
        {"name": "CLIENT_ME", "secret": "llm-clients", "key": "me"},
    ],
}
EVERYTHING: dict[str, Any] = {
    "autoscaling": {"enabled": True, "inFlight": 400},
    "ingress": {"enabled": True, "host": "llm.example.com", "tlsSecret": "llm-tls"},
    "serviceMonitor": {"enabled": True, "tokenSecret": "llm-admin", "tokenKey": "token"},
    "service": {"annotations": {"a": "b"}},
    "imagePullSecrets": [{"name": "registry"}],
    "podAnnotations": {"a": "b"},
    "podLabels": {"c": "d"},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "priorityClassName": "high",
    "serviceAccount": "llm",
    "tmpSize": "2Gi",
}
MORE: dict[str, Any] = {
    "extraEnv": [{"name": "SSL_CERT_FILE", "value": "/etc/company/ca.pem"}],
    "volumes": [{"name": "company", "configMap": {"name": "ca"}}],
    "volumeMounts": [{"name": "company", "mountPath": "/etc/company", "readOnly": True}],
    "serviceAccount": "llm",
    "jobAnnotations": {"sidecar.istio.io/inject": "false"},
}
STORE: dict[str, Any] = {"storage": {"enabled": True, "storageClass": "fast"}, "replicas": 1}
_WARNING = 2
_ENVIRON = {"CLIENT_ME": "sk-client-of-mine", "OPENAI_API_KEY": "sk-1"}


Render = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def render() -> Iterator[Render]:
    """`render(**values)`: what Helm says of the chart. It starts but once."""
    words = [tool("python"), str(ROOT / "tests/install/chart_program.py"), str(CHART)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as helm:
        assert helm.stdin is not None
        assert helm.stdout is not None
        given, printed = helm.stdin, helm.stdout

        def asked(**values: Any) -> dict[str, Any]:
            given.write(f"{json.dumps({**VALUES, **values})}\n")
            told: dict[str, Any] = json.loads(printed.readline())
            return told

        yield asked
        given.close()
        assert helm.wait(30) == 0


@pytest.fixture(scope="module")
def objects(render: Render) -> Render:
    """`objects(**values)`: what is created, by kind, when nothing is wrong with it."""

    def made(**values: Any) -> dict[str, Any]:
        told = render(**values)
        assert "error" not in told, told
        assert told["problems"] == []
        assert [one for one in told["lint"] if one["Severity"] >= _WARNING] == []
        found = [one for one in documents_of(told["manifest"]) if one]
        kinds = {one["kind"]: one for one in found}
        assert len(kinds) == len(found)
        return kinds

    return made


def toml_of(kinds: dict[str, Any]) -> str:
    text: str = kinds["ConfigMap"]["data"]["dragoman.toml"]
    return text


def pod_of(kinds: dict[str, Any]) -> Any:
    return (kinds.get("Deployment") or kinds["StatefulSet"])["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def usual(objects: Render) -> dict[str, Any]:
    return objects()


@pytest.mark.parametrize("values", [{}, EVERYTHING, STORE], ids=["usual", "everything", "store"])
def test_what_is_rendered_is_right_and_the_gateway_can_read_it(
    objects: Render, values: dict[str, Any]
) -> None:
    kinds = objects(**values)
    loaded = parse_config(toml_of(kinds), environ=_ENVIRON)
    assert loaded.config.server.host == "0.0.0.0"
    assert loaded.config.server.port == 8080
    assert loaded.config.server.memory_limit_bytes == 256 * 1024 * 1024
    assert not loaded.warnings


def test_the_chart_is_of_the_version_of_the_package() -> None:
    chart = yaml_of((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == dragoman.__version__


def test_what_a_killed_worker_leaves_behind_is_reaped(usual: dict[str, Any]) -> None:
    """By the pod's own first process, to which orphans pass where containers share it."""
    assert pod_of(usual)["shareProcessNamespace"] is True


@pytest.mark.parametrize(("drain", "wait"), [(600, 5), (1, 0), (7200, 30)])
def test_the_drain_is_one_value(objects: Render, drain: int, wait: int) -> None:
    kinds = objects(drainSeconds=drain, preStopSeconds=wait)
    pod = pod_of(kinds)
    assert tomllib.loads(toml_of(kinds))["server"]["shutdown_grace_s"] == drain
    assert pod["terminationGracePeriodSeconds"] > drain + wait
    (container,) = pod["containers"]
    if wait:
        assert container["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", str(wait)]
    else:
        assert "lifecycle" not in container


def test_probes(usual: dict[str, Any]) -> None:
    (container,) = pod_of(usual)["containers"]
    assert container["livenessProbe"]["httpGet"] == {
        "path": "/healthz",
        "port": "http",
        "scheme": "HTTP",
    }
    assert container["readinessProbe"]["httpGet"] == {
        "path": "/readyz",
        "port": "http",
        "scheme": "HTTP",
    }


def test_it_runs_as_nobody_on_a_root_that_is_read_only(usual: dict[str, Any]) -> None:
    pod = pod_of(usual)
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    # The user is that of the image.
    user = re.search(r"^USER (\d+):(\d+)$", CONTAINERFILE.read_text(), flags=re.MULTILINE)
    assert user is not None
    assert pod["securityContext"]["runAsUser"] == int(user[1])


CONTAINERFILE = ROOT / "deploy/container/Containerfile"


def test_secrets_are_referred_to(usual: dict[str, Any]) -> None:
    assert "Secret" not in usual
    (container,) = pod_of(usual)["containers"]
    references = {
        one["name"]: one["valueFrom"]["secretKeyRef"]
        for one in container["env"]
        if "valueFrom" in one
    }
    assert references == {
        "OPENAI_API_KEY": {"name": "llm-keys", "key": "openai"},
        "CLIENT_ME": {"name": "llm-clients", "key": "me"},
    }


def test_without_a_store_replicas_come_and_go_and_nothing_is_kept(
    objects: Render, usual: dict[str, Any]
) -> None:
    assert usual["Deployment"]["spec"]["replicas"] == 2
    assert usual["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert tomllib.loads(toml_of(usual))["storage"] == {"path": ""}
    kinds = objects(**EVERYTHING)
    assert "replicas" not in kinds["Deployment"]["spec"]
    scaled = kinds["HorizontalPodAutoscaler"]["spec"]
    assert scaled["scaleTargetRef"]["name"] == kinds["Deployment"]["metadata"]["name"]
    assert [one["type"] for one in scaled["metrics"]] == ["Resource", "Pods"]
    monitor = kinds["ServiceMonitor"]["spec"]
    labels = kinds["Service"]["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["endpoints"][0]["authorization"]["credentials"] == {
        "name": "llm-admin",
        "key": "token",
    }


def test_with_a_store_each_replica_has_a_volume_of_its_own(objects: Render) -> None:
    kinds = objects(**STORE)
    assert "Deployment" not in kinds
    spec = kinds["StatefulSet"]["spec"]
    (claim,) = spec["volumeClaimTemplates"]
    (container,) = spec["template"]["spec"]["containers"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    path = tomllib.loads(toml_of(kinds))["storage"]["path"]
    assert path.startswith(f"{mounts[claim['metadata']['name']]}/")
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_replicas_that_share_a_database_come_and_go(objects: Render) -> None:
    kinds = objects(
        storage={"urlVariable": "DATABASE_URL", "keyVariable": "STORE_KEY"},
        autoscaling={"enabled": True},
    )
    assert tomllib.loads(toml_of(kinds))["storage"] == {
        "path": "",
        "url": "env:DATABASE_URL",
        "key": "env:STORE_KEY",
    }
    assert {"Deployment", "HorizontalPodAutoscaler"} <= kinds.keys()


def test_one_job_makes_the_tables_of_the_database_first(
    objects: Render, usual: dict[str, Any]
) -> None:
    assert "Job" not in usual
    env = [*VALUES["env"], {"name": "DATABASE_URL", "secret": "llm-database", "key": "url"}]
    kinds = objects(storage={"urlVariable": "DATABASE_URL"}, env=env)
    job, deployed = kinds["Job"], pod_of(kinds)
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    pod = job["spec"]["template"]
    (container,), (gateway,) = pod["spec"]["containers"], deployed["containers"]
    assert pod["spec"]["securityContext"] == deployed["securityContext"]
    for same in ("image", "securityContext"):
        assert container[same] == gateway[same]
    # It has what it needs, and is no pod of the service.
    assert [one["name"] for one in container["env"]] == ["DATABASE_URL"]
    assert not kinds["Service"]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    group: Any = command
    context = click.Context(group)
    for word in container["args"]:
        if not isinstance(group, click.Group):
            break
        group = group.get_command(context, word)
        assert group is not None
    assert "--url" in {name for option in group.params for name in option.opts}


def test_pods_and_the_job_get_what_a_company_adds(objects: Render) -> None:
    env = [*VALUES["env"], {"name": "DATABASE_URL", "secret": "llm-database", "key": "url"}]
    kinds = objects(**MORE, storage={"urlVariable": "DATABASE_URL"}, env=env)
    job = kinds["Job"]["spec"]["template"]
    assert job["metadata"]["annotations"] == MORE["jobAnnotations"]
    for pod in (pod_of(kinds), job["spec"]):
        (container,) = pod["containers"]
        assert pod["serviceAccountName"] == "llm"
        assert pod["volumes"][-1:] == MORE["volumes"]
        assert container["volumeMounts"][-1:] == MORE["volumeMounts"]
        assert container["env"][-1:] == MORE["extraEnv"]


def test_the_user_may_be_the_cluster_s(objects: Render) -> None:
    """As on OpenShift."""
    given = {"runAsUser": None, "runAsGroup": None, "fsGroup": None}
    assert pod_of(objects(podSecurityContext=given))["securityContext"] == {
        "runAsNonRoot": True,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_tmp_has_room_for_the_request_log(usual: dict[str, Any]) -> None:
    (size,) = [one["emptyDir"] for one in pod_of(usual)["volumes"] if one["name"] == "tmp"]
    assert size == {"sizeLimit": "1Gi"}
    assert 2 * RequestLogSettings().keep_bytes < 2**30


def test_the_page_is_reached_where_its_paths_are_named(objects: Render) -> None:
    ingress = {"enabled": True, "host": "llm.example.com"}

    def paths(**more: Any) -> list[str]:
        (rule,) = objects(ingress={**ingress, **more})["Ingress"]["spec"]["rules"]
        return [one["path"] for one in rule["http"]["paths"]]

    assert paths() == ["/v1"]
    assert paths(paths=["/v1", "/ui", "/admin"]) == ["/v1", "/ui", "/admin"]


def test_probes_speak_tls_where_the_gateway_does(objects: Render) -> None:
    server = {"tls_certificate": "/tls/tls.crt", "tls_key": "/tls/tls.key"}
    (container,) = pod_of(objects(server=server))["containers"]
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"


def test_selectors_find_the_pods(usual: dict[str, Any]) -> None:
    labels = usual["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert usual["Service"]["spec"]["selector"].items() <= labels.items()
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert usual[kind]["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_a_changed_configuration_makes_new_pods(objects: Render, usual: dict[str, Any]) -> None:
    def mark(kinds: dict[str, Any]) -> str:
        metadata = kinds["Deployment"]["spec"]["template"]["metadata"]
        told: str = metadata["annotations"]["checksum/config"]
        return told

    assert mark(objects(drainSeconds=601)) != mark(usual)
    assert mark(objects(replicas=3)) == mark(usual)


def test_an_image_may_be_given_by_its_digest(render: Render) -> None:
    digest = f"sha256:{'0' * 64}"
    image = {"repository": "registry.example.com/dragoman", "digest": digest}
    assert f"registry.example.com/dragoman@{digest}" in str(render(image=image))
    assert "image" in render(image={**image, "digest": "latest"})["error"]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"config": ""}, "give the rest of dragoman.toml"),
        ({"config": f"{CONFIG}\n[server]\nport = 1\n"}, "are written by the chart"),
        ({"config": f"{CONFIG}\n [ storage ]\npath = 'x'\n"}, "are written by the chart"),
        ({"image": {"repository": ""}}, "name the image"),
        ({"storage": {"enabled": True}, "autoscaling": {"enabled": True}}, "must not come and go"),
        ({"storage": {"enabled": True, "urlVariable": "U"}}, "not in both"),
        ({"serviceMonitor": {"enabled": True}}, "serviceMonitor.tokenSecret"),
        ({"server": {"shutdown_grace_s": 1}}, "shutdown_grace_s"),
        ({"drainSeconds": 0}, "drainSeconds"),
        ({"replica": 3}, "replica"),
        ({"env": [{"name": "KEY", "value": "sk-in-the-open"}]}, "env"),
    ],
)
def test_what_would_be_wrong_is_refused(render: Render, values: dict[str, Any], why: str) -> None:
    assert why in render(**values)["error"]
