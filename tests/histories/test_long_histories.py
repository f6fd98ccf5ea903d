"""Sixty turns of an agent: the service takes each of them, and nothing of them is lost unsaid."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from dragoman.canonical.errors import Refused
from dragoman.canonical.losses import Loss
from dragoman.lab.simulator import ParallelTools, Reasoning, Scenario, Text, ToolCall
from dragoman.lab.simulator.script import Protocol, Step
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from dragoman.lab.simulator.view import View
from dragoman.protocols.settings import make_capabilities, make_options
from dragoman.translation import Call
from tests.histories.agents import AGENTS, Agent, JsonObject, image, texts
from tests.library import translate_request
from tests.losses.requests import CHAT, MESSAGES, RESPONSES
from tests.properties.cells import CELLS
from tests.simulator.requests import post

API: dict[str, Protocol] = {CHAT: "chat", MESSAGES: "messages", RESPONSES: "responses"}
PAIRS = [cell for cell in CELLS if API.keys() >= set(cell)]
"""Those of agents whose histories are messages; chats of Google's SDKs are played in the matrix."""
ROUNDS = 30
"""Of a question, two calls at once, and an answer: sixty turns of the model."""

_MARK = re.compile(r"mark-[a-z0-9-]+")
_PICTURE = image("")[:10]
"""How every picture begins."""

Story = tuple[str, str, list[JsonObject]]


def step(view: View, options: Any) -> Scenario:
    """Reasoning, text and two calls; then reasoning and text. Some reasoning cannot be read."""
    mark = options.text("text")
    number = int(mark.partition("-")[2])
    hidden = number % 5 == 4 and view.protocol != "chat"
    what = "done" if view.results else "said"
    steps: list[Step] = [
        Reasoning((f"{mark}-thought-{what}",), redacted=hidden),
        Text(f"{mark}-{what}"),
    ]
    if not view.results:
        arguments = [f'{{"path":"{mark}-path-{number}"}}' for number in range(2)]
        read, run = (
            ToolCall(tool.name, text) for tool, text in zip(view.tools, arguments, strict=True)
        )
        steps.append(ParallelTools((read, run)))
    return Scenario(tuple(steps))


@pytest.fixture(scope="module")
def simulator() -> Iterator[RunningSimulator]:
    with running_simulator() as simulator:
        simulator.app.scenarios["step"] = step
        yield simulator


def ask(
    simulator: RunningSimulator, client: str, upstream: str, body: JsonObject, **settings: Any
) -> tuple[Call, JsonObject]:
    """The translated call and the client's answer: the service takes the request, and nothing in
    it was lost unsaid.
    """
    call = translate_request(client, upstream, msgspec.json.encode(body), **settings)
    answer = post(simulator, API[upstream], call.body)
    assert answer.status == 200, answer.body
    check_told(body, call)
    return call, msgspec.json.decode(call.translate_response(answer.body))


def play(simulator: RunningSimulator, client: str, upstream: str, **settings: Any) -> Agent:
    """The whole conversation, up to an open question."""
    agent = AGENTS[client]()
    for number in range(ROUNDS):
        mark, model = f"mark-{number}", f"sim-step?text=mark-{number}"
        agent.say(f"{mark}-user")
        if number % 3 == 1:
            agent.remind(f"{mark}-reminder")
        _, answer = ask(simulator, client, upstream, agent.body(model), **settings)
        calls = agent.take(answer)
        assert len(calls) == 2
        agent.give(calls, mark)
        _, answer = ask(simulator, client, upstream, agent.body(model), **settings)
        assert agent.take(answer) == []
    agent.say("mark-last-user")
    return agent


def check_told(body: JsonObject, call: Call) -> None:
    """Every mark of the client's body is upstream, or the ledger names where it stood."""
    sent = call.body.decode()
    arrived = set(_MARK.findall(sent))
    for path, text in texts(body):
        lost = [mark for mark in _MARK.findall(text) if mark not in arrived]
        if _PICTURE in text and text.rpartition(",")[2] not in sent:
            lost.append("a picture")
        if lost and path != "model":
            assert any(covers(loss, path) for loss in call.losses), f"{path}: {lost}"


