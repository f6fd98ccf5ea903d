"""The quota windows that upstreams report with every answer. Pure.

The windows of subscriptions come as shares: `anthropic-ratelimit-unified-5h-utilization` (0 to 1),
`x-codex-primary-used-percent` (0 to 100). The limits of API keys come as what remains of how much:
`x-ratelimit-remaining-tokens` of `x-ratelimit-limit-tokens`, the same as
`anthropic-ratelimit-tokens-*`, and the `ratelimit-*` of the IETF draft. Sources as in
`dragoman.accounts.decide.limits`. What no upstream has reported is unknown, and so is what was
reported of a window that has ended since.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from math import inf

from msgspec import Struct

from dragoman.accounts.decide.limits import until
from dragoman.failing import number_of

MOST_WINDOWS = 24
"""Windows stored per account: some are per model, and clients choose the models."""

_STALE_AFTER_S = 8 * 24 * 3600.0
"""Seconds after its last report for which a window is stored."""

_UNKNOWN_LENGTH_S = 3600.0
"""Seconds for which a window without reset and length counts."""

_LONGEST_NAME = 60

_MOST_USED = 1.25
"""The largest share of a window that is believed to be used."""

_LONGEST_S = 400 * 24 * 3600.0
"""The longest window that is believed in."""


class QuotaWindow(Struct, frozen=True, omit_defaults=True):
    """One limit of an account, as its upstream reported it at `told_at`.

    `used` is the share of it that is used, 1 for all; `resets_at` is when it is whole again, None
    if not reported; both times are Unix seconds. `seconds` is its length, None if it is not known.
    `model` is the model, or family of models, that it is of; empty for all.
    """

    name: str
    used: float
    told_at: float
    resets_at: float | None = None
    seconds: float | None = None
    model: str = ""

    @property
    def ends(self) -> float:
        """When the report expires, in Unix seconds: at the reset, else after the window's
        length."""
        if self.resets_at is not None:
            return self.resets_at
        return self.told_at + (_UNKNOWN_LENGTH_S if self.seconds is None else self.seconds)

    def known(self, now: float) -> float | None:
        """The share that is used at `now`, None if that is not known: the window has ended."""
        return self.used if now < self.ends else None


Windows = tuple[QuotaWindow, ...]


def windows_of(headers: Mapping[str, str], model: str, now: float) -> list[QuotaWindow]:
    """The windows in an answer's headers (lower-case names); `model` is the upstream's
    name of the model that was asked, which the limits of API keys are of."""
    names = [name for name in headers if name.startswith(_BEGINNINGS)]
    if not names:
        return []
    found = {name: headers[name] for name in names}
    model = model[:_LONGEST_NAME]
    windows = [*_unified(found, now), *_codex(found, now), *_counted(found, model, now)]
    return windows[:MOST_WINDOWS]


_BEGINNINGS = ("anthropic-ratelimit-", "x-codex-", "x-ratelimit-", "ratelimit-")

_UNIFIED = re.compile(
    r"anthropic-ratelimit-unified-(\d{1,4})([hd])(?:_([a-z0-9_.-]{1,40}))?-status"
)
_UNIFIED_USED = re.compile(
    r"anthropic-ratelimit-unified-(\d{1,4})([hd])(?:_([a-z0-9_.-]{1,40}))?-utilization"
)
_CODEX = re.compile(r"x-codex-(?:([a-z0-9_.-]{1,40})-)?(primary|secondary)-used-percent")
_SPENT = frozenset({"rejected", "rate_limited"})
_UNITS = {"h": 3600.0, "d": 86400.0}


def _unified(headers: Mapping[str, str], now: float) -> Iterator[QuotaWindow]:
    """The windows of an Anthropic subscription: `5h`, `7d`, and `7d` of a family of models."""
    seen = set()
    for header in headers:
        found = _UNIFIED_USED.fullmatch(header) or _UNIFIED.fullmatch(header)
        if found is None or found.groups() in seen:
            continue
        seen.add(found.groups())
        start = header.rpartition("-")[0]
        used = _share(number_of(headers.get(f"{start}-utilization")))
        if headers.get(f"{start}-status", "").lower() in _SPENT:
            used = max(used or 0.0, 1.0)
        if used is None:
            continue
        count, unit, family = found.groups()
        seconds = int(count) * _UNITS[unit]
        if 0 < seconds <= _LONGEST_S:
            yield _window(
                f"{count}{unit}", used, now, headers.get(f"{start}-reset"), seconds, family or ""
            )


def _codex(headers: Mapping[str, str], now: float) -> Iterator[QuotaWindow]:
    """The windows of a ChatGPT subscription, named by their length where it is reported."""
    for header, value in headers.items():
        found = _CODEX.fullmatch(header)
        used = None if found is None else _share(number_of(value), 100.0)
        if found is None or used is None:
            continue
        start = header.removesuffix("-used-percent")
        minutes = number_of(headers.get(f"{start}-window-minutes"))
        seconds = minutes * 60 if minutes and 0 < minutes * 60 <= _LONGEST_S else None
        reset = headers.get(f"{start}-reset-after-seconds") or headers.get(f"{start}-reset-at")
        name = found[2] if seconds is None else _length(seconds)
        yield _window(name, used, now, reset, seconds, found[1] or "")


_COUNTED = (
    ("x-ratelimit-limit-{}", "x-ratelimit-remaining-{}", "x-ratelimit-reset-{}"),
    (
        "anthropic-ratelimit-{}-limit",
        "anthropic-ratelimit-{}-remaining",
        "anthropic-ratelimit-{}-reset",
    ),
)
_NAMES = ("requests", "tokens", "input-tokens", "output-tokens")
_PLAIN = (
    ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"),
    ("ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"),
)


def _counted(headers: Mapping[str, str], model: str, now: float) -> Iterator[QuotaWindow]:
    """The limits of an API key, of which the headers give how much remains."""
    for names in _COUNTED:
        for name in _NAMES:
            limit, remaining, reset = (header.format(name) for header in names)
            used = _spent(headers.get(limit), headers.get(remaining))
            if used is not None:
                yield _window(name, used, now, headers.get(reset), None, model)
    for limit, remaining, reset in _PLAIN:
        used = _spent(headers.get(limit), headers.get(remaining))
        if used is not None:
            yield _window("requests", used, now, headers.get(reset), None, model)


def _spent(limit: str | None, remaining: str | None) -> float | None:
    """The share used of a limit; None where it is not reported, or makes no sense (Azure sends
    -1)."""
    most, left = number_of(limit), number_of(remaining)
    if not most or left is None or left > most:
        return None
    return 1.0 - left / most


def _share(value: float | None, whole: float = 1.0) -> float | None:
    """A share that is reported as a part of `whole`; None where it makes no sense, such as a
    percentage in place of a ratio. A little more than all may be used by requests that run at
    once."""
    if value is None or value > _MOST_USED * whole:
        return None
    return value / whole


def _window(
    name: str, used: float, now: float, reset: str | None, seconds: float | None, model: str
) -> QuotaWindow:
    wait = until(reset, now)
    return QuotaWindow(
        name, round(used, 4), now, None if wait is None else now + wait, seconds, model
    )


def _length(seconds: float) -> str:
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("m", 60.0)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def merged(old: Windows, new: Iterable[QuotaWindow], now: float) -> Windows:
    """`old` and `new` windows together: the last report of each; the oldest beyond `MOST_WINDOWS`
    are dropped, and so are stale ones."""
    latest_of = {(window.name, window.model): window for window in old}
    for window in new:
        key = window.name, window.model
        before = latest_of.get(key)
        if before is None or before.told_at <= window.told_at:
            latest_of[key] = window
    latest = sorted(latest_of.values(), key=lambda window: -window.told_at)[:MOST_WINDOWS]
    fresh = [window for window in latest if now - window.told_at < _STALE_AFTER_S]
    return tuple(sorted(fresh, key=lambda window: (window.model, window.seconds or 0, window.name)))


def used_of(windows: Windows, now: float) -> float:
    """How far the fullest window of an account is used at `now`, 0 where nothing is known. Windows
    of one family of a subscription's models do not count: others can be asked."""
    return max(
        (
            window.known(now) or 0.0
            for window in windows
            if not window.model or window.seconds is None
        ),
        default=0.0,
    )


