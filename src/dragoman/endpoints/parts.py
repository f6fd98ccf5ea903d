"""What requests to endpoints need of a configuration."""

from __future__ import annotations

from msgspec import Struct

from dragoman.config import Server
from dragoman.serving.exchange import Recording
from dragoman.serving.limits.admission import Admission
from dragoman.serving.plan import Plans
from dragoman.serving.upstreams import Upstreams


class Parts(Struct, frozen=True):
    """What requests to endpoints need of a configuration."""

    server: Server
    plans: Plans
    upstreams: Upstreams
    admission: Admission
    recording: Recording
