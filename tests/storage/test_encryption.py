"""Secrets in the store."""

from __future__ import annotations

import subprocess
import sys

import pytest
from msgspec.structs import replace

from dragoman.accounts.cipher import SealError
from dragoman.config import Account, Secret
from dragoman.config.secret import fingerprint
from dragoman.storage.encryption import AesGcmCipher

KEY = Secret("correct horse battery")
OTHER = Secret("another horse entirely")
ACCOUNT = Account(
    name="a",
    upstream="u",
    key=Secret("sk-very-secret"),
    headers={"X-Own": Secret("hidden-value")},
    proxy=Secret("http://me:pass-word@proxy:3128"),
    models=("m-*",),
    priority=2,
    weight=0.25,
    max_concurrent=3,
    balance=12.5,
)
SECRETS = ("sk-very-secret", "hidden-value", "pass-word", KEY.reveal(), OTHER.reveal())


def test_an_account_comes_back_as_it_was() -> None:
    definition = AesGcmCipher(KEY).seal(ACCOUNT)
    assert AesGcmCipher(KEY).open(definition) == ACCOUNT
    assert not any(secret.encode() in definition.sealed for secret in SECRETS)


def test_nothing_is_sealed_twice_alike() -> None:
    cipher = AesGcmCipher(KEY)
    assert cipher.seal(ACCOUNT).sealed != cipher.seal(ACCOUNT).sealed


def test_an_account_without_secrets_needs_no_key() -> None:
    plain = Account(name="a", upstream="u", models=())
    definition = AesGcmCipher(None).seal(plain)
    assert definition.sealed == b""
    assert AesGcmCipher(None).open(definition) == plain
    assert AesGcmCipher(KEY).open(definition) == plain


def test_secrets_are_not_stored_without_a_key() -> None:
    with pytest.raises(SealError, match=r"\[storage\] key") as caught:
        AesGcmCipher(None).seal(ACCOUNT)
    assert not any(secret in str(caught.value) for secret in SECRETS)


def test_a_wrong_key_is_told_as_such() -> None:
    definition = AesGcmCipher(KEY).seal(ACCOUNT)
    with pytest.raises(SealError, match=r"secrets of a were encrypted with another") as caught:
        AesGcmCipher(OTHER).open(definition)
    assert not any(secret in str(caught.value) for secret in SECRETS)
    with pytest.raises(SealError, match="key is not set"):
        AesGcmCipher(None).open(definition)


def test_what_is_sealed_for_one_account_opens_as_no_other() -> None:
    definition = AesGcmCipher(KEY).seal(ACCOUNT)
    with pytest.raises(SealError, match="damaged"):
        AesGcmCipher(KEY).open(replace(definition, name="b"))


@pytest.mark.parametrize("at", [5, 16, 17, -1])
def test_a_changed_byte_is_seen(at: int) -> None:
    definition = AesGcmCipher(KEY).seal(ACCOUNT)
    sealed = bytearray(definition.sealed)
    sealed[at] ^= 1
    with pytest.raises(SealError, match="damaged"):
        AesGcmCipher(KEY).open(replace(definition, sealed=bytes(sealed)))


@pytest.mark.parametrize("length", [1, 4, 5, 16, 17, 20])
def test_a_cut_is_seen(length: int) -> None:
    definition = AesGcmCipher(KEY).seal(ACCOUNT)
    with pytest.raises(SealError):
        AesGcmCipher(KEY).open(replace(definition, sealed=definition.sealed[:length]))


def test_a_newer_form_is_told_as_such() -> None:
    definition = AesGcmCipher(KEY).seal(ACCOUNT)
    with pytest.raises(SealError, match="newer"):
        AesGcmCipher(KEY).open(replace(definition, sealed=b"\x02" + definition.sealed[1:]))


def test_the_key_can_be_changed() -> None:
    old = AesGcmCipher(KEY).seal(ACCOUNT)
    both = AesGcmCipher(OTHER, [KEY])
    assert both.open(old) == ACCOUNT
    (new,) = both.resealed(
        [old, both.seal(ACCOUNT), AesGcmCipher(None).seal(Account(name="b", upstream="u"))]
    )
    assert AesGcmCipher(OTHER).open(new) == ACCOUNT
    with pytest.raises(SealError):
        AesGcmCipher(KEY).open(new)


def test_prints_tell_keys_apart_and_nothing_else() -> None:
    prints = {fingerprint(Secret(f"sk-{number}")) for number in range(100)}
    assert len(prints) == 100
    assert all(len(mark) == 16 for mark in prints)
    assert fingerprint(Secret("sk-1")) == fingerprint(Secret("sk-1"))
    assert fingerprint(None) == ""


def test_the_library_is_imported_only_for_secrets() -> None:
    code = (
        "import sys\n"
        "from dragoman.config import Account\n"
        "from dragoman.storage.encryption import AesGcmCipher\n"
        "from dragoman.config import Secret\n"
        "cipher = AesGcmCipher(Secret('0123456789abcdef'))\n"
        "cipher.open(cipher.seal(Account(name='a', upstream='u')))\n"
        "assert not any(name.startswith('cryptography') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
