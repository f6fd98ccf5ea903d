"""One request that asks for an answer: check it, read it, find its scenario, and deliver."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import cast
from urllib.parse import parse_qsl

import msgspec

from dragoman.lab.simulator.accounts import KeyBehaviour, subscription_headers
from dragoman.lab.simulator.authority import Authority
from dragoman.lab.simulator.clouds import CloudCall
from dragoman.lab.simulator.connection import Connection
from dragoman.lab.simulator.delivery import Headers, Reply, full_actions, stream_actions
from dragoman.lab.simulator.errors import ApiError, error_body, error_headers
from dragoman.lab.simulator.google_calls import GoogleCall, google_key
from dragoman.lab.simulator.limits import within_limits
from dragoman.lab.simulator.reading import READERS
from dragoman.lab.simulator.recording import RecordedRequest
from dragoman.lab.simulator.registry import find_scenario
from dragoman.lab.simulator.rendering import RENDERERS
from dragoman.lab.simulator.rendering import interactions as rendering
from dragoman.lab.simulator.rendering.answer import Answer
from dragoman.lab.simulator.rendering.responses_object import failed
from dragoman.lab.simulator.script import Failure, Fault, Protocol, Scenario
from dragoman.lab.simulator.state import State
from dragoman.lab.simulator.steering import apply_options, steer, steer_by_model
from dragoman.lab.simulator.store import StoredInteraction
from dragoman.lab.simulator.usage import counts
from dragoman.lab.simulator.validation import (
    SERVERS,
    check_chat,
    check_google,
    check_interactions,
    check_messages,
    check_responses,
    check_server,
)
from dragoman.lab.simulator.view import JsonObject, View

_JSON = "application/json"
_EVENT_STREAM = "text/event-stream; charset=utf-8"
_HTML = b"<html><head><title>%d</title></head><body><h1>%d</h1></body></html>"
_WRONG_PROTOCOL: dict[Protocol, Protocol] = {
    "chat": "messages",
    "messages": "responses",
    "responses": "chat",
    "google": "chat",
    "interactions": "chat",
}


@dataclass(slots=True)
class RequestContext:
    """A request being handled. ``headers`` have lower-case names; ``own_headers`` are added to the
    answer. ``call`` is what a Google client's path asks for, ``cloud`` what a cloud's does;
    ``authority`` checks tokens and signatures."""

    record: RecordedRequest
    headers: Mapping[str, str]
    reply: Reply
    connection: Connection
    protocol: Protocol
    own_headers: tuple[tuple[str, str], ...] = ()
    call: GoogleCall | None = None
    cloud: CloudCall | None = None
    authority: Authority = field(default_factory=Authority)

    def authenticate(self) -> str:
        """The key the request came with.

        Raises:
            ApiError: 401 without one.
        """
        scheme, _, key = self.headers.get("authorization", "").partition(" ")
        if scheme == "AWS4-HMAC-SHA256":
            wire_paths = () if self.cloud is None else self.cloud.wire_paths
            self.record.key = self.authority.check_signature(self.record, wire_paths)
            return self.record.key
        if scheme.lower() != "bearer":
            key = ""
        self.authority.check_token(key)
        if self.cloud is not None and not key:
            key = self.cloud.key(self.headers)
        if self.protocol == "messages":
            key = self.headers.get("x-api-key") or key
        if self.protocol == "google":
            key = google_key(self.headers, self.record.query) or key
            if not key:
                raise ApiError(403, "Method doesn't allow unregistered callers.")
        if self.protocol == "interactions":  # which refuses a key as Bearer
            key = google_key(self.headers, self.record.query)
        if not key:
            raise ApiError(401, "You didn't provide an API key.", code="invalid_api_key")
        self.record.key = key.strip()
        return self.record.key

    def request_id(self) -> str:
        return f"req_sim{self.record.number:010d}"

    def common_headers(self) -> Headers:
        """The vendor's headers of every answer."""
        if self.protocol == "messages":
            return [("request-id", self.request_id()), *self.own_headers]
        if self.protocol in ("google", "interactions"):
            return [("server-timing", "gfet4t7; dur=1"), *self.own_headers]
        return [
            ("x-request-id", self.request_id()),
            ("openai-version", "2020-10-01"),
            *self.own_headers,
        ]

    async def fail(self, failure: Failure, status: int | None = None) -> None:
        """Answer with an error in the protocol's own shape."""
        headers = [
            ("content-type", _JSON),
            *self.common_headers(),
            *error_headers(self.protocol, failure),
        ]
        body = error_body(self.protocol, failure, self.request_id())
        of_cloud = None if self.cloud is None else self.cloud.error(failure)
        if of_cloud is not None:
            headers += of_cloud[0]
            body = of_cloud[1]
        if self.call is not None and self.call.stream and self.call.array:
            body = b"[" + body + b"]"
        await self.reply.whole(failure.status if status is None else status, headers, body)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A checked request with the scenario that it asks for.

    ``resolved`` is the body with stored items in place of references to them.
    """

    body: JsonObject
    resolved: JsonObject
    view: View
    scenario: Scenario
    behaviour: KeyBehaviour
    seed: int | None


class Handlers:
    """The request handlers of one simulator."""

    def __init__(self, simulator: State) -> None:
        self._simulator = simulator

    async def generate(self, context: RequestContext) -> None:
        """Every path of the protocols that asks for an answer."""
        prepared = await self._prepare(context)
        if prepared is None:
            return
        self._simulator.holdings.check(context.record.key, context.record.body)
        answer = self._answer(prepared)
        if prepared.body.get("store") is not False:
            self._store_answer(prepared, answer)
        if prepared.body.get("background") and not answer.view.stream:
            await _reply(context, rendering.started(answer))
            return
        await _deliver(context, answer)

    async def interaction(self, context: RequestContext, path: str) -> None:
        """A stored interaction: it is shown, streamed again, cancelled or deleted."""
        context.authenticate()
        store = self._simulator.interactions
        interaction_id, _, verb = path.partition("/")
        stored = store.get(interaction_id)
        match context.record.method, verb:
            case "GET", "":
                await _show_interaction(context, stored)
            case "POST", "cancel":
                if not stored.running:
                    message = "Only an interaction that runs in the background can be cancelled."
                    raise ApiError(400, message, code="failed_precondition")
                stored.running = 0
                stored.interaction |= {"status": "cancelled", "steps": []}
                await _reply(context, stored.interaction)
            case "DELETE", "":
                store.delete(interaction_id)
                await _reply(context, {})
            case _:
                raise ApiError(405, f"Method {context.record.method} is not allowed.")

    async def prewarm(self, context: RequestContext) -> JsonObject:
        """The response to a ``response.create`` of a WebSocket that generates nothing."""
        prepared = await self._prepare(context, counting=True)
        assert prepared is not None, "a fault of the key was raised"
        answer = self._answer(replace(prepared, scenario=Scenario()))
        response = RENDERERS["responses"].full(answer)
        if prepared.body.get("store") is not False:
            self._simulator.store.put(prepared.resolved, response)
        return response

    async def count_tokens(self, context: RequestContext) -> None:
        """``messages/count_tokens``, ``responses/input_tokens`` and ``countTokens``."""
        prepared = await self._prepare(context, counting=True)
        if prepared is None:
            return
        body: JsonObject = {"input_tokens": prepared.view.prompt_tokens}
        if context.protocol == "responses":
            body = {"object": "response.input_tokens", **body}
        if context.protocol == "google":
            count = prepared.view.prompt_tokens
            details = [{"modality": "TEXT", "tokenCount": count}]
            body = {"totalTokens": count, "promptTokensDetails": details}
        if context.cloud is not None:
            body = context.cloud.counted(prepared.view.prompt_tokens)
        headers = [("content-type", _JSON), *context.common_headers()]
        await context.reply.whole(200, headers, msgspec.json.encode(body))

    async def _prepare(
        self, context: RequestContext, *, counting: bool = False
    ) -> _Prepared | None:
        """The request, checked and steered; None if it was answered by a fault."""
        keys = self._simulator.keys
        key = context.authenticate()
        behaviour = keys.behaviour(key)
        before = keys.count(key)
        context.own_headers = behaviour.headers
        if behaviour.subscription:
            windows = subscription_headers(context.protocol, key, before, time.time())
            context.own_headers = (*windows, *behaviour.headers)
        key_fault = behaviour.fault_of(before)
        if key_fault is not None and key_fault.kind == "error":
            await context.fail(key_fault.failure)
            return None
        body = _decode(context.record.body)
        if context.cloud is not None:
            body, context.headers = context.cloud.plain(body, context.headers)
        known = self._simulator.holdings.without_conversation(context.record.key, body)
        request = self._check(context, known, behaviour, counting)
        view = READERS[context.protocol](request, behaviour.organization)
        if request is not body:
            view = replace(view, request=body)
        context.record.model, context.record.stream = view.model, view.stream
        if behaviour.models is not None and view.model not in behaviour.models:
            raise ApiError(403, f"This key may not use the model '{view.model[:60]}'.")
        steering = steer(view.model, view.user_text)
        context.record.scenario = steering.scenario
        source = find_scenario(self._simulator.scenarios, steering.scenario)
        try:
            scenario = source(view, steering.options) if callable(source) else source
        except ApiError:
            if not counting:  # a count needs nothing that the answer would
                raise
            scenario = Scenario()
        scenario = apply_options(scenario, steering.options)
        if behaviour.server:
            quirks = SERVERS[behaviour.server].quirks
            scenario = replace(scenario, quirks=scenario.quirks | quirks)
        fault = key_fault or self._current_fault(scenario.fault, steering.key)
        if fault is not None and fault.kind == "error":
            await context.connection.pause(scenario.pace.head_ms / 1000)
            await context.fail(fault.failure)
            return None
        if counting and fault is not None and fault.kind == "error_200":
            await context.fail(fault.failure, status=200)
            return None
        scenario = within_limits(replace(scenario, fault=fault), view)
        seed = steering.options.integer("seed") if steering.options.text("seed") else None
        return _Prepared(body, request, view, scenario, behaviour, seed)

    def _check(
        self, context: RequestContext, body: JsonObject, behaviour: KeyBehaviour, counting: bool
    ) -> JsonObject:
        """Check the request; returns it with stored items in place of references to them."""
        if context.call is not None:
            call = context.call
            if call.in_cloud and counting:
                # Vertex AI has the members of a request to count at the top level.
                body = {"generateContentRequest": {"model": call.model, **body}}
            named = check_google(body, call.model, behaviour.organization, counting=counting)
            return {**named, "model": call.model, "stream": call.stream, "array": call.array}
        model = body.get("model")
        options = steer_by_model(model)[1] if isinstance(model, str) else {}
        compatible = options.get("compatible") == "1"
        organization = behaviour.organization
        if context.protocol == "chat":
            check_chat(body, compatible=compatible or bool(behaviour.server))
            if behaviour.server:
                check_server(body, SERVERS[behaviour.server])
        elif context.protocol == "messages":
            check_messages(body, context.headers, organization, counting=counting)
        elif context.protocol == "interactions":
            steps = self._simulator.interactions.conversation(body)
            check_interactions(body, steps, context.headers, organization)
            return {**body, "input": steps}
        else:
            request, stored = self._simulator.store.resolve(body)
            links = self._simulator.store.links()
            check_responses(request, organization, stored, links, compatible=compatible)
            return request
        return body

    def _current_fault(self, fault: Fault | None, key: str) -> Fault | None:
        """The fault, None once it has applied to enough requests with this steering."""
        if fault is None or not fault.times:
            return fault
        self._simulator.faults_met[key] += 1
        return fault if self._simulator.faults_met[key] <= fault.times else None

    def _answer(self, prepared: _Prepared) -> Answer:
        number = prepared.seed
        if number is None:
            self._simulator.answers += 1
            number = self._simulator.answers
        prompt_tokens = prepared.view.prompt_tokens
        totals = counts(prepared.scenario, prompt_tokens)
        organization = prepared.behaviour.organization
        return Answer(number, prepared.scenario, totals, prepared.view, prepared.body, organization)

    def _store_answer(self, prepared: _Prepared, answer: Answer) -> None:
        protocol, fault = answer.view.protocol, answer.scenario.fault
        if fault is not None or RENDERERS[protocol].cannot(answer.scenario) is not None:
            return
        if protocol == "responses":
            self._simulator.store.put(prepared.resolved, RENDERERS[protocol].full(answer))
        elif protocol == "interactions":
            with suppress(ApiError):  # a filter's: there is nothing to store
                self._simulator.interactions.put(
                    StoredInteraction(
                        RENDERERS[protocol].full(answer),
                        answer,
                        prepared.resolved["input"],
                        prepared.body.get("input"),
                        running=bool(prepared.body.get("background")),
                    )
                )


def _decode(body: bytes) -> JsonObject:
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, "We could not parse the JSON body of your request.") from error
    if not isinstance(decoded, dict):
        raise ApiError(400, "The request's body must be a JSON object.")
    return decoded


async def _reply(context: RequestContext, body: JsonObject) -> None:
    headers = [("content-type", _JSON), *context.common_headers()]
    await context.reply.whole(200, headers, msgspec.json.encode(body))


async def _show_interaction(context: RequestContext, stored: StoredInteraction) -> None:
    """The interaction with all of its steps, or its stream after an event."""
    query = dict(parse_qsl(context.record.query))
    last = query.get("last_event_id")
    if query.get("stream") != "true":
        if last is not None:
            raise ApiError(400, "last_event_id needs stream to be true.", param="last_event_id")
        if stored.running:
            stored.running -= 1
            await _reply(context, rendering.started(stored.answer))
            return
        shown = {**stored.interaction, "steps": [*stored.steps, *stored.interaction["steps"]]}
        if query.get("include_input") == "true":
            shown["input"] = stored.input
        await _reply(context, shown)
        return
    frames = list(RENDERERS["interactions"].stream(stored.answer))
    passed = 0
    if last is not None:
        number = last.removeprefix("e")
        if not number.isdecimal() or not 0 < int(number) < len(frames):
            raise ApiError(400, "last_event_id is of no event.", param="last_event_id")
        passed = int(number)
    headers = [("content-type", _EVENT_STREAM), *context.common_headers()]
    await context.reply.head(200, headers)
    await context.reply.body(frames[passed:])


async def _deliver(context: RequestContext, answer: Answer) -> None:
    """Send the answer with its pace and its fault."""
    pace, fault = answer.scenario.pace, answer.scenario.fault
    kind = None if fault is None else fault.kind
    protocol = _WRONG_PROTOCOL[context.protocol] if kind == "wrong_protocol" else context.protocol
    renderer = RENDERERS[protocol]
    if (reason := renderer.cannot(answer.scenario)) is not None:
        raise ApiError(400, f"The simulator cannot express this: {reason}.", code="simulator")
    if pace.head_ms and not await context.connection.pause(pace.head_ms / 1000):
        context.record.disconnected = True
        return
    if fault is not None and await _replace_answer(context, answer, fault):
        return
    if answer.view.stream and kind != "full_body":

        def error_frames(sent: int) -> tuple[bytes, ...]:
            failure = cast(Fault, fault).failure
            failed = None if cloud is None else cloud.error_in_stream(failure)
            return renderer.error_frames(answer, failure, sent) if failed is None else (failed,)

        cloud, media, frames = context.cloud, "", renderer.stream(answer)
        if cloud is not None:
            media, frames = cloud.stream_of(frames)
        actions = stream_actions(frames, pace, fault, answer.scenario.quirks, error_frames)
        content_type = media or (_JSON if answer.view.array else _EVENT_STREAM)
        headers = [("content-type", content_type), ("cache-control", "no-cache")]
    else:
        try:
            body = msgspec.json.encode(renderer.full(answer))
        except ValueError as error:
            message = f"Messages cannot express this without a stream: {error}."
            raise ApiError(400, message, code="simulator") from error
        actions = full_actions(body, pace, fault)
        headers = [("content-type", _JSON), ("content-length", str(len(body)))]
    if kind == "wrong_content_type":
        headers[0] = ("content-type", "text/plain; charset=utf-8")
    headers += context.common_headers()
    if pace.slow_head_ms:
        await context.reply.slow_head(200, headers, pace.slow_head_ms)
    else:
        await context.reply.head(200, headers)
    await context.reply.body(actions, eager=bool(pace.cut))


async def _replace_answer(context: RequestContext, answer: Answer, fault: Fault) -> bool:
    """Faults that take the whole answer's place; returns whether this was one."""
    stream = answer.view.stream
    content_type = ("content-type", _EVENT_STREAM if stream else _JSON)
    match fault.kind:
        case "error_200":
            await context.fail(fault.failure, status=200)
        case "error_in_stream" if not stream and context.protocol == "responses":
            body = msgspec.json.encode(failed(answer, fault.failure))
            await context.reply.whole(
                200, [("content-type", _JSON), *context.common_headers()], body
            )
        case "error_in_stream" if not stream:
            await context.fail(fault.failure)
        case "html":
            status = fault.failure.status
            headers = [("content-type", "text/html; charset=utf-8")]
            await context.reply.whole(status, headers, _HTML % (status, status))
        case "not_json":
            body = b"data: this is not JSON\n\n" if stream else b"this is not JSON"
            await context.reply.whole(200, [content_type], body)
        case "empty":
            await context.reply.whole(200, [content_type], b"")
        case _:
            return False
    return True
