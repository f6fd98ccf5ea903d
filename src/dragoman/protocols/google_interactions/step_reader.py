"""Reads the input of a request as turns.

Neighbouring steps of one side are one turn. Results of calls follow the turn that made these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Block,
    Document,
    Foreign,
    Image,
    Media,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    WebSearch,
)
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra, Role, Turn
from dragoman.protocols import google_wire
from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import check_depth
from dragoman.protocols.google_interactions import shapes, wire
from dragoman.protocols.google_media import source_of, standard_base64
from dragoman.protocols.google_signatures import read_signature
from dragoman.protocols.raw import is_text, text_of
from dragoman.protocols.reading import Reader, carried_object, carried_value, needed, report_lost
from dragoman.protocols.unknown_text import unknown_block

_items = Reader(list[shapes.Item])
_contents = Reader(list[shapes.Content])

_DETAILS: Final = {"low": "low", "medium": "high", "high": "high", "ultra_high": "high"}
_SEEN_CONTENT: Final = (
    shapes.TextContent,
    shapes.ImageContent,
    shapes.AudioContent,
    shapes.DocumentContent,
    shapes.VideoContent,
)
_OLD_TURN: Final = f"is a turn of a revision before {wire.REVISION}: send steps"


class StepReader(Struct, eq=False):
    """The reader of an input. Members with no canonical counterpart go into `extras`, those that no
    shape has into `unknown`."""

    _sealer: Sealer
    _extras: list[Extra]
    _unknown: list[Extra]
    _turns: list[Turn] = []
    _calls: set[str] = set()

    def read(self, given: Raw) -> tuple[Turn, ...]:
        """The turns of an input: a text, one content, contents, or steps.

        Raises:
            InvalidRequest: naming the field.
        """
        text = bytes(given)
        if text in (b"", b"null"):
            raise InvalidRequest.at("input", "is required", code="missing_required_parameter")
        if is_text(given):
            self._add("user", [Text(text=text_of(given), path="input")], "input")
            return tuple(self._turns)
        if text.startswith(b"{"):
            content = _contents.read(Raw(b"[%b]" % text), self._unknown, "input")
            self._add("user", self._content(content, "input", is_one=True), "input")
            return tuple(self._turns)
        items = _items.read(given, self._unknown, "input")
        if not items:
            raise InvalidRequest.at("input", "must not be empty")
        is_content = isinstance(items[0], _SEEN_CONTENT)
        for number, item in enumerate(items):
            path = f"input[{number}]"
            if isinstance(item, shapes.UnknownItem) and item.kind == shapes.TURN:
                raise InvalidRequest.at(path, _OLD_TURN)
            if isinstance(item, _SEEN_CONTENT) is not is_content:
                problem = "is content among steps" if not is_content else "is a step among content"
                raise InvalidRequest.at(path, f"{problem}: an input has one or the other")
            if not isinstance(item, _SEEN_CONTENT):
                self._step(item, path)
        if is_content:
            contents: Any = items
            self._add("user", self._content(contents, "input"), "input")
        return tuple([turn for turn in self._turns if turn.blocks])

    def _add(self, role: Role, blocks: Sequence[Block], path: str) -> None:
        last = self._turns[-1] if self._turns else None
        if last is None or last.role != role:
            self._turns.append(Turn(role=role, blocks=tuple(blocks), path=path))
        else:
            self._turns[-1] = replace(last, blocks=(*last.blocks, *blocks))

    # --- steps ----------------------------------------------------------------------------------

    def _step(self, step: Any, path: str) -> None:
        if not isinstance(step, shapes.UnknownItem):
            report_lost(step, path, self._extras)
        match step:
            case shapes.UserInput():
                if not step.content:
                    raise InvalidRequest.at(f"{path}.content", "must not be empty")
                self._add("user", self._content(step.content, f"{path}.content"), path)
            case shapes.ModelOutput():
                blocks = self._content(step.content or (), f"{path}.content")
                self._add("assistant", blocks, path)
            case shapes.Thought():
                self._add("assistant", self._thought(step, path), path)
            case shapes.FunctionCall():
                self._add("assistant", [self._call(step, path)], path)
            case shapes.FunctionResult():
                self._add("user", [self._result(step, path)], path)
            case _:
                self._carry(step, path)

    def _thought(self, step: shapes.Thought, path: str) -> list[Block]:
        texts: list[str] = []
        for number, part in enumerate(step.summary or ()):
            at = f"{path}.summary[{number}]"
            if isinstance(part, shapes.TextContent):
                texts.append(part.text)
            else:
                detail = "only the text of a thought is carried"
                self._extras.append(Extra(at, None, LossKind.KNOB, detail))
        shown = Reasoning(parts=tuple(filter(None, texts)), path=path)
        signature = read_signature(step.signature or "", self._sealer, f"{path}.signature")
        if signature.sealed:
            return [replace(block, path=path) for block in signature.sealed]
        if signature.own:
            return [replace(shown, opaque=Opaque(wire.NAME, signature.own))]
        return [shown] if shown.parts else []

    def _call(self, step: shapes.FunctionCall, path: str) -> ToolCall:
        name = needed(step.id, path, "id")
        if name in self._calls:
            raise InvalidRequest.at(f"{path}.id", "is that of another call")
        self._calls.add(name)
        carried = carried_object(step.arguments, path, "arguments")
        arguments = "{}" if carried is None else bytes(carried).decode()
        return ToolCall(
            id=name, name=needed(step.name, path, "name"), arguments=arguments, path=path
        )

    def _result(self, step: shapes.FunctionResult, path: str) -> ToolResult:
        call_id, at = needed(step.call_id, path, "call_id"), f"{path}.result"
        value = step.result
        blocks: list[Block] = []
        if bytes(value).startswith(b"["):
            blocks = self._content(_contents.read(value, self._unknown, at), at)
        elif (given := carried_value(value, at)) not in (None, ""):
            check_depth(given, at)
            text = given if isinstance(given, str) else to_json_text(given)
            blocks = [Text(text=text, path=at)]
        is_error = step.is_error or None
        return ToolResult(call_id=call_id, content=tuple(blocks), is_error=is_error, path=path)

    def _carry(self, step: shapes.UnknownItem, path: str) -> None:
        """Take a step that is not read by its members."""
        kind, value = step.kind, step.value
        check_depth(value, path)
        if kind in wire.HOSTED_STEPS:
            means = _searches(value) if kind in (wire.SEARCH_CALL, wire.SEARCH_RESULT) else None
            block = Foreign(origin=wire.NAME, type=kind, raw=value, means=means, path=path)
        else:
            block = unknown_block(wire.NAME, kind, value, path, self._extras, LossKind.KNOB)
        self._add("assistant", [block], path)

    # --- content --------------------------------------------------------------------------------

    def _content(
        self, given: Sequence[shapes.Content], path: str, *, is_one: bool = False
    ) -> list[Block]:
        blocks: list[Block] = []
        for number, part in enumerate(given):
            at = path if is_one else f"{path}[{number}]"
            if isinstance(part, shapes.UnknownContent):
                check_depth(part.value, at)
                kind, value, loss = part.kind, part.value, LossKind.CONTENT
                blocks.append(unknown_block(wire.NAME, kind, value, at, self._extras, loss))
                continue
            report_lost(part, at, self._extras)
            if isinstance(part, shapes.ImageContent):
                self._report_resolution(part.resolution, at)
            if not isinstance(part, shapes.TextContent):
                blocks.append(_medium(part, at))
            elif part.text:
                blocks.append(Text(text=part.text, path=f"{at}.text"))
        return blocks

    def _report_resolution(self, given: str | None, path: str) -> None:
        taken = _DETAILS.get(given or "")
        if given and taken != given:
            kind = LossKind.KNOB if taken is None else LossKind.CONVERTED
            detail = f"resolution {given} became {taken or 'the default'}"
            self._extras.append(Extra(f"{path}.resolution", given, kind, detail))


def _medium(
    part: shapes.ImageContent | shapes.AudioContent | shapes.DocumentContent | shapes.VideoContent,
    path: str,
) -> Block:
    """The block of a file.

    Raises:
        InvalidRequest: naming the field.
    """
    kind = part.mime_type.lower().partition(";")[0].strip()
    if (part.data is None) is (part.uri is None):
        raise InvalidRequest.at(path, "must have either data or uri")
    if part.uri is not None:
        source: Any = source_of(needed(part.uri, path, "uri"))
    else:
        media_type = needed(part.mime_type, path, "mime_type")
        source = Base64(media_type, standard_base64(part.data or "", f"{path}.data"))
    match part:
        case shapes.ImageContent():
            return Image(source=source, detail=_DETAILS.get(part.resolution or ""), path=path)
        case shapes.DocumentContent():
            return Document(source=source, path=path)
        case shapes.AudioContent() if (
            isinstance(source, Base64) and kind in google_wire.AUDIO_FORMATS
        ):
            return Audio(data=source.data, format=google_wire.AUDIO_FORMATS[kind], path=path)
    return Media(source=source, media_type=part.mime_type, path=path)


def _searches(value: dict[str, Any]) -> tuple[WebSearch, ...]:
    """What a step of the vendor's search means to other vendors: nothing, if it is a result."""
    arguments = value.get("arguments")
    queries = arguments.get("queries") if isinstance(arguments, dict) else None
    asked = [one for one in queries if isinstance(one, str)] if isinstance(queries, list) else []
    return tuple([WebSearch(query=query) for query in asked])
