"""The questions and notices that limits send over a link."""

from __future__ import annotations

from typing import Final, cast

from dragoman.limits.messages import (
    Admit,
    Away,
    Decision,
    Define,
    Defined,
    Exchange,
    Exchanged,
    Gone,
    Leave,
    Left,
    Look,
    LookShared,
    Mark,
    Reached,
    Restore,
    Retire,
    Room,
    Settle,
    Shared,
    States,
    Writing,
    Written,
)
from dragoman.link.messages import Notice, Question

# From workers to the owner.

DEFINE: Final = Question("limits.define", Define, Defined)
ADMIT: Final = Question("limits.admit", Admit, cast("type[Decision]", Decision))
LOOK: Final = Question("limits.look", Look, States)
LOOK_SHARED: Final = Question("limits.look_shared", LookShared, Shared)
LEAVE: Final = Question("limits.leave", Leave, Left)
RESTORE: Final = Notice("limits.restore", Restore)
RETIRE: Final = Notice("limits.retire", Retire)
SETTLE: Final = Notice("limits.settle", Settle)
WRITING: Final = Notice("limits.writing", Writing)
WRITTEN: Final = Notice("limits.written", Written)

# From the owner to workers.

ROOM: Final = Notice("limits.room", Room)
REACHED: Final = Notice("limits.reached", Reached)
AWAY: Final = Notice("limits.away", Away)
GONE: Final = Question("limits.gone", Gone, Mark)
EXCHANGE: Final = Question("limits.exchange", Exchange, Exchanged)
