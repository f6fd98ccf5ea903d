"""Operations on the people who sign in."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from dragoman.operations.context import StoreContext
from dragoman.operations.operation import (
    Command,
    Http,
    Named,
    Nothing,
    Removed,
    operation,
    operations_in,
)
from dragoman.operations.people_service import PersonView, SessionView
from dragoman.operations.rights import AskRights, Rights, rights


class PeopleList(Struct, frozen=True):
    """The people, by name."""

    people: tuple[PersonView, ...]


class SessionList(Struct, frozen=True):
    """Sessions, the oldest first."""

    sessions: tuple[SessionView, ...]


class AskSessions(Struct, frozen=True, kw_only=True):
    """Whose sessions to list."""

    person: Annotated[str | UnsetType, Meta(description="Only those of this person.")] = UNSET


class Revoke(Named, frozen=True, kw_only=True):
    """Whose sessions to end."""

    session: Annotated[str | UnsetType, Meta(description="Only the session of this id.")] = UNSET


class Ended(Struct, frozen=True):
    """How many sessions were ended."""

    ended: int


@operation("people.list", "viewer", Http("GET", "people"), command=Command("people list"))
def _list(context: StoreContext, _: Nothing) -> PeopleList:
    """List who has signed in, and what the rules let them do."""
    return PeopleList(context.people.people())


@operation(
    "people.sessions",
    "viewer",
    Http("GET", "sessions"),
    command=Command("people sessions", options={"person": "--person"}),
)
def _sessions(context: StoreContext, asked: AskSessions) -> SessionList:
    """List the sessions of people."""
    return SessionList(context.people.sessions(asked.person or None))


@operation(
    "people.revoke",
    "admin",
    Http("POST", "people/{name}/revoke"),
    audit=("revoke person",),
    command=Command("people revoke", ("name",), {"session": "--session"}),
)
def _revoke(context: StoreContext, asked: Revoke) -> Ended:
    """End the sessions of a person. Every instance refuses them within seconds; the person may sign
    in again."""
    return Ended(context.people.revoke(asked.name, asked.session or None))


@operation(
    "people.disable",
    "admin",
    Http("POST", "people/{name}/disable"),
    audit=("change person",),
    command=Command("people disable", ("name",)),
)
def _disable(context: StoreContext, asked: Named) -> PersonView:
    """Refuse a person until it is enabled. All sessions end."""
    return context.people.enable(asked.name, enabled=False)


@operation(
    "people.enable",
    "admin",
    Http("POST", "people/{name}/enable"),
    audit=("change person",),
    command=Command("people enable", ("name",)),
)
def _enable(context: StoreContext, asked: Named) -> PersonView:
    """Let a person sign in again."""
    return context.people.enable(asked.name, enabled=True)


@operation(
    "people.remove",
    "admin",
    Http("DELETE", "people/{name}"),
    audit=("remove person",),
    command=Command("people remove", ("name",)),
)
def _remove(context: StoreContext, asked: Named) -> Removed:
    """Take a person who has left from the list, and end all sessions. Usage stays, and nobody else
    is given the name. Who is not disabled, and whom a rule lets in, may sign in again."""
    context.people.remove(asked.name)
    return Removed(1)


@operation(
    "people.explain",
    "viewer",
    Http("GET", "people/explain"),
    command=Command("people explain", ("email",), {"groups": "--group"}),
)
def _explain(context: StoreContext, asked: AskRights) -> Rights:
    """Show what a person would get, and by which rule.

    Nobody signs in: the address and the groups are those that the provider would give.
    """
    return rights(context, asked)


OPERATIONS = operations_in(globals())
