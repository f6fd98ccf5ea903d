"""Settings of the credentials of accounts: `credentials = { kind = ... }`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from dragoman.config.secret import Secret

Text = Annotated[str, Meta(min_length=1)]


class AwsCredentials(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="aws"
):
    """Keys of AWS, with which requests are signed (Signature Version 4)."""

    access_key_id: Text
    """Id of the access key."""
    secret_access_key: Secret
    """The secret of the access key."""
    session_token: Secret | None = None
    """Token of temporary keys."""
    signing_name: Text | None = None
    """Name of the service in signatures. Absent: it follows from the host, `bedrock` for
    `bedrock-runtime`, `bedrock-mantle`, or `aws-external-anthropic`."""


Credentials = AwsCredentials
"""All kinds of credentials."""


def secrets_of(credentials: Credentials) -> list[Secret]:
    """The secrets among the settings of credentials."""
    values = (getattr(credentials, name) for name in credentials.__struct_fields__)
    return [value for value in values if isinstance(value, Secret)]
