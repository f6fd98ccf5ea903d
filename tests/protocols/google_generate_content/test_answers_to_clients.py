"""Answers, errors and lists as clients of generateContent get them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from dragoman.canonical.blocks import (
    Base64,
    Image,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    UrlCitation,
    WebSearch,
)
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import Fault, FaultKind, InvalidRequest
from dragoman.canonical.events import (
    Annotated,
    Closed,
    Delta,
    Ended,
    Event,
    Failed,
    Finished,
    Metered,
    Opened,
    Sealed,
    Started,
)
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.losses import Ledger
from dragoman.canonical.options import Options
from dragoman.canonical.requests import Request, Thinking
from dragoman.canonical.usage import Usage
from dragoman.protocols import CODECS
from dragoman.protocols.base import Reply
from dragoman.protocols.google_generate_content.output import write_logprobs

CODEC = CODECS["google_generate_content"]
SEALER = Sealer(b"a key of the tests")
SHOWN = Thinking(display="summarized")
STOP = (Finished(Finish(FinishReason.STOP)), Ended())
NAMES = '"modelVersion":"gemini-3.8-flash","responseId":"dgm-resp-1"'


def written(
    *events: Event,
    streamed: bool = True,
    thinking: Thinking | None = SHOWN,
    options: Options | None = None,
) -> Any:
    """The frames of a stream, decoded, or the whole answer."""
    reply = Reply(
        request=Request(model="m", turns=(), thinking=thinking),
        id="dgm-resp-1",
        created=0,
        model="gemini-3.8-flash",
        ledger=Ledger(),
        sealer=SEALER,
        mint=lambda prefix: f"{prefix}1",
        options=options or Options(),
    )
    writer = CODEC.translate.answer_writer(reply, streamed)
    data = b"".join([writer.write(event) for event in (Started("x", "y"), *events)])
    if not streamed:
        assert data == b""
        return writer.answer()
    frames = data.split(b"\n\n")
    assert frames.pop() == b""
    assert all(frame.startswith(b"data: {") and b"\n" not in frame for frame in frames)
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]


def text(index: int, *pieces: str) -> tuple[Event, ...]:
    deltas = [Delta(index, piece) for piece in pieces]
    return Opened(index, Text(text="")), *deltas, Closed(index)


def call(index: int, name: str, arguments: str, call_id: str) -> tuple[Event, ...]:
    head = ToolCall(id=call_id, name=name)
    return Opened(index, head), Delta(index, arguments), Closed(index)


def sealed(index: int, opaque: Opaque, *pieces: str) -> tuple[Event, ...]:
    deltas = [Delta(index, piece) for piece in pieces]
    return Opened(index, Reasoning()), *deltas, Sealed(index, opaque), Closed(index)


def frame_of(parts: str, more: str = "", usage: str = "") -> bytes:
    candidate = f'{{"content":{{"parts":[{parts}],"role":"model"}}{more},"index":0}}'
    usage = f'"usageMetadata":{usage},' if usage else ""
    return f'data: {{"candidates":[{candidate}],{usage}{NAMES}}}\n\n'.encode()


def test_a_text_byte_for_byte() -> None:
    reply = Reply(
        request=Request(model="m", turns=()),
        id="dgm-resp-1",
        created=0,
        model="gemini-3.8-flash",
        ledger=Ledger(),
        sealer=SEALER,
        mint=str,
    )
    writer = CODEC.translate.answer_writer(reply, True)
    events: tuple[Event, ...] = (
        Started("x", "y"),
        Metered(Usage(input=7, output=2)),
        Opened(0, Text(text="")),
        Delta(0, "The sky"),
        Metered(Usage(input=7, output=5)),
        Delta(0, " is blue.\u2028"),
        Closed(0),
        Finished(Finish(FinishReason.STOP)),
        Metered(Usage(input=7, output=5, cached=3, reasoning=2)),
        Ended(),
    )
    first = '{"promptTokenCount":7,"candidatesTokenCount":2,"totalTokenCount":9}'
    second = '{"promptTokenCount":7,"candidatesTokenCount":5,"totalTokenCount":12}'
    last = (
        '{"promptTokenCount":7,"candidatesTokenCount":3,"totalTokenCount":12,'
        '"cachedContentTokenCount":3,"thoughtsTokenCount":2}'
    )
    assert b"".join(map(writer.write, events)) == (
        frame_of('{"text":"The sky"}', usage=first)
        + frame_of('{"text":" is blue.\\u2028"}', usage=second)
        + frame_of('{"text":""}', ',"finishReason":"STOP"', last)
    )
    assert writer.keepalive() == CODEC.translate.keepalive == b"\n"


def test_the_last_chunk_always_has_a_part() -> None:
    (only,) = written(*STOP)
    assert only["candidates"][0]["content"] == {"parts": [{"text": ""}], "role": "model"}
    whole = written(*STOP, streamed=False)
    assert whole["candidates"][0]["content"]["parts"] == [{"text": ""}]


def test_thoughts_are_shown_only_if_asked_for() -> None:
    thought = (Opened(0, Reasoning()), Delta(0, "Hm."), Closed(0))
    events = *thought, *text(1, "Yes."), *STOP
    shown = written(*events, streamed=False)["candidates"][0]["content"]["parts"]
    assert shown == [{"text": "Hm.", "thought": True}, {"text": "Yes."}]
    for thinking in (None, Thinking(effort="low", display="omitted")):
        assert "Hm." not in json.dumps(written(*events, thinking=thinking))
    always = Options(show_reasoning="always")
    assert "Hm." in json.dumps(written(*events, thinking=None, options=always))
    never = Options(show_reasoning="never")
    assert "Hm." not in json.dumps(written(*events, options=never))


@pytest.mark.parametrize("streamed", [True, False])
def test_calls_are_whole_and_signed_once(streamed: bool) -> None:
    own = Opaque(CODEC.name, "c2ln", anchor="next")
    events = (
        *sealed(0, own),
        *call(1, "glob", '{"pattern":\n"*.md"}', "one"),
        *call(2, "glob", "", "two"),
        Finished(Finish(FinishReason.TOOL_CALLS)),
        Ended(),
    )
    answer = written(*events, streamed=streamed)
    chunks = answer if streamed else [answer]
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    assert parts[:2] == [
        {
            "functionCall": {"name": "glob", "args": {"pattern": "*.md"}, "id": "one"},
            "thoughtSignature": "c2ln",
        },
        {"functionCall": {"name": "glob", "args": {}, "id": "two"}},
    ]
    assert parts[2:] == [{"text": ""}] * streamed
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"


def test_a_late_signature_is_on_the_last_part() -> None:
    chunks = written(*text(0, "Yes."), *sealed(1, Opaque(CODEC.name, "c2ln")), *STOP)
    (last,) = chunks[-1]["candidates"][0]["content"]["parts"]
    assert last == {"text": "", "thoughtSignature": "c2ln"}
    whole = written(
        *text(0, "Yes."),
        *sealed(1, Opaque(CODEC.name, "c2ln", anchor="previous")),
        *STOP,
        streamed=False,
    )
    assert whole["candidates"][0]["content"]["parts"] == [
        {"text": "Yes.", "thoughtSignature": "c2ln"}
    ]


@pytest.mark.parametrize("thinking", [SHOWN, None], ids=["shown", "hidden"])
def test_state_of_others_is_an_envelope_in_base64(thinking: Thinking | None) -> None:
    state = (Opaque("another", "one"), Opaque("another", "two"))
    thoughts = *sealed(0, state[0], "Let me", " see."), *sealed(1, state[1])
    for rest in (call(2, "f", "{}", "one"), text(2, "Yes.")):
        answer = written(*thoughts, *rest, *STOP, streamed=False, thinking=thinking)
        signed = [
            part["thoughtSignature"]
            for part in answer["candidates"][0]["content"]["parts"]
            if "thoughtSignature" in part
        ]
        (signature,) = signed
        envelopes = base64.b64decode(signature, validate=True).decode().split(" ")
        opened = [SEALER.open(envelope) for envelope in envelopes]
        assert [block and block.opaque for block in opened] == list(state)
        assert opened[0] is not None
        assert opened[0].text == "Let me see."


def test_pictures_keep_their_signature() -> None:
    picture = Opened(0, Image(source=Base64("image/png", "AAAA"))), Closed(0)
    signature = sealed(1, Opaque(CODEC.name, "c2ln", anchor="previous"))
    first, _ = written(*picture, *signature, *STOP)
    assert first["candidates"][0]["content"]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thoughtSignature": "c2ln"}
    ]


@pytest.mark.parametrize("streamed", [True, False])
def test_citations_count_bytes_of_the_joined_part(streamed: bool) -> None:
    cited = UrlCitation(url="https://example.org", title="A page", start=0, end=5)
    events = (
        Opened(0, WebSearch()),
        Delta(0, "people of Paris"),
        Closed(0),
        *text(1, "Zoé: "),
        Opened(2, Text(text="")),
        Delta(2, "Père"),
        Delta(2, "!"),
        Annotated(2, cited),
        Closed(2),
        *STOP,
    )
    answer = written(*events, streamed=streamed)
    last = answer[-1] if streamed else answer
    assert last["candidates"][0]["groundingMetadata"] == {
        "webSearchQueries": ["people of Paris"],
        "groundingChunks": [{"web": {"uri": "https://example.org", "title": "A page"}}],
        "groundingSupports": [
            {
                "segment": {"startIndex": 6, "endIndex": 12, "text": "Père!"},
                "groundingChunkIndices": [0],
            }
        ],
    }


@pytest.mark.parametrize(
    ("finish", "word"),
    [
        (Finish(FinishReason.STOP_SEQUENCE, "x"), "STOP"),
        (Finish(FinishReason.PAUSE), "STOP"),
        (Finish(FinishReason.LENGTH), "MAX_TOKENS"),
        (Finish(FinishReason.CONTEXT_WINDOW), "MAX_TOKENS"),
        (Finish(FinishReason.CONTENT_FILTER), "SAFETY"),
        (Finish(FinishReason.CONTENT_FILTER, category="RECITATION"), "RECITATION"),
        (Finish(FinishReason.CONTENT_FILTER, category="bio"), "SAFETY"),
    ],
)
def test_finish_reasons(finish: Finish, word: str) -> None:
    answer = written(*text(0, "Yes."), Finished(finish), Ended(), streamed=False)
    assert answer["candidates"][0]["finishReason"] == word


def test_a_refusal_is_text_and_the_message_of_the_end() -> None:
    events = Opened(0, Refusal(text="")), Delta(0, "I can't."), Closed(0), *STOP
    candidate = written(*events, streamed=False)["candidates"][0]
    assert candidate["content"]["parts"] == [{"text": "I can't."}]
    assert (candidate["finishReason"], candidate["finishMessage"]) == ("SAFETY", "I can't.")


@pytest.mark.parametrize("streamed", [True, False])
def test_a_blocked_prompt_has_feedback_and_no_candidate(streamed: bool) -> None:
    blocked = Finish(FinishReason.CONTENT_FILTER, category="PROHIBITED_CONTENT", of_prompt=True)
    answer = written(Metered(Usage(input=9)), Finished(blocked), Ended(), streamed=streamed)
    (answer,) = answer if streamed else [answer]
    assert answer["promptFeedback"] == {"blockReason": "PROHIBITED_CONTENT"}
    assert answer["usageMetadata"]["promptTokenCount"] == 9
    assert "candidates" not in answer


def test_a_failure_is_the_only_member_of_its_frame() -> None:
    fault = Fault(FaultKind.OVERLOADED, "Later.")
    *_, last = written(*text(0, "Ye"), Failed(fault))
    assert last.keys() == {"error"}
    assert (last["error"]["code"], last["error"]["status"]) == (503, "UNAVAILABLE")


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "status", "word"),
    [
        (FaultKind.INVALID_REQUEST, 400, "INVALID_ARGUMENT"),
        (FaultKind.UNAUTHENTICATED, 401, "UNAUTHENTICATED"),
        (FaultKind.PAYMENT_REQUIRED, 429, "RESOURCE_EXHAUSTED"),
        (FaultKind.FORBIDDEN, 403, "PERMISSION_DENIED"),
        (FaultKind.MODEL_NOT_FOUND, 404, "NOT_FOUND"),
        (FaultKind.TOO_LARGE, 413, "INVALID_ARGUMENT"),
        (FaultKind.RATE_LIMITED, 429, "RESOURCE_EXHAUSTED"),
        (FaultKind.INTERNAL, 500, "INTERNAL"),
        (FaultKind.UPSTREAM_FAILED, 502, "UNAVAILABLE"),
        (FaultKind.NO_ACCOUNT, 503, "UNAVAILABLE"),
        (FaultKind.UPSTREAM_TIMEOUT, 504, "DEADLINE_EXCEEDED"),
    ],
)
def test_errors(kind: FaultKind, status: int, word: str) -> None:
    shown = CODEC.translate.write_error(Fault(kind, "No."), "req_1")
    error = shown.body["error"]
    assert (shown.status, error["code"], error["status"]) == (status, status, word)


def details_of(fault: Fault) -> dict[str, Any]:
    error = CODEC.translate.write_error(fault, "req_1").body["error"]
    return {one["@type"].rpartition(".")[2]: one for one in error["details"]} | {"": error}


def test_errors_say_which_field_and_when_to_come_again() -> None:
    field = details_of(Fault(FaultKind.INVALID_REQUEST, "tools: no", param="tools"))
    assert field["BadRequest"]["fieldViolations"][0]["field"] == "tools"
    later = details_of(Fault(FaultKind.RATE_LIMITED, "Slow.", retry_after=3.2))
    assert later["RetryInfo"]["retryDelay"] == "4s"
    assert later[""]["message"].endswith("Please retry in 4s.")
    assert "QuotaFailure" not in later
    spent = details_of(Fault(FaultKind.PAYMENT_REQUIRED, "Spent."))
    violation = {"quotaId": "BudgetPerDay", "quotaMetric": "dragoman/budget"}
    assert spent["QuotaFailure"]["violations"] == [violation]
    long = details_of(
        Fault(FaultKind.CONTEXT_TOO_LONG, "prompt is too long: 12 tokens > 10 maximum")
    )
    assert long[""]["message"].startswith(
        "The input token count (12) exceeds the maximum number of tokens allowed (10)."
    )


@pytest.mark.parametrize(
    ("body", "own"),
    [
        (b'{"error":{"code":400,"message":"No","status":"INVALID_ARGUMENT"}}', True),
        (b'[{"error":{"code":400,"message":"No"}}]', True),
        (b'{"error":{"message":"No","code":"bad"}}', False),
        (b'{"error":"No"}', False),
        (b"<html>", False),
    ],
)
def test_which_errors_pass(body: bytes, own: bool) -> None:
    assert CODEC.translate.is_own_error(body) is own


# --- endpoint -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "query", "model", "stream", "is_array"),
    [
        ("/v1/models/m9:generateContent", "", "m9", False, False),
        ("/v1beta/models/a/b:c:generateContent", "", "a/b:c", False, False),
        ("/v1alpha/models/m9:streamGenerateContent", "alt=sse", "m9", True, False),
        ("/v1beta/models/m9:streamGenerateContent", "alt=json", "m9", True, True),
        ("/v1/models/m9:countTokens", "", "m9", False, False),
        ("/v1beta/tunedModels/a:generateContent", "", "tunedModels/a", False, False),
        (
            "/v1beta1/projects/p/locations/l/publishers/google/models/m9:generateContent",
            "",
            "m9",
            False,
            False,
        ),
        ("/v1beta1/publishers/google/models/m9:generateContent", "", "m9", False, False),
    ],
)
def test_paths(path: str, query: str, model: str, stream: bool, is_array: bool) -> None:
    operation = CODEC.endpoint.operation_of(path, query)
    assert operation is not None
    assert (operation.model, operation.stream) == (model, stream)
    assert (operation.form is not None) is is_array
    assert model not in operation.name.removeprefix("/v1/models:")


@pytest.mark.parametrize("path", ["/v1/models/a", "/v1/models/a:embedContent", "/v2/models/a:b"])
def test_other_paths_are_not_its_own(path: str) -> None:
    assert CODEC.endpoint.operation_of(path) is None


def test_a_list_has_pages_and_no_token_on_the_last() -> None:
    models = CODEC.endpoint.models
    listed = [models.write_model(name, "own", {}) for name in "abc"]
    assert models.write_list(listed, {}) == {"models": listed}
    first = models.write_list(listed, {"pageSize": "2"})
    assert [model["name"] for model in first["models"]] == ["models/a", "models/b"]
    last = models.write_list(listed, {"pageSize": "2", "pageToken": first["nextPageToken"]})
    assert last == {"models": listed[2:]}
    for query in ({"pageSize": "x"}, {"pageToken": "9"}):
        with pytest.raises(InvalidRequest):
            models.write_list(listed, query)


def test_lists_of_both_services_are_read() -> None:
    read = CODEC.endpoint.models.read
    ours = (
        b'{"models":[{"name":"models/a","displayName":"A"},{"name":"models/e",'
        b'"supportedGenerationMethods":["embedContent"]}]}'
    )
    assert [(one["id"], one["display_name"]) for one in read(ours)] == [("a", "A")]
    cloud = b'{"publisherModels":[{"name":"publishers/google/models/b"}]}'
    assert [one["id"] for one in read(cloud)] == ["b"]
    with pytest.raises(ValueError, match="not a list"):
        read(b'{"data":[]}')


def test_counts_are_of_all_three_forms() -> None:
    from dragoman.jsontext import members

    counting = CODEC.endpoint.counting
    assert counting is not None
    asked = b'{"contents":[1],"tools":[]}'
    nested = counting.write_request(asked, "m")
    assert json.loads(nested)["generateContentRequest"]["model"] == "models/m"
    inner = counting.completed(members(nested))
    assert inner.keys() == {"model", "contents", "tools"}
    assert counting.completed(members(asked)).keys() == {"contents", "tools"}
    with pytest.raises(InvalidRequest, match="cannot stand beside"):
        counting.completed(members(b'{"contents":[],"generate_content_request":{}}'))
    assert counting.read(b'{"totalTokens":7}') == 7
    assert counting.write(7) == {"totalTokens": 7}


@pytest.mark.parametrize(
    ("body", "most"),
    [
        ("{}", None),
        ('{"generationConfig":{"maxOutputTokens":9}}', 9),
        ('{"generation_config":{"max_output_tokens":"9"}}', 9),
        ('{"generationConfig":{"max_output_tokens":9.0}}', 9),
        ('{"generationConfig":{"maxOutputTokens":0}}', None),
        ('{"generationConfig":[]}', None),
        pytest.param(f'{{"generationConfig":{{"maxOutputTokens":"{"9" * 5000}"}}}}', None, id="9s"),
    ],
)
def test_limits_are_found_and_lowered(body: str, most: int | None) -> None:
    from dragoman.jsontext import members
    from dragoman.protocols.base import to_json

    given = members(body)
    assert CODEC.endpoint.limits(given) == most
    lowered = CODEC.endpoint.limited(given, 5)
    assert CODEC.endpoint.limits(lowered) == 5
    request = {"contents": [{"parts": [{"text": "a"}]}], **json.loads(to_json(lowered))}
    read = CODEC.translate.read_request(to_json(request), SEALER)
    assert read.max_output_tokens == 5


def test_tiers_and_searches_have_prices() -> None:
    from dragoman.jsontext import members

    endpoint = CODEC.endpoint
    assert endpoint.tier(members('{"serviceTier":"FLEX"}')) == "flex"
    assert endpoint.tier(members('{"service_tier":"standard"}')) is None
    assert endpoint.searches(members('{"tools":[{"google_search":{}}]}'))
    assert not endpoint.searches(members('{"tools":[{"functionDeclarations":[]}]}'))


@pytest.mark.parametrize("top", [5, "a", [5], None])
def test_log_probabilities_of_another_shape_are_none(top: Any) -> None:
    records = [{"token": 5, "logprob": "a", "top_logprobs": top}, 5]
    assert write_logprobs(records) == {
        "chosenCandidates": [{"token": "", "logProbability": None}],
        "topCandidates": [{"candidates": []}],
    }
