"""Web searches of clients' own vendors, made by the operator's engine where the upstream makes
none."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any, ClassVar, Literal
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from dragoman.canonical.blocks import ToolCall, UrlCitation, WebSearch
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.events import Annotated, Closed, Ended, Event, Finished, Opened, Started
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.losses import Ledger
from dragoman.canonical.requests import Request
from dragoman.config import Account, Client, Config, Search, Secret
from dragoman.config import Upstream as Configured
from dragoman.config.limits import Limit
from dragoman.protocols import CODECS
from dragoman.protocols.base import Reply
from dragoman.protocols.settings import make_capabilities, make_options
from dragoman.server.testing import RunningGateway
from dragoman.serving.searches import SearchEngine
from dragoman.translation.call import mint
from dragoman.translation.searching import Query
from dragoman.upstream.client import UpstreamClient
from tests.facts import facts_of
from tests.faults.conftest import SERVER, TIMEOUTS, Over, gateways_over
from tests.faults.upstream import Upstream, answer, api_of, is_streamed
from tests.gateway.clients import PATHS, body, completed, stream_error, streamed_text, text_of
from tests.gateway.conftest import config_for
from tests.gateway.http import KEY as CLIENT
from tests.gateway.http import Answer, Connection, call, events
from tests.protocols.openai_responses import upstream as responses
from tests.tables.cells import CHAT, MESSAGES, RESPONSES, chat_answer, messages_answer
from tests.tables.upstreams import STREAMS
from tests.upstream.servers import Call

KEY, SPARE, ENGINE = "key-of-a-model", "another-key-of-it", "key-of-the-engine"
PAGE = "https://news.example.org/kyoto"
OTHER = "https://other.example.com/"
SAID = f"It rains, says {PAGE} today."
LIMIT = Limit(kind="tokens", amount=900, window="1h")
"""Enough for one answer of 500 tokens, and not for two."""
GOOGLE = "google_generate_content"
PROTOCOLS = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES, "google": GOOGLE}
TOOL: dict[str, Any] = {
    "chat": {"web_search_options": {}},
    "messages": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    "responses": {
        "tools": [{"type": "web_search"}],
        "include": ["web_search_call.action.sources"],
    },
}
FOUND = {
    "results": [
        {"url": PAGE, "title": "Weather of <b>Kyoto</b>", "content": "Rain &amp; wind."},
        {"url": OTHER, "title": "Other", "content": "Sun."},
        {"url": "javascript:x", "title": "no page", "content": ""},
    ]
}


LIMITED = "key-of-a-client-with-little-left"


def configured(url: str, *keys: str) -> Config:
    config = config_for(url, keys=keys, server=SERVER, timeouts=TIMEOUTS)
    blind = make_capabilities(web_search=False)
    google = Configured(name="google", protocol=GOOGLE, base_url=url, timeouts=TIMEOUTS)
    accounts = (Account(name=f"google-{key}", upstream="google", key=Secret(key)) for key in keys)
    return replace(
        config,
        upstreams=tuple(replace(one, capabilities=blind) for one in (*config.upstreams, google)),
        accounts=(*config.accounts, *accounts),
        clients=(
            *config.clients,
            Client(name="limited", key=Secret(LIMITED), limits=(LIMIT,)),
        ),
        options=make_options(hosted_tools="search"),
        search=Search(engine="searxng", url=f"{url}/search", key=Secret(ENGINE)),
    )


@pytest.fixture(scope="module")
def searching(_upstream: Upstream) -> Iterator[RunningGateway]:
    with gateways_over(_upstream) as start:
        yield start(config=configured(_upstream.url, KEY))


class Model:
    """An upstream whose model makes `calls` in its first answers, in each of those named, and then
    says `SAID`; and the engine."""

    def __init__(self, upstream: Upstream, *calls: tuple[str, ...]) -> None:
        self.upstream = upstream
        self.calls = list(calls)
        self.asked: list[Any] = []
        self.found: Any = FOUND
        self.queries: list[str] = []
        self.finish = ""
        upstream.behaviours.update({KEY: self.answer, ENGINE: self.search})

    async def answer(self, call: Call) -> None:
        api = api_of(call)
        self.asked.append(json.loads(call.body))
        names = self.calls.pop(0) if self.calls else ()
        made = ANSWERS[api](names)
        if self.finish:
            made["choices"][0]["finish_reason"] = self.finish
        if is_streamed(call):
            body = STREAMS[PROTOCOLS[api]](made)
            await call.send(answer(body, content_type="text/event-stream"))
        else:
            await call.send(answer(json.dumps(made).encode()))

    async def search(self, call: Call) -> None:
        self.queries += parse_qs(urlsplit(call.target).query)["q"]
        status = 200 if self.found is not None else 500
        await call.send(answer(json.dumps(self.found).encode(), status))


def _chat(names: tuple[str, ...]) -> Any:
    usage: dict[str, Any] = {
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    }
    if not names:
        return chat_answer({"content": SAID}, **usage)
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": QUERY}}
        for n, name in enumerate(names)
    ]
    return chat_answer({"content": "Let me see.", "tool_calls": calls}, "tool_calls", **usage)


def _messages(names: tuple[str, ...]) -> Any:
    usage: dict[str, Any] = {"usage": {"input_tokens": 10, "output_tokens": 5}}
    if not names:
        return messages_answer({"type": "text", "text": SAID}, **usage)
    calls = [
        {"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": json.loads(QUERY)}
        for n, name in enumerate(names)
    ]
    return messages_answer(
        {"type": "text", "text": "Let me see."}, *calls, stop="tool_use", **usage
    )


def _responses(names: tuple[str, ...]) -> Any:
    usage: dict[str, Any] = {"usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}}
    said = SAID if not names else "Let me see."
    message = responses.message({"type": "output_text", "text": said, "annotations": []})
    calls = [
        responses.call(QUERY, id=f"fc_{n}", call_id=f"call_{n}", name=name)
        for n, name in enumerate(names)
    ]
    return responses.response(message, *calls, **usage)


def _google(names: tuple[str, ...]) -> Any:
    parts: list[Any] = [{"text": SAID if not names else "Let me see."}]
    parts += [{"functionCall": {"name": name, "args": json.loads(QUERY)}} for name in names]
    if names:
        parts[1]["thoughtSignature"] = SIGNATURE
    content = {"role": "model", "parts": parts}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}


SIGNATURE = "c2lnbmVk"
QUERY = '{"query": "weather in Kyoto"}'
ANSWERS = {"chat": _chat, "messages": _messages, "responses": _responses, "google": _google}


def asked(
    gateway: RunningGateway, client: str, target: str, *, stream: bool = False, **more: Any
) -> Answer:
    members = {**TOOL[client], **more, "stream": stream}
    told = call(gateway.base_url, "POST", PATHS[client], body(client, f"{target}/m", **members))
    assert told.status == 200, told.body
    return told


def items(client: str, told: Answer, *, stream: bool) -> list[dict[str, Any]]:
    """The blocks or items of an answer; of Chat its message."""
    if not stream:
        value = told.json
        if client == "chat":
            return [value["choices"][0]["message"]]
        return list(value["content" if client == "messages" else "output"])
    assert completed(client, told.body), told.body
    found = [data for _, data in events(told.body) if data != "[DONE]"]
    if client == "responses":
        return list(found[-1]["response"]["output"])
    if client == "messages":
        starts = [one["content_block"] for one in found if one["type"] == "content_block_start"]
        assert [one["index"] for one in found if one["type"] == "content_block_start"] == [
            *range(len(starts))
        ]
        return starts
    deltas = [choice["delta"] for one in found for choice in one["choices"]]
    text = "".join(delta.get("content") or "" for delta in deltas)
    notes = [note for delta in deltas for note in delta.get("annotations") or ()]
    return [{"content": text, "annotations": notes}]


def links(client: str, shown: list[dict[str, Any]]) -> list[str]:
    """The addresses that a client is shown as those of its own vendor's search."""
    if client == "messages":
        (result,) = [one for one in shown if one["type"] == "web_search_tool_result"]
        (made,) = [one for one in shown if one["type"] == "server_tool_use"]
        assert result["tool_use_id"] == made["id"]
        assert result["content"][0]["title"] == "Weather of Kyoto"
        return [page["url"] for page in result["content"]]
    if client == "responses":
        (item,) = [one for one in shown if one["type"] == "web_search_call"]
        assert item["action"]["query"] == "weather in Kyoto"
        return [source["url"] for source in item["action"]["sources"]]
    (message,) = shown
    return [note["url_citation"]["url"] for note in message["annotations"]]


