"""What the refusal of a request says that an upstream takes in its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from dragoman.canonical.options import Capabilities
from dragoman.protocols.efforts import EFFORTS
from dragoman.protocols.overflow import is_too_long, sizes_in

_OF_EFFORT = re.compile(r"reasoning[._ ]?effort|output_config\.effort|\bvalid levels\b", re.I)
_LIST = re.compile(
    r"(?:(?:supported|valid|allowed) (?:values|types|levels)|one of|should be|expected)"
    r"\W*(?:are|is)?\W*((?:(?:" + "|".join((*EFFORTS, "default", "or", "and")) + r")\b\W*)+)",
    re.IGNORECASE,
)
_NONE_AT_ALL = re.compile(r"(?:does not|doesn't|not) support(?:ed)?\b", re.IGNORECASE)
_ELSEWHERE = re.compile(r"\btools?\b.*/v1/responses|/v1/responses.*\btools?\b", re.I | re.DOTALL)

_OF_LIMIT = re.compile(
    r"(?:unsupported|unrecognized|unknown|unexpected|extra|not (?:supported|permitted|allowed))"
    r".{0,60}\b(max_completion_tokens|max_output_tokens|max_tokens)\b"
    r"|\b(max_completion_tokens|max_output_tokens|max_tokens)\b"
    r".{0,60}(?:unsupported|unrecognized|unknown|not (?:supported|permitted|allowed))",
    re.IGNORECASE | re.DOTALL,
)
_OF_VALUE = re.compile(r"\bvalues?\b|at most|maximum|exceed|too large", re.IGNORECASE)
_A_LIMIT = re.compile(r"\b(?:max_completion_tokens|max_output_tokens|max_tokens)\b", re.IGNORECASE)
_OTHER_LIMIT = re.compile(r"use\W+(max_completion_tokens|max_tokens)\b", re.IGNORECASE)
_OF_LAST_TURN = re.compile(
    r"does not support assistant message prefill|must end with a user message"
    r"|expected last role user|last message .{0,40}\bassistant\b",
    re.IGNORECASE,
)
_OF_FORCED_TOOL = re.compile(r"thinking may not be enabled when tool_choice forces", re.I)

_TRIGGER: Final = "compaction_trigger"
"""The type of an item that few services know besides OpenAI's."""

_MARGIN: Final = 256
"""Tokens by which an estimate of a prompt may be too low."""
_LEAST: Final = 1024
"""The lowest output limit, in tokens, that is worth another try."""


def efforts_in(message: str) -> tuple[str, ...] | None:
    """The effort words that an upstream takes, in its refusal of another; empty if it takes none.
    None if the message is about something else."""
    if _OF_EFFORT.search(message) is None:
        return None
    found = _LIST.search(message)
    if found is not None:
        named = found[1].lower()
        return tuple([word for word in EFFORTS if re.search(rf"\b{word}\b", named)])
    return () if _NONE_AT_ALL.search(message) else None


def wants_responses(message: str) -> bool:
    """Whether a refusal says that requests with tools are to be sent by the Responses protocol."""
    return _ELSEWHERE.search(message) is not None


def output_limit_in(message: str) -> int | None:
    """The highest output limit, in tokens, with which a conversation would have fitted, in the
    refusal of one that fits without. None if it does not fit, or its size is not known."""
    sizes = sizes_in(message) if is_too_long(message) else None
    if sizes is None:
        return None
    left = sizes.window - sizes.input - _MARGIN
    return left if left >= _LEAST else None


def refitted(message: str, capabilities: Capabilities) -> Mapping[str, Any]:
    """The capabilities that a refusal corrects, by name; empty if none."""
    if _TRIGGER in message:
        return {"compaction": False}
    if _OF_LAST_TURN.search(message):
        return {"final_assistant": False}
    if _OF_FORCED_TOOL.search(message):
        return {"thinks_unasked": True}
    limit = None if _OF_VALUE.search(message) else _OF_LIMIT.search(message)
    named = set(_A_LIMIT.findall(message))
    if limit is not None and (len(named) == 1 or _OTHER_LIMIT.search(message)):
        other = _OTHER_LIMIT.search(message)
        if other is not None:
            return {"max_tokens_field": other[1].lower()}
        renamed = (limit[1] or limit[2]).lower() == "max_completion_tokens"
        return {"max_tokens_field": "max_tokens"} if renamed else {"output_limit": False}
    efforts = efforts_in(message)
    if efforts is not None:
        return {} if efforts == capabilities.efforts else {"efforts": efforts}
    most = output_limit_in(message)
    known = capabilities.max_output_tokens
    return {} if most is None or (known or most + 1) <= most else {"max_output_tokens": most}
