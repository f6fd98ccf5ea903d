"""The gateway of LLM-Rosetta, in Python, from PyPI."""

import json

from bench.peers.recipe import Recipe, Site, Start
from bench.targets import MODELS, SHORT_NAMES

VERSION = "0.13.0"
_MEASURED = ("chat", "messages", "responses")


def configuration(port: int, upstream: int) -> str:
    """A provider and a model for each upstream protocol."""
    base = f"http://127.0.0.1:{upstream}"
    providers = {
        "openai_chat": {"type": "openai_chat", "base_url": f"{base}/v1"},
        "anthropic_messages": {"type": "anthropic", "base_url": base},
        "openai_responses": {"type": "openai_responses", "base_url": f"{base}/v1"},
    }
    for provider in providers.values():
        provider["api_key"] = "bench"
    return json.dumps(
        {
            "providers": {SHORT_NAMES[name]: provider for name, provider in providers.items()},
            "models": {MODELS[name]: SHORT_NAMES[name] for name in providers},
            "server": {
                "host": "127.0.0.1",
                "port": port,
                # Keys cannot be set here: this version reads none from its configuration.
                "open_on_no_keys": True,
            },
        },
        indent=1,
    )


def start(site: Site) -> Start:
    """One process."""
    config = site.folder / "config.jsonc"
    command: tuple[str, ...] = (
        str(site.installed / "venv/bin/llm-rosetta-gateway"),
        "--config",
        str(config),
    )
    command += ("--no-banner", "--log-level", "error", "--data-dir", str(site.folder))
    return Start(command, {config.name: configuration(site.port, site.upstream)})


RECIPE = Recipe(
    name="llm-rosetta",
    source=f"llm-rosetta {VERSION} from PyPI, Python, one process.",
    install=(
        ("python3", "-m", "venv", "--clear", "venv"),
        ("venv/bin/pip", "install", "--disable-pip-version-check", f"llm-rosetta=={VERSION}"),
    ),
    start=start,
    cells=tuple(f"{client}:{to}" for client in _MEASURED for to in _MEASURED),
    caveats=(
        "It asks for no key: this version reads none from its configuration.",
        "It logs each request, to its output and to SQLite, as is its default.",
    ),
)
