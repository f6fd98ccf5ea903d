"""What requests to endpoints need of a configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.config import Server
from dragoman.edge.auth import Keyring
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.http.clock import Clock
from dragoman.serving.exchange import Recording
from dragoman.serving.limits.admission import Admission
from dragoman.serving.plan import Plans
from dragoman.serving.upstreams import Upstreams

if TYPE_CHECKING:
    from dragoman.edge.websockets import OpenSockets
    from dragoman.endpoints.client_secrets import ClientSecrets


class SessionParts(Struct, frozen=True):
    """What realtime sessions need besides: the keys of clients, what records an answer, all
    WebSocket connections, client secrets, and the tasks that watch calls."""

    keys: Keyring
    count: Callable[[IncomingRequest, Record], None]
    sockets: Callable[[], OpenSockets]
    secrets: Callable[[], ClientSecrets]
    watching: set[asyncio.Task[None]]


class Parts(Struct, frozen=True):
    """What requests to endpoints need of a configuration."""

    server: Server
    plans: Plans
    upstreams: Upstreams
    admission: Admission
    recording: Recording
    record_end: Callable[[IncomingRequest, Record], None]
    """Called when work that no client waits for is over."""
    clock: Callable[[], Clock]
    reserved: dict[tuple[str, str], Record]
    """What is reserved for batches that were made here and have not ended, by client and id."""
    sessions: SessionParts
