"""The configuration reference, generated from the settings.

`python -m dragoman.config.reference FILE` writes it; `make docs` does.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo

from dragoman.canonical.losses import Policy
from dragoman.canonical.options import Capabilities, Extensible, Options
from dragoman.config import names
from dragoman.config.access_rules import SignInRule
from dragoman.config.changes import needs_restart
from dragoman.config.convert import kinds_of, registered
from dragoman.config.credentials import (
    AwsCredentials,
    AzureCredentials,
    CommandCredentials,
    GoogleCredentials,
    OAuthCredentials,
)
from dragoman.config.files import FileText
from dragoman.config.limits import Limit, Weights
from dragoman.config.mcp import McpServer
from dragoman.config.secret import Secret
from dragoman.config.settings import (
    Account,
    Admin,
    Client,
    Condition,
    Config,
    Fallback,
    Models,
    OwnPrice,
    Pricing,
    Probe,
    RequestCheck,
    RequestLogSettings,
    Route,
    Search,
    Server,
    Storage,
    Team,
    Telemetry,
    Timeouts,
    Traces,
    Upstream,
    UsageSettings,
    Webhook,
    WebSocket,
)
from dragoman.config.sign_in import JwtIssuer, SignIn
from dragoman.failing import Rule
from dragoman.protocols.settings import declared_by, fields_of

_TABLES: Final[tuple[tuple[str, type[Struct]], ...]] = (
    ("`[server]`", Server),
    ("`[websocket]`", WebSocket),
    ("`[[clients]]`", Client),
    ("`[[teams]]`", Team),
    ("`[[clients.limits]]` and `[[teams.limits]]`", Limit),
    ("`[clients.limits.weights]` and `[teams.limits.weights]`", Weights),
    ("`[[upstreams]]`", Upstream),
    ("`[upstreams.timeouts]`", Timeouts),
    ("`[upstreams.capabilities]` and `[routes.capabilities]`", Capabilities),
    ("`[upstreams.probe]`", Probe),
    ("`[[upstreams.rules]]`", Rule),
    ("`[[accounts]]`", Account),
    ('`credentials` of `kind = "aws"`', AwsCredentials),
    ('`credentials` of `kind = "google"`', GoogleCredentials),
    ('`credentials` of `kind = "azure"`', AzureCredentials),
    ('`credentials` of `kind = "command"`', CommandCredentials),
    ('`credentials` of `kind = "oauth2"`', OAuthCredentials),
    ("`[[routes]]`", Route),
    ("`[routes.when]`", Condition),
    ("`[[routes.fallbacks]]`", Fallback),
    ("`[options]` and `[routes.options]`", Options),
    ("`[models]`", Models),
    ("`[storage]`", Storage),
    ("`[sign_in]`", SignIn),
    ("`[[sign_in.rules]]`", SignInRule),
    ("`[[jwt_issuers]]`", JwtIssuer),
    ("`[[mcp_servers]]`", McpServer),
    ("`[usage]`", UsageSettings),
    ("`[admin]`", Admin),
    ("`[request_log]`", RequestLogSettings),
    ("`[webhook]`", Webhook),
    ("`[search]`", Search),
    ("`[request_check]`", RequestCheck),
    ("`[pricing]`", Pricing),
    ("`[[prices]]`", OwnPrice),
    ("`[traces]`", Traces),
    ("`[telemetry]`", Telemetry),
)

_INTRODUCTION: Final = """\
# Configuration

This page is generated from the settings by `make docs`; a test keeps it up to date.

One TOML file has all settings: `dragoman serve --config dragoman.toml`. `dragoman check
dragoman.toml` reads it without serving and lists the line and key of each fault.

```toml
[[upstreams]]
name = "openai"
protocol = "openai_responses"
base_url = "https://api.openai.com/v1"

[[accounts]]
name = "openai-1"
upstream = "openai"
key = "env:OPENAI_API_KEY"

[[routes]]
match = "gpt-*"
upstream = "openai"
```

**Secrets.** A value of type *secret* is `env:NAME` for an environment variable, `file:PATH` for the
content of a file (a relative path starts at the folder of the configuration), or the secret itself.
Secrets are resolved when the configuration is read, again at each reload, and are never shown.

