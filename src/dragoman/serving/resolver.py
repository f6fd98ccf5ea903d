"""What a request asks for, before any upstream is asked: it is read, and its plan is found."""

from __future__ import annotations

from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.protocols.refits import wants_responses
from dragoman.serving.large import LargeBodies, is_large
from dragoman.serving.learnt import Learnt
from dragoman.serving.plan import Plan, Plans
from dragoman.serving.routing import model_not_found, takes_detour
from dragoman.translation import ClientRequest

MOST_VALUES = 1_000_000
"""Values that a body may hold, counted by its commas and the beginnings of its objects and lists.
Each takes some 300 bytes of memory while the body is translated."""

TOOLS = "tools_without_reasoning"
"""The capability of targets whose requests with tools do not all take the detour."""

LONGEST_MODEL = 1024
"""Characters of a model's name. Names are remembered in several places, so they are kept small."""


class RequestResolver:
    """Reads requests, of bodies of at most `most_bytes`, and finds which of `plans` they follow.
    `learnt` is what upstreams take."""

    __slots__ = ("_large", "_most_bytes", "_plans", "learnt")

    def __init__(self, plans: Plans, large: LargeBodies, most_bytes: int) -> None:
        self._plans = plans
        self._large = large
        self._most_bytes = most_bytes
        self.learnt = Learnt()

    async def read(self, incoming: IncomingRequest, body: bytes | None = None) -> ClientRequest:
        """The client's request; `body` is given where it was taken before.

        Raises:
            DragomanError: it is too large, or not a request.
            ClientGone: the client left.
        """
        incoming.codec.endpoint.check_client(incoming.headers)
        if body is None:
            body = await incoming.body(self._most_bytes)
        protocol, operation = incoming.codec.name, incoming.operation
        if is_large(body):
            return await self._large.read(protocol, body, operation, most_values=MOST_VALUES)
        return ClientRequest(protocol, body, operation=operation)

    def resolve(
        self, incoming: IncomingRequest, request: ClientRequest, caller: Caller, record: Record
    ) -> Plan:
        """The plan of the request. From here on, errors have the form that its route gives them.

        Raises:
            DragomanError: MODEL_NOT_FOUND: its model has none, the caller may not use it or one
                that the request names besides, or the name is too long.
            InvalidRequest: the request is malformed, where it had to be read.
        """
        model = request.model
        # Whoever counts by it holds it.
        record.model, record.stream = model[:LONGEST_MODEL], request.stream
        if len(model) > LONGEST_MODEL:
            raise model_not_found(model)
        read_purpose = incoming.codec.endpoint.purpose
        if read_purpose is not None:
            record.purpose = read_purpose(incoming.headers)
        plan = self._plans.of(caller, model, record.purpose)
        if caller.names_models:
            for other in request.named_models():
                if not caller.allows(other):
                    raise model_not_found(other)
        if plan.detour is not None:
            tools_alone = not self.learnt.of(caller.name, plan.target).get(TOOLS, True)
            if takes_detour(plan.target, request, tools_alone=tools_alone):
                plan = self._plans.detoured(caller, model, plan)
        target = plan.target
        record.upstream, record.upstream_model = target.upstream.name, target.model
        incoming.options = plan.settings.options
        return plan

    def around(
        self, caller: Caller, request: ClientRequest, plan: Plan, refusal: str
    ) -> Plan | None:
        """The plan of the detour of a request that was refused with these words, if they say that
        its tools are to be sent by another protocol. None if they do not, or there is no detour.

        Raises:
            DragomanError: MODEL_NOT_FOUND: the caller may not use it.
        """
        if plan.detour is None or not wants_responses(refusal):
            return None
        return self._plans.detoured(caller, request.model, plan)
