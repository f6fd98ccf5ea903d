"""Checks of the credentials of accounts, and of what their base URLs need of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from dragoman.config.aws_hosts import region_and_name
from dragoman.config.credentials import (
    AwsCredentials,
    AzureCredentials,
    CommandCredentials,
    OAuthCredentials,
    signs,
)
from dragoman.config.settings import PLACES, Account, Storage, Upstream

_PLACE = re.compile(rf"\{{({'|'.join(PLACES)})\}}")

_Fault = tuple[tuple[str, ...], str]


def credential_faults(account: Account, upstream: Upstream, storage: Storage) -> Iterator[_Fault]:
    """What is wrong with how an account's requests to its upstream are authorised."""
    if account.key is not None and account.credentials is not None:
        yield ("credentials",), "excludes key: set one of them"
    url = account.base_url(upstream)
    for name in dict.fromkeys(_PLACE.findall(url)):
        message = f"required: the base_url of {upstream.name} has {{{name}}}"
        yield (name,), message
    settings = account.credentials
    if isinstance(settings, AwsCredentials):
        yield from _aws_faults(settings)
    elif isinstance(settings, AzureCredentials):
        given = [name for name in _PROOFS if getattr(settings, name) is not None]
        if len(given) > 1:
            yield ("credentials", given[1]), f"excludes {given[0]}: set one of them"
    elif isinstance(settings, CommandCredentials | OAuthCredentials):
        yield from token_faults(settings, storage)
    if settings is None or "{" in url:
        return
    if isinstance(settings, AwsCredentials) or signs(settings):
        yield from _scope_faults(account, settings, urlsplit(url).hostname or "")


def token_faults(
    settings: CommandCredentials | OAuthCredentials, storage: Storage
) -> Iterator[_Fault]:
    """What is wrong with how tokens are obtained that are sent as they are."""
    if isinstance(settings, CommandCredentials):
        if not settings.command:
            yield ("credentials", "command"), "has no program"
        return
    yield from _oauth_faults(settings)
    keeps = storage.key is not None and (storage.path != "" or storage.url is not None)
    if settings.grant == "refresh_token" and not keeps:
        message = "refresh_token needs a [storage] with a key, for what replaces the token"
        yield ("credentials", "grant"), message


_PROOFS = ("client_secret", "certificate", "token_file")
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def _aws_faults(settings: AwsCredentials) -> Iterator[_Fault]:
    id, secret = settings.access_key_id, settings.secret_access_key
    if (id is None) is not (secret is None):
        missing = "access_key_id" if id is None else "secret_access_key"
        yield ("credentials", missing), "required: an access key has both"
    if id is not None and settings.profile is not None:
        yield ("credentials", "profile"), "excludes access_key_id: set one of them"


def _oauth_faults(settings: OAuthCredentials) -> Iterator[_Fault]:
    parts = urlsplit(settings.token_url)
    is_here = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if not is_here and (parts.scheme != "https" or not parts.hostname):
        yield ("credentials", "token_url"), "expected an https address, or one of this machine"
    if settings.grant == "refresh_token" and settings.refresh_token is None:
        yield ("credentials", "refresh_token"), "required by grant refresh_token"
    if settings.grant in ("jwt_bearer", "token_exchange") and settings.token_file is None:
        yield ("credentials", "token_file"), f"required by grant {settings.grant}"
    if settings.client_auth == "private_key_jwt" and settings.private_key is None:
        yield ("credentials", "private_key"), "required by client_auth private_key_jwt"
    if settings.client_auth == "private_key_jwt" and settings.client_id is None:
        yield ("credentials", "client_id"), "required by client_auth private_key_jwt"


def _scope_faults(
    account: Account, settings: AwsCredentials | CommandCredentials, host: str
) -> Iterator[_Fault]:
    """What is wrong with the region and service that signatures are for."""
    region, name = region_and_name(host)
    if not (account.region or region):
        yield ("region",), f"required: it does not follow from {host}"
    elif account.region and region and account.region != region:
        yield ("region",), f"differs from that of {host}: {region}"
    if not signs(settings):
        return
    if not (settings.signing_name or name):
        yield ("credentials", "signing_name"), f"required: it does not follow from {host}"
    elif settings.signing_name and name and settings.signing_name != name:
        yield ("credentials", "signing_name"), f"differs from that of {host}: {name}"
