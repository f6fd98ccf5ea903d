"""Checking a request as the vendor would, before anything is answered.

Each checker raises ``ApiError`` (400) with the vendor's kind of message, naming the field.
"""

from dragoman.simulator.validation.chat import check_chat
from dragoman.simulator.validation.messages import check_messages
from dragoman.simulator.validation.responses import check_responses

__all__ = ["check_chat", "check_messages", "check_responses"]
