"""The files of the dashboard, as they are served.

`index.html` refers to the others below `/ui/a/DIGEST/`, where the digest is computed over all of
them, so a browser may cache those indefinitely and revalidates only the page.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from dragoman.dashboard import PATH

FOLDER: Final = Path(__file__).with_name("static")
PAGE: Final = "index.html"
_SCRIPTS = frozenset({"app.js", "theme.js"})
"""What the page loads by itself."""

Headers = list[tuple[bytes, bytes]]

_ASSETS = f"{PATH}/a/"
_ASSETS_MARK = b"{assets}"
"""What `index.html` contains where the path of the other files belongs."""

_MODULES_MARK = b"{modules}"
"""What it contains where the links belong that make browsers load all modules at once, instead of
one after the other as they import one another."""

_MEDIA_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
}
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Headers = [
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"permissions-policy",
        b"clipboard-write=(self), camera=(), microphone=(), geolocation=()",
    ),
    (b"vary", b"accept-encoding"),
]


class File(Struct, frozen=True):
    """One file: its bytes, the same compressed with gzip, its media type and its headers."""

    body: bytes
    compressed: bytes
    media_type: bytes
    headers: Headers


class Files(Struct, frozen=True):
    """The page, and the other files by their whole paths."""

    page: File
    assets: dict[str, File]

    def find(self, path: str) -> File | None:
        """The file at `path`, None if there is none. Any path below `/ui` that is not that of an
        asset is the page, whose script chooses the screen."""
        return self.assets.get(path) if path.startswith(_ASSETS) else self.page


@cache
def load_files() -> Files:
    """The files of the package, read once."""
    contents = dict(_read(FOLDER))
    digest = hashlib.sha256()
    for name, body in sorted(contents.items()):
        digest.update(f"{name}\0{len(body)}\0".encode() + body)
    folder = f"{_ASSETS}{digest.hexdigest()[:16]}"
    page = contents.pop(PAGE).replace(_MODULES_MARK, _module_links(contents))
    page = page.replace(_ASSETS_MARK, folder.encode())
    return Files(
        _file(PAGE, page, b"no-cache"),
        {
            f"{folder}/{name}": _file(name, body, b"public, max-age=31536000, immutable")
            for name, body in contents.items()
        },
    )


def _module_links(names: Iterable[str]) -> bytes:
    modules = sorted(name for name in names if name.endswith(".js") and name not in _SCRIPTS)
    return "\n".join(
        f'<link rel="modulepreload" href="{_ASSETS_MARK.decode()}/{name}">' for name in modules
    ).encode()


def _read(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        if path.suffix in _MEDIA_TYPES:
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def _file(name: str, body: bytes, caching: bytes) -> File:
    return File(
        body,
        gzip.compress(body, 9, mtime=0),
        _MEDIA_TYPES[Path(name).suffix],
        [*_HEADERS, (b"cache-control", caching)],
    )
