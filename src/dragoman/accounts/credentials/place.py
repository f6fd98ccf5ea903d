"""For what and when a credential is obtained."""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec import Struct

from dragoman.accounts.credentials.decide.signing import Scope
from dragoman.config import Account, Secret, Upstream
from dragoman.config.aws_hosts import region_and_name
from dragoman.config.credentials import Credentials, signs


class Place(Struct, frozen=True):
    """What the requests of an account are sent to. `style` is how a key of its upstream is sent, as
    `auth_header` has it; `region` is the account's own, which may be empty; `proxy` is the one
    through which credentials are obtained."""

    url: str
    style: str = "bearer"
    region: str = ""
    proxy: Secret | None = None

    @property
    def host(self) -> str:
        """The host that is called."""
        return urlsplit(self.url).hostname or ""

    @property
    def signing_region(self) -> str:
        """The region of AWS; it may be empty."""
        return self.region or region_and_name(self.host)[0]

    def scope(self, settings: Credentials) -> Scope | None:
        """What signatures are valid for; None if requests are not signed."""
        if not signs(settings):
            return None
        name = settings.signing_name or region_and_name(self.host)[1]
        return Scope(self.signing_region, name)


def place_of(account: Account, upstream: Upstream) -> Place:
    """What the requests of an account of that upstream are sent to."""
    proxies = (account.proxy, *upstream.proxies, upstream.proxy)
    proxy = next((one for one in proxies if one is not None), None)
    url, style = account.base_url(upstream), upstream.auth or "bearer"
    return Place(url, style, account.region or "", proxy)
