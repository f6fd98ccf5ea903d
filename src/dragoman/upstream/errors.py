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
        cause: what went wrong, in one word for logs and counts.
    """

    sent: ClassVar[bool] = True
    cause: str = "call_failed"


class ConnectFailed(CallError):
    """The upstream's name did not resolve, or nothing accepts connections there. `cause` is
    the reason: `name_not_resolved`, `connection_refused`, or `unreachable` for another reason."""

    sent = False
    cause = "unreachable"


class TLSFailed(CallError):
    """The upstream accepted the connection, but the TLS handshake or its certificate failed.
    `cause` is the reason: `certificate_untrusted` (self-signed, or of an authority that nobody here
    knows), `certificate_expired`, `certificate_of_another_name`, `not_tls`, or `tls_failed` for
    another one."""

    sent = False
    cause = "tls_failed"


class ProxyFailed(CallError):
    """The proxy is at fault: unreachable, refuses to serve us, or speaks something else.

    The answer of a proxy that it cannot reach the upstream is a `ConnectFailed`.
    """

    sent = False
    cause = "proxy_failed"


class UpstreamTimeout(CallError):
    """A time limit of the call was reached."""


class ConnectTimeout(UpstreamTimeout):
    """No connection was established within `Timeouts.connect`."""

    sent = False
    cause = "connect_timeout"


class SendTimeout(UpstreamTimeout):
    """The upstream took nothing of the rest of a request for longer than answers commonly take."""

    sent = False


class FirstByteTimeout(UpstreamTimeout):
    """The request was sent, but no answer began within `Timeouts.first_byte`."""

    cause = "first_byte_timeout"


class IdleTimeout(UpstreamTimeout):
    """The answer fell silent for longer than `Timeouts.idle`."""

    cause = "idle_timeout"


class TotalTimeout(UpstreamTimeout):
    """The whole call took longer than `Timeouts.total`."""

    cause = "total_timeout"


class ConnectionReset(CallError):
    """The upstream closed or reset the connection before an answer began."""

    cause = "connection_reset"


class Truncated(CallError):
    """The answer began and was cut off: by a reset, or short of its declared length or end."""

    cause = "cut_off"


class BadAnswer(CallError):
    """The answer is not HTTP/1.1, or its content coding cannot be undone."""

    cause = "bad_answer"


class BodyTooLarge(CallError):
    """The answer's body is larger than the caller's limit."""

    cause = "too_large"


UNSENT_CAUSES = frozenset(
    {
        "name_not_resolved",
        "connection_refused",
        "unreachable",
        "certificate_untrusted",
        "certificate_expired",
        "certificate_of_another_name",
        "not_tls",
        "tls_failed",
        "proxy_failed",
        "connect_timeout",
    }
)
"""The causes of calls that the upstream never saw."""
