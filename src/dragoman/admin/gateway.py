"""What operations on a running gateway are done with."""

from __future__ import annotations

from collections import Counter

import msgspec
from msgspec import Struct

from dragoman.accounts.sync import AccountSync
from dragoman.admin.events import Events
from dragoman.admin.operators import Operators
from dragoman.admin.workbench.sending import Bench
from dragoman.config import Config
from dragoman.edge.auth import Keyring
from dragoman.observability.metrics.scrape import Scrape
from dragoman.prices.lookup import Prices
from dragoman.processes.reload import ReloadRequest
from dragoman.serving.limits.simulation import SimulatedAdmission
from dragoman.storage.bodies import BodyFiles
from dragoman.storage.request_log import RequestLogFiles
from dragoman.storage.series import SeriesFile


class Observed(Struct, frozen=True):
    """What is recorded of requests: the metrics of all workers, the log of requests (None if there
    is none) and their bodies, the time series, and what pages are sent while they are open.
    `running` counts operations of which only so many run at a time, by name."""

    scrape: Scrape
    requests: RequestLogFiles | None
    bodies: BodyFiles
    series: SeriesFile
    events: Events
    running: Counter[str] = msgspec.field(default_factory=Counter)


class Gateway(Struct, frozen=True):
    """The parts of one worker, with one configuration, that operations use. `sync` is None if
    nothing is stored, `reload` if the configuration came from no file."""

    bench: Bench
    sync: AccountSync | None
    keys: Keyring
    simulated: SimulatedAdmission
    operators: Operators
    observed: Observed
    reload: ReloadRequest | None = None

    @property
    def config(self) -> Config:
        """The configuration."""
        return self.bench.config

    @property
    def prices(self) -> Prices:
        """The prices of the configuration."""
        return self.bench.prices
