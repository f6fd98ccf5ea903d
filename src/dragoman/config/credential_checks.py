"""Checks of the credentials of accounts, and of what their base URLs need of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from dragoman.config.aws_hosts import region_and_name
from dragoman.config.credentials import AwsCredentials
from dragoman.config.settings import PLACES, Account, Upstream

_PLACE = re.compile(rf"\{{({'|'.join(PLACES)})\}}")

_Fault = tuple[tuple[str, ...], str]


def credential_faults(account: Account, upstream: Upstream) -> Iterator[_Fault]:
    """What is wrong with how an account's requests to its upstream are authorised."""
    if account.key is not None and account.credentials is not None:
        yield ("credentials",), "excludes key: set one of them"
    url = account.base_url(upstream)
    for name in dict.fromkeys(_PLACE.findall(url)):
        message = f"required: the base_url of {upstream.name} has {{{name}}}"
        yield (name,), message
    if isinstance(account.credentials, AwsCredentials) and "{" not in url:
        yield from _scope_faults(account, account.credentials, urlsplit(url).hostname or "")


def _scope_faults(account: Account, settings: AwsCredentials, host: str) -> Iterator[_Fault]:
    """What is wrong with the region and service that signatures are for."""
    region, name = region_and_name(host)
    if not (account.region or region):
        yield ("region",), f"required: it does not follow from {host}"
    elif account.region and region and account.region != region:
        yield ("region",), f"differs from that of {host}: {region}"
    if not (settings.signing_name or name):
        yield ("credentials", "signing_name"), f"required: it does not follow from {host}"
    elif settings.signing_name and name and settings.signing_name != name:
        yield ("credentials", "signing_name"), f"differs from that of {host}: {name}"
