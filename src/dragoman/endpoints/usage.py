"""What an endpoint's request used: read from the upstream's answer, or measured in the request.

The functions are pure, and take whatever an upstream or a client may have written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.usage import Units, Usage
from dragoman.protocols.numbers import token_count
from dragoman.translation.estimate import estimate_bytes

JsonObject = Mapping[str, Any]


class Measured(Struct, frozen=True):
    """What a request used: tokens, and what is counted in other units. `estimated`: the upstream
    did not report all of it."""

    usage: Usage
    units: Units = Units()
    estimated: bool = False


_NOTHING = Measured(Usage())


def nothing_asked(members: JsonObject) -> Measured:
    """A request whose answer reports all that is paid for."""
    return _NOTHING


def of_nothing(answer: JsonObject) -> Measured:
    """An answer that uses nothing that is counted."""
    return _NOTHING


def of_tokens(answer: JsonObject) -> Measured | None:
    """The `usage` of OpenAI's endpoints, by either of its vocabularies."""
    usage = json_object(answer.get("usage"))
    given = first_count(usage, "prompt_tokens", "input_tokens", "total_tokens")
    if given is None:
        return None
    output = first_count(usage, "completion_tokens", "output_tokens") or 0
    cached = _detail(usage.get("prompt_tokens_details"), "cached_tokens")
    return Measured(Usage(input=given, output=output, cached=cached))


def of_speech(answer: JsonObject) -> Measured | None:
    """As `of_tokens`; the output is sound."""
    found = of_tokens(answer)
    return found and Measured(found.usage, Units(audio_output=found.usage.output))


def of_llama_cpp(answer: JsonObject) -> Measured | None:
    """The counts of llama.cpp's own endpoints."""
    given = token_count(answer.get("tokens_evaluated"))
    if given is None:
        return of_tokens(answer)
    return Measured(Usage(input=given, output=token_count(answer.get("tokens_predicted")) or 0))


def of_images(answer: JsonObject) -> Measured | None:
    """Tokens of texts and images, which have rates of their own, and the number of images."""
    data = answer.get("data")
    # An event that completes an image has that one.
    is_partial = str(answer.get("type")).endswith(".partial_image")
    images = len(data) if isinstance(data, list) else int("b64_json" in answer and not is_partial)
    usage = json_object(answer.get("usage"))
    given = token_count(usage.get("input_tokens"))
    if given is None:
        return _images(images) if images else None
    drawn = json_object(answer.get("svg_usage"))
    given += token_count(drawn.get("input_tokens")) or 0
    output = (token_count(usage.get("output_tokens")) or 0) + (
        token_count(drawn.get("output_tokens")) or 0
    )
    units = Units(
        images=images,
        image_input=min(_detail(usage.get("input_tokens_details"), "image_tokens") or 0, given),
        image_output=min(_detail(usage.get("output_tokens_details"), "image_tokens") or 0, output),
    )
    return Measured(Usage(input=given, output=output), units)


def with_images(before: Measured, more: Measured) -> Measured:
    """What a stream of images used `before` and with one `more` of its events: all images count,
    and of the tokens those that were reported last."""
    images = before.units.images + more.units.images
    if before.estimated and more.estimated:
        return _images(images)
    latest = before if more.estimated else more
    return replace(latest, units=replace(latest.units, images=images))


def of_transcription(answer: JsonObject) -> Measured | None:
    """Tokens of text, audio and images, each of which have a rate of their own, or seconds of
    audio."""
    usage = json_object(answer.get("usage"))
    seconds = usage.get("seconds") if usage.get("type") == "duration" else answer.get("duration")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < 1e9:
        return Measured(Usage(), Units(seconds=float(seconds)))
    given = token_count(usage.get("input_tokens"))
    if given is None:
        return None
    output = token_count(usage.get("output_tokens")) or 0
    # Both spellings are in use.
    read = usage.get("input_token_details") or usage.get("input_tokens_details")
    made = usage.get("output_token_details") or usage.get("output_tokens_details")
    units = Units(
        audio_input=min(_detail(read, "audio_tokens") or 0, given),
        image_input=min(_detail(read, "image_tokens") or 0, given),
        audio_output=min(_detail(made, "audio_tokens") or 0, output),
    )
    return Measured(Usage(input=given, output=output, cached=_detail(read, "cached_tokens")), units)


