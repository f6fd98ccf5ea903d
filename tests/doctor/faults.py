"""One way to spoil a good instance for each check of the doctor."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.doctor.spoiler import Event, Json, Reply


@dataclass(frozen=True)
class Fault:
    """What is spoiled; `also` are checks that fail with it because they look at the same thing.
    `told` stands in what the doctor says of it."""

    spoil: Callable[[Reply], object] = lambda reply: None
    told: str = ""
    also: frozenset[str] = frozenset()


def fault(spoil: Callable[[Reply], object], told: str, *also: str) -> Fault:
    return Fault(spoil, told, frozenset(also))


def streams(change: Callable[[Event], list[Event] | None]) -> Callable[[Reply], None]:
    """Spoils the events of all streams."""
    return lambda reply: reply.change_events(change) if reply.streamed else None


def fulls(change: Callable[[Json], object]) -> Callable[[Reply], None]:
    """Spoils all whole answers of models."""
    return lambda reply: reply.change_json(change) if reply.full else None


def bodies(change: Callable[[bytes], bytes]) -> Callable[[Reply], None]:
    """Spoils the bytes of all streams."""

    def spoil(reply: Reply) -> None:
        if reply.streamed:
            reply.body = change(reply.body)

    return spoil


def both(*spoils: Callable[[Reply], object]) -> Callable[[Reply], None]:
    def spoil(reply: Reply) -> None:
        for one in spoils:
            one(reply)

    return spoil


def of_type(*kinds: str) -> Callable[[Callable[[Json], object]], Callable[[Reply], None]]:
    """Spoils the data of stream events of these types."""

    def wrap(change: Callable[[Json], object]) -> Callable[[Reply], None]:
        def changed(event: Event) -> None:
            if event.type in kinds:
                change(event.data)

        return streams(changed)

    return wrap


def without(*kinds: str) -> Callable[[Reply], None]:
    """Leaves stream events of these types out; those that are left are numbered anew."""

    def spoil(reply: Reply) -> None:
        if not reply.streamed:
            return
        reply.change_events(lambda event: [] if event.type in kinds else None)
        numbers = iter(range(1_000_000))
        reply.change_events(lambda event: _number(event, next(numbers)))

    return spoil


def _number(event: Event, number: int) -> None:
    if isinstance(event.data, dict) and "sequence_number" in event.data:
        event.data["sequence_number"] = number


def chunk(change: Callable[[Json], object]) -> Callable[[Reply], None]:
    """Spoils the choices of Chat streams."""

    def changed(event: Event) -> None:
        for choice in event.data.get("choices", ()) if isinstance(event.data, dict) else ():
            change(choice)

    return streams(changed)


# What is spoiled in the general part -----------------------------------------------------------


def _no_models(reply: Reply) -> None:
    if reply.path == "/v1/models" and "anthropic-version" not in reply.asked_headers:
        reply.answer(200, {"models": []})


def _no_has_more(reply: Reply) -> None:
    if reply.path == "/v1/models" and "anthropic-version" in reply.asked_headers:
        reply.change_json(lambda body: body.pop("has_more"))


def _shapeless(reply: Reply) -> None:
    if reply.status == 401:
        reply.answer(401, "no")


def _no_options(reply: Reply) -> None:
    if reply.method == "OPTIONS":
        reply.answer(405, {})


GENERAL = {
    "server.models": fault(_no_models, "lists none"),
    "server.models_anthropic": fault(_no_has_more, "has no has_more"),
    "server.auth_shape": fault(_shapeless, "no error.message"),
    "server.cors": fault(_no_options, "status 405"),
}


# In every protocol -----------------------------------------------------------------------------


def _plain(reply: Reply) -> None:
    reply.headers["content-type"] = "text/plain"


def _renamed(reply: Reply) -> None:
    if reply.place and reply.status == 200:
        name = b"modelVersion" if reply.place == "google" else b"model"
        reply.body = re.sub(b'"%b":"[^"]*' % name, b'"%b":"other' % name, reply.body)


def _shapeless_error(reply: Reply) -> None:
    if reply.status == 400:
        reply.answer(400, {"detail": "wrong"})


def _server_error(reply: Reply) -> None:
    if reply.streamed:
        reply.answer(500, {"error": {"message": "It broke."}})


def _paused(reply: Reply) -> None:
    if reply.streamed and "note" not in str(reply.asked.get("tools")):
        reply.pause = 0.6


def _no_header(reply: Reply) -> None:
    reply.headers.pop("x-accel-buffering", None)


def _zipped(reply: Reply) -> None:
    if reply.streamed:
        reply.body = gzip.compress(reply.body)
        reply.headers["content-encoding"] = "gzip"


def _run_together(body: bytes) -> bytes:
    return body.replace(b"\n\n", b"\n") + b"\n"


def _no_json(body: bytes) -> bytes:
    first, rest = body.split(b"\n\n", 1)
    return first + b"\n\ndata: {oops\n\n" + rest


def everywhere(place: str) -> dict[str, Fault]:
    """The faults of the checks that all protocols have."""
    named = ("messages", "responses", "interactions")
    names = frozenset({f"{place}.event_names"} if place in named else ())
    identity = "responseId" if place == "google" else "id"
    unknown = frozenset({"messages.unknown_events"} if place == "messages" else ())
    return {
        f"{place}.full": fault(lambda reply: _plain(reply) if reply.full else None, "text/plain"),
        f"{place}.full_shape": Fault(
            fulls(lambda body: body.pop(identity)),
            f"has no {identity}",
            frozenset({"responses.metadata"} if place == "responses" else ()),
        ),
        f"{place}.model": fault(_renamed, "'other'"),
        f"{place}.error": fault(_shapeless_error, "no error.message"),
        f"{place}.stream": fault(_server_error, "status 500: It broke."),
        f"{place}.content_type": fault(
            lambda reply: _plain(reply) if reply.streamed else None, "text/plain"
        ),
        f"{place}.buffering": fault(_no_header, "missing"),
        f"{place}.flush": fault(_paused, "events came at once"),
        f"{place}.compression": fault(_zipped, "gzip"),
        f"{place}.lines": fault(
            bodies(lambda body: body.replace(b"data: ", b"data:")), "not followed by one space"
        ),
        f"{place}.blank_lines": Fault(bodies(_run_together), "run together", names),
        f"{place}.json": Fault(bodies(_no_json), "is not JSON", unknown),
        f"{place}.separators": fault(
            bodies(lambda body: body.replace(b"{", '{"x":"\u2028",'.encode(), 1)), "U+2028"
        ),
    }


# Chat Completions ------------------------------------------------------------------------------


def _no_call_id(choice: Json) -> None:
    for call in choice["delta"].get("tool_calls", ()):
        call.pop("id", None)


def _all_roles(choice: Json) -> None:
    choice["delta"]["role"] = "assistant"


def _own_ids() -> Callable[[Event], None]:
    numbers = iter(range(1_000_000))

    def change(event: Event) -> None:
        if isinstance(event.data, dict):
            event.data["id"] = f"chatcmpl-{next(numbers)}"

    return change


CHAT = {
    **everywhere("chat"),
    "chat.usage": fault(fulls(lambda body: body.pop("usage")), "usage is not there"),
    "chat.stop": fault(
        fulls(lambda body: body["choices"][0].update(finish_reason="finished")), "'finished'"
    ),
    "chat.tools": fault(chunk(_no_call_id), "has no id"),
    "chat.done": fault(
        bodies(lambda body: body.replace(b"data: [DONE]\n\n", b"")), "it is missing"
    ),
    "chat.finish": fault(
        chunk(lambda choice: choice.update(finish_reason=None)), "no chunk has", "chat.tools"
    ),
    "chat.one_id": fault(streams(_own_ids()), "id changes"),
    "chat.role": fault(chunk(_all_roles), "not in the first delta alone"),
    "chat.usage_chunk": fault(
        streams(lambda event: [] if '"usage": {' in event.encoded.decode() else None),
        "no chunk has usage",
    ),
}


# Messages --------------------------------------------------------------------------------------

_start, _end = of_type("message_start"), of_type("message_delta")
_block, _delta = of_type("content_block_start"), of_type("content_block_delta")


def _no_counters(event: Json) -> None:
    event["message"]["usage"].pop("cache_read_input_tokens")


def _whole_input(reply: Reply) -> None:
    _block(lambda event: _fill(event["content_block"]))(reply)


def _fill(block: Json) -> None:
    if block["type"] == "tool_use":
        block["input"] = {"text": "hello"}


def _unsigned(event: Json) -> None:
    if event["delta"]["type"] == "signature_delta":
        event["delta"]["signature"] = ""


def _nameless(event: Json) -> None:
    event["content_block"].pop("name", None)


MESSAGES = {
    **everywhere("messages"),
    "messages.usage": fault(fulls(lambda body: body["usage"].pop("input_tokens")), "input_tokens"),
    "messages.stop": fault(
        _end(lambda event: event["delta"].update(stop_reason="done")), "'done'", "messages.tools"
    ),
    "messages.tools": fault(_block(_nameless), "has no name"),
    "messages.event_names": fault(
        streams(lambda event: [Event("", event.data)]), "have none or another"
    ),
    "messages.order": fault(without("message_stop"), "message_stop is not the last"),
    "messages.index": fault(
        _block(lambda event: event.update(index=event["index"] + 1)),
        "has the index",
        "messages.tools",
        "messages.tool_blocks",
        "messages.signature",
    ),
    "messages.start_usage": fault(
        _start(lambda event: event["message"].pop("usage")),
        "usage is not there",
        "messages.cache_counters",
    ),
    "messages.cache_counters": fault(_start(_no_counters), "cache_read_input_tokens"),
    "messages.ping": fault(without("ping"), "there is none"),
    "messages.signature": fault(_delta(_unsigned), "a signature is empty"),
    "messages.tool_blocks": fault(_whole_input, "content_block_start holds the input"),
    "messages.unknown_events": fault(
        streams(lambda event: [event, Event("bell", {"type": "bell"})] if event.type else None),
        "'bell'",
        "messages.order",
    ),
}


# Responses -------------------------------------------------------------------------------------

_completed = of_type("response.completed")


def _items(change: Callable[[Json], object]) -> Callable[[Reply], None]:
    """Spoils the output items of whole responses."""

    def each(response: Json) -> None:
        for item in response["output"]:
            change(item)

    return both(fulls(each), _completed(lambda event: each(event["response"])))


def _unnumbered(event: Event) -> None:
    event.data.pop("sequence_number")


def _no_annotations(item: Json) -> None:
    for part in item.get("content", ()):
        part.pop("annotations", None)


def _other_call(event: Json) -> None:
    if event["item"]["type"] == "function_call":
        event["item"]["call_id"] += "x"


def _no_name(event: Json) -> None:
    event["item"].pop("name", None)


RESPONSES = {
    **everywhere("responses"),
    "responses.usage": fault(fulls(lambda body: body.update(usage=None)), "usage is not there"),
    "responses.stop": fault(
        _completed(lambda event: event["response"].update(status="done")), "'done'"
    ),
    "responses.tools": fault(
        of_type("response.output_item.added", "response.output_item.done")(_no_name),
        "has no name",
    ),
    "responses.event_names": fault(
        streams(lambda event: [Event("", event.data)]), "have none or another"
    ),
    "responses.sequence_number": fault(streams(_unnumbered), "events have none"),
    "responses.item_id": fault(
        of_type("response.output_text.delta")(lambda event: event.pop("item_id")),
        "events about items have none",
    ),
    "responses.item_ids": fault(_items(lambda item: item.pop("id")), "an item has none"),
    "responses.indexes": fault(
        of_type("response.content_part.added")(lambda event: event.pop("content_index")),
        "has no content_index",
    ),
    "responses.in_progress": fault(without("response.in_progress"), "it begins with"),
    "responses.items": fault(
        without("response.output_item.done"), "are done", "responses.call_items"
    ),
    "responses.text_delta": fault(
        of_type("response.output_text.done")(lambda event: event.update(text="else")),
        "says something else",
    ),
    "responses.annotations": fault(_items(_no_annotations), "has no annotations"),
    "responses.completed": fault(
        _completed(lambda event: event["response"].update(output=[])), "it holds 0 of"
    ),
    "responses.metadata": fault(
        of_type("response.created")(lambda event: event["response"].pop("tools")), "has no tools"
    ),
    "responses.call_items": fault(
        of_type("response.output_item.done")(_other_call), "call_id of the added"
    ),
    "responses.no_done": fault(bodies(lambda body: body + b"data: [DONE]\n\n"), "there is one"),
}

# generateContent ------------------------------------------------------------------------------


def candidates(change: Callable[[Json], object]) -> Callable[[Reply], None]:
    """Spoils the candidates of Google's streams."""

    def changed(event: Event) -> None:
        for candidate in event.data["candidates"]:
            change(candidate)

    return streams(changed)


