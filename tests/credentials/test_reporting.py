"""What a credential, or the failure of one, means for the state of its account."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.accounts.credentials.account_credentials import AccountCredential
from dragoman.accounts.credentials.decide.refreshing import Credential, CredentialFailure, Problem
from dragoman.accounts.credentials.messages import Known
from dragoman.accounts.credentials.place import place_of
from dragoman.accounts.credentials.reporting import note_change
from dragoman.accounts.decide.states import Decision, Failed, Transition
from dragoman.accounts.pool import AccountPool, LeaseRequest
from dragoman.config import parse_config
from dragoman.failing import Verdict
from dragoman.link.messages import Handlers
from dragoman.link.owner import Owner
from tests.credentials.given import config

NOW = 1_000_000.0
TEXT = config('kind = "command", command = ["/bin/x"]') + (
    '[[accounts]]\nname = "spare"\nupstream = "cloud"\nkey = "key-of-the-spare"\npriority = 1\n'
)
GOOD = Credential(0.0, headers=(("authorization", "Bearer t"),), inputs="one")


class Case:
    """An account with credentials, beside one with a key that is chosen after it."""

    def __init__(self) -> None:
        parsed = parse_config(TEXT).config
        self.now = NOW
        self.pool = AccountPool(parsed, clock=lambda: self.now, spread=lambda: 0.5)
        account = parsed.accounts[0]
        place = place_of(account, parsed.upstreams[0])
        self.held = AccountCredential(account, place, Owner().join(Handlers()), self.note)

    def note(self, held: AccountCredential) -> None:
        note_change(self.pool, held, NOW)

    def learn(self, credential: Credential | None = None, problem: Problem | None = None) -> None:
        failure = None if problem is None else CredentialFailure(problem, f"it is {problem}", NOW)
        self.held.learn(Known(self.held.id, credential, failure))

    def refused(self) -> None:
        """The service has refused the account."""
        decision = Decision(Verdict.DISABLE, "key rejected")
        failed = Failed(decision, status=401, key=self.held.account.fingerprint)
        self.pool.observe(Transition("one", failed, NOW))

    @property
    def chosen(self) -> str:
        with self.pool.lease(LeaseRequest("cloud")) as lease:
            return lease.account.name

    @property
    def disabled(self) -> str:
        return self.pool.state("one").disabled


def test_accounts_that_wait_for_their_first_credential_are_chosen_last() -> None:
    case = Case()
    case.learn()
    assert case.chosen == "spare"
    case.learn(GOOD)
    assert case.chosen == "one"


def test_an_account_whose_source_is_away_rests_until_there_is_a_credential() -> None:
    case = Case()
    case.learn(problem="unavailable")
    assert case.chosen == "spare"
    rest = case.pool.state("one").cooling[""]
    assert rest.why == "it is unavailable"
    case.now = rest.until + 1
    assert case.chosen == "spare", "it was not obtained yet"
    assert not case.disabled
    case.learn(GOOD)
    assert case.chosen == "one"


def test_an_account_that_needs_a_person_is_disabled_until_there_is_a_credential() -> None:
    case = Case()
    case.learn(problem="login_needed")
    assert case.disabled == "it is login_needed"
    case.learn(GOOD)
    assert case.chosen == "one"


def test_a_refresh_that_fails_changes_nothing_while_the_last_is_valid() -> None:
    case = Case()
    case.learn(GOOD, problem="refused")
    assert case.chosen == "one"


def test_what_the_service_refused_comes_back_with_other_inputs_only() -> None:
    case = Case()
    case.learn(GOOD)
    case.refused()
    case.learn(replace(GOOD, headers=(("authorization", "Bearer u"),)))
    assert case.disabled == "key rejected", "another token of the same file"
    case.learn(replace(GOOD, inputs="two"))
    assert case.chosen == "one"
