"""Reading a validated request: what the simulated model sees of it."""

from collections.abc import Callable

from dragoman.lab.simulator.reading import chat, google, interactions, messages, responses
from dragoman.lab.simulator.script import Protocol
from dragoman.lab.simulator.view import JsonObject, View

READERS: dict[Protocol, Callable[[JsonObject, str], View]] = {
    "chat": chat.read,
    "messages": messages.read,
    "responses": responses.read,
    "google": google.read,
    "interactions": interactions.read,
}
"""The reader of each protocol; its second argument is the organisation of the key."""
