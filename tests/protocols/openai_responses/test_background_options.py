"""How to run in the background, where an answer is not made there."""

from __future__ import annotations

import json

import pytest

from tests.library import translate_request
from tests.tables.requests import LEAST, R

WINDOW = {"completion_window": "2h", "continuation_id": "job-7"}


@pytest.mark.parametrize("background", [True, False, None])
def test_the_options_pass_with_the_background_only(background: bool | None) -> None:
    """The service refuses a completion window without `background: true`."""
    asked = {**LEAST[R], "background_options": WINDOW}
    if background is not None:
        asked["background"] = background
    call = translate_request(R, R, json.dumps(asked).encode())

    sent = json.loads(call.body)
    if background:
        assert sent["background_options"] == WINDOW
        assert call.losses == ()
    else:
        assert "background_options" not in sent
        assert [loss.path for loss in call.losses] == ["background_options"]
