"""What a person would be given by the rules of sign-in, whether known or not."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from dragoman.config.access_rules import AccessRules
from dragoman.config.limits import Limit
from dragoman.keys.people import Identity, rule_for
from dragoman.keys.ring import Caller
from dragoman.operations.context import StoreContext
from dragoman.operations.errors import Unknown
from dragoman.operations.operation import Role
from dragoman.operations.people_service import State


class AskRights(Struct, frozen=True, kw_only=True):
    """Who would sign in."""

    email: Annotated[str, Meta(min_length=1, max_length=254, description="An e-mail address.")]
    groups: Annotated[
        tuple[str, ...], Meta(description="A group of the provider; several times for several.")
    ] = ()


class Rights(Struct, frozen=True, kw_only=True):
    """What a person would be given. `rule` is the number of the rule that decides, from 1, and
    `reason` says why nobody is let in. `models` are the names of those that are offered; routes
    with a pattern are not among them. `limits` are the person's own, `team_limits` those of all of
    the team together, `managed_settings` what Claude Code takes over."""

    email: str
    state: State
    reason: str = ""
    rule: int | None = None
    team: str | None = None
    role: Role | None = None
    models: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    team_limits: tuple[Limit, ...] = ()
    managed_settings: dict[str, Any] | None = None


def rights(context: StoreContext, asked: AskRights) -> Rights:
    """What a person would be given."""
    email = asked.email.lower()
    settings = context.config.sign_in
    rules = () if settings is None else settings.rules
    rule = rule_for(rules, Identity(issuer="", subject=email, email=email, groups=asked.groups))
    known = context.store.people.person_named(email)
    if rule is None:
        return Rights(email=email, state="refused", reason="No rule of [[sign_in.rules]] matches.")
    team: AccessRules | None = None
    reason = "" if rule.enabled else "The rule is not enabled."
    if rule.team is not None:
        try:
            team = context.keys.teams.team(rule.team).rules
        except Unknown as error:
            reason = str(error)
    caller = Caller(
        email, team=rule.team or "", rules=[rule.rules, *(() if team is None else (team,))]
    )
    models: tuple[str, ...] = ()
    managed = None
    if context.offered is not None:
        models, managed = context.offered(context.config, context.prices, caller, rule)
    is_disabled = known is not None and not known.enabled
    return Rights(
        email=email,
        state="disabled" if is_disabled else "refused" if reason else "active",
        reason=reason,
        rule=rules.index(rule) + 1,
        team=rule.team,
        role=rule.role,
        models=models,
        limits=rule.limits,
        team_limits=() if team is None else team.limits,
        managed_settings=managed,
    )
