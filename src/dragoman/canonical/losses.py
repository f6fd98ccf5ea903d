"""Losses of a translation, and the policies that refuse them.

Every lossy step adds a `Loss` to the ledger of the request; a `Policy` decides which losses
refuse the request and which are only reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum

from msgspec import Struct

from dragoman.canonical.errors import Fault, FaultKind, Refused

UNSUPPORTED = "unsupported_by_upstream"
"""Error code of a request refused for a loss, unless the loss names a better one."""

_MOST_NAMED = 6
"""Losses that the message of a refused request names; others are counted."""


class LossKind(StrEnum):
    """How much a loss matters."""

    KNOB = "knob"
    """A tuning knob, hint or telemetry was left out; the client still works without it."""
    CONVERTED = "converted"
    """The meaning was carried in another form, and some information was lost with the old form."""
    REPAIRED = "repaired"
    """Something the upstream would refuse was completed or re-ordered."""
    CONTENT = "content"
    """Something the model was meant to see or obey, or the client counts on, was left out."""


class Policy(StrEnum):
    """Which losses refuse a request before any upstream call."""

    STRICT = "strict"
    """Any loss is a 400."""
    BALANCED = "balanced"
    """Lost content is a 400; every other loss is reported."""
    LENIENT = "lenient"
    """Nothing is refused; every loss is reported."""


class Loss(Struct, frozen=True):
    """One thing that was lost or changed.

    `path` names it in the client's request (or, for answers, in the upstream's answer), for example
    `messages[0].content[1].image_url.detail`. `detail` describes it in a few words; it quotes
    no value but a model's name, so no prompt reaches a log. `code` is the error code that a client
    is shown whose request the policy refuses for this loss; errors of Messages have no place for
    it."""

    path: str
    kind: LossKind
    detail: str
    code: str = UNSUPPORTED


class Ledger(Struct, eq=False):
    """The losses of one request, in the order they happened; the same loss is listed once."""

    losses: dict[tuple[str, LossKind, str], Loss] = {}
    """The losses, by what tells one from another."""
    _enforced: int = 0
    """How many of them `enforce` has looked at."""

    def add(self, path: str, kind: LossKind, detail: str, code: str = UNSUPPORTED) -> None:
        """Record that what stood at `path` was lost or changed."""
        self.losses.setdefault((path, kind, detail), Loss(path, kind, detail, code))

    def extend(self, losses: Iterable[Loss]) -> None:
        """Record losses found elsewhere."""
        for loss in losses:
            self.losses.setdefault((loss.path, loss.kind, loss.detail), loss)

    def rewind(self) -> None:
        """Forget what was added since `enforce` was called."""
        self.truncate(self._enforced)

    def truncate(self, count: int) -> None:
        """Remove all but the first `count`."""
        while len(self.losses) > count:
            self.losses.popitem()

    def shorten(self, most: int) -> None:
        """List no more than the first `most` losses one by one, and count the others of each
        kind."""
        others = Counter(loss.kind for loss in list(self.losses.values())[most:])
        self.truncate(most)
        self._enforced = min(self._enforced, most)
        for kind, number in others.items():
            self.add("others", kind, f"{number} more losses of this kind")

    @property
    def lacks_content(self) -> bool:
        """Whether content was lost since `enforce` was called: of the answer."""
        if len(self.losses) == self._enforced:
            return False
        losses = list(self.losses.values())[self._enforced :]
        return any(loss.kind is LossKind.CONTENT for loss in losses)

    def __iter__(self) -> Iterator[Loss]:
        return iter(tuple(self.losses.values()))

    def __len__(self) -> int:
        return len(self.losses)

    def enforce(self, policy: Policy) -> None:
        """Refuse the request if `policy` does not allow what was lost so far.

        Raises:
            Refused: with the losses that are not allowed; its message names their paths.
        """
        self._enforced = len(self.losses)
        if not self.losses:
            return
        refused = tuple(loss for loss in self.losses.values() if not _allowed(loss, policy))
        if refused:
            first = refused[0]
            also = ", ".join(loss.path for loss in refused[1:_MOST_NAMED])
            if len(refused) > _MOST_NAMED:
                also += f" and {len(refused) - _MOST_NAMED} more"
            also = f" (also {also})" if also else ""
            raise Refused(
                Fault(
                    FaultKind.INVALID_REQUEST,
                    f"{first.path}: {first.detail}{also}; refused by the policy "
                    f"{policy.value}, lenient goes on (x-dragoman-policy, or that of the route)",
                    param=first.path,
                    code=first.code,
                ),
                losses=refused,
            )


def _allowed(loss: Loss, policy: Policy) -> bool:
    if policy is Policy.LENIENT:
        return True
    if policy is Policy.STRICT:
        return False
    return loss.kind is not LossKind.CONTENT
