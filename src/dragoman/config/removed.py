"""Settings of former versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_SHARE: Final = (
    "set an amount in US dollars, as what the accounts of an upstream have was only learned roughly"
)

REMOVED: Final[Mapping[str, str]] = {
    "server.idempotency_s": "delete it; a request that is repeated with its Idempotency-Key is a"
    " new one, for which the upstream is sent the same key again",
    "server.head_limit_bytes": "delete it; the head of a request may have 64 KB",
    "server.body_limit_values": (
        "delete it; a body may have a million values, and body_limit_bytes bounds its size"
    ),
    "server.least_rate_bytes": (
        "delete it; a body must bring 1,000 bytes a second, and body_timeout_s bounds its time"
    ),
    "server.send_buffer_bytes": "delete it; 64 KB of a stream wait for a slow client",
    "server.linger_s": "delete it; the rest of a refused body is awaited for 5 seconds",
    "server.linger_bytes": "delete it; up to 1 MB of the rest of a refused body is read",
    "server.files_kept_back": (
        "delete it; half of the files that the process may open is for upstreams: raise the limit"
        " of files, or lower max_connections"
    ),
    "server.stuck_after_s": (
        "delete it; a worker without a sign of life is replaced after 30 seconds"
    ),
    "websocket.max_age_s": (
        "delete it; a connection ends after an hour, or after idle_timeout_s without a request"
    ),
    "websocket.ping_s": "delete it; connections are pinged every 25 seconds",
    "websocket.memory_bytes": (
        "delete it; a connection remembers 32 MB of conversations, within server.memory_limit_bytes"
    ),
    "websocket.max_connections_per_client": (
        "delete it; a key may have 500 connections of max_connections"
    ),
    "upstreams.timeouts.websocket_idle_s": (
        "set idle_s; an answer over WebSocket may be silent for three times that, while pings are"
        " answered"
    ),
    "upstreams.timeouts.blank_arguments_s": (
        "delete it; arguments may be white space for 30 seconds"
    ),
    "storage.history_days": "delete it; the history of accounts is stored for 30 days",
    "storage.usage_days": "set keep_days instead",
    "storage.usage_hours_days": (
        "delete it; usage is stored by the hour for 60 days, and by the day for keep_days"
    ),
    "storage.audit_days": "set keep_days instead",
    "storage.response_bytes": (
        "delete it; a response of up to 64 MB is stored, and responses_bytes bounds all of them"
    ),
    "request_log.days": "set keep_days instead",
    "request_log.most_bytes": "set keep_bytes instead",
    "request_log.most_body_bytes": "set keep_bytes instead, which limits bodies too",
    "webhook.pool_left": (
        "delete it; there is an alert when a tenth of an upstream's accounts is left"
    ),
    "webhook.keep_s": "delete it; an alert is sent again for a day",
    "webhook.timeout_s": "delete it; the receiver has 10 seconds to answer",
    "webhook.queue_size": "delete it; 1,000 alerts wait in each worker",
    "traces.slow_s": "delete it; requests of a minute and more are always traced",
    "traces.tell_clients": (
        "delete it; answers name their trace in x-trace-id wherever requests are traced"
    ),
    "clients.limits.share": _SHARE,
    "clients.limits.upstream": _SHARE,
    "teams.limits.share": _SHARE,
    "teams.limits.upstream": _SHARE,
    **dict.fromkeys(
        ("options.late_system", "routes.options.late_system"),
        "set it as a capability of the upstream or route, where it holds for every protocol",
    ),
    **dict.fromkeys(
        ("upstreams.capabilities.system_in_messages", "routes.capabilities.system_in_messages"),
        'set late_system = "hoist" instead',
    ),
    **dict.fromkeys(
        ("upstreams.capabilities.system_as_string", "routes.capabilities.system_as_string"),
        'set late_system = "user" or "hoist" instead: they join the texts before a conversation',
    ),
    "models.list_cache_s": "delete it; an upstream is asked for its models every five minutes",
}
"""What to do instead of setting each of them."""

REMOVED_INPUTS: Final[Mapping[str, str]] = {
    f"{kind}.{field}": _SHARE
    for kind in ("AddLimit", "ChangeLimit")
    for field in ("share", "upstream")
}
"""The same of the fields of operations, by their inputs."""
