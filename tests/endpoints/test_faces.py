"""Errors of endpoints as the SDKs of each vendor raise them, and answers that come as they come."""

from __future__ import annotations

import threading
from typing import Any

import openai
import pytest
from google import genai
from google.genai.errors import ClientError
from google.genai.types import HttpOptions

from dragoman.config.limits import Limit
from dragoman.lab.simulator.testing import RunningSimulator
from tests.endpoints.serving import REQUESTS, config, post, sdk, serving, upstream
from tests.gateway.http import AUTH, KEY, TRUSTS_NOBODY, Connection
from tests.small_servers import Handler, handling

NONE_LEFT = Limit(kind="requests", amount=0, window="1m")


def _ask(client: openai.OpenAI, what: str) -> Any:
    if what == "speech":
        return client.audio.speech.create(model="my-model", input="one", voice="alloy")
    if what == "images":
        return client.images.generate(model="my-model", prompt="one")
    if what == "stream":
        return list(client.completions.create(model="my-model", prompt="one", stream=True))
    return client.embeddings.create(model="my-model", input="one")


@pytest.mark.parametrize("what", ["embeddings", "speech", "images", "stream"])
def test_openais_sdk_raises_what_it_should(simulator: RunningSimulator, what: str) -> None:
    up = upstream("sim", simulator.base_url)
    with serving(config(up, models=("other",))) as (gateway, _):
        with pytest.raises(openai.NotFoundError) as missing:
            _ask(sdk(gateway), what)
        assert missing.value.code == "model_not_found"
    with (
        serving(config(up, limits=(NONE_LEFT,))) as (gateway, _),
        pytest.raises(openai.RateLimitError),
    ):
        _ask(sdk(gateway), what)
    with (
        serving(config(up, keys=("sk-sim-400",))) as (gateway, _),
        pytest.raises(openai.BadRequestError),
    ):
        _ask(sdk(gateway), what)
    with (
        serving(config(up, keys=("sk-sim-401",))) as (gateway, _),
        pytest.raises(openai.APIStatusError) as failed,
    ):
        _ask(sdk(gateway), what)
    assert failed.value.status_code != 401, "the client's own key is good"


def test_googles_sdk_and_coheres_shape(simulator: RunningSimulator) -> None:
    with serving(config(upstream("sim", simulator.base_url, endpoints=()))) as (gateway, _):
        client = genai.Client(
            api_key=KEY,
            http_options=HttpOptions(
                base_url=gateway.base_url, client_args={"verify": TRUSTS_NOBODY}
            ),
        )
        with pytest.raises(ClientError) as refused:
            client.models.embed_content(model="my-model", contents="one")
        assert refused.value.code == 404
        answer = post(gateway, "/v2/rerank", REQUESTS["/v2/rerank"])
        assert "my-model" in answer.json["message"]
        assert "error" not in answer.json
        wrong = post(gateway, "/v2/rerank", REQUESTS["/v2/rerank"], key="sk-wrong")
        assert (wrong.status, type(wrong.json["message"])) == (401, str)


def test_sound_comes_as_it_is_made_and_breaks_off_as_it_does() -> None:
    """The next piece is only sent once the client has the one before."""
    goes_on = threading.Semaphore(0)

    class Speaker(Handler):
        def post(self) -> None:
            body = self.taken()
            self.send_response(200)
            self.send_header("content-type", "audio/mpeg")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for piece in (b"one", b"two", b"three"):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                if not goes_on.acquire(timeout=30):
                    return
            if b"broken" not in body:
                self.wfile.write(b"0\r\n\r\n")
            self.close_connection = True

    with handling(Speaker) as url:
        made = config(upstream("up", url))
        for model, ends in (("my-model", True), ("up/broken", False)):
            with serving(made) as (gateway, lines), Connection(gateway.base_url) as connection:
                body = {**REQUESTS["/v1/audio/speech"], "model": model}
                connection.send("POST", "/v1/audio/speech", body, AUTH)
                assert connection.head().headers["content-type"] == "audio/mpeg"
                for piece in (b"one", b"two", b"three"):
                    assert connection.chunk() == piece
                    goes_on.release()
                if ends:
                    assert connection.chunk() == b""
                else:
                    with pytest.raises(ConnectionError):
                        connection.chunk()
            assert bool(lines[-1].get("error")) is not ends
