"""The fields of an account, and changes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import NODEFAULT
from msgspec.structs import replace

from dragoman.config import Account
from dragoman.config.settings import PLACES
from dragoman.operations.inputs import Changes, changes_of, given
from dragoman.upstream.proxies import parse_proxy

_CONFIGURED = frozenset({"limits", "credentials", *PLACES})

FIELDS = {
    info.name: info for info in msgspec.structs.fields(Account) if info.name not in _CONFIGURED
}
"""The fields of an account in the store, by name, in order: limits, credentials and places are of
accounts of the configuration."""

SECRETS = ("key", "headers", "proxy")
"""Fields that are stored encrypted and never shown."""

_LARGEST = 2**31 - 1


class _AccountChanges(Changes, frozen=True, kw_only=True):
    """Fields of an account that are set; the others stay as they are, or get their defaults if the
    account is new."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields that are set, `name` among them, with their values."""
        set_fields = given(self)
        values = {
            name: _default(FIELDS[name]) if value is None else value
            for name, value in set_fields.items()
        }
        return {"name": self.name, **values}

    def account(self) -> Account:
        """A new account.

        Raises:
            KeyError: `upstream` is not set.
        """
        return Account(**{"upstream": self.fields["upstream"], **self.fields})

    def changed(self, account: Account) -> Account:
        """`account` with these fields instead of its own."""
        return replace(account, **self.fields)

    @classmethod
    def check_field(cls, name: str, value: Any) -> str:
        """What is wrong with the value of a field that its type does not say."""
        if name in ("priority", "max_concurrent") and value is not None and abs(value) > _LARGEST:
            return f"at most {_LARGEST}"
        if name == "proxy" and value is not None:
            try:
                parse_proxy(value.reveal())
            except ValueError:
                return "not the URL of a proxy (http, https, socks5 or socks5h)"
        return ""


AccountChanges: Any = changes_of(
    Account,
    "AccountChanges",
    {
        "upstream": "Name of its upstream.",
        "models": "Model it serves; repeatable.",
        "priority": "Lower ones are used first.",
        "weight": 'Share, with selection = "weighted".',
        "max_concurrent": "Requests at once, over all workers.",
        "balance": "Tokens left.",
        "proxy": "Proxy; with a password only as env: or file:.",
        "headers": "Header to send; secrets only as env: or file:; repeatable.",
        "key": "Where to read the key; - is standard input. It is stored, not the reference.",
    },
    _AccountChanges,
    left_out=_CONFIGURED,
)
"""The input of operations that add or change an account."""


def _default(info: msgspec.structs.FieldInfo) -> Any:
    if info.default_factory is not NODEFAULT:
        return info.default_factory()
    return info.default
