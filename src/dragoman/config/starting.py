"""A first configuration as commented text, usable without changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct


class Vendor(Struct, frozen=True):
    """A widely used service, or a server of one's own at its usual port: its protocol and address,
    the environment variable in which its users have its key (empty: no key needed), and the names
    of its models as a route pattern (empty: models are asked for as `NAME/MODEL`), with the `more`
    patterns that it needs."""

    name: str
    protocol: str
    base_url: str
    variable: str
    match: str
    more: tuple[str, ...] = ()

    @property
    def patterns(self) -> tuple[str, ...]:
        """All of its route patterns."""
        return (self.match, *self.more) if self.match else ()


def _chat(name: str, base_url: str, variable: str, match: str) -> Vendor:
    return Vendor(name, "openai_chat", base_url, variable, match)


VENDORS: Mapping[str, Vendor] = {
    vendor.name: vendor
    for vendor in (
        Vendor(
            "openai",
            "openai_responses",
            "https://api.openai.com/v1",
            "OPENAI_API_KEY",
            "gpt-*",
            # Not o*, which would have what OpenRouter names openai/MODEL.
            ("o1*", "o3*", "o4*", "codex-*", "chatgpt-*"),
        ),
        Vendor(
            "anthropic",
            "anthropic_messages",
            "https://api.anthropic.com",
            "ANTHROPIC_API_KEY",
            "claude-*",
        ),
        _chat(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "GEMINI_API_KEY",
            "gemini-*",
        ),
        _chat("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "deepseek-*"),
        _chat("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", "kimi-*"),
        _chat("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", "glm-*"),
        _chat(
            "qwen",
            "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            "DASHSCOPE_API_KEY",
            "qwen*",
        ),
        _chat("minimax", "https://api.minimax.io/v1", "MINIMAX_API_KEY", "MiniMax-*"),
        _chat("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "*stral-*"),
        _chat("xai", "https://api.x.ai/v1", "XAI_API_KEY", "grok-*"),
        _chat("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", ""),
        # The part RESOURCE is the customer's own.
        _chat(
            "azure",
            "https://RESOURCE.openai.azure.com/openai/v1",
            "AZURE_OPENAI_API_KEY",
            "",
        ),
        _chat("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "*/*"),
        _chat("vllm", "http://127.0.0.1:8000/v1", "", "*"),
        _chat("sglang", "http://127.0.0.1:30000/v1", "", "*"),
        _chat("llamacpp", "http://127.0.0.1:8080/v1", "", "*"),
        _chat("lmstudio", "http://127.0.0.1:1234/v1", "", "*"),
        _chat("ollama", "http://127.0.0.1:11434/v1", "", "*"),
    )
}
"""The services and servers that `dragoman init` knows, most specific pattern first. What they and
their models take is known by address and model (`protocols/presets.py`)."""


class Client(Struct, frozen=True):
    """A client's name, a reference to its key, and what it may spend in a month, in US dollars;
    empty for any amount."""

    name: str
    key: str
    budget: str = ""


class Team(Struct, frozen=True):
    """People who sign in: at the gateway of this address, with accounts of this provider."""

    public_url: str
    issuer: str


class Extras(Struct, frozen=True):
    """What a first configuration may have beside upstreams and clients: references to the key of
    the dashboard and to that of the store, empty for neither, whether answers of Responses
    clients are stored, models of the first upstream that are routed by name, and a team."""

    admin_key: str = ""
    store_key: str = ""
    responses: bool = True
    models: tuple[str, ...] = ()
    team: Team | None = None


_NO_EXTRAS = Extras()


def starting_configuration(
    vendors: Sequence[Vendor],
    clients: Sequence[Client] = (),
    *,
    keys: Mapping[str, str] | None = None,
    extras: Extras = _NO_EXTRAS,
    host: str = "127.0.0.1",
    port: int = 8080,
) -> str:
    """The text of a configuration for `vendors`, in order of their routes. `keys` has references to
    keys by the names of vendors, if they are not in the usual variables."""
    parts = [_head(host, port), _clients(clients)]
    for vendor in vendors:
        reference = (keys or {}).get(vendor.name) or (vendor.variable and f"env:{vendor.variable}")
        parts.append(_upstream(vendor, reference))
    # Patterns that match much must be the last, and there is one that matches everything.
    ordered = sorted(vendors, key=lambda vendor: ("", "*/*", "*").index(_breadth(vendor.match)))
    everything = [vendor for vendor in ordered if vendor.match == "*"]
    routed = [vendor for vendor in ordered if vendor.match and vendor not in everything[1:]]
    named = [(model, vendors[0].name) for model in extras.models]
    patterns = [(pattern, vendor.name) for vendor in routed for pattern in vendor.patterns]
    parts.append(_routes([*named, *patterns]))
    parts.append(_extras(extras))
    if extras.team is not None:
        parts.append(_team(extras.team, extras.models))
    return "\n".join(parts)


def _breadth(match: str) -> str:
    """A pattern that matches what others match, too; empty for any other."""
    return match if match in ("*", "*/*") else ""


def _head(host: str, port: int) -> str:
    return f"""\
