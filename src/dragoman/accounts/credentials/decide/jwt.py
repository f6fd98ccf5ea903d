"""JSON web tokens that are signed with a private key."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.accounts.credentials.decide.refreshing import CredentialError


def signed(claims: Mapping[str, Any], header: Mapping[str, Any], key: Any) -> str:
    """The token of these claims. `alg` in the header is RS256, PS256 or ES256; `key` is as
    `private_key` returns it."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, utils

    text = ".".join(
        unpadded(msgspec.json.encode(part)) for part in ({"typ": "JWT", **header}, claims)
    )
    algorithm, data, sha256 = header["alg"], text.encode(), hashes.SHA256()
    if algorithm == "ES256":
        r, s = utils.decode_dss_signature(key.sign(data, ec.ECDSA(sha256)))
        signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    elif algorithm == "PS256":
        salted = padding.PSS(padding.MGF1(sha256), padding.PSS.DIGEST_LENGTH)
        signature = key.sign(data, salted, sha256)
    else:
        signature = key.sign(data, padding.PKCS1v15(), sha256)
    return f"{text}.{unpadded(signature)}"


_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def asserted(token: str) -> dict[str, str]:
    """The members of a request in which a client shows by a token who it is (RFC 7523)."""
    return {"client_assertion_type": _ASSERTION, "client_assertion": token}


def client_assertion(
    client: str, audience: str, now: float, seconds: int, header: Mapping[str, Any], key: Any
) -> dict[str, str]:
    """As `asserted`, by a token that the client signs itself, valid for so many seconds."""
    claims = {"aud": audience, "iss": client, "sub": client, "jti": secrets.token_hex(16)}
    times = {"iat": int(now), "nbf": int(now), "exp": int(now) + seconds}
    return asserted(signed(claims | times, header, key))


def private_key(pem: bytes, what: str, password: bytes | None = None) -> Any:
    """The private key in a file.

    Raises:
        CredentialError: there is none that can be used.
    """
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(pem, password)
    except (ValueError, TypeError):
        raise CredentialError("refused", f"{what} has no private key that can be read") from None


def certificate(data: bytes, what: str, password: bytes | None) -> tuple[Any, str]:
    """The private key of a PEM or PFX file with a certificate, and the SHA-256 of the certificate,
    as `x5t#S256` has it.

    Raises:
        CredentialError: it has not both.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    try:
        if b"-----BEGIN" in data:
            found: x509.Certificate | None = x509.load_pem_x509_certificate(data)
            key: Any = private_key(data, what, password if b"ENCRYPTED" in data else None)
        else:
            key, found, _ = pkcs12.load_key_and_certificates(data, password)
    except (ValueError, TypeError):
        found = key = None
    if found is None or key is None:
        raise CredentialError("refused", f"{what} has no certificate and key that can be read")
    return key, unpadded(hashlib.sha256(found.public_bytes(Encoding.DER)).digest())


def unpadded(data: bytes) -> str:
    """Base64 as tokens have it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
