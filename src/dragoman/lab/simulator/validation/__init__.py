"""Checking a request as the vendor would, before anything is answered.

Each checker raises ``ApiError`` (400) that names the field.
"""

from dragoman.lab.simulator.validation.chat import check_chat
from dragoman.lab.simulator.validation.google import check_google
from dragoman.lab.simulator.validation.interactions import check_interactions
from dragoman.lab.simulator.validation.messages import check_messages
from dragoman.lab.simulator.validation.responses import check_responses
from dragoman.lab.simulator.validation.servers import SERVERS, check_server

__all__ = [
    "SERVERS",
    "check_chat",
    "check_google",
    "check_interactions",
    "check_messages",
    "check_responses",
    "check_server",
]
