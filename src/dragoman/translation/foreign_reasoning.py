"""Removal of reasoning that only the account which made it can use."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.canonical.blocks import Block, Reasoning
from dragoman.canonical.envelope import MARKER
from dragoman.canonical.requests import Request


def without_foreign_reasoning(
    request: Request, origin: str, account: str, *, unknown: bool, own: bool
) -> tuple[Request, int]:
    """The request without reasoning state made by another account, and the number of pieces
    removed.

    `origin` is the protocol of the upstream, `account` the tag of the account that the request is
    for. With `unknown`, state that does not name its account counts as foreign too, and with `own`
    all of it does. The reasoning itself stays, as another model's: a writer reports its losses.
    """

    def is_foreign(block: Block) -> bool:
        if not isinstance(block, Reasoning) or block.opaque is None:
            return False
        opaque = block.opaque
        if opaque.origin != origin:
            return False
        return own or (opaque.account != account if opaque.account else unknown)

    left_out = sum(is_foreign(block) for turn in request.turns for block in turn.blocks)
    if not left_out:
        return request, 0
    turns = []
    for turn in request.turns:
        blocks = tuple(_as_foreign(block) if is_foreign(block) else block for block in turn.blocks)
        turns.append(replace(turn, blocks=blocks))
    return replace(request, turns=tuple(turns)), left_out


def _as_foreign(block: Block) -> Block:
    assert isinstance(block, Reasoning)
    assert block.opaque is not None
    return replace(block, opaque=replace(block.opaque, origin=MARKER))
