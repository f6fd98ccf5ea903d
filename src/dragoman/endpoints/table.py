"""The table of endpoints beside those for answers of models: each is a row.

A row says all that is particular of an endpoint: where clients call it, in whose shape its errors
are, where the model is named, how the body and the answer are taken, which ids it makes and uses,
how usage is read and in which unit it is priced, and what may be repeated. What serves endpoints
reads rows; to add one is a row and a test.

The way of a request:

1. `server/routes.py` finds the row of a path (`PATHS`, `place_of`) and its handler: the row's `way`
   says what serves it (`service.py`). Authentication, allow-lists of addresses and paths, and the
   content type are those of every route.
2. What serves the row makes an `EndpointCall` (`call.py`): the row, the caller, the record.
   `EndpointExchange.resolve` (`exchange.py`) finds the plan of the model as chat does, and leaves
   those of its upstreams that have the endpoint (`vendors.py`, `endpoints` of the configuration);
   `admit` reserves from the limits of the caller.
3. `EndpointExchange.run` asks one account after another by `serving.attempts.Attempts`, as long as
   the row's `repeat` allows. It is given the attempt, which calls one account by `send` and passes
   its answer to `deliver` (`delivery.py`). That of held JSON bodies is in `held.py`; how they are
   sent to an upstream and what is read of its answer is a `Wire` (`wire.py`, `embeddings.py`,
   `rerank.py`).
4. `EndpointCall.settle` records usage and cost (`usage.py`, `pricing.py`); limits are settled with
   the record, as for chat.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from dragoman.config import EndpointName
from dragoman.endpoints import usage as readers
from dragoman.endpoints.usage import Measured

Face = Literal["openai", "anthropic", "google", "cohere", "by_header"]
"""In whose shape errors are. `by_header`: OpenAI's, or Anthropic's if the client sends
`anthropic-version`."""

Way = Literal["held", "relayed", "bound", "socket", "calls"]
"""What serves a row: `held`, a JSON body that is held; `relayed`, a body that is passed on as it
comes; `bound`, what belongs to one account; `socket`, a WebSocket; `calls`, what is posted beside
the sessions of realtime."""

Unit = Literal["tokens", "images", "characters", "seconds", "searches", "requests"]
"""What a price is for. A row without one is free unless requests have a price."""

Repeat = Literal["any_failure", "not_begun", "never"]
"""When another account is asked. `any_failure`: as for chat. `not_begun`: only if the request was
surely not begun, since it creates something. `never`: a change of what one account has."""


Method = Literal["GET", "POST", "PATCH", "DELETE"]


class Row(Struct, frozen=True):
    """One endpoint.

    `path` is the path of clients and, unless it is translated, of upstreams; `{id}`, `{below}` and
    `{model}` stand for parameters. `also` are further paths of clients. `collection` stands before
    the id of a path in the ids themselves. `model` is where the model
    stands, a `default_model` that of requests that name none. `output_limit` is the member that
    limits the output, if there is any. `asks_usage`: a stream reports usage only to those that ask
    for it. `makes` and `uses` are the kinds of ids that answers have and that paths or bodies name.
    `usage` reads what an answer, or the last event of its stream that has any, used; None: nothing
    reports it, and nothing is estimated. `asked` measures the request itself where that is what is
    paid for, or where an answer does not report it.
    """

    path: str
    capability: EndpointName
    usage: Callable[[Mapping[str, Any]], Measured | None] | None
    repeat: Repeat
    method: Method = "POST"
    also: tuple[str, ...] = ()
    collection: str = ""
    face: Face = "openai"
    way: Way = "held"
    model: Literal["json", "field", "query", "path", "session", "id", "none"] = "json"
    default_model: str = ""
    body: Literal["json", "multipart", "raw", "none"] = "json"
    stream: Literal["none", "events", "bytes", "lines", "socket"] = "none"
    takes_secrets: bool = False
    output_limit: str = ""
    asks_usage: bool = False
    makes: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    asked: Callable[[Mapping[str, Any]], Measured] = readers.nothing_asked
    unit: Unit | None = "tokens"

    @property
    def new(self) -> str:
        """The kind of what is made for one account, empty for all other rows."""
        return self.makes[0] if self.way == "bound" and self.model == "none" else ""


_COLLECTIONS: Final[Mapping[str, str]] = {
    "files": "files/",
    "caches": "cachedContents/",
    "batches": "batches/",
}
_BATCHES: Final = "/v1/messages/batches"
_GET: Final[Sequence[Method]] = ("GET",)
_POST: Final[Sequence[Method]] = ("POST",)
_MADE: Final[Sequence[Method]] = ("POST", "GET")
"""Methods of paths at which things are made and listed."""
_SHOWN: Final[Sequence[Method]] = ("GET", "DELETE")
_CHANGED: Final[Sequence[Method]] = ("GET", "POST", "DELETE")


def _bound(
    path: str,
    methods: Sequence[Method],
    capability: EndpointName,
    kind: str = "",
    *,
    face: Face = "openai",
    body: Literal["json", "multipart", "raw"] = "json",
    stream: Literal["none", "bytes", "lines"] = "none",
    also: tuple[str, ...] = (),
) -> Iterator[Row]:
    """Rows of things that one account has for one client: `kind` of what they make, list, show or
    delete, empty for what is below such a thing."""
    for method in methods:
        is_new = method == "POST" and "{id}" not in path
        yield Row(
            path,
            capability,
            None,
            "not_begun" if is_new else "never",
            method=method,
            also=also,
            collection=_COLLECTIONS[capability] if face == "google" else "",
            face=face,
            way="bound",
            model="none" if is_new else "id",
            body=body if method in ("POST", "PATCH") else "none",
            stream=stream,
            makes=(kind,) if kind else (),
            uses=() if is_new else (capability,),
            unit=None,
        )


_COMPLETIONS: Final = Row(
    "/v1/completions",
    "completions",
    readers.of_tokens,
    "any_failure",
    stream="events",
    output_limit="max_tokens",
    asks_usage=True,
)
_RERANK: Final = Row(
    "/v1/rerank",
    "rerank",
    readers.of_rerank,
    "any_failure",
    also=("/rerank", "/v1/reranking"),
    default_model="rerank",
    asked=readers.rerank_asked,
    unit="searches",
)
_EDITS: Final = Row(
    "/v1/images/edits",
    "images",
    readers.of_images,
    "not_begun",
    way="relayed",
    model="field",
    body="multipart",
    stream="events",
    asked=readers.images_asked,
    unit="images",
)
_TRANSCRIPTIONS: Final = replace(
    _EDITS,
    path="/v1/audio/transcriptions",
    capability="transcriptions",
    usage=readers.of_transcription,
    repeat="any_failure",
    asked=readers.audio_asked,
    unit="seconds",
)
_EMBEDDED: Final = Row(
    "/v1beta/models/{model}:embedContent",
    "embeddings",
    readers.of_google,
    "any_failure",
    face="google",
    model="path",
)
_CALLS: Final = Row(
    "/v1/realtime/calls",
    "realtime",
    readers.of_nothing,
    "not_begun",
    way="calls",
    model="session",
    body="multipart",
    takes_secrets=True,
    makes=("call",),
    unit=None,
)
_FILES, _CACHES = "/v1beta/files", "/v1beta/cachedContents"
UPLOADING: Final = next(
    _bound(
        f"/upload{_FILES}?upload_id={{id}}",
        _POST,
        "files",
        "google_file",
        face="google",
        body="raw",
    )
)
"""The row of what follows on the path of an upload, whose id is in the query."""

ROWS: Final[tuple[Row, ...]] = (
    Row("/v1/embeddings", "embeddings", readers.of_tokens, "any_failure"),
    Row(
        "/v1/moderations",
        "moderations",
        readers.of_nothing,
        "any_failure",
        default_model="omni-moderation-latest",
        unit=None,
    ),
    _COMPLETIONS,
    replace(_COMPLETIONS, path="/beta/completions", capability="fim"),
    replace(_COMPLETIONS, path="/v1/fim/completions", capability="fim", asks_usage=False),
    Row(
        "/infill",
        "infill",
        readers.of_llama_cpp,
        "any_failure",
        model="none",
        default_model="infill",
        stream="events",
        output_limit="n_predict",
    ),
    _RERANK,
    replace(_RERANK, path="/v2/rerank", also=(), face="cohere", default_model=""),
    replace(_EDITS, path="/v1/images/generations", way="held", model="json", body="json"),
    _EDITS,
    replace(_EDITS, path="/v1/images/variations", stream="none"),
    _TRANSCRIPTIONS,
    replace(_TRANSCRIPTIONS, path="/v1/audio/translations", stream="none"),
    Row(
        "/v1/audio/speech",
        "speech",
        readers.of_speech,
        "not_begun",
        stream="bytes",
        asked=readers.characters_asked,
        unit="characters",
    ),
    _EMBEDDED,
    replace(_EMBEDDED, path="/v1beta/models/{model}:batchEmbedContents"),
    *_bound("/v1/files", _MADE, "files", "file", face="by_header", body="multipart"),
    *_bound("/v1/files/{id}", _SHOWN, "files", "file", face="by_header"),
    *_bound("/v1/files/{id}/content", _GET, "files", face="by_header", stream="bytes"),
    *_bound("/v1/uploads", _POST, "uploads", "upload"),
    *_bound("/v1/uploads/{id}/parts", _POST, "uploads", body="multipart"),
    *_bound("/v1/uploads/{id}/complete", _POST, "uploads", "upload"),
    *_bound("/v1/uploads/{id}/cancel", _POST, "uploads", "upload"),
    *_bound("/v1/batches", _MADE, "batches", "batch"),
    *_bound("/v1/batches/{id}", _GET, "batches", "batch"),
    *_bound("/v1/batches/{id}/cancel", _POST, "batches", "batch"),
    *_bound(_BATCHES, _MADE, "batches", "message_batch", face="anthropic"),
    *_bound(f"{_BATCHES}/{{id}}", _SHOWN, "batches", "message_batch", face="anthropic"),
    *_bound(f"{_BATCHES}/{{id}}/cancel", _POST, "batches", "message_batch", face="anthropic"),
    *_bound(f"{_BATCHES}/{{id}}/results", _GET, "batches", face="anthropic", stream="lines"),
    *_bound("/v1/conversations", _POST, "conversations", "conversation"),
    *_bound("/v1/conversations/{id}", _CHANGED, "conversations", "conversation"),
    *_bound("/v1/conversations/{id}/{below}", _CHANGED, "conversations"),
    *_bound("/v1/vector_stores", _MADE, "vector_stores", "vector_store"),
    *_bound("/v1/vector_stores/{id}", _CHANGED, "vector_stores", "vector_store"),
    *_bound("/v1/vector_stores/{id}/{below}", _CHANGED, "vector_stores"),
    *_bound("/v1/containers", _MADE, "containers", "container"),
    *_bound("/v1/containers/{id}", _SHOWN, "containers", "container"),
    *_bound("/v1/containers/{id}/files/{below}/content", _GET, "containers", stream="bytes"),
    *_bound("/v1/containers/{id}/{below}", _CHANGED, "containers", body="multipart"),
    *_bound(f"/upload{_FILES}", _POST, "files", "google_file", face="google", body="raw"),
    UPLOADING,
    *_bound(_FILES, _GET, "files", "google_file", face="google"),
    *_bound(
        f"{_FILES}/{{id}}:download",
        _GET,
        "files",
        face="google",
        stream="bytes",
        also=(f"/download{_FILES}/{{id}}:download",),
    ),
    *_bound(f"{_FILES}/{{id}}", _SHOWN, "files", "google_file", face="google"),
    *_bound(_CACHES, _MADE, "caches", "google_cache", face="google"),
    *_bound(f"{_CACHES}/{{id}}", (*_SHOWN, "PATCH"), "caches", "google_cache", face="google"),
    *_bound(
        "/v1beta/models/{model}:batchGenerateContent",
        _POST,
        "batches",
        "google_batch",
        face="google",
    ),
    *_bound("/v1beta/batches", _GET, "batches", "google_batch", face="google"),
    *_bound("/v1beta/batches/{id}:cancel", _POST, "batches", face="google"),
    *_bound("/v1beta/batches/{id}", _SHOWN, "batches", "google_batch", face="google"),
    Row(
        "/v1/realtime",
        "realtime",
        readers.of_nothing,
        "not_begun",
        method="GET",
        way="socket",
        model="query",
        body="none",
        stream="socket",
        takes_secrets=True,
        uses=("call",),
    ),
    replace(
        _CALLS,
        path="/v1/realtime/client_secrets",
        repeat="any_failure",
        body="json",
        takes_secrets=False,
        makes=(),
    ),
    _CALLS,
    *(
        Row(
            f"{_CALLS.path}/{{id}}/{action}",
            "realtime",
            readers.of_nothing,
            "never",
            way="calls",
            model="id",
            uses=("call",),
            unit=None,
        )
        for action in ("accept", "reject", "refer", "hangup")
    ),
)
"""All rows. Counting (`:countTokens`) and `/v1/responses/compact` are served with answers."""


class Place(Struct, frozen=True):
    """Rows that share a path, by their methods, and what a path has for their parameters. `other`
    has those of another vendor, Google, on the same path."""

    rows: Mapping[str, Row]
    parameters: Mapping[str, str] = {}
    other: Place | None = None


def _expression(path: str) -> re.Pattern[str]:
    escaped = re.escape(path).replace(r"\{id\}", "(?P<id>[^/]+)")
    escaped = escaped.replace(r"\{model\}", "(?P<model>.+)")
    escaped = escaped.replace(r"\{below\}", r"(?P<below>[\w/-]+)")
    return re.compile(escaped.replace("/v1beta/", _GOOGLE_VERSIONS, 1))


_GOOGLE_VERSIONS = (
    r"/v1(?:beta1?|alpha)?/(?:projects/[^/]+/locations/[^/]+/)?(?:publishers/[^/]+/)?"
)


def _by_path(rows: Iterable[Row]) -> dict[str, dict[str, Row]]:
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        for path in (row.path, *row.also):
            found.setdefault(path, {})[row.method] = row
    return found


def _patterns(rows: Mapping[str, Mapping[str, Row]]) -> Sequence[_Pattern]:
    return tuple((_expression(path), found) for path, found in rows.items())


def _matching(path: str, patterns: Sequence[_Pattern]) -> Place | None:
    for pattern, rows in patterns:
        if (found := pattern.fullmatch(path)) is not None:
            return Place(rows, found.groupdict())
    return None


_Pattern = tuple[re.Pattern[str], Mapping[str, Row]]
_BY_PATH = _by_path(row for row in ROWS if row.face != "google")
_GOOGLES = _patterns(_by_path(row for row in ROWS if row.face == "google"))
"""Those of Google's paths, which have a version that may be that of other vendors."""

PATHS: Final[Mapping[str, Place]] = {
    path: Place(rows, {}, _matching(path, _GOOGLES))
    for path, rows in _BY_PATH.items()
    if "{" not in path
}
"""The rows of paths without parameters."""

_PATTERNS = _patterns({path: rows for path, rows in _BY_PATH.items() if "{" in path})


def place_of(path: str) -> Place | None:
    """The rows of a path with parameters, or without the version that it should begin with."""
    google = _matching(path, _GOOGLES)
    if (found := _matching(path, _PATTERNS)) is not None:
        return replace(found, other=google)
    if google is not None:
        return google
    return None if path.startswith("/v1/") else PATHS.get(f"/v1{path}")