def _calling(change: Callable[[Json], object]) -> Callable[[Reply], None]:
    """Spoils the parts with a call in Google's streams."""

    def changed(candidate: Json) -> None:
        for part in candidate["content"]["parts"]:
            if "functionCall" in part:
                change(part)

    return candidates(changed)


def _at(end: str, value: object) -> Callable[[Reply], None]:
    """Replaces the answer to whatever is asked at a path with this end."""
    return lambda reply: reply.answer(200, value) if reply.path.endswith(end) else None


def _endless(reply: Reply) -> None:
    if reply.path == "/v1beta/models":
        reply.change_json(lambda body: body.update(nextPageToken=""))


def _no_key(place: str) -> Callable[[Reply], None]:
    def spoil(reply: Reply) -> None:
        if place in reply.asked_headers or f"?{place}=" in reply.path:
            reply.answer(401, {"error": {"message": "No key."}})

    return spoil


def _own_ids_of(name: str) -> Callable[[Event], None]:
    numbers = iter(range(1_000_000))
    return lambda event: event.data.update({name: str(next(numbers))})


GOOGLE = {
    **everywhere("google"),
    "google.usage": fault(
        fulls(lambda body: body.pop("usageMetadata")), "usage", "google.full_shape"
    ),
    "google.stop": fault(
        fulls(lambda body: body["candidates"][0].update(finishReason="DONE")), "'DONE'"
    ),
    "google.tools": fault(
        _calling(lambda part: part["functionCall"].update(args="{}")), "not a JSON object"
    ),
    "google.key": fault(_no_key("x-goog-api-key"), "No key.", "google.models"),
    "google.query_key": fault(_no_key("key"), "No key."),
    "google.models": fault(_endless, "nextPageToken is empty"),
    "google.count": fault(_at(":countTokens", {"tokens": 7}), "has no totalTokens"),
    "google.frames": fault(bodies(lambda body: b": wait\n\n" + body), "': wait'"),
    "google.turn": fault(candidates(lambda one: one["content"].pop("role")), "role is 'None'"),
    "google.finish": fault(candidates(lambda one: one.pop("finishReason", None)), "no chunk has"),
    "google.one_id": fault(streams(_own_ids_of("responseId")), "responseId changes"),
    "google.signature": fault(
        _calling(lambda part: part.update(thoughtSignature="-_")), "no base64"
    ),
    "google.array": fault(_at(":streamGenerateContent", {}), "no array of chunks"),
}


