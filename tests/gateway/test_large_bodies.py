"""Large bodies: which they are, and that what is done with them elsewhere is what is done with
others here."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from bench.answers import ANSWERS
from dragoman.canonical.errors import InvalidRequest, Refused
from dragoman.canonical.losses import LossKind, Policy
from dragoman.canonical.masking import Mask
from dragoman.canonical.options import Options
from dragoman.server.testing import RunningGateway
from dragoman.serving.large import LargeBodies, is_large
from dragoman.serving.large_body_tasks import holds_more_values
from dragoman.translation import ALL_REASONING, Call, CallSettings, ClientRequest, Outcome
from tests.gateway.clients import APIS, PATHS, body, completed, error_of, streamed_text, text_of
from tests.gateway.conftest import PROTOCOLS
from tests.gateway.http import AUTH, Connection, call
from tests.matrix.bodies import png

TURN = {"role": "user", "content": "x"}
LONG = "some words " * 110_000
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

MADE: dict[str, dict[str, Any]] = {
    "chat": {
        "model": "one",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": LONG}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "weather.now", "arguments": '{"city":"Graz"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "17 °C"},
        ],
        "tools": [{"type": "function", "function": {"name": "weather.now", "parameters": SCHEMA}}],
        "logit_bias": {"50256": -100},
        "metadata": {"a": "b"},
        "stop": ["STOP"],
        "prompt_cache_key": "this one",
    },
    "messages": {
        "model": "one",
        "max_tokens": 500,
        "system": [{"type": "text", "text": LONG}],
        "messages": [
            {"role": "user", "content": "Where?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                    {"type": "tool_use", "id": "t1", "name": "now", "input": {"city": "Graz"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "17"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": png()},
                    },
                ],
            },
        ],
        "tools": [{"name": "now", "input_schema": SCHEMA}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "top_k": 5,
        "stop_sequences": ["STOP"],
        "metadata": {"user_id": "u"},
    },
    "responses": {
        "model": "one",
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": LONG}]},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "Hm."}],
                "encrypted_content": "c2ln",
            },
            {
                "type": "custom_tool_call",
                "call_id": "c1",
                "name": "patch",
                "input": "*** Begin Patch",
            },
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
        ],
        "tools": [
            {"type": "custom", "name": "patch"},
            {"type": "function", "name": "now", "parameters": SCHEMA, "strict": False},
        ],
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low"},
        "metadata": {"a": "b"},
        "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
        "service_tier": "flex",
        "temperature": 0.5,
        "max_output_tokens": 900,
        "store": False,
    },
}
CELLS = list(itertools.product(APIS, APIS))


def messages(count: int, length: int = 1) -> bytes:
    return json.dumps({"messages": [TURN | {"content": "x" * length}] * count}).encode()


@pytest.mark.parametrize("spacing", [40, 64, 97, 101, 128, 160])
def test_many_objects_are_much_work_however_they_are_spaced(spacing: int) -> None:
    """Also where all of them stand at the same place of every 97 or 101 bytes."""
    random.seed(spacing)
    one = b'{"role":"user","content":"' + b"x" * (spacing - 29) + b'"},'
    assert len(one) == spacing
    for offset in range(0, 102, 3):
        made = b" " * offset + b'{"messages":[' + one * 3000 + b"]}"
        assert is_large(made[: 500 * 1024])


def test_many_objects_are_found_wherever_they_are_put() -> None:
    """By somebody who knows of which bytes a former version looked: of every 97th and 101st."""
    made = bytearray(b'{"y":"\\ud800","x":[')
    while len(made) < 500 * 1024:
        at = len(made)
        made += b" " if at % 97 == 0 or at % 101 == 0 else b"{},"
    for _ in range(100):
        assert is_large(bytes(made) + b"0]}")


def test_many_lists_are_as_well() -> None:
    assert is_large(b'{"messages":[' + b"[]," * 20_000 + b"[]]}")


def test_few_objects_are_not() -> None:
    assert not is_large(messages(100, 1000))
    assert not is_large(messages(1500, 1))


def test_much_text_is() -> None:
    assert is_large(messages(2, 600_000))


def test_code_is_no_object() -> None:
    """Brackets of texts, where they are followed by what cannot follow them in JSON."""
    code = 'if (x) {\n  y = {"a": ["b"], c: [\'d\']};\n}\n' * 4000
    assert not is_large(json.dumps(body("chat", "m", code)).encode())


@pytest.mark.parametrize(
    ("made", "values"),
    [
        (b'{"messages":[' + b'{"role":"user"},' * 9 + b'{"role":"user"}]}', 21),
        (b"[" + b"[]," * 50 + b"[]]", 102),
        # Texts hold none, whatever is in them, and wherever a slice of the text ends.
        (json.dumps({"a": '[{,"\\' * 60_000 + '"', "b": ["\\", "x,[{"]}).encode(), 4),
        (b"[" + b'"a\\\\",' * 100_000 + b"1]", 100_001),
    ],
)
def test_values_are_counted_outside_of_texts(made: bytes, values: int) -> None:
    json.loads(made)
    assert not holds_more_values(made, values)
    assert holds_more_values(made, values - 1)


@pytest.fixture(scope="module")
def processes() -> Iterator[LargeBodies]:
    made = LargeBodies()
    yield made
    made.close()


@pytest.fixture
def large(processes: LargeBodies, monkeypatch: pytest.MonkeyPatch) -> LargeBodies:
    """Has every body worked on in another process."""
    monkeypatch.setattr("dragoman.serving.large.is_large", lambda body: True)
    return processes


@pytest.fixture(autouse=True)
def _minted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids that are the same each time."""
    monkeypatch.setattr("dragoman.translation.call.mint", lambda prefix: f"{prefix}1")


