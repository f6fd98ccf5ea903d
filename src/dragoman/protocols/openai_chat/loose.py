"""Answers and chunks of compatible servers, put into the protocol's form.

Content in unusual members or types is moved to its own place; what nobody reads is reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, structs

from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.protocols.base import to_json_text
from dragoman.protocols.error_body import is_error, stray_error
from dragoman.protocols.fields import SPEAKING, JsonObject
from dragoman.protocols.finish_words import unknown_finish
from dragoman.protocols.numbers import whole_number
from dragoman.protocols.openai_chat.reasoning import TEXT_FIELDS, text_in, text_of
from dragoman.protocols.openai_chat.shapes import (
    Answer,
    CallPiece,
    Choice,
    CustomPiece,
    FunctionPiece,
    Said,
)
from dragoman.protocols.openai_errors import fault_of
from dragoman.protocols.reading import UNKNOWN, Lost

_KNOB, _CONTENT = LossKind.KNOB, LossKind.CONTENT

ANSWER: dict[str, Lost] = {
    "audio": Lost(_CONTENT, "audio cannot be translated"),
    "moderation": Lost(_KNOB, "has no counterpart downstream"),
    "citations": Lost(_KNOB, "a list of sources without places"),
}
"""Members anywhere in an answer without a canonical counterpart."""

_BESIDES: dict[str, Lost] = ANSWER | dict.fromkeys(
    (
        "cache_control",
        "channel",  # Groq: reasoning or not, as the delta's members show
        "content_filter_results",
        "context",  # Azure: what it searched
        "executed_tools",  # Groq: what its own tools did
        "extra_content",  # Google: signatures of thoughts
        "id",
        "name",
        "padding",
        "prefix",
        "prompt_token_ids",
        "provider_specific_fields",  # LiteLLM: repeats other members
        "reasoning_signature",
        "search_results",
        "sources",
        "thinking_blocks",  # LiteLLM: the reasoning once more
        "thought_signature",
        "token_ids",
        "tool_call_id",
        "type",
        "web_search",
    ),
    Lost(_KNOB, "not what the model said"),
)
"""Members of messages that are not content."""

_UNREAD = Lost(_CONTENT, "nobody reads it")
"""Any other member of a message: possibly part of the answer."""


def _read_members(shape: type[Struct]) -> frozenset[str]:
    """The members of a shape that may have a value."""
    members = structs.fields(shape)
    return frozenset(one.encode_name for one in members if one.type not in (None, type(None)))


_ANSWER_MEMBERS, _CHOICE_MEMBERS = _read_members(Answer), _read_members(Choice)
_SAID_MEMBERS = (_read_members(Said) - {"audio"}) | set(TEXT_FIELDS)
_SPEECH_MEMBERS = frozenset({"role", "content", "refusal", "annotations"})
_CONTENT_MEMBERS = _SAID_MEMBERS - {"role", "annotations"}
_SPEAKERS = frozenset({"user", "system", "developer", "tool", "function"})
_EMPTY_VALUES: tuple[Any, ...] = (None, "", [], {}, False)

_FOREIGN = {"content": "text", "reasoning_content": "thinking_blocks"}
"""Members that some servers use in place of this protocol's."""
_FOREIGN_MEMBERS = frozenset(_FOREIGN.values())


