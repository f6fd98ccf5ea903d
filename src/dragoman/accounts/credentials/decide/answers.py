"""What services and commands that hand out credentials answer, read into credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from math import inf, isfinite
from typing import Any

from msgspec.structs import replace

from dragoman.accounts.credentials.decide.refreshing import Credential, CredentialError, Problem
from dragoman.accounts.credentials.decide.signing import AwsKeys
from dragoman.jsontext import JsonError, decode

UNKNOWN_LIFE_S = 300.0
"""Seconds for which a token counts as valid whose answer does not say."""

_LONGEST_TOKEN = 64 * 1024
_TAG = "<{0}>([^<]*)</{0}>"
_CODE = re.compile(r"[A-Za-z][A-Za-z_.]{1,62}|[0-9]{1,6}")


def unavailable(why: str) -> CredentialError:
    """The error for an answer that cannot be used."""
    return CredentialError("unavailable", why)


def json_object(body: bytes, who: str) -> dict[str, Any]:
    """The JSON object of an answer.

    Raises:
        CredentialError: it is none.
    """
    try:
        found = decode(body)
    except JsonError:
        found = None
    if not isinstance(found, dict):
        raise unavailable(f"{who} answered what is no JSON object")
    return found


def token_of(
    answer: Mapping[str, Any], who: str, now: float, names: tuple[str, ...] = ("access_token",)
) -> tuple[str, Credential]:
    """The token of an answer, and a credential of its life without headers.

    Raises:
        CredentialError: it has none.
    """
    token = next((answer[name] for name in names if answer.get(name)), None)
    if not isinstance(token, str) or not is_token(token):
        raise unavailable(f"{who} answered without a usable {names[0]}")
    life, until = _number(answer.get("expires_in")), answer.get("expires_at")
    if until is None:
        until = answer.get("expires_on")
    at = moment(until) if isinstance(until, str) and not _number(until) else _number(until)
    if life is not None or at is None:
        at = now + (UNKNOWN_LIFE_S if life is None else life)
    refresh_in = _number(answer.get("refresh_in"))
    refresh_at = inf if refresh_in is None else now + refresh_in
    return token, Credential(now, at, refresh_at=refresh_at)


def bearer(credential: Credential, token: str, *more: tuple[str, str]) -> Credential:
    """A credential that authorises requests by a bearer token."""
    return replace(credential, headers=(("authorization", f"Bearer {token}"), *more))


def bearer_of(body: bytes, who: str, now: float) -> Credential:
    """The credential of an answer with a bearer token.

    Raises:
        CredentialError: it has none.
    """
    token, credential = token_of(json_object(body, who), who, now)
    return bearer(credential, token)


def is_token(text: str) -> bool:
    """Whether a text may be sent as a token."""
    return bool(text) and len(text) <= _LONGEST_TOKEN and text.isascii() and text.isprintable()


def refusal(
    status: int, body: bytes, who: str, lasting: Mapping[str, str], inputs: str = ""
) -> CredentialError:
    """The error for an answer with an error status. `lasting` are codes of errors after which a
    person has to act, and what to do; `inputs` the print of what was asked with."""
    code, text = error_words(body)
    # Anything else may quote a secret that was sent.
    code = code if _CODE.fullmatch(code) else ""
    for known, advice in lasting.items():
        if known in code or known in text:
            problem: Problem = "login_needed" if known == "invalid_grant" else "refused"
            return CredentialError(problem, f"{who} refused ({code or known}): {advice}", inputs)
    shown = code or f"status {status}"
    if status in (400, 401, 403):
        return CredentialError("refused", f"{who} refused: {shown}", inputs)
    return CredentialError("unavailable", f"{who} failed with status {status}", inputs)


def error_words(body: bytes) -> tuple[str, str]:
    """The code and the text of an error in an answer; empty if it has none."""
    try:
        found = decode(body)
    except JsonError:
        text = body[:2000].decode("utf-8", "replace")
        return _tag(text, "Code"), _tag(text, "Message")
    if not isinstance(found, dict):
        return "", ""
    error = found.get("error")
    if isinstance(error, dict):
        return str(error.get("status") or error.get("code") or ""), str(error.get("message") or "")
    code = error or found.get("__type") or found.get("code") or ""
    text = found.get("error_description") or found.get("message") or found.get("Message") or ""
    return str(code).rpartition("#")[2][:80], str(text)


def aws_of(answer: Mapping[str, Any], who: str, now: float) -> Credential:
    """The keys of an answer as services of AWS and `credential_process` give them.

    Raises:
        CredentialError: it has none.
    """
    id, secret = answer.get("AccessKeyId"), answer.get("SecretAccessKey")
    token = answer.get("SessionToken") or answer.get("Token") or ""
    if not (isinstance(id, str) and isinstance(secret, str) and isinstance(token, str)):
        raise unavailable(f"{who} answered without keys")
    if not (is_token(id) and secret and (not token or is_token(token))):
        raise unavailable(f"{who} answered keys that cannot be used")
    expiration = answer.get("Expiration")
    expires = moment(expiration) if isinstance(expiration, str) else _number(expiration)
    if expiration is not None and expires is None:
        raise unavailable(f"{who} answered an expiration that is no time")
    return Credential(now, inf if expires is None else expires, keys=AwsKeys(id, secret, token))


def sts_of(body: bytes, who: str, now: float) -> Credential:
    """The keys of an answer of STS, which is XML."""
    text = body.decode("utf-8", "replace")
    names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
    return aws_of({name: _tag(text, name) or None for name in names}, who, now)


def _tag(text: str, name: str) -> str:
    found = re.search(_TAG.format(name), text)
    return "" if found is None else found[1].strip()


def moment(text: str) -> float | None:
    """A time of RFC 3339, in Unix seconds; None if it is none."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return found.timestamp() if found.tzinfo is not None else None


def _number(value: object) -> float | None:
    """A number, which may be a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None
