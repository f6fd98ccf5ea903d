"""A fact of one protocol stands in its package: elsewhere no code names a protocol, or there is a
reason for it here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dragoman
from dragoman.protocols import CODECS
from dragoman.protocols.base import Codec

ROOT = Path(dragoman.__file__).parent


LISTS = {codec.endpoint.models.path for codec in CODECS.values()}
"""Paths of lists of models: no mark of a protocol whose answers are below one."""


def names_of(codec: Codec) -> Iterator[str]:
    """Patterns of what only one protocol has: its name and its vendor's, its paths, its headers,
    and the members by which the rest of the gateway might know it."""
    endpoint, passthrough = codec.endpoint, codec.passthrough
    yield codec.name
    yield rf"(\b|_){codec.name.partition('_')[0]}(\b|_)"
    if endpoint.path not in LISTS:
        yield rf"{endpoint.path}\b"
    headers = *endpoint.key_headers, *endpoint.cloud_key_headers, endpoint.sign
    yield from (rf"\b{header.decode()}\b" for header in headers if header)
    yield from (rf"\b{header}\b" for header in endpoint.forwarded)
    members = passthrough.continues, passthrough.conversation, *endpoint.attributed_by
    yield from (rf"\b{member}\b" for member in members if "_" in member)
    yield from MARKS


MARKS = ("cache_control", "web_search_options")
"""Members of requests with prices of their own."""

NAMES = re.compile(
    "|".join(dict.fromkeys(name for codec in CODECS.values() for name in names_of(codec))),
    re.IGNORECASE,
)

APART = ("protocols/", "lab/simulator/", "lab/doctor/", "lab/guides/")
"""Places that are about protocols: each speaks for itself."""

REASONS = {
    "accounts/credentials/": "services of clouds, and the headers of theirs that are signed",
    "config/aws_hosts.py": "hosts of services",
    "config/credentials.py": "kinds of credentials, which are of clouds",
    "api_page.py": "the example at the head of the library's page",
    "accounts/decide/quota.py": "as `limits.py` beside it: the headers in which services report "
    "quotas",
    "accounts/decide/limits.py": "rate-limit headers are of services: a bridge of any protocol "
    "passes on those of the vendor behind it",
    "canonical/": "fields and marks that are called as in the protocol that had them first",
    "cli/init.py": "the services it knows, and the protocol of most servers of one's own",
    "config/names.py": "providers' prefixes of model names, which clients write out of habit",
    "config/reference.py": "the example of the configuration reference",
    "config/settings.py": "`auth` may name the header of a service, whatever protocol it speaks",
    "config/starting.py": "well-known services, and what each speaks",
    "edge/auth.py": "the subprotocol in which browsers send a key over a WebSocket",
    "endpoints/": "what vendors have beside answers of models, and in whose shape its errors are",
    "demo.py": "the demo shows four models, each on the simulator's upstream of one protocol",
    "serving/bound_notes.py": "the kinds of what services hold, and where each shows its id",
    "server/app.py": "the CORS headers that browsers were promised, letter by letter",
    "server/testing.py": "the base URL as SDKs of OpenAI want it",
    "observability/traces/conventions.py": "hosts of services, and the conventions' names",
    "lab/prices/litellm.py": "providers' names in a list of prices, which is of services",
    "observability/request_log/rows.py": "names of clients, by what their user agents begin with",
    "operations/openapi.py": "headers of keys below `/admin`, as its documents name them",
    "responses/": "the Responses API's own: what it stores, makes in the background, leaves to "
    "upstreams that speak it, and serves over WebSocket",
}
"""Files and folders that name a protocol, and why."""


@cache
def places() -> list[tuple[str, int, str]]:
    """Where code names a protocol: file, line and what stands there. Docstrings are no code."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(APART):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        prose = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            word = word_of(node)
            if word and id(node) not in prose and NAMES.search(word):
                found.append((name, getattr(node, "lineno", 0), word))
    return found


def word_of(node: ast.AST) -> str:
    """The name or text that a node holds, empty if it holds none."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Constant(value=bytes(data)):
            return data.decode("latin-1")
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word):
            return word
        case ast.ImportFrom(module=str(word)) | ast.alias(name=word):
            return word
        case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word) | ast.ClassDef(name=word):
            return word
    return ""


def test_no_code_names_a_protocol_without_a_reason() -> None:
    unexplained = [
        f"{name}:{line}: {word!r}"
        for name, line, word in places()
        if not any(name.startswith(known) for known in REASONS)
    ]
    assert unexplained == []


def test_every_reason_is_still_needed() -> None:
    named = {name for name, _, _ in places()}
    assert [known for known in REASONS if not any(name.startswith(known) for name in named)] == []


def test_a_name_would_be_found() -> None:
    code = (
        'if codec.name == "openai_chat":\n    from dragoman.protocols import anthropic_messages\n'
    )
    found = [word_of(node) for node in ast.walk(ast.parse(code))]
    assert [word for word in found if NAMES.search(word)] == ["openai_chat", "anthropic_messages"]
