"""What a request will probably use, learned from what earlier ones used. Pure.

No tokenizer is asked: it would cost several times what the whole request does.
"""

from __future__ import annotations

import re
import string
from typing import Final

TOKENS_PER_BYTE: Final = 0.30
"""Tokens for a byte of a body, until a model's own ratio is known."""

FIRST_OUTPUT: Final = 1024
"""Tokens of an answer without a limit, until those of the model are known."""

_MOST_TOKENS_PER_BYTE: Final = 1.5
_WEIGHT: Final = 0.1
_WEIGHT_OF_SHORT: Final = 0.01
"""How much the latest request counts against all before it; of a short one, little: what stands
around its text is most of it."""
_SHORT: Final = 2000

_RISE: Final = 0.19
_FALL: Final = 0.01
"""Steps of an estimated quantile: it rests where it is exceeded once in 20 times."""

_MOST_LEARNED: Final = 4096

_FILE_TOKENS: Final = 3000
"""Tokens of a picture or file in a body: two pictures of a megapixel, or a page and a half."""

_LARGE: Final = 256 * 1024

_FILE_BYTES: Final = 2000
"""How long a file in a body is at least: as text, a shorter one costs little."""

_SIGNS: Final = (string.ascii_letters + string.digits + "+/-_\\").encode()
"""What a file may consist of: also for URLs, and with slashes or ends of lines that are escaped."""
_BASE64 = re.compile(rb"(?<![%b])[%b]{%d,}" % (re.escape(_SIGNS), re.escape(_SIGNS), _FILE_BYTES))
"""Looked for where no sign is before it, for what is too short would be read anew at each sign."""

_SAMPLED: Final = 31
"""A prime: in text whose lines are of one length, the samples are not all of one column."""
_LIKE_BASE64: Final = bytes(ord("a") if one in _SIGNS else ord(" ") for one in range(256))
_LIKE_A_FILE: Final = b"a" * (_FILE_BYTES // _SAMPLED)


class Estimates:
    """Tokens of input and output, by upstream and model, and for output by who asks too."""

    __slots__ = ("_outputs", "_ratios")

    def __init__(self) -> None:
        self._ratios: dict[tuple[str, str], float] = {}
        self._outputs: dict[tuple[str, str], float] = {}

    def input(self, upstream: str, model: str, body: bytes) -> tuple[int, int]:
        """Tokens of a prompt, and of how many bytes that is to be learned, whose tokens are known
        later: 0 for one with files."""
        size, ratio = len(body), self._ratios.get((upstream, model), TOKENS_PER_BYTE)
        if size < _FILE_BYTES:
            return int(size * ratio), size
        text, files = text_and_files(body)
        return int(text * ratio) + files * _FILE_TOKENS, 0 if files else size

    def output(self, caller: str, model: str) -> int:
        """Tokens that hardly any answer exceeds."""
        return int(self._outputs.get((caller, model), FIRST_OUTPUT))

    def learn_input(self, upstream: str, model: str, size: int, tokens: int) -> None:
        """A prompt without files, whose body had `size` bytes, had so many tokens."""
        ratio = min(tokens / size, _MOST_TOKENS_PER_BYTE)
        key = upstream, model
        known = self._ratios.get(key)
        if known is None:
            _make_room(self._ratios)
            known = TOKENS_PER_BYTE
        weight = _WEIGHT_OF_SHORT if size < _SHORT else _WEIGHT
        self._ratios[key] = known + weight * (ratio - known)

    def learn_output(self, caller: str, model: str, tokens: int) -> None:
        """An answer had so many tokens."""
        key = caller, model
        known = self._outputs.get(key)
        if known is None:
            _make_room(self._outputs)
            known = float(FIRST_OUTPUT)
        step = max(known, 64.0)
        known += _RISE * step if tokens > known else -_FALL * step
        self._outputs[key] = max(known, 1.0)


def text_and_files(body: bytes) -> tuple[int, int]:
    """The bytes of a body without the files in it, and how many those are. A large body with files
    is not looked through: most of it is theirs."""
    if not _may_have_files(body) or b"base64" not in body:
        return len(body), 0
    if len(body) > _LARGE:
        return _LARGE // 4, body.count(b"base64")
    files = _BASE64.findall(body)
    return len(body) - sum(map(len, files)), len(files)


def _may_have_files(body: bytes) -> bool:
    """Whether a file may be in it. Of so many bytes that all could belong to one, every 31st is
    looked at: a sixth of the time that it takes to search a long body for a word."""
    return body[::_SAMPLED].translate(_LIKE_BASE64).find(_LIKE_A_FILE) >= 0


def _make_room(learned: dict[tuple[str, str], float]) -> None:
    if len(learned) >= _MOST_LEARNED:
        learned.clear()
