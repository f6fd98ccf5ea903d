"""Reads the contents of a request as turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from operator import attrgetter, is_not
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from dragoman import jsontext
from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Block,
    Document,
    Foreign,
    Image,
    Media,
    MediaSource,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.canonical.call_ids import made_id
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra, Role, Turn
from dragoman.protocols import google_wire
from dragoman.protocols.base import to_json_text
from dragoman.protocols.google_generate_content import shapes, wire
from dragoman.protocols.google_generate_content.spelling import snake
from dragoman.protocols.google_media import source_of, standard_base64
from dragoman.protocols.google_signatures import read_signature
from dragoman.protocols.reading import carried_object, needed, report_lost

_ROLES: dict[str | None, Role] = {
    None: "user",
    "": "user",
    "user": "user",
    "function": "user",
    "tool": "user",
    "model": "assistant",
}

_HIGH, _LOW = "MEDIA_RESOLUTION_HIGH", "MEDIA_RESOLUTION_LOW"
DETAILS = {_HIGH: "high", _LOW: "low"}
"""The details of pictures for resolutions of media."""


class _Calls(Struct, eq=False):
    """The calls of a conversation that wait for their results. Those without an id get one, the
    same in all requests of the conversation."""

    _count: int = 0
    _waiting: list[tuple[str, str, str]] = []
    """Given id, own id and name of each."""

    def made(self, call: shapes.FunctionCall) -> str:
        """The id of a call."""
        self._count += 1
        given = call.id or ""
        own = given or made_id("call_", f"{self._count}:{call.name}")
        self._waiting.append((given, own, call.name))
        return own

    def answered(self, result: shapes.FunctionResponse) -> str:
        """The id of the call that has this result: the one of its id, if both have one, else the
        first of its name."""
        for place, (given, own, name) in enumerate(self._waiting):
            if given == result.id if given and result.id else name == result.name:
                del self._waiting[place]
                return own
        return result.id or made_id("call_", result.name)


class ContentReader(Struct, eq=False):
    """The reader of contents; members with no canonical counterpart go into `extras`."""

    _sealer: Sealer
    _extras: list[Extra]
    _detail: str | None = None
    """The detail of pictures that have none of their own."""
    _calls: _Calls = field(default_factory=_Calls)

    def turns(self, contents: Sequence[shapes.Content]) -> tuple[Turn, ...]:
        """The turns of a conversation. Neighbouring contents of the model are one: SDKs keep each
        chunk of a stream as one.

        Raises:
            InvalidRequest: naming the field.
        """
        turns: list[Turn] = []
        said: list[Block] = []
        start, begun = 0, ""
        """Where what follows the last call of the model begins in `said`, and the path of that."""
        for number, content in enumerate(contents):
            path = f"contents[{number}]"
            role = _ROLES.get(content.role)
            if role is None:
                raise InvalidRequest.at(f"{path}.role", "must be user or model")
            if role == "assistant":
                begun = begun or path
                start = self._model(content.parts or (), path, said, start)
                continue
            if said:
                turns.append(Turn(role="assistant", blocks=tuple(said), path=begun))
                said = []
            start, begun = 0, ""
            if not content.parts:
                raise InvalidRequest.at(f"{path}.parts", "must not be empty")
            blocks = self._user(content.parts, path)
            if blocks:
                turns.append(Turn(role=role, blocks=blocks, path=path))
        if said:
            turns.append(Turn(role="assistant", blocks=tuple(said), path=begun))
        return tuple(turns)

    def system(self, content: shapes.Content) -> tuple[Text, ...]:
        """System instructions: their texts.

        Raises:
            InvalidRequest: naming the field.
        """
        texts: list[Text] = []
        for number, part in enumerate(content.parts or ()):
            path = f"systemInstruction.parts[{number}]"
            self._kind_of(part, path)
            if part.text:
                texts.append(Text(text=part.text, path=f"{path}.text"))
            elif part.text is None:
                detail = "only text can be translated in system instructions"
                self._extras.append(Extra(path, None, LossKind.CONTENT, detail))
        return tuple(texts)

    def _user(self, parts: Sequence[shapes.Part], path: str) -> tuple[Block, ...]:
        blocks: list[Block] = []
        for number, part in enumerate(parts):
            at = f"{path}.parts[{number}]"
            kind = self._kind_of(part, at)
            if kind is None:
                continue
            if kind == "functionCall":
                raise InvalidRequest.at(f"{at}.functionCall", "must be the model's")
            blocks += _READERS[kind](self, part, at)
        return tuple(blocks)

    def _model(self, parts: Sequence[shapes.Part], path: str, said: list[Block], start: int) -> int:
        """Add the blocks of parts to those `said` before in the same turn. Returns the place after
        the last call."""
        for number, part in enumerate(parts):
            at = f"{path}.parts[{number}]"
            kind = self._kind_of(part, at)
            if kind is None:
                continue
            own, given = None, part.thought_signature
            if given:
                signature = read_signature(given, self._sealer, f"{at}.thoughtSignature")
                for block in signature.sealed:
                    _put(block, said, start, at)
                own = Opaque(wire.NAME, signature.own) if signature.own else None
            if kind == "functionCall":
                if own is not None:
                    opaque = replace(own, anchor="next")
                    said.append(Reasoning(opaque=opaque, path=f"{at}.thoughtSignature"))
                said += _READERS[kind](self, part, at)
                start = len(said)
            elif part.thought:
                _think(part.text or "", own, said, at)
            else:
                _say(_READERS[kind](self, part, at), said, is_signed=own is not None)
                if own is not None:
                    # On an empty text it stands by itself.
                    opaque = replace(own, anchor="previous") if kind != "text" or part.text else own
                    said.append(Reasoning(opaque=opaque, path=f"{at}.thoughtSignature"))
        return start

    def _kind_of(self, part: shapes.Part, path: str) -> str | None:
        """The member of a part that says what it is; None if only members say so that nobody knows,
        which then are what it says.

        Raises:
            InvalidRequest: there is none, or more than one.
        """
        report_lost(part, path, self._extras)
        kinds = [*compress(shapes.KINDS, map(is_not, _kinds_of(part), _ABSENT))]
        if len(kinds) > 1:
            raise InvalidRequest.at(f"{path}.{kinds[1]}", f"cannot stand beside {kinds[0]}")
        if kinds:
            return kinds[0]
        if part.thought_signature:
            return "text"
        inside = [n for n, one in enumerate(self._extras) if one.path.startswith(f"{path}.")]
        if not inside:
            raise InvalidRequest.at(path, f"must have one of {', '.join(shapes.KINDS)}")
        for number in inside:
            extra = self._extras[number]
            self._extras[number] = replace(extra, kind=LossKind.CONTENT)
        return None

    # --- parts ----------------------------------------------------------------------------------

    def _text(self, part: shapes.Part, path: str) -> list[Block]:
        return [Text(text=part.text, path=f"{path}.text")] if part.text else []

    def _inline(self, part: shapes.Part | shapes.ResponsePart, path: str) -> list[Block]:
        assert part.inline_data is not None
        blob, at = part.inline_data, f"{path}.inlineData"
        media_type = needed(blob.mime_type, at, "mimeType")
        source = Base64(media_type, standard_base64(blob.data, f"{at}.data"))
        return [self._medium(source, media_type, blob.display_name, part, path)]

    def _file(self, part: shapes.Part | shapes.ResponsePart, path: str) -> list[Block]:
        assert part.file_data is not None
        file = part.file_data
        source = source_of(needed(file.file_uri, f"{path}.fileData", "fileUri"))
        return [self._medium(source, file.mime_type, file.display_name, part, path)]

    def _medium(
        self,
        source: MediaSource,
        media_type: str,
        title: str | None,
        part: shapes.Part | shapes.ResponsePart,
        path: str,
    ) -> Block:
        """The block of a file, by its media type."""
        family, _, _ = media_type.partition("/")
        kind = media_type.lower().partition(";")[0].strip()
        if family == "image" or (not kind and isinstance(source, Url)):
            return Image(source=source, detail=self._detail_of(part), path=path)
        if kind == "application/pdf" or family == "text":
            return Document(source=source, title=title or None, path=path)
        if isinstance(source, Base64) and kind in google_wire.AUDIO_FORMATS:
            return Audio(data=source.data, format=google_wire.AUDIO_FORMATS[kind], path=path)
        return Media(source=source, media_type=media_type, path=path)

    def _detail_of(self, part: shapes.Part | shapes.ResponsePart) -> str | None:
        given = part.media_resolution
        level = given.get("level") if isinstance(given, dict) else given
        return DETAILS.get(level) if isinstance(level, str) else self._detail

    def _call(self, part: shapes.Part, path: str) -> list[Block]:
        assert part.function_call is not None
        call, at = part.function_call, f"{path}.functionCall"
        name = call.name or needed(call.name, at, "name")
        report_lost(call, at, self._extras)
        carried = carried_object(call.args, at, "args")
        arguments = "{}" if carried is None else bytes(carried).decode()
        return [ToolCall(id=self._calls.made(call), name=name, arguments=arguments, path=at)]

    def _result(self, part: shapes.Part, path: str) -> list[Block]:
        assert part.function_response is not None
        result, at = part.function_response, f"{path}.functionResponse"
        needed(result.name or result.id, at, "name")
        report_lost(result, at, self._extras)
        carried = carried_object(result.response, at, "response")
        response = {} if carried is None else jsontext.decode(carried)
        content, failed = _content_of(response, f"{at}.response")
        for number, inner in enumerate(result.parts or ()):
            content += self._response_part(inner, f"{at}.parts[{number}]")
        call_id = self._calls.answered(result)
        is_error = True if failed else None
        return [ToolResult(call_id=call_id, content=tuple(content), is_error=is_error, path=at)]

    def _response_part(self, part: shapes.ResponsePart, path: str) -> list[Block]:
        report_lost(part, path, self._extras)
        if (part.inline_data is None) is (part.file_data is None):
            raise InvalidRequest.at(path, "must have either inlineData or fileData")
        return self._file(part, path) if part.inline_data is None else self._inline(part, path)

    def _hosted(self, part: shapes.Part, path: str) -> list[Block]:
        raw: dict[str, Any] = msgspec.to_builtins(part)
        kind = next(name for name in (*wire.HOSTED_PARTS, "audioTranscription") if name in raw)
        return [
            Foreign(
                origin=wire.NAME,
                type=kind,
                raw=raw,
                loss=LossKind.CONVERTED,
                text=_readable(kind, raw[kind]),
                path=path,
            )
        ]


_kinds_of = attrgetter(*map(snake, shapes.KINDS))
_ABSENT = (None,) * len(shapes.KINDS)

_READERS: dict[str, Callable[[ContentReader, shapes.Part, str], list[Block]]] = {
    "text": ContentReader._text,
    "inlineData": ContentReader._inline,
    "fileData": ContentReader._file,
    "functionCall": ContentReader._call,
    "functionResponse": ContentReader._result,
    **dict.fromkeys((*wire.HOSTED_PARTS, "audioTranscription"), ContentReader._hosted),
}


def _say(blocks: list[Block], said: list[Block], *, is_signed: bool) -> None:
    """Add what the model said. Pieces of one text are joined, but none that has a signature."""
    last = said[-1] if said else None
    if (
        len(blocks) == 1
        and isinstance(blocks[0], Text)
        and isinstance(last, Text)
        and not is_signed
    ):
        said[-1] = replace(last, text=last.text + blocks[0].text)
    else:
        said += blocks


def _think(text: str, own: Opaque | None, said: list[Block], path: str) -> None:
    """Add what the model thought; pieces of one thought are joined up to a signature."""
    last = said[-1] if said else None
    if isinstance(last, Reasoning) and last.opaque is None and last.parts:
        said[-1] = replace(last, parts=(last.text + text,), opaque=own)
    elif text or own is not None:
        said.append(Reasoning(parts=(text,) if text else (), opaque=own, path=path))


def _put(block: Reasoning, said: list[Block], start: int, path: str) -> None:
    """Put reasoning that was sealed back where it was: in place of the same thoughts without a
    signature, else before all that was said since the last call."""
    for place in range(start, len(said)):
        shown = said[place]
        if isinstance(shown, Reasoning) and shown.opaque is None and shown.text == block.text:
            said[place] = replace(block, path=shown.path)
            return
    place = start
    while place < len(said) and isinstance(said[place], Reasoning):
        place += 1
    said.insert(place, replace(block, path=path))


def _content_of(response: dict[str, Any], path: str) -> tuple[list[Block], bool]:
    """The content of a result, and whether it is that of a failure: the one text of `output`,
    `result` or `error`, else the whole object as JSON."""
    if not response:
        return [], False
    if len(response) == 1:
        (name,) = response
        value = response[name]
        if name in ("output", "result", "error"):
            text = value if isinstance(value, str) else to_json_text(value)
            blocks: list[Block] = [Text(text=text, path=f"{path}.{name}")] if text else []
            return blocks, name == "error"
    return [Text(text=to_json_text(response), path=path)], False


def _readable(kind: str, value: dict[str, Any]) -> str:
    """The work of a tool of the vendor's, as text."""
    if kind == "executableCode":
        return f"```python\n{value.get('code', '')}\n```"
    if kind == "codeExecutionResult":
        return f"```\n{value.get('output', '')}\n```"
    if kind == "audioTranscription":
        text = value.get("text")
        return text if isinstance(text, str) else ""
    return f"```json\n{to_json_text(value)}\n```"
