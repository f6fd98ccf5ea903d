"""Messages between workers and the owner of credentials."""

from __future__ import annotations

from msgspec import Struct

from dragoman.accounts.credentials.decide.refreshing import Credential, CredentialFailure
from dragoman.link.messages import Notice, Question


class Want(Struct, frozen=True):
    """A worker needs the credential of this id. `dead` is one that was refused: it is not
    given out again."""

    id: str
    dead: Credential | None = None


class Leave(Struct, frozen=True):
    """A worker no longer needs the credential of this id."""

    id: str


class Known(Struct, frozen=True):
    """What the owner knows: the credential, and why there is no newer one."""

    id: str
    credential: Credential | None = None
    failure: CredentialFailure | None = None


class Obtain(Struct, frozen=True):
    """A worker is to obtain the credential of this id. `dead` is one that is of no use any more,
    `failure` what came of it the last time."""

    id: str
    dead: Credential | None = None
    failure: CredentialFailure | None = None


WANT = Question("credentials.want", Want, Known)
LEAVE = Notice("credentials.leave", Leave)
KNOWN = Notice("credentials.known", Known)
OBTAIN = Question("credentials.obtain", Obtain, Known)
