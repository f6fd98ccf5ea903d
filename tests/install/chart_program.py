"""Lints a chart and renders it as Helm does, run by the Python of `make release`'s virtualenv.

    chart_program.py CHART

reads values, a JSON object in each line, and prints a JSON object in a line for each: `lint`,
Helm's messages; `manifest`, what an installation with those values sends to a cluster, hooks
included; `problems`, where that breaks the schemas of Kubernetes; or `error`, why it cannot be
rendered.

Helm comes as a library that can install but not only render, so there is a cluster for it to
install into, which knows what kinds there are and has nothing: Helm sends it what it rendered, in a
Secret of its own, before it creates anything. The cluster reads that and refuses everything.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import helm_sdkpy  # type: ignore[import-not-found]
import kubernetes_validate  # type: ignore[import-not-found]
import yaml  # type: ignore[import-untyped]

VERSION = "1.34"
"""The version of Kubernetes that is played, and whose schemas judge."""

KINDS = {
    "v1": {"ConfigMap": "configmaps", "Secret": "secrets", "Service": "services"},
    "apps/v1": {"Deployment": "deployments", "StatefulSet": "statefulsets"},
    "batch/v1": {"Job": "jobs"},
    "autoscaling/v2": {"HorizontalPodAutoscaler": "horizontalpodautoscalers"},
    "monitoring.coreos.com/v1": {"ServiceMonitor": "servicemonitors"},
    "networking.k8s.io/v1": {"Ingress": "ingresses"},
    "policy/v1": {"PodDisruptionBudget": "poddisruptionbudgets"},
}
_OWN = ("ServiceMonitor",)
"""Kinds of operators, for which Kubernetes has no schemas."""


class Cluster(ThreadingHTTPServer):
    """A cluster with nothing in it. `release` is what Helm kept of an installation."""

    daemon_threads = True
    release: dict[str, Any] | None = None


class _Answers(BaseHTTPRequestHandler):
    server: Cluster

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        found = _discovery(self.path.partition("?")[0])
        if found is None:
            self._refuse(404, "NotFound")
        else:
            self._answer(200, found)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        # The Secret comes as protobuf; what Helm packed stands in it as it is.
        packed = re.search(rb"H4sI[A-Za-z0-9+/=]+", body)
        if packed is not None and self.server.release is None:
            self.server.release = json.loads(gzip.decompress(base64.b64decode(packed[0])))
        self._refuse(403, "Forbidden")

    def do_PATCH(self) -> None:
        self.do_POST()

    def _refuse(self, status: int, reason: str) -> None:
        self._answer(
            status,
            {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "reason": reason,
                "code": status,
            },
        )

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _discovery(path: str) -> dict[str, Any] | None:
    """What a cluster tells of itself."""
    if path == "/version":
        major, minor = VERSION.split(".")
        return {"major": major, "minor": minor, "gitVersion": f"v{VERSION}.0"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = []
        for version in KINDS:
            group, _, name = version.rpartition("/")
            told = {"groupVersion": version, "version": name}
            if group:
                groups.append({"name": group, "versions": [told], "preferredVersion": told})
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    version = path.removeprefix("/apis/").removeprefix("/api/")
    if version not in KINDS:
        return None
    verbs = ["create", "get", "list", "patch", "update", "delete"]
    resources = [
        {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": verbs}
        for kind, name in KINDS[version].items()
    ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": version,
        "resources": resources,
    }


def kubeconfig(url: str) -> str:
    """A configuration that leads to the cluster at a URL, as text."""
    named = {"name": "here"}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{**named, "cluster": {"server": url}}],
            "users": [{**named, "user": {}}],
            "contexts": [{**named, "context": {"cluster": "here", "user": "here"}}],
        }
    )


def rendered(chart: Path, values: dict[str, Any]) -> dict[str, Any]:
    """What is printed for values."""
    cluster = Cluster(("127.0.0.1", 0), _Answers)
    threading.Thread(target=cluster.serve_forever, args=(0.02,), daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        access = Path(folder) / "kubeconfig"
        access.write_text(kubeconfig(f"http://127.0.0.1:{cluster.server_port}"))
        helm = helm_sdkpy.Configuration(namespace="gateways", kubeconfig=str(access))
        lint = asyncio.run(helm_sdkpy.Lint(helm).run(str(chart)))
        error = ""
        try:
            asyncio.run(helm_sdkpy.Install(helm).run("team", str(chart), values=values, wait=False))
        except Exception as caught:
            error = str(caught)
    cluster.shutdown()
    cluster.server_close()
    if cluster.release is None:
        return {"lint": lint["Messages"], "error": error}
    hooks = [hook["manifest"] for hook in cluster.release.get("hooks") or ()]
    manifest = "\n---\n".join((cluster.release["manifest"], *hooks))
    return {"lint": lint["Messages"], "manifest": manifest, "problems": problems(manifest)}


def problems(manifest: str) -> list[str]:
    """Where objects break the schemas of their kinds."""
    found = []
    for one in yaml.safe_load_all(manifest):
        if one is None or one["kind"] in _OWN:
            continue
        try:
            kubernetes_validate.validate(one, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{one['kind']}: {error}")
    return found


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(rendered(Path(sys.argv[1]), json.loads(line))), flush=True)  # noqa: T201
