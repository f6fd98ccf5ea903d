"""One setting, asked for by every client that can: the same meaning in all six translations.

A row says what each protocol's client sends, what each upstream is sent, and what the ledger says
of it, in one wording for all upstreams that do not take the setting as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from dragoman.canonical.losses import LossKind
from dragoman.protocols.settings import make_capabilities, make_options
from dragoman.protocols.tools import NO_TOOLS
from tests.library import translate_request
from tests.tables.requests import (
    ABSENT,
    CONTENT,
    CONVERTED,
    HI,
    KNOB,
    LEAST,
    PNG,
    PNG_URL,
    REPAIRED,
    SCHEMA,
    A,
    C,
    JsonObject,
    R,
    value_at,
)
from tests.tables.wire_messages import picture

LINKED = {"url": PNG_URL}
LEFT_OUT = "[image left out: the model takes no images]"
Lost = tuple[LossKind, str] | None

NO_COUNTERPART = "has no counterpart upstream"
NOT_TAKEN = "the upstream does not take it"


@dataclass(frozen=True)
class Same:
    """One setting. `lost` holds toward the upstreams of `lost_at` (all, if it names none);
    toward the others nothing is lost."""

    name: str
    asked: Mapping[str, JsonObject]
    sent: Mapping[str, Mapping[str, Any]]
    lost: Lost = None
    lost_at: str | tuple[str, ...] = ()
    upstream: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def losses(self, upstream: str) -> set[tuple[LossKind, str]]:
        """What the ledger says."""
        here = not self.lost_at or upstream in self.lost_at
        return {self.lost} if self.lost is not None and here else set()


def effort(word: str) -> dict[str, JsonObject]:
    """The effort, as each client asks for it."""
    asked: dict[str, JsonObject] = {
        C: {"reasoning_effort": word},
        R: {"reasoning": {"effort": word}},
    }
    if word not in ("none", "minimal"):
        asked[A] = {"output_config": {"effort": word}}
    return asked


def efforts(word: Any) -> dict[str, JsonObject]:
    """The effort, as each upstream is asked for it."""
    return {
        C: {"reasoning_effort": word},
        A: {"output_config": ABSENT} if word is ABSENT else {"output_config.effort": word},
        R: {"reasoning.effort": word},
    }


def nearest(word: str) -> Lost:
    return CONVERTED, f"the nearest effort the upstream knows is {word}"


def think(**config: Any) -> dict[str, JsonObject]:
    """Only Messages has it."""
    return {A: {"max_tokens": 64_000, "thinking": config}}


def both(**members: Any) -> dict[str, JsonObject]:
    """OpenAI's protocols have it by the same name."""
    return {C: members, R: members}


def unsent(name: str) -> dict[str, JsonObject]:
    return {C: {name: ABSENT}, A: {name: ABSENT}, R: {name: ABSENT}}


def limit(tokens: int) -> dict[str, JsonObject]:
    return {
        C: {"max_completion_tokens": tokens},
        A: {"max_tokens": tokens},
        R: {"max_output_tokens": tokens},
    }


def form(chat: JsonObject) -> dict[str, JsonObject]:
    """A schema for the answer."""
    return {
        C: {"response_format": {"type": "json_schema", "json_schema": chat}},
        A: {"output_config": {"format": {"type": "json_schema", "schema": chat["schema"]}}},
        R: {"text": {"format": {"type": "json_schema", **chat}}},
    }


def tools(schema: Any, **members: Any) -> dict[str, JsonObject]:
    """A function tool."""
    function = {"name": "f", "parameters": schema, **members}
    return {
        C: {"tools": [{"type": "function", "function": function}]},
        A: {"tools": [{"name": "f", "input_schema": schema, **members}]},
        R: {"tools": [{"type": "function", **function}]},
    }


ARGUMENTS = {C: "tools[0].function.parameters", A: "tools[0].input_schema"}
ARGUMENTS[R] = "tools[0].parameters"
LONG = "u" * 200
HASH = hashlib.sha256(LONG.encode()).hexdigest()
EASY = {"efforts": ("low", "medium", "high")}
MARK = {"type": "ephemeral"}