**Changes.** A [reload](operations.md#changing-the-configuration) adopts all settings except those
marked "needs a restart", which it names and leaves unchanged.

**Patterns.** `*` matches any text, also none; everything else matches itself, case included.
"""

_WORDS: Final[dict[Any, str]] = {
    Any: "any value",
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    datetime: "time",
    date: "day",
    Secret: "secret",
    FileText: "file",
}


def reference() -> str:
    """The whole page, in Markdown."""
    sections = [_section(heading, table) for heading, table in _TABLES]
    managed = _wrapped(attribute_docs(Config)["managed_settings"])
    sections.append(f"## `[managed_settings]`\n\n{managed}\n")
    return "\n".join([_INTRODUCTION, *sections, _policies(), _builtin_names()])


def _section(heading: str, table: type[Struct]) -> str:
    docs = attribute_docs(table)
    summary = _one_line(inspect.getdoc(table) or "")
    if any(needs_restart(info.type) for info in _places_of(table)):
        summary += " A change of any of it needs a restart."
    lines = [f"## {heading}", "", summary, ""]
    fields: Iterable[FieldInfo] = msgspec.structs.fields(table)
    if issubclass(table, Extensible):
        fields = fields_of(table).values()
        for part in declared_by(table):
            docs |= attribute_docs(part)
    for info in fields:
        if _is_table(info.type) and not kinds_of(info.type):
            continue
        default = "required" if info.required else f"default {_default(info)}"
        if needs_restart(info.type):
            default += "; needs a restart"
        lines.append(
            f"- **`{info.encode_name}`** ({_type(info.type)}; {default}): "
            f"{_one_line(docs[info.name])}"
        )
    return "\n".join([*map(_wrapped, lines), ""])


def _places_of(table: type[Struct]) -> Iterator[FieldInfo]:
    """The fields of a configuration that are this table and have annotations."""
    for info in msgspec.structs.fields(Config):
        if get_origin(info.type) is Annotated and get_args(info.type)[0] is table:
            yield info


def attribute_docs(table: type[Struct]) -> dict[str, str]:
    """The docstring of each field of a struct: the string literal after its definition."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(table))).body
    assert isinstance(definition, ast.ClassDef)
    docs: dict[str, str] = {}
    for base in table.__bases__:
        if base is not Struct and issubclass(base, Struct):
            docs |= attribute_docs(base)
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(doc))),
            ):
                docs[name] = inspect.cleandoc(doc)
    return docs


def _type(kind: Any) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        if known := registered(kind):
            return _either(tuple(known))
        return _type(arguments[0]) + _bounds(arguments[1:])
    if kinds := kinds_of(kind):
        return "table of kind " + _either(tuple(kinds))
    if origin in (Union, UnionType):
        return " or ".join(_type(arm) for arm in arguments if arm is not NoneType)
    if origin is Literal:
        return _either(arguments)
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return f"table of {_type(arguments[1])}"
    if _is_table(kind):
        return "table"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _either(tuple(member.value for member in kind))
    return _WORDS[kind]


def _bounds(metadata: tuple[Any, ...]) -> str:
    limits = [
        f"{word} {limit}"
        for meta in metadata
        for word, limit in (("at least", meta.ge), ("at most", meta.le))
        if limit is not None
    ]
    return ", " + ", ".join(limits) if limits else ""


def _either(choices: tuple[Any, ...]) -> str:
    return " | ".join(f"`{choice}`" for choice in choices)


def _default(info: FieldInfo) -> str:
    value = info.default
    if value is msgspec.NODEFAULT:
        assert info.default_factory is not msgspec.NODEFAULT
        value = info.default_factory()
    if value is None or value == {}:
        return "none"
    if value in (names.ALIASES, names.LEGACY, names.PREFIXES):
        return "the built-in ones"
    return f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(entry)}" for key, entry in value.items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _policies() -> str:
    lines = [
        "## Policies",
        "",
        "What a translation cannot carry is a loss. A policy decides which losses reject the "
        "request; the others are listed in the response header `x-dragoman-losses`.",
        "",
    ]
    docs = _enum_docs(Policy)
    lines += [f"- **`{policy.value}`**: {_one_line(docs[policy.name])}" for policy in Policy]
    return "\n".join([*map(_wrapped, lines), ""])


def _enum_docs(kind: type[Enum]) -> dict[str, str]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    docs: dict[str, str] = {}
    for member, text in zip(definition.body, definition.body[1:], strict=False):
        match member, text:
            case (
                ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(doc))),
            ):
                docs[name] = doc
    return docs


def _builtin_names() -> str:
    def rows() -> Iterator[str]:
        for title, table in (
            ("alias", names.ALIASES),
            ("legacy", names.LEGACY),
            ("prefix", names.PREFIXES),
        ):
            for name, target in table.items():
                yield f"| {title} | `{name}` | `{target}` |"

    return "\n".join(
        ["## Built-in names", "", "| kind | name | stands for |", "|---|---|---|", *rows(), ""]
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _wrapped(line: str) -> str:
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(
        line, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
