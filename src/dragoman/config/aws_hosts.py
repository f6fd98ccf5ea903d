"""The region and the signing name that follow from a host of AWS."""

from __future__ import annotations

import re

_HOST = re.compile(
    r"(?P<service>bedrock-runtime|bedrock-mantle|bedrock|aws-external-anthropic)(?:-fips)?"
    r"\.(?P<region>[a-z]{2,}(?:-[a-z]+)+-[0-9]+)"
    r"\.(?:amazonaws\.com(?:\.cn)?|amazonaws\.eu|api\.aws)"
)
_SIGNING_NAMES = {"bedrock-runtime": "bedrock"}
"""Signing names of services whose hosts are called otherwise."""


def region_and_name(host: str) -> tuple[str, str]:
    """The region and the signing name of a host; both empty if it is none of those known."""
    found = _HOST.fullmatch(host.lower())
    if found is None:
        return "", ""
    service = found["service"]
    return found["region"], _SIGNING_NAMES.get(service, service)