def both(
    large: LargeBodies, api: str, made: bytes, upstream: str, settings: CallSettings
) -> tuple[Call, Call]:
    """The call of a request as it is made here, and elsewhere."""

    async def elsewhere() -> Call:
        request = await large.read(PROTOCOLS[api], made)
        own = ClientRequest(PROTOCOLS[api], made)
        assert (request.model, request.stream) == (own.model, own.stream)
        assert {name: bytes(raw) for name, raw in request.members.items()} == {
            name: bytes(raw) for name, raw in own.members.items()
        }
        assert request.beginning() == own.beginning()
        return await large.translate(request, PROTOCOLS[upstream], settings)

    own = Call(ClientRequest(PROTOCOLS[api], made), PROTOCOLS[upstream], settings)
    return own, asyncio.run(elsewhere())


SETTINGS = CallSettings(
    model="two", created=1, response_id="id_1", options=Options(policy=Policy.LENIENT)
)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("api", "upstream"), CELLS)
def test_requests_and_answers_are_the_same(
    large: LargeBodies, api: str, upstream: str, stream: bool
) -> None:
    made = json.dumps(MADE[api] | {"stream": stream}, indent=1).encode()
    assert is_large(made)
    settings = CallSettings(
        model="two",
        created=1,
        response_id="id_1",
        options=Options(policy=Policy.LENIENT, hosted_tools="map"),
    )
    here, there = both(large, api, made, upstream, settings)
    assert there.body == here.body
    assert there.losses == here.losses
    for name in ("path", "streams", "passes_through", "response_id", "account", "codec"):
        assert getattr(there, name) == getattr(here, name), name
    answers = ANSWERS[PROTOCOLS[upstream]]
    assert there.translate_response(answers.full) == here.translate_response(answers.full)
    told = answers.head + answers.delta(0) + answers.tail(1)
    streams = [one.open_stream() for one in (here, there)]
    first, second = [one.feed(told) + one.finish() for one in streams]
    assert first == second
    assert streams[0].outcome == streams[1].outcome


@pytest.mark.parametrize(("api", "upstream"), CELLS)
def test_halves_of_characters_are_mended_as_well(
    large: LargeBodies, api: str, upstream: str
) -> None:
    """A text that was cut within a character."""
    made = json.dumps(MADE[api]).replace("some words", "some \\ud83d", 1)
    here, there = both(large, api, made.encode(), upstream, SETTINGS)
    assert there.body == here.body
    assert "\ufffd" in there.body.decode()
    assert [loss.kind for loss in here.losses if loss.path == "body"] == [LossKind.REPAIRED]
    assert there.losses == here.losses


_ENDED = re.compile(rb'("completed_at":) ?\d+')


