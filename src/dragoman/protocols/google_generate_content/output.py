"""The two outputs of an answer: the chunks of a stream, and one object.

`stream_writer` decides what the client is shown and calls either in the same way. Chunks have what
the strictest client reads: `data: ` with a space, one line, nothing else; id, model and role in all
of them; a part in the last one, without which SDKs forget the turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from dragoman.canonical.usage import Usage
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_generate_content.usage import write_usage
from dragoman.sse import escape

_encode = msgspec.json.Encoder().encode
_BEFORE = b'data: {"candidates":[{"content":{"parts":['
_CONTENT_END = b'],"role":"model"}'


class Chunks(Struct, eq=False):
    """The answer as chunks. No content is stored."""

    _names: bytes = b""
    """The members at the end of every chunk."""
    _usage: bytes = b""
    _tail: bytes = b""
    """The bytes after the parts of a chunk."""

    def begin(self, identifier: str, model: str) -> None:
        """Id and model of the answer."""
        names = escape(to_json({"modelVersion": model, "responseId": identifier}))
        self._names = names[1:] + b"\n\n"
        self.meter(None)

    def meter(self, usage: Usage | None) -> None:
        """The usage so far, for the chunks to come."""
        self._usage = b""
        if usage is not None:
            self._usage = b'"usageMetadata":' + to_json(write_usage(usage)) + b","
        self._tail = _CONTENT_END + b',"index":0}],' + self._usage + self._names

    def text(self, text: str, *, thought: bool) -> bytes:
        """More text."""
        end = b',"thought":true}' if thought else b"}"
        return _BEFORE + b'{"text":' + escape(_encode(text)) + end + self._tail

    def part(self, part: JsonObject) -> bytes:
        """A part that is whole."""
        return _BEFORE + escape(to_json(part)) + self._tail

    def sign(self, signature: str) -> bool:
        """Whether the last part was signed: never, it was sent."""
        return False

    def text_with_logprobs(self, text: str, logprobs: JsonObject) -> bytes:
        """More text, with the log probabilities of its tokens."""
        more = b',"logprobsResult":' + to_json(logprobs)
        part = b'{"text":' + _encode(text) + b"}"
        return escape(_BEFORE + part + _CONTENT_END + more + self._tail[len(_CONTENT_END) :])

    def end(self, last: JsonObject, members: JsonObject) -> bytes:
        """The last chunk: its part, and the members of the candidate that tell the end."""
        more = b"," + to_json(members)[1:-1]
        rest = self._tail[len(_CONTENT_END) :]
        return _BEFORE + escape(to_json(last)) + _CONTENT_END + escape(more) + rest

    def block(self, feedback: JsonObject) -> bytes:
        """The one chunk of an answer whose prompt was not let through."""
        given = b'data: {"promptFeedback":' + escape(to_json(feedback)) + b","
        return given + self._usage + self._names

    def answer(self) -> JsonObject:
        """Raises RuntimeError: a streamed answer is not stored."""
        raise RuntimeError("a streamed answer is not kept")


class Whole(Struct, eq=False):
    """The answer as one object. Its methods return no bytes."""

    _body: JsonObject = {}
    _names: JsonObject = {}
    _parts: list[JsonObject] = []
    _pieces: list[str] = []
    """The pieces of the last part, if that is a text which may go on."""
    _chosen: list[Any] = []
    _top: list[Any] = []
    _usage: Usage | None = None

    def begin(self, identifier: str, model: str) -> None:
        """Id and model of the answer."""
        self._names = {"modelVersion": model, "responseId": identifier}

    def meter(self, usage: Usage | None) -> None:
        """The usage so far."""
        self._usage = usage

    def text(self, text: str, *, thought: bool) -> bytes:
        """More text; pieces of one kind are one part."""
        last = self._parts[-1] if self._pieces else None
        if last is None or last.get("thought", False) is not thought:
            self._join()
            self._parts.append({"text": "", "thought": True} if thought else {"text": ""})
        self._pieces.append(text)
        return b""

    def _join(self) -> None:
        if self._pieces:
            self._parts[-1]["text"] = "".join(self._pieces)
            self._pieces.clear()

    def part(self, part: JsonObject) -> bytes:
        """A part that is whole."""
        self._join()
        self._parts.append(part)
        return b""

    def sign(self, signature: str) -> bool:
        """Sign the last part. Whether there is one without a signature."""
        self._join()
        if not self._parts or "thoughtSignature" in self._parts[-1]:
            return False
        self._parts[-1]["thoughtSignature"] = signature
        return True

    def text_with_logprobs(self, text: str, logprobs: JsonObject) -> bytes:
        """More text, with the log probabilities of its tokens."""
        self._chosen += logprobs["chosenCandidates"]
        self._top += logprobs["topCandidates"]
        return self.text(text, thought=False)

    def end(self, last: JsonObject, members: JsonObject) -> bytes:
        """Put the candidate together; `last` is a part only if it has more than an empty text, or
        if there is no other."""
        self._join()
        if len(last) > 1 or not self._parts:
            self._parts.append(last)
        candidate: JsonObject = {"content": {"parts": self._parts, "role": "model"}, **members}
        candidate["index"] = 0
        if self._chosen:
            candidate["logprobsResult"] = {
                "chosenCandidates": self._chosen,
                "topCandidates": self._top,
            }
        self._body = {"candidates": [candidate]}
        return b""

    def block(self, feedback: JsonObject) -> bytes:
        """An answer whose prompt was not let through."""
        self._body = {"promptFeedback": feedback}
        return b""

    def answer(self) -> JsonObject:
        """The answer."""
        usage = {} if self._usage is None else {"usageMetadata": write_usage(self._usage)}
        return {**self._body, **usage, **self._names}


Output: TypeAlias = Chunks | Whole


def write_logprobs(records: Sequence[Any]) -> JsonObject:
    """Token records of the OpenAI protocols as a `logprobsResult`."""
    objects = [record for record in records if isinstance(record, dict)]
    return {
        "chosenCandidates": _chosen(objects),
        "topCandidates": [{"candidates": _chosen(one.get("top_logprobs"))} for one in objects],
    }


def _chosen(records: Any) -> list[JsonObject]:
    chosen = []
    for record in records if isinstance(records, list) else ():
        if isinstance(record, dict):
            token, value = record.get("token"), record.get("logprob")
            value = value if type(value) in (int, float) else None
            text = token if isinstance(token, str) else ""
            chosen.append({"token": text, "logProbability": value})
    return chosen