def audio_asked(members: JsonObject) -> Measured:
    """The seconds of a recording, by its size, and its tokens."""
    size = members.get("file")
    seconds = size / _AUDIO_BYTES_PER_SECOND if isinstance(size, int) else 0.0
    heard, written = int(seconds * _HEARD_TOKENS), int(seconds * _WRITTEN_TOKENS)
    units = Units(seconds=seconds, audio_input=heard)
    return Measured(Usage(input=heard, output=written), units, estimated=True)


_AUDIO_BYTES_PER_SECOND = 8000
"""Of speech as it is commonly compressed, 64 kbit/s."""
_HEARD_TOKENS, _WRITTEN_TOKENS = 10, 4
"""Tokens of a second of speech, and of its text."""


def of_rerank(answer: JsonObject) -> Measured | None:
    """Searches, as Cohere bills them, or tokens; where an answer has neither, one search."""
    meta = json_object(answer.get("meta"))
    billed = json_object(meta.get("billed_units"))
    searches = token_count(billed.get("search_units"))
    tokens = first_count(json_object(answer.get("usage")), "total_tokens", "prompt_tokens")
    if tokens is None:
        tokens = first_count(billed, "input_tokens")
    if tokens is None:
        tokens = first_count(json_object(meta.get("tokens")), "input_tokens")
    is_estimated = searches is None and tokens is None
    found = 1 if is_estimated else searches
    return Measured(Usage(input=tokens or 0, searches=found), estimated=is_estimated)


def of_google(answer: JsonObject) -> Measured | None:
    """The counts of Google's embeddings, in the answer or with each of them."""
    given = first_count(
        json_object(answer.get("usageMetadata")), "promptTokenCount", "totalTokenCount"
    )
    if given is not None:
        return Measured(Usage(input=given))
    total = None
    embeddings = answer.get("embeddings") or [answer.get("embedding")]
    for one in embeddings if isinstance(embeddings, list) else ():
        statistics = json_object(json_object(one).get("statistics"))
        counted = first_count(statistics, "tokenCount", "token_count")
        if counted is not None:
            total = (total or 0) + counted
    return None if total is None else Measured(Usage(input=total))


def images_asked(members: JsonObject) -> Measured:
    """The images that a request asks for."""
    return _images(token_count(members.get("n")) or 1)


def rerank_asked(members: JsonObject) -> Measured:
    """One search."""
    return Measured(Usage(searches=1), estimated=True)


def characters_asked(members: JsonObject) -> Measured:
    """The characters of a text that is to be spoken, and the tokens of that sound."""
    text = members.get("input")
    characters = len(text) if isinstance(text, str) else 0
    output = -(-characters * _SPOKEN_TOKENS // _SPOKEN_CHARACTERS)
    usage = Usage(input=estimate_bytes(characters), output=output)
    units = Units(characters=characters, audio_output=output)
    return Measured(usage, units, estimated=True)


def _images(images: int) -> Measured:
    """Images whose tokens nobody reports."""
    output = images * _IMAGE_TOKENS
    return Measured(Usage(output=output), Units(images=images, image_output=output), estimated=True)


_IMAGE_TOKENS = 4160
"""Tokens of a square image of a megapixel in high quality."""
_SPOKEN_CHARACTERS, _SPOKEN_TOKENS = 15, 20
"""Characters that are spoken in a second, and the tokens of a second of sound."""


def json_object(value: object) -> JsonObject:
    """A value that should be an object; an empty one if it is none."""
    return value if isinstance(value, dict) else {}


def _detail(details: object, name: str) -> int | None:
    return token_count(json_object(details).get(name))


def first_count(counts: JsonObject, *names: str) -> int | None:
    """The first of these members that is a number of tokens."""
    for name in names:
        if (count := token_count(counts.get(name))) is not None:
            return count
    return None
