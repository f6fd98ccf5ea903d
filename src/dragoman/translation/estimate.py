"""An estimate of tokens, for prompts that the upstream cannot count and answers without usage.

No tokenizer is loaded: vendors do not publish those of their current models, and the counts of any
two differ by more than this does. A word of Latin letters counts one for each six letters or part
of them, a number one for each three digits, a sign or a letter of another alphabet one half, a CJK
character or emoji one; JSON counts by its text. Pictures and files have the fixed prices below.
Expect to be within a quarter of the truth."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Block,
    Document,
    FileId,
    Foreign,
    Image,
    Media,
    Nested,
    PlainText,
    Reasoning,
    Refusal,
    SearchResult,
    Text,
    ToolCall,
    ToolReference,
    ToolResult,
    Url,
)
from dragoman.canonical.requests import CustomTool, FunctionTool, JsonSchema, Request
from dragoman.protocols.base import to_json_text

IMAGE_TOKENS = 1500
"""Tokens of a picture of about a megapixel."""
PAGE_TOKENS = 2000
"""Tokens of one page of a PDF, text and picture together; a page is assumed to be 50 kB."""
_PAGE_BYTES = 50_000
_AUDIO_BYTES = 400
"""Bytes of base64 of recorded sound that are a token at least."""
_NAMED_PAGES = 20
"""Pages of a document that is only named."""
_TURN_TOKENS = 4
_TOOL_TOKENS = 8
_REQUEST_TOKENS = 3

_BYTES_PER_TOKEN = 4
"""Bytes of a token in English, as vendors state it. Other alphabets have more bytes and fewer
letters per token."""
_TOKENS_PER_BYTE = 0.3
"""Bytes of a token in the JSON text of a request."""
LONG_BODY = 128 * 1024
_PIECE = 64
"""Size of a sample: so many bytes without a space, quote or sign are part of a base64 file."""
_FILE_BYTES = 45
"""Bytes of a base64 file that cost as much as one byte of text: a picture of a megapixel has about
200 kB, and costs `IMAGE_TOKENS`."""

_LONG_PROMPT = 8000
"""Tokens of a prompt that some servers cut to their window, which is half of it or less then."""
_LEAST_COUNTED = 0.6
"""The share of an estimate that an upstream counts at least, if it has read all of it."""
_ESCAPED_BYTES = 5
"""Bytes by which an escaped letter is longer than that of its own."""

_ENCODED = re.compile(rb"[A-Za-z0-9+/]*+")
_WORDS = re.compile(r"[A-Za-z]+|[0-9]+|[^\sA-Za-z0-9]")
_SAMPLES = 32
_SAMPLED = 64_000
"""Characters counted of a longer text, in `_SAMPLES` pieces."""
_WIDE = 0x2E80
"""The first code point of mostly CJK characters and emoji: about one token each."""


def estimate_tokens(request: Request) -> int:
    """The estimated tokens of the whole prompt: system text, tools and turns."""
    count = float(_REQUEST_TOKENS) + _blocks(request.instructions)
    for turn in request.turns:
        count += _TURN_TOKENS + _blocks(turn.blocks)
    for tool in request.tools:
        count += _TOOL_TOKENS
        if isinstance(tool, FunctionTool):
            count += _text(tool.name) + _text(tool.description or "") + _json(tool.schema or {})
        elif isinstance(tool, CustomTool):
            definition = tool.grammar.definition if tool.grammar is not None else ""
            count += _text(tool.name) + _text(tool.description or "") + _text(definition)
        else:
            count += _json(tool.raw)
    if isinstance(request.output_format, JsonSchema):
        count += _json(request.output_format.schema)
    return math.ceil(count)


def estimate_output(count: int) -> int:
    """The estimated tokens of an answer's text, by its number of bytes."""
    return math.ceil(count / _BYTES_PER_TOKEN)


def estimate_bytes(count: int) -> int:
    """The estimated tokens of a request, by its `text_bytes`."""
    return math.ceil(count * _TOKENS_PER_BYTE)


def text_bytes(body: bytes) -> int:
    """The effective length of a request, for an estimate by length alone. A body of more than
    `LONG_BODY` bytes is sampled: pictures and files, most of it then, count by their cost."""
    return len(body) if len(body) <= LONG_BODY else _sampled_bytes(len(body), _samples(body))