THINKING = [
    Same(
        "an effort above those known", effort("xhigh"), efforts("high"), nearest("high"), (), EASY
    ),
    Same("the highest effort", effort("max"), efforts("high"), nearest("high"), upstream=EASY),
    Same(
        "an effort below those known", effort("minimal"), efforts("low"), nearest("low"), (), EASY
    ),
    Same(
        "an effort between two that are known",
        effort("medium"),
        efforts("low"),
        nearest("low"),
        upstream={"efforts": ("low", "high")},
    ),
    Same(
        "not to think is no lower effort",
        effort("low"),
        efforts("high"),
        nearest("high"),
        upstream={"efforts": ("none", "high")},
    ),
    Same(
        "an effort where none is known",
        effort("high"),
        efforts(ABSENT),
        (KNOB, "the upstream knows no such effort"),
        upstream={"efforts": ()},
    ),
    Same(
        "no thinking, where the model always thinks",
        {**effort("none"), **think(type="disabled")},
        efforts("low"),
        nearest("low"),
        upstream={**EASY, "disable_thinking": False},
    ),
    *(
        Same(
            f"a budget of {budget}",
            think(type="enabled", budget_tokens=budget),
            efforts(word),
            (CONVERTED, f"a thinking budget becomes the effort {word}"),
        )
        for budget, word in ((2048, "low"), (12288, "medium"), (32768, "high"), (32769, "xhigh"))
    ),
    Same(
        "no thinking between tool calls",
        think(type="between_tools"),
        efforts("none"),
        (CONVERTED, "there is no thinking between tool calls upstream"),
    ),
    Same("the model decides", think(type="adaptive"), {**unsent("reasoning_effort"), R: {}}),
    Same(
        "a way of showing that only Messages has",
        think(type="adaptive", display="updates"),
        {**unsent("reasoning_effort"), R: {}},
        (KNOB, "thinking is not shown in this way"),
    ),
    Same(
        "an effort without a budget of its own",
        effort("xhigh"),
        {A: {"thinking.budget_tokens": 2048}},
        nearest("low"),
        upstream={"adaptive_thinking": False, "thinking_budgets": {"low": 2048}},
    ),
]

TUNING = [
    Same(
        "an output limit above the model's",
        limit(5000),
        limit(100),
        (REPAIRED, "fitted to the upstream's limit of 100 tokens"),
        upstream={"max_output_tokens": 100},
    ),
    *(
        Same(
            f"{name}, which the upstream does not take",
            {**both(**{name: 0.5}), A: {name: 0.5}},
            unsent(name),
            (KNOB, NOT_TAKEN),
            upstream={"sampling": False, "anthropic_version": version},
        )
        for name in ("temperature", "top_p")
        for version in ("2023-06-01", "2026-10-21")
    ),
    *(
        Same(
            f"{name} of 1, which is what the model does anyway",
            {**both(**{name: 1}), A: {name: 1}},
            unsent(name),
            upstream={"sampling": False},
        )
        for name in ("temperature", "top_p")
    ),
    Same(
        "top_k",
        {C: {"top_k": 5}, A: {"top_k": 5}},
        unsent("top_k"),
        (KNOB, NO_COUNTERPART),
    ),
    Same(
        "alternatives without log probabilities",
        both(top_logprobs=2),
        unsent("top_logprobs"),
        (KNOB, "log probabilities were not asked for"),
    ),
    Same("no alternatives", both(top_logprobs=0), unsent("top_logprobs")),
    *(
        Same(name, both(**{name: 0.5}), unsent(name), (KNOB, NO_COUNTERPART))
        for name in ("presence_penalty", "frequency_penalty")
    ),
    Same(
        "stop sequences that are emulated",
        {C: {"stop": ["a", " ", "b", "c", "d"]}, A: {"stop_sequences": ["a", " ", "b", "c", "d"]}},
        {C: {"stop": ["a", " ", "b", "c"]}, A: {"stop_sequences": ["a", "b", "c", "d"]}, R: {}},
        (CONVERTED, "not taken upstream: the answer is cut at it here"),
        options={"stop_on_responses": "emulate"},
    ),
    Same(
        "padding",
        {C: {"stream": True, "stream_options": {"include_obfuscation": True}}}
        | {R: {"stream": True, "stream_options": {"include_obfuscation": True}}},
        {C: {}, A: {}, R: {}},
        (KNOB, "streams are not padded"),
    ),
]

OUTPUT = [
    Same(
        "a schema, where none is taken",
        form({"name": "n", "schema": SCHEMA}),
        {
            C: {"response_format": ABSENT},
            A: {"output_config": ABSENT},
            R: {"text": ABSENT},
        },
        (CONTENT, "the upstream takes no schema for its answer"),
        upstream={"structured_output": False},
    ),
    Same(
        "a schema that is always enforced",
        {A: form({"name": "n", "schema": SCHEMA})[A]},
        {
            C: {
                "response_format.json_schema": {"name": "output", "schema": SCHEMA, "strict": False}
            },
            R: {
                "text.format": {
                    "type": "json_schema",
                    "name": "output",
                    "schema": SCHEMA,
                    "strict": False,
                }
            },
        },
        (CONVERTED, "the schema is not enforced upstream: strict mode would refuse it"),
    ),
    Same(
        "a name that no schema can have",
        {name: form({"name": "a b", "schema": SCHEMA})[name] for name in (C, R)},
        {
            C: {"response_format.json_schema.name": "a_b_c8687a08"},
            R: {"text.format.name": "a_b_c8687a08"},
        },
    ),
    Same(
        "verbosity",
        {C: {"verbosity": "low"}, R: {"text": {"verbosity": "low"}}},
        {C: {"verbosity": "low"}, A: {"verbosity": ABSENT}, R: {"text.verbosity": "low"}},
        (KNOB, NO_COUNTERPART),
        A,
    ),
]