class Loose(Struct, frozen=True):
    """Puts the chunks of one answer into the protocol's form. `source` is the member of a choice
    with the content: `delta` in streams, `message` in whole answers."""

    source: str
    ledger: Ledger

    def answer(self, value: JsonObject) -> Answer:
        """A chunk, or a whole answer.

        Raises:
            UpstreamError: it is an error, or cannot be read.
        """
        error, is_whole = value.get("error"), self.source == "message"
        if error and is_error(error):
            raise UpstreamError(fault_of(stray_error(value)))
        if "choices" not in value:
            error = stray_error(value, "choices") if is_whole else stray_error(value, "usage")
            if error is not None:
                raise UpstreamError(fault_of(error))
        self._report_unknown(value, _ANSWER_MEMBERS, "")
        answer_id, model, tier = (value.get(name) for name in ("id", "model", "service_tier"))
        given, usage = value.get("choices"), value.get("usage")
        choices: list[Choice] | None = [] if given == [] else None
        return Answer(
            id=answer_id if type(answer_id) is str else None,
            created=whole_number(value.get("created")),
            model=model if type(model) is str else None,
            service_tier=tier if type(tier) is str else None,
            choices=list(map(self._choice, _indexed(given))) if given else choices,
            usage=usage if type(usage) is dict else None,
        )

    def _choice(self, given: JsonObject) -> Choice:
        if self.source == "message" and type(given.get("message")) is not dict:
            raise UpstreamError.unreadable("its choice has no message")
        if not _CHOICE_MEMBERS.issuperset(given):
            given = _with_own_delta(given, self.source)
            self._report_unknown(given, _CHOICE_MEMBERS, "choices[0]")
        index, text, reason = given.get("index"), given.get("text"), given.get("finish_reason")
        if reason and type(reason) is not str:
            raise UpstreamError(unknown_finish(reason))
        return Choice(
            index=index if type(index) is int else 0,
            finish_reason=reason if type(reason) is str else None,
            logprobs=given.get("logprobs"),
            stop_reason=given.get("stop_reason"),
            matched_stop=given.get("matched_stop"),
            delta=self._said(given.get("delta")) if self.source == "delta" else None,
            message=self._said(given.get("message")),
            text=text if type(text) is str else None,
        )

    def _said(self, given: Any) -> Said | None:
        if type(given) is str:
            given = {"content": given}
        if type(given) is not dict:
            return None
        thought = ""
        if not _SPEECH_MEMBERS.issuperset(given):
            given = _as_known(given)
            path = f"choices[0].{self.source}"
            self._report_unknown(given, _SAID_MEMBERS, path, _BESIDES, _UNREAD)
            thought = self._reasoning(given)
        role = given.get("role")
        if role and str(role).lower() in _SPEAKERS:
            # The model's has other names (`model`, `ai`).
            raise UpstreamError.unreadable("it speaks in another role than assistant")
        content, refusal = given.get("content"), given.get("refusal")
        if type(content) is list or type(content) is dict:
            content, inner, refused = self._parts(content)
            thought = thought if thought == inner else thought + inner
            refusal = refusal or refused
        elif content is not None and type(content) is not str:
            content = to_json_text(content) if content is not False else None
        details, annotations = given.get("reasoning_details"), given.get("annotations")
        legacy = given.get("function_call")
        called = self._piece({"function": legacy}, "function_call") if legacy else CallPiece()
        return Said(
            role="assistant" if role else None,
            content=content,
            refusal=refusal if type(refusal) is str else None,
            reasoning_content=thought,
            reasoning_details=details if type(details) is list else None,
            tool_calls=self._calls(given.get("tool_calls")),
            function_call=called.function,
            annotations=annotations if type(annotations) is list else None,
        )

    def _reasoning(self, given: JsonObject) -> str:
        """The reasoning of a message; other reasoning, and what is no text, is reported."""
        thought = text_of(given)
        for name in TEXT_FIELDS:
            other = given.get(name)
            if other and other != thought and text_in(other) != thought:
                detail = "other reasoning is used" if thought else "reasoning that is no text"
                self._lose(name, _KNOB if thought else _CONTENT, detail)
        return thought

    def _parts(self, content: list[Any] | JsonObject) -> tuple[str, str, str]:
        """The text, reasoning and refusal in a content that is a list of parts, or one."""
        texts: list[str] = []
        thoughts: list[str] = []
        refusals: list[str] = []
        for part in content if isinstance(content, list) else (content,):
            if type(part) is str:
                texts.append(part)
            if type(part) is not dict:
                continue
            thinking, text = part.get("thinking"), part.get("text")
            if type(text) is dict:
                text = text.get("value")
            if thinking or part.get("type") == "reasoning":
                thoughts.append(text_in(thinking or part))
            elif type(part.get("refusal")) is str:
                refusals.append(part["refusal"])
            elif type(text) is str:
                texts.append(text)
            elif part:
                kind = str(part.get("type"))[:60]
                self._lose("content", _CONTENT, f"a part of type {kind}, which nobody reads")
        return "".join(texts), "".join(thoughts), "".join(refusals)

    def _calls(self, given: Any) -> list[CallPiece] | None:
        if not given:
            return None
        pieces: list[CallPiece] = []
        for one in given if type(given) is list else (given,):
            if type(one) is dict:
                pieces.append(self._piece(one, "tool_calls"))
            elif one:
                self._lose("tool_calls", _CONTENT)
        return pieces

    def _piece(self, given: JsonObject, member: str) -> CallPiece:
        """A fragment of a call, whose arguments some servers leave under the names that Llama and
        Anthropic have for them, or outside of `function`."""
        custom, function = _object_in(given, "custom"), _object_in(given, "function")
        body = custom if custom is not None else function if function is not None else given
        for unread in _unread(given, function or {}, body is not given):
            self._lose(f"{member}.{unread}", _KNOB)
        is_custom, name = custom is not None, body.get("name")
        text: Any = body.get("input" if is_custom else "arguments")
        if not is_custom and (text is None or text == ""):
            text = body.get("parameters") or body.get("input") or text
        if type(text) is not str:
            # Some servers send the object itself.
            text = None if text is None else to_json_text(text)
        name = name if type(name) is str else None
        index, call_id = given.get("index"), given.get("id")
        inner = {key: (function or {}).get(key) for key in _STATE}
        return CallPiece(
            index=index if type(index) is int else None,
            id=call_id if type(call_id) is str else None,
            function=None if is_custom else FunctionPiece(name=name, arguments=text, **inner),
            custom=CustomPiece(name=name, input=text) if is_custom else None,
            **{key: given.get(key) for key in _STATE},
        )

    def _report_unknown(
        self,
        value: JsonObject,
        known: frozenset[str],
        path: str,
        table: Mapping[str, Lost] = ANSWER,
        other: Lost = UNKNOWN,
    ) -> None:
        """Report the members that have no counterpart in the canonical model."""
        for name, content in value.items():
            if name not in known and content not in _EMPTY_VALUES:
                lost = table.get(name, _UNREAD if name in SPEAKING else other)
                self.ledger.add(f"{path}.{name}" if path else name, lost.kind, lost.detail)

    def _lose(
        self, name: str, kind: LossKind, detail: str = "has no counterpart downstream"
    ) -> None:
        """Report a member of a message."""
        self.ledger.add(f"choices[0].{self.source}.{name}", kind, detail)


