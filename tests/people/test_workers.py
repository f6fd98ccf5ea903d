"""Several workers, and gateways, each of which knows who is signed in, and who no longer is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dragoman.lab.provider import Provider
from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.http import call
from tests.gateway.processes import gateway_process
from tests.people.signing_in import Served, post, sign_in_table
from tools.load.people import storm


def statuses(home: Served, token: str) -> set[int]:
    """What a token is answered over new connections, which workers take in turns."""
    return {call(home.url, "GET", "/v1/key", key=token).status for _ in range(12)}


@pytest.mark.slow
def test_every_worker_knows_a_session_and_its_end(
    simulator: RunningSimulator, provider: Provider, tmp_path: Path
) -> None:
    tables = sign_in_table(provider)
    keys = {"one": "sk-sim-one"}
    with gateway_process(
        tmp_path, simulator.openai_base_url, keys, workers=2, tables=tables
    ) as gateway:
        home = Served(provider, gateway.url)
        tokens = home.session()
        assert statuses(home, tokens["access_token"]) == {200}
        following = home.refresh(tokens["refresh_token"])
        assert following.status == 200
        assert statuses(home, following.json["access_token"]) == {200}
        assert post(home.url, "/oauth/revoke", {"token": tokens["access_token"]}).status == 200
        deadline = time.monotonic() + 30
        while statuses(home, tokens["access_token"]) != {401}:
            assert time.monotonic() < deadline
        assert home.refresh(following.json["refresh_token"]).status == 401


@pytest.mark.slow
def test_a_storm_of_sign_ins_over_three_gateways(tmp_path: Path) -> None:
    """All sign in at once, and each token is good at every gateway, refreshed once however many
    processes present it, and refused everywhere once it is revoked: in small what
    `python -m tools.load.people` does with five hundred."""
    found = storm(tmp_path, 9, racing=3)
    assert found.failures == []
    assert len(found.signed_in) == len(found.refreshed) == len(found.obeyed) == 9
