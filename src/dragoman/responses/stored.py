"""What a client may do with a stored response: see it, follow it, list its input, drop it, stop it,
and answer its tool calls."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from typing import Any
from urllib.parse import parse_qs

import msgspec

from dragoman import jsontext
from dragoman.canonical.errors import DragomanError, Fault, FaultKind, InvalidRequest
from dragoman.canonical.usage import Usage
from dragoman.edge.auth import Caller
from dragoman.edge.continuation import Continuation
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses.compaction import compacted
from dragoman.protocols.openai_responses.conversations import (
    MOST_LISTED,
    named_item,
    page,
    waiting_calls,
)
from dragoman.protocols.openai_responses.frames import Frames
from dragoman.protocols.openai_responses.response_object import begun
from dragoman.protocols.openai_responses.stored import response_not_found
from dragoman.protocols.openai_responses.usage import write_usage
from dragoman.protocols.stored_answers import StoredAnswers
from dragoman.responses.background import Background
from dragoman.responses.conversations import (
    PendingResponse,
    ResponseRecorder,
    StoredConversations,
    stored_of,
)
from dragoman.responses.steerable import SteerableRecorder
from dragoman.responses.upstream_responses import UpstreamResponses, is_left_to
from dragoman.serving.bindings import LONGEST_ID
from dragoman.serving.exchange import Exchange
from dragoman.serving.recorder import AnswerRecorder
from dragoman.storage.responses import FINISHED, StoredResponse
from dragoman.translation import ClientRequest
from dragoman.translation.call import mint

_LISTED = 20
_CARRIED = (
    "model",
    "instructions",
    "max_output_tokens",
    "parallel_tool_calls",
    "reasoning",
    "temperature",
    "text",
    "tools",
    "top_p",
    "truncation",
    "metadata",
)
"""What the answer to tool outputs is made with as the response that called the tools was; its
`tool_choice` is not: a forced call was made."""


class StoredResponses:
    """Handlers of `/v1/responses` and of everything below `/v1/responses/{id}`; bodies may have
    `most_bytes`. `background` makes those that are made without their client."""

    def __init__(
        self,
        conversations: StoredConversations,
        upstream_responses: UpstreamResponses,
        background: Background,
        exchange: Exchange,
        most_bytes: int,
    ) -> None:
        self._conversations = conversations
        self._upstream_responses = upstream_responses
        self.background = background
        self._exchange = exchange
        self._resolver = exchange.resolver
        self._most_bytes = most_bytes

    async def create(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        """`POST /v1/responses`.

        Raises:
            DragomanError: as `Exchange.serve`, or what it goes on from is not there.
            ClientGone: the client left.
        """
        request = await self._resolver.read(incoming)
        answering = await self._answering(incoming, caller, record, request)
        # The exchange lets it go while a stream is given.
        del request
        await answering

    async def compact(self, incoming: IncomingRequest, caller: Caller, record: Record) -> None:
        """`POST /v1/responses/compact`: the conversation as its user's messages and one item.

        Raises:
            DragomanError: as `create`.
            ClientGone: the client left.
        """
        asked = await self._resolver.read(incoming)
        made = await self._conversations.compacting(asked)
        request = await self._resolver.read(incoming, made)
        request.mended = request.mended or asked.mended
        del asked, made
        plan = self._resolver.resolve(incoming, request, caller, record)
        target, options = plan.target, plan.settings_for(incoming).options
        if not is_left_to(target.upstream, options):
            request, _ = await self._conversations.with_history(
                request, caller, target, answered=False
            )
        recorder = _CompactionRecorder(await self._conversations.said(request))
        await self._exchange.serve(incoming, caller, record, request, recorder)

    async def _answering(
        self, incoming: IncomingRequest, caller: Caller, record: Record, asked: ClientRequest
    ) -> Coroutine[Any, Any, None]:
        """What answers a request, to be awaited."""
        request = asked
        plan = self._resolver.resolve(incoming, request, caller, record)
        target, settings = plan.target, plan.settings_for(incoming)
        continuation = incoming.continuation
        native = request.codec.endpoint.stores_responses
        if (
            native
            and is_left_to(target.upstream, settings.options)
            and (continuation is None or not _is_own(request, continuation))
        ):
            recorder: AnswerRecorder | None = await self._upstream_responses.retarget(
                request, caller, plan
            )
        else:
            request, pending = await self._conversations.with_history(
                request, caller, target, continuation=continuation
            )
            if continuation is not None and continuation.prepares:
                if pending is not None:
                    # It takes room in the store, as the response to any request does.
                    await self._exchange.admit(incoming, caller, record, request)
                    record.usage = Usage()
                return self._prepare(incoming, request, pending)
            if pending is not None and pending.background:
                return self.background.begin(incoming, caller, record, request, pending)
            if pending is None:
                recorder = None
            elif continuation is None:
                recorder = ResponseRecorder(self._conversations, pending)
            else:
                recorder = SteerableRecorder(self._conversations, pending)
        # With what it goes on from it may lead elsewhere than without.
        found = plan if request is asked else None
        return self._exchange.serve(incoming, caller, record, request, recorder, found)

    async def _prepare(
        self, incoming: IncomingRequest, request: ClientRequest, pending: PendingResponse | None
    ) -> None:
        """Answer a request that only prepares the next one: nothing is asked of an upstream, and
        nothing is charged (`generate: false`)."""
        name = pending.id if pending is not None else mint(request.codec.endpoint.id_prefix)
        source = {
            member: jsontext.decode(raw)
            for member, raw in request.members.items()
            if member != "input"
        }
        response = begun(
            name, int(time.time()), request.model, "in_progress", {**source, **request.shown}
        )
        frames = Frames()
        created = frames.event("created", {"response": response})
        response |= {
            "status": "completed",
            "completed_at": response["created_at"],
            "usage": write_usage(Usage()),
        }
        if pending is not None:
            await self._conversations.store(pending, to_json(response))
        incoming.start(200, [])
        incoming.end(created + frames.event("completed", {"response": response}))

    async def show(
        self, name: str, incoming: IncomingRequest, caller: Caller, record: Record
    ) -> None:
        """`GET`: the response, or its events with `stream=true`.

        Raises:
            DragomanError: it is not there.
        """
        query, form = Query(incoming.query), stored_of(incoming.codec.name)
        stream = query.flag("stream")
        after = form.read_after(query.values)
        if await self._is_native(name, "", incoming, caller, record):
            return
        stored = await self._found(name, incoming, caller)
        if stream:
            await self.background.follow(stored, incoming, after)
            return
        incoming.reply(200, _shown(stored, form, query))

    async def delete(
        self, name: str, incoming: IncomingRequest, caller: Caller, record: Record
    ) -> None:
        """`DELETE`.

        Raises:
            DragomanError: it is not there.
        """
        if await self._is_native(name, "", incoming, caller, record):
            return
        form = stored_of(incoming.codec.name)
        await self._found(name, incoming, caller)
        responses = self._conversations.responses
        assert responses is not None
        if not await responses.ask(lambda store: store.delete(name, caller.name)):
            raise form.not_found(name, "")
        incoming.reply(200, to_json(form.deleted(name)))

    async def items(
        self, name: str, incoming: IncomingRequest, caller: Caller, record: Record
    ) -> None:
        """`GET input_items`: all items that the model was given, page by page.

        Raises:
            DragomanError: the response is not there, or there is no such page.
        """
        query = Query(incoming.query)
        limit = query.number("limit", _LISTED, 1, MOST_LISTED)
        order = query.choice("order", "desc", ("asc", "desc"))
        after = query.text("after")
        if await self._upstream_responses.forward(name, "/input_items", incoming, caller, record):
            return
        await self._found(name, incoming, caller)
        responses = self._conversations.responses
        assert responses is not None
        turns = await responses.ask(lambda store: store.conversation(name, caller.name))
        if turns is None:
            raise response_not_found(name)
        items: list[bytes] = []
        for turn in turns:
            items += [named_item(item, turn.id, place) for place, item in enumerate(turn.input)]
            if turn is not turns[-1]:
                items += turn.output
        listed = page(items, limit=limit, after=after, order=order)
        incoming.reply(200, to_json(listed))

    async def cancel(
        self, name: str, incoming: IncomingRequest, caller: Caller, record: Record
    ) -> None:
        """`POST cancel`: stops a response that is made in the background. To cancel again what was
        cancelled does nothing.

        Raises:
            DragomanError: it is not there, is not made in the background, or is over.
        """
        if await self._is_native(name, "/cancel", incoming, caller, record):
            return
        stored = await self._found(name, incoming, caller)
        form = stored_of(incoming.codec.name)
        if not form.cancels_finished:
            if not stored.background:
                raise InvalidRequest.at("", "Cannot cancel a synchronous response.")
            if stored.status in FINISHED and stored.status != "cancelled":
                raise InvalidRequest.at("", f"Cannot cancel a {stored.status} response.")
        if stored.status not in FINISHED:
            stored = await self.background.cancel(stored)
        incoming.reply(200, stored.response)

    async def submit(
        self, name: str, incoming: IncomingRequest, caller: Caller, record: Record
    ) -> None:
        """`POST submit_tool_outputs`: goes on from a response with what its tools gave.

        Raises:
            DragomanError: it is not there, waits for nothing, or not for these outputs.
        """
        stored = await self._found(name, incoming, caller)
        response: JsonObject = msgspec.json.decode(stored.response)
        waiting = waiting_calls(response.get("output") or [])
        if not waiting or "required_action" not in response:
            raise InvalidRequest.at("", f"Response '{name}' does not wait for tool outputs.")
        body = await incoming.body(self._most_bytes)
        stream, items = await self._conversations.submitted(body, waiting)
        follow_up = {
            **{key: response[key] for key in _CARRIED if response.get(key) is not None},
            "input": msgspec.Raw(items),
            "previous_response_id": name,
            "stream": stream,
            "store": True,
        }
        request = await self._resolver.read(incoming, to_json(follow_up))
        responses = self._conversations.responses
        assert responses is not None
        if not await responses.ask(lambda store: store.claim(name, caller.name, True)):
            raise DragomanError(
                Fault(
                    FaultKind.CONFLICT,
                    f"The tool outputs of response '{name}' were submitted before.",
                    code="already_submitted",
                )
            )
        answered = False
        try:
            await (await self._answering(incoming, caller, record, request))
            answered = not record.error
        finally:
            if not answered:
                # What could not be answered may be submitted again.
                await responses.ask(lambda store: store.claim(name, caller.name, False))

    async def _is_native(
        self, name: str, below: str, incoming: IncomingRequest, caller: Caller, record: Record
    ) -> bool:
        """Whether a service has the response, and was asked."""
        return incoming.codec.endpoint.stores_responses and await self._upstream_responses.forward(
            name, below, incoming, caller, record
        )

    async def _found(self, name: str, incoming: IncomingRequest, caller: Caller) -> StoredResponse:
        responses, endpoint = self._conversations.responses, incoming.codec.endpoint
        not_found = stored_of(incoming.codec.name).not_found
        if responses is None:
            raise not_found(name, ": this gateway does not store responses")
        stored = None
        if len(name) <= LONGEST_ID and name.startswith(endpoint.id_prefix):
            stored = await responses.ask(lambda store: store.get(name, caller.name))
        if stored is None:
            raise not_found(name, "")
        return stored


def _shown(stored: StoredResponse, form: StoredAnswers, query: Query) -> bytes:
    """A stored answer as a client gets it."""
    if form.shown is None:
        return stored.response
    answer = msgspec.json.decode(stored.response)
    return to_json(form.shown(answer, stored.input.body, query.values))


class _CompactionRecorder(AnswerRecorder):
    """Makes the answer to a request that only compacts of a response; `said` are the messages of
    the user, as a JSON array."""

    __slots__ = ("_said",)

    def __init__(self, said: bytes) -> None:
        self._said = said

    async def begun(self, account: str, answer_id: str) -> None:
        """Nothing is recorded."""

    async def whole(self, body: bytes) -> bytes:
        """The answer to send.

        Raises:
            UpstreamError: there is no compaction in it.
        """
        return to_json(compacted(jsontext.decode(body), self._said))

    async def stream(self, data: bytes) -> bytes:
        """The events as they are: there is no stream of this answer."""
        return data


def _is_own(request: ClientRequest, continuation: Continuation) -> bool:
    """Whether a request of a connection is not for a service to store: it only prepares, is not to
    be stored, or continues what only the connection has."""
    previous = request.member("previous_response_id")
    remembered = continuation.find(previous) if isinstance(previous, str) else None
    return continuation.prepares or remembered is not None or request.member("store") is False


class Query:
    """The query of a request. Values that cannot be used are errors that name them."""

    def __init__(self, query: bytes) -> None:
        self._values = parse_qs(query.decode("latin-1"), keep_blank_values=True, max_num_fields=100)

    @property
    def values(self) -> dict[str, str]:
        """The last value of each name."""
        return {name: values[-1] for name, values in self._values.items()}

    def text(self, name: str) -> str | None:
        """The last value of that name; None if there is none, or an empty one."""
        values = self._values.get(name)
        return values[-1] or None if values else None

    def flag(self, name: str) -> bool:
        """Whether the value is `true`.

        Raises:
            InvalidRequest: it is neither that nor `false`.
        """
        return self.choice(name, "false", ("true", "false")) == "true"

    def number(self, name: str, usual: int, least: int, most: int) -> int:
        """The whole number of that name.

        Raises:
            InvalidRequest: it is none between `least` and `most`.
        """
        value = self.text(name)
        if value is None:
            return usual
        if not (value.isascii() and value.isdigit() and len(value) < 20):
            raise InvalidRequest.at(name, "must be a whole number")
        if not least <= int(value) <= most:
            raise InvalidRequest.at(name, f"must be between {least} and {most}")
        return int(value)

    def choice(self, name: str, usual: str, choices: tuple[str, ...]) -> str:
        """The word of that name.

        Raises:
            InvalidRequest: it is none of `choices`.
        """
        value = self.text(name) or usual
        if value not in choices:
            raise InvalidRequest.at(name, f"must be one of {', '.join(choices)}")
        return value
