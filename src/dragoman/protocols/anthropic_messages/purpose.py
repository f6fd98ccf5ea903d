"""What Claude Code says of a request where it is told to, by the variable
`CLAUDE_CODE_GATEWAY_HINT_HEADERS`. These headers go no further."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dragoman.protocols.purposes import Purpose, class_named, shortened

_CLASS: Final = b"x-claude-code-request-class"
_AGENT_TYPE: Final = b"x-claude-code-agent-type"
_AGENT: Final = b"x-claude-code-agent-id"
_PROMPT: Final = b"x-claude-code-prompt-id"


def purpose(client: Mapping[bytes, bytes]) -> Purpose | None:
    """The function behind `Endpoint.purpose`."""
    named = client.get(_CLASS)
    if named is None:
        return None
    return Purpose(
        class_named(shortened(named)),
        shortened(client.get(_AGENT_TYPE, b"")),
        shortened(client.get(_AGENT, b"")),
        shortened(client.get(_PROMPT, b"")),
    )
