"""Google's SDK for Python as a judge, and requests as its users make them.

A body has the members of generateContent, and beside them the model, which the SDKs put into the
path. The SDKs have no helper that makes one answer of a stream: chats keep it as a history.
"""

from __future__ import annotations

import json
from typing import Any

from google import genai
from google.genai import errors, types
from pydantic import BaseModel

JsonObject = dict[str, Any]

BESIDE = ("systemInstruction", "tools", "toolConfig")
"""Members that the SDKs have in one object with the settings."""


def parts_of(body: JsonObject) -> tuple[str, list[JsonObject], JsonObject]:
    """Model, contents and config of a body, as the SDKs take them."""
    config = {**body.get("generationConfig", {})}
    config |= {name: body[name] for name in BESIDE if name in body}
    return body["model"], body["contents"], config


def ask_google(
    mode: str, base_url: str, key: str, body: JsonObject, parsed: type[BaseModel]
) -> Any:
    """The answer of google-genai: one object, for `raw` the chunks, for `parse` the value.

    Raises:
        errors.APIError: as its users meet it.
    """
    model, made, settings = parts_of(body)
    config = types.GenerateContentConfig.model_validate_json(json.dumps(settings))
    contents: Any = [types.Content.model_validate_json(json.dumps(one)) for one in made]
    options = types.HttpOptions(base_url=base_url, timeout=20_000)
    with genai.Client(api_key=key, http_options=options) as client:
        if mode == "parse":
            config.response_mime_type, config.response_schema = "application/json", parsed
            answer = client.models.generate_content(model=model, contents=contents, config=config)
            return answer.parsed.model_dump() if isinstance(answer.parsed, BaseModel) else None
        if mode == "full":
            answer = client.models.generate_content(model=model, contents=contents, config=config)
            return _dumped(answer)
        if mode == "raw":
            stream = client.models.generate_content_stream(
                model=model, contents=contents, config=config
            )
            return [_dumped(chunk) for chunk in stream]
        chat = client.chats.create(model=model, config=config, history=contents[:-1])
        last = contents[-1].parts
        chunks = [_dumped(chunk) for chunk in chat.send_message_stream(last)]
        kept = chat.get_history(curated=True)
        folded = fold_chunks(chunks)
        if "candidates" in folded:
            assert len(kept) > len(contents), "the SDK forgot the turn"
        return folded


def _dumped(answer: Any) -> Any:
    return answer.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"sdk_http_response"}
    )


def fold_chunks(chunks: list[JsonObject]) -> JsonObject:
    """One answer of the chunks of a stream, as a client shows it."""
    answer: JsonObject = {}
    parts: list[JsonObject] = []
    for chunk in chunks:
        answer |= chunk
        for candidate in chunk.get("candidates") or ():
            for part in (candidate.get("content") or {}).get("parts") or ():
                _add(parts, part)
    for candidate in answer.get("candidates") or ():
        candidate["content"] = {"role": "model", "parts": parts}
    return answer


def _add(parts: list[JsonObject], part: JsonObject) -> None:
    """Texts of one kind are one, up to a signature."""
    last = parts[-1] if parts else {}
    if part.get("text") == "" and "thoughtSignature" not in part and parts:
        return
    alike = "text" in part and "text" in last and last.get("thought") == part.get("thought")
    if alike and "thoughtSignature" not in last and "thoughtSignature" not in part:
        last["text"] += part["text"]
    else:
        parts.append(dict(part))


def google_error(error: errors.APIError) -> tuple[str, int, str | None, str]:
    """Class, status, status word and message."""
    return type(error).__name__, error.code, error.status, error.message or ""


# --- requests -------------------------------------------------------------------------------------


def blob(media_type: str, data: str) -> JsonObject:
    return {"inlineData": {"mimeType": media_type, "data": data}}


def next_google(
    first: JsonObject, final: JsonObject, results: list[tuple[str, str, str | None]], say: str
) -> JsonObject:
    """The request of the turn after an answer; of each result the id, the text and a picture."""
    content = final["candidates"][0]["content"]
    found = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
    names = {call["id"]: call["name"] for call in found}
    parts: list[JsonObject] = []
    for call_id, text, picture in results:
        response = {"id": call_id, "name": names[call_id], "response": {"output": text}}
        if picture is not None:
            response["parts"] = [blob("image/png", picture)]
        parts.append({"functionResponse": response})
    if say:
        parts.append({"text": say})
    return {**first, "contents": [*first["contents"], content, {"role": "user", "parts": parts}]}