SERVICE = [
    *(
        Same(
            f"a long id of a user as {name}",
            {**both(**{name: LONG}), **({A: {"metadata": {"user_id": LONG}}} if safe else {})},
            {**both(**{name: HASH}), A: {"metadata.user_id": LONG}},
            (CONVERTED, "too long for the upstream: its hash is sent"),
            (C, R),
        )
        for name, safe in (("user", False), ("safety_identifier", True))
    ),
    *(
        Same(
            next(iter(members)),
            both(**members),
            {**both(**members), A: dict.fromkeys(members, ABSENT)},
            (KNOB, NO_COUNTERPART),
            A,
        )
        for members in (
            {"metadata": {"a": "b"}},
            {"prompt_cache_key": "k"},
            {"prompt_cache_retention": "24h"},
            {"prompt_cache_options": {"mode": "explicit"}},
            {"moderation": {"model": "m"}},
            {"service_tier": "flex"},
            {"service_tier": "priority"},
        )
    ),
    Same(
        "the tier of all",
        {**both(service_tier="default"), A: {"service_tier": "standard_only"}},
        {**both(service_tier="default"), A: {"service_tier": "standard_only"}},
    ),
    Same(
        "a tier that only Responses has",
        {R: {"service_tier": "ultrafast"}},
        unsent("service_tier"),
        (KNOB, NO_COUNTERPART),
    ),
    Same(
        "a tier that nobody knows",
        both(service_tier="surprise"),
        unsent("service_tier"),
        (KNOB, NO_COUNTERPART),
    ),
    Same("a speed", {A: {"speed": "fast"}}, unsent("service_tier"), (KNOB, NO_COUNTERPART)),
    Same("the usual speed", {A: {"speed": "standard"}}, unsent("service_tier")),
    Same(
        "a speed that is tied to a tier",
        {A: {"speed": "fast"}},
        both(service_tier="fast"),
        options={"map_fast": True},
    ),
    *(
        Same(
            f"a tier that is tied to a speed, {tier}",
            both(service_tier=tier),
            {**both(service_tier=tier), A: {"speed": "fast", "service_tier": ABSENT}},
            options={"map_fast": True},
        )
        for tier in ("fast", "priority")
    ),
    Same(
        "a speed beside a tier that forbids it",
        {A: {"service_tier": "standard_only", "speed": "fast"}},
        both(service_tier="default"),
        (KNOB, NO_COUNTERPART),
        options={"map_fast": True},
    ),
    Same(
        "automatic caching",
        {A: {"cache_control": MARK}},
        {C: {}, R: {}},
        (KNOB, "the upstream chooses by itself what to cache"),
    ),
    Same(
        "an answer that is to be kept",
        both(store=True),
        {C: {"store": ABSENT}, A: {"store": ABSENT}, R: {"store": True}},
        (KNOB, "the upstream is not asked to keep the answer"),
        (C, A),
    ),
]

