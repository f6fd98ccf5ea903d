"""Operations that sign in and out."""

from __future__ import annotations

import platform
from datetime import datetime
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

import dragoman
from dragoman.admin.call import Call
from dragoman.admin.replies import Operator, Refusal
from dragoman.edge.auth import presented_key
from dragoman.keys.admins import Role
from dragoman.operations.operation import Http, Nothing, operation, operations_in


class SignIn(Struct, frozen=True):
    """The key to sign in with, or the code with which a person returns from the company's
    sign-in."""

    key: Annotated[str, Meta(max_length=1000)] = ""
    code: Annotated[str, Meta(max_length=200)] = ""


class SignedIn(Struct, frozen=True, kw_only=True):
    """Who is signed in; `name` is None if nobody is. `csrf` is the token that requests with the
    session's cookie need, which only the answer to the sign-in has; `zone` is the time zone of this
    machine. Where nobody is, `provider` says whether people sign in with the company's account."""

    name: str | None
    role: Role | UnsetType = UNSET
    csrf: str | UnsetType = UNSET
    expires_at: float | UnsetType | None = UNSET
    zone: str | UnsetType = UNSET
    version: str | UnsetType = UNSET
    instance: str | UnsetType = UNSET
    provider: bool | UnsetType = UNSET


class SignedOut(Struct, frozen=True):
    """Whether there was a session."""

    ended: bool


@operation("session.show", "anyone", Http("GET", "session"))
async def _show(call: Call, _: Nothing) -> SignedIn:
    """Show who is signed in."""
    try:
        operator = await call.gateway.operators.identify(call.incoming)
    except Refusal:
        # Keys that are guessed are counted by the status.
        if presented_key(call.incoming.headers) is not None:
            raise
        has_provider = call.gateway.config.sign_in is not None
        return SignedIn(name=None, provider=has_provider or UNSET)
    return _signed_in(operator)


@operation("session.begin", "anyone", Http("POST", "session"), audit=("sign_in admin",))
async def _sign_in(call: Call, asked: SignIn) -> SignedIn:
    """Sign in, with a cookie for a browser."""
    key = asked.key.strip().encode()
    operators, address = call.gateway.operators, call.actor.address
    if asked.code:
        operator, token = await operators.sign_in_person(call.incoming, asked.code)
    else:
        operator, token = await operators.sign_in(call.incoming, key, address)
    return _signed_in(operator, token.decode())


@operation("session.end", "viewer", Http("DELETE", "session"))
async def _sign_out(call: Call, _: Nothing) -> SignedOut:
    """Sign out."""
    return SignedOut(await call.gateway.operators.sign_out(call.incoming, call.operator))


def _signed_in(operator: Operator, token: str | UnsetType = UNSET) -> SignedIn:
    session = operator.session
    return SignedIn(
        name=operator.name,
        role=operator.role,
        csrf=token,
        expires_at=None if session is None else session.ends,
        zone=datetime.now().astimezone().tzname() or "UTC",
        version=dragoman.__version__,
        instance=platform.node(),
    )


OPERATIONS = operations_in(globals())
