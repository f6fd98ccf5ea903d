"""Reasoning state that the simulator can recognise when it comes back.

A real vendor signs or encrypts reasoning and refuses what it did not issue, or what was altered
on the way. Here a keyed hash does the same: the values are deterministic, look like base64 with
all its characters, and are bound to the organisation of the key that asked for them.
"""

import base64
import binascii
import hashlib
import hmac

_KEY = b"dragoman-simulator"
_ENCRYPTED_PREFIX = "gAAAA"
_MAC_LENGTH = 32


def _mac(purpose: bytes, organization: str, payload: bytes) -> bytes:
    message = b"\0".join((purpose, organization.encode(), payload))
    return hmac.new(_KEY, message, hashlib.sha256).digest()


def _sealed(purpose: bytes, organization: str, payload: bytes) -> str:
    return base64.b64encode(_mac(purpose, organization, payload) + payload).decode()


def _opened(purpose: bytes, organization: str, sealed: str) -> bytes | None:
    try:
        raw = base64.b64decode(sealed.encode(), validate=True)
    except (binascii.Error, ValueError):
        return None
    mac, payload = raw[:_MAC_LENGTH], raw[_MAC_LENGTH:]
    return payload if hmac.compare_digest(mac, _mac(purpose, organization, payload)) else None


def sign_thinking(text: str, organization: str) -> str:
    """The signature of a thinking block that shows ``text``."""
    return _sealed(b"thinking", organization, hashlib.sha256(text.encode()).digest())


def thinking_is_genuine(text: str, signature: str, organization: str) -> bool:
    """Whether the signature was issued for exactly this text and organisation."""
    payload = _opened(b"thinking", organization, signature)
    return payload == hashlib.sha256(text.encode()).digest()


def redact(text: str, organization: str) -> str:
    """The ``data`` of a redacted thinking block."""
    return _sealed(b"redacted", organization, text.encode())


def open_redacted(data: str, organization: str) -> str | None:
    """The text behind a redacted block, or None if the data is not genuine."""
    payload = _opened(b"redacted", organization, data)
    return None if payload is None else payload.decode()


def sign_part(content: str, thought: str, organization: str) -> str:
    """The ``thoughtSignature`` of a part with this content, which contains the thought."""
    digest = hashlib.sha256(content.encode()).digest()
    return _sealed(b"part", organization, digest + thought.encode())


def open_signature(content: str, signature: str, organization: str) -> str | None:
    """The thought in a signature, or None if it was not issued for this content and organisation.

    Both alphabets of base64 are read, as Google's SDKs write another than they were given.
    """
    standard = signature.replace("-", "+").replace("_", "/")
    payload = _opened(b"part", organization, standard)
    if payload is None or payload[:_MAC_LENGTH] != hashlib.sha256(content.encode()).digest():
        return None
    return payload[_MAC_LENGTH:].decode()


def encrypt(item_id: str, text: str, organization: str) -> str:
    """The ``encrypted_content`` of a Responses reasoning item."""
    payload = b"\0".join((organization.encode(), item_id.encode(), text.encode()))
    return _ENCRYPTED_PREFIX + _sealed(b"encrypted", "", payload)


def _decrypted(encrypted: str) -> list[bytes] | None:
    """Organisation, item id and text; None if the simulator did not write them."""
    if not encrypted.startswith(_ENCRYPTED_PREFIX):
        return None
    payload = _opened(b"encrypted", "", encrypted[len(_ENCRYPTED_PREFIX) :])
    return None if payload is None else payload.split(b"\0", 2)


def is_sealed(encrypted: str) -> bool:
    """Whether the simulator wrote this ``encrypted_content``, for whatever organisation."""
    return _decrypted(encrypted) is not None


def decrypt(encrypted: str, organization: str) -> tuple[str, str] | None:
    """The item id and the text behind ``encrypted_content``, or None if it is not genuine or
    belongs to another organisation.
    """
    found = _decrypted(encrypted)
    if found is None or found[0] != organization.encode():
        return None
    return found[1].decode(), found[2].decode()