TOOLS = [
    Same(
        "arguments without a type",
        tools({"properties": {}}),
        {name: {place: {"type": "object", "properties": {}}} for name, place in ARGUMENTS.items()},
        (REPAIRED, "the schema's root became an object"),
    ),
    Same(
        "arguments of another type",
        tools({"type": "string", "properties": {}}),
        {name: {place: {"type": "object", "properties": {}}} for name, place in ARGUMENTS.items()},
        (REPAIRED, "the schema's root became an object"),
    ),
    Same(
        "any arguments",
        tools({}),
        {name: {place: {"type": "object", "properties": {}}} for name, place in ARGUMENTS.items()},
    ),
    Same(
        "arguments that are held to their schema, where they cannot be",
        tools({"type": "object", "properties": {}, "additionalProperties": False}, strict=True),
        {C: {}, A: {"tools[0].strict": ABSENT}, R: {}},
        (KNOB, "the upstream does not enforce this schema"),
        upstream={"strict_tools": False},
    ),
    Same(
        "a cache mark",
        {A: tools({"type": "object"}, cache_control=MARK)[A]},
        {C: {}, R: {}},
        (KNOB, "tools take no cache mark upstream"),
    ),
    Same(
        "a hidden tool that nothing finds",
        {R: tools({"type": "object"}, defer_loading=True)[R]}
        | {A: tools({"type": "object"}, defer_loading=True)[A]},
        {C: {}, A: {"tools[0].defer_loading": ABSENT}, R: {"tools[0].defer_loading": ABSENT}},
        (KNOB, "offered at once: the upstream has no tool search to find it with"),
    ),
    Same(
        "a free-text tool, emulated",
        {
            C: {"tools": [{"type": "custom", "custom": {"name": "f"}}]},
            R: {"tools": [{"type": "custom", "name": "f"}]},
        },
        {C: {"tools[0].type": "function"}, A: {"tools[0].name": "f"}, R: {}},
        (CONVERTED, "emulated by a function with one string"),
        (C, A),
    ),
    Same(
        "a free-text tool, rejected",
        {
            C: {"tools": [{"type": "custom", "custom": {"name": "f"}}]},
            R: {"tools": [{"type": "custom", "name": "f"}]},
        },
        {C: {"tools": ABSENT}, A: {"tools": ABSENT}, R: {}},
        (CONTENT, "the upstream has no free-text tools"),
        (C, A),
        options={"custom_tools": "reject"},
    ),
    Same(
        "a tool that the vendor runs",
        {A: {"tools": [{"type": "code_execution_20260120", "name": "code_execution"}]}},
        unsent("tools"),
        (KNOB, "the upstream cannot run the tool code_execution_20260120"),
    ),
    Same(
        "another tool that the vendor runs",
        {R: {"tools": [{"type": "code_interpreter", "container": "c"}]}},
        unsent("tools"),
        (KNOB, "the upstream cannot run the tool code_interpreter"),
    ),
    Same(
        "a call that must be made, without tools",
        {**both(tool_choice="required"), A: {"tool_choice": {"type": "any"}}},
        unsent("tool_choice"),
        (CONTENT, NO_TOOLS),
    ),
    Same(
        "a tool that must be called and is not offered",
        {
            C: tools({})[C] | {"tool_choice": {"type": "function", "function": {"name": "g"}}},
            A: tools({})[A] | {"tool_choice": {"type": "tool", "name": "g"}},
            R: tools({})[R] | {"tool_choice": {"type": "function", "name": "g"}},
        },
        {C: {"tool_choice": ABSENT}, A: {"tool_choice": {"type": "auto"}}, R: {}},
        (CONTENT, "names a tool that is not offered upstream"),
    ),
]

SEEN = [
    Same(
        "a picture for a model without eyes",
        {
            C: {"messages": [{**HI, "content": [{"type": "image_url", "image_url": LINKED}]}]},
            A: {"messages": [{**HI, "content": [picture(PNG)]}]},
            R: {"input": [{**HI, "content": [{"type": "input_image", "image_url": PNG_URL}]}]},
        },
        {
            C: {"messages[0].content": LEFT_OUT},
            A: {"messages[0].content[0].text": LEFT_OUT},
            R: {"input[0].content": LEFT_OUT},
        },
        (CONTENT, "the model m takes no images"),
        upstream={"images": False},
    ),
]

ROWS = [*THINKING, *TUNING, *OUTPUT, *SERVICE, *TOOLS, *SEEN]


def cells() -> Iterator[Any]:
    """Every translation of every row."""
    for row in ROWS:
        for client in row.asked:
            for upstream in row.sent:
                if upstream != client:
                    name = f"{row.name}: {client} to {upstream}"
                    yield pytest.param(row, client, upstream, id=name)


@pytest.mark.parametrize(("row", "client", "upstream"), list(cells()))
def test_cell(row: Same, client: str, upstream: str) -> None:
    call = translate_request(
        client,
        upstream,
        json.dumps({**LEAST[client], **row.asked[client]}).encode(),
        options=make_options(policy="lenient", **row.options),
        capabilities=make_capabilities(**row.upstream),
    )
    assert {(loss.kind, loss.detail) for loss in call.losses} == row.losses(upstream)
    body = json.loads(call.body)
    for place, value in row.sent[upstream].items():
        assert value_at(body, place) == value, place


@pytest.mark.parametrize("upstream", [A, R])
def test_an_allowed_tool_that_is_not_offered(upstream: str) -> None:
    refs = [{"type": "function", "function": {"name": name}} for name in ("f", "g")]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": refs}}
    body = {**LEAST[C], **tools({})[C], "tool_choice": choice}
    options = make_options(policy="lenient")
    call = translate_request(C, upstream, json.dumps(body).encode(), options=options)
    told = {(loss.path, loss.kind, loss.detail) for loss in call.losses}
    assert ("tool_choice", CONTENT, "names a tool that is not offered upstream") in told
    assert len(json.loads(call.body)["tools"]) == 1
