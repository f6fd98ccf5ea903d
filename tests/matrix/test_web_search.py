"""The web search of one vendor in place of the other's, as the vendors' SDKs see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.config import parse_config
from dragoman.server.testing import running_gateway
from tests.checkers import CHECKERS
from tests.gateway.http import call
from tests.matrix.bodies import WEATHER_SCHEMA
from tests.matrix.conftest import CONFIG, PROTOCOLS, UPSTREAM, Stage
from tests.matrix.judges import Api, Ask, Mode, Seen

OPTIONS = """
[options]
hosted_tools = "map"
"""
SOURCES = ("https://example.com/a", "https://example.com/b")
SEARCH = "sim-hosted-search"
NEAR = {"type": "approximate", "country": "DE"}
ASKS_SOURCES = {"include": ["web_search_call.action.sources"]}
MODES = [("full", "python"), ("helper", "python"), ("full", "node"), ("helper", "node")]


@pytest.fixture(scope="module")
def mapping(stage: Stage) -> Iterator[str]:
    """The address of a gateway that maps hosted tools."""
    text = CONFIG + OPTIONS
    for api, protocol in PROTOCOLS.items():
        text += UPSTREAM.format(
            api=api, protocol=protocol, base_url=stage.simulator.base_url, websocket="off"
        )
    with running_gateway(parse_config(text)) as gateway:
        yield gateway.base_url


def codex(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A request as Codex makes it, which always offers a search."""
    function = {"type": "function", "name": "shell", "parameters": WEATHER_SCHEMA, "strict": False}
    search = {"type": "web_search", "external_web_access": False, "user_location": NEAR}
    said = {"type": "message", "role": "user", "content": "Who was the dragoman?"}
    return {
        "model": f"messages/{SEARCH}",
        "input": [said, *items],
        "tools": [function, search],
        "store": False,
        **more,
    }


def claude_code(**more: Any) -> dict[str, Any]:
    """A request as Claude Code's own search tool makes it."""
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    return {
        "model": f"responses/{SEARCH}",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": "Perform a web search: the dragoman"}],
        "tools": [{**search, "allowed_domains": ["example.com"]}],
        "tool_choice": {"type": "tool", "name": "web_search"},
        **more,
    }


def ask(
    stage: Stage, gateway: str, client: Api, how: tuple[Mode, str], made: dict[str, Any]
) -> Seen:
    mode, judge = how
    seen = stage.judge(judge).ask(Ask(client, mode, gateway, made))
    assert seen.error is None, seen.error
    return seen


@pytest.mark.parametrize("how", MODES)
@pytest.mark.parametrize("more", [{}, ASKS_SOURCES])
def test_codex_searches_over_messages(
    stage: Stage, mapping: str, how: tuple[Mode, str], more: dict[str, Any]
) -> None:
    """The search, what it found and the answer that cites it; then a second turn with them."""
    seen = ask(stage, mapping, "responses", how, codex(**more))

    assert stage.sent()["tools"][1] == {
        "type": "web_search_20260318",
        "name": "web_search",
        "allowed_callers": ["direct"],
        "user_location": NEAR,
    }
    search, message = seen.final["output"]
    found = [{"type": "url", "url": url} for url in SOURCES]
    assert search["type"] == "web_search_call"
    assert search["status"] == "completed"
    assert search["action"]["query"] == "the dragoman"
    assert search["action"].get("sources") == (found if more else None)
    assert seen.citations == SOURCES
    assert seen.final["tool_usage"]["web_search"]["num_requests"] == 1
    assert seen.finish == "completed"

    asked = {"type": "message", "role": "user", "content": "Go on."}
    again = codex(strip(search), strip(message), asked, model="messages/sim-text")
    assert ask(stage, mapping, "responses", how, again).text
    said = [[block["type"] for block in turn["content"]] for turn in stage.sent()["messages"]]
    assert said == [["text"], ["text"], ["text"]]


