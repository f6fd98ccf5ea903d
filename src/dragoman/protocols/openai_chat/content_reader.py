"""Reads the content of messages: text, images, files and audio (types/chat/*_content_part*)."""

from __future__ import annotations

import binascii
from collections.abc import Sequence

from dragoman.canonical.blocks import (
    Audio,
    Base64,
    Block,
    CacheMark,
    Document,
    FileId,
    Image,
    Refusal,
    Text,
    Url,
)
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.requests import Extra
from dragoman.protocols.openai_chat import shapes, wire
from dragoman.protocols.reading import UNKNOWN


def read_content(content: str | Sequence[shapes.AnyPart], path: str) -> tuple[Block, ...]:
    """The blocks of the `content` of the message at `path`: a string, or parts.

    Raises:
        InvalidRequest: naming the member of a part that is at fault.
    """
    if isinstance(content, str):
        return (Text(text=content, path=f"{path}.content"),)
    return tuple([_read_part(part, f"{path}.content[{n}]") for n, part in enumerate(content)])


def _read_part(part: shapes.AnyPart, path: str) -> Block:
    mark = part.prompt_cache_breakpoint
    cache = None if mark is None else CacheMark(mark.ttl, "prompt_cache_breakpoint")
    match part:
        case shapes.TextPart():
            return Text(text=part.text, path=path, cache=cache)
        case shapes.RefusalPart():
            return Refusal(text=part.refusal, path=path, cache=cache)
        case shapes.ImagePart():
            return _read_image(part.image_url, path, cache)
        case shapes.AudioPart(input_audio=audio):
            data = _checked_base64(audio.data, f"{path}.input_audio.data")
            return Audio(data=data, format=audio.format, path=path, cache=cache)
    return _read_file(part.file, path, cache)


def _read_image(image: str | shapes.ImageUrl, path: str, cache: CacheMark | None) -> Image:
    url, detail = (image, None) if isinstance(image, str) else (image.url, image.detail)
    at = f"{path}.image_url.url"
    source = _read_data_url(url, at) if _is_data_url(url) else _read_url(url, at)
    return Image(source=source, detail=detail, path=path, cache=cache)


def _read_file(file: shapes.File, path: str, cache: CacheMark | None) -> Document:
    at = f"{path}.file.file_data"
    data = file.file_data
    source: Base64 | FileId
    if data is None:
        if file.file_id is None:
            raise InvalidRequest.at(at, "is required, or file_id")
        source = FileId(file.file_id, wire.VENDOR)
    elif _is_data_url(data):
        source = _read_data_url(data, at)
    else:
        data = _checked_base64(data, at)
        source = Base64(_guess_media_type(data, file.filename), data)
    return Document(source=source, title=file.filename, path=path, cache=cache)


def report_other(given: shapes.Tool | shapes.ToolCall, path: str, extras: list[Extra]) -> None:
    """Report the member of a tool or call that is not of its type."""
    name = "function" if given.type == "custom" else "custom"
    value = getattr(given, name)
    if value is not None:
        extras.append(Extra(f"{path}.{name}", value, UNKNOWN.kind, UNKNOWN.detail))


def _is_data_url(url: str) -> bool:
    return url[:5].lower() == "data:"


def _read_data_url(url: str, path: str) -> Base64:
    head, comma, data = url[5:].partition(",")
    media_type, *parameters = head.split(";")
    if not comma or not parameters or parameters[-1].strip().lower() != "base64":
        raise InvalidRequest.at(path, "must be a base64 data URL: data:TYPE;base64,DATA")
    if "/" not in media_type:
        raise InvalidRequest.at(path, "the data URL names no media type")
    return Base64(media_type, _checked_base64(data, path))


def _read_url(url: str, path: str) -> Url:
    if url[:8].lower().startswith(("https://", "http://")):
        return Url(url)
    raise InvalidRequest.at(path, "must be an http(s) or data URL")


def _checked_base64(data: str, path: str) -> str:
    try:
        if not binascii.a2b_base64(data, strict_mode=True):
            raise InvalidRequest.at(path, "must not be empty")
    except ValueError:
        raise InvalidRequest.at(path, "is not valid base64") from None
    return data


def _guess_media_type(data: str, name: str | None) -> str:
    if data.startswith("JVBERi0"):  # "%PDF-"
        return wire.PDF
    ending = (name or "").rpartition(".")[2].lower()
    return wire.MEDIA_TYPES.get(ending, "application/octet-stream")
