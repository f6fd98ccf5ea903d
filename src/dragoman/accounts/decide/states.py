"""What is known of an account, and what can happen to it. Pure data.

Times are Unix seconds: states outlive the process and are shared between workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from dragoman.failing import Verdict

FOREVER = float("inf")
"""`Rest.until` of an account that is out for good."""

Source = Literal["traffic", "probe", "operator", "configuration"]
"""Who observed or caused an outcome. All of them go through the same function."""


class Rest(Struct, frozen=True, omit_defaults=True):
    """An account is not to be used before `until`, or only if no other is left (`soft`).

    `streak` counts failures in a row, of which all that came within one rest are one. `since` is
    when the last of them began the rest or changed its end; `by_upstream` is whether the
    upstream itself reported when to come back.
    """

    until: float
    why: str
    soft: bool = False
    streak: int = 1
    since: float = 0.0
    by_upstream: bool = field(default=False, name="told")


class AccountState(Struct, frozen=True, omit_defaults=True):
    """What is known of one account.

    `disabled` is the reason it is out for good, empty if it is not, `by_hand` whether a person took
    it out. `exhausted` rests it for every model, `cooling` for the model named, that of the empty
    name for all. `refused_key` is the print of the key with which it was disabled or exhausted.
    Rests stay in place after they end, until a good answer: they carry the number of failures in a
    row. `renewed` is when its failures were last cleared, by a person or for another key: failures
    of requests that were sent before do not count, whenever they are reported.
    `key` is the print of its key if that was changed, empty if it never was: failures with another
    one do not count.
    """

    name: str
    disabled: str = ""
    refused_key: str = ""
    exhausted: Rest | None = None
    cooling: Mapping[str, Rest] = {}
    by_hand: bool = False
    renewed: float = 0.0
    key: str = ""


class Decision(Struct, frozen=True):
    """The verdict on one failure. `rest` is for how long the upstream asks to be left alone, in
    seconds; `every_model` is whether cooling is for more than the model that was asked for.
    """

    verdict: Verdict
    why: str = ""
    soft: bool = False
    rest: float | None = None
    every_model: bool = False

    @property
    def tries_next(self) -> bool:
        """Whether another account may be tried for the request."""
        return self.verdict is not Verdict.RETURN_TO_CLIENT


class Succeeded(Struct, frozen=True, tag="succeeded"):
    """The upstream answered well."""

    source: Source = "traffic"


class Failed(Struct, frozen=True, tag="failed"):
    """The upstream failed and this was decided. `key` is the print of the key that was used,
    `began` when the request was given the account (0: when it failed)."""

    decision: Decision
    source: Source = "traffic"
    status: int = 0
    key: str = ""
    began: float = 0.0


class Enabled(Struct, frozen=True, tag="enabled"):
    """All failures of the account are cleared."""

    source: Source = "operator"


class Disabled(Struct, frozen=True, tag="disabled"):
    """The account is taken out by hand."""

    why: str
    source: Source = "operator"


class KeyChanged(Struct, frozen=True, tag="key_changed"):
    """The account has another key than before; `key` is its print."""

    key: str
    source: Source = "configuration"


Outcome = Succeeded | Failed | Enabled | Disabled | KeyChanged
"""What can happen to an account."""


class Transition(Struct, frozen=True):
    """An outcome of one account: all that `observe` needs besides the state.

    `model` is the upstream's name of the model, empty where none is meant; `at` is when; `spread`
    in [0, 1) was drawn by whoever saw it, so that rests of many accounts do not end together.
    """

    account: str
    outcome: Outcome
    at: float
    model: str = ""
    spread: float = 0.5


class Entry(Struct, frozen=True, omit_defaults=True):
    """A line of an account's history: what changed, when, and why. Contains no secret."""

    account: str
    at: float
    change: Literal["cooled", "exhausted", "disabled", "enabled", "restored"]
    why: str = ""
    model: str = ""
    status: int = 0
    until: float | None = None
    source: Source = "traffic"
