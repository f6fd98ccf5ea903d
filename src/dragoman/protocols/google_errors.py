"""Words of Google's services in errors."""

from __future__ import annotations

from dragoman.protocols.overflow import sizes_in


def too_long(message: str) -> str:
    """The message for a conversation that is longer than the model's window, in the service's
    words, which agents look for."""
    if "exceeds the maximum number of tokens allowed" in message:
        return message
    sizes = sizes_in(message)
    numbers = ("", "") if sizes is None else (f" ({sizes.input})", f" ({sizes.window})")
    return (
        f"The input token count{numbers[0]} exceeds the maximum number of tokens allowed"
        f"{numbers[1]}. ({message})"
    )
