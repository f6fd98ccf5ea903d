"""Reads the content parts of messages and tool outputs (types: response_input_text_param.py,
response_input_image_param.py, response_input_file_param.py, response_output_text_param.py).
"""

from __future__ import annotations

import binascii
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
from dragoman.canonical.requests import Extra
from dragoman.protocols.fields import Fields
from dragoman.protocols.openai_responses import wire

_TEXT_PARTS = frozenset({"input_text", "output_text", "text"})
_PDF_HEAD = "JVBERi"
"""The beginning of any PDF in base64 (`%PDF`)."""
_UNKNOWN_BYTES = "application/octet-stream"


def read_content(
    value: Any, path: str, extras: list[Extra], phase: str | None = None
) -> tuple[Block, ...]:
    """The blocks of a message's or an output's content: a string or a list of parts.

    Raises:
        InvalidRequest: at the part or field at fault.
    """
    if type(value) is str:
        return (Text(text=value, phase=phase, path=path),)
    if type(value) is not list:
        raise InvalidRequest.at(path, "must be a string or an array of content parts")
    return tuple(
        _read_part(Fields(part, f"{path}[{number}]"), extras, phase)
        for number, part in enumerate(value)
    )


def _read_part(fields: Fields, extras: list[Extra], phase: str | None) -> Block:
    kind = fields.need_str("type")
    cache = _read_mark(fields, extras)
    block: Block
    if kind in _TEXT_PARTS:
        block = _read_text(fields, cache, phase)
    elif kind == "refusal":
        block = Refusal(text=fields.need_str("refusal"), cache=cache, path=fields.path)
    elif kind == "input_image":
        block = _read_image(fields, cache)
    elif kind == "input_file":
        block = _read_file(fields, cache)
        fields.rest(extras, wire.FILE_PART)
        return block
    elif kind == "input_audio":
        block = _read_audio(fields, cache, extras)
    else:
        fields.fail("type", f"unknown content part {kind!r}")
    fields.rest(extras)
    return block


def _read_mark(fields: Fields, extras: list[Extra]) -> CacheMark | None:
    mark = fields.take_fields("prompt_cache_breakpoint")
    if mark is None:
        return None
    mark.take_choice("mode", ("explicit",))
    ttl = mark.take_str("ttl")
    mark.rest(extras)
    return CacheMark(ttl)


def _read_text(fields: Fields, cache: CacheMark | None, phase: str | None) -> Text:
    text = fields.need_str("text")
    annotations = fields.take_list("annotations") or []
    logprobs = fields.take_list("logprobs")
    return Text(
        text=text,
        annotations=tuple(
            _checked_annotation(item, f"{fields.at('annotations')}[{number}]")
            for number, item in enumerate(annotations)
        ),
        logprobs=tuple(logprobs) if logprobs else None,
        phase=phase,
        cache=cache,
        path=fields.path,
    )


def _checked_annotation(value: Any, path: str) -> Annotation:
    if type(value) is not dict:
        raise InvalidRequest.at(path, "must be an object")
    return read_annotation(value)


def read_annotation(value: dict[str, Any]) -> Annotation:
    """A citation; anything but a well-formed `url_citation` stays unchanged."""
    url, title = value.get("url"), value.get("title")
    start, end = value.get("start_index"), value.get("end_index")
    if value.get("type") != "url_citation" or type(url) is not str:
        return ForeignCitation(wire.NAME, value)
    if type(start) is not int or type(end) is not int:
        start = end = None
    return UrlCitation(url=url, title=title if type(title) is str else "", start=start, end=end)


def _read_image(fields: Fields, cache: CacheMark | None) -> Image:
    detail = fields.take_choice("detail", wire.DETAILS)
    url = fields.take_str("image_url")
    file_id = fields.take_str("file_id") if url is None else None
    source: Base64 | Url | FileId
    if url is not None:
        source = _read_url(url, fields.at("image_url"))
    elif file_id is not None:
        source = FileId(file_id, wire.VENDOR)
    else:
        fields.fail("image_url", "is required, or file_id")
    return Image(source=source, detail=detail, cache=cache, path=fields.path)


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


def _read_file(fields: Fields, cache: CacheMark | None) -> Document:
    name = fields.take_str("filename")
    data = fields.take_str("file_data")
    url = fields.take_str("file_url") if data is None else None
    file_id = fields.take_str("file_id") if data is None and url is None else None
    source: Base64 | Url | FileId
    if data is not None:
        source = _read_file_data(data, name, fields.at("file_data"))
    elif url is not None:
        source = _read_url(url, fields.at("file_url"))
    elif file_id is not None:
        source = FileId(file_id, wire.VENDOR)
    else:
        fields.fail("file_data", "is required, or file_url or file_id")
    return Document(source=source, title=name, cache=cache, path=fields.path)


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


def _read_audio(fields: Fields, cache: CacheMark | None, extras: list[Extra]) -> Audio:
    audio = fields.take_fields("input_audio")
    if audio is None:
        fields.fail("input_audio", "is required")
    data = audio.need_str("data")
    _check_base64(data, audio.at("data"))
    block = Audio(data=data, format=audio.need_str("format"), cache=cache, path=fields.path)
    audio.rest(extras)
    return block
