"""The managed settings of Claude Code: what an administrator wrote, and what the models that a
person may use make of the rest."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any, Final

from dragoman.agents.models import ShownModel
from dragoman.prices.rates import PER_MILLION, Price
from dragoman.protocols.fields import JsonObject

BUILT_IN: Final = ("claude-opus-4-7", "claude-opus-5-5", "claude-haiku-4-5-20251001")
"""Models that Claude Code asks for by itself: as its default where a person has signed in and where
not, and in the background."""

_HIGHEST_RATE = 10_000.0
"""US dollars for a million tokens, above which it takes no price."""
_MOST_EXACT = 2**53
"""Above this, not every whole number is one in JavaScript."""


def merged(base: JsonObject, over: JsonObject) -> JsonObject:
    """Settings with others that take precedence: objects are merged, arrays and values replaced,
    but arrays named `deny` are united."""
    found = dict(base)
    for name, value in over.items():
        before = found.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            found[name] = merged(before, value)
        elif name == "deny" and isinstance(before, list) and isinstance(value, list):
            found[name] = [*before, *(one for one in value if one not in before)]
        else:
            found[name] = value
    return found


def settings_of(
    written: Iterable[JsonObject], models: Sequence[ShownModel], built_in: Sequence[ShownModel]
) -> JsonObject:
    """The settings of a person: those `written`, merged in order, and those made of `models`, which
    the person may use, where none are written. `built_in` are those of `BUILT_IN` that the person
    may ask for."""
    own: JsonObject = reduce(merged, written, {})
    return {**_generated(models, built_in), **own}


def mcp_settings(servers: Mapping[str, str]) -> JsonObject:
    """The settings that give a person MCP servers, each with its address: the program signs in
    there by itself."""
    found = {name: {"type": "http", "url": url} for name, url in servers.items()}
    return {"managedMcpServers": found} if found else {}


def telemetry_settings(public_url: str) -> JsonObject:
    """The settings with which Claude Code sends its telemetry here."""
    exporters = {f"OTEL_{signal}_EXPORTER": "otlp" for signal in ("METRICS", "LOGS", "TRACES")}
    return {
        "env": {
            "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
            **exporters,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_ENDPOINT": public_url,
        }
    }


def _generated(models: Sequence[ShownModel], built_in: Sequence[ShownModel]) -> JsonObject:
    """A picker, prices, and, unless Anthropic's own models can be used here, the models that a
    session may have."""
    keeps_built_in = sum(one.is_claude for one in built_in) == len(BUILT_IN)
    found: JsonObject = {}
    if models:
        options = [_option(one) for one in models]
        found["modelPicker"] = {"options": options, "replaceBuiltInOptions": not keeps_built_in}
        if not keeps_built_in:
            found["model"] = models[0].name
            found["availableModels"] = [one.name for one in models]
    priced = [(one.name, one.price) for one in (*built_in, *models)]
    overrides = {name: _rates(price) for name, price in priced if price is not None}
    if overrides:
        found["modelPricing"] = {"overrides": overrides}
    return found


def _option(model: ShownModel) -> JsonObject:
    """A row of the picker."""
    option = {"model": model.name, "label": model.label}
    if model.description:
        option["description"] = model.description
    if model.behaves_as:
        option["behavesAs"] = model.behaves_as
    return option


def _rates(price: Price) -> JsonObject:
    """US dollars for a million tokens of each of the four kinds that Claude Code prices."""
    kinds = {
        "input": price.input,
        "output": price.output,
        "cacheRead": price.cached,
        "cacheWrite": price.cache_write,
    }
    return {kind: min(rate / PER_MILLION, _HIGHEST_RATE) for kind, rate in kinds.items()}


def canonical(value: Any) -> str:
    """A value as JSON without white space, its keys sorted at every level and its numbers as
    JavaScript writes them: what Claude Code computes its checksum of."""
    if isinstance(value, dict):
        members = (f"{canonical(name)}:{canonical(value[name])}" for name in sorted(value))
        return f"{{{','.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(canonical, value))}]"
    if isinstance(value, float) or (type(value) is int and abs(value) > _MOST_EXACT):
        return _number(float(value))
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """A number as JavaScript writes it (ECMA-262, section 6.1.6.1.20)."""
    if value and not 1e-6 <= abs(value) < 1e21:
        return re.sub(r"(?<=e[+-])0+", "", repr(value))
    text = f"{Decimal(repr(value)):f}" if value else "0"
    return text.rstrip("0").rstrip(".") if "." in text else text


def checksum(text: str) -> str:
    """The checksum of settings in their canonical form."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
