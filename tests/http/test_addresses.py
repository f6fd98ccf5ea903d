"""Networks, and proxies that are believed."""

from __future__ import annotations

import pytest

from dragoman.http.addresses import Proxies, network


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("::ffff:203.0.113.7", "203.0.113.7/32"),
        ("::ffff:0:0/96", "0.0.0.0/0"),
        ("::ffff:10.1.2.3/104", "10.0.0.0/8"),
        ("::/0", "::/0"),
        ("::ffff:0:0/90", "::ffc0:0:0/90"),
        ("2001:db8::1/32", "2001:db8::/32"),
        ("10.1.2.3/8", "10.0.0.0/8"),
    ],
)
def test_networks_of_ipv4_in_the_clothes_of_ipv6(text: str, expected: str) -> None:
    assert str(network(text)) == expected


def test_a_proxy_may_be_told_of_as_ipv6() -> None:
    proxies = Proxies(["::ffff:10.0.0.0/104"])
    assert proxies.client("10.1.2.3", {b"x-forwarded-for": b"203.0.113.7"}) == "203.0.113.7"
    assert not proxies.believes("11.1.2.3")
