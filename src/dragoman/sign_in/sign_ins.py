"""What a sign-in reads and writes in the store. Methods block: they run in the thread that uses the
store. All of them may raise `StoreError`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.accounts.cipher import SealError
from dragoman.audit import Actor, Change
from dragoman.config.access_rules import SignInRule
from dragoman.config.sign_in import SignIn
from dragoman.jsontext import decoder
from dragoman.keys.people import (
    Identity,
    Pending,
    PeopleStore,
    SigningKey,
    StoredPerson,
    StoredSession,
    rule_for,
)
from dragoman.sign_in import tokens
from dragoman.sign_in.grants import (
    AUTHORIZATION_CODE_S,
    CODE_S,
    DASHBOARD,
    CodeGrant,
    DeviceGrant,
    Grant,
    Granted,
    Redirect,
    Visit,
    challenge_of,
    entered,
    new_secret,
    new_user_code,
    polled,
)
from dragoman.sign_in.tokens import Presented, SessionSecrets
from dragoman.storage.encryption import AesGcmCipher

MOST_PENDING: Final = 20_000
"""Sign-ins that may have begun and not ended: whoever begins more is refused."""
MOST_SESSIONS: Final = 50
"""Sessions of a person at once: a further one ends the one that was renewed longest ago."""
_USED_CODE_S = 600.0
"""Seconds for which a used authorization code is kept, so that a second use is seen."""
_ASKING_S = 30.0
"""Seconds in which the provider answers, or nobody waits for it any more."""
_CONFIRMED_S = 60.0
"""Seconds for which the provider is not asked again about a session."""

_read_grant: Callable[[bytes], Grant] = decoder(Grant)  # type: ignore[arg-type]
_read_secrets = decoder(SessionSecrets)
_encode = msgspec.json.Encoder().encode


class NotAllowed(Exception):
    """Somebody may not sign in. The message is for the person."""


class InvalidGrant(Exception):
    """A code or a refresh token is not valid. The message is for operators."""


class Busy(Exception):
    """Too many sign-ins have begun."""


class Opened(Struct, frozen=True):
    """A session as it is after a sign-in or a refresh, its person, and the refresh token that is
    valid from now on."""

    session: StoredSession
    person: StoredPerson
    refresh_token: str


class Asking(Struct, frozen=True):
    """That the provider has to be asked about a session, with what it is asked by."""

    granted: Granted


def check_allowed(rules: Sequence[SignInRule], identity: Identity) -> SignInRule:
    """The rule that lets a person sign in.

    Raises:
        NotAllowed: none does.
    """
    rule = rule_for(rules, identity)
    if rule is None:
        raise NotAllowed(
            "You are signed in at the company's account, and no rule of this gateway lets you use "
            "it. Ask whoever runs it to add one of your groups."
        )
    if not rule.enabled:
        raise NotAllowed("Your access to this gateway is disabled.")
    return rule


class SignIns:
    """Sign-ins, sessions and signing keys in one store, for `actor`."""

    def __init__(
        self,
        store: PeopleStore,
        cipher: AesGcmCipher,
        settings: SignIn,
        actor: Actor,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._cipher = cipher
        self._settings = settings
        self._actor = actor
        self._clock = clock

    def begin_device(self, client: str) -> tuple[str, DeviceGrant]:
        """Begin a sign-in of a program. Returns its device code.

        Raises:
            Busy: too many have begun.
        """
        now, code = self._clock(), new_secret()
        with self._store.deciding():
            self._check_room()
            grant = DeviceGrant(user_code=new_user_code(), client=client, expires=now + CODE_S)
            self._save(tokens.digest(code), grant)
        return code, grant

    def enter(self, user_code: str, browser: str) -> tuple[str, Visit] | None:
        """Begin the visit to the provider of a person who entered a user code, in the browser with
        this digest. Returns its state; None if there is no such code."""
        with self._store.deciding():
            id, grant = self._find(alias=tokens.digest(user_code))
            after = entered(grant, self._clock()) if isinstance(grant, DeviceGrant) else None
            if after is None:
                return None
            self._save(id, after)
            return self.visit(browser, device=id)

    def visit(
        self,
        browser: str,
        *,
        device: str = "",
        redirect: Redirect | None = None,
        dashboard: bool = False,
    ) -> tuple[str, Visit]:
        """Begin a visit to the provider. Returns its state.

        Raises:
            Busy: too many sign-ins have begun.
        """
        self._check_room()
        state = new_secret()
        visit = Visit(
            browser=browser,
            nonce=new_secret(),
            verifier=new_secret(),
            expires=self._clock() + CODE_S,
            device=device,
            redirect=redirect,
            dashboard=dashboard,
        )
        self._save(tokens.digest(state), visit)
        return state, visit

    def returned(self, state: str, browser: str) -> Visit | None:
        """The visit from which a browser returns; None if it has none, or returned before. Another
        return is refused from now on."""
        with self._store.deciding():
            visit = self._visit(state, browser)
            if visit is None or not visit.nonce:
                return None
            self._save(tokens.digest(state), replace(visit, nonce="", verifier=""))
        return visit

    def signed_in(
        self, state: str, granted: Granted
    ) -> tuple[str, Visit, DeviceGrant | None] | None:
        """Note who returned from a visit, and give what this person is to approve, by another
        state: the former was in addresses, and whoever began the visit knows it.

        Raises:
            NotAllowed: the person may not sign in; the program receives `access_denied`.
        """
        id = tokens.digest(state)
        with self._store.deciding():
            _, visit = self._find(id)
            if not isinstance(visit, Visit) or visit.granted is not None:
                return None
            device = self._device(visit)
        try:
            self._check_person(granted.identity)
            rule = check_allowed(self._settings.rules, granted.identity)
            if visit.dashboard and rule.role is None:
                raise NotAllowed("No rule of this gateway lets you open the dashboard.")
        except NotAllowed:
            self.refused(visit)
            change = Change(action="refuse sign_in", kind="person", name=granted.identity.name)
            self._store.record(self._actor, [change])
            raise
        visit = replace(visit, granted=granted, nonce="", verifier="")
        state = new_secret()
        with self._store.deciding():
            self._store.drop_pending(id)
            self._save(tokens.digest(state), visit)
        return state, visit, device

    def dashboard_code(self, state: str, visit: Visit) -> str:
        """The code by which the page of the dashboard begins a session for the person of a
        visit."""
        code = new_secret()
        self._store.drop_pending(tokens.digest(state))
        self._save(
            tokens.digest(code), replace(visit, expires=self._clock() + AUTHORIZATION_CODE_S)
        )
        return code

    def begin_dashboard(self, code: str, browser: str) -> Opened:
        """A session for the dashboard, by its code, once, in the browser of the visit.

        Raises:
            InvalidGrant: the code is none.
            NotAllowed: the person may not sign in any more.
        """
        with self._store.deciding():
            visit = self._visit(code, browser)
            if visit is None or not visit.dashboard or visit.granted is None or visit.nonce:
                raise InvalidGrant("the code is none")
            self._store.drop_pending(tokens.digest(code))
            return self._open(visit.granted, DASHBOARD)

    def refused(self, visit: Visit) -> None:
        """The person of a visit may not, or does not want to, sign in."""
        device = self._device(visit)
        if device is not None and device.status == "pending":
            self._save(visit.device, replace(device, status="denied"))

    def decide(self, state: str, browser: str, *, approves: bool) -> tuple[Visit, str] | None:
        """Let the program of a visit have what it asked for, or not. Returns the visit, and the
        authorization code if there is one; None if there is nothing to be decided."""
        with self._store.deciding():
            visit = self._visit(state, browser)
            if visit is None or visit.granted is None or visit.dashboard:
                return None
            self._store.drop_pending(tokens.digest(state))
            device, code = self._device(visit), ""
            client = visit.redirect.client if visit.redirect else device.client if device else ""
            if device is not None:
                if device.status != "pending" or self._clock() >= device.expires:
                    return None
                granted = visit.granted if approves else None
                status = "approved" if approves else "denied"
                self._save(visit.device, replace(device, status=status, granted=granted))
            elif visit.redirect is not None and approves:
                code = new_secret()
                self._save(
                    tokens.digest(code),
                    CodeGrant(
                        redirect=visit.redirect,
                        granted=visit.granted,
                        expires=self._clock() + AUTHORIZATION_CODE_S,
                    ),
                )
            elif visit.redirect is None:
                return None
            self._record("approve" if approves else "deny", visit.granted.identity.name, client)
        return visit, code

    def poll(self, code: str) -> Opened | str:
        """What a device code gives: a session, once; else the error that is the answer.

        Raises:
            NotAllowed: the person may not sign in any more.
        """
        id = tokens.digest(code)
        with self._store.deciding():
            _, grant = self._find(id)
            if not isinstance(grant, DeviceGrant):
                return "invalid_grant"
            after, error = polled(grant, self._clock())
            if error:
                self._save(id, after)
                return error
            assert grant.granted is not None
            self._store.drop_pending(id)
            return self._open(grant.granted, grant.client)

    def redeem(self, code: str, client: str, uri: str, verifier: str) -> Opened:
        """What an authorization code gives: a session, once. A second use ends that session.

        Raises:
            InvalidGrant: nothing.
            NotAllowed: the person may not sign in any more.
        """
        id = tokens.digest(code)
        with self._store.deciding():
            _, grant = self._find(id)
            if not isinstance(grant, CodeGrant):
                raise InvalidGrant("the code is none")
            if not grant.session:
                asked = grant.redirect
                if (asked.client, asked.uri) != (client, uri):
                    raise InvalidGrant("the code is of another program")
                if challenge_of(verifier) != asked.challenge:
                    raise InvalidGrant("the verifier is wrong")
                if self._clock() >= grant.expires:
                    raise InvalidGrant("the code has expired")
                opened = self._open(grant.granted, client)
                kept = replace(
                    grant, session=opened.session.id, expires=self._clock() + _USED_CODE_S
                )
                self._save(id, kept)
                return opened
            session = self._store.session(grant.session)
            if session is not None:
                self._end(session, "reuse code")
        raise InvalidGrant("the code was used before")

    def begin_refresh(self, token: str) -> tuple[Opened, Asking | None]:
        """Replace a refresh token. The provider has to be asked where there is an `Asking`.

        Raises:
            InvalidGrant: it is none; one that was replaced long ago ends its session.
        """
        now = self._clock()
        # What is found out must stay, although it is an error.
        with self._store.deciding():
            try:
                return self._refreshed(token, now)
            except InvalidGrant as error:
                refused = error
        raise refused

    def _refreshed(self, token: str, now: float) -> tuple[Opened, Asking | None]:
        session, person, kept = self.read_session(self._store.session, token)
        match tokens.presented(session, kept.key, token, now):
            case Presented.FORGED:
                raise InvalidGrant("it was never issued")
            case Presented.REUSED:
                self._end(session, "reuse refresh_token")
                raise InvalidGrant("it was replaced before: its session is ended")
        if tokens.is_idle(session, now):
            self._end(session, "refuse refresh")
            raise InvalidGrant("its session was not used for too long")
        self._check_refresh(session, person)
        following = tokens.next_refresh_token(session.id, kept.key, token)
        if tokens.digest(token) == session.refresh:
            session = replace(
                session, refresh=tokens.digest(following), former=session.refresh, rotated=now
            )
        session, asking = self._asked(session, person, kept, now)
        self._store.save_session(session)
        return Opened(session, person, following), asking

    def begin_confirming(self, id: str) -> Asking | None:
        """That the provider has to be asked about a session of the dashboard; None if it need not.

        Raises:
            InvalidGrant: the session has ended, or ends now.
        """
        with self._store.deciding():
            try:
                session, person = self._living(id)
                self._check_refresh(session, person)
                kept = self.secrets_of(session)
                session, asking = self._asked(session, person, kept, self._clock())
                self._store.save_session(session)
                return asking
            except InvalidGrant as error:
                refused = error
        raise refused

    def _asked(
        self, session: StoredSession, person: StoredPerson, kept: SessionSecrets, now: float
    ) -> tuple[StoredSession, Asking | None]:
        """A session whose person is to be confirmed, and how the provider is asked if it was not
        just now and nobody else does.

        Raises:
            InvalidGrant: there is nothing to ask it by, and the sign-in is too long ago.
        """
        confirmed = abs(now - session.renewed) < _CONFIRMED_S and session.failing is None
        if confirmed or 0 <= session.asking - now <= _ASKING_S:
            return session, None
        if kept.provider is not None:
            granted = Granted(identity=person.identity, provider=kept.provider)
            return replace(session, asking=now + _ASKING_S), Asking(granted)
        if now - session.signed_in > self._settings.max_login_age_s:
            self._end(session, "refuse refresh")
            raise InvalidGrant("the sign-in is too long ago")
        return session, None

    def read_session(
        self, find: Callable[[str], StoredSession | None], token: str
    ) -> tuple[StoredSession, StoredPerson, SessionSecrets]:
        """The session that a refresh token names, its person and its secrets.

        Raises:
            InvalidGrant: it names none that has not ended.
        """
        id = tokens.session_of(token)
        session = None if id is None else find(id)
        if session is None or session.ended is not None:
            raise InvalidGrant("it is of no session")
        person = self._store.person(session.person)
        if person is None:
            raise InvalidGrant("it is of nobody")
        return session, person, self.secrets_of(session)

    def secrets_of(self, session: StoredSession) -> SessionSecrets:
        """The secrets of a session.

        Raises:
            InvalidGrant: they were encrypted with a key that is gone.
        """
        try:
            return _read_secrets(self._cipher.open_sign_in(session.sealed, session.id))
        except SealError:
            raise InvalidGrant("it is encrypted with a former storage key") from None

    def _check_refresh(self, session: StoredSession, person: StoredPerson) -> None:
        try:
            self._check_person(person.identity)
        except NotAllowed as error:
            self._end(session, "refuse refresh")
            raise InvalidGrant(str(error)) from None

    def renewed(self, id: str, granted: Granted) -> StoredPerson:
        """The provider has confirmed the person of a session.

        Raises:
            InvalidGrant: the session has ended, or the person may not any more.
        """
        with self._store.deciding():
            session, person = self._living(id)
            kept = replace(self.secrets_of(session), provider=granted.provider)
            session = replace(
                session,
                renewed=self._clock(),
                failing=None,
                asking=0.0,
                sealed=self._cipher.seal_sign_in(_encode(kept), id),
            )
            self._store.save_session(session)
            # The name stays, which limits and usage are counted by.
            identity = granted.identity
            if identity != person.identity:
                person = replace(person, identity=identity)
                self._store.save_person(person)
            refused: InvalidGrant | None = None
            try:
                self._check_refresh(session, person)
            except InvalidGrant as error:
                refused = error
        if refused is not None:
            raise refused
        return person

    def unconfirmed(self, id: str) -> None:
        """The provider could not be asked about a session.

        Raises:
            InvalidGrant: that has gone on for too long.
        """
        now = self._clock()
        with self._store.deciding():
            session, _ = self._living(id)
            failing = now if session.failing is None else session.failing
            self._store.save_session(replace(session, failing=failing, asking=0.0))
        if now - failing > self._settings.idp_grace_s:
            raise InvalidGrant("the provider could not be asked for too long")

    def end(self, id: str, action: str) -> bool:
        """End a session. Returns whether there was one."""
        with self._store.deciding():
            session = self._store.session(id)
            if session is None or session.ended is not None:
                return False
            self._end(session, action)
        return True

    def end_by(self, token: str, action: str) -> bool:
        """End the session of a refresh token that was issued. Returns whether there was one."""
        try:
            session, _, kept = self.read_session(self._store.session, token)
        except InvalidGrant:
            return False
        if tokens.presented(session, kept.key, token, self._clock()) is Presented.FORGED:
            return False
        return self.end(session.id, action)

    def ensure_signing_key(self, issuer: str) -> Sequence[SigningKey]:
        """All signing keys, with a new one if that is due."""
        now = self._clock()
        with self._store.deciding():
            found = self._store.signing_keys()
            known = tokens.AccessTokens(issuer, {key.id: key for key in found}, self._cipher)
            if known.is_due(now):
                self._store.save_signing_key(tokens.new_signing_key(self._cipher, now))
            return self._store.signing_keys()

    def _open(self, granted: Granted, client: str) -> Opened:
        """Begin a session."""
        now, identity = self._clock(), granted.identity
        known = self._check_person(identity)
        id = tokens.new_session_id()
        secrets = SessionSecrets(new_secret().encode()[:32], granted.provider)
        refresh = tokens.first_refresh_token(id, secrets.key)
        created = now if known is None else known.created
        name = self._free_name(identity) if known is None else known.name
        person = StoredPerson(
            id=identity.id, name=name, identity=identity, created=created, seen=now
        )
        living = sorted(self._store.sessions(person.id), key=lambda one: one.rotated)
        for former in living[: max(0, len(living) + 1 - MOST_SESSIONS)]:
            self._store.save_session(replace(former, ended=now))
        session = StoredSession(
            id=id,
            person=person.id,
            client=client,
            refresh=tokens.digest(refresh),
            rotated=now,
            signed_in=now,
            renewed=now,
            sealed=self._cipher.seal_sign_in(_encode(secrets), id),
        )
        self._store.save_person(person)
        self._store.save_session(session)
        self._record("sign_in", person.name, client)
        return Opened(session, person, refresh)

    def _check_person(self, identity: Identity) -> StoredPerson | None:
        """The person as known, if it is.

        Raises:
            NotAllowed: the person may not sign in.
        """
        check_allowed(self._settings.rules, identity)
        known = self._store.person(identity.id)
        if known is not None and not known.enabled:
            raise NotAllowed("Your access to this gateway is disabled.")
        return known

    def _free_name(self, identity: Identity) -> str:
        """The name of somebody new. Where an address is given to another person, or a company has
        another provider, it is one that nobody has yet: limits and usage are counted by it."""
        name = identity.name
        return name if self._store.person_named(name) is None else f"{name}:{identity.id[:16]}"

    def _living(self, id: str) -> tuple[StoredSession, StoredPerson]:
        session = self._store.session(id)
        person = None if session is None else self._store.person(session.person)
        if session is None or session.ended is not None or person is None:
            raise InvalidGrant("its session has ended")
        return session, person

    def _end(self, session: StoredSession, action: str) -> None:
        person = self._store.person(session.person)
        self._store.save_session(replace(session, ended=self._clock()))
        self._record(action, "" if person is None else person.name, session.client)

    def _record(self, action: str, name: str, client: str) -> None:
        actor = replace(self._actor, who=name or self._actor.who)
        after = {"client": client} if client else None
        self._store.record(actor, [Change(action=action, kind="person", name=name, after=after)])

    def _visit(self, state: str, browser: str) -> Visit | None:
        _, visit = self._find(tokens.digest(state))
        if not isinstance(visit, Visit) or visit.browser != browser:
            return None
        return visit if self._clock() < visit.expires else None

    def _device(self, visit: Visit) -> DeviceGrant | None:
        _, device = self._find(visit.device) if visit.device else ("", None)
        return device if isinstance(device, DeviceGrant) else None

    def _find(self, id: str = "", alias: str = "") -> tuple[str, Grant | None]:
        found = self._store.pending(id, alias)
        if found is None:
            return "", None
        try:
            return found.id, _read_grant(self._cipher.open_sign_in(found.sealed, found.id))
        except SealError:
            return "", None

    def _save(self, id: str, grant: Grant) -> None:
        alias = tokens.digest(grant.user_code) if isinstance(grant, DeviceGrant) else ""
        sealed = self._cipher.seal_sign_in(_encode(grant), id)
        # A minute more, in which the answer is that it has expired, not that there is none.
        pending = Pending(id=id, alias=alias, expires=grant.expires + 60.0, sealed=sealed)
        self._store.save_pending(pending)

    def _check_room(self) -> None:
        if self._store.count_pending() >= MOST_PENDING:
            raise Busy
