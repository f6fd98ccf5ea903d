"""Google requests to the simulator, and the grammar that it writes streams by."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from dragoman.lab.simulator.testing import RunningSimulator
from tests.simulator.requests import CITY, KEY, Answer, JsonObject, call

FILE: JsonObject = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
}
HEADERS = {"content-type": "application/json", "x-goog-api-key": KEY}


def user(*parts: JsonObject) -> JsonObject:
    return {"role": "user", "parts": list(parts)}


def model(*parts: JsonObject) -> JsonObject:
    return {"role": "model", "parts": list(parts)}


SAY_IT = user({"text": "Say it."})


def rich(**more: Any) -> JsonObject:
    """A request that offers functions, asks for thoughts and gives a stop sequence."""
    names = ("get_weather", "get_time")
    declared = [{"name": name, "parametersJsonSchema": CITY} for name in names]
    declared.append({"name": "write_file", "parametersJsonSchema": FILE})
    settings = {"thinkingConfig": {"includeThoughts": True}, "stopSequences": ["STOP"]}
    return {
        "contents": [SAY_IT],
        "tools": [{"functionDeclarations": declared}, {"googleSearch": {}}],
        "toolConfig": {"includeServerSideToolInvocations": True},
        "generationConfig": {**settings, **more},
    }


def path_of(name: str, method: str = "generateContent", version: str = "v1beta") -> str:
    return f"/{version}/models/{quote(name, safe='')}:{method}"


def ask(
    simulator: RunningSimulator,
    name: str,
    body: Any = None,
    method: str = "generateContent",
    **headers: str,
) -> Answer:
    """A request to one method of a model; a stream is asked for as events."""
    path = path_of(name, method) + ("?alt=sse" if method == "streamGenerateContent" else "")
    made = {"contents": [SAY_IT]} if body is None else body
    return call(simulator, "POST", path, made, {**HEADERS, **headers})


def stream(simulator: RunningSimulator, name: str, body: Any = None) -> Answer:
    return ask(simulator, name, body, "streamGenerateContent")


def chunks(body: bytes) -> list[JsonObject]:
    """The chunks of a stream: each one line of data that ends as Google ends lines."""
    assert body.endswith(b"\r\n\r\n")
    found = []
    for frame in body.removesuffix(b"\r\n\r\n").split(b"\r\n\r\n"):
        assert frame.startswith(b"data: {")
        assert b"\n" not in frame
        found.append(json.loads(frame[len(b"data: ") :]))
    return found


def check_chunks(found: list[JsonObject]) -> None:
    """One id and model, usage that grows, and one end, which is the last."""
    for name in ("responseId", "modelVersion"):
        assert len({chunk[name] for chunk in found}) == 1
    ends = ["finishReason" in one for chunk in found for one in chunk["candidates"]]
    count = len(found[-1]["candidates"])
    assert ends == [False] * (len(ends) - count) + [True] * count
    totals = [chunk["usageMetadata"]["totalTokenCount"] for chunk in found]
    assert totals == sorted(totals)
    for chunk in found:
        for candidate in chunk["candidates"]:
            assert candidate["content"]["role"] == "model"
            assert candidate["content"]["parts"]


def folded(found: list[JsonObject]) -> JsonObject:
    """The whole answer that the chunks make, signatures aside."""
    parts: list[JsonObject] = []
    for chunk in found:
        for part in chunk["candidates"][0]["content"]["parts"]:
            kinds = ("text", "thought")
            joins = parts and [k in part for k in kinds] == [k in parts[-1] for k in kinds]
            if joins and "text" in part:
                parts[-1]["text"] += part["text"]
            elif part.get("text") != "":
                parts.append(dict(part))
    last = found[-1]["candidates"][0]
    end = {name: value for name, value in last.items() if name != "content"}
    return {"parts": unsigned(parts), **end, "usage": found[-1]["usageMetadata"]}


def unsigned(parts: list[JsonObject]) -> list[JsonObject]:
    return [{k: v for k, v in part.items() if k != "thoughtSignature"} for part in parts]


def whole(answer: JsonObject) -> JsonObject:
    """A whole answer in the form of a folded one."""
    first = answer["candidates"][0]
    end = {name: value for name, value in first.items() if name != "content"}
    parts = unsigned(first["content"].get("parts", []))
    return {"parts": parts, **end, "usage": answer["usageMetadata"]}


def text_of(answer: JsonObject) -> str:
    parts = answer["candidates"][0]["content"].get("parts", [])
    return "".join(part.get("text", "") for part in parts if "thought" not in part)


def calls_of(answer: JsonObject) -> list[JsonObject]:
    parts = answer["candidates"][0]["content"].get("parts", [])
    return [part["functionCall"] for part in parts if "functionCall" in part]


def next_turn(request: JsonObject, answer: JsonObject, *results: str) -> JsonObject:
    """The next request of the tool loop, with all that was answered put back."""
    responses = [
        {"functionResponse": {"name": one["name"], "response": {"output": text}}}
        for one, text in zip(calls_of(answer), results, strict=True)
    ]
    content = answer["candidates"][0]["content"]
    return {**request, "contents": [*request["contents"], content, user(*responses)]}
