"""Credentials that expire, and when they are refreshed: one policy for all kinds.

A credential is *fresh*; then *soft*: it is used while another is obtained; then *hard*: requests
wait for the next one.
"""

from __future__ import annotations

import hashlib
from math import inf
from typing import Literal

from msgspec import Struct

from dragoman.accounts.credentials.decide.signing import AwsKeys

SOFT_S = 300.0
"""Seconds of life left below which a credential is refreshed, if that is no more than a fifth."""
HARD_S = 30.0
"""Seconds of life left below which a credential is not used, if that is no more than a tenth."""
FIRST_RETRY_S = 5.0
LONGEST_RETRY_S = 60.0

Problem = Literal["expired", "refused", "unavailable", "login_needed"]
"""Why there is no credential. `expired`: the source has none that is still valid, and will have
another; `unavailable`: the source cannot be reached or fails; `refused` and `login_needed`: nothing
changes until a person acts."""

LASTING = frozenset({"refused", "login_needed"})


class CredentialError(Exception):
    """A source has no credential. The message is one sentence of what is wrong and what to do, with
    no secret in it. `inputs` is the print of what the source was asked with."""

    def __init__(self, problem: Problem, why: str, inputs: str = "") -> None:
        super().__init__(why)
        self.problem: Problem = problem
        self.inputs = inputs


class Credential(Struct, frozen=True, omit_defaults=True):
    """What authorises requests for a time, in Unix seconds: `keys` that sign them, or `headers`.
    `refresh_at` is when its source says that another one should be obtained. `inputs` is the print
    of what it was obtained with: a file's text, a secret."""

    made_at: float
    expires_at: float = inf
    headers: tuple[tuple[str, str], ...] = ()
    keys: AwsKeys | None = None
    refresh_at: float = inf
    inputs: str = ""

    def __repr__(self) -> str:
        return f"Credential(expires_at={self.expires_at})"

    @property
    def soft_s(self) -> float:
        """Seconds of life left below which it is refreshed."""
        return min(SOFT_S, 0.2 * (self.expires_at - self.made_at))

    def is_usable(self, now: float) -> bool:
        """Whether requests may be authorised by it."""
        left = self.expires_at - now
        return left >= HARD_S or left >= 0.1 * (self.expires_at - self.made_at)

    def is_same(self, other: Credential | None) -> bool:
        """Whether another authorises requests by the same value."""
        return other is not None and (self.headers, self.keys) == (other.headers, other.keys)


class CredentialFailure(Struct, frozen=True):
    """Why there is no newer credential. `failures` counts those in a row, the last of which was at
    `at`."""

    problem: Problem
    why: str
    at: float
    failures: int = 1
    inputs: str = ""


def refresh_at(
    credential: Credential | None, failure: CredentialFailure | None, now: float, spread: float
) -> float:
    """When the next credential is obtained, in Unix seconds. `spread` in [0, 1) varies it by a
    tenth, so that many accounts are not refreshed at once."""
    varied = 0.9 + 0.2 * spread
    if failure is not None:
        seconds = FIRST_RETRY_S * 2.0 ** min(failure.failures - 1, 16)
        return failure.at + varied * min(seconds, LONGEST_RETRY_S)
    if credential is None:
        return now
    if credential.refresh_at < inf:
        return credential.refresh_at
    return credential.expires_at - varied * credential.soft_s


def next_failure(
    before: CredentialFailure | None, error: CredentialError, now: float
) -> CredentialFailure:
    """The failure after a source has failed once more."""
    failures = 1 if before is None else before.failures + 1
    return CredentialFailure(error.problem, str(error), now, failures, error.inputs)


def inputs_of(*parts: str | bytes) -> str:
    """The print of what a source is asked with."""
    texts = (part.encode() if isinstance(part, str) else part for part in parts)
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def check_inputs(inputs: str, failure: CredentialFailure | None) -> None:
    """Do not ask again with what was refused for good.

    Raises:
        CredentialError: it was refused.
    """
    if failure is not None and failure.problem in LASTING and inputs and failure.inputs == inputs:
        raise CredentialError(failure.problem, failure.why, inputs)