CELLS = [*((client, target) for client in PATHS for target in PATHS), ("messages", "google")]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "target"), CELLS)
def test_a_search_is_made_and_shown_as_the_clients_own(
    client: str, target: str, stream: bool, searching: RunningGateway, upstream: Upstream
) -> None:
    model = Model(upstream, ("web_search",))
    told = asked(searching, client, target, stream=stream)
    assert model.queries == ["weather in Kyoto"]
    first, second = model.asked
    assert json.dumps(first["tools"]).count("web_search") == 1
    sent = json.dumps(second)
    assert "Rain & wind." in sent
    assert PAGE in sent
    shown = items(client, told, stream=stream)
    assert links(client, shown) == ([PAGE] if client == "chat" else [PAGE, OTHER])
    said = streamed_text(client, told.body) if stream else text_of(client, told)
    assert said.endswith(SAID)
    assert "tool_calls" not in json.dumps(shown)
    if client == "messages":
        usage = events(told.body)[-2][1]["usage"] if stream else told.json["usage"]
        assert usage["server_tool_use"]["web_search_requests"] == 1
        assert (usage["input_tokens"], usage["output_tokens"]) == (20, 10)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("target", ["chat", "google"])
def test_a_search_for_a_client_of_google_is_shown_as_grounding(
    target: str, stream: bool, searching: RunningGateway, upstream: Upstream
) -> None:
    model = Model(upstream, ("web_search",))
    google, name = facts_of()[GOOGLE], f"{target}/gemini-3.8-flash"
    made = {**google.body(name, "Hello", stream), "tools": [{"googleSearch": {}}]}
    told = call(searching.base_url, "POST", google.path(name, stream), made)
    assert told.status == 200, told.body
    assert model.queries == ["weather in Kyoto"]
    assert len(model.asked) == 2
    assert (SIGNATURE in json.dumps(model.asked[1])) is (target == "google")
    chunks = [data for _, data in events(told.body)] if stream else [told.json]
    found = chunks[-1]["candidates"][0]["groundingMetadata"]
    assert found["webSearchQueries"] == ["weather in Kyoto"]
    assert [chunk["web"]["uri"] for chunk in found["groundingChunks"]] == [PAGE, OTHER]
    assert "".join(map(google.text_of, chunks)).endswith(SAID)
    assert b"functionCall" not in told.body


