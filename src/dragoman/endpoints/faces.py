"""In whose shape a client of an endpoint reads errors, as the codec of a protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from dragoman.canonical.errors import Fault
from dragoman.canonical.options import Options
from dragoman.jsontext import object_of
from dragoman.protocols import CODECS
from dragoman.protocols.base import OFFICIAL, Codec, Rendered

if TYPE_CHECKING:
    from dragoman.endpoints.table import Face

_OPENAI = CODECS["openai_chat"]


def _write_cohere(fault: Fault, request_id: str, options: Options = OFFICIAL) -> Rendered:
    """An error as Cohere's clients read it."""
    shown = _OPENAI.translate.write_error(fault, request_id, options)
    return Rendered(shown.status, {"message": fault.message, "id": request_id})


def _is_cohere_error(body: bytes) -> bool:
    return isinstance((object_of(body) or {}).get("message"), str)


_COHERE = replace(
    _OPENAI,
    translate=replace(_OPENAI.translate, write_error=_write_cohere, is_own_error=_is_cohere_error),
)

FACES: Final[Mapping[Face, Codec | None]] = {
    "openai": _OPENAI,
    "anthropic": CODECS["anthropic_messages"],
    "google": CODECS["google_generate_content"],
    "cohere": _COHERE,
    "by_header": None,
}
"""The codec that renders errors; None: that which a request's headers imply."""
