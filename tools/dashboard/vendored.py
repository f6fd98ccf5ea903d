"""``python -m tools.dashboard.vendored``: fetch the libraries of the dashboard from npm, anew.

They are kept as they are published, but that an import of one by another names its file, since a
page whose policy allows no inline script can have no import map. `vendored.json` beside the files
says which versions they are, under which licences, and the digests of what is kept.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
import tarfile
import urllib.request

from msgspec import Struct

from dragoman.dashboard.files import FOLDER

KEPT = FOLDER / "vendor"
RECORD = KEPT / "vendored.json"
_REGISTRY = "https://registry.npmjs.org"
_IMPORT = re.compile(r'(from\s?)"([^".][^"]*)"')


class Library(Struct, frozen=True):
    """A package of npm: its version, and the file of it that is kept under which name."""

    package: str
    version: str
    file: str
    kept: str


LIBRARIES = (
    Library("preact", "11.2.0", "dist/preact.mjs", "preact.js"),
    Library("preact", "11.2.0", "hooks/dist/hooks.mjs", "hooks.js"),
    Library("@preact/signals-core", "1.14.5", "dist/signals-core.mjs", "signals-core.js"),
    Library("@preact/signals", "2.11.4", "dist/signals.mjs", "signals.js"),
    Library("htm", "3.1.1", "dist/htm.mjs", "htm.js"),
)
_NAMES = {
    "preact": "./preact.js",
    "preact/hooks": "./hooks.js",
    "@preact/signals-core": "./signals-core.js",
}


def digest(text: bytes) -> str:
    """The digest of a file, as it is recorded."""
    return hashlib.sha256(text).hexdigest()


def main() -> None:
    """Fetch and write all of them."""
    KEPT.mkdir(parents=True, exist_ok=True)
    record = {}
    for library in LIBRARIES:
        members = _package(library)
        licence = json.loads(members["package.json"])["license"]
        text = _linked(members[library.file].decode())
        (KEPT / library.kept).write_text(text)
        record[library.kept] = {
            "package": library.package,
            "version": library.version,
            "licence": licence,
            "sha256": digest(text.encode()),
        }
        notice = next(text for name, text in members.items() if name.lower().startswith("license"))
        (KEPT / f"{library.package.replace('/', '-').lstrip('@')}.LICENSE").write_bytes(notice)
    RECORD.write_text(json.dumps(record, indent=2) + "\n")
    sys.stdout.write(f"{len(record)} files\n")


def _package(library: Library) -> dict[str, bytes]:
    """The files of a package by their names."""
    short = library.package.rpartition("/")[2]
    url = f"{_REGISTRY}/{library.package}/-/{short}-{library.version}.tgz"
    with urllib.request.urlopen(url, timeout=60) as answer:
        packed = io.BytesIO(answer.read())
    found = {}
    with tarfile.open(fileobj=packed) as archive:
        for member in archive:
            opened = archive.extractfile(member) if member.isfile() else None
            if opened is not None:
                found[member.name.partition("/")[2]] = opened.read()
    return found


def _linked(text: str) -> str:
    """A module whose imports name files, and which names no map of its source."""
    text = _IMPORT.sub(lambda found: f'{found[1]}"{_NAMES[found[2]]}"', text)
    return re.sub(r"\n?//# sourceMappingURL=.*\s*$", "\n", text)


if __name__ == "__main__":
    main()