def test_the_conversation_goes_on_with_what_was_found(
    searching: RunningGateway, upstream: Upstream
) -> None:
    model = Model(upstream, ("web_search",))
    content = asked(searching, "messages", "chat").json["content"]
    history = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": content},
        {"role": "user", "content": "And tomorrow?"},
    ]
    asked(searching, "messages", "chat", messages=history)
    roles = [message["role"] for message in model.asked[-1]["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    before, after = model.asked[1]["messages"][2], model.asked[2]["messages"][2]
    assert before["content"] == after["content"]


def test_a_large_request_is_searched_for(searching: RunningGateway, upstream: Upstream) -> None:
    """It is read and written in another process."""
    model = Model(upstream, ("web_search",))
    history = [{"role": "user", "content": "All work and no play. " * 50_000}]
    told = asked(searching, "messages", "chat", stream=True, messages=history)
    assert links("messages", items("messages", told, stream=True)) == [PAGE, OTHER]
    assert len(model.asked) == 2


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", ["messages", "responses"])
def test_beside_calls_of_the_clients_tools_it_ends_with_these(
    client: str, stream: bool, searching: RunningGateway, upstream: Upstream
) -> None:
    model = Model(upstream, ("f", "web_search"))
    own = {
        "messages": {"name": "f", "input_schema": {"type": "object"}},
        "responses": {"type": "function", "name": "f", "parameters": {"type": "object"}},
    }
    tools = [*TOOL[client]["tools"], own[client]]
    told = asked(searching, client, "chat", stream=stream, tools=tools)
    assert len(model.asked) == 1
    shown = items(client, told, stream=stream)
    assert links(client, shown) == [PAGE, OTHER]
    kinds = [one["type"] for one in shown]
    assert ("tool_use" if client == "messages" else "function_call") in kinds


@pytest.mark.parametrize("target", PATHS)
def test_it_searches_as_often_as_it_may(
    target: str, searching: RunningGateway, upstream: Upstream
) -> None:
    model = Model(upstream, ("web_search", "web_search"), ("web_search",))
    tool = {**TOOL["messages"]["tools"][0], "max_uses": 1}
    told = asked(searching, "messages", target, tools=[tool])
    assert len(model.queries) == 1
    assert len(model.asked) == 3, "a call that is not allowed is answered, too"
    assert "none" in json.dumps(model.asked[1]["tool_choice"])
    assert told.json["usage"]["server_tool_use"]["web_search_requests"] == 1
    errors = [one["content"] for one in told.json["content"] if "tool_result" in one["type"]]
    assert [type(one) for one in errors] == [list, dict, dict]


def test_it_finds_pages_of_the_domains_that_are_allowed(
    searching: RunningGateway, upstream: Upstream
) -> None:
    model = Model(upstream, ("web_search",))
    tool = {"type": "web_search", "filters": {"allowed_domains": ["example.com"]}}
    told = asked(searching, "responses", "chat", tools=[tool])
    assert model.queries == ["weather in Kyoto (site:example.com)"]
    assert links("responses", told.json["output"]) == [OTHER]


def test_it_finds_none_of_those_that_are_blocked(
    searching: RunningGateway, upstream: Upstream
) -> None:
    Model(upstream, ("web_search",))
    tool = {**TOOL["messages"]["tools"][0], "blocked_domains": ["example.com"]}
    told = asked(searching, "messages", "chat", tools=[tool])
    assert links("messages", told.json["content"]) == [PAGE]


@pytest.mark.parametrize("client", PATHS)
def test_the_model_is_told_that_a_search_failed(
    client: str, searching: RunningGateway, upstream: Upstream
) -> None:
    model = Model(upstream, ("web_search",))
    model.found = None
    told = asked(searching, client, "chat")
    assert SAID in text_of(client, told)
    assert "The search failed" in json.dumps(model.asked[1])


def test_a_search_without_a_query_is_a_call_and_its_result() -> None:
    """As a vendor's may be, of which only the pages are known."""
    asking = Request(model="m", turns=())
    context = Reply(asking, "msg_1", 1, "m", Ledger(), Sealer(), mint)
    writer = CODECS[MESSAGES].translate.answer_writer(context, False)
    shown: list[Event] = [
        Started("m", "m"),
        Opened(0, WebSearch()),
        Annotated(0, UrlCitation(url=PAGE, title="Weather of Kyoto")),
        Closed(0),
        Finished(Finish(FinishReason.STOP)),
        Ended(),
    ]
    for event in shown:
        writer.write(event)
    assert links("messages", writer.answer()["content"]) == [PAGE]


def test_a_forced_search_is_forced_once(searching: RunningGateway, upstream: Upstream) -> None:
    """As Claude Code asks."""
    model = Model(upstream, ("web_search",))
    asked(searching, "messages", "chat", tool_choice={"type": "tool", "name": "web_search"})
    choices = [one.get("tool_choice") for one in model.asked]
    assert choices == [{"type": "function", "function": {"name": "web_search"}}, "auto"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_without_a_search_the_answer_is_the_models(
    stream: bool, searching: RunningGateway, upstream: Upstream
) -> None:
    model = Model(upstream)
    told = asked(searching, "responses", "chat", stream=stream)
    assert len(model.asked) == 1
    assert not model.queries
    (item,) = items("responses", told, stream=stream)
    assert item["content"][0]["text"] == SAID


def test_an_upstream_that_fails_after_the_search_ends_the_stream(
    searching: RunningGateway, upstream: Upstream
) -> None:
    model = Model(upstream, ("web_search",))

    async def once(call: Call) -> None:
        if model.asked:
            await call.send(answer(b'{"error": {"message": "gone"}}', 500))
        else:
            await model.answer(call)

    upstream.behaviours[KEY] = once
    told = asked(searching, "messages", "chat", stream=True)
    assert stream_error("messages", told.body)


def test_another_account_begins_anew(over: Over, upstream: Upstream) -> None:
    """Where nothing of the answer was sent."""
    model = Model(upstream, ("web_search",), (), ("web_search",))

    async def second_fails(call: Call) -> None:
        if len(model.asked) == 1:
            model.asked.append(json.loads(call.body))
            model.calls.pop(0)
            await call.send(answer(b'{"error": {"message": "gone"}}', 503))
        else:
            await model.answer(call)

    upstream.behaviours.update({KEY: second_fails, SPARE: second_fails})
    gateway = over(config=configured(upstream.url, KEY, SPARE))
    told = asked(gateway, "messages", "chat")
    assert SAID in text_of("messages", told)
    first, _, third, _ = model.asked
    assert first == third
    assert links("messages", told.json["content"]) == [PAGE, OTHER]
    assert told.json["usage"]["server_tool_use"]["web_search_requests"] == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_limits_of_a_key_hold_over_all_calls(
    stream: bool, searching: RunningGateway, upstream: Upstream
) -> None:
    model = Model(upstream, ("web_search",))
    asking = body("messages", "chat/m", **TOOL["messages"], stream=stream)
    told = call(searching.base_url, "POST", PATHS["messages"], asking, key=LIMITED)
    assert len(model.asked) == 1
    error = stream_error("messages", told.body) if stream else told.json["error"]
    assert error is not None
    assert "tokens" in error["message"]
    assert told.status == (200 if stream else 429)
    asked(searching, "messages", "chat")  # the account is not blamed


def test_an_answer_that_is_cut_is_not_searched_for(
    searching: RunningGateway, upstream: Upstream
) -> None:
    model = Model(upstream, ("web_search",))
    model.finish = "length"
    told = asked(searching, "messages", "chat")
    assert told.json["stop_reason"] == "max_tokens"
    assert (len(model.asked), model.queries) == (1, [])


class Brave:
    engine: Literal["brave"] = "brave"
    found: ClassVar[Any] = {
        "web": {"results": [{"url": PAGE, "title": "T", "description": "<strong>R</strong>ain"}]}
    }

    @staticmethod
    def check(call: Call) -> None:
        assert dict(call.headers)["x-subscription-token"] == ENGINE
        asked = parse_qs(urlsplit(call.target).query)
        assert (asked["q"], asked["count"]) == (["rain (site:example.org)"], ["3"])


class Tavily:
    engine: Literal["tavily"] = "tavily"
    found: ClassVar[Any] = {
        "results": [{"url": PAGE, "title": "T", "content": "Rain", "score": 0.9}]
    }

    @staticmethod
    def check(call: Call) -> None:
        assert dict(call.headers)["authorization"] == f"Bearer {ENGINE}"
        assert json.loads(call.body) == {
            "query": "rain",
            "max_results": 3,
            "include_domains": ["example.org"],
        }


@pytest.mark.parametrize("form", [Brave, Tavily])
async def test_each_engine_is_asked_in_its_own_form(
    form: type[Brave | Tavily], upstream: Upstream
) -> None:
    async def answered(call: Call) -> None:
        await call.send(answer(json.dumps(form.found).encode()))

    upstream.behaviours.update({ENGINE: answered, "": answered})
    settings = Search(engine=form.engine, url=f"{upstream.url}/x", key=Secret(ENGINE), results=3)
    wanted = Query(0, ToolCall(id="c", name="web_search"), "rain", ("example.org",), ())
    async with UpstreamClient() as client:
        (page,) = await SearchEngine(settings, client).find(wanted) or ()
    assert (page.url, page.title, page.cited_text) == (PAGE, "T", "Rain")
    form.check(upstream.calls[-1])


def test_a_client_that_leaves_ends_the_search(
    searching: RunningGateway, upstream: Upstream
) -> None:
    Model(upstream, ("web_search",))
    came, left = threading.Event(), threading.Event()

    async def hang(call: Call) -> None:
        came.set()
        await call.client_left()
        left.set()

    upstream.behaviours[ENGINE] = hang
    with Connection(searching.base_url) as connection:
        asking = body("messages", "chat/m", **TOOL["messages"], stream=True)
        connection.send("POST", PATHS["messages"], asking, {"authorization": f"Bearer {CLIENT}"})
        assert came.wait(10)
    assert left.wait(10)
