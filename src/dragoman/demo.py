"""The demo: a gateway and the simulator behind it, in one process, with examples to paste."""

from __future__ import annotations

import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory

from dragoman.config import (
    Account,
    Admin,
    Client,
    Config,
    OwnPrice,
    Route,
    Secret,
    Server,
    Storage,
    Upstream,
)
from dragoman.config.limits import Limit
from dragoman.lab.guides import GUIDES
from dragoman.lab.simulator.testing import running_simulator
from dragoman.server.service import serve

KEY = "sk-dragoman-demo"
"""The demo's client key. It opens nothing but the simulator."""

ADMIN_KEY = "dragoman-demo-admin"
"""The key of the demo's administration, which is open to this machine alone."""

_PROTOCOLS = {
    "chat": "openai_chat",
    "messages": "anthropic_messages",
    "responses": "openai_responses",
    "google": "google_generate_content",
    "interactions": "google_interactions",
}


def demo_config(
    simulator_url: str, host: str = "127.0.0.1", port: int = 8080, store: str = ""
) -> Config:
    """Five upstreams, one of each protocol, all of them the simulator at `simulator_url`.

    The models `sim-chat`, `sim-messages`, `sim-responses`, `sim-google` and `sim-interactions` go
    to one each; a
    scenario of the simulator is called by the upstream's name before it, such as
    `messages/sim-reasoning`.
    Responses are stored in the file `store`, unless it is empty.
    """
    upstreams = tuple(
        Upstream(
            name=name,
            protocol=protocol,
            base_url=simulator_url,
            models=(f"sim-{name}",),
        )
        for name, protocol in _PROTOCOLS.items()
    )
    budget = Limit(kind="cost", amount="25", window="month")
    return Config(
        server=Server(host=host, port=port, keepalive_s=5.0),
        clients=(Client(name="demo", key=Secret(KEY), limits=(budget,)),),
        upstreams=upstreams,
        accounts=tuple(
            Account(name=f"{name}-1", upstream=name, key=Secret(f"sk-sim-max-{name}"))
            for name in _PROTOCOLS
        ),
        routes=tuple(Route(match=f"sim-{name}", upstream=name) for name in _PROTOCOLS),
        prices=(OwnPrice(model="*", input="2.50", cached="0.25", output="10"),),
        storage=Storage(path=store),
        admin=Admin(key=Secret(ADMIN_KEY)),
    )


def run(host: str = "127.0.0.1", port: int = 8080) -> None:
    """Serve until interrupted; prints the examples once the address is known.

    Raises:
        OSError: the address is taken or not there.
    """
    with running_simulator() as simulator, TemporaryDirectory(prefix="dragoman-demo-") as folder:
        config = demo_config(simulator.base_url, host, port, str(Path(folder) / "demo.db"))
        serve(
            config,
            announce=lambda url: print(examples(reachable(url)), flush=True),  # noqa: T201
            as_service=False,
        )


def reachable(url: str) -> str:
    """Where a client on this machine finds what listens at every address."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def examples(url: str) -> str:
    """What to paste into a terminal, for a gateway at `url`."""
    names = textwrap.fill(", ".join(guide.name for guide in GUIDES), 96)
    filled = _EXAMPLES.replace("{url}", url).replace("{key}", KEY).replace("{admin}", ADMIN_KEY)
    return filled.replace("{clients}", names)


_EXAMPLES = """\
dragoman demo: {url}   key: {key}   (Ctrl-C stops it)
dashboard: {url}/ui   key: {admin}

Models: sim-chat, sim-messages, sim-responses, sim-google and sim-interactions, each on an upstream
of that protocol.
Any client works with any of them. Scenarios of the simulator are behind an upstream's name:
chat/sim-multibyte, messages/sim-reasoning, responses/sim-text?words=200&delay_ms=50, ...

# curl: Chat Completions, Messages, Responses, Google's generateContent (all streamed)
curl -N {url}/v1/chat/completions \\
  -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' \\
  -d '{"model": "sim-messages", "stream": true,
       "messages": [{"role": "user", "content": "Hello!"}]}'

curl -N {url}/v1/messages \\
  -H 'x-api-key: {key}' -H 'Content-Type: application/json' \\
  -d '{"model": "sim-responses", "max_tokens": 500, "stream": true,
       "messages": [{"role": "user", "content": "Hello!"}]}'

curl -N {url}/v1/responses \\
  -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' \\
  -d '{"model": "sim-chat", "stream": true, "input": "Hello!"}'

curl -N '{url}/v1beta/models/sim-chat:streamGenerateContent?alt=sse' \\
  -H 'x-goog-api-key: {key}' -H 'Content-Type: application/json' \\
  -d '{"contents": [{"parts": [{"text": "Hello!"}]}]}'

# openai-python (pip install openai)
python3 - <<'PY'
from openai import OpenAI
client = OpenAI(base_url="{url}/v1", api_key="{key}")
answer = client.chat.completions.create(
    model="sim-messages", messages=[{"role": "user", "content": "Hello!"}])
print(answer.choices[0].message.content)
print(client.responses.create(model="sim-chat", input="Hello!").output_text)
PY

# anthropic-python (pip install anthropic)
python3 - <<'PY'
from anthropic import Anthropic
client = Anthropic(base_url="{url}", api_key="{key}")
with client.messages.stream(model="sim-responses", max_tokens=500,
                            messages=[{"role": "user", "content": "Hello!"}]) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
    print()
PY

# any other client: its own lines, which read the key from the environment
export DRAGOMAN_KEY={key}
dragoman guide claude-code --url {url} --model sim-chat

There are guides for:
{clients}
"""