def covers(loss: Loss, path: str) -> bool:
    """Whether a loss tells of the value at a path."""
    return path == loss.path or path.startswith((f"{loss.path}.", f"{loss.path}["))


@pytest.fixture(scope="module", params=PAIRS, ids=lambda cell: "-".join(API[name] for name in cell))
def story(request: pytest.FixtureRequest, simulator: RunningSimulator) -> Story:
    """A cell and what its client's history came to."""
    client, upstream = request.param
    return client, upstream, play(simulator, client, upstream).history


def test_sixty_turns_are_taken_and_nothing_is_lost_unsaid(
    simulator: RunningSimulator, story: Story
) -> None:
    client, upstream, history = story
    agent = AGENTS[client]()
    agent.history = history
    body = agent.body("sim-step?text=mark-99")
    ask(simulator, client, upstream, body)


def kinds(body: JsonObject) -> list[str]:
    """What the messages and items of a body are."""
    found = [str(item.get("type", "message")) for item in body.get("input", ())]
    for message in body.get("messages", ()):
        found += ["reasoning"] * ("reasoning_content" in message)
        content = message.get("content")
        found += [block["type"] for block in content] if isinstance(content, list) else []
    return found


def test_reasoning_goes_back_to_those_who_can_use_it(
    simulator: RunningSimulator, story: Story
) -> None:
    """With its state as the service sealed it, or it would have been refused."""
    client, upstream, history = story
    agent = AGENTS[client]()
    agent.history = history
    call, _ = ask(simulator, client, upstream, agent.body("sim-step?text=mark-99"))
    found = kinds(msgspec.json.decode(call.body))
    states = sum(kind in ("thinking", "redacted_thinking", "reasoning") for kind in found)
    carried = client == upstream or CHAT not in (client, upstream)
    assert states == (2 * ROUNDS if carried else 0)


DETAILS = {"options": make_options(reasoning_details=True)}
BUDGETS = {"capabilities": make_capabilities(adaptive_thinking=False)}
HOISTED = {"capabilities": make_capabilities(late_system="hoist")}
ASKED = {"capabilities": make_capabilities(replay_reasoning="always")}


@pytest.mark.parametrize(
    ("client", "upstream", "settings", "states"),
    [
        pytest.param(CHAT, MESSAGES, DETAILS, 2 * ROUNDS, id="chat-messages-details"),
        pytest.param(CHAT, RESPONSES, DETAILS, 2 * ROUNDS, id="chat-responses-details"),
        pytest.param(CHAT, MESSAGES, BUDGETS, 0, id="chat-messages-budgets"),
        pytest.param(RESPONSES, MESSAGES, BUDGETS, 2 * ROUNDS, id="responses-messages-budgets"),
        pytest.param(RESPONSES, MESSAGES, HOISTED, 2 * ROUNDS, id="responses-messages-hoisted"),
        pytest.param(MESSAGES, CHAT, ASKED, 2 * ROUNDS, id="messages-chat-asked"),
        pytest.param(RESPONSES, CHAT, ASKED, 2 * ROUNDS, id="responses-chat-asked"),
    ],
)
def test_other_ways_to_carry_a_long_conversation(
    simulator: RunningSimulator, client: str, upstream: str, settings: Any, states: int
) -> None:
    """Reasoning carried in details, by budgets, or as plain text; system text at the front."""
    agent = play(simulator, client, upstream, **settings)
    body = agent.body("sim-step?text=mark-99")
    call, _ = ask(simulator, client, upstream, body, **settings)
    found = kinds(msgspec.json.decode(call.body))
    reasoned = (kind in ("thinking", "redacted_thinking", "reasoning") for kind in found)
    assert sum(reasoned) == states


def is_result(entry: JsonObject) -> bool:
    """Whether a turn answers calls."""
    content = entry.get("content")
    first = content[0] if isinstance(content, list) and content else {}
    return (
        entry.get("role") == "tool"
        or entry.get("type") == "function_call_output"
        or first.get("type") == "tool_result"
    )


