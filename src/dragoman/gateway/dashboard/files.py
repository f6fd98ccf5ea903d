"""The files of the dashboard, read once and kept packed.

`index.html` names the others below `/ui/a/DIGEST/`, where the digest is over all of them: a browser
may keep those for ever, and asks for the page itself each time.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

FOLDER = Path(__file__).with_name("static")
PAGE = "index.html"

_PLACE = b"{assets}"
"""What stands in the page for the path of the other files."""

_MEDIA = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
}


class File(Struct, frozen=True):
    """One file: its bytes, the same packed with gzip, and their content type."""

    body: bytes
    packed: bytes
    media: bytes


class Files(Struct, frozen=True):
    """The page, and the other files by their paths below `/ui/`."""

    page: File
    assets: dict[str, File]


@cache
def load_files() -> Files:
    """The files of the package."""
    found = dict(_read(FOLDER))
    digest = hashlib.sha256()
    for name, body in sorted(found.items()):
        digest.update(f"{name}\0{len(body)}\0".encode() + body)
    at = f"a/{digest.hexdigest()[:16]}"
    page = found.pop(PAGE).replace(_PLACE, f"/ui/{at}".encode())
    assets = {f"{at}/{name}": _file(name, body) for name, body in found.items()}
    return Files(_file(PAGE, page), assets)


def _read(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        if path.suffix in _MEDIA:
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def _file(name: str, body: bytes) -> File:
    return File(body, gzip.compress(body, 9, mtime=0), _MEDIA[Path(name).suffix])
