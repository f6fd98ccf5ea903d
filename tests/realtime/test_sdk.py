"""OpenAI's SDK over realtime sessions, also as that of Azure."""

from __future__ import annotations

import base64
from typing import Any

import openai
import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.http import KEY, TRUSTS_NOBODY
from tests.realtime.serving import answers, fresh, gateway_over, until

AUDIO = base64.b64encode(b"\0" * 48_000).decode()


def client(gateway: RunningGateway, *, is_azure: bool) -> openai.AsyncOpenAI:
    given: dict[str, Any] = {
        "api_key": KEY,
        "http_client": openai.DefaultAsyncHttpxClient(verify=TRUSTS_NOBODY),
        "websocket_base_url": gateway.openai_base_url.replace("http", "ws", 1),
    }
    if is_azure:
        return openai.AsyncAzureOpenAI(
            azure_endpoint=gateway.base_url, api_version="2025-04-01-preview", **given
        )
    return openai.AsyncOpenAI(base_url=gateway.openai_base_url, **given)


@pytest.mark.parametrize("is_azure", [False, True])
async def test_the_sdk_talks_over_a_session(simulator: RunningSimulator, is_azure: bool) -> None:
    """Realtime WebSocket: openai[realtime], and its form of Azure, whose URL names a deployment."""
    vendor = fresh(simulator)
    service: Any = {"service": "azure_deployments"} if is_azure else {}
    suffix = "/openai?api-version=2025-04-01-preview" if is_azure else ""
    with gateway_over(simulator, suffix=suffix, **service) as (gateway, lines):
        async with (
            client(gateway, is_azure=is_azure) as sdk,
            sdk.realtime.connect(model="voice") as connection,
        ):
            transcription: Any = {"model": "whisper-1"}
            session: Any = {
                "type": "realtime",
                "audio": {"input": {"transcription": transcription}},
            }
            await connection.session.update(session=session)
            await connection.input_audio_buffer.append(audio=AUDIO)
            await connection.input_audio_buffer.commit()
            await connection.response.create()
            said, heard = "", ""
            async for event in connection:
                if event.type == "response.output_audio_transcript.delta":
                    said += event.delta
                elif event.type == "conversation.item.input_audio_transcription.completed":
                    heard = event.transcript
                elif event.type == "response.done":
                    break
            assert (said, heard) == ("This is said aloud.", "one two three")
        until(lambda: len(answers(lines)) == 2)
        name = "deployment" if is_azure else "model"
        assert vendor.handshakes[0][0][name] == "sim-voice"
        assert [one["usage"]["output"] for one in answers(lines)] == [0, 30]
