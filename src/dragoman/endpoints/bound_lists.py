"""Lists of what a service holds for one client. They are made of the notes: the service's own list
would have what is other clients'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import parse_qs

from dragoman.canonical.errors import InvalidRequest
from dragoman.protocols.base import to_json_text
from dragoman.protocols.bound_ids import MOST_NAMED
from dragoman.serving.bound_notes import Noted
from dragoman.storage.bound import BoundId, Page

ListForm = Literal["openai", "anthropic", "google"]

_LISTS: Final = {"batches/": "operations"}
"""What Google's lists of a collection are named, where that is not its name."""
_CURSOR: Final = "page_"
_MOST_LISTED: Final[Mapping[ListForm, int]] = {"openai": 10_000, "anthropic": 1000}
_LISTED: Final = 20
_LISTED_BY_GOOGLE: Final = 10
_MOST_LISTED_BY_GOOGLE: Final = 100
_MOST_DIGITS: Final = 10
_MOST_READ: Final = 1000
"""Things in one page at most."""


def asked_page(query: bytes, form: ListForm) -> Page:
    """The page of a list that a query asks for, with one more that shows whether there is another.

    Raises:
        InvalidRequest: a value cannot be used.
    """
    values = {name: texts[-1] for name, texts in _given(query).items()}
    if form == "google":
        return _google_page(values)
    limit = values.get("limit", str(_LISTED))
    is_number = limit.isascii() and limit.isdigit() and len(limit) < _MOST_DIGITS
    if not is_number or not 0 < int(limit) <= _MOST_LISTED[form]:
        raise InvalidRequest.at("limit", f"must be from 1 to {_MOST_LISTED[form]}")
    order = values.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidRequest.at("order", "must be asc or desc")
    own = form == "openai"
    purpose = values.get("purpose", "") if own else ""
    return Page(
        limit=min(int(limit), _MOST_READ) + 1,
        after=_after(values, form),
        before=values.get("before" if own else "before_id", ""),
        oldest_first=own and order == "asc",
        holding=f'"purpose":{to_json_text(purpose)}' if purpose else "",
    )


def _google_page(values: Mapping[str, str]) -> Page:
    size = values.get("pageSize") or values.get("page_size") or "0"
    if not (size.isascii() and size.isdigit() and len(size) < _MOST_DIGITS):
        raise InvalidRequest.at("pageSize", "must be a number")
    limit = min(int(size) or _LISTED_BY_GOOGLE, _MOST_LISTED_BY_GOOGLE)
    return Page(limit=limit + 1, after=values.get("pageToken") or values.get("page_token") or "")


def asked_ids(query: bytes) -> Sequence[str]:
    """The ids to which a query restricts a list of Anthropic's; none: it is not restricted."""
    given = _given(query)
    return (given.get("ids", []) + given.get("ids[]", []))[:MOST_NAMED]


def _given(query: bytes) -> Mapping[str, list[str]]:
    try:
        return parse_qs(query.decode("latin-1"), max_num_fields=2 * MOST_NAMED)
    except ValueError:
        raise InvalidRequest.at("", "The query has too many parameters.") from None


def _after(values: Mapping[str, str], form: ListForm) -> str:
    if form == "openai":
        return values.get("after", "")
    return values.get("after_id") or values.get("page", "").removeprefix(_CURSOR)


def listed(
    found: Sequence[BoundId], page: Page, form: ListForm, collection: str = ""
) -> Mapping[str, Any]:
    """A page of a list as clients read it, of what begins with `collection` in Google's; `found`
    may have one more thing than it."""
    has_more = len(found) >= page.limit
    things = found
    if has_more:
        things = found[1:] if page.before else found[:-1]
    if form == "google":
        named = [{**Noted.of(one.details).shown, "name": one.name} for one in things]
        # Clients go on as long as there is a token, even an empty one.
        token = {"nextPageToken": things[-1].name} if has_more else {}
        return {_LISTS.get(collection, collection.rstrip("/")): named, **token}
    data = [{**Noted.of(one.details).shown, "id": one.name} for one in things]
    answer = {
        "data": data,
        "has_more": has_more,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
    }
    if form == "openai":
        return {"object": "list", **answer}
    return {**answer, "next_page": f"{_CURSOR}{data[-1]['id']}" if has_more else None}
