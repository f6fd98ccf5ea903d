"""What is noted of a thing that a service holds for a client."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman import jsontext
from dragoman.jsontext import JsonError
from dragoman.protocols.base import to_json_text
from dragoman.protocols.bound_ids import is_free
from dragoman.storage.bound import MOST_DETAIL, BoundId

SECOND_FORM: Final = "file_"
"""The kind of files whose ids begin so: the service that has them lists them in a form of its own,
and apart from those of the kind `file`."""
BATCHES: Final = ("batch", "message_batch", "google_batch")
_GOOGLES: Final = "google_"
"""How the kinds of Google's things begin, whose ids are their names."""
_FOUND: Final[Mapping[str, str]] = {
    "output_file_id": "file",
    "error_file_id": "file",
    "file_id": "file",
    "container_id": "container",
    "container": "container",
}
"""The kinds of ids in answers, by the members that have them."""
_OF_CLIENTS: Final = ("attributes",)
"""Members in which services repeat what clients have given them, besides those that are free in
requests."""
MOST_TOLD: Final = 1000
"""Things that are noted of one answer."""
_OUTPUTS: Final = ("output_file_id", "error_file_id")


class Noted(Struct, frozen=True):
    """What is noted of a thing: its object as the service showed it, as far as there is room, what
    of a batch is for each model, and the client `by` whom it was made where that is not its owner.
    Of a batch's file also the `path` of the API that its requests are for, and the most tokens that
    its maker's answers may have, 0 for any number; and the `problem` for which no batch can be made
    of it."""

    shown: Mapping[str, Any] = {}
    shares: Mapping[str, Sequence[Any]] = {}
    by: str = ""
    path: str = ""
    most: int = 0
    problem: str = ""

    @classmethod
    def of(cls, details: str) -> Noted:
        """Read what was noted."""
        try:
            value = jsontext.decode(details)
        except JsonError:
            return cls()
        return cls(
            value.get("shown") or {},
            value.get("shares") or {},
            value.get("by") or "",
            value.get("path") or "",
            value.get("most") or 0,
            value.get("problem") or "",
        )

    def details(self) -> str:
        """The text to be stored. Of an object that is too large its largest members are left
        out."""
        more: dict[str, Any] = {"shares": self.shares} if self.shares else {}
        given = {"by": self.by, "path": self.path, "most": self.most, "problem": self.problem}
        more |= {name: value for name, value in given.items() if value}
        shown = dict(self.shown)
        while len(text := to_json_text({"shown": shown, **more})) > MOST_DETAIL and shown:
            del shown[max(shown, key=lambda name: (name != "id", len(to_json_text(shown[name]))))]
        return text


_NOTHING: Final = Noted()


def things_in(
    answer: Any, kind: str, owner: str, account: str, known: Noted = _NOTHING
) -> list[BoundId]:
    """The things that an answer names: the one of `kind` that it shows, if it is one, and those
    that it names, for their owner, with the account that answered. What is `known` of the one that
    it shows, besides that, stays noted."""
    now = time.time()
    found: dict[str, BoundId] = {}
    is_google = kind.startswith(_GOOGLES)
    if isinstance(file := answer.get("file"), dict) and kind == "google_file":
        answer = file
    name = id_of(answer, kind) if kind else None
    if isinstance(name, str) and name:
        found[name] = BoundId(
            name=name,
            owner=owner,
            account=account,
            kind=kind,
            created=seconds(answer.get("created_at") or answer.get("createTime")) or now,
            expires=_expiry(answer, kind),
            details=replace(known, shown=_summary(answer, kind)).details(),
        )
    if kind == "upload" and isinstance(file := answer.get("file"), dict):
        found |= {one.name: one for one in things_in(file, "file", owner, account)}
    if kind == "google_batch" and (file := responses_file(answer)):
        found[file] = BoundId(
            name=file,
            owner=owner,
            account=account,
            kind="google_file",
            created=now,
            expires=_expiry(answer, kind),
            is_only_named=True,
            details=Noted({"name": file}, known.shares).details(),
        )
    for member, named in () if is_google else _named(answer):
        if len(found) >= MOST_TOLD:
            break
        kind_named = SECOND_FORM if named.startswith(SECOND_FORM) else _FOUND[member]
        if named not in found:
            about = {"id": named, "object": kind_named, "created_at": int(now)}
            if member in _OUTPUTS:
                about["purpose"] = "batch_output"
            shown = Noted(about, known.shares if member in _OUTPUTS else {})
            found[named] = BoundId(
                name=named,
                owner=owner,
                account=account,
                kind=kind_named,
                created=now,
                is_only_named=True,
                details=shown.details(),
            )
    return list(found.values())


def _summary(answer: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """What lists show of a thing: a batch without its requests and the answers that stand in it."""
    metadata = answer.get("metadata")
    if kind != "google_batch" or not isinstance(metadata, dict):
        return answer
    short = {name: metadata[name] for name in metadata if name not in ("inputConfig", "output")}
    if file := responses_file(answer):
        short["output"] = {"responsesFile": file}
    return {
        "metadata": short,
        **{name: answer[name] for name in ("name", "done") if name in answer},
    }


def responses_file(answer: Mapping[str, Any]) -> str:
    """The file with the results of a batch of Google's; empty if it has none."""
    files = (one.get("responsesFile") for one in outputs_of(answer))
    return next((file for file in files if isinstance(file, str)), "")


def outputs_of(answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Where a batch of Google's may show what came of it."""
    metadata = answer.get("metadata")
    within = metadata.get("output") if isinstance(metadata, dict) else None
    yield from (one for one in (within, answer.get("response")) if isinstance(one, dict))


def id_of(answer: Mapping[str, Any], kind: str) -> Any:
    """The id of a thing of a kind, as an answer shows it."""
    return answer.get("name" if kind.startswith(_GOOGLES) else "id")


def _named(answer: Any) -> Iterator[tuple[str, str]]:
    """The ids of other things in an answer, by their members."""
    left = [answer]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            for name, inner in value.items():
                if is_free(value, name) or name in _OF_CLIENTS:
                    continue
                if name == "container" and isinstance(inner, dict):
                    inner = inner.get("id")
                if name in _FOUND and isinstance(inner, str) and inner:
                    yield name, inner
                elif isinstance(inner, list) or (isinstance(inner, dict) and name != "annotations"):
                    # Those that are an object are of a tool, by whoever has made it.
                    left.append(inner)


def _expiry(answer: Mapping[str, Any], kind: str) -> float:
    """When a thing is gone. A batch reports when its requests are given up."""
    if kind in BATCHES:
        return time.time() + _BATCH_KEPT_S
    given = answer.get("expires_at") or answer.get("expirationTime") or answer.get("expireTime")
    return seconds(given) or inf


def seconds(value: Any) -> float | None:
    """A time of either vendor in Unix seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if 0 < value < _FAR else None
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except ValueError:
            return None
    return None


_FAR: Final = 10**11
_BATCH_KEPT_S: Final = 90 * 24 * 3600.0
