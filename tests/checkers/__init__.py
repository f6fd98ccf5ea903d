"""Independent judges of what a stream writer wrote, one per protocol.

Each takes the bytes of one whole stream, asserts every rule that strict clients rely on, and
says how the stream ended. They share no code with the writers: the rules are written down here
a second time, from the clients' side.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.checkers.chat import check_chat
from tests.checkers.framing import Frame, Verdict, frames
from tests.checkers.google import check_google
from tests.checkers.interactions import check_interactions
from tests.checkers.messages import check_messages
from tests.checkers.responses import check_responses

CHECKERS: dict[str, Callable[[bytes], Verdict]] = {
    "openai_chat": check_chat,
    "anthropic_messages": check_messages,
    "openai_responses": check_responses,
    "google_generate_content": check_google,
    "google_interactions": check_interactions,
}
"""The checker of every protocol, by the protocol's name."""

__all__ = [
    "CHECKERS",
    "Frame",
    "Verdict",
    "check_chat",
    "check_google",
    "check_interactions",
    "check_messages",
    "check_responses",
    "frames",
]
