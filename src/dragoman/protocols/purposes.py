"""What an agent makes a request for, as its program says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from msgspec import Struct

from dragoman.printable import printable

RequestClass = Literal[
    "main", "subagent", "compaction", "auxiliary", "workflow", "side_reply", "other"
]
"""What a request is for: the conversation with a person, an agent that it has started, a summary of
it, something small beside it; `other` is any that is not known."""

_CLASSES: Final[Mapping[str, RequestClass]] = {name: name for name in get_args(RequestClass)}
_LONGEST: Final = 64


class Purpose(Struct, frozen=True, gc=False, omit_defaults=True, rename={"request_class": "class"}):
    """What a request is for. `agent_type` and `agent` are the kind and the id of the agent that
    makes it, `prompt` the id of what a person has asked, one for all requests that follow from it;
    each is empty if it is not said."""

    request_class: RequestClass
    agent_type: str = ""
    agent: str = ""
    prompt: str = ""

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags under which its usage is counted."""
        own = f"class:{self.request_class}"
        return (own, f"agent:{self.agent_type}") if self.agent_type else (own,)


def class_named(name: str) -> RequestClass:
    """The class of this name."""
    return _CLASSES.get(name, "other")


def shortened(value: bytes) -> str:
    """What a client says in a header, without what would not be one word of a list."""
    text = value[: 4 * _LONGEST].decode("utf-8", "replace").replace(",", "_")
    return printable(text.strip()[:_LONGEST]).strip()
