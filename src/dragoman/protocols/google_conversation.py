"""The placement of a request's turns as Google's services require it.

Sources: guides "Function calling" and "Thought signatures". The user speaks first and last; a call
is answered directly after the turn that made it, together with all others of that turn; from the
third generation on, the first call of each of the model's turns has a signature.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from msgspec import Struct

from dragoman.canonical.blocks import Block
from dragoman.canonical.losses import LossKind
from dragoman.canonical.options import Capabilities
from dragoman.canonical.pairing import pair_tools, report_silence
from dragoman.canonical.requests import Request
from dragoman.protocols import google_wire
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_capabilities import GoogleCapabilities
from dragoman.protocols.request_settings import GO_ON, GOES_ON
from dragoman.protocols.system_text import SYSTEM_ROLES, lose_name, place_system_text

UNSIGNED: Final = "a call that another model made has a placeholder for its signature"

_OPENING: Final = " "
"""The user's words before a conversation that the model begins: no text may be empty."""


class TurnWriter(Protocol):
    """What writes the blocks of turns as the objects of one protocol."""

    def text_part(self, text: str) -> JsonObject:
        """The object of a text."""
        ...

    def texts(self, blocks: Iterable[Block]) -> list[JsonObject]:
        """The texts of system instructions."""
        ...

    def user(self, blocks: Sequence[Block]) -> list[JsonObject]:
        """The objects of a user's turn."""
        ...

    def model(self, blocks: Sequence[Block]) -> list[JsonObject]:
        """The objects of a turn of the model's."""
        ...

    def unsigned(self, parts: list[JsonObject], placeholder: str) -> bool:
        """Whether the first call among the objects of a turn has no signature; it is given the
        placeholder, if that is not empty."""
        ...


class WrittenTurn(Struct):
    """One turn: whether it is the model's, its objects, and its path in the client's request."""

    is_model: bool
    parts: list[JsonObject]
    path: str = ""


class Conversation(Struct):
    """The texts of the system, and the turns, which alternate."""

    system: list[JsonObject]
    turns: list[WrittenTurn]


def write_conversation(request: Request, outbound: Outbound, writer: TurnWriter) -> Conversation:
    """Place all instructions and turns."""
    request = place_system_text(request, outbound, takes_late=False)
    ledger = outbound.ledger
    system = writer.texts(request.instructions)
    turns: list[WrittenTurn] = []
    for turn in pair_tools(request.turns, outbound.options, ledger):
        if turn.name is not None:
            lose_name(turn, outbound)
        if turn.role in SYSTEM_ROLES:
            system += writer.texts(turn.blocks)
            continue
        is_model = turn.role == "assistant"
        parts = writer.model(turn.blocks) if is_model else writer.user(turn.blocks)
        if not parts:
            continue
        if turns and turns[-1].is_model is is_model:
            turns[-1].parts += parts
        else:
            turns.append(WrittenTurn(is_model, parts, turn.path))
    if not turns and system:
        detail = "system text alone became user text"
        ledger.add(request.path_of("instructions"), LossKind.CONVERTED, detail)
        turns.append(WrittenTurn(False, [system.pop()]))
        return Conversation(system, turns)
    if not turns:
        report_silence(request.turns, ledger)
        return Conversation(system, turns)
    _sign(turns, outbound, writer)
    if turns[0].is_model:
        path = turns[0].path
        ledger.add(path, LossKind.REPAIRED, "a user message was put before the first turn")
        turns.insert(0, WrittenTurn(False, [writer.text_part(_OPENING)]))
    if turns[-1].is_model and not ends_with_model(outbound.capabilities):
        ledger.add(turns[-1].path, LossKind.REPAIRED, GOES_ON)
        turns.append(WrittenTurn(False, [writer.text_part(GO_ON)]))
    return Conversation(system, turns)


def ends_with_model(capabilities: Capabilities) -> bool:
    """Whether the upstream takes a conversation that ends with the model's words: some models
    refuse it, so only where that is set."""
    return capabilities.final_assistant and "final_assistant" in capabilities.given


def _sign(turns: list[WrittenTurn], outbound: Outbound, writer: TurnWriter) -> None:
    """Give the first call of each of the model's turns the placeholder, if it has no signature."""
    own = outbound.capabilities.of(GoogleCapabilities)
    if not own.is_signed:
        return
    placeholder = google_wire.DUMMY if own.google_placeholder_signatures else ""
    first = ""
    for turn in turns:
        if turn.is_model and writer.unsigned(turn.parts, placeholder):
            first = first or turn.path
    if first:
        kind = LossKind.REPAIRED if placeholder else LossKind.CONTENT
        detail = UNSIGNED if placeholder else "a call has no signature of the model"
        outbound.ledger.add(first, kind, detail)
