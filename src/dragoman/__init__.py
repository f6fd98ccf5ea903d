"""An LLM gateway and translation library for Chat Completions, Messages, Responses and Gemini."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dragoman.canonical.errors import DragomanError as DragomanError
    from dragoman.canonical.errors import InvalidRequest as InvalidRequest
    from dragoman.canonical.errors import Refused as Refused
    from dragoman.canonical.errors import UpstreamError as UpstreamError
    from dragoman.canonical.losses import Loss as Loss
    from dragoman.canonical.losses import LossKind as LossKind
    from dragoman.canonical.losses import Policy as Policy
    from dragoman.canonical.options import Capabilities as Capabilities
    from dragoman.canonical.options import Options as Options
    from dragoman.protocols import ProtocolName as ProtocolName
    from dragoman.translation.call import Call as Call
    from dragoman.translation.library import translate_request as translate_request
    from dragoman.translation.streams import AnswerStream as AnswerStream

__version__: Final = "0.1.0"

_HOMES: Final = {
    "AnswerStream": "dragoman.translation.streams",
    "Call": "dragoman.translation.call",
    "Capabilities": "dragoman.canonical.options",
    "DragomanError": "dragoman.canonical.errors",
    "InvalidRequest": "dragoman.canonical.errors",
    "Loss": "dragoman.canonical.losses",
    "LossKind": "dragoman.canonical.losses",
    "Options": "dragoman.canonical.options",
    "Policy": "dragoman.canonical.losses",
    "ProtocolName": "dragoman.protocols",
    "Refused": "dragoman.canonical.errors",
    "UpstreamError": "dragoman.canonical.errors",
    "translate_request": "dragoman.translation.library",
}
"""Where each public name is defined: it is imported when it is first used, so that commands which
use none of them start quickly."""

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
