"""What a request asks for, before any upstream is asked: it is read, and its target and the way to
translate it are found."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import Policy
from dragoman.edge.auth import Caller
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.protocols.dialects import DIALECTS
from dragoman.protocols.settings import with_settings
from dragoman.serving.large import LargeBodies
from dragoman.serving.routing import (
    Router,
    Target,
    check_allowed,
    detoured,
    model_not_found,
    within_reach,
)
from dragoman.translation import CallSettings, ClientRequest

POLICY = b"x-dragoman-policy"
"""Header that names the policy of a request."""

MOST_VALUES = 1_000_000
"""Values that a body may hold, counted by its commas and the beginnings of its objects and lists.
Each takes some 300 bytes of memory while the body is translated."""

_LONGEST_MODEL = 1024
"""Characters of a model's name. Names are remembered in several places, so they are kept small."""


class RequestResolver:
    """Reads requests, of bodies of at most `most_bytes`, and finds where `router` leads them."""

    __slots__ = ("_large", "_most_bytes", "_router")

    def __init__(self, router: Router, large: LargeBodies, most_bytes: int) -> None:
        self._router = router
        self._large = large
        self._most_bytes = most_bytes

    async def read(self, incoming: IncomingRequest, body: bytes | None = None) -> ClientRequest:
        """The client's request; `body` is given where it was taken before.

        Raises:
            DragomanError: it is too large, or not a request.
            ClientGone: the client left.
        """
        if body is None:
            body = await incoming.body(self._most_bytes)
        return await self._large.read(
            incoming.codec.name, body, incoming.operation, most_values=MOST_VALUES
        )

    def resolve(self, request: ClientRequest, caller: Caller, record: Record) -> Target:
        """The target of the request's model.

        Raises:
            DragomanError: MODEL_NOT_FOUND: it has none, the caller may not use it, or the name is
                too long.
        """
        model = record.model = request.model
        record.stream = request.stream
        if len(model) > _LONGEST_MODEL:
            raise model_not_found(model)
        if caller.restricted:
            check_allowed(caller, model, self._router, request)
        target = detoured(self._router.resolve(model), request)
        if caller.restricted:
            target = within_reach(caller, model, target)
        record.upstream, record.upstream_model = target.upstream.name, target.model
        return target

    def settings(self, incoming: IncomingRequest, caller: Caller, target: Target) -> CallSettings:
        """How to translate. The policy of the request overrides that of the client, which overrides
        that of the route.

        Raises:
            InvalidRequest: the request asks for a policy that does not exist.
        """
        settings = target.settings
        options = settings.options
        if caller.dialect is not None:
            options = with_settings(options, DIALECTS[caller.dialect])
        incoming.options = options
        wanted = incoming.headers.get(POLICY)
        policy = caller.policy if wanted is None else _policy(wanted)
        if policy is not None and policy is not options.policy:
            options = replace(options, policy=policy)
        return settings if options is settings.options else replace(settings, options=options)


def _policy(wanted: bytes) -> Policy:
    """The policy that a request asks for by `x-dragoman-policy`.

    Raises:
        InvalidRequest: there is no such policy.
    """
    try:
        return Policy(wanted.decode("latin-1").strip().lower())
    except ValueError:
        problem = f"must be one of {', '.join(Policy)}"
        raise InvalidRequest.at("x-dragoman-policy", problem) from None
