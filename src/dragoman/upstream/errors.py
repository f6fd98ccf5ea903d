"""What can go wrong between the gateway and an upstream, one class per remedy.

A status code is not an error here: an answer of any status is an answer. Messages name hosts and
ports, never a URL, a header or a body, so they are safe to log.
"""

from typing import ClassVar


class CallError(Exception):
    """A call that brought no complete answer.

    Attributes:
        sent: whether the upstream may have seen the request. Where it is False, sending the
            request again elsewhere cannot do anything twice.
    """

    sent: ClassVar[bool] = True


class ConnectFailed(CallError):
    """The upstream's name did not resolve, or nothing accepts connections there."""

    sent = False


class TLSFailed(CallError):
    """The upstream accepted the connection, but the TLS handshake or its certificate failed."""

    sent = False


class ProxyFailed(CallError):
    """The proxy is at fault: unreachable, refuses to serve us, or speaks something else.

    A proxy that works and says that it cannot reach the upstream is a `ConnectFailed`.
    """

    sent = False


class UpstreamTimeout(CallError):
    """A time limit of the call was reached."""


class ConnectTimeout(UpstreamTimeout):
    """No connection was established within `Timeouts.connect`."""

    sent = False


class SendTimeout(UpstreamTimeout):
    """The upstream took nothing of the rest of a request for longer than answers commonly take."""

    sent = False


class FirstByteTimeout(UpstreamTimeout):
    """The request was sent, but no answer began within `Timeouts.first_byte`."""


class IdleTimeout(UpstreamTimeout):
    """The answer fell silent for longer than `Timeouts.idle`."""


class TotalTimeout(UpstreamTimeout):
    """The whole call took longer than `Timeouts.total`."""


class ConnectionReset(CallError):
    """The upstream closed or reset the connection before an answer began."""


class Truncated(CallError):
    """The answer began and was cut off: by a reset, or short of its declared length or end."""


class BadAnswer(CallError):
    """The answer is not HTTP/1.1, or its content coding cannot be undone."""


class BodyTooLarge(CallError):
    """The answer's body is larger than the caller's limit."""