def is_call(entry: JsonObject) -> bool:
    """Whether a turn makes calls."""
    content = entry.get("content")
    blocks = content if isinstance(content, list) else []
    return (
        bool(entry.get("tool_calls"))
        or entry.get("type") == "function_call"
        or any(block["type"] == "tool_use" for block in blocks)
    )


def without_results(history: list[JsonObject]) -> list[JsonObject]:
    """Calls that nothing answers: a client cut what its tools gave."""
    return [entry for number, entry in enumerate(history) if number > 50 or not is_result(entry)]


def without_beginning(history: list[JsonObject]) -> list[JsonObject]:
    """Results that nothing asked for: a client cut the beginning off, just behind calls."""
    start = next(n for n in range(50, len(history)) if is_result(history[n]))
    return history[start:]


def compacted(history: list[JsonObject]) -> list[JsonObject]:
    """A summary in place of the beginning, and on with a call."""
    start = next(n for n in range(50, len(history)) if is_call(history[n]))
    return [{"role": "user", "content": "mark-summary-user"}, *history[start:]]


def begun_by_the_model(history: list[JsonObject]) -> list[JsonObject]:
    """The beginning cut off in front of calls."""
    start = next(n for n in range(50, len(history)) if is_call(history[n]))
    return history[start:]


def forked(history: list[JsonObject]) -> list[JsonObject]:
    """A part of the conversation twice."""
    return [*history[:-1], *history]


def interrupted(history: list[JsonObject]) -> list[JsonObject]:
    """The model was stopped while it thought, and the user went on."""
    cut = copy.deepcopy(history)
    last = max(n for n, e in enumerate(cut) if "mark-28-thought-said" in str(e))
    entry = cut[last]
    del cut[last + 1 :]
    if "content" in entry:
        shown = entry["content"]
        entry["content"] = shown[:1] if isinstance(shown, list) else ""
        entry.pop("tool_calls", None)
    return [*cut, {"role": "user", "content": "mark-last-user"}]


def nothing_but_calls(history: list[JsonObject]) -> list[JsonObject]:
    """Neither reasoning nor text beside the calls."""
    bare = []
    for entry in copy.deepcopy(history):
        if entry.get("type") == "reasoning":
            continue
        if entry.get("role") == "assistant" and is_call(entry):
            entry.pop("reasoning_content", None)
            content = entry.get("content")
            uses = content if isinstance(content, list) else []
            entry["content"] = [use for use in uses if use["type"] == "tool_use"] or None
        bare.append(entry)
    return bare


CUTS = (
    without_results,
    compacted,
    begun_by_the_model,
    forked,
    interrupted,
    nothing_but_calls,
)


def cut_body(story: Story, cut: Callable[[list[JsonObject]], list[JsonObject]]) -> JsonObject:
    client, _, history = story
    agent = AGENTS[client]()
    agent.history = cut(history)
    return agent.body("sim-step?text=mark-99")


@pytest.mark.parametrize("cut", CUTS)
def test_what_clients_make_of_their_histories_is_repaired(
    simulator: RunningSimulator, story: Story, cut: Callable[[Any], Any]
) -> None:
    """Or carried on as it is, where nothing is translated. req: 23"""
    client, upstream, _ = story
    body = cut_body(story, cut)
    if client == upstream:
        call = translate_request(client, upstream, msgspec.json.encode(body))
        assert msgspec.json.decode(call.body) == body
    else:
        ask(simulator, client, upstream, body)


@pytest.mark.parametrize("orphans", ["drop", "text"])
def test_results_without_calls_are_refused_or_told(
    simulator: RunningSimulator, story: Story, orphans: Any
) -> None:
    client, upstream, _ = story
    body = cut_body(story, without_beginning)
    if client == upstream:
        call = translate_request(client, upstream, msgspec.json.encode(body))
        assert msgspec.json.decode(call.body) == body
        return
    with pytest.raises(Refused):
        translate_request(client, upstream, msgspec.json.encode(body))
    ask(simulator, client, upstream, body, options=make_options(orphan_results=orphans))
