"""Addresses of clients, as limits count them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_HOUSEHOLD = 64
"""Bits of an IPv6 address that identify a customer, who chooses the rest."""

_MAPPED = 96
"""Bits before an IPv4 address in the clothes of IPv6 (RFC 4291, 2.5.5.2)."""


def parse(text: str) -> Address | None:
    """An address, None for a text that is none. One of IPv4 in the clothes of IPv6 is IPv4."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def network(text: str) -> Network:
    """An address, or a network as `10.0.0.0/8`. One of IPv4 in the clothes of IPv6 is IPv4, as
    `parse` has it.

    Raises:
        ValueError: it is neither.
    """
    found = ipaddress.ip_network(text, strict=False)
    if isinstance(found, ipaddress.IPv6Network) and found.prefixlen >= _MAPPED:
        mapped = found.network_address.ipv4_mapped
        if mapped is not None:
            return ipaddress.IPv4Network((mapped, found.prefixlen - _MAPPED))
    return found


def is_here(text: str) -> bool:
    """Whether a connection's other end is on this machine; a Unix socket has no address."""
    if not text or text == "127.0.0.1":
        return True
    address = parse(text)
    return address is not None and address.is_loopback


def counted(text: str) -> str:
    """What stands for a client in limits for each address."""
    address = parse(text)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, _HOUSEHOLD), strict=False))
    return text if address is None else str(address)


class Proxies:
    """The trusted proxies, whose `X-Forwarded-For` counts."""

    __slots__ = ("_networks",)

    def __init__(self, networks: Iterable[str]) -> None:
        """
        Args:
            networks: addresses, or networks as `10.0.0.0/8`; `unix` stands for whoever comes by a
                Unix socket.

        Raises:
            ValueError: one is neither.
        """
        texts = set(networks)
        self._networks: list[Network] = [network(text) for text in texts - {"unix"}]
        if "unix" in texts:
            self._networks.append(_UNIX)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def believes(self, text: str) -> bool:
        """Whether the one at this address, empty for a Unix socket, is such a proxy."""
        if not text:
            return _UNIX in self._networks
        address = parse(text)
        return address is not None and any(address in known for known in self._networks)

    def client(self, peer: str, headers: Mapping[bytes, bytes]) -> str:
        """The address of the client: the last one in `X-Forwarded-For` that is no such proxy, if
        `peer`, the connection's other end, is one; else `peer`."""
        if not self._networks or not self.believes(peer):
            return peer
        forwarded = headers.get(b"x-forwarded-for", b"").decode("latin-1")
        for entry in reversed(forwarded.rsplit(",", _MOST_PROXIES)[-_MOST_PROXIES:]):
            address = parse(_bare(entry.strip()))
            if address is None:
                break
            peer = str(address)
            if not self.believes(peer):
                break
        return peer


_MOST_PROXIES = 16
"""One behind another that are looked at: anyone may send a header that names thousands."""

_UNIX = ipaddress.ip_network("0.0.0.0/32")
"""Stands for Unix sockets: no client has this address."""


def _bare(entry: str) -> str:
    """An entry without its port: some proxies add it."""
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry
