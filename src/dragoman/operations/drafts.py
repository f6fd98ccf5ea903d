"""Accounts as somebody writes them down: fields that are set, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.config import Account, Secret, SecretError
from dragoman.config.convert import Converter, Resolve, dotted, suggestion
from dragoman.printable import printable
from dragoman.upstream.proxies import parse_proxy

FIELDS = {info.name: info for info in msgspec.structs.fields(Account)}
"""The fields of an account, by name, in order."""

SECRETS = ("key", "headers", "proxy")
"""Fields that are kept encrypted and never shown."""

_LARGEST = 2**31 - 1
_LONGEST_SHOWN = 60


class FieldError(Struct, frozen=True):
    """What is wrong with one field. The message repeats no secret."""

    field: str
    message: str


class Draft(Struct, frozen=True):
    """The fields of an account that were set, with their values; the others stay as they are, or
    get their defaults if the account is new. `name` is always among them."""

    fields: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The account's name."""
        name: str = self.fields["name"]
        return name

    def account(self) -> Account:
        """A new account.

        Raises:
            KeyError: `upstream` is not set.
        """
        return Account(**{"upstream": self.fields["upstream"], **self.fields})

    def changed(self, account: Account) -> Account:
        """`account` with these fields instead of its own."""
        return replace(account, **self.fields)


class InvalidDraft(ValueError):
    """A draft cannot be used; `faults` names every field that is wrong."""

    def __init__(self, faults: tuple[FieldError, ...]) -> None:
        self.faults = faults
        super().__init__("; ".join(f"{fault.field}: {fault.message}" for fault in faults))


def read_draft(values: Mapping[str, object], resolve: Resolve) -> Draft:
    """Check `values` by the types of `dragoman.config.Account`; None resets a field to its
    default. `resolve` turns a reference or literal into the secret.

    Raises:
        InvalidDraft: with every fault that was found.
    """
    faults: list[FieldError] = []
    fields: dict[str, Any] = {}
    for name, value in values.items():
        info = FIELDS.get(name)
        if info is None:
            faults.append(
                FieldError(shortened(name), f"no such field{suggestion(name[:64], FIELDS)}")
            )
        elif value is None:
            if info.required:
                faults.append(FieldError(name, "required"))
            else:
                fields[name] = _default(info)
        else:
            try:
                fields[name] = converted(value, info.type, name, resolve=resolve)
                faults += _check_value(name, fields[name])
            except InvalidDraft as error:
                faults += error.faults
    if "name" not in values:
        faults.append(FieldError("name", "required"))
    if faults:
        raise InvalidDraft(tuple(faults))
    return Draft(fields)


def converted(value: object, kind: Any, *at: str, resolve: Resolve = Secret) -> Any:
    """`value`, which somebody wrote into the field `at`, as the type `kind`.

    Raises:
        InvalidDraft: with every fault that was found.
    """
    converter = Converter(resolve)
    found = converter.convert(value, kind, at)
    if converter.faults:
        faults = converter.faults
        raise InvalidDraft(tuple(FieldError(shortened(dotted(one)), told) for one, told in faults))
    return found


def literal_secret(value: str) -> Secret:
    """The secret that is written out in full. A reference is refused: a remote caller must not
    be able to not have this machine's variables and files read to an upstream.

    Raises:
        SecretError: it is a reference, empty, or has characters no header can carry.
    """
    if value.startswith(("env:", "file:")):
        raise SecretError("a reference is not followed here: send the value itself")
    value = value.strip()
    if not value:
        raise SecretError("the value is empty")
    if not (value.isascii() and value.isprintable()):
        raise SecretError("the value has characters that an HTTP header cannot carry")
    return Secret(value)


def shortened(text: str) -> str:
    """Text of somebody else's, on one line and short enough to be shown."""
    return printable(text, _LONGEST_SHOWN)


def _default(info: msgspec.structs.FieldInfo) -> Any:
    if info.default_factory is not msgspec.NODEFAULT:
        return info.default_factory()
    return info.default


def _check_value(name: str, value: Any) -> list[FieldError]:
    """What types do not say."""
    if name in ("priority", "max_concurrent") and abs(value) > _LARGEST:
        return [FieldError(name, f"at most {_LARGEST}")]
    if name == "proxy":
        try:
            parse_proxy(value.reveal())
        except ValueError:
            return [FieldError(name, "not the URL of a proxy (http, https, socks5 or socks5h)")]
    return []
