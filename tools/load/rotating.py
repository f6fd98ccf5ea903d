"""`python -m tools.load.rotating --rounds 20`: two gateways of one store share a login whose
refresh token is replaced with each use, and one of them is killed while it is redeemed, or shortly
after.

The simulator ends a login whose token comes twice, so that each token that was redeemed has to have
come once. Whichever gateway is left serves on, or has its account ask for a new sign-in.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from dragoman.lab.simulator.authority import Answer, Authority
from dragoman.lab.simulator.recording import RecordedRequest
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from tests.gateway.clients import PATHS, body
from tests.gateway.http import call
from tests.gateway.processes import GatewayProcess, gateway_process

LIFE_S = 6.0
"""Of a token. It is refreshed no sooner than five seconds after the last."""
MOST_REDEMPTIONS = 3
"""One of so many is that at which a gateway is killed."""
ANSWERS_AFTER_S = 0.03
"""For which a token that was redeemed is not answered."""
MOST_LATER_S = 0.06
"""From the request for a token to the death of the gateway, at most."""
SETTLES_S = 60.0
"""Twice as long as a gateway waits for one that redeems a token."""

ACCOUNT = """
[[upstreams]]
name = "cloud"
protocol = "openai_chat"
base_url = "{url}"
[[accounts]]
name = "login"
upstream = "cloud"
[accounts.credentials]
kind = "oauth2"
token_url = "{url}/oauth/token"
client_id = "gw"
grant = "refresh_token"
refresh_token = "of-the-login"
"""


class SlowAuthority(Authority):
    """Answers a while after it has redeemed."""

    def answer(self, record: RecordedRequest) -> Answer | None:
        """See `Authority.answer`."""
        answer = super().answer(record)
        if record.path == "/oauth/token":
            time.sleep(ANSWERS_AFTER_S)
        return answer


def outcome_of(gateway: GatewayProcess) -> str:
    """Whether a gateway serves, or why its account does not, once that is known."""
    until = time.monotonic() + SETTLES_S
    while time.monotonic() < until:
        answer = call(gateway.url, "POST", PATHS["chat"], body("chat", "cloud/sim-text"))
        if answer.status == 200:
            return "served on"
        if b"sign in again" in answer.body:
            return "asked for a sign-in"
        time.sleep(0.2)
    return f"did neither: {answer.status} {answer.body.decode()[:200]}"


def one_round(simulator: RunningSimulator, chance: random.Random) -> tuple[str, int, int]:
    """What the gateway did that is left, the redemptions, and those of a token that had been."""
    authority = simulator.app.authority = SlowAuthority(life_s=LIFE_S)
    authority.refreshes["of-the-login"] = "family"
    tables = ACCOUNT.format(url=simulator.base_url)
    last, later = chance.randint(1, MOST_REDEMPTIONS), chance.uniform(0.0, MOST_LATER_S)
    with tempfile.TemporaryDirectory() as name:
        folder, url = Path(name), simulator.base_url
        with (
            gateway_process(folder, url, {}, workers=2, tables=tables, name="one") as one,
            gateway_process(folder, url, {}, workers=2, tables=tables, name="two") as other,
        ):
            while authority.asked["oauth"] < last:
                time.sleep(0.001)
            time.sleep(later)
            killed, left = chance.sample((one, other), 2)
            killed.kill_all()
            time.sleep(LIFE_S)  # Until then the last token may do.
            outcome = outcome_of(left)
    asked = authority.asked["oauth"]
    return outcome, asked, asked - len(authority.redeemed)


def main() -> int:
    """Run it. Fails if a token was redeemed twice, or a gateway knew neither what to do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    outcomes: Counter[str] = Counter()
    redemptions = twice = 0
    with running_simulator() as simulator:
        for _ in range(arguments.rounds):
            outcome, asked, again = one_round(simulator, chance)
            outcomes[outcome] += 1
            redemptions, twice = redemptions + asked, twice + again
    write = sys.stdout.write
    write(
        f"{arguments.rounds} rounds, {redemptions} redemptions, {twice} of a token that had been\n"
    )
    for outcome, number in outcomes.most_common():
        write(f"{number} x: the gateway that was left {outcome}\n")
    return int(bool(twice) or any(name.startswith("did neither") for name in outcomes))


if __name__ == "__main__":
    sys.exit(main())
