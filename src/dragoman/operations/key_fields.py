"""The rules of keys and teams as operations change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import fields, replace

from dragoman.audit import Change, changed
from dragoman.config import AccessRules, Config, KeyRules, access_faults
from dragoman.config.access_rules import Name
from dragoman.config.convert import dotted, suggestion
from dragoman.operations.inputs import FieldError, InvalidInput, changes_of, shortened

R = TypeVar("R", bound=AccessRules)

State = Literal["active", "disabled", "early", "expired"]
Origin = Literal["configuration", "store"]

_RULES_HELP = {
    "note": "What it is for.",
    "not_before": "Refused until then.",
    "expires": "Refused from then on: 30d, 2027-01-31.",
    "addresses": "Network it may call from: 10.0.0.0/8; repeatable.",
    "addresses_denied": "Network it may not call from; repeatable.",
    "models": "Model it may ask for, such as gpt-*; repeatable.",
    "models_denied": "Model it may not ask for; repeatable.",
    "paths": "Path it may call, such as /v1/chat/*; repeatable.",
    "upstreams": "Upstream that may be used; repeatable.",
    "max_output_tokens": "Longest answers; none for any.",
    "share": "Who else may use the files and batches of a key.",
}
_KEY_HELP = _RULES_HELP | {
    "team": "Team whose rules apply, too.",
    "policy": "Which losses refuse its requests.",
    "dialect": "Contract it was written against.",
}

KeyChanges: Any = changes_of(KeyRules, "KeyChanges", _KEY_HELP)
"""The input of operations that add or change a key."""

TeamChanges: Any = changes_of(AccessRules, "TeamChanges", _RULES_HELP)
"""The input of operations that add or change a team."""


def with_fields(rules: R, values: Mapping[str, Any], config: Config) -> R:
    """`rules` with other values of fields; None stands for the default.

    Raises:
        InvalidInput: the rules contradict themselves or the configuration.
    """
    defaults = {info.name: info.default for info in fields(type(rules))}
    made = replace(
        rules,
        **{name: defaults[name] if value is None else value for name, value in values.items()},
    )
    return checked(made, config)


def checked(rules: R, config: Config) -> R:
    """
    Raises:
        InvalidInput: the rules contradict themselves or the configuration.
    """
    upstreams = [upstream.name for upstream in config.upstreams]
    faults = [FieldError(dotted(path), text) for path, text in access_faults(rules, upstreams)]
    if faults:
        raise InvalidInput(tuple(faults))
    return rules


def check_name(name: str) -> None:
    """
    Raises:
        InvalidInput: it is no name for a key or a team.
    """
    try:
        msgspec.convert(name, Name)
    except msgspec.ValidationError:
        message = "expected at most 64 letters, digits, _ . and -"
        raise InvalidInput.of("name", message) from None


def set_rules(rules: AccessRules) -> dict[str, Any]:
    """The rules that are set, as JSON has them."""
    values: dict[str, Any] = msgspec.to_builtins(rules)
    defaults: dict[str, Any] = msgspec.to_builtins(type(rules)())
    return {name: value for name, value in values.items() if value != defaults.get(name)}


def rules_changed(
    kind: Literal["key", "team"], name: str, before: AccessRules, after: AccessRules
) -> Change:
    """The line of a change of rules in the log of changes."""
    return changed("change", kind, name, set_rules(before), set_rules(after))


def state_of(rules: AccessRules, now: float) -> State:
    """The state of a key or a team with these rules."""
    if not rules.enabled:
        return "disabled"
    if rules.not_before is not None and now < rules.not_before.timestamp():
        return "early"
    if rules.expires is not None and now >= rules.expires.timestamp():
        return "expired"
    return "active"


def found_in(text: str, *names: str | None) -> bool:
    """Whether a text is in one of these names, in small letters or large."""
    return any(text.casefold() in (name or "").casefold() for name in names)


def unknown_team(name: str, teams: Sequence[str]) -> InvalidInput:
    """The error of rules that name a team that does not exist."""
    near = suggestion(name[:64], teams)
    return InvalidInput.of("team", f"no team named {shortened(name)}{near}")


def moment(seconds: float) -> datetime:
    """A point in time, in whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC)


def moment_if(seconds: float | None) -> datetime | None:
    """The same; None if there is none."""
    return None if seconds is None else moment(seconds)
