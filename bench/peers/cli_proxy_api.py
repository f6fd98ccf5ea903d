"""CLIProxyAPI, in Go, built from its source."""

import json

from bench.peers.recipe import Recipe, Site, Start
from bench.targets import CLIENT_KEY, MODELS

COMMIT = "a7e3596b7e351d800e58ed29529fbca3d1c18737"


def configuration(port: int, folder: str, upstream: int) -> str:
    """An upstream of each protocol that it has. YAML takes JSON."""
    base = f"http://127.0.0.1:{upstream}"

    def models(protocol: str) -> list[dict[str, str]]:
        return [{"name": MODELS[protocol], "alias": MODELS[protocol]}]

    compatible = {
        "name": "bench",
        "base-url": f"{base}/v1",
        "api-key-entries": [{"api-key": "bench"}],
        "models": models("openai_chat"),
    }
    claude = {
        "api-key": "bench",
        "base-url": base,
        "models": models("anthropic_messages"),
        "cloak": {"mode": "never"},
    }
    settings = {
        "host": "127.0.0.1",
        "port": port,
        "auth-dir": f"{folder}/auth",
        "api-keys": [CLIENT_KEY],
        "remote-management": {"disable-control-panel": True},
        "openai-compatibility": [compatible],
        "claude-api-key": [claude],
    }
    return json.dumps(settings, indent=1)


def start(site: Site) -> Start:
    """One process, which has a thread for each core it may use: one."""
    config = site.folder / "config.yaml"
    command = (str(site.installed / "server"), "-config", str(config))
    text = configuration(site.port, str(site.folder), site.upstream)
    return Start(command, {config.name: text}, {"GOMAXPROCS": "1"})


RECIPE = Recipe(
    name="cli-proxy-api",
    source=f"CLIProxyAPI at {COMMIT[:8]}, Go, built from source.",
    install=(
        ("git", "clone", "https://github.com/router-for-me/CLIProxyAPI", "source"),
        ("git", "-C", "source", "checkout", "--quiet", COMMIT),
        ("go", "build", "-C", "source", "-o", "../server", "./cmd/server"),
    ),
    start=start,
    cells=("chat:chat", "messages:messages", "messages:chat", "chat:messages", "responses:chat"),
    caveats=("Keys of clients in its file; usage counted in memory; cloaking is off.",),
    patience=60.0,
)
