"""Transcription, translation, edits and variations of images by OpenAI's SDK, against an upstream
that checks what arrives."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from dragoman.server.testing import RunningGateway
from tests.endpoints.serving import config, serving, upstream
from tests.endpoints.takers import TEXT, Taken, Taker, saying, taking
from tests.gateway.http import KEY
from tests.gateway.services import until
from tests.matrix.bodies import png

WAV = b"RIFF" + bytes(range(256)) * 8000
PNG = base64.b64decode(png())
TOKENS = {
    "type": "tokens",
    "input_tokens": 14,
    "input_token_details": {"audio_tokens": 10, "text_tokens": 4},
    "output_tokens": 3,
    "total_tokens": 17,
}
IMAGES = {
    "created": 1,
    "data": [{"b64_json": "aGk="}],
    "usage": {
        "input_tokens": 50,
        "input_tokens_details": {"text_tokens": 10, "image_tokens": 40},
        "output_tokens": 200,
        "total_tokens": 250,
    },
}
SEGMENT = {"id": "0", "start": 0.0, "end": 1.0, "text": "hello", "speaker": "A", "type": "x"}


@pytest.fixture(scope="module")
def taker() -> Iterator[Taker]:
    with taking() as running:
        yield running


@pytest.fixture(scope="module")
def served(taker: Taker) -> Iterator[tuple[RunningGateway, list[Any]]]:
    with serving(config(upstream("taker", taker.url))) as running:
        yield running


@pytest.fixture
def sdk(served: tuple[RunningGateway, list[Any]]) -> openai.OpenAI:
    served[1].clear()
    return openai.OpenAI(api_key=KEY, base_url=served[0].openai_base_url, max_retries=0)


def used(served: tuple[RunningGateway, list[Any]]) -> Any:
    lines = served[1]
    until(lambda: bool(lines))
    return lines[-1]["usage"]


def test_a_transcription_as_json(
    served: tuple[RunningGateway, list[Any]], sdk: openai.OpenAI, taker: Taker
) -> None:
    saying(taker, {"text": "hello", "usage": TOKENS})
    found = sdk.audio.transcriptions.create(
        model="my-model",
        file=("ünïcode name.wav", WAV, "audio/x-wav"),
        chunking_strategy="auto",
        include=["logprobs"],
        timestamp_granularities=["word"],
        language="de",
    )
    assert found.text == "hello"
    assert found.usage is not None
    assert found.usage.type == "tokens"
    parts = taker.last.named()
    assert ("model", None, "text/plain", b"sim-model") in parts
    assert ("chunking_strategy", None, "text/plain", b"auto") in parts
    assert 'filename="ünïcode name.wav"'.encode() in taker.last.body
    assert [one[2:] for one in parts if one[0] == "file"] == [("audio/x-wav", WAV)]
    assert len(parts) == 6
    assert (used(served)["input"], used(served)["output"]) == (14, 3)


@pytest.mark.parametrize("kind", ["text", "srt", "vtt"])
def test_a_transcription_as_text(sdk: openai.OpenAI, taker: Taker, kind: Any) -> None:
    said = "1\n00:00:00,000 --> 00:00:01,000\nhällo\n\n"
    saying(taker, said.encode(), "text/plain; charset=utf-8")
    found = sdk.audio.transcriptions.create(
        model="my-model", file=("a.wav", WAV), response_format=kind
    )
    assert str(found) == said


def test_a_transcription_with_all_that_is_known(
    served: tuple[RunningGateway, list[Any]], sdk: openai.OpenAI, taker: Taker
) -> None:
    usage = {"type": "duration", "seconds": 3}
    saying(
        taker,
        {"text": "hello", "language": "de", "duration": 2.5, "segments": [], "usage": usage},
    )
    found = sdk.audio.transcriptions.create(
        model="my-model", file=("a.wav", WAV), response_format="verbose_json"
    )
    assert (found.text, found.duration) == ("hello", 2.5)
    assert served[1][-1].get("estimated") is None
    saying(taker, {"text": "hello", "duration": 2.5, "task": "transcribe", "segments": [SEGMENT]})
    told = sdk.audio.transcriptions.create(
        model="my-model",
        file=("a.wav", WAV),
        response_format="diarized_json",
        known_speaker_names=["A"],
        known_speaker_references=["data:audio/wav;base64,aGk="],
    )
    assert told.segments[0].speaker == "A"


def test_a_streamed_transcription(
    served: tuple[RunningGateway, list[Any]], sdk: openai.OpenAI, taker: Taker
) -> None:
    events: list[dict[str, Any]] = [
        {"type": "transcript.text.delta", "delta": "hel"},
        {**SEGMENT, "type": "transcript.text.segment"},
        {"type": "transcript.text.done", "text": "hello", "usage": TOKENS},
    ]
    stream = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in events)
    saying(taker, stream, "text/event-stream")
    found = list(
        sdk.audio.transcriptions.create(model="my-model", file=("a.wav", WAV), stream=True)
    )
    assert [one.type for one in found] == [one["type"] for one in events]
    assert (used(served)["input"], used(served)["output"]) == (14, 3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_translation(sdk: openai.OpenAI, taker: Taker) -> None:
    saying(taker, TEXT)
    found = sdk.audio.translations.create(model="my-model", file=("a.mp3", WAV), prompt="hm")
    assert found.text == "hello"
    assert taker.last.target == "/v1/audio/translations"


@pytest.mark.parametrize("count", [1, 3])
def test_an_edit_of_images_with_a_mask(
    served: tuple[RunningGateway, list[Any]], sdk: openai.OpenAI, taker: Taker, count: int
) -> None:
    saying(taker, IMAGES)
    images = [(f"{number}.png", PNG, "image/png") for number in range(count)]
    found = sdk.images.edit(
        model="my-model",
        image=images if count > 1 else images[0],
        mask=("mask.png", PNG, "image/png"),
        prompt="a hat",
        n=1,
    )
    assert found.data is not None
    assert found.data[0].b64_json == "aGk="
    parts = taker.last.named()
    name = "image[]" if count > 1 else "image"
    sent = [(name, image[0], image[2], PNG) for image in images]
    assert [one for one in parts if one[0] == name] == sent
    assert ("mask", "mask.png", "image/png", PNG) in parts
    assert (used(served)["input"], used(served)["output"]) == (50, 200)


def test_a_streamed_edit_of_an_image(
    served: tuple[RunningGateway, list[Any]], sdk: openai.OpenAI, taker: Taker
) -> None:
    shape = {"background": "auto", "created_at": 1, "output_format": "png", "quality": "high"}
    events: list[dict[str, Any]] = [
        {"type": "image_edit.partial_image", "b64_json": "aA==", "partial_image_index": 0},
        {"type": "image_edit.completed", "b64_json": "aGk=", "usage": IMAGES["usage"]},
    ]
    stream = b"".join(
        b"event: %b\ndata: %b\n\n"
        % (one["type"].encode(), json.dumps({**shape, "size": "auto", **one}).encode())
        for one in events
    )
    saying(taker, stream, "text/event-stream")
    found = list(
        sdk.images.edit(
            model="my-model",
            image=("a.png", PNG, "image/png"),
            prompt="a hat",
            partial_images=1,
            stream=True,
        )
    )
    assert [one.type for one in found] == [one["type"] for one in events]
    assert (used(served)["input"], used(served)["output"]) == (50, 200)


@pytest.mark.parametrize("told", [(True, True), (False, True), (True, False), (False, False)])
def test_every_image_that_a_stream_completes_counts(
    served: tuple[RunningGateway, list[Any]],
    sdk: openai.OpenAI,
    taker: Taker,
    told: tuple[bool, ...],
) -> None:
    """Whichever of its events tells usage."""
    usage = {"usage": IMAGES["usage"]}
    events: list[dict[str, Any]] = [
        {"type": "image_generation.partial_image", "b64_json": "aA==", **usage},
        *({"type": "image_generation.completed", "b64_json": "aGk=", **(usage if one else {})}
          for one in told),
    ]  # fmt: skip
    if not any(told):
        del events[0]["usage"]
    stream = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in events)
    saying(taker, stream, "text/event-stream")
    list(sdk.images.generate(model="my-model", prompt="a hat", n=2, stream=True))
    output = used(served)["output"]
    assert served[1][-1]["units"]["images"] == 2
    assert output == (200 if any(told) else 2 * 4160)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_variation_of_an_image(sdk: openai.OpenAI, taker: Taker) -> None:
    saying(taker, {"created": 1, "data": [{"url": "https://images.example/1"}] * 2})
    found = sdk.images.create_variation(model="my-model", image=("a.png", PNG), n=2)
    assert found.data is not None
    assert len(found.data) == 2
    assert taker.last.target == "/v1/images/variations"


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, openai.BadRequestError), (413, openai.APIStatusError), (404, openai.NotFoundError)],
)
def test_an_error_is_the_exception_of_its_kind(
    sdk: openai.OpenAI, taker: Taker, status: int, error: type[Exception]
) -> None:
    def refuse(taken: Taken) -> None:
        taken.take()
        taken.say({"error": {"message": "the audio is too long", "type": "x"}}, status)

    taker.usual = refuse
    with pytest.raises(error, match="too long"):
        sdk.audio.transcriptions.create(model="my-model", file=("a.wav", WAV))


async def test_an_asynchronous_client_uploads_while_it_reads(
    served: tuple[RunningGateway, list[Any]], taker: Taker
) -> None:
    saying(taker, TEXT)
    sdk = openai.AsyncOpenAI(api_key=KEY, base_url=served[0].openai_base_url, max_retries=0)
    async with sdk:
        found = await sdk.audio.transcriptions.create(model="my-model", file=("a.wav", WAV * 2))
    assert found.text == "hello"
    assert any(one[0] == "file" and one[3] == WAV * 2 for one in taker.last.named())
