"""The placement of system text for an upstream.

The chat templates of many models take one system message, at the very beginning: they refuse a
later one, or leave it out in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from dragoman.canonical.blocks import Block, Text
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Request, Turn
from dragoman.protocols.base import Outbound

SYSTEM_ROLES: Final = frozenset(("system", "developer"))
_role = attrgetter("role")

_OPENING, _CLOSING = "<system-reminder>\n", "\n</system-reminder>"
"""The lines around system text that a user's message carries, as agents write them themselves."""


def place_system_text(request: Request, outbound: Outbound, *, takes_late: bool = True) -> Request:
    """The request with its system text where the upstream takes it (`late_system`): all of it at
    the beginning in `instructions`, later text in user turns in its place, or moved to the
    beginning. A blank later text is left out. `takes_late`: the protocol has a place for it."""
    mode = outbound.capabilities.late_system
    if mode == "message" and not takes_late:
        mode = "user"
    if mode == "message" or SYSTEM_ROLES.isdisjoint(map(_role, request.turns)):
        return request
    leading = len([*takewhile(lambda turn: turn.role in SYSTEM_ROLES, request.turns)])
    instructions = list(request.instructions)
    turns: list[Turn] = []
    for turn in request.turns[:leading]:
        texts, rest = _texts(turn.blocks)
        instructions += texts
        turns += [replace(turn, blocks=rest)] if rest else ()
        lose_name(turn, outbound)
    later = request.turns[leading:]
    if SYSTEM_ROLES.isdisjoint(map(_role, later)):
        turns += later
        later = ()
    for turn in later:
        if turn.role not in SYSTEM_ROLES:
            turns.append(turn)
            continue
        texts, rest = _texts(turn.blocks)
        if mode == "hoist":
            instructions += texts
            turns += [replace(turn, role="user", blocks=rest)] if rest else ()
            _report(turn, outbound, "a late system message moved to the front")
            lose_name(turn, outbound)
        else:
            blocks = (*_fenced(texts), *rest)
            turns += [replace(turn, role="user", blocks=blocks)] if blocks else ()
            _report(turn, outbound, "a late system message became user text")
    return replace(request, instructions=tuple(instructions), turns=tuple(turns))


def _texts(blocks: Sequence[Block]) -> tuple[list[Text], tuple[Block, ...]]:
    """The texts among the blocks, and the other blocks."""
    texts = [block for block in blocks if type(block) is Text]
    return texts, tuple([block for block in blocks if type(block) is not Text])


def _fenced(texts: Sequence[Text]) -> tuple[Text, ...]:
    """The texts as one, between the lines that say that it is not the user's."""
    joined = "\n\n".join([text.text for text in texts if text.text])
    if not joined.strip():
        return ()
    fenced = f"{_OPENING}{joined}{_CLOSING}"
    return (replace(texts[-1], text=fenced, annotations=(), logprobs=None, phase=None),)


def _report(turn: Turn, outbound: Outbound, detail: str) -> None:
    outbound.ledger.add(turn.path, LossKind.CONVERTED, detail)


def lose_name(turn: Turn, outbound: Outbound) -> None:
    """Report the name of a turn's speaker, if it has one."""
    if turn.name is not None:
        detail = "names of speakers have no counterpart upstream"
        outbound.ledger.add(f"{turn.path}.name", LossKind.KNOB, detail)
