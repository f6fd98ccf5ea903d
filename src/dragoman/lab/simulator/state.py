"""The state of one simulator."""

from collections import Counter

from dragoman.lab.simulator.accounts import Keys
from dragoman.lab.simulator.authority import Authority
from dragoman.lab.simulator.google_holdings import GoogleHoldings
from dragoman.lab.simulator.holdings import Holdings
from dragoman.lab.simulator.recording import Recorder
from dragoman.lab.simulator.registry import named_scenarios
from dragoman.lab.simulator.scenarios import Source
from dragoman.lab.simulator.store import InteractionStore, ResponseStore


class State:
    """Everything a test inspects or controls is an attribute.

    ``scenarios`` maps a name to a scenario, addressed as the model ``sim-NAME``; ``keys`` has
    the behaviours by key; ``requests`` the recorded requests; ``store`` the stored responses,
    ``interactions`` the stored interactions, ``holdings`` files, batches and what else is held,
    ``google`` what of it has Google's forms;
    ``authority`` issues credentials and checks them. ``websockets``: Responses are served over
    WebSocket; ``socket_seconds`` is the lifetime of a connection. ``received`` counts requests.
    """

    def __init__(self, record: int, record_bytes: int) -> None:
        self.scenarios: dict[str, Source] = named_scenarios()
        self.keys = Keys()
        self.requests = Recorder(record, record_bytes)
        self.store = ResponseStore()
        self.interactions = InteractionStore()
        self.holdings = Holdings()
        self.google = GoogleHoldings(self.holdings)
        self.authority = Authority()
        self.received = 0
        self.websockets = True
        self.socket_seconds = 3600.0
        self.answers = 0
        self.faults_met: Counter[str] = Counter()

    def clear(self) -> None:
        """Forget the requests, the counts and the faults applied; scenarios and keys stay."""
        self.requests.clear()
        self.keys.requests.clear()
        self.faults_met.clear()

    def model_names(self) -> list[str]:
        """The names of all models, the friendly ones first."""
        return [f"sim-{name}" for name in self.scenarios]
