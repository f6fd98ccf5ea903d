"""What a request will probably use, learned from what earlier ones of the same key used. Pure.

No tokenizer is asked: it would cost several times what the whole request does.
"""

from __future__ import annotations

from typing import Final

TOKENS_PER_BYTE: Final = 0.30
"""Tokens for a byte of a body, until those of the key and the model are known."""

LEAST_TOKENS_PER_BYTE: Final = 0.25
"""Tokens for a byte at least, whatever earlier requests came to."""

FIRST_OUTPUT: Final = 1024
"""Tokens of an answer without a limit, until those of the key and the model are known."""

_MOST_TOKENS_PER_BYTE: Final = 1.5
_WEIGHT: Final = 0.1
_WEIGHT_OF_SHORT: Final = 0.01
"""How much the latest request counts against all before it; of a short one, little: what stands
around its text is most of it."""
_SHORT: Final = 2000

_RISE: Final = 0.19
_FALL: Final = 0.01
"""Steps of an estimated quantile: it rests where it is exceeded once in 20 times."""

_MOST_LEARNED: Final = 16_384

_Learned = dict[tuple[str, ...], float]


class Estimates:
    """Tokens of input and output, by who asks for which model."""

    __slots__ = ("_continued", "_outputs", "_ratios")

    def __init__(self) -> None:
        self._ratios: _Learned = {}
        self._outputs: _Learned = {}
        self._continued: _Learned = {}

    def input(self, caller: str, upstream: str, model: str, size: int) -> int:
        """Tokens of a prompt of so many bytes."""
        return int(size * self._ratios.get((caller, upstream, model), TOKENS_PER_BYTE))

    def continued(self, caller: str, model: str) -> int:
        """Tokens that hardly any prompt exceeds which goes on from an answer that the upstream has
        stored: its bytes do not tell."""
        return int(self._continued.get((caller, model), 0))

    def output(self, caller: str, model: str) -> int:
        """Tokens that hardly any answer exceeds."""
        return int(self._outputs.get((caller, model), FIRST_OUTPUT))

    def learn_input(self, caller: str, upstream: str, model: str, size: int, tokens: int) -> None:
        """A prompt without files, whose body had `size` bytes, had so many tokens."""
        ratio = min(max(tokens / size, LEAST_TOKENS_PER_BYTE), _MOST_TOKENS_PER_BYTE)
        key = caller, upstream, model
        known = self._ratios.get(key, TOKENS_PER_BYTE)
        weight = _WEIGHT_OF_SHORT if size < _SHORT else _WEIGHT
        _remember(self._ratios, key, known + weight * (ratio - known))

    def learn_continued(self, caller: str, model: str, tokens: int) -> None:
        """A prompt that goes on from a stored answer had so many tokens."""
        known = self._continued.get((caller, model), float(tokens))
        _remember(self._continued, (caller, model), _quantile(known, tokens))

    def learn_output(self, caller: str, model: str, tokens: int) -> None:
        """An answer had so many tokens."""
        known = self._outputs.get((caller, model), float(FIRST_OUTPUT))
        _remember(self._outputs, (caller, model), _quantile(known, tokens))


def _quantile(known: float, tokens: int) -> float:
    step = max(known, 64.0)
    return max(known + (_RISE * step if tokens > known else -_FALL * step), 1.0)


def _remember(learned: _Learned, key: tuple[str, ...], value: float) -> None:
    if key not in learned and len(learned) >= _MOST_LEARNED:
        del learned[next(iter(learned))]
    learned[key] = value
