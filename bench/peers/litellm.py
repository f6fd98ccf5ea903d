"""LiteLLM's proxy, in Python, from PyPI."""

import json

from bench.peers.recipe import Recipe, Site, Start
from bench.targets import CLIENT_KEY, MODELS

VERSION = "1.106.0"


def configuration(upstream: int) -> str:
    """A model for each upstream protocol. YAML takes JSON."""
    base = f"http://127.0.0.1:{upstream}"
    deployments = (
        ("openai_chat", "openai", f"{base}/v1"),
        ("anthropic_messages", "anthropic", base),
        ("openai_responses", "openai/responses", f"{base}/v1"),
    )
    models = [
        {
            "model_name": MODELS[protocol],
            "litellm_params": {
                "model": f"{provider}/{MODELS[protocol]}",
                "api_base": address,
                "api_key": "bench",
            },
        }
        for protocol, provider, address in deployments
    ]
    # Otherwise Messages would go to the Responses endpoint of an OpenAI-like upstream.
    settings = {"use_chat_completions_url_for_anthropic_messages": True, "telemetry": False}
    general = {"master_key": CLIENT_KEY}
    return json.dumps(
        {"model_list": models, "litellm_settings": settings, "general_settings": general}, indent=1
    )


def start(site: Site) -> Start:
    """One worker, as its documentation starts it."""
    config = site.folder / "config.yaml"
    command: tuple[str, ...] = (str(site.installed / "venv/bin/litellm"), "--config", str(config))
    command += ("--host", "127.0.0.1", "--port", str(site.port), "--num_workers", "1")
    env = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        "LITELLM_TELEMETRY": "False",
    }
    return Start(command, {config.name: configuration(site.upstream)}, env)


RECIPE = Recipe(
    name="litellm",
    source=f"litellm[proxy] {VERSION} from PyPI, Python, one worker.",
    install=(
        ("python3", "-m", "venv", "--clear", "venv"),
        ("venv/bin/pip", "install", "--disable-pip-version-check", f"litellm[proxy]=={VERSION}"),
    ),
    start=start,
    cells=(
        "chat:chat",
        "chat:messages",
        "chat:responses",
        "messages:messages",
        "messages:chat",
        "messages:responses",
        "responses:responses",
        "responses:messages",
    ),
    caveats=(
        "A key, and routing among the deployments of a model, as in ours; no database, no cache, "
        "no callbacks, and a price table without the models measured.",
        "Responses over Chat is left out: for a provider named openai it asks /v1/responses.",
    ),
    patience=300.0,
)