def _of_event(kind: str, change: Callable[[Json], object]) -> Callable[[Reply], None]:
    """Spoils the events of one type in streams of interactions."""

    def changed(event: Event) -> None:
        if isinstance(event.data, dict) and event.data.get("event_type") == kind:
            change(event.data)

    return streams(changed)


def _without_event(kind: str) -> Callable[[Reply], None]:
    def changed(event: Event) -> list[Event] | None:
        is_it = isinstance(event.data, dict) and event.data.get("event_type") == kind
        return [] if is_it else None

    return streams(changed)


def _empty_signature(event: Json) -> None:
    if event["delta"]["type"] == "thought_signature":
        event["delta"]["signature"] = ""


def _uncalled(event: Json) -> None:
    if event["step"]["type"] == "function_call":
        event["step"]["arguments"] = "{}"


INTERACTIONS = {
    **everywhere("interactions"),
    "interactions.usage": fault(
        fulls(lambda body: body.pop("usage")), "usage", "interactions.full_shape"
    ),
    "interactions.stop": fault(
        _of_event(
            "interaction.completed", lambda event: event["interaction"].update(status="queued")
        ),
        "'queued'",
    ),
    "interactions.tools": fault(_of_event("step.start", _uncalled), "are no object"),
    "interactions.key": fault(_no_key("x-goog-api-key"), "No key."),
    "interactions.event_names": fault(
        bodies(lambda body: body.replace(b"event: step.start", b"event: message")), "'message'"
    ),
    "interactions.created": fault(
        _without_event("interaction.created"), "the first event is interaction.status_update"
    ),
    "interactions.steps": fault(
        _of_event("step.stop", lambda event: event.update(index=7)), "is 7, not"
    ),
    "interactions.completed": fault(_without_event("interaction.completed"), "0 events are"),
    "interactions.done": fault(
        bodies(lambda body: re.sub(rb"(event: done\n)?data: \[DONE\]\n\n", b"", body)),
        "does not end in [DONE]",
    ),
    "interactions.signature": fault(_of_event("step.delta", _empty_signature), "one is empty"),
}

FAULTS: dict[str, tuple[str, Fault]] = {
    **{check: ("openai_chat", spoiled) for check, spoiled in GENERAL.items()},
    **{check: ("openai_chat", spoiled) for check, spoiled in CHAT.items()},
    **{check: ("anthropic_messages", spoiled) for check, spoiled in MESSAGES.items()},
    **{check: ("openai_responses", spoiled) for check, spoiled in RESPONSES.items()},
    **{check: ("google_generate_content", spoiled) for check, spoiled in GOOGLE.items()},
    **{check: ("google_interactions", spoiled) for check, spoiled in INTERACTIONS.items()},
}
"""Every check with the protocol to look at and what is spoiled."""