@pytest.mark.parametrize(("api", "upstream"), CELLS)
def test_whole_answers_are_the_same(large: LargeBodies, api: str, upstream: str) -> None:
    """Given to another process, as a whole, as a stream to be put together, and to be streamed."""
    made = json.dumps(body(api, "one")).encode()
    answers = ANSWERS[PROTOCOLS[upstream]]
    told = answers.head + answers.delta(0) + answers.tail(1)
    mask = Mask(["some words"])

    def call_of() -> Call:
        return Call(ClientRequest(PROTOCOLS[api], made), PROTOCOLS[upstream], SETTINGS)

    for given, name, streamed in (
        (answers.full, "translate_response", False),
        (told, "stream_as_response", False),
        (answers.full, "response_as_stream", True),
    ):
        here, outcome, other = call_of(), Outcome(), Outcome()
        expected = getattr(here, name)(mask.secrets_in(given), outcome)
        there = call_of()
        there.mask = mask
        found, answer_id = asyncio.run(large.answer(there, given, other, streamed=streamed))
        # Ids of items are made there, and when it ended is told.
        found = re.sub(rb"_[0-9a-f]{24}", b"_1", found)
        found, expected = (re.sub(_ENDED, rb"\1 1", one) for one in (found, expected))
        assert found == expected, name
        assert other == outcome
        assert there.losses == here.losses
        assert bool(answer_id) is (given is answers.full)


@pytest.mark.parametrize(("api", "upstream"), CELLS)
def test_reasoning_that_is_dropped_is_the_same(large: LargeBodies, api: str, upstream: str) -> None:
    made = json.dumps(MADE[api]).encode()
    here, there = both(large, api, made, upstream, SETTINGS)
    here.account = there.account = "other"
    for least in (0, 1, ALL_REASONING, 0):
        for bound, moved in itertools.product((False, True), repeat=2):
            expected = here.drop_reasoning(bound=bound, moved=moved, least=least)
            request = ClientRequest(PROTOCOLS[api], made)
            found = asyncio.run(
                large.drop_reasoning(there, request, bound=bound, moved=moved, least=least)
            )
            assert found == expected
            assert there.body == here.body
            assert there.losses == here.losses


@pytest.mark.parametrize(
    "wrong",
    [
        b"[1]",
        b"{",
        b'{"model":1}',
        b'{"model":"m","messages":[{"role":"x"}]}',
        b'{"a":"\\ud800"}',
        b'{"model":"m","MODEL":"dear","messages":[{"role":"user","content":"x"}]}',
    ],
)
def test_what_is_wrong_with_a_body_is_told_as_ever(large: LargeBodies, wrong: bytes) -> None:
    made = b" " * 1_200_000 + wrong

    def told_of(work: Any) -> Any:
        with pytest.raises(InvalidRequest) as caught:
            work()
        return caught.value.fault

    def here() -> Call:
        return Call(ClientRequest("openai_chat", made), "anthropic_messages", SETTINGS)

    async def there() -> Call:
        request = await large.read("openai_chat", made)
        return await large.translate(request, "anthropic_messages", SETTINGS)

    assert told_of(lambda: asyncio.run(there())) == told_of(here)


def test_models_that_are_named_besides_are_found_there(large: LargeBodies) -> None:
    def named(models: list[str]) -> tuple[str, ...]:
        turns = {"messages": [{"role": "user", "content": LONG}]}
        made = json.dumps({"model": "m", "models": models, **turns}).encode()
        return asyncio.run(large.read("openai_chat", made)).named_models()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dragoman.translation.client_request.models_besides", None)
        assert named(["a", "b", "a"]) == ("a", "b")
        with pytest.raises(InvalidRequest, match="more than 64 models"):
            named([str(number) for number in range(70)])


def test_a_policy_refuses_as_ever(large: LargeBodies) -> None:
    strict = CallSettings(options=Options(policy=Policy.STRICT))
    made = json.dumps(MADE["messages"]).encode()
    with pytest.raises(Refused) as here:
        Call(ClientRequest("anthropic_messages", made), "openai_chat", strict)
    with pytest.raises(Refused) as there:
        both(large, "messages", made, "chat", strict)
    assert there.value.fault == here.value.fault
    assert there.value.paths == here.value.paths


def test_losses_beyond_some_are_counted(large: LargeBodies) -> None:
    turns = [{"role": "user", "content": "x", "odd": 1}] * 5000
    made = json.dumps({"model": "one", "max_tokens": 1, "messages": turns}).encode()
    settings = CallSettings(options=Options(policy=Policy.LENIENT))

    async def there() -> Call:
        request = await large.read("anthropic_messages", made)
        return await large.translate(request, "openai_chat", settings)

    losses = asyncio.run(there()).losses
    assert len(losses) == 2001
    assert losses[-1].path == "others"
    assert losses[-1].detail.startswith("3000 more")