# The configuration of dragoman. `GET /` on the running gateway links the documentation, where
# configuration.md has every setting.
# dragoman check            names the line and key of each fault
# dragoman check --online   asks each upstream for its models, with each key
# dragoman serve            serves

[server]
host = {_quoted(host)}       # another address needs [[clients]]
port = {port}
"""


def _clients(clients: Sequence[Client]) -> str:
    if not clients:
        return """\
# Clients that may send requests. Without any, only programs on this machine may.
# [[clients]]
# name = "me"
# key = "env:DRAGOMAN_KEY"   # env:NAME, file:PATH or the key itself
"""
    return "\n".join(
        f"[[clients]]\nname = {_quoted(client.name)}\nkey = {_quoted(client.key)}\n"
        + (_BUDGET.format(_quoted(client.budget)) if client.budget else "")
        for client in clients
    )


_BUDGET = """\
# Models without a price are refused to it: `dragoman prices show`, and [[prices]] for your own.
limits = [{{ kind = "cost", amount = {}, window = "month" }}]   # US dollars
"""


def _upstream(vendor: Vendor, key: str) -> str:
    account = (
        f"[[accounts]]                 # as many as you have\nname = {_quoted(vendor.name + '-1')}"
    )
    account += f"\nupstream = {_quoted(vendor.name)}\n"
    if key:
        account += f"key = {_quoted(key)}\n"
    return f"""\
[[upstreams]]
name = {_quoted(vendor.name)}
protocol = {_quoted(vendor.protocol)}
base_url = {_quoted(vendor.base_url)}

{account}"""


def _routes(routes: Sequence[tuple[str, str]]) -> str:
    head = (
        "# Where a model's name leads: the first match wins, * stands for any text.\n"
        '# model = "name" in a route sends another name upstream; UPSTREAM/MODEL needs no route.\n'
    )
    return head + "\n".join(
        f"[[routes]]\nmatch = {_quoted(match)}\nupstream = {_quoted(upstream)}\n"
        for match, upstream in routes
    )


def _extras(extras: Extras) -> str:
    storage = [
        _setting("key", extras.store_key, "env:DRAGOMAN_STORE_KEY"),
        f"{'# ' if extras.responses else ''}responses = false\n",
    ]
    return f"""\
# Answers of Responses clients, with what they sent, are stored for 30 days in plain text, so that
# they can continue from them; responses = false stores none. No other prompt or answer is stored.
# Accounts that are added by command or in the dashboard are encrypted with the key.
[storage]
{"".join(storage)}
# Key for the dashboard at /ui and the API at /admin.
{"" if extras.admin_key else "# "}[admin]
{_setting("key", extras.admin_key, "env:DRAGOMAN_ADMIN_KEY")}"""


def _team(team: Team, models: Sequence[str]) -> str:
    few = json.dumps(models[:1], ensure_ascii=False) if models else '["a-model"]'
    return f"""\
# People sign in with the company's account; the first rule that matches a person counts.
# dragoman people explain EMAIL --group GROUP   says what somebody would be given
[sign_in]
public_url = {_quoted(team.public_url)}     # https, or this machine
issuer = {_quoted(team.issuer)}         # the OpenID provider
client_id = "dragoman"
# client_secret = "env:DRAGOMAN_CLIENT_SECRET"

[[sign_in.rules]]
groups = ["engineers"]
role = "admin"                   # of the dashboard
limits = [{{ kind = "requests", amount = 5000, window = "day" }}]

[[sign_in.rules]]                # everybody else whom the provider signs in
{"" if models else "# "}models = {few}
limits = [{{ kind = "requests", amount = 500, window = "day" }}]

# The models that Claude Code asks for by itself, where no route has them.
{"" if models else "# "}[models]
{"" if models else "# "}aliases = {{ "claude-*" = {_quoted(models[0] if models else "a-model")} }}

# What Claude Code takes over from here, written as its settings.json has it. Its picker has the
# routes without * that the person may use, with their prices.
[managed_settings]
# permissions = {{ deny = ["WebFetch"] }}
"""


def _setting(name: str, value: str, example: str) -> str:
    """A line for a setting, commented out with an example where it has no value."""
    return f"{name} = {_quoted(value)}\n" if value else f"# {name} = {_quoted(example)}\n"


def _quoted(text: str) -> str:
    """A basic string of TOML; JSON text is a valid one."""
    return json.dumps(text, ensure_ascii=False)
