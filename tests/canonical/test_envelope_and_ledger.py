"""Envelopes carry reasoning state unchanged; the ledger refuses what the policy forbids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.blocks import Opaque, Reasoning
from dragoman.canonical.envelope import MARKER, Sealer
from dragoman.canonical.errors import Refused
from dragoman.canonical.losses import Ledger, LossKind, Policy

BLOCKS = st.builds(
    Reasoning,
    parts=st.lists(st.text(), max_size=3).map(tuple),
    style=st.sampled_from(["summary", "raw"]),
    opaque=st.builds(Opaque, st.sampled_from(["a", "b"]), st.text(), st.none() | st.text()),
    redacted=st.booleans(),
)


@given(BLOCKS, st.binary(max_size=40))
def test_an_envelope_gives_back_what_was_sealed(block: Reasoning, key: bytes) -> None:
    sealer = Sealer(key)
    assert sealer.open(sealer.seal(block)) == block


@given(BLOCKS)
def test_an_envelope_of_another_key_is_not_ours(block: Reasoning) -> None:
    sealed = Sealer(b"one").seal(block)
    assert Sealer(b"other").open(sealed) is None
    assert Sealer(b"other").open(Sealer().seal(block)) is None


@given(st.text())
def test_foreign_text_is_not_an_envelope(text: str) -> None:
    assert Sealer().open(text) is None
    opened = Sealer().open("dgm1." + text)
    assert opened is None or opened.opaque is not None


def test_plain_reasoning_gets_a_marker_that_is_never_empty() -> None:
    sealed = Sealer().seal(Reasoning(parts=("thoughts",)))
    opened = Sealer().open(sealed)
    assert opened is not None
    assert opened.opaque is not None
    assert opened.opaque.origin == MARKER
    assert opened.parts == ()


@pytest.mark.parametrize(
    ("policy", "kind", "refused"),
    [
        (Policy.STRICT, LossKind.KNOB, True),
        (Policy.STRICT, LossKind.CONVERTED, True),
        (Policy.STRICT, LossKind.REPAIRED, True),
        (Policy.STRICT, LossKind.CONTENT, True),
        (Policy.BALANCED, LossKind.KNOB, False),
        (Policy.BALANCED, LossKind.CONVERTED, False),
        (Policy.BALANCED, LossKind.REPAIRED, False),
        (Policy.BALANCED, LossKind.CONTENT, True),
        (Policy.LENIENT, LossKind.CONTENT, False),
    ],
)
def test_policies(policy: Policy, kind: LossKind, refused: bool) -> None:
    ledger = Ledger()
    ledger.add("messages[0].content[1]", kind, "cannot be carried")
    if not refused:
        ledger.enforce(policy)
        return
    with pytest.raises(Refused) as caught:
        ledger.enforce(policy)
    assert caught.value.fault.param == "messages[0].content[1]"
    assert caught.value.paths == ("messages[0].content[1]",)


def test_a_refusal_names_the_losses_the_policy_and_what_to_change() -> None:
    ledger = Ledger()
    for number in range(8):
        ledger.add(f"messages[{number}]", LossKind.CONTENT, "cannot be carried")
    with pytest.raises(Refused) as caught:
        ledger.enforce(Policy.BALANCED)
    assert str(caught.value) == (
        "messages[0]: cannot be carried (also messages[1], messages[2], messages[3], messages[4], "
        "messages[5] and 2 more); refused by the policy balanced, lenient goes on "
        "(x-dragoman-policy, or that of the route)"
    )


def test_an_empty_ledger_is_never_refused() -> None:
    for policy in Policy:
        Ledger().enforce(policy)


def test_the_same_loss_is_told_once_and_another_at_its_place_too() -> None:
    ledger = Ledger()
    for detail in ("the cache mark is not sent", "the tool is offered at once"):
        ledger.add("tools[0]", LossKind.KNOB, detail)
        ledger.add("tools[0]", LossKind.KNOB, detail)
    assert [loss.detail for loss in ledger] == [
        "the cache mark is not sent",
        "the tool is offered at once",
    ]