@pytest.fixture
def _nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads and translates in this process does not take large bodies."""

    def guarded(kind: Any, which: int) -> Any:
        def made(*arguments: Any, **named: Any) -> Any:
            given = arguments[which]
            assert not is_large(getattr(given, "body", given)), "a large body was worked on here"
            return kind(*arguments, **named)

        return made

    request = guarded(ClientRequest, 1)
    request.outlined = ClientRequest.outlined
    monkeypatch.setattr("dragoman.serving.large.Call", guarded(Call, 0))
    monkeypatch.setattr("dragoman.serving.large.ClientRequest", request)
    for name in ("translate_response", "stream_as_response", "response_as_stream"):
        monkeypatch.setattr(Call, name, guarded(getattr(Call, name), 1))


@pytest.mark.usefixtures("_nothing_here")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("api", "upstream"), CELLS)
def test_a_gateway_has_large_bodies_worked_on_elsewhere(
    gateway: RunningGateway, api: str, upstream: str, stream: bool
) -> None:
    made = body(api, f"{upstream}/sim-text?words=5", LONG, stream=stream)
    answer = call(gateway.base_url, "POST", PATHS[api], made)
    assert answer.status == 200, answer.body
    told = streamed_text(api, answer.body) if stream else text_of(api, answer)
    assert len(told.split()) == 5
    assert not stream or completed(api, answer.body)


@pytest.mark.usefixtures("_nothing_here")
def test_and_a_large_conversation_that_is_compacted(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("compacting", "users_messages"):
        monkeypatch.delattr(f"dragoman.responses.conversations.{name}")
    said = [{"role": "user", "content": f"{number} {'x' * 800}"} for number in range(1500)]
    made = {"model": "chat/sim-text", "input": said}
    with Connection(gateway.base_url) as client:
        client.sock.settimeout(90)
        client.send("POST", f"{PATHS['responses']}/compact", made, AUTH)
        answer = client.answer()
    assert answer.status == 200, answer.body[:500]
    assert [item["type"] for item in answer.json["output"]] == ["message"] * 1500 + ["compaction"]


@pytest.mark.usefixtures("_nothing_here")
@pytest.mark.parametrize(("api", "upstream"), CELLS)
def test_and_large_answers(gateway: RunningGateway, api: str, upstream: str) -> None:
    limit = {
        "chat": "max_completion_tokens",
        "messages": "max_tokens",
        "responses": "max_output_tokens",
    }
    made = body(api, f"{upstream}/sim-text?words=220000") | {limit[api]: 400_000}
    answer = call(gateway.base_url, "POST", PATHS[api], made)
    assert answer.status == 200, answer.body[:500]
    assert is_large(answer.body)
    assert len(text_of(api, answer).split()) == 220_000


@pytest.mark.parametrize("api", APIS)
def test_a_large_body_that_is_wrong_is_refused(gateway: RunningGateway, api: str) -> None:
    made = body(api, "chat/sim-text", LONG, tools="none")
    answer = call(gateway.base_url, "POST", PATHS[api], made)
    assert answer.status == 400
    assert "tools" in str(error_of(api, answer))


@pytest.mark.parametrize("api", ["messages", "responses"])
def test_a_large_prompt_is_counted(gateway: RunningGateway, api: str) -> None:
    path = {"messages": "/v1/messages/count_tokens", "responses": "/v1/responses/input_tokens"}
    for upstream in APIS:
        made = body(api, f"{upstream}/sim-text", LONG)
        made.pop("max_tokens", None)
        answer = call(gateway.base_url, "POST", path[api], made)
        assert answer.status == 200, answer.body
        assert answer.json["input_tokens"] > 50_000


def test_of_many_parts_the_first_ones_tell_a_conversation() -> None:
    """All of them would take seconds for a list of millions."""
    parts = [{"type": "text", "text": str(number)} for number in range(200)]

    def begun(parts: list[Any]) -> bytes:
        turns = [{"role": "user", "content": parts}, {"role": "assistant", "content": "x"}]
        made = {"model": "m", "max_tokens": 1, "messages": turns}
        return ClientRequest("anthropic_messages", json.dumps(made).encode()).beginning().text

    assert begun(parts) == begun(parts[:100])
    assert begun(parts) != begun(parts[1:])