def _indexed(choices: Any) -> list[JsonObject]:
    """The choices of a chunk, indexed by position if their indexes are not distinct.

    Raises:
        UpstreamError: they are not objects.
    """
    if type(choices) is not list or not all(type(choice) is dict for choice in choices):
        raise UpstreamError.unreadable("its choices are not objects")
    if len({str(choice.get("index")) for choice in choices}) == len(choices):
        return choices
    return [{**choice, "index": index} for index, choice in enumerate(choices)]


def _object_in(value: JsonObject, name: str) -> JsonObject | None:
    found = value.get(name)
    return found if type(found) is dict else None


def _with_own_delta(choice: JsonObject, source: str) -> JsonObject:
    """The choice with the content that is outside `source` in it.

    Raises:
        UpstreamError: its own content contradicts its delta.
    """
    own = {name: choice[name] for name in _CONTENT_MEMBERS if choice.get(name)}
    if not own:
        return choice
    places = (source, "message", "text")
    given: Any = next((found for name in places if (found := choice.get(name))), {})
    received = given if type(given) is dict else {"content": given}
    remaining = {name: value for name, value in choice.items() if name not in own}
    if not any(received.get(name) for name in _CONTENT_MEMBERS):
        return {**remaining, source: {**received, **own}}
    if any(received.get(name) != own[name] for name in own):
        raise UpstreamError.unreadable("a choice does not say what its delta says")
    return remaining


def _as_known(message: JsonObject) -> JsonObject:
    """The message in this protocol's form if its text or reasoning is under names of other
    protocols only; else unchanged."""
    if _FOREIGN_MEMBERS.isdisjoint(message):
        return message
    moved = {
        name: other
        for name, other in _FOREIGN.items()
        if message.get(other) and not message.get(name)
    }
    if not moved or ("content" not in moved and text_of(message)):
        return message
    remaining = {name: value for name, value in message.items() if name not in moved.values()}
    return remaining | {name: message[other] for name, other in moved.items()}


_STATE = ("extra_content", "thought_signature")
_PIECE_MEMBERS = frozenset({"index", "id", "type", "function", "custom", *_STATE})
_INNER_MEMBERS = frozenset({"name", "arguments", "parameters", "input", *_STATE})


def _unread(piece: JsonObject, function: JsonObject, is_nested: bool) -> Iterator[str]:
    """The paths of the members of a fragment that nobody reads."""
    read = _PIECE_MEMBERS if is_nested else _PIECE_MEMBERS | _INNER_MEMBERS
    for name, value in piece.items():
        if name not in read and value not in _EMPTY_VALUES:
            yield name
    for name, value in function.items():
        if name not in _INNER_MEMBERS and value not in _EMPTY_VALUES:
            yield f"function.{name}"
