"""Which requests are made of an instance, and who judges their answers."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from dragoman.lab.doctor import chat, google, interactions, messages, responses
from dragoman.lab.doctor.answers import Answer
from dragoman.lab.doctor.calls import PATIENCE_S, VERSION, Auth, Caller
from dragoman.lab.doctor.checks import GENERAL, PROTOCOL_CHECKS
from dragoman.lab.doctor.common import error_problem, look_at_error, missing, problem_of
from dragoman.lab.doctor.report import Findings
from dragoman.lab.doctor.sockets import look_at_socket
from dragoman.upstream import UpstreamClient

PROTOCOLS = tuple(PROTOCOL_CHECKS)

_PATHS = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "google": "/v1beta/models/{model}:generateContent",
    "interactions": "/v1/interactions",
}
_STREAMED = "/v1beta/models/{model}:streamGenerateContent"
_WRONG_KEY = "sk-dragoman-doctor-wrong-key"
_COUNT = "Count from one to sixty in words, separated by commas. Write nothing else."
_CALL = "Call the tool `note` with the text 'hello'. Write nothing else."
_THINK = "Is 391 a prime number? Think about it, then answer yes or no."
_MOST_TOKENS = 2000
_SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
_ABOUT = "Keeps a text."


class Unreachable(Exception):
    """Nothing answers at the address."""


class NoModel(Exception):
    """No model was named, and the instance lists none."""


class Refused(NoModel):
    """No model was named, and the instance does not list its models to this key, or without one."""


async def examine(
    url: str,
    key: str = "",
    model: str | None = None,
    protocols: Iterable[str] = PROTOCOLS,
    report: Callable[[str], None] = lambda line: None,
    tls: ssl.SSLContext | None = None,
) -> Findings:
    """Play the clients of `protocols` against the instance at `url`.

    `model` is by default the first one that the instance lists. About five short answers are
    asked for in each protocol. `report` is called with what is being done. `tls` is as
    for `UpstreamClient`.

    Raises:
        Unreachable: there is no answer at all.
        NoModel: there is no model to ask; Refused, if a key may help.
        ValueError: the URL or the key cannot be used.
    """
    wanted = [PROTOCOL_CHECKS[protocol] for protocol in protocols]
    findings = Findings([*GENERAL, *(check for _, checks in wanted for check in checks)])
    names = [name for name, _ in wanted]
    async with UpstreamClient(tls=tls) as client:
        caller = Caller(client, url, key)
        listed = await _look_at_models(caller, findings, named=model is not None)
        asked = model or (listed[0] if listed else None)
        if asked is None:
            raise NoModel("no model is listed")
        report(f"asking the model {asked} (each call may take {PATIENCE_S:g} s)")
        await _look_at_keys(caller, names, asked, findings)
        preflight = await caller.preflight(_path(names[0], asked))
        findings.judge("server.cors", _cors_problem(preflight))
        for protocol in names:
            report(f"playing a client of {_PATHS[protocol]}")
            await _EXAMINERS[protocol](caller, asked, findings)
            wrong = await caller.post(_path(protocol, asked), _wrong(protocol, asked))
            look_at_error(protocol, wrong, findings)
    return findings


async def _look_at_models(caller: Caller, findings: Findings, *, named: bool) -> list[str]:
    """Judge both forms of the list of models; the names in it.

    Raises:
        Unreachable: there is no answer at all.
        Refused: it is refused, and no model is `named`.
    """
    answer = await caller.get("/v1/models", [])
    if not answer.status:
        raise Unreachable(answer.failure)
    if not named and answer.status in (401, 403):
        raise Refused(f"the list of models is refused with {answer.status}")
    body = answer.json
    data = body.get("data") if isinstance(body, dict) else None
    entries = data if isinstance(data, list) else []
    problem = problem_of(answer, "application/json")
    if not problem and not entries:
        problem = "it lists none"
    lacks = (missing(entry, ("id", "object"), "a model") for entry in entries)
    findings.judge("server.models", problem or next(filter(None, lacks), ""))
    listed = [str(entry["id"]) for entry in entries if isinstance(entry, dict) and entry.get("id")]

    answer = await caller.get("/v1/models", [("anthropic-version", VERSION)], auth="x-api-key")
    body = answer.json
    problem = problem_of(answer, "application/json") or missing(body, ("data", "has_more"), "it")
    if not problem:
        names = ("type", "id", "display_name", "created_at")
        lacks = (missing(entry, names, "a model") for entry in body["data"] or ())
        problem = next(filter(None, lacks), "")
    findings.judge("server.models_anthropic", problem)
    return listed


async def _look_at_keys(
    caller: Caller, protocols: list[str], model: str, findings: Findings
) -> None:
    """Judge how keys are taken, and how a wrong one is refused."""
    googles = [protocol for protocol in protocols if protocol == "google"]
    interacting = [protocol for protocol in protocols if protocol == "interactions"]
    others = [protocol for protocol in protocols if protocol not in ("google", "interactions")]
    styles: tuple[tuple[str, Auth, list[str]], ...] = (
        ("server.bearer", "bearer", protocols),
        ("server.x_api_key", "x-api-key", others),
        ("google.key", "x-goog-api-key", googles),
        ("interactions.key", "x-goog-api-key", interacting),
    )
    if not caller.key:
        unseen = ["server.auth", "server.auth_shape", "server.bearer", "server.x_api_key"]
        unseen += ["google.key", "google.query_key"] if googles else []
        unseen += ["interactions.key"] if interacting else []
        for name in unseen:
            findings.unseen(name, "no key was given")
        return
    for name, auth, played in styles:
        for protocol in played:
            path = _path(protocol, model)
            answer = await caller.post(path, _wrong(protocol, model), auth=auth)
            _look_at_key(name, path, answer, findings)
    for protocol in googles:
        path = _path(protocol, model)
        asked = f"{path}?key={quote(caller.key, safe='')}"
        answer = await caller.post(asked, _wrong(protocol, model), auth="none")
        _look_at_key("google.query_key", path, answer, findings)
    for protocol in protocols:
        path, body = _path(protocol, model), _text(protocol, model)
        answer = await caller.post(path, body, key=_WRONG_KEY)
        problem = f"{path}: {answer.description()}"
        findings.judge("server.auth", None if answer.status == 401 else problem)
        if answer.status == 401:
            problem = error_problem(protocol, answer, (401,))
            findings.judge("server.auth_shape", f"{path}: {problem}" if problem else None)


def _look_at_key(check: str, path: str, answer: Answer, findings: Findings) -> None:
    """Judge whether a key was taken."""
    refused = answer.status in (401, 403)
    findings.judge(check, f"{path}: {answer.description()}" if refused else None)


def _cors_problem(answer: Answer) -> str:
    if answer.status not in (200, 204):
        return answer.description()
    wanted = ("access-control-allow-origin", "access-control-allow-headers")
    lacks = [name for name in wanted if name not in answer.headers]
    if lacks:
        return f"{lacks[0]} is missing"
    allowed = answer.headers["access-control-allow-headers"].lower()
    needed = ("authorization", "content-type", "x-api-key")
    refused = [name for name in needed if name not in allowed and allowed != "*"]
    return f"the header {refused[0]} is not allowed" if refused else ""


def _wrong(protocol: str, model: str) -> dict[str, Any]:
    """A request that no service can take: its conversation is a number."""
    members = {"responses": "input", "google": "contents", "interactions": "input"}
    return {**_text(protocol, model), members.get(protocol, "messages"): 7}


def _path(protocol: str, model: str) -> str:
    return _PATHS[protocol].format(model=model)


def _text(protocol: str, model: str, text: str = _COUNT, **more: Any) -> dict[str, Any]:
    if protocol == "google":
        config = {"maxOutputTokens": _MOST_TOKENS}
        contents = [{"role": "user", "parts": [{"text": text}]}]
        return {"contents": contents, "generationConfig": config, **more}
    body: dict[str, Any] = {"model": model, **more}
    if protocol == "interactions":
        config = {"max_output_tokens": _MOST_TOKENS}
        return {**body, "input": text, "generation_config": config, "store": False}
    if protocol == "responses":
        return {**body, "input": text, "max_output_tokens": _MOST_TOKENS, "store": False}
    body["messages"] = [{"role": "user", "content": text}]
    if protocol == "messages":
        return {**body, "max_tokens": _MOST_TOKENS}
    return body


async def _examine_chat(caller: Caller, model: str, findings: Findings) -> None:
    path = _PATHS["chat"]
    usage: dict[str, Any] = {"stream_options": {"include_usage": True}}
    function = {"name": "note", "description": _ABOUT, "parameters": _SCHEMA}
    offered = {"tools": [{"type": "function", "function": function}]}
    answer = await caller.post(path, _text("chat", model))
    _guarded("chat", findings, lambda: chat.full(answer, model, findings))
    streamed = await caller.post(path, _text("chat", model, stream=True, **usage))
    _guarded("chat", findings, lambda: chat.stream(streamed, model, findings))
    plain = await caller.post(path, _text("chat", model, stream=True))
    _guarded("chat", findings, lambda: chat.stream_without_usage(plain, findings))
    called = await caller.post(path, _text("chat", model, _CALL, stream=True, **usage, **offered))
    _guarded("chat", findings, lambda: chat.tools(called, model, findings))


async def _examine_messages(caller: Caller, model: str, findings: Findings) -> None:
    path = _PATHS["messages"]
    offered = {"tools": [{"name": "note", "description": _ABOUT, "input_schema": _SCHEMA}]}
    answer = await caller.post(path, _text("messages", model))
    _guarded("messages", findings, lambda: messages.full(answer, model, findings))
    streamed = await caller.post(path, _text("messages", model, stream=True))
    _guarded("messages", findings, lambda: messages.stream(streamed, model, findings))
    called = await caller.post(path, _text("messages", model, _CALL, stream=True, **offered))
    _guarded("messages", findings, lambda: messages.tools(called, model, findings))
    # Models differ in which of the two they take; one that takes neither is no fault.
    for thinking in ({"type": "adaptive"}, {"type": "enabled", "budget_tokens": 1024}):
        body = _text("messages", model, _THINK, stream=True, thinking=thinking)
        thought = await caller.post(path, body)
        if thought.status == 200:
            break
    _guarded("messages", findings, lambda: messages.thinking(thought, model, findings))


async def _examine_responses(caller: Caller, model: str, findings: Findings) -> None:
    path = _PATHS["responses"]
    tool = {"type": "function", "name": "note", "description": _ABOUT, "parameters": _SCHEMA}
    offered = {"tools": [{**tool, "strict": True}]}
    answer = await caller.post(path, _text("responses", model))
    _guarded("responses", findings, lambda: responses.full(answer, model, findings))
    streamed = await caller.post(path, _text("responses", model, stream=True))
    _guarded("responses", findings, lambda: responses.stream(streamed, model, findings))
    called = await caller.post(path, _text("responses", model, _CALL, stream=True, **offered))
    _guarded("responses", findings, lambda: responses.tools(called, model, findings))
    await look_at_socket(caller, _text("responses", model), findings)


async def _examine_google(caller: Caller, model: str, findings: Findings) -> None:
    path, streamed = _path("google", model), _STREAMED.format(model=model)
    function = {"name": "note", "description": _ABOUT, "parametersJsonSchema": _SCHEMA}
    offered = {"tools": [{"functionDeclarations": [function]}]}
    answer = await caller.post(path, _text("google", model))
    _guarded("google", findings, lambda: google.full(answer, model, findings))
    events = await caller.post(f"{streamed}?alt=sse", _text("google", model))
    _guarded("google", findings, lambda: google.stream(events, model, findings))
    whole = await caller.post(streamed, _text("google", model))
    _guarded("google", findings, lambda: google.array(whole, findings))
    called = await caller.post(f"{streamed}?alt=sse", _text("google", model, _CALL, **offered))
    _guarded("google", findings, lambda: google.tools(called, model, findings))
    contents = {"contents": _text("google", model)["contents"]}
    counted = await caller.post(path.replace(":generateContent", ":countTokens"), contents)
    _guarded("google", findings, lambda: google.count(counted, findings))
    listed = await caller.get("/v1beta/models", [], auth="x-goog-api-key")
    _guarded("google", findings, lambda: google.models(listed, findings))


async def _examine_interactions(caller: Caller, model: str, findings: Findings) -> None:
    path = _PATHS["interactions"]
    tool = {"type": "function", "name": "note", "description": _ABOUT, "parameters": _SCHEMA}
    answer = await caller.post(path, _text("interactions", model))
    _guarded("interactions", findings, lambda: interactions.full(answer, model, findings))
    streamed = await caller.post(path, _text("interactions", model, stream=True))
    _guarded("interactions", findings, lambda: interactions.stream(streamed, model, findings))
    asked = _text("interactions", model, _CALL, stream=True, tools=[tool])
    called = await caller.post(path, asked)
    _guarded("interactions", findings, lambda: interactions.tools(called, model, findings))


_EXAMINERS = {
    "chat": _examine_chat,
    "messages": _examine_messages,
    "responses": _examine_responses,
    "google": _examine_google,
    "interactions": _examine_interactions,
}


def _guarded(protocol: str, findings: Findings, judge: Callable[[], object]) -> None:
    """Judge an answer that may be of any shape."""
    try:
        judge()
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        problem = f"something in it has another shape than the protocol's ({error})"[:200]
        findings.judge(f"{protocol}.json", problem)
