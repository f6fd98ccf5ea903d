"""The refusal of a request: what is wrong, and at which of its values."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dragoman.lab.simulator.errors import ApiError

Path = tuple[str | int, ...]
"""Keys and indices from an object to a value inside it."""


class Refusal(ValueError):
    """A value breaks a rule.

    ``at`` are the keys to the value: in a shape's ``__post_init__`` those from its own object,
    elsewhere those from the root. ``code`` is OpenAI's.
    """

    def __init__(self, detail: str, *at: str | int, code: str | None = "invalid_value") -> None:
        super().__init__()
        self.detail = detail
        self.at = at
        self.code = code


def dotted(path: Path) -> str:
    """A path as Anthropic writes it: ``messages.0.content``."""
    return ".".join(map(str, path))


def bracketed(path: Path) -> str:
    """A path as OpenAI writes it: ``messages[0].content``."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")


@contextmanager
def answering(notation: Callable[[Path], str]) -> Iterator[None]:
    """Turns a refusal into the error to answer, with the path in a vendor's notation.

    Raises:
        ApiError: 400, naming the value that is refused.
    """
    try:
        yield
    except Refusal as refusal:
        name = notation(refusal.at)
        message = f"{name}: {refusal.detail}" if name else refusal.detail
        raise ApiError(400, message, code=refusal.code, param=name or None) from None
