"""Blocks: the ordered pieces of one turn, in requests and in answers.

A block carries its meaning and, in `path`, where the client wrote it, so that a loss can be
reported in the client's own terms. Opaque payloads (signatures, encrypted reasoning, tool
arguments) are carried as the text they came in and never re-serialised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from dragoman.canonical.losses import LossKind

if TYPE_CHECKING:
    from dragoman.canonical.options import Options


class Base64(Struct, frozen=True):
    """Bytes carried inline. `data` is base64 text as it came, without a data-URL head."""

    media_type: str
    data: str


class Url(Struct, frozen=True):
    """Bytes the upstream is to fetch from an http(s) address."""

    url: str


class FileId(Struct, frozen=True):
    """A handle into one vendor's file store; it means nothing to another vendor.

    `vendor` is whose store it is ("openai", "anthropic"), empty if unknown.
    """

    id: str
    vendor: str = ""


class PlainText(Struct, frozen=True):
    """A document given as text."""

    text: str


class Nested(Struct, frozen=True):
    """A document given as content blocks (text and images)."""

    blocks: tuple[Block, ...]


MediaSource: TypeAlias = Base64 | Url | FileId
DocumentSource: TypeAlias = Base64 | Url | FileId | PlainText | Nested


class CacheMark(Struct, frozen=True):
    """The prompt up to and including this block should be cached.

    `ttl` is the client's word for the lifetime ("5m", "30m", "1h", "12h") or None, `member` the
    member of the block that has the mark.
    """

    ttl: str | None = None
    member: str = "cache_control"


class Opaque(Struct, frozen=True):
    """Reasoning state only its maker can read: a signature or an encrypted payload.

    `origin` names the protocol that made it, or "marker" for a payload of the gateway that merely
    stands in where a client needs a non-empty value. `id` is the maker's item id, if it has one.
    `account` tags the account or organisation the state is bound to, empty if unknown. `anchor` is
    the block on which its maker had it, if that was not the reasoning itself: the `next` of the
    turn, or the `previous` one.
    """

    origin: str
    data: str
    id: str | None = None
    account: str = ""
    anchor: Literal["", "next", "previous"] = ""


class Block(Struct, frozen=True, kw_only=True, gc=False):
    """What all blocks have in common."""

    path: str = ""
    """Where the client wrote the block, for example `messages[2].content[0]`."""
    cache: CacheMark | None = None


class UrlCitation(Struct, frozen=True, kw_only=True):
    """A source cited for a span of a text block.

    `start` and `end` count characters from the beginning of the block (end exclusive);
    both None means the whole block.
    """

    url: str
    title: str = ""
    start: int | None = None
    end: int | None = None
    cited_text: str | None = None


class ForeignCitation(Struct, frozen=True):
    """A citation only its own protocol can express; `raw` is its JSON value."""

    origin: str
    raw: dict[str, Any]


Annotation: TypeAlias = UrlCitation | ForeignCitation


class Text(Block, frozen=True, kw_only=True):
    """Visible text. `phase` is a model's word for the role of a message ("commentary",
    "final_answer"). `logprobs` are token records in the shape both OpenAI protocols share:
    `{token, logprob, bytes, top_logprobs}`.
    """

    text: str
    annotations: tuple[Annotation, ...] = ()
    logprobs: tuple[Any, ...] | None = None
    phase: str | None = None


class Refusal(Block, frozen=True, kw_only=True):
    """The text in which the model declines, where the protocol separates it from other text."""

    text: str


class Image(Block, frozen=True, kw_only=True):
    """A picture. `detail` is auto, low, high or original, None when not given."""

    source: MediaSource
    detail: str | None = None


class Document(Block, frozen=True, kw_only=True):
    """A file the model reads. `title` is a title or file name; `context` is text about the
    document that is not part of it; `citations` asks the model to cite it.
    """

    source: DocumentSource
    title: str | None = None
    context: str | None = None
    citations: bool = False


class Audio(Block, frozen=True, kw_only=True):
    """Recorded sound: base64 `data` in `format` (wav, mp3)."""

    data: str
    format: str


class Media(Block, frozen=True, kw_only=True):
    """A film, or a recording that is no `Audio`: of another format, or at an address. `media_type`
    is empty if it is not known.
    """

    source: MediaSource
    media_type: str


class SearchResult(Block, frozen=True, kw_only=True):
    """A search hit given to the model as content."""

    source: str
    title: str
    content: tuple[Text, ...]
    citations: bool = False


class Reasoning(Block, frozen=True, kw_only=True):
    """What the model thought.

    `parts` are the readable pieces in order (several summary parts, or one thinking text);
    empty when nothing readable was given. `style` says whether the text is a summary the
    vendor made or the raw reasoning. `redacted` marks reasoning withheld by the vendor, of
    which only `opaque` exists.
    """

    parts: tuple[str, ...] = ()
    style: Literal["summary", "raw"] = "summary"
    opaque: Opaque | None = None
    redacted: bool = False

    @property
    def text(self) -> str:
        """All parts, joined by a blank line."""
        return "\n\n".join(self.parts)


class ToolCall(Block, frozen=True, kw_only=True):
    """The model's request to run a tool.

    `arguments` is JSON text for a function tool, exactly as it came, and free text when
    `custom` is true. `namespace` is the group the tool was declared in, if any, and `form` the
    client's own type of a tool that is a function only to others.
    """

    id: str
    name: str
    arguments: str = ""
    custom: bool = False
    namespace: str | None = None
    form: str | None = None


class ToolReference(Block, frozen=True, kw_only=True):
    """Names a deferred tool that a tool search found."""

    name: str
    namespace: str | None = None


class ToolResult(Block, frozen=True, kw_only=True):
    """What running a tool gave. `is_error` is None where the protocol has no flag for it."""

    call_id: str
    content: tuple[Block, ...] = ()
    is_error: bool | None = None
    custom: bool = False


class WebSearch(Block, frozen=True, kw_only=True):
    """A search of the web that the model's vendor made. `sources` are the URLs that were found;
    the text of the pages is known to the vendor alone. `found` are the pages, with excerpts, where
    the gateway searched.
    """

    query: str = ""
    sources: tuple[str, ...] = ()
    failed: bool = False
    found: tuple[UrlCitation, ...] = ()


class Foreign(Block, frozen=True, kw_only=True):
    """A block only its own protocol can express.

    `origin` names the protocol, `type` the wire type, `raw` the whole JSON value. `loss` is
    the kind of loss if it is left out. `means` is its equivalent for other protocols on routes that
    map hosted tools: nothing by itself if empty (another block has it), unknown if None. `text` is
    the readable text in it, which other protocols are given in its place.
    """

    origin: str
    type: str
    raw: Any
    loss: LossKind = LossKind.CONTENT
    text: str = ""
    means: tuple[WebSearch, ...] | None = None

    def loss_on(self, route: Options) -> LossKind:
        """The kind of loss on this route: of a search that is mapped, the text after it remains."""
        mapped = self.means is not None and route.maps_searches
        return LossKind.KNOB if mapped else self.loss