def _samples(body: bytes) -> list[bytes]:
    return [body[at : at + _PIECE] for at in range(0, len(body), len(body) // _SAMPLES)]


def _sampled_bytes(size: int, samples: list[bytes]) -> int:
    share = len([1 for sample in samples if _ENCODED.fullmatch(sample)]) / len(samples)
    return round(size * (1 - share) + size * share / _FILE_BYTES)


def least_prompt(body: bytes, counted: int = 0) -> int:
    """The tokens that an upstream counts at least of a request, if it has read all of it; 0 for a
    prompt that is not long, or of which it `counted` as many as there can be."""
    most = len(body) * _TOKENS_PER_BYTE
    if most <= _LONG_PROMPT or counted >= _LEAST_COUNTED * most:
        return 0
    size, samples = len(body), _samples(body)
    sampled = b"".join(samples)
    escaped = _ESCAPED_BYTES * sampled.count(b"\\u") * size // len(sampled)
    prompt = estimate_bytes(_sampled_bytes(size, samples) - escaped)
    return int(_LEAST_COUNTED * prompt) if prompt > _LONG_PROMPT else 0


class Files(Struct, frozen=True):
    """The pictures, documents and recordings in a prompt: how many bytes of its body they are, and
    the most tokens that they may come to."""

    bytes: int = 0
    tokens: int = 0


def files_in(request: Request) -> Files:
    """The files in a request: what stands where the protocol has files. Whatever looks like one
    elsewhere is text."""
    size = tokens = 0
    for turn in request.turns:
        for block in turn.blocks:
            for one in _files(block):
                size, tokens = size + one.bytes, tokens + one.tokens
    return Files(size, tokens)


def _files(block: Block) -> Iterator[Files]:
    match block:
        case ToolResult():
            for inner in block.content:
                yield from _files(inner)
        case Image(source=Base64(data=data)):
            yield Files(len(data), 2 * IMAGE_TOKENS)
        case Image():
            yield Files(0, 2 * IMAGE_TOKENS)
        case Audio():
            yield Files(len(block.data), math.ceil(len(block.data) / _AUDIO_BYTES))
        case Media(source=Base64(data=data)):
            yield Files(len(data), math.ceil(len(data) / _AUDIO_BYTES))
        case Media():
            yield Files(0, _NAMED_PAGES * PAGE_TOKENS)
        case Document(source=Nested(blocks)):
            for inner in blocks:
                yield from _files(inner)
        case Document(source=Base64(media_type, data)) if "pdf" in media_type:
            pages = math.ceil(len(data) * 3 / 4 / _PAGE_BYTES)
            yield Files(len(data), pages * PAGE_TOKENS)
        case Document(source=Url() | FileId()):
            yield Files(0, _NAMED_PAGES * PAGE_TOKENS)


def estimate_text(text: str) -> float:
    """The estimated tokens of a text."""
    return _text(text)


def _blocks(blocks: Iterable[Block]) -> float:
    return sum(_block(block) for block in blocks)


def _block(block: Block) -> float:
    match block:
        case Text() | Refusal():
            return _text(block.text)
        case ToolCall():
            return _TOOL_TOKENS + _text(block.name) + _text(block.arguments)
        case ToolResult():
            return _TOOL_TOKENS + _blocks(block.content)
        case Reasoning():
            return _text(block.text)
        case Image():
            return IMAGE_TOKENS
        case Document():
            return _document(block)
        case SearchResult():
            return _text(block.title) + _text(block.source) + _blocks(block.content)
        case ToolReference():
            return _text(block.name)
        case Audio():
            return len(block.data) / 2000
        case Media(source=Base64(data=data)):
            return len(data) / 2000
        case Foreign():
            return _json(block.raw)
    return 0.0


def _document(block: Document) -> float:
    words = _text(block.title or "") + _text(block.context or "")
    match block.source:
        case PlainText(text):
            return words + _text(text)
        case Nested(blocks):
            return words + _blocks(blocks)
        case Base64(_, data):
            return words + PAGE_TOKENS * math.ceil(len(data) * 3 / 4 / _PAGE_BYTES)
    return words + PAGE_TOKENS


def _json(value: object) -> float:
    return _text(to_json_text(value))


def _text(text: str) -> float:
    if len(text) <= _SAMPLED:
        return _counted(text)
    step = len(text) / _SAMPLES
    size = _SAMPLED // _SAMPLES
    pieces = (text[int(number * step) : int(number * step) + size] for number in range(_SAMPLES))
    return sum(map(_counted, pieces)) * len(text) / _SAMPLED


def _counted(text: str) -> float:
    count = 0.0
    for word in _WORDS.findall(text):
        first = word[0]
        if first.isdigit() and first.isascii():
            count += math.ceil(len(word) / 3)
        elif first.isascii() and first.isalpha():
            count += math.ceil(len(word) / 6)
        elif ord(first) < _WIDE:
            count += 0.5
        else:
            count += 1.0
    return count