def strip(item: dict[str, Any]) -> dict[str, Any]:
    """An item of an answer as Codex sends it back: without its id, for nothing is stored."""
    return {name: value for name, value in item.items() if name not in ("id", "parsed")}


@pytest.mark.parametrize("more", [{}, ASKS_SOURCES])
def test_the_search_streams_by_the_grammar(mapping: str, more: dict[str, Any]) -> None:
    made = codex(stream=True, **more)
    answer = call(mapping, "POST", "/v1/responses", made, key="sk-test-key")

    verdict = CHECKERS["openai_responses"](answer.body)
    assert verdict.succeeded
    told = [event["type"].removeprefix("response.") for event in verdict.events[2:7]]
    assert told == [
        "output_item.added",
        "web_search_call.in_progress",
        "web_search_call.searching",
        "web_search_call.completed",
        "output_item.done",
    ]


@pytest.mark.parametrize("how", MODES)
def test_claude_code_searches_over_responses(
    stage: Stage, mapping: str, how: tuple[Mode, str]
) -> None:
    """The answer in words: what an OpenAI search found is not told in the form of the other."""
    seen = ask(stage, mapping, "messages", how, claude_code())

    sent = stage.sent()
    assert sent["tools"] == [
        {"type": "web_search", "filters": {"allowed_domains": ["example.com"]}}
    ]
    assert sent["tool_choice"] == "required"
    assert seen.text
    assert [block["type"] for block in seen.final["content"]] == ["text"]
    assert seen.final["usage"]["server_tool_use"]["web_search_requests"] == 1
    assert seen.finish == "end_turn"


@pytest.mark.parametrize("how", MODES)
def test_a_search_by_claude_goes_on_over_responses(
    stage: Stage, mapping: str, how: tuple[Mode, str]
) -> None:
    """What Claude Code got from its own vendor, sent to the other one: the search is an item."""
    auto = {"tool_choice": {"type": "auto"}}
    seen = ask(stage, mapping, "messages", how, claude_code(model=f"messages/{SEARCH}", **auto))
    searched = seen.final["content"]
    assert searched[0]["type"] == "server_tool_use"
    turns = [
        *claude_code()["messages"],
        {"role": "assistant", "content": [_sendable(block) for block in searched]},
        {"role": "user", "content": "Go on."},
    ]
    made = claude_code(messages=turns, model="responses/sim-text", **auto)

    assert ask(stage, mapping, "messages", how, made).text
    item = stage.sent()["input"][1]
    assert item["type"] == "web_search_call"
    assert item["action"]["query"] == "the dragoman"
    assert [source["url"] for source in item["action"]["sources"]] == list(SOURCES)


def _sendable(block: dict[str, Any]) -> dict[str, Any]:
    """A block without what only answers have."""
    kept = {name: value for name, value in block.items() if value is not None}
    kept.pop("parsed", None)
    kept.pop("parsed_output", None)
    return kept


@pytest.mark.parametrize("upstream", ["messages", "responses"])
@pytest.mark.parametrize("how", MODES)
def test_chat_searches_elsewhere(
    stage: Stage, mapping: str, upstream: Api, how: tuple[Mode, str]
) -> None:
    made = {
        "model": f"{upstream}/{SEARCH}",
        "messages": [{"role": "user", "content": "Who was the dragoman?"}],
        "web_search_options": {
            "user_location": {"type": "approximate", "approximate": {"country": "DE"}}
        },
    }
    seen = ask(stage, mapping, "chat", how, made)

    (tool,) = stage.sent()["tools"]
    assert tool["user_location"] == NEAR
    assert seen.text
    assert seen.citations == SOURCES


def test_without_the_option_nothing_is_searched(stage: Stage) -> None:
    """The same request goes out without its search, and the scenario refuses it."""
    seen = stage.ask("python", "responses", "full", codex())

    assert seen.error is not None
    assert "web search tool" in seen.error.message
    assert [tool["name"] for tool in stage.sent()["tools"]] == ["shell"]
