"""Tool calls and their results, brought together the way every vendor demands.

Every call is answered directly after the turn that made it, in the order of the calls, before
anything else of the user. What clients' truncated histories lack is completed, and reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.blocks import Block, Text, ToolCall, ToolResult
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.options import Options
from dragoman.canonical.requests import Role, Turn

UNAVAILABLE = "[Tool result unavailable - conversation history was truncated]"
"""Text of a synthetic result (contract 000)."""


class _Slot(Struct, frozen=True):
    """Where the result of a call belongs: the results of its turn, and the call's id there."""

    results: dict[str, ToolResult]
    turn: int
    id: str


def coalesce(turns: Iterable[Turn], roles: frozenset[Role]) -> list[Turn]:
    """Merge neighbouring turns of the same role, for the given roles, keeping block order."""
    merged: list[Turn] = []
    for role, neighbours in groupby(turns, attrgetter("role")):
        same = list(neighbours)
        merged += [_joined(same)] if role in roles and len(same) > 1 else same
    return merged


def _joined(turns: list[Turn]) -> Turn:
    return replace(turns[0], blocks=tuple([block for turn in turns for block in turn.blocks]))


def pair_tools(turns: Sequence[Turn], options: Options, ledger: Ledger) -> list[Turn]:
    """Neighbouring assistant turns merged, every call answered at its place.

    A call whose id was used before gets another, and its result with it: some models count
    their calls anew in every turn, while services want ids that are unique.
    Calls without a result get a synthetic error result (REPAIRED), or are lost content when
    `options.orphan_calls` is "reject". Results without a call are lost content, dropped, or
    become user text, as `options.orphan_results` sets.
    """
    if _is_paired(turns):
        return list(turns)
    source = coalesce(turns, _ASSISTANT)
    open_calls: dict[str, list[_Slot]] = {}
    used: dict[str, int] = {}
    answers: dict[int, dict[str, ToolResult]] = {}
    remaining: list[Turn] = []
    last_assistant = -1
    for number, turn in enumerate(source):
        if turn.role == "assistant":
            last_assistant = number
            calls = [block for block in turn.blocks if type(block) is ToolCall]
            if calls:
                results = answers.setdefault(number, {})
                opened: dict[str, list[_Slot]] = {}
                renamed = False
                for call in calls:
                    call_id = _unused_id(call, used)
                    renamed = renamed or call_id != call.id
                    opened.setdefault(call.id, []).append(_Slot(results, number, call_id))
                if renamed:
                    turn = _with_ids(turn, opened)
                open_calls.update(opened)
            remaining.append(turn)
            continue
        blocks: list[Block] = []
        is_changed = False
        for block in turn.blocks:
            if type(block) is not ToolResult:
                blocks.append(block)
                continue
            is_changed = True
            slots = open_calls.get(block.call_id)
            if not slots:
                blocks += _orphan_result(block, options, ledger)
                continue
            slot = slots.pop(0)
            if last_assistant > slot.turn:
                ledger.add(block.path, LossKind.REPAIRED, "result moved to its call")
            slot.results[slot.id] = _with_call_id(block, slot.id)
        remaining.append(replace(turn, blocks=tuple(blocks)) if is_changed else turn)
    return _assemble(source, remaining, answers, options, ledger)


_ASSISTANT: frozenset[Role] = frozenset({"assistant"})


def _is_paired(turns: Iterable[Turn]) -> bool:
    """Whether nothing has to be put right: no assistant turns are neighbours, every call has an id
    of its own, and the user's turn after it begins with the results, in order. Nearly every
    conversation is like that."""
    used: set[str] = set()
    asked: list[tuple[str, bool]] = []
    """The calls of the turn before that have no result yet."""
    previous = ""
    for turn in turns:
        role = turn.role
        if role == "assistant":
            if role == previous:
                return False
            for block in turn.blocks:
                if type(block) is ToolCall:
                    if block.id in used:
                        return False
                    used.add(block.id)
                    asked.append((block.id, block.custom))
        else:
            if asked and role != "user":
                return False
            for block in turn.blocks:
                if type(block) is ToolResult:
                    if not asked or asked.pop(0) != (block.call_id, block.custom):
                        return False
                elif asked:
                    return False
            if asked:
                return False
        previous = role
    return not asked


def _unused_id(call: ToolCall, used: dict[str, int]) -> str:
    """The call's id; another that follows from it if the conversation has it already.

    `used` counts, by id, the calls that wanted it.
    """
    count = used.get(call.id)
    if count is None:
        used[call.id] = 1
        return call.id
    call_id = call.id
    while call_id in used:
        count += 1
        call_id = f"{call.id}_{count}"
    used[call.id] = count
    used[call_id] = 1
    return call_id


def _with_ids(turn: Turn, opened: dict[str, list[_Slot]]) -> Turn:
    """The turn with the ids its calls have been given."""
    given = {call_id: iter(slots) for call_id, slots in opened.items()}
    blocks = [
        replace(block, id=next(given[block.id]).id) if isinstance(block, ToolCall) else block
        for block in turn.blocks
    ]
    return replace(turn, blocks=tuple(blocks))


def _with_call_id(block: ToolResult, call_id: str) -> ToolResult:
    return block if block.call_id == call_id else replace(block, call_id=call_id)


def _assemble(
    source: list[Turn],
    remaining: list[Turn],
    answers: dict[int, dict[str, ToolResult]],
    options: Options,
    ledger: Ledger,
) -> list[Turn]:
    paired: list[Turn] = []
    pending: tuple[Block, ...] = ()
    for number, turn in enumerate(remaining):
        if pending and turn.role == "user":
            turn = replace(turn, blocks=pending + turn.blocks)
            pending = ()
        elif pending:
            paired.append(Turn(role="user", blocks=pending))
            pending = ()
        if turn.blocks or not source[number].blocks:
            paired.append(turn)
        if number in answers:
            pending = tuple(_answers(turn, answers[number], options, ledger))
    if pending:
        paired.append(Turn(role="user", blocks=pending))
    return paired


def _answers(
    turn: Turn, results: dict[str, ToolResult], options: Options, ledger: Ledger
) -> list[Block]:
    answers: list[Block] = []
    for call in turn.blocks:
        if type(call) is not ToolCall:
            continue
        result = results.get(call.id)
        if result is None:
            reject = options.orphan_calls == "reject"
            kind = LossKind.CONTENT if reject else LossKind.REPAIRED
            ledger.add(call.path, kind, "tool call has no result in the history")
            content = (Text(text=UNAVAILABLE),)
            result = ToolResult(call_id=call.id, content=content, is_error=True, custom=call.custom)
        if result.custom != call.custom:
            result = replace(result, custom=call.custom)
        answers.append(result)
    return answers


def _orphan_result(block: ToolResult, options: Options, ledger: Ledger) -> tuple[Block, ...]:
    reject = options.orphan_results == "reject"
    kind = LossKind.CONTENT if reject else LossKind.CONVERTED
    ledger.add(block.path, kind, "tool result has no call in the history")
    return block.content if options.orphan_results == "text" else ()


def report_silence(turns: Iterable[Turn], ledger: Ledger) -> None:
    """Record that no turn is left to be sent, which no service takes as a request, unless lost
    content is the reason and reported already."""
    if not any(loss.kind is LossKind.CONTENT for loss in ledger):
        path = next((turn.path for turn in turns if turn.path), "messages").partition("[")[0]
        ledger.add(path, LossKind.CONTENT, "nothing is left to be said upstream")
