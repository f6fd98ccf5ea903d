"""What to set for a server of one's own, found out by asking it: its context window, and what its
model's chat template takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from dragoman import jsontext
from dragoman.config import Upstream
from dragoman.failing import is_refused_by_template
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.presets import CHAT, completed
from dragoman.protocols.refits import efforts_in
from dragoman.serving.answers import read_error
from dragoman.serving.failures import refused
from dragoman.serving.upstream_requests import UpstreamRequestBuilder
from dragoman.upstream.client import UpstreamClient
from dragoman.upstream.errors import CallError

_ANSWER_BYTES = 8 * 1024 * 1024
_DEFAULT_OF_OLLAMA: Final = 4096
"""Tokens of the window that Ollama gives a model if no other is set."""
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)
_SAID = {"role": "user", "content": "Say ok."}
_SYSTEM = {"role": "system", "content": "Be brief."}


def is_own(upstream: Upstream) -> bool:
    """Whether an upstream is a Chat server of one's own: no service is called without TLS."""
    return upstream.protocol == CHAT and upstream.base_url.startswith("http://")


class Adviser:
    """Asks one upstream, with one account, about a model."""

    def __init__(
        self, client: UpstreamClient, upstream: Upstream, builder: UpstreamRequestBuilder
    ) -> None:
        self._client = client
        self._upstream = upstream
        self._builder = builder

    async def advice(self, model: str, listed: JsonObject) -> list[str]:
        """What to set or to know for `model`, whose entry in the list of models is `listed`."""
        known = completed(self._upstream.capabilities, CHAT, self._upstream.base_url, model.lower())
        found = await self._of_window(model, listed)
        late = await self._refusal(model, {"messages": [_SYSTEM, _SAID, _SYSTEM]})
        if known.late_system == "message" and is_refused_by_template(late):
            found.append('its chat template refuses later system text: late_system = "user"')
        efforts = efforts_in(await self._refusal(model, {"reasoning_effort": "high"}))
        if efforts is not None and efforts != known.efforts:
            found.append(
                f"it does not take every effort word: efforts = {to_json(efforts).decode()}"
            )
        return [f"{model}: {one}" for one in found]

    async def _of_window(self, model: str, listed: JsonObject) -> list[str]:
        window = _first(listed, ("max_model_len",), ("context_length",), ("meta", "n_ctx"))
        if window is None:
            props = await self._read("/props")
            window = _first(props, ("default_generation_settings", "n_ctx"), ("n_ctx",))
        if window is None:
            window = _of_lm_studio(await self._read("/api/v1/models"), model)
        if window is None:
            shown = await self._read("/api/show", to_json({"model": model}))
            if shown:
                given = _NUM_CTX.search(str(shown.get("parameters", "")))
                if given is None:
                    return [
                        f"Ollama's window is {_DEFAULT_OF_OLLAMA} tokens unless"
                        " OLLAMA_CONTEXT_LENGTH or num_ctx says more, and it cuts what is longer"
                        " without a word"
                    ]
                window = int(given[1])
        known = self._upstream.capabilities.context_window
        if window is None or window == known:
            return []
        return [
            f"its window is {window} tokens: context_window = {window}, and for Claude Code"
            " CLAUDE_CODE_MAX_CONTEXT_TOKENS"
        ]

    async def _read(self, path: str, body: bytes | None = None) -> JsonObject:
        """What the server says at a path beside its protocol's; nothing if it has none."""
        base = urlsplit(self._upstream.base_url)
        made = self._builder.get("/") if body is None else self._post(body)
        request = replace(made, url=f"{base.scheme}://{base.netloc}{path}", ready=None)
        try:
            async with await self._client.send(request) as answer:
                text = await answer.read(_ANSWER_BYTES)
                return (jsontext.object_of(text) or {}) if answer.status == 200 else {}
        except CallError:
            return {}

    async def _refusal(self, model: str, more: JsonObject) -> str:
        """The words in which a small request is refused; empty if it is not."""
        body = {"model": model, "messages": [_SAID], "max_tokens": 1, **more}
        codec = self._upstream.codec
        try:
            async with await self._client.send(self._post(to_json(body))) as answer:
                if answer.status < 400:
                    await answer.read(_ANSWER_BYTES)
                    return ""
                text = self._builder.mask.error(await read_error(answer))
                return refused(codec, answer.status, answer.headers, text).fault.message
        except CallError:
            return ""

    def _post(self, body: bytes) -> Any:
        path = self._upstream.endpoint.path_for("", False)
        return self._builder.post(path, body, None, stream=False)


def _first(value: JsonObject, *paths: Sequence[str]) -> int | None:
    """The first number above 0 at one of these paths."""
    for path in paths:
        found: Any = value
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        if type(found) is int and found > 0:
            return found
    return None


def _of_lm_studio(value: Mapping[str, Any], model: str) -> int | None:
    """The window of a model that LM Studio lists, as it is loaded, else the largest it can have."""
    for entry in _objects(value.get("models")):
        if entry.get("key") == model:
            loaded = _objects(entry.get("loaded_instances"))
            windows = (_first(one, ("config", "context_length")) for one in loaded)
            return next(filter(None, windows), None) or _first(entry, ("max_context_length",))
    return None


def _objects(value: Any) -> Iterator[JsonObject]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())
