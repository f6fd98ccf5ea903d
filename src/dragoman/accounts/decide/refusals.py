"""Refused keys of one upstream: of single accounts, or of all, which is the upstream's own failure.
Pure.

A vendor whose sign-in fails refuses every key, also those that it accepted a moment ago. Several
accounts that have been answered well before and are then refused one after another, with no good
answer of the upstream between, are not at fault: they rest and are tried again, instead of being
disabled until a person enables each.
"""

from __future__ import annotations

ALL_REFUSED = "the upstream refuses the keys of several accounts that it accepted before"

_ACCOUNTS = 3
"""Accounts refused without a good answer between from which on the upstream is at fault."""

_FORGET_AFTER_S = 600.0
"""Seconds after which a refusal is not counted with a later one."""


class Refusals:
    """The accounts of an upstream that worked, and those refused since its last good answer."""

    __slots__ = ("_refused", "_worked")

    def __init__(self) -> None:
        self._worked: set[str] = set()
        self._refused: dict[str, float] = {}

    def succeeded(self, name: str) -> None:
        """Record a good answer to a request of the account."""
        self._worked.add(name)
        self._refused.clear()

    def refused(self, name: str, now: float) -> list[str]:
        """Record that the account's key was refused at `now`, in seconds. Returns the accounts that
        were refused for the upstream's failure, this one included; none while it may be their own.
        """
        if name not in self._worked:
            return []
        oldest = now - _FORGET_AFTER_S
        recent = {other: at for other, at in self._refused.items() if at > oldest}
        self._refused = {**recent, name: now}
        return list(self._refused) if len(self._refused) >= _ACCOUNTS else []

    def forget(self, name: str) -> None:
        """Drop what is known of an account that was removed or has another key."""
        self._worked.discard(name)
        self._refused.pop(name, None)
