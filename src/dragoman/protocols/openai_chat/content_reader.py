"""Reads the content of messages: text, images, files and audio (types/chat/*_content_part*)."""

from __future__ import annotations

import binascii
from typing import Any

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
from dragoman.protocols.fields import Fields
from dragoman.protocols.openai_chat import wire

TEXT_PARTS = frozenset({"text"})
USER_PARTS = frozenset({"text", "image_url", "input_audio", "file"})
ASSISTANT_PARTS = frozenset({"text", "refusal"})
TOOL_PARTS = USER_PARTS
"""Officially text alone; some clients and servers put images and files there too."""


def read_content(
    value: Any, path: str, allowed: frozenset[str], extras: list[Extra]
) -> tuple[Block, ...]:
    """The blocks of a message's `content`: a string, or an array of parts of the allowed types.

    Raises:
        InvalidRequest: naming the part or the field in it.
    """
    if type(value) is str:
        return (Text(text=value, path=path),)
    if type(value) is not list:
        raise InvalidRequest.at(path, "must be a string or an array of content parts")
    return tuple(
        [_read_part(part, f"{path}[{n}]", allowed, extras) for n, part in enumerate(value)]
    )


def _read_part(part: Any, path: str, allowed: frozenset[str], extras: list[Extra]) -> Block:
    fields = Fields(part, path)
    kind = fields.need_str("type")
    if kind not in allowed:
        fields.fail("type", f"must be one of {', '.join(sorted(allowed))} here")
    cache = _read_cache(fields, extras)
    match kind:
        case "text":
            block: Block = Text(text=fields.need_str("text"), path=path, cache=cache)
        case "refusal":
            block = Refusal(text=fields.need_str("refusal"), path=path, cache=cache)
        case "image_url":
            block = _read_image(fields, cache, extras)
        case "input_audio":
            block = _read_audio(fields, cache, extras)
        case _:
            block = _read_file(fields, cache, extras)
    fields.rest(extras)
    return block


def _read_cache(fields: Fields, extras: list[Extra]) -> CacheMark | None:
    mark = fields.take_fields("prompt_cache_breakpoint")
    if mark is None:
        return None
    mark.take_choice("mode", ("explicit",))
    ttl = mark.take_str("ttl")
    mark.rest(extras)
    return CacheMark(ttl)


def _read_image(fields: Fields, cache: CacheMark | None, extras: list[Extra]) -> Image:
    given = fields.take("image_url")
    if type(given) is str:  # the older form, still sent by some clients
        given = {"url": given}
    image = Fields(given, fields.at("image_url"))
    url = image.need_str("url")
    detail = image.take_choice("detail", wire.DETAILS)
    image.rest(extras)
    path = image.at("url")
    source = _read_data_url(url, path) if _is_data_url(url) else _read_url(url, path)
    return Image(source=source, detail=detail, path=fields.path, cache=cache)


def _read_audio(fields: Fields, cache: CacheMark | None, extras: list[Extra]) -> Audio:
    audio = needed(fields, "input_audio")
    data = _checked_base64(audio.need_str("data"), audio.at("data"))
    form = audio.take_choice("format", wire.AUDIO_FORMATS)
    if form is None:
        audio.fail("format", "is required")
    audio.rest(extras)
    return Audio(data=data, format=form, path=fields.path, cache=cache)


def _read_file(fields: Fields, cache: CacheMark | None, extras: list[Extra]) -> Document:
    file = needed(fields, "file")
    name = file.take_str("filename")
    data = file.take_str("file_data")
    source: Base64 | FileId
    if data is None:
        file_id = file.take_str("file_id")
        if file_id is None:
            file.fail("file_data", "is required, or file_id")
        source = FileId(file_id, wire.VENDOR)
    elif _is_data_url(data):
        source = _read_data_url(data, file.at("file_data"))
    else:
        data = _checked_base64(data, file.at("file_data"))
        source = Base64(_guess_media_type(data, name), data)
    file.rest(extras)
    return Document(source=source, title=name, path=fields.path, cache=cache)


def needed(fields: Fields, name: str) -> Fields:
    """The object `name`, which must be there.

    Raises:
        InvalidRequest: it is not.
    """
    value = fields.take(name)
    if value is None:
        fields.fail(name, "is required")
    return Fields(value, fields.at(name))


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
