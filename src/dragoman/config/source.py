"""The source of a configuration, which several processes read alike at a reload."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from dragoman.config.convert import Lookup
from dragoman.config.errors import ConfigError
from dragoman.config.files import BadFileName, FileText, file_at, read_file
from dragoman.config.load import Loaded, parse_config, read_text, with_files
from dragoman.config.secret import Secret, resolve_secret
from dragoman.config.settings import Config

Stamp = tuple[tuple[int, int, int, int] | None, ...]
"""The identity of some files, to find out whether one was replaced."""


class Source(Struct, frozen=True):
    """The path of a configuration file, and settings that take precedence over its `[server]`."""

    path: str
    server: dict[str, Any] = {}

    def read(self, environ: Mapping[str, str] = os.environ) -> tuple[Snapshot, Loaded]:
        """The present content of the file, and the configuration made from it.

        Raises:
            ConfigError: as `read_config`.
        """
        secrets: dict[str, str] = {}
        files: dict[str, FileText] = {}
        named: list[str] = []
        directory = Path(self.path).parent

        def resolve(reference: str) -> Secret:
            named.append(reference)
            found = resolve_secret(reference, environ=environ, directory=directory)
            secrets[reference] = found.reveal()
            return found

        def read(name: str) -> FileText:
            found = files[name] = read_file(name, directory)
            return found

        snapshot = Snapshot(self, read_text(self.path), secrets, files)
        try:
            return snapshot, snapshot.parse(Lookup(resolve, read))
        except ConfigError as error:
            error.files = (
                *_files_of(named, directory),
                *(file.path for file in files.values()),
            )
            raise


class Snapshot(Struct, frozen=True):
    """The content of a configuration file at one time: its text, the secrets its references stood
    for, and the files that it names, by their names. It makes the same configuration in every
    process, even if the files change."""

    source: Source
    text: str
    secrets: dict[str, str]
    texts: dict[str, FileText]

    def __repr__(self) -> str:
        return f"Snapshot({self.source.path!r}, {self.digest})"

    @property
    def digest(self) -> str:
        """12 hexadecimal digits that distinguish it from others, without showing a secret."""
        digest = hashlib.sha256(b"dragoman.configuration\0" + self.text.encode())
        for reference, value in sorted(self.secrets.items()):
            digest.update(hashlib.sha256(f"{reference}\0{value}".encode()).digest())
        for name, file in sorted(self.texts.items()):
            digest.update(hashlib.sha256(name.encode() + b"\0" + file.text).digest())
        return digest.hexdigest()[:12]

    def parse(self, lookup: Lookup | None = None) -> Loaded:
        """The configuration.

        Raises:
            ConfigError: it cannot be used.
        """
        directory = Path(self.source.path).parent
        loaded = parse_config(
            self.text,
            file=self.source.path,
            directory=directory,
            server=self.source.server,
            lookup=lookup or Lookup(self._resolve, self.texts.__getitem__),
        )
        return with_files(loaded, directory)

    def _resolve(self, reference: str) -> Secret:
        return Secret(self.secrets[reference])

    def files(self, config: Config) -> tuple[str, ...]:
        """The files that the configuration depends on, its own first."""
        return tuple(dict.fromkeys(self._files(config)))

    def _files(self, config: Config) -> Iterator[str]:
        yield self.source.path
        yield from _files_of(self.secrets, Path(self.source.path).parent)
        for path in (config.server.tls_certificate, config.server.tls_key):
            if path is not None:
                yield path
        for file in self.texts.values():
            yield file.path


def _files_of(references: Iterable[str], directory: Path) -> Iterator[str]:
    for reference in references:
        if reference.startswith("file:"):
            with suppress(BadFileName):
                yield os.fspath(file_at(reference[5:], directory))


def stamp(files: tuple[str, ...]) -> Stamp:
    """The present identity of the files. Links are followed, so a link with a new target is a new
    file."""
    return tuple(_stamp(file) for file in files)


def _stamp(file: str) -> tuple[int, int, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
