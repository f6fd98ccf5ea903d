"""What is ours does not reach a client."""

from __future__ import annotations

import json

import pytest

from dragoman.canonical.errors import ErrorReport, Fault, FaultKind
from dragoman.canonical.masking import Mask

KEY = 'a/secret"of+ours\\=='


def test_details_of_a_fault_are_masked_however_deep() -> None:
    mask = Mask(["topsecret-upstream-key"])
    told = {"metadata": {"raw": ["sent with Bearer topsecret-upstream-key", 1], "n": None}}
    hidden = mask.fault(Fault(FaultKind.UPSTREAM_FAILED, "x", details=told)).details
    assert hidden == {"metadata": {"raw": ["sent with Bearer [hidden]", 1], "n": None}}


@pytest.mark.parametrize("written", [KEY, json.dumps(KEY), json.dumps(KEY).replace("/", "\\/")])
def test_a_secret_is_found_however_it_is_written(written: str) -> None:
    mask = Mask([KEY, "another-secret"])
    for hide in (mask.secrets_in, mask.error):
        hidden = hide(b"<" + written.encode() + b"> another-secret")
        assert b"ours" not in hidden
        assert b"another" not in hidden
        assert hidden.count(b"[hidden]") == 2


def test_a_secret_within_another_leaves_no_rest() -> None:
    mask = Mask(["token-of-mine", "Bearer token-of-mine"])
    assert mask.error(b"got: Bearer token-of-mine.") == b"got: [hidden]."


def test_masked_json_is_json() -> None:
    body = json.dumps({"error": {"message": f"no: {KEY}", "key": KEY}}).encode()
    assert json.loads(Mask([KEY]).error(body))["error"]["key"] == "[hidden]"


def test_every_text_of_a_fault_is_masked() -> None:
    fault = Fault(
        FaultKind.RATE_LIMITED,
        f"no {KEY}",
        param=KEY,
        code=KEY,
        retry_after=3.0,
        report=ErrorReport((KEY,), f"no {KEY}"),
    )
    masked = Mask([KEY]).fault(fault)
    assert masked.report == ErrorReport(("[hidden]",), "no [hidden]")
    assert (masked.message, masked.param, masked.code) == ("no [hidden]", "[hidden]", "[hidden]")
    assert masked.retry_after == 3.0


@pytest.mark.parametrize(
    "name",
    ["sk-12345678", "sk-proj-********abcd", "org-AbC123xyz", "acct_1ABCdef", "user-abc4defg"],
)
def test_names_of_accounts_are_hidden(name: str) -> None:
    fault = Fault(FaultKind.RATE_LIMITED, f"Limit reached for {name} now")
    assert Mask().fault(fault).message == "Limit reached for [hidden] now"
    assert Mask().error(name.encode()) == b"[hidden]"
    assert Mask().secrets_in(name.encode()) == name.encode()


@pytest.mark.parametrize(
    "text",
    [
        "Slow down, the task-based limit is reached.",
        "Unknown parameter: tools[0].user_location",
        "key_value pairs are not allowed",
        "req_011CSHoEeqs5C35K2UUqR7Fy",
    ],
)
def test_other_words_stay(text: str) -> None:
    fault = Fault(FaultKind.INVALID_REQUEST, text, param="user_location")
    assert Mask(["none", "x", ""]).fault(fault) is fault
    assert Mask(["none"]).error(text.encode()) == text.encode()


@pytest.mark.parametrize("between", ["-", "-name-", "." * 150])
def test_a_name_is_hidden_behind_others_that_are_no_names(between: str) -> None:
    text = f"sk-only-letters{between}sk-12345678"
    assert Mask().error(text.encode()).endswith(b"[hidden]")


def test_no_text_makes_it_slow() -> None:
    for piece in (b"sk-", b"org-", b"1m1m", b"eyJ.", b"-----"):
        Mask().error(piece * (900_000 // len(piece)))
    Mask().error(b"sk-" + b"x" * 900_000)
