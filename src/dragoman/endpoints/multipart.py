"""Where the parts of a `multipart/form-data` body are (RFC 7578), found while it passes.

Nothing is decoded but the values of the fields that are wanted. What two readers could take for
different parts is refused, so that no field is seen by the upstream and not here: a second field of
a wanted name, a boundary that stands anywhere but at the beginning of a line, a name with escapes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

MOST_PARTS = 1000
MOST_HEAD_BYTES = 16 * 1024
LONGEST_BOUNDARY = 70

_PLAIN_ENCODINGS = (b"7bit", b"8bit", b"binary")
_PARAMETER = rb';\s*([^\s=;"]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))\s*'
_PARAMETERS = re.compile(rb"\s*([^\s;]+)\s*((?:%b)*);?\s*" % _PARAMETER, re.DOTALL)
_EACH = re.compile(_PARAMETER, re.DOTALL)
_BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,./:=? -]*[0-9A-Za-z'()+_,./:=?-]")


class BadMultipart(ValueError):
    """A body is no `multipart/form-data` that all would read alike. Says what is wrong."""


class Part(Struct):
    """One part. `name` is in lower case, without brackets behind it. `start` and `end` are the
    offsets of its content in the body, `end` -1 until it is there; `value` is the content of a
    field that is wanted. `filename` is None for fields."""

    name: str
    filename: str | None
    start: int
    end: int = -1
    value: bytes = b""


class MultipartScanner:
    """Scans one body, piece by piece. `parts` are those that have begun, `fields` the wanted ones
    that are whole, by name; `ended` says that the last boundary came."""

    __slots__ = (
        "_before",
        "_content",
        "_delimiter",
        "_in_head",
        "_offset",
        "_rest",
        "_wanted",
        "ended",
        "fields",
        "parts",
    )

    def __init__(self, boundary: bytes, wanted: Mapping[str, int]) -> None:
        """
        Args:
            boundary: as in the content type.
            wanted: the names of the fields that are wanted, with the most bytes of each.
        """
        self._delimiter = b"--" + boundary
        self._wanted = wanted
        self._offset = 0
        """Offset in the body of the first byte of `_rest`, and then of what is fed."""
        self._rest = b""
        """What was not scanned yet: a head, or the beginning of a boundary."""
        self._before = b"\r\n"
        """The two bytes before these. A body may begin with a boundary."""
        self._in_head = False
        self._content: bytearray | None = None
        """The content so far of a wanted part."""
        self.parts: list[Part] = []
        self.fields: dict[str, Part] = {}
        self.ended = False

    def feed(self, data: bytes) -> None:
        """Scan the next piece, before it is passed on.

        Raises:
            BadMultipart: nothing more of the body may be passed on.
        """
        if self._rest:
            data = self._rest + data
        at = 0
        while True:
            found = self._end_of_head(data, at) if self._in_head else self._end_of_part(data, at)
            if found < 0:
                break
            at = found
        if not self._in_head:
            at = self._skip(data, at)
        self._rest = data[at:]
        self._before = data[at - 2 : at] if at >= 2 else (self._before + data[:at])[-2:]
        self._offset += at

    def finish(self) -> None:
        """The body has ended.

        Raises:
            BadMultipart: before its last boundary.
        """
        if not self.ended:
            raise BadMultipart("it ends before its last boundary")

    def _end_of_part(self, data: bytes, at: int) -> int:
        """Where the next boundary ends, -1 if there is none yet."""
        found = data.find(self._delimiter, at)
        if found < 0:
            return -1
        before = data[found - 2 : found] if found >= 2 else (self._before + data[:found])[-2:]
        if self.ended or before != b"\r\n":
            raise BadMultipart("its boundary stands within a part")
        if self.parts:
            part = self.parts[-1]
            part.end = self._offset + found - 2
            if part.end < part.start:
                raise BadMultipart("a part has no content, not even an empty one")
            if self._content is not None:
                self._add_content(self._content, data[at:found])
                part.value = bytes(self._content[:-2])
                self.fields[part.name] = part
                self._content = None
        self._in_head = True
        return found + len(self._delimiter)

    def _skip(self, data: bytes, at: int) -> int:
        """Scan content up to where a boundary may have begun. Returns where that is."""
        delimiter = self._delimiter
        begin = data.find(b"-", max(at, len(data) - len(delimiter) + 1))
        while begin >= 0 and not delimiter.startswith(data[begin:]):
            begin = data.find(b"-", begin + 1)
        end = len(data) if begin < 0 else begin
        if self._content is not None:
            self._add_content(self._content, data[at:end])
        return end

    def _add_content(self, content: bytearray, data: bytes) -> None:
        content += data
        name = self.parts[-1].name
        if len(content) > self._wanted[name] + 2:
            raise BadMultipart(f"its field {name} is too long")

    def _end_of_head(self, data: bytes, at: int) -> int:
        """Where the head of a part ends that begins behind a boundary, -1 if it is not there yet.
        Behind the last boundary, `at`."""
        if data.startswith(b"--", at):
            self.ended, self._in_head = True, False
            return at + 2
        end = data.find(b"\r\n\r\n", at)
        size = (len(data) if end < 0 else end) - at
        if size > MOST_HEAD_BYTES:
            raise BadMultipart(f"the head of a part is longer than {MOST_HEAD_BYTES} bytes")
        if end < 0:
            return -1
        if len(self.parts) == MOST_PARTS:
            raise BadMultipart(f"it has more than {MOST_PARTS} parts")
        name, filename = _named(data[at:end])
        if name in self._wanted:
            if filename is not None or any(part.name == name for part in self.parts):
                raise BadMultipart(f"its field {name} stands there twice, or is a file")
            self._content = bytearray()
        self.parts.append(Part(name, filename, self._offset + end + 4))
        self._in_head = False
        return end + 4


def boundary_of(content_type: bytes) -> bytes | None:
    """The boundary that a content type gives; None if it is not `multipart/form-data`.

    Raises:
        BadMultipart: it gives none that can be used.
    """
    media = content_type.partition(b";")[0].strip().lower()
    if media != b"multipart/form-data":
        return None
    boundary = _parameters(content_type)[1].get(b"boundary", b"")
    if len(boundary) > LONGEST_BOUNDARY or not _BOUNDARY.fullmatch(boundary):
        raise BadMultipart(f"its boundary is missing, or longer than {LONGEST_BOUNDARY} characters")
    return boundary


def _named(head: bytes) -> tuple[str, str | None]:
    """The name of a part and of its file, by the lines behind its boundary."""
    first, *lines = head.split(b"\r\n")
    if first.strip(b" \t"):
        raise BadMultipart("something stands behind its boundary")
    headers: dict[bytes, bytes] = {}
    for line in lines:
        header, colon, value = line.partition(b":")
        if not colon or header != header.strip() or b"\n" in line or b"\r" in line:
            raise BadMultipart("the head of a part has a line that is no header")
        header = header.lower()
        if header in headers:
            raise BadMultipart("the head of a part has a header twice")
        headers[header] = value
    encoding = headers.get(b"content-transfer-encoding", b"binary").strip().lower()
    if encoding not in _PLAIN_ENCODINGS:
        raise BadMultipart("a part has a transfer encoding")
    kind, found = _parameters(headers.get(b"content-disposition", b"none"))
    name = found.get(b"name")
    if kind != b"form-data" or name is None or b"name*" in found or b"\\" in name:
        raise BadMultipart("a part has no name, or one with escapes")
    filename = found.get(b"filename", found.get(b"filename*"))
    # Some read `model[]`, or another case, as `model`.
    plain = name.decode("utf-8", "replace").strip().removesuffix("[]").lower()
    return plain, None if filename is None else filename.decode("utf-8", "replace")


def _parameters(value: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """What stands first in a header, and its parameters, by lower-case name."""
    whole = _PARAMETERS.fullmatch(value)
    if whole is None:
        raise BadMultipart("a header's parameters are malformed")
    found: dict[bytes, bytes] = {}
    for match in _EACH.finditer(whole.group(2)):
        name, quoted, plain = match.groups()
        name = name.lower()
        if name in found:
            raise BadMultipart("a header has a parameter twice")
        found[name] = plain if quoted is None else quoted
    return whole.group(1).lower(), found