def next_reset(windows: Windows, now: float) -> float | None:
    """When the first of the windows ends that have not ended at `now`."""
    return min((window.ends for window in windows if window.ends > now), default=None)


def differs(old: Windows, new: Windows) -> bool:
    """Whether other workers that know `old` should be sent `new`: by a hundredth, a reset, or
    age."""
    if len(old) != len(new):
        return True
    for before, after in zip(old, new, strict=True):
        if (before.name, before.model) != (after.name, after.model):
            return True
        if abs(before.used - after.used) >= _STEP or after.told_at - before.told_at >= _REPUBLISH_S:
            return True
        if abs((before.resets_at or 0.0) - (after.resets_at or 0.0)) >= _RESET_STEP_S:
            return True
    return False


_STEP = 0.01
_REPUBLISH_S = 30.0
_RESET_STEP_S = 90.0


class Quotas:
    """What is known of the quotas of all accounts in this worker.

    `received` are the model and the headers of each account's last answer. They are read by
    `settle`, a few times a second, so that an answer costs next to nothing. `changed` are accounts
    with a new report; the observer of alerts empties it.
    """

    __slots__ = (
        "_ends",
        "_first_end",
        "_published",
        "_unpublished",
        "changed",
        "received",
        "windows",
    )

    def __init__(self) -> None:
        self.windows: dict[str, Windows] = {}
        self.received: dict[str, tuple[str, Mapping[str, str]]] = {}
        self._published: dict[str, Windows] = {}
        self._unpublished: set[str] = set()
        self.changed: set[str] = set()
        self._ends: dict[str, float] = {}
        self._first_end = inf

    def settle(self, now: float) -> dict[str, float]:
        """Read the received headers, and end the windows that are over at `now`. Returns how far
        the quotas are used of the accounts for which that may have changed."""
        received, self.received = self.received, {}
        moved = {}
        for account, (model, headers) in received.items():
            found = windows_of(headers, model, now)
            if found:
                moved[account] = self._put(account, found, now)
                self._unpublished.add(account)
        if self._first_end <= now:
            for account in [name for name, end in self._ends.items() if end <= now]:
                moved[account] = self._put(account, (), now)
            self._first_end = min(self._ends.values(), default=inf)
        return moved

    def learn(self, account: str, windows: Windows, now: float) -> float:
        """Record `windows` reported to another worker. Returns how far the quota is used."""
        self._published[account] = windows
        return self._put(account, windows, now)

    def take(self) -> dict[str, Windows]:
        """Reports to publish to other workers, since the last call."""
        taken = {}
        for account in self._unpublished:
            windows = self.windows.get(account, ())
            if differs(self._published.get(account, ()), windows):
                taken[account] = self._published[account] = windows
        self._unpublished.clear()
        return taken

    def forget(self, account: str) -> None:
        """The account is gone."""
        self.windows.pop(account, None)
        self.received.pop(account, None)
        self._published.pop(account, None)
        self._ends.pop(account, None)
        self._unpublished.discard(account)
        self.changed.discard(account)

    def _put(self, account: str, found: Iterable[QuotaWindow], now: float) -> float:
        windows = self.windows[account] = merged(self.windows.get(account, ()), found, now)
        self.changed.add(account)
        end = next_reset(windows, now)
        if end is None:
            self._ends.pop(account, None)
        else:
            self._ends[account] = end
            self._first_end = min(self._first_end, end)
        return used_of(windows, now)
