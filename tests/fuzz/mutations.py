"""Damage for JSON documents and byte streams, reproducible from a seed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any, TypeAlias

Place: TypeAlias = tuple[Any, Any]
"""A container and the key or index of one value in it."""

WORDS = (
    "text",
    "image",
    "image_url",
    "input_text",
    "input_image",
    "input_file",
    "output_text",
    "document",
    "file",
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "function",
    "function_call",
    "function_call_output",
    "custom",
    "custom_tool_call",
    "message",
    "reasoning",
    "base64",
    "url",
    "user",
    "assistant",
    "system",
    "developer",
    "tool",
    "auto",
    "none",
    "any",
    "required",
    "json_schema",
    "allowed_tools",
    "namespace",
    "grammar",
    "ephemeral",
    "enabled",
    "adaptive",
    "refusal",
)
"""Tags of union members, to be put where they do not belong."""

SCALARS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    0.5,
    -0.0,
    10**30,
    -(2**63),
    2**64,
    1e308,
    float("nan"),
    float("inf"),
    "",
    " ",
    "[undefined]",
    "null",
    "\x00",
    "\ud800",
    "a\udfffb",
    "\u2028\u2029\u0085",
    "=====",
    "data:",
    "data:;base64,",
    "data:image/png;base64,@@@",
    "http://",
    "x" * 5000,
    "dgm1.",
    "dgm1.AAAA",
    '{"a":',
    [],
    {},
    [[]],
    [None],
    {"": ""},
    {"type": None},
    {"type": "text"},
    [{"type": "text", "text": 5}],
)


def places(document: Any) -> list[Place]:
    """Every value inside a document, with its container."""
    found: list[Place] = []
    level = [document]
    while level:
        container = level.pop()
        keys = container.keys() if isinstance(container, dict) else range(len(container))
        for key in list(keys):
            found.append((container, key))
            if isinstance(container[key], (dict, list)):
                level.append(container[key])
    return found


def _scalar(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(SCALARS))


def _nested(rng: random.Random) -> Any:
    value: Any = _scalar(rng)
    depth = rng.choice((3, 70, 100, 150))
    kind = rng.choice(("list", "object", "content"))
    for _ in range(depth):
        if kind == "list":
            value = [value]
        elif kind == "object":
            value = {"a": value}
        else:
            value = [{"type": "tool_result", "tool_use_id": "x", "content": value}]
    return value


def _drop(rng: random.Random, container: Any, key: Any, found: list[Place]) -> None:
    del container[key]


def _duplicate(rng: random.Random, container: Any, key: Any, found: list[Place]) -> None:
    if isinstance(container, list):
        container.insert(key, copy.deepcopy(container[key]))
    else:
        container[f"{key}_2"] = copy.deepcopy(container[key])


def _retype(rng: random.Random, container: Any, key: Any, found: list[Place]) -> None:
    container[key] = _scalar(rng)


def _retag(rng: random.Random, container: Any, key: Any, found: list[Place]) -> None:
    container[key] = rng.choice(WORDS)


def _nest(rng: random.Random, container: Any, key: Any, found: list[Place]) -> None:
    container[key] = _nested(rng)


def _wrap(rng: random.Random, container: Any, key: Any, found: list[Place]) -> None:
    container[key] = rng.choice(([container[key]], {"value": container[key]}))


def _transplant(rng: random.Random, container: Any, key: Any, found: list[Place]) -> None:
    other, name = rng.choice(found)
    container[key] = copy.deepcopy(other[name])


def _add(rng: random.Random, container: Any, key: Any, found: list[Place]) -> None:
    _, name = rng.choice(found)
    value = _scalar(rng)
    if isinstance(container, dict) and isinstance(name, str):
        container[name] = value
    elif isinstance(container, list):
        container.append(value)


_DAMAGES: tuple[Callable[[random.Random, Any, Any, list[Place]], None], ...] = (
    _drop,
    _duplicate,
    _retype,
    _retype,
    _retag,
    _nest,
    _wrap,
    _transplant,
    _add,
)


def damage(rng: random.Random, document: Any, most: int = 3) -> Any:
    """A copy of the document with one to `most` things wrong in it."""
    damaged = copy.deepcopy(document)
    for _ in range(rng.randint(1, most)):
        found = places(damaged)
        if not found:
            break
        container, key = rng.choice(found)
        rng.choice(_DAMAGES)(rng, container, key, found)
    return damaged


def encode(rng: random.Random, document: Any) -> bytes:
    """The document as JSON, at times as text that is not quite JSON any more."""
    # The standard library writes lone surrogates and NaN, as careless clients do.
    text = json.dumps(document, ensure_ascii=rng.random() < 0.5, separators=(",", ":"))
    data = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.02:
        data = flip(rng, data)
    return data


def flip(rng: random.Random, data: bytes) -> bytes:
    """The bytes with a few of them changed, cut out or cut off."""
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        if not damaged:
            break
        at = rng.randrange(len(damaged))
        match rng.randrange(4):
            case 0:
                damaged[at] ^= 1 << rng.randrange(8)
            case 1:
                del damaged[at : at + rng.randint(1, 8)]
            case 2:
                damaged.insert(at, rng.randrange(256))
            case 3:
                del damaged[at:]
    return bytes(damaged)
