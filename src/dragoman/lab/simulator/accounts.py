"""Behaviour by key: what makes one account of a pool differ from the next."""

from collections import Counter
from dataclasses import dataclass
from typing import cast, get_args
from zlib import crc32

from dragoman.lab.simulator.script import Failure, Fault, FaultKind, Protocol

KEY_PREFIX = "sk-sim-"
DEFAULT_ORGANIZATION = "org-simulator"
MASK = "***"

_WINDOWS = (("5h", "primary", 5 * 3600, 400), ("7d", "secondary", 7 * 86400, 8000))
"""The windows of a subscription: their names in both vendors' headers, their seconds, and the
requests that use one up."""
_MOST_USED = 0.99


@dataclass(frozen=True, slots=True)
class KeyBehaviour:
    """How the simulator treats a key.

    ``fault`` applies to the requests of this key after the first ``healthy`` ones; with
    ``fault.times`` it ends after that many. ``models`` are the only models the key may use (None:
    all). ``organization`` owns the reasoning that the key's requests produce: that of another
    organisation is refused. ``headers`` are sent with every answer, such as those that report
    limits. ``subscription`` adds the headers of a subscription's windows. ``server`` names a server
    of ``validation.SERVERS``, as which Chat requests of the key are checked and answered.
    """

    fault: Fault | None = None
    healthy: int = 0
    models: frozenset[str] | None = None
    organization: str = DEFAULT_ORGANIZATION
    headers: tuple[tuple[str, str], ...] = ()
    subscription: bool = False
    server: str = ""

    def fault_of(self, request: int) -> Fault | None:
        """The fault of the key's request with that number, counted from 0; None if it has none."""
        if self.fault is None or request < self.healthy:
            return None
        times = self.fault.times
        return self.fault if not times or request < self.healthy + times else None


def behaviour_of(key: str) -> KeyBehaviour:
    """The behaviour that a key's name selects, as ``sk-sim-429``, ``sk-sim-truncate-2`` and
    ``sk-sim-org-b`` do.

    The part after ``sk-sim-`` up to the next dash is a status or a fault (with underscores);
    ``org-NAME`` puts the key in an organisation of its own, ``max-NAME`` is a subscription, and
    ``like-SERVER`` is served as by that server.
    Any other key behaves well.
    """
    head, _, rest = key.removeprefix(KEY_PREFIX).partition("-")
    if not key.startswith(KEY_PREFIX):
        return KeyBehaviour()
    if head == "org":
        return KeyBehaviour(organization=f"org-{rest}")
    if head == "max":
        return KeyBehaviour(subscription=True)
    if head == "like":
        return KeyBehaviour(server=rest.partition("-")[0])
    if head.isdecimal():
        return KeyBehaviour(Fault("error", failure=Failure(status=int(head))))
    if head in get_args(FaultKind):
        return KeyBehaviour(Fault(cast(FaultKind, head), after=3, ms=1000))
    return KeyBehaviour()


def subscription_headers(
    protocol: Protocol, key: str, requests: int, now: float
) -> list[tuple[str, str]]:
    """The headers that report a subscription's 5 hours and 7 days at ``now`` (Unix seconds).

    ``requests`` is the number of the key's request, counted from 0. The names are Anthropic's on
    Messages, else those of Codex.

    The name of a key determines how much is used at first and when its windows end. Each request
    adds to that, but nothing is ever used up: for a key that fails, use another name.
    """
    headers: list[tuple[str, str]] = []
    spread = crc32(key.encode())
    for name, codex, seconds, lasts in _WINDOWS:
        used = min(_MOST_USED, spread % 70 / 100 + (requests + 1) / lasts)
        left = seconds - (int(now) + spread) % seconds
        if protocol == "messages":
            start = f"anthropic-ratelimit-unified-{name}"
            headers += [
                (f"{start}-status", "allowed"),
                (f"{start}-utilization", f"{used:.4f}"),
                (f"{start}-reset", str(int(now) + left)),
            ]
        else:
            start = f"x-codex-{codex}"
            headers += [
                (f"{start}-used-percent", f"{used * 100:.2f}"),
                (f"{start}-window-minutes", str(seconds // 60)),
                (f"{start}-reset-after-seconds", str(left)),
            ]
        spread >>= 8
    return headers


class Keys:
    """The keys' behaviours and how many requests came with each."""

    def __init__(self) -> None:
        self.behaviours: dict[str, KeyBehaviour] = {}
        self.requests: Counter[str] = Counter()

    def behaviour(self, key: str) -> KeyBehaviour:
        """The behaviour set for the key, else the one that its name selects."""
        found = self.behaviours.get(key)
        return behaviour_of(key) if found is None else found

    def count(self, key: str) -> int:
        """Count a request of the key; returns the number of earlier ones."""
        before = self.requests[key]
        self.requests[key] = before + 1
        return before


def masked(key: str) -> str:
    """The key as it may be shown: in full if it is one of the simulator's own, else hidden."""
    return key if key.startswith(KEY_PREFIX) or not key else MASK
