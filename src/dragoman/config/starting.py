"""A first configuration as commented text, usable without changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct


class Vendor(Struct, frozen=True):
    """A widely used service: its protocol and address, the environment variable in which its users
    have its key (empty: no key needed), and the names of its models as a route pattern."""

    name: str
    protocol: str
    base_url: str
    variable: str
    match: str


VENDORS: Mapping[str, Vendor] = {
    vendor.name: vendor
    for vendor in (
        Vendor(
            "openai", "openai_responses", "https://api.openai.com/v1", "OPENAI_API_KEY", "gpt-*"
        ),
        Vendor(
            "anthropic",
            "anthropic_messages",
            "https://api.anthropic.com",
            "ANTHROPIC_API_KEY",
            "claude-*",
        ),
        Vendor(
            "gemini",
            "openai_chat",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "GEMINI_API_KEY",
            "gemini-*",
        ),
        Vendor(
            "deepseek",
            "openai_chat",
            "https://api.deepseek.com/v1",
            "DEEPSEEK_API_KEY",
            "deepseek-*",
        ),
        Vendor(
            "openrouter",
            "openai_chat",
            "https://openrouter.ai/api/v1",
            "OPENROUTER_API_KEY",
            "*/*",
        ),
        Vendor("ollama", "openai_chat", "http://127.0.0.1:11434/v1", "", "*"),
    )
}
"""The services that `dragoman init` knows, most specific pattern first."""


class Client(Struct, frozen=True):
    """A client's name, and a reference to its key."""

    name: str
    key: str


def starting_configuration(
    vendors: Sequence[Vendor],
    clients: Sequence[Client] = (),
    *,
    keys: Mapping[str, str] | None = None,
    host: str = "127.0.0.1",
    port: int = 8080,
) -> str:
    """The text of a configuration for `vendors`, in order of their routes. `keys` has references to
    keys by the names of vendors, if they are not in the usual variables."""
    parts = [_head(host, port), _clients(clients)]
    for vendor in vendors:
        reference = (keys or {}).get(vendor.name) or (vendor.variable and f"env:{vendor.variable}")
        parts.append(_upstream(vendor, reference))
    # A pattern that matches everything must be the last.
    ordered = sorted(vendors, key=lambda vendor: vendor.match == "*")
    parts.append(_routes(ordered))
    parts.append(_OPTIONAL)
    return "\n".join(parts)


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
        for client in clients
    )


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


def _routes(vendors: Sequence[Vendor]) -> str:
    head = (
        "# Where a model's name leads: the first match wins, * stands for any text.\n"
        '# model = "name" in a route sends another name upstream.\n'
    )
    return head + "\n".join(
        f"[[routes]]\nmatch = {_quoted(vendor.match)}\nupstream = {_quoted(vendor.name)}\n"
        for vendor in vendors
    )


_OPTIONAL = """\
# Accounts that are added by command are in the store, encrypted with this key.
# [storage]
# key = "env:DRAGOMAN_STORE_KEY"

# Key for the dashboard at /ui and the API at /admin.
# [admin]
# key = "env:DRAGOMAN_ADMIN_KEY"
"""


def _quoted(text: str) -> str:
    """A basic string of TOML; JSON text is a valid one."""
    return json.dumps(text, ensure_ascii=False)
