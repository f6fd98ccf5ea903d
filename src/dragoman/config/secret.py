"""Secrets: values that are used but never shown."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from dragoman.config.files import BadFileName, file_at, read_bytes


class SecretError(ValueError):
    """A reference to a secret cannot be resolved. The message never contains the secret."""


class Secret:
    """A value that is not shown by `repr`, `str`, f-strings or tracebacks.

    `reveal()` is the only access to the text, so a search for it finds every use. Secrets are
    compared in constant time. They cannot be pickled or encoded as JSON.
    """

    __slots__ = ("_path", "_value")

    def __init__(self, value: str, path: Path | None = None) -> None:
        """`path` is the file that it was read from, None for none."""
        self._value = value
        self._path = path

    def reveal(self) -> str:
        """The text itself."""
        return self._value

    def reread(self) -> str:
        """The text as its file has it now; as it was if that is empty, or cannot be read."""
        now = ""
        if self._path is not None:
            with suppress(OSError, UnicodeDecodeError):
                now = self._path.read_text(encoding="utf-8").strip()
        return now or self.reveal()

    def __repr__(self) -> str:
        return "Secret(...)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a secret cannot be pickled")


class UnavailableSecret(Secret):
    """A secret whose reference could not be resolved: `reveal` raises a `SecretError` with the
    reason. It equals only itself."""

    __slots__ = ()

    def reveal(self) -> str:
        """Raises `SecretError` with the reason."""
        raise SecretError(self._value)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def fingerprint(secret: Secret | None) -> str:
    """16 hexadecimal digits that distinguish one key from another without showing it; empty for no
    key."""
    if secret is None:
        return ""
    return hashlib.sha256(b"dragoman.key\0" + secret.reveal().encode()).hexdigest()[:16]


def resolve_secret(reference: str, *, environ: Mapping[str, str], directory: Path) -> Secret:
    """Resolve `env:NAME`, `file:PATH` or a literal to the secret it names.

    A relative `PATH` starts at `directory`, the folder of the configuration file. White space
    around the content of a file or variable is removed: files usually end in a newline.

    Raises:
        SecretError: the variable is not set, the file cannot be read, or the value is empty or
            has characters that an HTTP header cannot contain.
    """
    path = None
    if reference.startswith("env:"):
        name = reference[4:]
        value = environ.get(name)
        if value is None:
            raise SecretError(f"environment variable {name} is not set")
        source = f"environment variable {name}"
    elif reference.startswith("file:"):
        try:
            path = file_at(reference[5:], directory)
        except BadFileName as error:
            raise SecretError(str(error)) from None
        try:
            value = read_bytes(path).decode()
        except OSError as error:
            raise SecretError(f"cannot read {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise SecretError(f"{path} is not UTF-8 text") from None
        source = str(path)
    else:
        value, source = reference, "the value"
    value = value.strip()
    if not value:
        raise SecretError(f"{source} is empty")
    if not (value.isascii() and value.isprintable()):
        raise SecretError(f"{source} has characters that an HTTP header cannot carry")
    return Secret(value, path)


def resolve_later(reference: str, *, environ: Mapping[str, str], directory: Path) -> Secret:
    """`resolve_secret`, with an `UnavailableSecret` for a reference that cannot be resolved."""
    try:
        return resolve_secret(reference, environ=environ, directory=directory)
    except SecretError as error:
        return UnavailableSecret(str(error))
