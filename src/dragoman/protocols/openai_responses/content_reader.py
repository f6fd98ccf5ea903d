"""Reads the content parts of messages and tool outputs (types: response_input_text_param.py,
response_input_image_param.py, response_input_file_param.py, response_output_text_param.py).
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable
from mimetypes import types_map
from typing import Any

from dragoman.canonical.blocks import (
    Annotation,
    Audio,
    Base64,
    Block,
    CacheMark,
    Document,
    FileId,
    ForeignCitation,
    Image,
    Refusal,
    Text,
    Url,
    UrlCitation,
)
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra
from dragoman.protocols.openai_responses import shapes, wire
from dragoman.protocols.reading import report_lost

_PDF_HEAD = "JVBERi"
"""The beginning of any PDF in base64 (`%PDF`)."""
_UNKNOWN_BYTES = "application/octet-stream"


def read_content(
    content: shapes.Content, path: str, extras: list[Extra], phase: str | None = None
) -> tuple[Block, ...]:
    """The blocks of a message's or an output's content.

    Raises:
        InvalidRequest: at the part or field at fault.
    """
    if isinstance(content, str):
        return (Text(text=content, phase=phase, path=path),)
    return tuple(
        [
            _read_part(part, f"{path}[{number}]", extras, phase)
            for number, part in enumerate(content)
        ]
    )


def _read_part(part: shapes.AnyPart, path: str, extras: list[Extra], phase: str | None) -> Block:
    mark = part.prompt_cache_breakpoint
    cache = None if mark is None else CacheMark(mark.ttl, "prompt_cache_breakpoint")
    match part:
        case shapes.TextPart():
            return _read_text(part, path, cache, phase)
        case shapes.RefusalPart():
            return Refusal(text=part.refusal, cache=cache, path=path)
        case shapes.ImagePart():
            return _read_image(part, path, cache, extras)
        case shapes.FilePart():
            report_lost(part, path, extras)
            return _read_file(part, path, cache, extras)
        case shapes.ReasoningText():
            raise InvalidRequest.at(f"{path}.type", "unknown content part 'reasoning_text'")
    audio = part.input_audio
    _check_base64(audio.data, f"{path}.input_audio.data")
    return Audio(data=audio.data, format=audio.format, cache=cache, path=path)


def _read_text(
    part: shapes.TextPart, path: str, cache: CacheMark | None, phase: str | None
) -> Text:
    logprobs = part.logprobs
    return Text(
        text=part.text,
        annotations=tuple(map(read_annotation, part.annotations or ())),
        logprobs=tuple(logprobs) if logprobs else None,
        phase=phase,
        cache=cache,
        path=path,
    )


def read_annotation(value: dict[str, Any]) -> Annotation:
    """A citation; anything but a well-formed `url_citation` stays unchanged."""
    url, title = value.get("url"), value.get("title")
    start, end = value.get("start_index"), value.get("end_index")
    if value.get("type") != "url_citation" or type(url) is not str:
        return ForeignCitation(wire.NAME, value)
    if type(start) is not int or type(end) is not int:
        start = end = None
    return UrlCitation(url=url, title=title if type(title) is str else "", start=start, end=end)


def _read_image(
    part: shapes.ImagePart, path: str, cache: CacheMark | None, extras: list[Extra]
) -> Image:
    source: Base64 | Url | FileId
    if part.image_url is not None:
        source = _read_url(part.image_url, f"{path}.image_url")
        _leave_out(part, path, ("file_id",), extras)
    elif part.file_id is not None:
        source = FileId(part.file_id, wire.VENDOR)
    else:
        raise InvalidRequest.at(f"{path}.image_url", "is required, or file_id")
    return Image(source=source, detail=part.detail, cache=cache, path=path)


def _leave_out(
    part: shapes.ImagePart | shapes.FilePart, path: str, names: Iterable[str], extras: list[Extra]
) -> None:
    """Account for the further sources of a part."""
    for name in names:
        given = getattr(part, name)
        if given is not None:
            extras.append(Extra(f"{path}.{name}", given, LossKind.KNOB, "it has another source"))


def _read_url(url: str, path: str) -> Base64 | Url:
    head = url[:8].lower()
    if head.startswith("data:"):
        media_type, data = _split_data_url(url, path)
        if not media_type:
            raise InvalidRequest.at(path, "the data URL names no media type")
        return Base64(media_type, data)
    if head.startswith(("http://", "https://")):
        return Url(url)
    raise InvalidRequest.at(path, "must be an http(s) or data URL")


def _split_data_url(url: str, path: str) -> tuple[str, str]:
    head, comma, data = url[len("data:") :].partition(",")
    media_type, *parameters = head.split(";")
    if not comma or not parameters or parameters[-1].strip().lower() != "base64":
        raise InvalidRequest.at(path, "must be a base64 data URL")
    _check_base64(data, path)
    return media_type.strip().lower(), data


def _check_base64(data: str, path: str) -> None:
    try:
        if data and binascii.a2b_base64(data, strict_mode=True):
            return
    except ValueError:
        pass
    raise InvalidRequest.at(path, "is not valid base64")


def _read_file(
    part: shapes.FilePart, path: str, cache: CacheMark | None, extras: list[Extra]
) -> Document:
    source: Base64 | Url | FileId
    if part.file_data is not None:
        source = _read_file_data(part.file_data, part.filename, f"{path}.file_data")
        _leave_out(part, path, ("file_url", "file_id"), extras)
    elif part.file_url is not None:
        source = _read_url(part.file_url, f"{path}.file_url")
        _leave_out(part, path, ("file_id",), extras)
    elif part.file_id is not None:
        source = FileId(part.file_id, wire.VENDOR)
    else:
        raise InvalidRequest.at(f"{path}.file_data", "is required, or file_url or file_id")
    return Document(source=source, title=part.filename, cache=cache, path=path)


def _read_file_data(data: str, name: str | None, path: str) -> Base64:
    """`file_data` is a data URL in practice, and bare base64 by its documentation."""
    if data[:5].lower() == "data:":
        media_type, data = _split_data_url(data, path)
    else:
        media_type = ""
        _check_base64(data, path)
    return Base64(media_type or _media_type(data, name), data)


def _media_type(data: str, name: str | None) -> str:
    if data.startswith(_PDF_HEAD):
        return "application/pdf"
    _, dot, ending = (name or "").rpartition(".")
    return types_map.get(dot + ending.lower(), _UNKNOWN_BYTES)
