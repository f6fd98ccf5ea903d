"""The members of a client's request that an upstream of the same protocol does not take as they
are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from msgspec import Meta, Raw, Struct, field

from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.options import Capabilities
from dragoman.protocols.base import to_json
from dragoman.protocols.google_capabilities import GoogleCapabilities
from dragoman.protocols.google_conversation import UNSIGNED, ends_with_model
from dragoman.protocols.google_generate_content.endpoint import limited, limits
from dragoman.protocols.google_generate_content.history import with_placeholders
from dragoman.protocols.google_generate_content.spelling import inner, member, with_inner
from dragoman.protocols.google_generate_content.thinking import BUDGETS
from dragoman.protocols.raw import holds, split_list, split_object, text_of

_CONVERSATION = ("contents", "systemInstruction", "system_instruction")


class Checked(Struct):
    """The validated part of a body that is passed through: the types of well-known fields.

    Vocabularies that grow (parts, tools, models' limits) are the upstream's to judge.
    """

    contents: Annotated[list[dict[str, Any]], Meta(min_length=1)] | None = None
    system_instruction: dict[str, Any] | None = field(name="systemInstruction", default=None)
    tools: list[dict[str, Any]] | None = None
    tool_config: dict[str, Any] | None = field(name="toolConfig", default=None)
    generation_config: dict[str, Any] | None = field(name="generationConfig", default=None)


def unfit(
    members: Mapping[str, Raw], checked: Checked, capabilities: Capabilities
) -> Collection[str]:
    """The names of the members to be written anew for an upstream of these capabilities."""
    names: set[str] = set()
    contents = member(members, "contents")
    if not capabilities.images and (
        holds(contents, b'"inlineData"') or holds(contents, b'"inline_data"')
    ):
        names.update(_CONVERSATION)
    if not ends_with_model(capabilities) and _ends_with_model(contents):
        names.update(_CONVERSATION)
    own = capabilities.of(GoogleCapabilities)
    if not own.google_json_schema and (
        holds(member(members, "tools"), b'"parametersJsonSchema"')
        or holds(member(members, "tools"), b'"parameters_json_schema"')
    ):
        names.update({"tools", "toolConfig", "tool_config"})
    return names


def _ends_with_model(contents: Raw | None) -> bool:
    last = (split_list(contents) or [Raw()])[-1]
    return text_of((split_object(last) or {}).get("role")) == "model"


def fitted(
    members: Mapping[str, Raw],
    checked: Checked,
    capabilities: Capabilities,
    ledger: Ledger,
    is_lowered: bool,
) -> Mapping[str, Raw]:
    """The members with what the upstream accepts: an output limit within the model's, thinking in
    the form of its generation, and signatures where it wants some."""
    if capabilities.max_output_tokens is not None:
        members = _within_limit(members, capabilities.max_output_tokens, ledger)
    own = capabilities.of(GoogleCapabilities)
    members = _thinking(members, own, ledger)
    if own.is_signed and own.google_placeholder_signatures:
        members = with_placeholders(members, ledger, UNSIGNED)
    return members


def _within_limit(members: Mapping[str, Raw], most: int, ledger: Ledger) -> Mapping[str, Raw]:
    asked = limits(members)
    if asked is None or asked <= most:
        return members
    detail = f"fitted to the upstream's limit of {most} tokens"
    ledger.add("generationConfig.maxOutputTokens", LossKind.REPAIRED, detail)
    return limited(members, most)


def _thinking(
    members: Mapping[str, Raw], own: GoogleCapabilities, ledger: Ledger
) -> Mapping[str, Raw]:
    """Models before the third generation refuse a level, and those before 2.5 refuse to be asked to
    think."""
    given = None if own.is_signed else inner(members, "generationConfig", "thinkingConfig")
    if given is None:
        return members
    config = split_object(given) or {}
    path = "generationConfig.thinkingConfig"
    if not own.thinks:
        ledger.add(path, LossKind.KNOB, "the model cannot be asked to think")
        return with_inner(members, "generationConfig", "thinkingConfig", Raw(b"null"))
    names = [name for name in ("thinkingLevel", "thinking_level") if name in config]
    if not names:
        return members
    level = text_of(config[names[0]]).lower()
    for name in names:
        del config[name]
    budget = BUDGETS.get(level)
    if budget is not None and not {"thinkingBudget", "thinking_budget"} & config.keys():
        config["thinkingBudget"] = Raw(to_json(budget))
    ledger.add(f"{path}.thinkingLevel", LossKind.CONVERTED, "a level became a token budget")
    return with_inner(members, "generationConfig", "thinkingConfig", Raw(to_json(config)))
