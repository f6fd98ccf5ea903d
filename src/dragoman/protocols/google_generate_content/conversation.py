"""The placement of a request's turns as the service requires it.

Sources: guides "Function calling" and "Thought signatures". The user speaks first and last; a call
is answered in the next content, each one in one content with all others of its turn; from the third
generation on, the first call of each of the model's turns has a signature.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.losses import LossKind
from dragoman.canonical.options import Capabilities
from dragoman.canonical.pairing import pair_tools, report_silence
from dragoman.canonical.requests import Request
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_generate_content import wire
from dragoman.protocols.google_generate_content.capabilities import GoogleCapabilities
from dragoman.protocols.google_generate_content.content_writer import SIGNATURE, PartWriter
from dragoman.protocols.request_settings import GO_ON, GOES_ON
from dragoman.protocols.system_text import SYSTEM_ROLES, lose_name, place_system_text

UNSIGNED: Final = "a call that another model made has a placeholder for its signature"

_OPENING: Final = " "
"""The user's words before a conversation that the model begins: no text may be empty."""


class Conversation(Struct):
    """`systemInstruction`, as its parts, and `contents` of a request."""

    system: list[JsonObject]
    contents: list[JsonObject]


def write_conversation(request: Request, outbound: Outbound) -> Conversation:
    """Place all instructions and turns."""
    request = place_system_text(request, _taking_no_late_system(outbound))
    writer = PartWriter(outbound)
    ledger = outbound.ledger
    system = writer.texts(request.instructions)
    contents: list[JsonObject] = []
    paths: list[str] = []
    for turn in pair_tools(request.turns, outbound.options, ledger):
        lose_name(turn, outbound)
        if turn.role in SYSTEM_ROLES:
            system += writer.texts(turn.blocks)
            continue
        is_model = turn.role == "assistant"
        role = "model" if is_model else "user"
        parts = writer.model(turn.blocks) if is_model else writer.user(turn.blocks)
        if not parts:
            continue
        if contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        else:
            contents.append({"role": role, "parts": parts})
            paths.append(turn.path)
    if not contents and system:
        detail = "system text alone became user text"
        ledger.add(request.path_of("instructions"), LossKind.CONVERTED, detail)
        contents.append({"role": "user", "parts": [system.pop()]})
        return Conversation(system, contents)
    if not contents:
        report_silence(request.turns, ledger)
        return Conversation(system, contents)
    _sign(contents, paths, outbound)
    if contents[0]["role"] == "model":
        ledger.add(paths[0], LossKind.REPAIRED, "a user message was put before the first turn")
        contents.insert(0, {"role": "user", "parts": [{"text": _OPENING}]})
    if contents[-1]["role"] == "model" and not ends_with_model(outbound.capabilities):
        ledger.add(paths[-1], LossKind.REPAIRED, GOES_ON)
        contents.append({"role": "user", "parts": [{"text": GO_ON}]})
    return Conversation(system, contents)


def ends_with_model(capabilities: Capabilities) -> bool:
    """Whether the upstream takes a conversation that ends with the model's words: some models
    refuse it, so only where that is set."""
    return capabilities.final_assistant and "final_assistant" in capabilities.given


def _taking_no_late_system(outbound: Outbound) -> Outbound:
    """The context with a place for later system text: the protocol has none of its own."""
    capabilities = outbound.capabilities
    if capabilities.late_system != "message":
        return outbound
    return replace(outbound, capabilities=replace(capabilities, late_system="user"))


def _sign(contents: list[JsonObject], paths: list[str], outbound: Outbound) -> None:
    """Give the first call of each of the model's turns the placeholder, if it has no signature."""
    own = outbound.capabilities.of(GoogleCapabilities)
    if not own.is_signed:
        return
    first = ""
    for content, path in zip(contents, paths, strict=True):
        part = unsigned_call(content["parts"]) if content["role"] == "model" else None
        if part is not None:
            first = first or path
            if own.google_placeholder_signatures:
                part[SIGNATURE] = wire.DUMMY
    if first:
        is_lost = not own.google_placeholder_signatures
        kind = LossKind.CONTENT if is_lost else LossKind.REPAIRED
        detail = "a call has no signature of the model" if is_lost else UNSIGNED
        outbound.ledger.add(first, kind, detail)


def unsigned_call(parts: list[JsonObject]) -> JsonObject | None:
    """The first call among the parts of a turn, if it has no signature."""
    call = next((part for part in parts if "functionCall" in part), None)
    return call if call is not None and SIGNATURE not in call else None
